//! Hostile clients of the soak, each in a process of its own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use thalweg::dist::{ClusterOptions, Session};
use thalweg::prelude::*;

/// Environment variable of a client's kind and target: `KIND HOST:PORT`.
pub const CLIENT: &str = "THALWEG_SOAK_CLIENT";

/// Connections of one client.
const CONNECTIONS: usize = 50;
/// Time that idle connections are held.
const IDLE_TIME: Duration = Duration::from_secs(10);
/// Bytes of empty nodes that a small message expands to.
const EXPANDED_BYTES: usize = 160 << 20;

#[test]
#[ignore = "the body of a client's process, which the soak starts"]
fn a_client() {
    let told = std::env::var(CLIENT).unwrap();
    let (kind, address) = told.split_once(' ').unwrap();
    match kind {
        "garbage" => garbage(address),
        "idle" => idle(address),
        "bomb" => bomb(address),
        "vanish" => vanish(address),
        "large" => large(address),
        other => panic!("what is {other}?"),
    }
}

/// The beginning of a connection of HTTP/2, and frames.
struct Frames(Vec<u8>);

impl Frames {
    fn new() -> Frames {
        let mut frames = Frames(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec());
        frames.push(4, 0, 0, &[]);
        frames
    }

    fn push(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = (payload.len() as u32).to_be_bytes();
        self.0.extend_from_slice(&length[1..]);
        self.0.extend([kind, flags]);
        self.0.extend(stream.to_be_bytes());
        self.0.extend_from_slice(payload);
    }
}

fn garbage(address: &str) {
    for i in 0..CONNECTIONS {
        let Ok(mut stream) = TcpStream::connect(address) else {
            continue;
        };
        // Knuth's linear congruential generator.
        let mut state = i as u64 + 1;
        let mut noise = vec![0u8; 4096];
        for byte in &mut noise {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
        // A closed connection is a valid answer.
        let _ = match i % 3 {
            0 => stream.write_all(&noise),
            1 => {
                let mut frames = Frames::new();
                frames.push(1, 4, 1, &noise[..512]);
                stream.write_all(&frames.0)
            }
            _ => {
                let mut frames = Frames::new();
                frames.0.extend_from_slice(&noise);
                stream.write_all(&frames.0)
            }
        };
    }
}

fn idle(address: &str) {
    let all: Vec<_> = (0..4 * CONNECTIONS)
        .filter_map(|_| TcpStream::connect(address).ok())
        .collect();
    std::thread::sleep(IDLE_TIME);
    drop(all);
}

/// A header of HPACK that is not kept, of short texts.
fn header(name: &str, value: &str) -> Vec<u8> {
    let mut all = vec![0, name.len() as u8];
    all.extend_from_slice(name.as_bytes());
    all.push(value.len() as u8);
    all.extend_from_slice(value.as_bytes());
    all
}

/// Creates a session with many empty nodes, which compress well.
fn bomb(address: &str) {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    // The graph is field 1; its nodes are field 1, and empty.
    let mut head = vec![0x0a];
    let mut length = EXPANDED_BYTES as u64;
    while length >= 0x80 {
        head.push(length as u8 | 0x80);
        length >>= 7;
    }
    head.push(length as u8);
    packed.write_all(&head).unwrap();
    let nodes = [0x0au8, 0].repeat(1 << 15);
    for _ in 0..EXPANDED_BYTES / nodes.len() {
        packed.write_all(&nodes).unwrap();
    }
    let packed = packed.finish().unwrap();
    let mut message = vec![1];
    message.extend((packed.len() as u32).to_be_bytes());
    message.extend_from_slice(&packed);

    let Ok(mut stream) = TcpStream::connect(address) else {
        return;
    };
    // The server then sends its settings with the window size.
    if stream.write_all(&Frames::new().0).is_err() {
        return;
    }
    std::thread::sleep(IDLE_TIME / 20);
    let mut frames = Frames(Vec::new());
    frames.push(4, 1, 0, &[]);
    let headers = [
        header(":method", "POST"),
        header(":scheme", "http"),
        header(":path", "/tensorflow.MasterService/CreateSession"),
        header(":authority", address),
        header("content-type", "application/grpc"),
        header("grpc-encoding", "gzip"),
        header("te", "trailers"),
    ];
    frames.push(1, 4, 1, &headers.concat());
    for (i, part) in message.chunks(16 << 10).enumerate() {
        let last = (i + 1) * (16 << 10) >= message.len();
        frames.push(0, u8::from(last), 1, part);
    }
    // A closed connection means that the server applied its limit.
    let _ = stream.write_all(&frames.0);
    let _ = stream.set_read_timeout(Some(IDLE_TIME));
    // The call ends with the connection.
    let _ = stream.read_to_end(&mut Vec::new());
}

fn options() -> ClusterOptions {
    ClusterOptions::new()
        .device_filter("/job:ps")
        .protection(super::tasks::keys())
}

/// Opens sessions, and ends without closing them.
fn vanish(address: &str) {
    let g = Graph::new();
    let y = g.constant(1.0f32) + 1.0;
    let mut all = Vec::new();
    for _ in 0..10 {
        if let Ok(session) = Session::connect(&format!("grpc://{address}"), &g, options()) {
            let _ = session.run::<f32>(y, []);
            all.push(session);
        }
    }
    std::process::abort();
}

/// Requests four TiB, which the server must refuse.
fn large(address: &str) {
    let g = Graph::new();
    let size = g.placeholder("size", DType::I32, [2]);
    let y = g.op("Fill").input(size).input(g.constant(1.0f32)).output();
    let y = y.sum();
    let Ok(session) = Session::connect(&format!("grpc://{address}"), &g, options()) else {
        // The server may be killed at any time.
        return;
    };
    let fed = size.feed(Tensor::vector(&[1i32 << 20, 1 << 20]));
    let refused = session.run::<f32>(y, [fed]).unwrap_err();
    let said = refused.cause.is_loss() || refused.message.contains("memory");
    assert!(said, "{refused}");
}
