//! Seeds of the targets of graphs and of calls: names and bytes.

#[cfg(feature = "cluster")]
use crate::client;
#[cfg(feature = "cluster")]
use crate::raw::PATHS;
use crate::steps::BASES;

use thalweg_graph::Graph;
use thalweg_ops::NewGraph;

/// The most cases of an op.
const MAX_CASES: usize = 3;
/// Nodes of each op that has no case.
const NODES_WITHOUT_CASE: u8 = 12;
/// An op with one input, to build other ops on.
const UNARY_OP: &str = "Relu";

/// Cases of every op of the table, every golden graph, and every other op on valid inputs.
pub fn steps() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    let mut simple = 0;
    for number in 0..BASES.count() {
        let name = BASES.name(number);
        if name == UNARY_OP {
            simple = number;
        }
        let (cases, [high, low]) = (BASES.cases(number), (number as u16).to_be_bytes());
        for k in 0..MAX_CASES.min(cases) {
            let (which, fed) = ((k * cases / MAX_CASES) as u8, [0xff, 0, 0xff][k]);
            let header = [k as u8 & 1, fed, [0, 0, 0xff][k], high, low, which];
            seeds.push((format!("{name}-{k}"), header.to_vec()));
        }
    }
    let [high, low] = (simple as u16).to_be_bytes();
    let known: Vec<&str> = (0..BASES.count()).map(|n| BASES.name(n)).collect();
    for (number, op) in Graph::new().registry().iter().enumerate() {
        let [above, below] = (number as u16).to_be_bytes();
        for k in (0..NODES_WITHOUT_CASE).filter(|_| !known.contains(&op.name)) {
            let grown = [8, above, below, k.wrapping_mul(37), k.wrapping_mul(101)];
            seeds.push((
                format!("{}-{k}", op.name),
                [&[0, 1, 0, high, low, 0][..], &grown, &[k]].concat(),
            ));
        }
    }
    seeds
}

/// Valid calls of the master's service, plain and compressed.
#[cfg(feature = "cluster")]
pub fn server_calls() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (number, path) in PATHS.iter().enumerate() {
        let name = path.rsplit('/').next().unwrap_or_default();
        let message = client::message(name);
        for how in 0..4 {
            let bytes = [&[number as u8, how, 0], &message[..]].concat();
            seeds.push((format!("{name}-{how}"), bytes));
        }
        // A few bytes that decompress to many.
        seeds.push((
            format!("{name}-much"),
            [number as u8, 1, 19, 0x0a, 0x00].to_vec(),
        ));
    }
    seeds
}

/// First bytes of connections: HTTP/2 frames after the preface, other protocols.
#[cfg(feature = "cluster")]
pub fn connections() -> Vec<(String, Vec<u8>)> {
    let frame = |kind: u8, flags: u8, stream: u8, body: &[u8]| {
        [
            &[0, 0, body.len() as u8, kind, flags, 0, 0, 0, stream],
            body,
        ]
        .concat()
    };
    // A call's headers, by the numbers of HPACK's table and as text.
    let mut headers = vec![0x83, 0x86, 0x04, PATHS[6].len() as u8];
    headers.extend(PATHS[6].bytes());
    headers.extend(b"\x01\x01a\x0f\x10\x10application/grpc\x00\x02te\x08trailers");
    let call = frame(1, 4, 1, &headers);
    let first: [(&str, Vec<u8>); 12] = [
        ("call", [call.clone(), frame(0, 1, 1, &[0; 5])].concat()),
        (
            "call-in-pieces",
            [frame(1, 0, 1, &headers[..9]), frame(9, 4, 1, &headers[9..])].concat(),
        ),
        (
            "headers-without-end",
            [
                frame(1, 0, 1, &headers[..9]),
                frame(9, 0, 1, b""),
                frame(9, 0, 1, b""),
            ]
            .concat(),
        ),
        ("data-of-no-stream", frame(0, 1, 3, &[0; 5])),
        ("padding", frame(0, 8, 1, &[255, 0])),
        ("ping", frame(6, 0, 0, &[1; 8])),
        (
            "settings",
            frame(4, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff, 0, 5, 0, 0, 0, 1]),
        ),
        ("window", frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff])),
        (
            "resets",
            [
                call.clone(),
                frame(3, 0, 1, &[0, 0, 0, 8]),
                call.clone(),
                frame(3, 0, 1, &[0; 4]),
            ]
            .concat(),
        ),
        ("going", frame(7, 0, 0, &[0; 8])),
        ("push", frame(5, 4, 1, &[0, 0, 0, 2])),
        ("unknown", frame(0x42, 0xff, 9, b"what")),
    ];
    let greeted = first.map(|(name, bytes)| (name.to_owned(), [&[1], &bytes[..]].concat()));
    let strangers: [(&str, &[u8]); 3] = [
        ("http", b"\0GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("tls", b"\0\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03"),
        ("preface", b"\0PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ];
    greeted
        .into_iter()
        .chain(strangers.map(|(name, bytes)| (name.to_owned(), bytes.to_vec())))
        .collect()
}
