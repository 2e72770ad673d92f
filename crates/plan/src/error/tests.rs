use std::time::Duration;

use thalweg_device::Cpu;
use thalweg_graph::Reason;
use thalweg_graph::op::Effect;
use thalweg_graph::place::PlaceReason;

use super::*;
use crate::testing::{bare_node, bare_op};

static OP: thalweg_graph::OpDef = bare_op("Op", Effect::Pure);

fn origin() -> Origin {
    Origin::Other("model.rs:7".into())
}

fn mistake(node: &str) -> GraphError {
    GraphError {
        node: node.to_owned(),
        op: "Op".to_owned(),
        origin: origin(),
        reason: Reason::Name,
    }
}

fn unplaced() -> Box<PlaceError> {
    Box::new(PlaceError {
        node: "n".to_owned(),
        op: "Op",
        origin: origin(),
        reason: PlaceReason::NoDevices,
    })
}

fn device() -> DeviceSpec {
    Cpu::local(1)
}

fn out_of_memory(limit: Option<usize>, whole: Option<usize>) -> SessionError {
    SessionError::Memory {
        node: "n".to_owned(),
        op: "Op".to_owned(),
        origin: origin(),
        dtype: DType::F32,
        shape: Shape::known(&[2, 3]),
        device: device(),
        limit,
        used: 40,
        whole,
    }
}

#[test]
fn each_error_names_its_subject_its_line_and_a_remedy() {
    let (node, op) = (|| "n".to_owned(), || "Op".to_owned());
    let source = KernelError::NoRanks;
    let cpu = "/job:localhost/replica:0/task:0/device:CPU:1";
    let cases: Vec<(SessionError, String)> = vec![
        (
            SessionError::OtherGraph { what: "feed", name: node() },
            "feed 'n' belongs to another graph than the session's: build both in one".to_owned(),
        ),
        (
            SessionError::NoSuchName { what: "fetch", name: node(), help: "it has m".to_owned() },
            "there is no 'n' to fetch: it has m".to_owned(),
        ),
        (
            SessionError::MissingFeed {
                node: node(),
                dtype: DType::I32,
                shape: Shape::known(&[4]),
                origin: origin(),
            },
            "placeholder 'n' (i32[4]), made at model.rs:7, must be fed for what is fetched".to_owned(),
        ),
        (
            SessionError::FeedCount { expected: 1, found: 3 },
            "the callable takes 1 feed, not 3".to_owned(),
        ),
        (
            SessionError::Gpu { place: unplaced(), found: "Two cards.".to_owned() },
            format!("{}\nTwo cards.", unplaced()),
        ),
        (SessionError::from(unplaced()), unplaced().to_string()),
        (
            SessionError::Device { device: device(), source: GpuError::NoCommunicators },
            format!("{cpu}: {}", GpuError::NoCommunicators),
        ),
        (
            SessionError::Threads { device: device(), asked: 8, given: 1 },
            format!(
                "{cpu} got 1 of 8 threads: allow this process more threads (ulimit -u, pids.max), or ask for fewer"
            ),
        ),
        (
            SessionError::PlanMemory { bytes: 70, limit: Some(64) },
            "the plan of this step takes 70 bytes, and there is no memory for it within 64 bytes: raise the limit, or \
             run fewer different steps at a time".to_owned(),
        ),
        (
            SessionError::Cycle { node: node() },
            "node 'n' waits for itself: the graph has a cycle".to_owned(),
        ),
        (
            SessionError::UnknownOp { node: node(), op: op(), origin: origin() },
            "node 'n' (Op), made at model.rs:7: the session does not have this op: give it its op set \
             (SessionOptions::ops)".to_owned(),
        ),
        (
            SessionError::NoKernel {
                node: node(),
                op: op(),
                origin: origin(),
                device: "GPU".to_owned(),
                dtypes: "f32, i8".to_owned(),
            },
            "node 'n' (Op), made at model.rs:7: there is no kernel for it on a GPU, with f32, i8: Cast its inputs"
                .to_owned(),
        ),
        (
            SessionError::Kernel { node: node(), op: op(), origin: origin(), source: source.clone() },
            format!("node 'n' (Op), made at model.rs:7: {source}"),
        ),
        (
            SessionError::Collectives { first: node(), source: source.clone() },
            format!("before its first collective, 'n', this plan was not agreed on: {source}"),
        ),
        (
            SessionError::NotFinite {
                node: node(),
                op: op(),
                origin: origin(),
                index: 1,
                element: 5,
                value: f64::INFINITY,
            },
            "node 'n' (Op), made at model.rs:7: element 5 of output 1 is inf, the first value of the step that is not finite"
                .to_owned(),
        ),
        (
            SessionError::Timeout { limit: Duration::from_millis(20), next: node() },
            "the step did not end within its 20ms: it was stopped before node 'n'".to_owned(),
        ),
        (
            SessionError::Cancelled { next: node() },
            "the step was cancelled before node 'n'".to_owned(),
        ),
        (
            SessionError::Result { what: "loss".to_owned(), reason: "it is f32".to_owned() },
            "loss: it is f32".to_owned(),
        ),
    ];
    for (error, text) in cases {
        assert_eq!(error.to_string(), text);
        // `main` prints an error by its Debug form.
        assert_eq!(format!("{error:?}"), text);
    }
}

#[test]
fn an_error_of_memory_tells_the_limit_and_the_step_where_there_are_any() {
    let prefix = "node 'n' (Op), made at model.rs:7: /job:localhost/replica:0/task:0/device:CPU:1 has no memory for its f32[2,3]";
    let limit = " (40 of the 64 bytes that it may use are in use)";
    let whole = ", the largest value of a step that takes 99 bytes at once";
    let advice = ": feed a smaller batch, or place it elsewhere";
    for (error, middle) in [
        (out_of_memory(None, None), String::new()),
        (out_of_memory(Some(64), None), limit.to_owned()),
        (out_of_memory(None, Some(99)), whole.to_owned()),
        (out_of_memory(Some(64), Some(99)), format!("{limit}{whole}")),
    ] {
        assert_eq!(error.to_string(), format!("{prefix}{middle}{advice}"));
    }
}

#[test]
fn an_error_of_memory_is_filled_in_from_the_device() {
    let cpu = Device::Cpu(Cpu::new(1).named(device(), Some(64)));
    assert!(cpu.memory().take(40));
    let node = bare_node(&OP, &[], &[]);
    let shape = Shape::known(&[2, 3]);
    let fact = Fact::new(DType::F32, shape.clone());
    let expected = |whole| {
        let mut error = out_of_memory(Some(64), whole);
        if let SessionError::Memory { node, origin, .. } = &mut error {
            (*node, *origin) = ("Op".to_owned(), Origin::Other("a test".into()));
        }
        error
    };
    assert_eq!(memory(&cpu, &node, DType::F32, shape), expected(None));
    assert_eq!(memory_of_step(&cpu, &node, &fact, 99), expected(Some(99)));
    cpu.memory().give(40);
}

#[test]
fn of_several_mistakes_the_first_is_shown_with_the_number_of_others() {
    let name = "made at model.rs:7: a name must match [A-Za-z0-9.][A-Za-z0-9_.\\-/]*";
    for (count, more) in [
        (1, ""),
        (2, " (and 1 more mistake in this graph)"),
        (4, " (and 3 more mistakes in this graph)"),
    ] {
        let all: Vec<GraphError> = (0..count).map(|i| mistake(&format!("n{i}"))).collect();
        let error = SessionError::from(all);
        assert_eq!(error.to_string(), format!("node 'n0' (Op), {name}{more}"));
    }
    let none = SessionError::from(Vec::new());
    assert!(matches!(
        none,
        SessionError::NoSuchOutput { what: "fetch", .. }
    ));
}

#[test]
fn the_end_of_an_input_is_recognised_inside_of_functions() {
    let node = bare_node(&OP, &[], &[]);
    let within = |source| KernelError::Function {
        function: "f".to_owned(),
        node: "n".to_owned(),
        op: "Op".to_owned(),
        origin: String::new(),
        source: Box::new(source),
    };
    let end = || KernelError::OutOfRange("the queue is empty".to_owned());
    for (source, expected) in [
        (end(), true),
        (within(end()), true),
        (within(within(end())), true),
        (KernelError::Cancelled("closed".to_owned()), false),
        (within(KernelError::Stopped), false),
    ] {
        assert_eq!(
            failed(&node, source.clone()).is_out_of_range(),
            expected,
            "{source}"
        );
    }
    assert!(
        !SessionError::Cancelled {
            next: String::new()
        }
        .is_out_of_range()
    );
}

#[test]
fn a_panic_of_any_payload_names_the_node() {
    let node = bare_node(&OP, &[], &[]);
    let text = |panic: Box<dyn Any + Send>| panicked(&node, &*panic).to_string();
    let expected = |message: &str| {
        format!(
            "node 'Op' (Op), made at a test: its kernel panicked: {message}. This is a defect: please report it"
        )
    };
    assert_eq!(text(Box::new("overflow")), expected("overflow"));
    assert_eq!(text(Box::new("at 3".to_owned())), expected("at 3"));
    assert_eq!(text(Box::new(3)), expected(""));
}
