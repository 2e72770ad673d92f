//! Assert, Print, PrintV2.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, SharedObject, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    Effect, Gradient, arg, arg_of, args_of, int_attr, str_attr, type_attr, types_attr,
};
use thalweg_graph::{InferError, OpDef};
use thalweg_tensor::{DType, Tensor};

use crate::strings::summary;
use crate::support::shapes::expect_scalar;

/// Fails the step unless a condition is true.
pub(crate) static ASSERT: Op = Op {
    def: OpDef {
        name: "Assert",
        summary: "Fails with an error that shows the data, unless the condition is true.",
        inputs: &[arg_of("condition", DType::Bool), args_of("data", "T")],
        attrs: &[types_attr("T"), int_attr("summarize", 3)],
        shape: |cx| {
            if cx.inputs() < 2 {
                return Err(InferError::Attr {
                    attr: "T",
                    reason: "there must be some data to show".to_owned(),
                });
            }
            expect_scalar(cx, 0)
        },
        gradient: Gradient::None,
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        if cx.slice::<bool>(0)? == [true] {
            return Ok(Vec::new());
        }
        let joined_summaries = joined_summaries(cx, " ")?;
        Err(KernelError::Invalid(format!(
            "assertion failed: {joined_summaries}"
        )))
    })],
};

/// The first elements of all inputs but the first, each in brackets.
fn joined_summaries(cx: &TensorCx<'_>, between: &str) -> Result<String, KernelError> {
    let max_elements = cx.attrs().int("summarize");
    let mut joined_summaries = cx.string_tensor(&[])?;
    for i in 1..cx.inputs() {
        if i > 1 {
            joined_summaries.extend(between.as_bytes())?;
        }
        joined_summaries.extend(b"[")?;
        summary(&mut joined_summaries, cx.tensor(i)?, max_elements)?;
        joined_summaries.extend(b"]")?;
    }
    Ok(String::from_utf8_lossy(joined_summaries.open()).into_owned())
}

fn print(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let first = cx.attrs().int("first_n");
    let show = match first < 0 {
        true => true,
        false => {
            let mut make = || Ok(Arc::new(AtomicI64::new(0)) as SharedObject);
            let name = format!("Print/{}", cx.node().name);
            let count = cx.environment().object("", &name, &mut make)?;
            let count = count.downcast::<AtomicI64>().ok();
            count.is_some_and(|c| c.fetch_add(1, Ordering::Relaxed) < first)
        }
    };
    if show {
        let line = format!("{}{}", cx.attrs().str("message"), joined_summaries(cx, "")?);
        cx.environment().print(&line);
    }
    Ok(vec![cx.value(0)?])
}

/// Prints tensors, and passes one on.
pub(crate) static PRINT: Op = Op {
    def: OpDef {
        name: "Print",
        summary: "The first input; prints the first elements of the others.",
        inputs: &[arg("input", "T"), args_of("data", "U")],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", &DType::ALL),
            types_attr("U"),
            str_attr("message", "", &[]),
            int_attr("first_n", -1),
            int_attr("summarize", 3),
        ],
        shape: crate::support::shapes::unchanged,
        gradient: Gradient::Rule(|g| smallvec![Some(g.grad())]),
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(print)],
};

/// Writes to the end of a file, which is made if it is not there.
fn append_to_file(cx: &TensorCx<'_>, path: &str, text: &[u8]) -> Result<(), KernelError> {
    let path = cx.environment().files().resolve(path.as_bytes())?;
    let file = OpenOptions::new().create(true).append(true).open(&path);
    file.and_then(|mut file| file.write_all(text))
        .map_err(|e| KernelError::Storage(format!("{}: {e}", path.display())))
}

/// Prints a string.
pub(crate) static PRINT_V2: Op = Op {
    def: OpDef {
        name: "PrintV2",
        summary: "Prints a string: a line of the log, or the end of a file whose stream is file://PATH.",
        inputs: &[arg_of("input", DType::String)],
        attrs: &[
            str_attr("output_stream", "stderr", &[]),
            str_attr("end", "\n", &[]),
        ],
        shape: |cx| expect_scalar(cx, 0),
        gradient: Gradient::None,
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let Some(text) = cx.strings(0)?.only() else {
            return Err(KernelError::Argument("one string"));
        };
        let end = cx.attrs().str("end");
        if let Some(path) = cx.attrs().str("output_stream").strip_prefix("file://") {
            append_to_file(cx, path, &[text, end.as_bytes()].concat())?;
            return Ok(Vec::new());
        }
        // The output is a line, which ends by itself.
        let end = end.strip_suffix('\n').unwrap_or(end);
        let text = String::from_utf8_lossy(text);
        cx.environment().print(&format!("{text}{end}"));
        Ok(Vec::new())
    })],
};
