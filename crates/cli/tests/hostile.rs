//! Hostile graphs that need more memory than there is: an error, and no crash.

#![cfg(target_os = "linux")]

mod support;

use std::process::Command;

use prost::Message;
use support::Folder;
use thalweg_graph::{Graph, Output};
use thalweg_graphdef::{ExportOptions, export};
use thalweg_ops::{NewGraph, SourceOps};
use thalweg_tensor::{DType, Tensor};

/// Memory limit of the program, in KiB.
const MEMORY: &str = "2000000";

/// Checks that the program reports a graph that it cannot run within [`MEMORY`].
fn check_refused(name: &str, build: impl Fn(&Graph)) {
    check_refused_under(&format!("ulimit -v {MEMORY}"), "no memory for", name, build);
}

/// Checks that the program reports a graph that it cannot run under a limit.
fn check_refused_under(limit: &str, expected: &str, name: &str, build: impl Fn(&Graph)) {
    let g = Graph::new();
    build(&g);
    let folder = Folder::new(&format!("hostile-{name}"));
    let graph = export(&g, &ExportOptions::default()).unwrap();
    std::fs::write(folder.join("graph.pb"), graph.encode_to_vec()).unwrap();
    // A limit may be that of another user, who writes the file too.
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), all).unwrap();
    let limited = format!("{limit}; exec \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_thalweg")])
        .args(["run", "--threads", "2", "--fetch", "y", "--out"])
        .args([folder.at("out.npz"), folder.at("graph.pb")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{name}: {:?}: {said}",
        output.status
    );
    let told = said.starts_with("error: ") && said.contains(expected);
    assert!(told, "{name}: {said}");
}

fn ints<'g>(g: &'g Graph, values: &[i64]) -> Output<'g> {
    g.constant(Tensor::vector(values))
}

fn int(g: &Graph, value: i64) -> Output<'_> {
    g.constant(value)
}

fn join<'g>(g: &'g Graph, all: &[Output<'g>]) -> Output<'g> {
    g.op("StringJoin").inputs(all.to_vec()).output()
}

#[test]
fn strings_that_double_45_times_are_an_error() {
    check_refused("join", |g| {
        let mut x = g.constant("sixteen bytes ..");
        for _ in 0..45 {
            x = join(g, &[x, x]);
        }
        let _ = g.op("Identity").input(x).name("y").output();
    });
}

#[test]
fn many_strings_of_few_bytes_are_an_error() {
    check_refused("fill", |g| {
        let shape = ints(g, &[1 << 28]);
        let node = g.op("Fill").input(shape).input(g.constant("x"));
        let _ = node.name("y").output();
    });
    check_refused("tile", |g| {
        let long = vec![b'x'; 1 << 20];
        let x = g.constant(Tensor::strings(&[1], &[long]).unwrap());
        let node = g.op("Tile").input(x).input(ints(g, &[1 << 20]));
        let _ = node.name("y").output();
    });
    check_refused("split", |g| {
        let x = g.constant(Tensor::strings(&[1], &[vec![b'x'; 1 << 20]]).unwrap());
        let x = g.op("Tile").input(x).input(ints(g, &[100])).output();
        let node = g.op("StringSplit").input(x).input(g.constant(""));
        let _ = node.name("y").output();
    });
}

#[test]
fn replacements_that_grow_are_an_error() {
    check_refused("replace", |g| {
        let x = g.constant(Tensor::strings(&[], &[vec![b'x'; 1 << 18]]).unwrap());
        let by = "\\0".repeat(1 << 16);
        let node = g.op("RegexReplace").input(x).input(g.constant("x*"));
        let _ = node.input(g.constant(&*by)).name("y").output();
    });
}

#[test]
fn small_inputs_with_huge_outputs_are_an_error() {
    let large = 1i64 << 40;
    check_refused("numbers", |g| {
        let _ = g
            .op("Fill")
            .input(ints(g, &[large]))
            .input(g.constant(1.0f32))
            .name("y")
            .output();
    });
    check_refused("range", |g| {
        let range = g.op("Range").input(int(g, 0)).input(int(g, large));
        let _ = range.input(int(g, 1)).name("y").output();
    });
    check_refused("linspace", |g| {
        let node = g
            .op("LinSpace")
            .input(g.constant(0.0f32))
            .input(g.constant(1.0f32));
        let _ = node.input(int(g, large)).name("y").output();
    });
    check_refused("one-hot", |g| {
        let node = g
            .op("OneHot")
            .input(ints(g, &[1, 2]))
            .input(g.constant(i32::MAX));
        let node = node.input(g.constant(1.0f32)).input(g.constant(0.0f32));
        let _ = node.attr("axis", -1i64).name("y").output();
    });
    check_refused("pad", |g| {
        let pads = g.constant([[0i64, large]]);
        let _ = g
            .op("Pad")
            .input(g.constant([1.0f32]))
            .input(pads)
            .name("y")
            .output();
    });
    check_refused("broadcast", |g| {
        let node = g.op("BroadcastTo").input(g.constant(1.0f32));
        let _ = node.input(ints(g, &[large])).name("y").output();
    });
    check_refused("repeat", |g| {
        let node = g.op("Tile").input(g.constant([1.0f32]));
        let _ = node.input(ints(g, &[large])).name("y").output();
    });
    check_refused("stitch", |g| {
        let at = g.constant([i32::MAX - 1]);
        let node = g
            .op("DynamicStitch")
            .inputs([at])
            .inputs([g.constant([1.0f32])]);
        let _ = node.attr("N", 1i64).name("y").output();
    });
    check_refused("zeros", |g| {
        let shape = g.constant([1 << 15, 1 << 15, 1i32]);
        let node = g.op("Empty").input(shape).attr("dtype", DType::F64);
        let _ = node.attr("init", true).name("y").output();
    });
    check_refused("random", |g| {
        let node = g.op("RandomUniform").input(ints(g, &[large]));
        let _ = node.attr("dtype", DType::F32).name("y").output();
    });
    check_refused("transposed", |g| {
        let sizes = g.constant([1i32, 1 << 15, 1 << 15, 1]);
        let filter = g.constant(Tensor::zeros(DType::F32, &[1, 1, 1, 1]).unwrap());
        let grad = Tensor::zeros(DType::F32, &[1, 1, 1, 1]).unwrap();
        let node = g.op("Conv2DBackpropInput").input(sizes).input(filter);
        let node = node
            .input(g.constant(grad))
            .attr("strides", vec![1i64, 1 << 15, 1 << 15, 1]);
        let _ = node.attr("padding", "VALID").name("y").output();
    });
}

#[test]
fn resources_beyond_memory_are_an_error() {
    check_refused("array", |g| {
        let node = g.op("TensorArrayV3").input(g.constant(1i32 << 24));
        let array = node.attr("dtype", DType::F32).build();
        let size = g
            .op("TensorArraySizeV3")
            .input(array.output(0))
            .input(array.output(1));
        let _ = size.name("y").output();
    });
    check_refused("growing", |g| {
        let node = g.op("TensorArrayV3").input(g.constant(0i32));
        let node = node.attr("dtype", DType::F32).attr("dynamic_size", true);
        let array = node.build();
        let write = g
            .op("TensorArrayWriteV3")
            .input(array.output(0))
            .input(g.constant((1i32 << 24) - 1))
            .input(g.constant(1.0f32))
            .input(array.output(1));
        let _ = write.name("y").output();
    });
}

/// Values whose own bytes are few beside the memory that keeps them: the allocator's failures end a process, so the
/// account has to be full first.
#[test]
fn many_small_values_under_a_limit_of_the_address_space_are_an_error() {
    let check = |name: &str, build: &dyn Fn(&Graph)| {
        check_refused_under("ulimit -v 300000", "no memory", name, build);
    };
    let many = 1i64 << 21;
    fn zeros(g: &Graph, count: i64) -> Output<'_> {
        let node = g.op("Fill").input(ints(g, &[count]));
        node.input(g.constant(0.0f32)).output()
    }
    fn numbers(g: &Graph, count: i64) -> Output<'_> {
        let range = g.op("Range").input(int(g, 0)).input(int(g, count));
        range.input(int(g, 1)).output()
    }
    check("queue", &|g| {
        let queue = g
            .op("FIFOQueueV2")
            .attr("component_types", vec![DType::F32]);
        let queue = queue.attr("capacity", -1i64).output();
        let all = g.op("QueueEnqueueManyV2").input(queue);
        let all = all.inputs([zeros(g, many)]).build();
        let size = g.op("QueueSizeV2").input(queue).control(all);
        let _ = size.name("y").output();
    });
    check("list", &|g| {
        let list = g.op("TensorListFromTensor").input(zeros(g, many));
        let list = list.input(g.constant(Tensor::vector(&[0i32; 0]))).output();
        let _ = g.op("TensorListLength").input(list).name("y").output();
    });
    check("strings", &|g| {
        let strings = g.op("AsString").input(numbers(g, many)).output();
        let _ = g.op("Unique").input(strings).name("y").output();
    });
    check("unique", &|g| {
        let _ = g.op("Unique").input(numbers(g, many)).name("y").output();
    });
    check("difference", &|g| {
        let node = g.op("ListDiff").input(numbers(g, many));
        let _ = node.input(numbers(g, many)).name("y").output();
    });
    check("outputs", &|g| {
        let node = g.op("Unpack").input(zeros(g, 100_000));
        let node = node.attr("num", 100_000i64).build();
        let _ = g
            .op("Identity")
            .input(node.output(99_999))
            .name("y")
            .output();
    });
}

#[test]
fn a_file_larger_than_the_process_may_write_is_an_error() {
    check_refused_under(
        "ulimit -f 100",
        "the file size limit (ulimit -f)",
        "file",
        |g| {
            let node = g
                .op("Fill")
                .input(ints(g, &[1 << 20]))
                .input(g.constant(1.0f64));
            let _ = node.name("y").output();
        },
    );
}

#[test]
fn an_output_beyond_the_file_size_limit_is_an_error() {
    let folder = Folder::new("hostile-output");
    let output = Command::new("sh")
        .args([
            "-c",
            "ulimit -f 0; exec \"$0\" server --show-config > \"$1\"",
        ])
        .args([env!("CARGO_BIN_EXE_thalweg"), &folder.at("out")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some(), "{:?}", output.status);
    assert!(
        !output.status.success() && said.contains("error: "),
        "{said}"
    );
}

/// The limit on threads does not hold for root: another user runs the program then.
#[test]
fn a_limit_on_threads_is_an_error() {
    let root =
        std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    let limit = match root {
        true => {
            "set -- setpriv --reuid 65534 --regid 65534 --clear-groups prlimit --nproc=1 \"$@\""
        }
        false => "ulimit -u 1",
    };
    let mut may = Command::new("setpriv");
    may.args(["--reuid", "65534", "--clear-groups", "prlimit", "--nproc=1"]);
    let may = may
        .args([env!("CARGO_BIN_EXE_thalweg"), "--version"])
        .output();
    if root && !may.is_ok_and(|o| o.status.success()) {
        assert!(
            std::env::var_os("REQUIRE_NPROC").is_none(),
            "no other user can run the program"
        );
        eprintln!("skipped: no other user can run the program");
        return;
    }
    check_refused_under(limit, "(ulimit -u, pids.max)", "threads", |g| {
        let _ = g
            .op("Identity")
            .input(g.constant(1.0f32))
            .name("y")
            .output();
    });
}
