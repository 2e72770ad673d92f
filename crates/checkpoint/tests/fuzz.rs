//! Random files: no panic, no endless loop, and no more memory than a small multiple of their
//! length.
//!
//! Needs no nightly compiler, as the targets in `fuzz/` do:
//! `FUZZ=1000000 cargo test --release -p thalweg-checkpoint --test fuzz -- --ignored --nocapture`.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::{Folder, golden};
use thalweg_checkpoint::bundle::{data_path, index_path};
use thalweg_checkpoint::npz::NpzReader;
use thalweg_checkpoint::safetensors::SafetensorsReader;
use thalweg_checkpoint::state::CheckpointState;
use thalweg_checkpoint::{BundleReader, SliceSpec, crc, save_weights};
use thalweg_tensor::Tensor;

/// Counts allocated bytes, and their peak.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: forwards to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(used, Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The memory of reading one file is measured, so one is read at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Allowed bytes for each byte of a file, and in addition: for messages about a folder's other
/// checkpoints, and buffers of zip.
const PER_BYTE: usize = 600;
const BESIDE: usize = 2 << 20;

/// Pseudo-random numbers, reproducible. Source: Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit.max(1)
    }

    /// A mutated copy of this file.
    fn changed(&mut self, seed: &[u8], other: &[u8]) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let length = 1 + self.below(8);
            let end = (at + length).min(bytes.len());
            match self.below(8) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..end)),
                2 => {
                    let from = self.below(other.len());
                    let piece = &other[from..(from + 4 * length).min(other.len())];
                    bytes.splice(at..at, piece.iter().copied());
                }
                3 => {
                    let some = [0, 1, 0x7f, 0x80, 0xff][self.below(5)];
                    bytes[at..end].fill(some);
                }
                4 if at < bytes.len() => bytes[at] = self.below(256) as u8,
                5 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                6 => {
                    let count = 1 + self.below(300);
                    let piece = bytes[at..end].repeat(count);
                    bytes.splice(at..at, piece);
                }
                _ if at < bytes.len() => bytes[at] = bytes[at].wrapping_add(1),
                _ => {}
            }
        }
        bytes
    }
}

/// The block of an index that has only one.
fn block_of(index: &[u8]) -> Vec<u8> {
    // The footer begins with the place of the next block.
    let footer = &index[index.len() - 48..];
    let mut at = 0usize;
    for (i, byte) in footer.iter().enumerate() {
        at |= usize::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            break;
        }
    }
    index[..at - 5].to_vec()
}

/// An index of one block, with valid checksums.
fn framed(block: &[u8], kind: u8) -> Vec<u8> {
    let mut file = Vec::new();
    let put = |file: &mut Vec<u8>, block: &[u8], kind: u8| {
        let start = file.len();
        file.extend_from_slice(block);
        file.push(kind);
        let sum = crc::masked(&file[start..]);
        file.extend_from_slice(&sum.to_le_bytes());
        let mut handle = Vec::new();
        for mut number in [start, block.len()] {
            while number >= 0x80 {
                handle.push(number as u8 | 0x80);
                number >>= 7;
            }
            handle.push(number as u8);
        }
        handle
    };
    let handle = put(&mut file, block, kind);
    let meta = put(&mut file, &[0, 0, 0, 0, 1, 0, 0, 0], 0);
    let mut index = vec![0, 1, handle.len() as u8, b'~'];
    index.extend_from_slice(&handle);
    index.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
    let index = put(&mut file, &index, 0);
    let mut footer = [meta, index].concat();
    footer.resize(40, 0);
    footer.extend_from_slice(&0xdb47_7524_8b80_fb57u64.to_le_bytes());
    file.extend_from_slice(&footer);
    file
}

/// Reads all entries of a checkpoint; returns the number of tensors read.
fn read_bundle(prefix: &Path) -> usize {
    let Ok(reader) = BundleReader::open(prefix) else {
        return 0;
    };
    let mut read = 0;
    for entry in reader.entries().take(100) {
        read += usize::from(reader.tensor(&entry.name).is_ok());
        for slice in entry.slices.iter().take(10) {
            let _ = reader.slice(&entry.name, slice);
        }
        if entry.dims.iter().all(|&d| d > 1) {
            let first: Vec<_> = entry.dims.iter().map(|_| Some((1, 1))).collect();
            let _ = SliceSpec::new(&entry.dims, &first).map(|s| reader.slice(&entry.name, &s));
        }
    }
    let _ = reader
        .by_variable_name()
        .map(|names| names.map(|n| n.names().count()));
    read
}

struct Seeds {
    /// Index and data of small checkpoints of one shard.
    bundles: Vec<(Vec<u8>, Vec<u8>)>,
    safetensors: Vec<u8>,
    npz: Vec<u8>,
    deflated: Vec<u8>,
    states: Vec<Vec<u8>>,
}

impl Seeds {
    fn new(folder: &Folder) -> Seeds {
        let golden = golden();
        let names = [
            "dtypes",
            "partitions-12",
            "text_parts",
            "objects/ckpt-3",
            "run/model.ckpt-4",
        ];
        let bundles = names.map(|name| {
            let prefix = golden.join(name);
            let index = std::fs::read(index_path(&prefix)).unwrap();
            (index, std::fs::read(data_path(&prefix, 0, 1)).unwrap())
        });
        let weights = || {
            [
                ("a/kernel", Tensor::from([[1.0f32, 2.0], [3.0, 4.0]])),
                ("step", Tensor::scalar(5i64)),
                ("flags", Tensor::vector(&[true, false])),
            ]
        };
        let saved = |name: &str| {
            let path = folder.join(name);
            save_weights(&path, weights()).unwrap();
            std::fs::read(path).unwrap()
        };
        Seeds {
            bundles: bundles.into(),
            safetensors: saved("seed.safetensors"),
            npz: saved("seed.npz"),
            deflated: include_bytes!("deflated.npz").to_vec(),
            states: ["objects/checkpoint", "run/checkpoint"]
                .map(|name| std::fs::read(golden.join(name)).unwrap())
                .into(),
        }
    }
}

/// Reads one random file; returns the number of tensors read, and the bytes of the file.
fn read_one(random: &mut Random, seeds: &Seeds, folder: &Folder) -> (usize, usize) {
    let prefix = folder.join("m");
    let (index, data) = &seeds.bundles[random.below(seeds.bundles.len())];
    let (_, other) = &seeds.bundles[random.below(seeds.bundles.len())];
    let write = |path: &Path, bytes: &[u8]| std::fs::write(path, bytes).unwrap();
    let state = &seeds.states[random.below(seeds.states.len())];
    let kind = random.below(9);
    let bytes = match kind {
        0 => random.changed(index, other),
        1 | 2 => framed(&random.changed(&block_of(index), other), 0),
        3 => {
            let packed = snap::raw::Encoder::new()
                .compress_vec(&block_of(index))
                .unwrap();
            framed(&random.changed(&packed, other), 1)
        }
        4 => random.changed(data, other),
        5 => random.changed(&seeds.safetensors, other),
        6 => random.changed(&seeds.npz, &seeds.deflated),
        7 => random.changed(&seeds.deflated, &seeds.npz),
        _ => random.changed(state, other),
    };
    let length = bytes.len();
    let before = USED.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let mut size = length;
    let read = match kind {
        0..=4 => {
            let (index, data) = if kind == 4 {
                (index, &bytes)
            } else {
                (&bytes, data)
            };
            write(&index_path(&prefix), index);
            write(&data_path(&prefix, 0, 1), data);
            size = index.len() + data.len();
            read_bundle(&prefix)
        }
        5 => {
            let path = folder.join("m.safetensors");
            write(&path, &bytes);
            SafetensorsReader::open(&path).map_or(0, |file| {
                let names: Vec<_> = file.names().map(str::to_owned).collect();
                names
                    .iter()
                    .filter(|name| file.tensor(name).is_ok())
                    .count()
            })
        }
        6 | 7 => {
            let path = folder.join("m.npz");
            write(&path, &bytes);
            NpzReader::open(&path).map_or(0, |file| {
                let names: Vec<_> = file.names().map(str::to_owned).collect();
                names
                    .iter()
                    .filter(|name| file.tensor(name).is_ok())
                    .count()
            })
        }
        _ => {
            let _ = SliceSpec::parse(&String::from_utf8_lossy(&bytes));
            usize::from(CheckpointState::parse(&bytes).is_ok())
        }
    };
    let most = MOST.load(Ordering::Relaxed) - before;
    assert!(
        most <= PER_BYTE * size + BESIDE,
        "a file of {size} bytes (kind {kind}) took {most}"
    );
    (read, length)
}

fn run(inputs: usize, start: u64) {
    let _one = ONE.lock().unwrap();
    let folder = Folder::in_memory("fuzz");
    let seeds = Seeds::new(&folder);
    let mut random = Random(start | 1);
    let (mut read, mut bytes) = (0, 0);
    for number in 0..inputs {
        let state = random.0;
        let one = || read_one(&mut random, &seeds, &folder);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(one));
        let (some, length) = result.unwrap_or_else(|e| {
            eprintln!("input {number} failed; alone: FUZZ=1 FUZZ_START={state}");
            std::panic::resume_unwind(e)
        });
        read += some;
        bytes += length;
    }
    println!(
        "{inputs} made-up files of {bytes} bytes from {start}: {read} tensors were read all the same"
    );
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn some_random_files_are_errors() {
    run(3000, 0x9e37_79b9_7f4a_7c15);
}

#[test]
#[ignore = "as many as FUZZ says"]
fn many_random_files_are_errors() {
    let start = number("FUZZ_START").unwrap_or(88_172_645_463_325_252);
    run(number("FUZZ").unwrap_or(100_000) as usize, start);
}
