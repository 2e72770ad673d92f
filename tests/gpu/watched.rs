//! The watcher of emulated kernels, on kernels with one mistake each.

use thalweg_device::gpu::{Arg, Launch, Launches, Source};
use thalweg_tensor::{DType, Tensor};
use thalweg_tests::emulated::{Checks, Emulated, has_compiler};

static SOURCE: Source = Source {
    name: "mistakes",
    text: r#"
#include "thalweg.cuh"

// Each thread takes the element of the next one, by way of shared memory.
KERNEL(Correct, const f32* in, f32* out, f32* scratch) {
    __shared__ f32 shared[64];
    shared[threadIdx.x] = in[first()];
    __syncthreads();
    out[first()] = shared[(threadIdx.x + 1) % 64];
}
KERNEL(ReadsBeforeBarrier, const f32* in, f32* out, f32* scratch) {
    __shared__ f32 shared[64];
    shared[threadIdx.x] = in[first()];
    out[first()] = shared[(threadIdx.x + 1) % 64];
}
KERNEL(WritesBeforeBarrier, const f32* in, f32* out, f32* scratch) {
    __shared__ f32 shared[64];
    shared[threadIdx.x] = in[first()];
    __syncthreads();
    const f32 next = shared[(threadIdx.x + 1) % 64];
    shared[threadIdx.x] = next;
    out[first()] = next;
}
KERNEL(WritesOneElement, const f32* in, f32* out, f32* scratch) { out[0] = in[0]; }
KERNEL(WritesOneElementOfBlock, const f32* in, f32* out, f32* scratch) {
    if (threadIdx.x == 0) out[0] = in[0];
}
KERNEL(ReadsOtherBlock, const f32* in, f32* out, f32* scratch) {
    out[first()] = in[first()];
    if (threadIdx.x == 0) scratch[blockIdx.x] = out[(first() + 64) % 128];
}
KERNEL(ReadsUnwrittenShared, const f32* in, f32* out, f32* scratch) {
    __shared__ f32 shared[64];
    if (blockIdx.x == 0) shared[threadIdx.x] = in[first()];
    out[first()] = shared[threadIdx.x];
}
KERNEL(ReadsUnwrittenScratch, const f32* in, f32* out, f32* scratch) { out[first()] = scratch[threadIdx.x]; }
KERNEL(ReadsBeyondInput, const f32* in, f32* out, f32* scratch) { out[first()] = in[first() + 1]; }
KERNEL(WritesBeyondOutput, const f32* in, f32* out, f32* scratch) { out[first() * 2] = in[first()]; }
KERNEL(ReadsBeyondItsArray, const f32* in, f32* out, f32* scratch) {
    f32 own[3] = {in[0], in[1], in[2]};
    for (unsigned i = 0; i <= in[0] + 3; ++i) out[first()] = own[i];
}
KERNEL(ReadsUnaligned, const f32* in, f32* out, f32* scratch) {
    if (first() == 0) *(Pack<f32, 4>*)out = *(const Pack<f32, 4>*)(in + 1);
}
"#,
};

/// Runs a function with two blocks of 64 threads.
fn run(emulated: &Emulated, name: &'static str) -> Result<(), String> {
    let launch = Launch {
        blocks: 2,
        threads: 64,
        ..Launch::over(128, &SOURCE, name, &[DType::F32])
    };
    let launches = Launches {
        scratch: 256,
        ..Launches::from(launch.input(0).output(0).arg(Arg::Scratch(0)))
    };
    let memory = || Tensor::from_bytes(DType::F32, &[128], &[0; 512]).unwrap();
    emulated.run_launches(&launches, &[memory()], &[memory()])
}

#[test]
fn a_kernels_mistakes_are_found_with_their_lines() {
    if !has_compiler() {
        return;
    }
    let emulated = Emulated::new(Checks::Watched);
    run(&emulated, "Correct").unwrap();
    let mistakes = [
        (
            "ReadsBeforeBarrier",
            "of shared memory, which nobody has written",
        ),
        (
            "WritesBeforeBarrier",
            "of shared memory, which another thread reads without a barrier between",
        ),
        (
            "WritesOneElement",
            "writes byte 0 of output 0, which thread 0 writes without a barrier between",
        ),
        (
            "WritesOneElementOfBlock",
            "thread 0 of block 1 writes byte 0 of output 0, which another block writes",
        ),
        ("ReadsOtherBlock", "which another block"),
        ("ReadsUnwrittenShared", "thread 0 of block 1 reads byte"),
        (
            "ReadsUnwrittenScratch",
            "reads byte 0 of scratch memory, which nobody has written",
        ),
        (
            "ReadsBeyondInput",
            "thread 63 of block 1 reads 4 bytes out of bounds",
        ),
        (
            "WritesBeyondOutput",
            "thread 0 of block 1 writes 4 bytes out of bounds",
        ),
        ("ReadsBeyondItsArray", "accesses an array beyond its end"),
        ("ReadsUnaligned", "no multiple of 16"),
    ];
    for (name, expected) in mistakes {
        let found = run(&emulated, name).unwrap_err();
        assert!(found.contains(expected), "{name}: {found}");
        let all: Vec<&str> = SOURCE.text.lines().collect();
        let begin = all.iter().position(|l| l.contains(name)).unwrap();
        let after = all[begin + 1..].iter();
        let length = after.take_while(|l| !l.starts_with("KERNEL")).count();
        let found: Vec<&str> = found.split([' ', '\n', ',']).collect();
        let named = (begin + 1..=begin + 1 + length).map(|l| format!("mistakes.cu:{l}"));
        assert!(
            named.into_iter().any(|l| found.contains(&l.as_str())),
            "{name}: {found:?}"
        );
    }
}
