//! GeneratorDataset: elements that functions make, from a state that another function makes.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{args_of, attr, list_attr};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::Tensor;

use super::dataset::{Captured, DATASET_OP, Dataset, METADATA, Row, Rows, SHAPES, TYPES, source};

#[derive(Clone)]
struct Generator {
    /// Makes the state of a pass.
    init: Captured,
    /// Makes an element of the state; fails with OUT_OF_RANGE at the end.
    next: Captured,
    /// Is called with the state after the last element.
    finalize: Captured,
}

impl Dataset for Generator {
    fn rows(&self, _: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(GeneratorRows {
            generator: self.clone(),
            state: None,
            ended: false,
        }))
    }
}

struct GeneratorRows {
    generator: Generator,
    /// `None` before the first element.
    state: Option<Row>,
    ended: bool,
}

impl Rows for GeneratorRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        if self.ended {
            return Ok(None);
        }
        let state = match &self.state {
            Some(state) => state.clone(),
            None => {
                let state = self.generator.init.call(cx, Row::new())?;
                self.state.insert(state).clone()
            }
        };
        match self.generator.next.call(cx, state.clone()) {
            Ok(row) => Ok(Some(row)),
            Err(error) if is_end(&error) => {
                self.ended = true;
                self.generator.finalize.call(cx, state)?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// `true` for OUT_OF_RANGE, in a function too.
fn is_end(error: &KernelError) -> bool {
    match error {
        KernelError::OutOfRange(_) => true,
        KernelError::Function { source, .. } => is_end(source),
        _ => false,
    }
}

fn generator(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let count = |name| cx.attrs().types(name).len();
    let init = count("Tinit_func_args");
    let next = init + count("Tnext_func_args");
    let dataset = Generator {
        init: Captured::new(cx, "init_func", 0..init)?,
        next: Captured::new(cx, "next_func", init..next)?,
        finalize: Captured::new(cx, "finalize_func", next..cx.inputs())?,
    };
    let held: Vec<Tensor> = [&dataset.init, &dataset.next, &dataset.finalize]
        .iter()
        .flat_map(|function| function.values.iter().cloned())
        .collect();
    source(dataset, &held)
}

/// Elements of functions.
pub(crate) static GENERATOR: Op = Op {
    def: OpDef {
        name: "GeneratorDataset",
        summary: "The elements that next_func makes of the state of init_func, until it fails with OUT_OF_RANGE.",
        inputs: &[
            args_of("init_func_other_args", "Tinit_func_args"),
            args_of("next_func_other_args", "Tnext_func_args"),
            args_of("finalize_func_other_args", "Tfinalize_func_args"),
        ],
        attrs: &[
            attr("init_func", AttrKind::Func),
            attr("next_func", AttrKind::Func),
            attr("finalize_func", AttrKind::Func),
            list_attr("Tinit_func_args", AttrKind::Types),
            list_attr("Tnext_func_args", AttrKind::Types),
            list_attr("Tfinalize_func_args", AttrKind::Types),
            TYPES,
            SHAPES,
            METADATA,
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(generator)],
};
