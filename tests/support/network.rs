//! Emulated hosts on this machine, joined by cables that tests make slow, lossy, or pull out.
//!
//! A host is a network namespace of the kernel, with addresses, ports and TCP of its own. Its packets come out of a TUN
//! device, and a thread of the test carries them to the other hosts. Namespaces have no names: they end with the test
//! and the processes that were started in them, however those end. Requires root, `/dev/net/tun` and `ip`.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::libc;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::time::TimeSpec;
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

/// Effect of a host's cable on all packets that the host sends. A pulled cable also drops incoming packets.
#[derive(Clone, Copy, Debug)]
pub struct Cable {
    /// Latency of every packet.
    pub delay: Duration,
    /// Share of the packets that is lost.
    pub loss: f64,
    /// Bandwidth in bits a second; 0 for no limit.
    pub rate: u64,
    /// Most bytes that wait in front of a slow cable.
    pub queue: usize,
    /// Drops all packets.
    pub pulled: bool,
}

impl Default for Cable {
    fn default() -> Cable {
        Cable {
            delay: Duration::from_millis(1),
            loss: 0.0,
            rate: 0,
            queue: DEFAULT_QUEUE,
            pulled: false,
        }
    }
}

/// Default queue in front of a slow cable, in bytes: that of a switch.
const DEFAULT_QUEUE: usize = 256 << 10;
/// Interval of the carrying thread's checks for the end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The longest packet.
const PACKET: usize = 1500;

/// Hosts that reach each other.
pub struct Network {
    /// Their namespaces.
    hosts: Vec<File>,
    cables: Arc<Mutex<Vec<Cable>>>,
    /// Number of packets lost so far.
    lost: Arc<AtomicUsize>,
    ended: Arc<AtomicBool>,
    carrier: Option<JoinHandle<()>>,
}

impl Network {
    /// Makes hosts with good cables. Prints a message and returns `None` where this machine does not allow it; with
    /// `REQUIRE_NETNS=1`, panics.
    pub fn new(hosts: usize) -> Option<Network> {
        let made: io::Result<Vec<(File, File)>> = (0..hosts).map(host).collect();
        let (hosts, lines): (Vec<File>, Vec<File>) = match made {
            Ok(made) => made.into_iter().unzip(),
            Err(e) => {
                let required = std::env::var("REQUIRE_NETNS").is_ok_and(|v| v == "1");
                assert!(!required, "REQUIRE_NETNS=1: no network namespaces: {e}");
                eprintln!("SKIPPED: no network namespaces: {e}; they take root and iproute2");
                return None;
            }
        };
        let cables = Arc::new(Mutex::new(vec![Cable::default(); lines.len()]));
        let ended = Arc::new(AtomicBool::new(false));
        let (known, end) = (cables.clone(), ended.clone());
        let lost = Arc::<AtomicUsize>::default();
        let counted = lost.clone();
        let carrier = std::thread::spawn(move || {
            let mut switch = Switch::new(lines, counted);
            while !end.load(Ordering::Relaxed) {
                switch.carry(&known);
            }
        });
        Some(Network {
            hosts,
            cables,
            lost,
            ended,
            carrier: Some(carrier),
        })
    }

    /// IP address of a host.
    pub fn address(&self, host: usize) -> String {
        address(host)
    }

    /// Number of packets lost so far.
    pub fn lost(&self) -> usize {
        self.lost.load(Ordering::Relaxed)
    }

    /// Changes the cable of a host.
    pub fn change(&self, host: usize, change: impl FnOnce(&mut Cable)) {
        change(&mut self.cables.lock().unwrap()[host]);
    }

    /// Changes all cables.
    pub fn change_all(&self, change: impl Fn(&mut Cable)) {
        self.cables.lock().unwrap().iter_mut().for_each(change);
    }

    /// Starts a process on a host.
    pub fn start(&self, host: usize, command: &mut Command) -> io::Result<Child> {
        let host = &self.hosts[host];
        in_other_namespace(|| {
            setns(host, CloneFlags::CLONE_NEWNET)?;
            command.spawn()
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(carrier) = self.carrier.take() {
            // A panic of that thread was printed where it happened.
            let _ = carrier.join();
        }
    }
}

fn address(host: usize) -> String {
    format!("10.77.0.{}", host + 1)
}

/// Runs this on a thread of its own; only that thread moves to another namespace.
fn in_other_namespace<T: Send>(run: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

/// A new namespace, and the end of its cable.
fn host(number: usize) -> io::Result<(File, File)> {
    let ip = |args: &str| {
        let mut command = Command::new("ip");
        let output = command.args(args.split(' ')).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let done = output.status.success();
        done.then_some(())
            .ok_or_else(|| io::Error::other(format!("ip {args}: {said}")))
    };
    in_other_namespace(|| {
        unshare(CloneFlags::CLONE_NEWNET)?;
        let line = tun(c"cable")?;
        ip(&format!("address add {}/24 dev cable", address(number)))?;
        ip("link set cable up")?;
        ip("link set lo up")?;
        Ok((File::open("/proc/thread-self/ns/net")?, line))
    })
}

/// The kernel's `struct ifreq`, for TUNSETIFF.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: i16,
    rest: [u8; 22],
}

nix::ioctl_readwrite_bad!(
    /// Attaches a TUN device to this file.
    set_device,
    nix::request_code_write!(b'T', 202, size_of::<libc::c_int>()),
    InterfaceRequest
);

/// A device whose packets this file reads and writes, in the namespace of this thread.
fn tun(name: &std::ffi::CStr) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    let mut request = InterfaceRequest {
        name: [0; libc::IFNAMSIZ],
        flags: (libc::IFF_TUN | libc::IFF_NO_PI) as i16,
        rest: [0; 22],
    };
    request.name[..name.count_bytes()].copy_from_slice(name.to_bytes());
    // SAFETY: the file is a TUN device's, and the request has the kernel's size and lives through the call, which alone
    // uses it meanwhile.
    unsafe { set_device(file.as_raw_fd(), &raw mut request) }?;
    Ok(file)
}

/// A packet in transit.
struct Packet {
    arrives: Instant,
    to: usize,
    bytes: Vec<u8>,
}

/// One host's line: packets leave it in the order in which they came.
struct HostLine {
    end: File,
    under_way: VecDeque<Packet>,
    /// Time at which all waiting packets will have been sent.
    free: Instant,
}

/// Carries packets from line to line.
struct Switch {
    lines: Vec<HostLine>,
    random: TestRng,
    lost: Arc<AtomicUsize>,
}

impl Switch {
    fn new(ends: Vec<File>, lost: Arc<AtomicUsize>) -> Switch {
        let line = |end| HostLine {
            end,
            under_way: VecDeque::new(),
            free: Instant::now(),
        };
        Switch {
            lines: ends.into_iter().map(line).collect(),
            random: TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]),
            lost,
        }
    }

    /// Waits for packets or due deliveries, and handles them.
    fn carry(&mut self, cables: &Mutex<Vec<Cable>>) {
        let due = self.lines.iter().filter_map(|l| l.under_way.front());
        let wait = due.map(|p| p.arrives.saturating_duration_since(Instant::now()));
        let wait = wait.min().unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL);
        let all = self.lines.iter();
        let mut files: Vec<PollFd> = all
            .map(|l| PollFd::new(l.end.as_fd(), PollFlags::POLLIN))
            .collect();
        // A signal only shortens the wait.
        let _ = ppoll(&mut files, Some(TimeSpec::from_duration(wait)), None);
        let cables = cables.lock().unwrap().clone();
        for from in 0..self.lines.len() {
            let mut packet = [0; PACKET];
            while let Ok(length) = self.lines[from].end.read(&mut packet) {
                self.send(from, &packet[..length], &cables);
            }
        }
        self.deliver(&cables);
    }

    fn send(&mut self, from: usize, packet: &[u8], cables: &[Cable]) {
        let cable = cables[from];
        let lost = f64::from(self.random.next_u32()) < cable.loss * f64::from(u32::MAX);
        // Packets other than IPv4 are the kernels' own announcements.
        let to = (0..self.lines.len()).find(|&h| {
            packet.first().is_some_and(|b| b >> 4 == 4)
                && packet.get(16..20) == Some(&octets(h)[..])
        });
        if lost && to.is_some() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        let Some(to) = to.filter(|_| !lost && !cable.pulled) else {
            return;
        };
        let line = &mut self.lines[from];
        let now = Instant::now();
        if cable.rate > 0 {
            let time =
                |bytes: usize| Duration::from_secs_f64(bytes as f64 * 8.0 / cable.rate as f64);
            if line.free.saturating_duration_since(now) > time(cable.queue) {
                return;
            }
            line.free = line.free.max(now) + time(packet.len());
        }
        line.under_way.push_back(Packet {
            arrives: line.free.max(now) + cable.delay,
            to,
            bytes: packet.to_vec(),
        });
    }

    fn deliver(&mut self, cables: &[Cable]) {
        let now = Instant::now();
        for from in 0..self.lines.len() {
            let line = &mut self.lines[from].under_way;
            let mut arrived = Vec::new();
            while line.front().is_some_and(|p| p.arrives <= now) {
                arrived.extend(line.pop_front());
            }
            for packet in arrived {
                if !cables[from].pulled && !cables[packet.to].pulled {
                    // A packet that the host does not accept is lost, as on any line.
                    let _ = self.lines[packet.to].end.write(&packet.bytes);
                }
            }
        }
    }
}

fn octets(host: usize) -> [u8; 4] {
    let address: std::net::Ipv4Addr = address(host).parse().unwrap();
    address.octets()
}
