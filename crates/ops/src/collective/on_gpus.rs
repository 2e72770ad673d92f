//! Collectives between GPUs, without their hosts: for values whose shapes are known before the step.

use thalweg_device::gpu::{GpuCollective, GpuCollectiveKind, Launches};
use thalweg_device::{Kernel, KernelError, Prepare, ReduceOp, Reduction, gpu};
use thalweg_graph::Node;
use thalweg_graph::op::Effect;
use thalweg_tensor::DType;

use super::run::{process_set, reduction_of_attrs};

/// Dtypes that NCCL supports.
const DTYPES: &[(&str, &[DType])] = &[(
    "T",
    &[
        DType::I8,
        DType::U8,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ],
)];

/// Name of the broadcast op.
pub(super) const BROADCAST: &str = "HorovodBroadcast";

/// Kernel of a collective between GPUs.
pub(super) const KERNEL: Kernel = gpu(launches).only(DTYPES).in_place(&[(0, 0)]);

fn launches(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let collective = gpu_collective(p.node).map_err(KernelError::Invalid)?;
    Ok(Launches {
        collective: Some(collective),
        ..Launches::default()
    })
}

/// The collective between GPUs for a node that has a kernel for it.
///
/// # Errors
/// The reason why there is none: it is reported for the node, which then runs on the host.
///
/// ```
/// use thalweg_device::gpu::GpuCollectiveKind;
/// use thalweg_graph::Graph;
/// use thalweg_ops::{CollectiveOps, NewGraph, ReduceOp, Reduction, SourceOps, gpu_collective};
/// use thalweg_tensor::DType;
///
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, [2]);
/// let half = x.all_reduce(Reduction::of(ReduceOp::Sum).scaled(0.25, 2.0));
/// let adasum = x.all_reduce(ReduceOp::Adasum);
/// let data = g.snapshot();
/// let of = |y: thalweg_graph::Output<'_>| gpu_collective(data.node(y.id().node));
/// let halves = GpuCollectiveKind::Reduce { op: ReduceOp::Sum, factor: 0.5 };
/// assert_eq!(of(half).unwrap().kind, halves);
/// assert!(of(adasum).unwrap_err().contains("Adasum"));
/// ```
pub fn gpu_collective(node: &Node) -> Result<GpuCollective, String> {
    if node.op.effect != Effect::Collective {
        return Err("it is no collective".to_owned());
    }
    let to_text = |e: KernelError| e.to_string();
    let set = process_set(&node.attrs).map_err(to_text)?;
    if node.op.name == BROADCAST {
        let root = usize::try_from(node.attrs.int("root_rank")).unwrap_or(usize::MAX);
        let kind = GpuCollectiveKind::Broadcast { root };
        return Ok(GpuCollective { set, kind });
    }
    let Reduction {
        op,
        prescale,
        postscale,
    } = reduction_of_attrs(&node.attrs).map_err(to_text)?;
    let floats = node.attrs.dtype("T").is_some_and(|t| t.is_float());
    let factor = prescale * postscale;
    let sums = matches!(op, ReduceOp::Sum | ReduceOp::Average);
    match op {
        ReduceOp::Adasum => Err("GPUs have no Adasum between them".to_owned()),
        // Only sums and averages of floats can combine their two factors into one.
        _ if (prescale, postscale) != (1.0, 1.0) && !(sums && floats) => {
            Err("between GPUs only sums and averages of floats have factors".to_owned())
        }
        _ => Ok(GpuCollective {
            set,
            kind: GpuCollectiveKind::Reduce { op, factor },
        }),
    }
}
