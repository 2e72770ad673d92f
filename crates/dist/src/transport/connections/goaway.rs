//! Scans incoming HTTP/2 frames for a GOAWAY without an error: such a close is not a lost task.
//!
//! A client that no longer needs an HTTP/2 connection ends it with a GOAWAY frame (RFC 9113, 6.8). A server may read
//! the end of the connection before it sees the ends of the last calls.

/// Length of the client's connection preface.
const PREFACE: usize = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
/// Length of a frame header: length (3 bytes), type, flags, stream (4 bytes).
const FRAME_HEADER: usize = 9;
/// Frame type of GOAWAY.
const GOAWAY: u8 = 7;
/// Length of a GOAWAY body: last stream and error code, 4 bytes each.
const GOAWAY_BODY: usize = 8;

/// Scanner of the bytes that a server receives on a connection.
pub(super) struct GoawayScanner {
    /// Number of bytes to skip before the next frame header.
    skip: usize,
    frame: [u8; FRAME_HEADER + GOAWAY_BODY],
    have: usize,
}

impl GoawayScanner {
    pub(super) fn new() -> GoawayScanner {
        GoawayScanner {
            skip: PREFACE,
            frame: [0; FRAME_HEADER + GOAWAY_BODY],
            have: 0,
        }
    }

    /// Scans the next bytes. `true` if they complete a GOAWAY without an error.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> bool {
        let mut said = false;
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let [a, b, c, kind, ..] = self.frame;
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            let goes = self.have >= FRAME_HEADER && kind == GOAWAY && length >= GOAWAY_BODY;
            let wanted = if goes {
                FRAME_HEADER + GOAWAY_BODY
            } else {
                FRAME_HEADER
            };
            if self.have == wanted {
                said |= goes && self.frame[FRAME_HEADER + 4..] == [0; 4];
                self.skip = length + FRAME_HEADER - wanted;
                self.have = 0;
            } else if bytes.is_empty() {
                return said;
            } else {
                let taken = bytes.len().min(wanted - self.have);
                self.frame[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
                self.have += taken;
                bytes = &bytes[taken..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32).to_be_bytes();
        [&length[1..], &[kind, 0, 0, 0, 0, 0], body].concat()
    }

    /// Feeds these frames in pieces of this length; `true` if a GOAWAY was found.
    fn said(frames: &[Vec<u8>], piece: usize) -> bool {
        let all = [vec![GOAWAY; PREFACE], frames.concat()].concat();
        let mut goaway = GoawayScanner::new();
        let mut said = false;
        for piece in all.chunks(piece) {
            said |= goaway.feed(piece);
        }
        said
    }

    #[test]
    fn only_a_goaway_without_an_error_ends_a_connection() {
        // Data that looks like a GOAWAY, and frames without a body.
        let data = frame(0, &frame(GOAWAY, &[0; 8]));
        let (empty, short) = (frame(4, &[]), frame(GOAWAY, &[0; 7]));
        let goes = frame(GOAWAY, &[0, 0, 0, 9, 0, 0, 0, 0, b'x']);
        let error = frame(GOAWAY, &[0, 0, 0, 9, 0, 0, 0, 11]);
        for piece in 1..80 {
            let others = [data.clone(), empty.clone(), short.clone(), error.clone()];
            assert!(!said(&others, piece), "{piece}");
            let all = [&others[..], &[goes.clone(), data.clone()]].concat();
            assert!(said(&all, piece), "{piece}");
        }
    }
}
