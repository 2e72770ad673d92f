//! Tests that need access to the crate's internals: a session with a kernel of the test's own.

use thalweg_device::{Op, Prepared, cpu};
use thalweg_graph::OpDef;
use thalweg_ops::{NewGraph, SourceOps};
use thalweg_tensor::{DType, Tensor};

use std::sync::Arc;

use super::*;
use crate::fetch::Feeding;
use thalweg_plan::Parallel;

/// Panics in a run: the kernel itself, or one of the tasks that it splits its work into.
static PANICS: Op = Op {
    def: OpDef::EMPTY,
    kernels: &[cpu(|p| {
        let in_task = p.node.name == "in_task";
        Ok(Prepared::new(1, move |cx| {
            let tasks = if in_task { 4 } else { 0 };
            cx.pool().parallel_for(tasks, &|_| panic!("on purpose"));
            panic!("on purpose")
        }))
    })],
};

#[test]
fn a_kernel_that_panics_ends_its_step_with_an_error_and_the_session_goes_on() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2]);
    for parallel in [Parallel::Always, Parallel::Never] {
        for name in ["itself", "in_task"] {
            let y = g.device("/cpu:0", || g.op("Square").input(x).output());
            let node = g.op("Tanh").input(y).name(name);
            let bad = g.device("/cpu:1", || node.output());
            let options = SessionOptions::new().cpus(2).threads(4).parallel(parallel);
            let mut session = Session::with_options(&g, options).unwrap();
            let engine = Arc::get_mut(&mut session.runner).unwrap().engine_mut();
            Arc::make_mut(&mut engine.machine_mut().kernels).insert("Tanh", &PANICS);
            let feed = [x.feed(Tensor::from([1.0f32, 2.0]))];
            for _ in 0..20 {
                match session.step(bad, &feed).map(|_| ()) {
                    Err(SessionError::Panicked { node, message, .. }) => {
                        assert!(node.starts_with(name));
                        assert_eq!(message, "on purpose");
                    }
                    other => panic!("{other:?}"),
                }
                session.step(y, &feed).unwrap();
            }
        }
    }
}
