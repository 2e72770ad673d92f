//! Launches as data: macros, grids, arguments; names and texts of errors.

use super::*;
use crate::reduction::ReduceOp;

#[test]
fn macros_tell_a_source_its_types() {
    for (types, large, macros) in [
        (&[][..], false, &[][..]),
        (&[DType::F32], false, &["T_TYPE=f32", "T_FLOAT=1"]),
        (&[DType::I64], true, &["T_TYPE=i64", "INDEX_64=1"]),
        (&[DType::Bool], false, &["T_TYPE=bool", "T_BOOL=1"]),
        (
            &[DType::I8, DType::BF16],
            false,
            &["T_TYPE=i8", "U_TYPE=bf16", "U_FLOAT=1"],
        ),
    ] {
        assert_eq!(function(types, large).macros(), macros, "{types:?}");
    }
    let multi_tensor = Function {
        multi_tensor: true,
        ..function(&[], false)
    };
    assert_eq!(multi_tensor.macros(), ["MULTI_TENSOR=1"]);
}

#[test]
fn a_launch_that_fills_a_gpu_is_not_one_of_a_multi_tensor_launch() {
    for (elements, expected) in [(1, true), (4095 * 1024, true), (4096 * 1024, false)] {
        let launch = Launch::over(elements, &SOURCE, "Tanh", &[DType::F32]);
        assert!(!launch.multi_tensor);
        assert_eq!(launch.multi_tensor().multi_tensor, expected, "{elements}");
    }
}

#[test]
fn a_grid_follows_from_the_number_of_elements_alone() {
    for (elements, blocks, large) in [
        (0, 1, false),
        (1, 1, false),
        (1024, 1, false),
        (1025, 2, false),
        (4096 * 1024, 4096, false),
        (4096 * 1024 + 1, 4096, false),
        ((1 << 31) - 1, 4096, false),
        (1 << 31, 4096, true),
        (usize::MAX, 4096, true),
    ] {
        let launch = Launch::over(elements, &SOURCE, "Tanh", &[DType::F32]);
        let found = (launch.blocks, launch.threads, launch.function.large);
        assert_eq!(found, (blocks, THREADS, large), "{elements}");
    }
}

#[test]
fn arguments_of_a_launch_keep_their_order_and_the_width_of_the_index() {
    let launch = |elements| {
        let launch = Launch::over(elements, &SOURCE, "Tanh", &[DType::F32]);
        launch
            .input(1)
            .output(0)
            .value(1.5f32)
            .indices(&[2, 3])
            .arg(Arg::Status)
    };
    let value = |bytes: &[u8]| Arg::Value(bytes.into());
    let narrow = [2u32.to_ne_bytes(), 3u32.to_ne_bytes()].concat();
    let wide = [2u64.to_ne_bytes(), 3u64.to_ne_bytes()].concat();
    for (elements, indices) in [(10, narrow), (1 << 31, wide)] {
        let expected = [
            Arg::Input(1),
            Arg::Output(0),
            value(&1.5f32.to_ne_bytes()),
            value(&indices),
            Arg::Status,
        ];
        assert_eq!(launch(elements).args[..], expected, "{elements}");
    }
    let launches = Launches::from(launch(10));
    assert_eq!(
        (launches.list.len(), launches.scratch, launches.assigns),
        (1, 0, false)
    );
}

#[test]
fn arguments_begin_at_multiples_of_eight_bytes() {
    let mut arguments = Arguments::default();
    arguments.push(&7u64.to_ne_bytes());
    arguments.push(&[1, 2, 3]);
    arguments.push(&[9; 12]);
    arguments.push(&5u32.to_ne_bytes());
    let mut short = [0; 8];
    short[..3].copy_from_slice(&[1, 2, 3]);
    let mut last = [0; 8];
    last[..4].copy_from_slice(&5u32.to_ne_bytes());
    let words = [
        7,
        u64::from_ne_bytes(short),
        u64::from_ne_bytes([9; 8]),
        u64::from_ne_bytes(last),
    ];
    assert_eq!(arguments.words().collect::<Vec<_>>(), words);
    let pointers: Vec<usize> = arguments.pointers().map(|p| p as usize).collect();
    let offsets: Vec<usize> = pointers.iter().map(|p| p - pointers[0]).collect();
    assert_eq!((offsets, pointers[0] % 8), (vec![0, 8, 16, 32], 0));
}

#[test]
fn commands_collectives_and_engines_have_names_for_errors() {
    let copy = Command::Copy {
        from: 0,
        to: 256,
        bytes: 1,
    };
    let fill = Command::Fill {
        to: 0,
        byte: 255,
        bytes: 1,
    };
    let names = [
        copy,
        fill,
        Command::Join { communicator: 0 },
        Command::Replay { graph: 0 },
    ];
    let names = names.map(|c| c.name());
    assert_eq!(
        names,
        [
            "copy",
            "fill memory",
            "wait for collectives",
            "launch a graph"
        ]
    );
    let sum = GpuCollectiveKind::Reduce {
        op: ReduceOp::Sum,
        factor: 1.0,
    };
    let kinds = [sum, GpuCollectiveKind::Broadcast { root: 0 }].map(|k| k.name());
    assert_eq!(kinds, ["all-reduce", "broadcast"]);
    for (algorithm, text) in [
        (Algorithm::Direct, "engine 7"),
        (Algorithm::Winograd, "engine 7 (Winograd)"),
        (Algorithm::Fft, "engine 7 (FFT)"),
    ] {
        let engine = Engine {
            number: 7,
            algorithm,
        };
        assert_eq!(engine.to_string(), text);
    }
}

#[test]
fn each_error_names_the_missing_part_and_a_remedy() {
    let missing = |folders: &[&str]| GpuError::Missing {
        name: "cuDNN",
        files: vec!["libcudnn.so.9".to_owned(), "libcudnn.so".to_owned()],
        folders: folders.iter().map(Into::into).collect(),
        advice: "install it",
    };
    for (error, text) in [
        (
            missing(&[]),
            "cuDNN is missing: looked for libcudnn.so.9, libcudnn.so where the system's loader looks (LD_LIBRARY_PATH is not set); install it",
        ),
        (
            missing(&["/a", "/b"]),
            "cuDNN is missing: looked for libcudnn.so.9, libcudnn.so in /a, /b and where the system's loader looks; install it",
        ),
        (
            GpuError::Lacking {
                name: "NCCL",
                function: "ncclCommFinalize",
                advice: "update it",
            },
            "NCCL has no function ncclCommFinalize: update it",
        ),
        (
            GpuError::NoSuchCard {
                number: 2,
                count: 1,
            },
            "there is no GPU number 2: the driver finds 1, counted from 0",
        ),
        (
            GpuError::OldDriver {
                found: 11_080,
                needed: 12,
            },
            "the driver is one for CUDA 11.8, and CUDA 12.0 is the least for this compiler of kernels: update the NVIDIA driver",
        ),
        (
            GpuError::OutOfMemory { bytes: 64 },
            "the GPU has no 64 bytes of memory free: make the batch or the model smaller",
        ),
        (
            GpuError::Compile {
                file: "unary",
                architecture: "sm_90".to_owned(),
                options: vec!["-O3".to_owned()],
                log: "line 7".to_owned(),
            },
            "kernels/unary.cu does not compile for sm_90 with [\"-O3\"]:\nline 7",
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }
}
