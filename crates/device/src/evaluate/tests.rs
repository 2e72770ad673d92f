use std::sync::atomic::Ordering;
use thalweg_tensor::BUFFER_OVERHEAD;

use thalweg_graph::OpDef;
use thalweg_graph::op::{Arg, arg_of};

use super::*;
use crate::kernel::{Kernel, Prepared, cpu, cpu_tensors, gpu, on_host};
use crate::testing::bare_node;

const NONE: Kernel = Kernel {
    device: None,
    dtypes: &[],
    in_place: &[],
    body: Body::Nothing,
};

const X: &[Arg] = &[arg_of("x", DType::F32)];
const Y: &[Arg] = &[arg_of("y", DType::F32)];

/// An op whose output has the shape of its input.
const fn op(name: &'static str, kernels: &'static [Kernel]) -> Op {
    Op {
        def: OpDef {
            name,
            inputs: X,
            outputs: Y,
            shape: |cx| {
                cx.set(0, cx.shape(0).clone());
                Ok(())
            },
            ..OpDef::EMPTY
        },
        kernels,
    }
}

/// Doubles its input, with a scratch of 64 bytes, in 1000 nanoseconds.
static DOUBLE: Op = op(
    "Double",
    &[cpu(|p| {
        let double = |cx: &KernelCx<'_>| {
            assert_eq!(cx.scratch::<f32>(16)?.len(), 16);
            let (x, y) = (cx.input::<f32>(0)?, cx.output::<f32>(0)?);
            y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
            Ok(())
        };
        let elements = p.outputs[0].elements();
        Ok(Prepared::new(elements, double)
            .with_scratch(64)
            .with_cost(1000))
    })],
);
static COPY: Op = op("Copy", &[cpu_tensors(|cx| Ok(vec![cx.tensor(0)?.clone()]))]);
static VIEW: Op = op(
    "View",
    &[Kernel {
        body: Body::View,
        ..NONE
    }],
);
static TWO_RESULTS: Op = op(
    "Two",
    &[cpu_tensors(|cx| Ok(vec![cx.value(0)?, cx.value(0)?]))],
);
static WRONG_DTYPE: Op = op("Wrong", &[cpu_tensors(|_| Ok(vec![Tensor::scalar(1i32)]))]);
static WRONG_SHAPE: Op = op(
    "Wide",
    &[cpu_tensors(|_| Ok(vec![Tensor::vector(&[1.0f32; 5])]))],
);
static NO_KERNEL: Op = op("Missing", &[]);
static ON_GPU: Op = op("OnGpu", &[gpu(|_| Err(KernelError::Stopped)), on_host()]);
static HANDLE: Op = op(
    "Handle",
    &[Kernel {
        body: Body::Handle,
        ..NONE
    }],
);
static NOTHING: Op = Op {
    def: OpDef {
        name: "Nothing",
        effect: Effect::Control,
        ..OpDef::EMPTY
    },
    kernels: &[NONE],
};
static READ: Op = Op {
    def: OpDef {
        name: "Read",
        inputs: &[arg_of("v", DType::Resource)],
        outputs: Y,
        effect: Effect::Read,
        ..OpDef::EMPTY
    },
    kernels: &[Kernel {
        body: Body::Read,
        ..NONE
    }],
};
static DRAW: Op = Op {
    def: OpDef {
        name: "Draw",
        outputs: &[arg_of("y", DType::I64)],
        effect: Effect::Random,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let drawn = cx.counter()?.fetch_add(1, Ordering::Relaxed);
        Ok(vec![Tensor::scalar(drawn as i64)])
    })],
};

fn run_alone(op: &'static Op, arguments: &[Argument<'_>]) -> Result<Vec<Tensor>, KernelError> {
    evaluate(&Cpu::new(1), op, &bare_node(&op.def), arguments, None)
}

#[test]
fn each_kind_of_kernel_gives_its_results_as_tensors() {
    let x = Tensor::vector(&[1.0f32, 2.0]);
    let value = [Argument::Value(&x)];
    assert_eq!(
        run_alone(&DOUBLE, &value).unwrap(),
        [Tensor::vector(&[2.0f32, 4.0])]
    );
    for op in [&COPY, &VIEW] {
        let found = run_alone(op, &value).unwrap();
        assert_eq!(found, std::slice::from_ref(&x));
        // They share the bytes.
        let address = |t: &Tensor| t.buffer().unwrap().as_ptr();
        assert_eq!(address(&found[0]), address(&x));
    }
    assert_eq!(run_alone(&NOTHING, &[]).unwrap(), []);
}

#[test]
fn results_that_do_not_fit_the_definition_are_errors() {
    let x = Tensor::vector(&[1.0f32, 2.0]);
    for (op, text) in [
        (&TWO_RESULTS, "it gave 2 values where 1 was said"),
        (&WRONG_DTYPE, "it gave i32[] where f32[2] was said"),
        (&WRONG_SHAPE, "it gave f32[5] where f32[2] was said"),
        (&NO_KERNEL, "there is no kernel for f32: Cast its inputs"),
        (&ON_GPU, "there is no kernel for f32: Cast its inputs"),
        (
            &HANDLE,
            "the kernel asked for a value in place of a handle, which this node does not have: this is a defect in the op",
        ),
    ] {
        let error = run_alone(op, &[Argument::Value(&x)]).unwrap_err();
        assert_eq!(error.to_string(), text, "{}", op.def.name);
    }
}

#[test]
fn arguments_that_do_not_fit_the_definition_are_errors() {
    let x = Tensor::vector(&[1i32]);
    let error = run_alone(&DOUBLE, &[]).unwrap_err();
    assert!(matches!(error, KernelError::Invalid(_)), "{error}");
    let error = run_alone(&DOUBLE, &[Argument::Value(&x)]).unwrap_err();
    assert_eq!(error, KernelError::DType(DType::I32));
}

#[test]
fn a_variable_is_read_behind_its_handle_and_as_a_value_that_holds_it() {
    let v = Arc::new(Variable::new("v", DType::F32, Shape::known(&[2])));
    let error = run_alone(&READ, &[Argument::Variable(&v)]).unwrap_err();
    assert!(matches!(error, KernelError::Uninitialized { .. }));
    v.assign(Tensor::vector(&[1.0f32, 2.0])).unwrap();
    let held = Tensor::handle(DType::Resource, v.clone() as SharedObject).unwrap();
    for argument in [Argument::Variable(&v), Argument::Value(&held)] {
        assert_eq!(run_alone(&READ, &[argument]).unwrap(), [v.read().unwrap()]);
    }
}

#[test]
fn a_random_op_draws_from_its_counter_and_is_an_error_without_one() {
    let counter = AtomicU64::new(5);
    let node = bare_node(&DRAW.def);
    let draw = |counter| evaluate(&Cpu::new(1), &DRAW, &node, &[], counter);
    assert_eq!(draw(Some(&counter)).unwrap(), [Tensor::scalar(5i64)]);
    assert_eq!(draw(Some(&counter)).unwrap(), [Tensor::scalar(6i64)]);
    assert!(matches!(
        draw(None),
        Err(KernelError::Argument("a counter"))
    ));
}

#[test]
fn bounds_stop_a_node_that_would_take_too_long_or_too_much_memory() {
    let x = Tensor::vector(&[1.0f32; 100]);
    let cpu = Cpu::new(1);
    let bounded = |op: &'static Op, bytes, cost| {
        let memory = Arc::new(Memory::new(Some(bytes)));
        let bounds = Bounds {
            memory: &memory,
            cost,
        };
        let node = bare_node(&op.def);
        evaluate_within(bounds, &cpu, op, &node, &[Argument::Value(&x)]).map(drop)
    };
    // 400 bytes of results, and 64 of scratch memory.
    let both = 464 + 2 * BUFFER_OVERHEAD;
    assert_eq!(bounded(&DOUBLE, both, 1000), Ok(()));
    assert_eq!(bounded(&DOUBLE, both, 999), Err(KernelError::Stopped));
    assert!(matches!(
        bounded(&DOUBLE, 399 + BUFFER_OVERHEAD, 1000),
        Err(KernelError::Tensor(_))
    ));
    assert_eq!(
        bounded(&DOUBLE, both - 1, 1000),
        Err(KernelError::Memory {
            bytes: 64 + BUFFER_OVERHEAD
        })
    );
    // A kernel without an estimate reads each of its 400 bytes in 20 ns.
    assert_eq!(bounded(&COPY, 400 + BUFFER_OVERHEAD, 8000), Ok(()));
    assert_eq!(
        bounded(&COPY, 400 + BUFFER_OVERHEAD, 7999),
        Err(KernelError::Stopped)
    );
}

#[test]
fn a_node_that_a_kernel_evaluates_is_within_the_bounds_of_the_kernel() {
    let cpu = Cpu::new(1);
    let node = bare_node(&COPY.def);
    let x = Tensor::vector(&[1.0f32; 100]);
    for (max_cost, stopped) in [(1000, false), (999, true)] {
        let cx = TensorCx {
            cpu: &cpu,
            memory: cpu.memory(),
            max_cost,
            node: &node,
            arguments: &[],
            counter: None,
            environment: &NoStep,
        };
        let inner = bare_node(&DOUBLE.def);
        let found = evaluate_for(&cx, &DOUBLE, &inner, &[Argument::Value(&x)]);
        assert_eq!(found == Err(KernelError::Stopped), stopped);
    }
}

#[test]
fn the_shape_of_a_variable_is_that_of_its_value_unless_the_node_assigns() {
    let v = Arc::new(Variable::new("v", DType::F32, Shape::partial([None])));
    let shape = |assigns| fact(&Argument::Variable(&v), assigns).variable.unwrap().1;
    let open = Shape::partial([None]);
    assert_eq!((shape(false), shape(true)), (open.clone(), open.clone()));
    v.assign(Tensor::vector(&[1.0f32, 2.0])).unwrap();
    assert_eq!((shape(false), shape(true)), (Shape::known(&[2]), open));
    assert_eq!(operand(&Argument::Variable(&v)).dims[..], [2]);
}

#[test]
fn strings_have_a_slot_that_no_kernel_can_read() {
    let strings = tensor_slot(&Tensor::from("text"));
    assert_eq!((strings.len, strings.dtype), (0, DType::String));
    let floats = tensor_slot(&Tensor::vector(&[1.0f32, 2.0]));
    assert_eq!((floats.len, floats.dtype), (2, DType::F32));
}
