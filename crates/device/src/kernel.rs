//! The kernel interface: how an op's computation is prepared once and run many times.
//!
//! An op with a kernel for CPUs. Work that is done once stands outside of the inner closure:
//!
//! ```
//! use thalweg_device::{Op, Prepared, cpu};
//! use thalweg_graph::OpDef;
//! use thalweg_graph::op::{arg, type_attr};
//! use thalweg_tensor::DType;
//!
//! static DOUBLE: Op = Op {
//!     def: OpDef {
//!         name: "Double",
//!         inputs: &[arg("x", "T")],
//!         outputs: &[arg("y", "T")],
//!         attrs: &[type_attr("T", &[DType::F32])],
//!         shape: |cx| Ok(cx.set(0, cx.shape(0).clone())),
//!         ..OpDef::EMPTY
//!     },
//!     kernels: &[cpu(|p| {
//!         let elements = p.outputs[0].elements();
//!         Ok(Prepared::new(elements, |cx| {
//!             let (x, y) = (cx.input::<f32>(0)?, cx.output::<f32>(0)?);
//!             y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
//!             Ok(())
//!         }))
//!     })],
//! };
//! assert_eq!(DOUBLE.kernels[0].device.map(|d| d.name()), Some("CPU"));
//! ```

use std::fmt;

use thalweg_graph::{Attr, Node, OpDef};
use thalweg_tensor::{DType, Dims, Tensor};

use crate::context::KernelCx;
use crate::cpu::Cpu;
use crate::device_type::DeviceType;
use crate::environment::TensorCx;
use crate::error::KernelError;
use crate::gpu::Launches;

/// An op: its definition and its kernels.
#[derive(Debug)]
pub struct Op {
    /// Its name, inputs, outputs, attributes and shape rule.
    pub def: OpDef,
    /// Its kernels, by device.
    pub kernels: &'static [Kernel],
}

/// An implementation of an op on a device.
#[derive(Debug)]
pub struct Kernel {
    /// The device it runs on; `None` where it runs nothing, which every device can. A GPU takes no
    /// strings.
    pub device: Option<DeviceType>,
    /// The dtypes it computes: for each dtype attribute that it restricts, those it takes.
    pub dtypes: &'static [(&'static str, &'static [DType])],
    /// Pairs of an input and an output that may share one buffer, because each element of the
    /// output is written after the last read of the same element of the input.
    pub in_place: &'static [(usize, usize)],
    /// Its computation.
    pub body: Body,
}

/// The computation of a kernel.
#[derive(Clone, Copy)]
pub enum Body {
    /// Not at all: output 0 is input 0's buffer, with other dimensions perhaps.
    View,
    /// By the function that this prepares.
    Compute(PrepareFn),
    /// By a function from tensors to tensors that it makes itself: where the shapes of the outputs
    /// follow from the values of the inputs, where elements are no plain bytes, or where something
    /// beside the inputs is at work (a queue, a function of the graph).
    Tensors(TensorFn),
    /// By the launches that this returns.
    Launch(LaunchFn),
    /// On the host of the GPU that it is placed on: of shapes, indices and the like, which a GPU has no use for.
    Host,
    /// It makes the handle of a variable, when a plan is made.
    Handle,
    /// It shares the buffer of the variable behind input 0.
    Read,
    /// It only orders other nodes.
    Nothing,
    /// By functions of its graph (a branch or a loop): a GPU's program holds their nodes.
    Functions,
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Body::View => "View",
            Body::Compute(_) => "Compute",
            Body::Tensors(_) => "Tensors",
            Body::Launch(_) => "Launch",
            Body::Host => "Host",
            Body::Handle => "Handle",
            Body::Read => "Read",
            Body::Nothing => "Nothing",
            Body::Functions => "Functions",
        })
    }
}

/// A CPU kernel for the dtypes that attribute `T` may be.
pub const fn cpu(prepare: PrepareFn) -> Kernel {
    Kernel {
        device: Some(DeviceType::Cpu),
        dtypes: &[],
        in_place: &[],
        body: Body::Compute(prepare),
    }
}

/// A CPU kernel that takes tensors and makes its results itself; see [`Body::Tensors`].
pub const fn cpu_tensors(run: TensorFn) -> Kernel {
    Kernel {
        device: Some(DeviceType::Cpu),
        dtypes: &[],
        in_place: &[],
        body: Body::Tensors(run),
    }
}

/// A GPU's kernel for the dtypes that attribute `T` may be.
pub const fn gpu(launches: LaunchFn) -> Kernel {
    Kernel {
        device: Some(DeviceType::Gpu),
        dtypes: &[],
        in_place: &[],
        body: Body::Launch(launches),
    }
}

/// A kernel for nodes that are placed on a GPU and run on its host, by the kernel of the CPU.
pub const fn on_host() -> Kernel {
    Kernel {
        device: Some(DeviceType::Gpu),
        dtypes: &[],
        in_place: &[],
        body: Body::Host,
    }
}

/// A GPU's kernel of a branch or a loop.
pub const fn gpu_functions() -> Kernel {
    Kernel {
        device: Some(DeviceType::Gpu),
        dtypes: &[],
        in_place: &[],
        body: Body::Functions,
    }
}

/// `true` if GPUs compute with elements of this dtype: not with strings, complex and quantized numbers.
pub const fn gpus_compute(dtype: DType) -> bool {
    !matches!(dtype, DType::String) && !dtype.is_complex() && !dtype.is_quantized()
}

impl Kernel {
    /// The same, for these dtypes only.
    pub const fn only(self, dtypes: &'static [(&'static str, &'static [DType])]) -> Kernel {
        Kernel { dtypes, ..self }
    }

    /// The same, with these pairs of inputs and outputs allowed to share a buffer.
    pub const fn in_place(self, in_place: &'static [(usize, usize)]) -> Kernel {
        Kernel { in_place, ..self }
    }

    /// `true` if it computes this node on this type of device.
    pub fn takes(&self, device: DeviceType, node: &Node) -> bool {
        let on_hosts = |(_, value): (&str, &Attr)| match value {
            Attr::Type(dtype) => !gpus_compute(*dtype),
            _ => false,
        };
        self.device.is_none_or(|own| own == device)
            && (device != DeviceType::Gpu || !node.attrs.iter().any(on_hosts))
            && self.dtypes.iter().all(|(attr, dtypes)| {
                node.attrs
                    .dtype(attr)
                    .is_none_or(|dtype| dtypes.contains(&dtype))
            })
    }
}

/// Prepares a kernel for a node with these inputs and outputs.
pub type PrepareFn = fn(&Prepare<'_>) -> Result<Prepared, KernelError>;

/// Computes a node from tensors: one tensor for each output, of its dtype.
pub type TensorFn = fn(&TensorCx<'_>) -> Result<Vec<Tensor>, KernelError>;

/// Returns the launches of a GPU for a node with these inputs and outputs.
pub type LaunchFn = fn(&Prepare<'_>) -> Result<Launches, KernelError>;

/// The function that a kernel runs.
pub type RunFn = Box<dyn Fn(&KernelCx<'_>) -> Result<(), KernelError> + Send + Sync>;

/// A kernel that is ready to run.
pub struct Prepared {
    /// The function to run.
    pub run: RunFn,
    /// Bytes of scratch memory that a run needs; see [`KernelCx::scratch`].
    pub scratch: usize,
    /// Estimated nanoseconds of a run on one thread. It decides only whether threads are worth waking.
    pub cost: u64,
    /// `true` if each element of its output comes of the same element of its inputs, after broadcasting, and it can be
    /// prepared for a piece of them, if for one at all, and run on that on one thread.
    pub each: bool,
}

impl Prepared {
    /// A kernel without scratch memory that touches `elements` elements.
    pub fn new(
        elements: usize,
        run: impl Fn(&KernelCx<'_>) -> Result<(), KernelError> + Send + Sync + 'static,
    ) -> Prepared {
        Prepared {
            run: Box::new(run),
            scratch: 0,
            // A pass over cached elements takes a sixteenth of a nanosecond for each, one over
            // memory a half.
            cost: 20 + elements as u64 / 8,
            each: false,
        }
    }

    /// The same, with scratch memory.
    pub fn with_scratch(self, bytes: usize) -> Prepared {
        Prepared {
            scratch: bytes,
            ..self
        }
    }

    /// The same, which computes element by element.
    pub fn each(self) -> Prepared {
        Prepared { each: true, ..self }
    }

    /// The same, with another estimate of its nanoseconds.
    pub fn with_cost(self, nanoseconds: u64) -> Prepared {
        Prepared {
            cost: nanoseconds,
            ..self
        }
    }
}

/// An input or output, as far as known when a kernel is prepared.
#[derive(Clone, Debug)]
pub struct Operand {
    /// Its dtype.
    pub dtype: DType,
    /// Its dimensions.
    pub dims: Dims,
    /// Its value: of a [host](thalweg_graph::op::Arg::host) input always, of others where it is
    /// constant.
    pub value: Option<Tensor>,
}

/// More elements than any memory holds. An estimate may multiply it.
const MAX_ELEMENTS: usize = 1 << 48;

impl Operand {
    /// The number of elements. Dimensions that no tensor can have give a large one.
    pub fn elements(&self) -> usize {
        thalweg_tensor::shape::elements(&self.dims).min(MAX_ELEMENTS)
    }
}

/// The node and operands that a kernel is prepared for.
pub struct Prepare<'a> {
    /// The CPU that the kernel will run on, or that of a GPU's host: its scratch memory depends on the threads.
    pub cpu: &'a Cpu,
    /// The node: its attributes.
    pub node: &'a Node,
    /// Its inputs.
    pub inputs: &'a [Operand],
    /// Its outputs.
    pub outputs: &'a [Operand],
}

impl<'a> Prepare<'a> {
    /// The dimensions of input `i`.
    pub fn dims(&self, i: usize) -> &'a [usize] {
        self.inputs.get(i).map_or(&[], |o| &o.dims)
    }

    /// The dimensions of output `i`.
    pub fn output_dims(&self, i: usize) -> &'a [usize] {
        self.outputs.get(i).map_or(&[], |o| &o.dims)
    }

    /// The dtype of input `i`; where there is no such input, of output 0.
    pub fn dtype(&self, i: usize) -> DType {
        let operand = self.inputs.get(i).or(self.outputs.first());
        operand.map_or(DType::F32, |o| o.dtype)
    }

    /// The value of host input `i`.
    ///
    /// # Errors
    /// [`KernelError::Argument`] where it is not a host input.
    pub fn value(&self, i: usize) -> Result<&'a Tensor, KernelError> {
        let value = self.inputs.get(i).and_then(|o| o.value.as_ref());
        value.ok_or(KernelError::Argument("the value of an input"))
    }

    /// The integers of host input `i` (axes, a shape).
    ///
    /// # Errors
    /// [`KernelError::Argument`] where it is not a host input, or not one of integers.
    pub fn ints(&self, i: usize) -> Result<Vec<i64>, KernelError> {
        self.value(i)?
            .to_ints()
            .ok_or(KernelError::Argument("integers"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::testing::bare_node;

    static OP: OpDef = OpDef {
        name: "Op",
        ..OpDef::EMPTY
    };

    fn nothing(_: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
        Ok(Vec::new())
    }

    const FLOATS: &[DType] = &[DType::F32, DType::F64];
    const INDICES: &[DType] = &[DType::I32, DType::I64];

    #[test]
    fn a_kernel_takes_nodes_of_its_device_and_dtypes() {
        let any = cpu_tensors(nothing);
        let some = cpu_tensors(nothing).only(&[("T", FLOATS), ("Tidx", INDICES)]);
        let everywhere = Kernel {
            device: None,
            ..cpu_tensors(nothing)
        };
        let (cpu, gpu) = (DeviceType::Cpu, DeviceType::Gpu);
        type Dtypes = &'static [(&'static str, DType)];
        let cases: [(&Kernel, DeviceType, Dtypes, bool); 12] = [
            (&any, cpu, &[("T", DType::I8)], true),
            (&any, gpu, &[("T", DType::F32)], false),
            (&any, cpu, &[("T", DType::String)], true),
            (&some, cpu, &[("T", DType::F64), ("Tidx", DType::I32)], true),
            (&some, cpu, &[("T", DType::F64), ("Tidx", DType::U8)], false),
            (
                &some,
                cpu,
                &[("T", DType::F16), ("Tidx", DType::I32)],
                false,
            ),
            // An attribute that the node does not have restricts nothing.
            (&some, cpu, &[("T", DType::F32)], true),
            (&on_host(), gpu, &[("T", DType::F32)], true),
            (&on_host(), cpu, &[("T", DType::F32)], false),
            // A GPU takes no strings.
            (
                &on_host(),
                gpu,
                &[("T", DType::F32), ("U", DType::String)],
                false,
            ),
            (&everywhere, cpu, &[], true),
            (&everywhere, gpu, &[], true),
        ];
        for (i, (kernel, device, dtypes, expected)) in cases.into_iter().enumerate() {
            let mut node = bare_node(&OP);
            for &(name, dtype) in dtypes {
                node.attrs.set(name, dtype.into());
            }
            assert_eq!(kernel.takes(device, &node), expected, "case {i}");
        }
    }

    #[test]
    fn a_prepared_kernel_keeps_what_it_is_not_told_to_change() {
        let prepared = Prepared::new(800, |_| Ok(()));
        assert_eq!(
            (prepared.scratch, prepared.cost, prepared.each),
            (0, 120, false)
        );
        let other = prepared.with_scratch(64).with_cost(7).each();
        assert_eq!((other.scratch, other.cost, other.each), (64, 7, true));
    }

    #[test]
    fn elements_of_dimensions_that_no_tensor_has_can_be_multiplied() {
        let operand = |dims: &[usize]| Operand {
            dtype: DType::F32,
            dims: dims.into(),
            value: None,
        };
        for (dims, elements) in [
            (&[][..], 1),
            (&[3, 4], 12),
            (&[3, 0], 0),
            (&[usize::MAX, 2], 1 << 48),
            (&[1 << 40, 1 << 20], 1 << 48),
        ] {
            assert_eq!(operand(dims).elements(), elements, "{dims:?}");
        }
    }

    #[test]
    fn operands_that_are_not_there_have_no_dimensions_and_no_value() {
        let node = bare_node(&OP);
        let axes = Tensor::vector(&[1i32, -1]);
        let known = Operand {
            dtype: DType::I32,
            dims: [2][..].into(),
            value: Some(axes.clone()),
        };
        let open = Operand {
            dtype: DType::F64,
            dims: [2, 3][..].into(),
            value: None,
        };
        let floats = Operand {
            value: Some(Tensor::vector(&[1.0f32])),
            ..known.clone()
        };
        let p = Prepare {
            cpu: &Cpu::new(1),
            node: &node,
            inputs: &[known, floats],
            outputs: &[open],
        };
        assert_eq!(
            (p.dims(0), p.dims(7), p.output_dims(0), p.output_dims(1)),
            (&[2][..], &[][..], &[2, 3][..], &[][..])
        );
        assert_eq!((p.dtype(0), p.dtype(7)), (DType::I32, DType::F64));
        assert_eq!(
            (p.value(0).unwrap(), p.ints(0).unwrap()),
            (&axes, vec![1, -1])
        );
        let missing = |e: KernelError| matches!(e, KernelError::Argument(_));
        assert!(missing(p.value(7).unwrap_err()) && missing(p.ints(1).unwrap_err()));
    }

    #[test]
    fn a_body_is_shown_by_its_kind() {
        let bodies = [
            Body::View,
            Body::Tensors(nothing),
            Body::Host,
            Body::Handle,
            Body::Read,
            Body::Nothing,
            Body::Functions,
        ];
        let texts: Vec<String> = bodies.iter().map(|b| format!("{b:?}")).collect();
        assert_eq!(
            texts,
            [
                "View",
                "Tensors",
                "Host",
                "Handle",
                "Read",
                "Nothing",
                "Functions"
            ]
        );
    }
}
