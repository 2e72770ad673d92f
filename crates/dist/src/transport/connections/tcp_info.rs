//! Acknowledged bytes of a TCP connection (`TCP_INFO`).

use std::time::Duration;

use tokio::net::TcpStream;

/// Acknowledgements of the peer's system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AckInfo {
    /// Number of acknowledged bytes since the begin of the connection.
    pub(crate) bytes: u64,
    /// Time limit of an acknowledgement: the smoothed round-trip time plus four times its variation.
    pub(crate) round_trip: Duration,
}

/// A connection that may know its acknowledgements.
pub(crate) trait AckSource {
    /// Returns the acknowledgements. `None` if the system does not report them.
    fn acknowledged(&self) -> Option<AckInfo>;
}

#[cfg(not(target_os = "linux"))]
impl AckSource for TcpStream {
    fn acknowledged(&self) -> Option<AckInfo> {
        None
    }
}

#[cfg(target_os = "linux")]
impl AckSource for TcpStream {
    fn acknowledged(&self) -> Option<AckInfo> {
        linux::acknowledged(self)
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::{AsFd, AsRawFd};

    use super::{AckInfo, Duration};

    /// Length of the kernel's `struct tcp_info` up to the last field that is read here, in bytes.
    const LENGTH: usize = 128;
    /// Offsets of its fields, in bytes: `tcpi_rtt` and `tcpi_rttvar` have four bytes, in microseconds;
    /// `tcpi_bytes_acked` has eight.
    const ROUND_TRIP: usize = 68;
    const VARIATION: usize = 72;
    const ACKNOWLEDGED: usize = 120;

    pub(super) fn acknowledged(socket: &impl AsFd) -> Option<AckInfo> {
        let mut info = [0u8; LENGTH];
        let mut length = LENGTH as libc::socklen_t;
        // SAFETY: the descriptor is open while it is borrowed. The kernel writes at most `length` bytes, which
        // the array has, and says how many it wrote.
        let failed = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        // An older kernel has fewer fields.
        if failed != 0 || (length as usize) < LENGTH {
            return None;
        }
        let micros = |at: usize| {
            let bytes = info[at..at + 4].try_into().ok()?;
            Some(Duration::from_micros(u32::from_ne_bytes(bytes).into()))
        };
        let bytes = info[ACKNOWLEDGED..ACKNOWLEDGED + 8].try_into().ok()?;
        Some(AckInfo {
            bytes: u64::from_ne_bytes(bytes),
            round_trip: micros(ROUND_TRIP)? + 4 * micros(VARIATION)?,
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn tcp_info_counts_acknowledged_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut sender = TcpStream::connect(address).await.unwrap();
        let (mut receiver, _) = listener.accept().await.unwrap();
        let before = sender.acknowledged().unwrap();
        sender.write_all(&[7; 5000]).await.unwrap();
        receiver.read_exact(&mut [0; 5000]).await.unwrap();
        // The response acknowledges all bytes that were read.
        receiver.write_all(&[7]).await.unwrap();
        sender.read_exact(&mut [0]).await.unwrap();
        let after = sender.acknowledged().unwrap();
        assert_eq!(after.bytes - before.bytes, 5000);
        assert!(after.round_trip > Duration::ZERO);
        assert!(after.round_trip < Duration::from_secs(60), "{after:?}");
    }
}
