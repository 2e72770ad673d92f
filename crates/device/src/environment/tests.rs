use super::*;

use std::sync::atomic::{AtomicBool, Ordering};

use thalweg_graph::OpDef;
use thalweg_tensor::{BUFFER_OVERHEAD, Shape};

use crate::testing::bare_node;

static OP: OpDef = OpDef {
    name: "Op",
    ..OpDef::EMPTY
};

/// Calls `test` with the context of a kernel that has these arguments and so many bytes of memory.
fn with_cx(arguments: &[Argument<'_>], bytes: usize, test: impl FnOnce(&TensorCx<'_>)) {
    let cpu = Cpu::new(1);
    let node = bare_node(&OP);
    test(&TensorCx {
        cpu: &cpu,
        memory: &Arc::new(Memory::new(Some(bytes))),
        max_cost: u64::MAX,
        node: &node,
        arguments,
        counter: None,
        environment: &NoStep,
    });
}

fn missing<T>(found: Result<T, KernelError>, argument: &str) -> bool {
    matches!(found, Err(KernelError::Argument(a)) if a == argument)
}

#[test]
fn outside_of_a_step_there_is_nothing_to_call_or_to_share() {
    let call = NoStep
        .call(&Func::named("body"), Vec::new(), None)
        .unwrap_err();
    let text = "function 'body' is called in a session: run the node in a step of one";
    assert_eq!(call.to_string(), text);
    let mut make = || -> Result<SharedObject, KernelError> { panic!("it is not made") };
    let object = NoStep.object("", "queue", &mut make).unwrap_err();
    let text = "'queue' lives in a session: run the node in a step of one";
    assert_eq!(object.to_string(), text);
    assert!(NoStep.files().resolve(b"/tmp/x").is_err());
    assert!(NoStep.collectives().is_none());
    assert_eq!(NoStep.ticket().number(), 0);
}

#[test]
fn outside_of_a_step_a_wait_ends_at_once() {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = ended.clone();
    NoStep.on_abandon(Box::new(move || flag.store(true, Ordering::Relaxed)));
    assert!(ended.load(Ordering::Relaxed));
}

#[test]
fn inputs_are_read_as_they_are_and_as_nothing_else() {
    let floats = Tensor::vector(&[1.0f32, 2.0]);
    let (number, numbers) = (Tensor::scalar(7i32), Tensor::vector(&[7i64, 8]));
    let strings = Tensor::from("text");
    let variable = Arc::new(Variable::new("v", DType::F32, Shape::scalar()));
    let arguments = [
        Argument::Value(&floats),
        Argument::Value(&number),
        Argument::Value(&numbers),
        Argument::Value(&strings),
        Argument::Variable(&variable),
    ];
    with_cx(&arguments, 0, |cx| {
        assert_eq!(cx.inputs(), 5);
        assert_eq!(cx.slice::<f32>(0).unwrap(), [1.0, 2.0]);
        assert_eq!(cx.strings(3).unwrap()[0][..], *b"text");
        assert_eq!((cx.int(1).unwrap(), cx.ints(2).unwrap()), (7, vec![7, 8]));
        assert_eq!(cx.variable(4).unwrap().name(), "v");
        // A handle as a value holds the variable.
        let held = cx.value(4).unwrap().object::<Variable>().unwrap();
        assert!(Arc::ptr_eq(&held, &variable));
        assert_eq!(cx.value(0).unwrap(), floats);

        assert!(cx.slice::<f64>(0).is_err() && cx.strings(0).is_err());
        assert!(matches!(cx.ints(0), Err(KernelError::DType(DType::F32))));
        let two = cx.int(2).unwrap_err().to_string();
        assert_eq!(two, "input 2 must be one integer");
        for i in [4, 9] {
            assert!(missing(cx.tensor(i), "the value of an input"));
        }
        assert!(missing(cx.value(9), "an input"));
        assert!(matches!(cx.variable(0), Err(KernelError::Invalid(_))));
        assert!(missing(cx.counter(), "a counter"));
    });
}

#[test]
fn an_object_of_another_type_than_the_op_takes_is_an_error() {
    let queue = Tensor::handle(DType::Resource, Arc::new(7u32)).unwrap();
    with_cx(&[Argument::Value(&queue)], 0, |cx| {
        assert_eq!(*cx.object::<u32>(0).unwrap(), 7);
        let other = cx.object::<String>(0).unwrap_err().to_string();
        assert_eq!(
            other,
            "input 0 is a handle of another kind than the op takes"
        );
    });
}

#[test]
fn results_count_against_the_memory_of_the_device() {
    with_cx(&[], 16 + BUFFER_OVERHEAD, |cx| {
        let zeros = cx.zeros(DType::F32, &[4]).unwrap();
        assert_eq!(cx.memory().used(), 16 + BUFFER_OVERHEAD);
        assert!(matches!(
            cx.tensor_of(&[1], &[1.0f32]),
            Err(KernelError::Tensor(_))
        ));
        drop(zeros);
        assert_eq!(
            cx.tensor_of(&[2], &[1.0f32, 2.0]).unwrap(),
            Tensor::vector(&[1.0f32, 2.0])
        );
        // As many elements as the dimensions need.
        assert!(cx.tensor_of(&[3], &[1.0f32]).is_err());
    });
    with_cx(&[], 1 << 10, |cx| {
        let strings = cx.strings_of(&[2], ["a", "bc"]).unwrap();
        assert_eq!(strings, Tensor::strings(&[2], &["a", "bc"]).unwrap());
        assert!(cx.strings_of(&[2], ["a"]).is_err());
        let long = "x".repeat(1 << 10);
        assert!(cx.strings_of(&[1], [&long]).is_err());
    });
}
