//! The memory estimate of a message bounds the memory of its decoding.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use proptest::prelude::*;
use prost::Message;
use thalweg_graphdef::messages::{AttrValue, GraphDef, NodeDef, SavedModel, TensorProto};
use thalweg_graphdef::sizes::{Field, Measured, Packed, Table, decoded_bytes};

/// Counts the bytes of a test's thread, and their peak.
struct Counting;

thread_local! {
    static USED: Cell<(i64, i64)> = const { Cell::new((0, 0)) };
}

fn count(bytes: i64) {
    // The end of a thread frees bytes without counting them.
    let _ = USED.try_with(|used| {
        let now = used.get().0 + bytes;
        used.set((now, used.get().1.max(now)));
    });
}

// SAFETY: forwards to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as the caller's.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: as the caller's.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The peak memory of decoding, and the part that the message keeps; `Err` with the peak if
/// decoding fails.
fn measured<M: Message + Default + Measured>(wire: &[u8]) -> Result<(u64, u64), u64> {
    let wire = prost::bytes::Bytes::copy_from_slice(wire);
    let before = USED.get().0;
    USED.set((before, before));
    let decoded = M::decode(wire).map(Box::new);
    let (kept, most) = USED.get();
    let most = (most - before) as u64;
    match decoded {
        Ok(_) => Ok((most, (kept - before) as u64)),
        Err(_) => Err(most),
    }
}

fn estimate<M: Measured>(wire: &[u8]) -> u64 {
    decoded_bytes::<M>(wire, u64::MAX).unwrap()
}

/// Bytes that choose the content of a message.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn next(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        usize::from(*first)
    }
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 127 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

fn delimited(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    varint(u64::from(number) << 3 | 2, out);
    varint(bytes.len() as u64, out);
    out.extend(bytes);
}

/// Random bytes of a message with these fields, each any number of times and in any order.
fn message(table: &Table, choices: &mut Choices<'_>, depth: usize, out: &mut Vec<u8>) {
    let count = choices.next() % 24;
    for _ in 0..count {
        if choices.0.is_empty() {
            return;
        }
        let (number, field) = &table.fields[choices.next() % table.fields.len()];
        let times = if choices.next().is_multiple_of(8) {
            13
        } else {
            1
        };
        for _ in 0..times {
            match field {
                Field::Message(inner) | Field::Messages(inner) | Field::Map(inner) => {
                    let mut bytes = Vec::new();
                    if depth < 12 {
                        message(inner, choices, depth + 1, &mut bytes);
                    }
                    delimited(*number, &bytes, out);
                }
                Field::Bytes | Field::BytesList => {
                    let text = vec![b'a'; choices.next() % 40];
                    delimited(*number, &text, out);
                }
                Field::Number => {
                    varint(u64::from(*number) << 3, out);
                    varint(choices.next() as u64, out);
                }
                Field::Numbers(_, packed) => {
                    let count = choices.next() % 20;
                    let size = match packed {
                        Packed::Varint => count,
                        Packed::Four => 4 * count,
                        Packed::Eight => 8 * count,
                    };
                    delimited(*number, &vec![1; size], out);
                }
            }
        }
    }
}

fn holds<M: Message + Default + Measured>(wire: &[u8]) {
    let estimate = estimate::<M>(wire);
    let (most, error) = match measured::<M>(wire) {
        Ok((most, _)) => (most, 0),
        // The error lists the fields and messages around it.
        Err(most) => (most, 16 << 10),
    };
    assert!(
        most <= estimate + error,
        "{most} bytes were taken, and {estimate} were said"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_estimate_bounds_the_memory_of_messages(
        choices in prop::collection::vec(any::<u8>(), 0..600),
        spoiled in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cut in any::<prop::sample::Index>(),
        cuts in any::<bool>(),
    ) {
        let mut wire = Vec::new();
        message(SavedModel::TABLE, &mut Choices(&choices), 0, &mut wire);
        holds::<SavedModel>(&wire);
        let mut wire = Vec::new();
        message(GraphDef::TABLE, &mut Choices(&choices), 0, &mut wire);
        holds::<GraphDef>(&wire);
        if !wire.is_empty() {
            for (at, byte) in spoiled {
                let at = at.index(wire.len());
                wire[at] = byte;
            }
            if cuts {
                wire.truncate(cut.index(wire.len()));
            }
            holds::<GraphDef>(&wire);
            holds::<AttrValue>(&wire);
        }
    }

    #[test]
    fn the_estimate_bounds_the_memory_of_any_bytes(wire in prop::collection::vec(any::<u8>(), 0..300)) {
        holds::<GraphDef>(&wire);
        holds::<AttrValue>(&wire);
        holds::<TensorProto>(&wire);
    }
}

#[test]
fn many_small_parts_are_counted() {
    let nodes = [10, 0].repeat(100_000);
    holds::<GraphDef>(&nodes);
    assert!(estimate::<GraphDef>(&nodes) > 100_000 * size_of::<NodeDef>() as u64);
    // Each node has a map of one entry, which takes a node of a tree.
    let attrs = [10, 2, 42, 0].repeat(10_000);
    holds::<GraphDef>(&attrs);
    assert!(estimate::<GraphDef>(&attrs) > 10_000 * 2000);
    // A map of any number of entries, in any order. Its twelfth entry splits its node.
    for count in 1..60 {
        for step in [1, 7, 59] {
            let keys = (0..count).map(|n| b'A' + (n * step % 60) as u8);
            let entry = |key| vec![42, 3, 10, 1, key];
            let entries: Vec<u8> = keys.flat_map(entry).collect();
            let mut wire = Vec::new();
            delimited(1, &entries, &mut wire);
            holds::<GraphDef>(&wire);
        }
    }
    // The decoder takes an entry whatever its key says of its form.
    for form in 0..=5 {
        holds::<GraphDef>(&[10, 2, 40 + form, 0].repeat(10_000));
    }
    // A list of a message in pieces is one list.
    let pieces = [
        18, 16, 10, 2, 42, 0, 10, 2, 42, 0, 10, 2, 42, 0, 10, 2, 42, 0,
    ]
    .repeat(3);
    holds::<SavedModel>(&pieces);
    // Numbers, packed and not.
    let mut packed = vec![34, 0xc0, 0x84, 0x3d];
    packed.extend(vec![0; 1_000_000]);
    let floats = [vec![42], packed[1..].to_vec()].concat();
    let ints = [vec![58], packed[1..].to_vec()].concat();
    holds::<TensorProto>(&floats);
    holds::<TensorProto>(&ints);
    holds::<TensorProto>(&[61, 0].repeat(1000));
    holds::<TensorProto>(&[56, 0].repeat(1000));
}

#[test]
fn the_estimate_of_a_graph_is_tight() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let frozen = std::fs::read(folder.join("examples/frozen/softmax.pb")).unwrap();
    let saved = folder.join("tests/golden/graphs/saved_model/saved_model.pb");
    let saved = std::fs::read(saved).unwrap();
    let sizes = [
        (
            estimate::<GraphDef>(&frozen),
            measured::<GraphDef>(&frozen).unwrap(),
        ),
        (
            estimate::<SavedModel>(&saved),
            measured::<SavedModel>(&saved).unwrap(),
        ),
    ];
    for (said, (most, kept)) in sizes {
        assert!(said >= most);
        assert!(said <= 2 * kept, "{said} bytes are said, {kept} are kept");
    }
}

#[test]
fn a_limit_ends_the_count() {
    let nodes = [10, 0].repeat(1000);
    let all = estimate::<GraphDef>(&nodes);
    assert_eq!(decoded_bytes::<GraphDef>(&nodes, all), Ok(all));
    let error = decoded_bytes::<GraphDef>(&nodes, all - 1).unwrap_err();
    assert_eq!(error.limit, all - 1);
}

#[test]
fn messages_as_deep_as_the_decoder_takes_them_are_counted() {
    // A list in a function's attribute in a list, and so on.
    let mut deep = Vec::new();
    for _ in 0..200 {
        let mut func = Vec::new();
        delimited(9, &deep, &mut func);
        deep.clear();
        delimited(1, &func, &mut deep);
        let mut list = Vec::new();
        delimited(10, &deep, &mut list);
        deep = list;
    }
    holds::<AttrValue>(&deep);
    // Nested groups, which are skipped.
    holds::<AttrValue>(&[0xfb; 10_000]);
    holds::<AttrValue>(&vec![0xa3; 100_000]);
}
