//! Ops of a program's own whose kernels or rules are wrong: each is an error of its node, and the session goes on.

use thalweg::device::{Op, Prepared, cpu, cpu_tensors};
use thalweg::graph::OpDef;
use thalweg::graph::op::{arg_of, int_attr};
use thalweg::ops::OpSet;
use thalweg::prelude::*;

const DEF: OpDef = OpDef {
    inputs: &[arg_of("x", DType::F32)],
    outputs: &[arg_of("y", DType::F32)],
    attrs: &[int_attr("n", 0)],
    shape: |cx| {
        cx.set(0, cx.shape(0).clone());
        Ok(())
    },
    ..OpDef::EMPTY
};

static FEWER: Op = Op {
    def: OpDef {
        name: "Fewer",
        ..DEF
    },
    kernels: &[cpu_tensors(|_| Ok(Vec::new()))],
};

static OTHER_DTYPE: Op = Op {
    def: OpDef {
        name: "OtherDtype",
        ..DEF
    },
    kernels: &[cpu_tensors(|_| Ok(vec![Tensor::vector(&[1i64, 2])]))],
};

static OTHER_SHAPE: Op = Op {
    def: OpDef {
        name: "OtherShape",
        ..DEF
    },
    kernels: &[cpu_tensors(|_| Ok(vec![Tensor::vector(&[1.0f32])]))],
};

static PANICS: Op = Op {
    def: OpDef {
        name: "Panics",
        ..DEF
    },
    kernels: &[cpu_tensors(|_| panic!("a defect"))],
};

static PREPARE_PANICS: Op = Op {
    def: OpDef {
        name: "PreparePanics",
        ..DEF
    },
    kernels: &[cpu(|_| panic!("a defect"))],
};

static WRONG_SLICE: Op = Op {
    def: OpDef {
        name: "WrongSlice",
        ..DEF
    },
    kernels: &[cpu(|_| {
        Ok(Prepared::new(1, |cx| cx.output::<f64>(0).map(|_| ())))
    })],
};

static TWICE: Op = Op {
    def: OpDef {
        name: "TwiceTaken",
        ..DEF
    },
    kernels: &[cpu(|_| {
        Ok(Prepared::new(1, |cx| {
            cx.output::<f32>(0)?;
            cx.output::<f32>(0).map(|_| ())
        }))
    })],
};

static BEYOND: Op = Op {
    def: OpDef {
        name: "Beyond",
        ..DEF
    },
    kernels: &[cpu(|_| {
        Ok(Prepared::new(1, |cx| {
            let y = cx.output::<f32>(0)?;
            y[y.len()] = 1.0;
            Ok(())
        }))
    })],
};

#[test]
fn a_faulty_op_of_a_program_ends_its_step_alone() {
    let faulty = [
        &FEWER,
        &OTHER_DTYPE,
        &OTHER_SHAPE,
        &PANICS,
        &PREPARE_PANICS,
        &WRONG_SLICE,
        &TWICE,
        &BEYOND,
    ];
    let ops = OpSet::new(faulty).unwrap();
    let g = Graph::with_ops(&ops);
    let x = g.placeholder("x", DType::F32, [2]);
    let session = Session::with_options(&g, SessionOptions::new().ops(&ops)).unwrap();
    for op in faulty {
        let name = op.def.name;
        let y = g.op(name).input(x).output();
        let found = session.run::<Vec<f32>>(y + 1.0, [x.feed([1.0f32, 2.0])]);
        let text = found.expect_err(name).to_string();
        assert!(text.contains(name), "{name}: {text}");
        // It goes on.
        assert_eq!(
            session
                .run::<Vec<f32>>(x * 2.0, [x.feed([1.0f32, 2.0])])
                .unwrap(),
            [2.0, 4.0]
        );
    }
}
