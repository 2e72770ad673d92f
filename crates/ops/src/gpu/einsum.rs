//! GPU launches of Einsum: copies of the inputs in the order of a GEMM, GEMMs, and a copy to the order of the output.

use smallvec::SmallVec;
use thalweg_cpu::gemm::Gemm;
use thalweg_device::gpu::{
    self, ALIGNMENT, Arg, Call, Launch, Launches, LibraryStep, WithLibraries,
};
use thalweg_device::{KernelError, Prepare};

use super::elementwise::to_struct;
use super::fill::zero;
use super::gemm::GemmTiles;
use super::sources::{GEMM, UNARY};
use super::strided_copy::strided_copy;
use crate::support::elementwise::Walk;
use crate::support::strided_copy::StridedCopy;

/// A tensor of a sum of products: its elements in the order of the GEMM, and their move, unless they are in order.
pub(crate) struct EinsumTensor<'a> {
    pub(crate) len: usize,
    pub(crate) moved: Option<&'a StridedCopy>,
}

/// A sum of products as GEMMs.
pub(crate) struct EinsumGemm<'a> {
    pub(crate) batches: usize,
    pub(crate) gemm: Gemm,
    pub(crate) left: EinsumTensor<'a>,
    /// `None` for ones.
    pub(crate) right: Option<EinsumTensor<'a>>,
    pub(crate) output: EinsumTensor<'a>,
    /// `true` if the output has elements that are not written.
    pub(crate) gaps: bool,
}

/// Launches of a sum of products.
pub(crate) fn einsum(p: &Prepare<'_>, e: &EinsumGemm<'_>) -> Result<Launches, KernelError> {
    if p.outputs[0].elements() == 0 {
        return Ok(Launches::default());
    }
    let dtype = p.outputs[0].dtype;
    let mut scratch = 0;
    let mut room = |len: usize| {
        let place = Arg::Scratch(scratch);
        scratch += (len * dtype.size()).next_multiple_of(ALIGNMENT);
        place
    };
    let mut before: SmallVec<[Launch; 4]> = SmallVec::new();
    let mut in_order = |tensor: &EinsumTensor<'_>, input: usize, place: Arg| {
        let Some(moved) = tensor.moved else {
            return Ok(Arg::Input(input));
        };
        before.push(strided_copy(
            dtype,
            moved,
            Some(Arg::Input(input)),
            place.clone(),
        )?);
        Ok::<_, KernelError>(place)
    };
    let left = in_order(&e.left, 0, room(e.left.len))?;
    let Gemm { m, n, k, .. } = e.gemm;
    let right = match &e.right {
        Some(right) => in_order(right, 1, room(right.len))?,
        None => {
            let place = room(k * n * e.batches);
            let ones = Launch::over(k * n * e.batches, &UNARY, "OnesLike", &[dtype]);
            before.push(ones.arg(place.clone()).indices(&[k * n * e.batches]));
            place
        }
    };
    let mut after: SmallVec<[Launch; 2]> = SmallVec::new();
    let output = match e.output.moved {
        None => Arg::Output(0),
        Some(moved) => {
            let place = room(e.output.len);
            after.push(strided_copy(
                dtype,
                moved,
                Some(place.clone()),
                Arg::Output(0),
            )?);
            place
        }
    };
    if e.gaps {
        before.push(zero(p, 0)?);
    }
    let tiles = GemmTiles::new(e.batches, [m, n, k]);
    let longest = e.left.len.max(k * n * e.batches).max(e.output.len);
    let batches = [e.batches];
    let own = tiles
        .launch(p, &GEMM, "MatMul", longest)
        .arg(left.clone())
        .arg(right.clone())
        .arg(output.clone())
        .arg(Arg::Scratch(0))
        .indices(&tiles.to_struct())
        .indices(&to_struct(&Walk::new(&batches, &batches, &batches))?)
        .value(0u32);
    let call = Call::Gemm(gpu::Gemm {
        dtype,
        batches: e.batches,
        left_step: m * k,
        right_step: k * n,
        rows: m,
        columns: n,
        depth: k,
        transpose_left: false,
        transpose_right: false,
    });
    let library = [LibraryStep::Call(call, [left, right, output])];
    let launches = |list: &[Launch]| list.iter().cloned().map(LibraryStep::Launch).collect();
    let steps: [Vec<LibraryStep>; 3] = [launches(&before), library.into(), launches(&after)];
    let with_library = WithLibraries {
        steps: steps.into_iter().flatten().collect(),
        scratch,
    };
    Ok(Launches {
        list: before.into_iter().chain([own]).chain(after).collect(),
        scratch,
        // An empty sum is no product.
        with_libraries: (k > 0).then_some(with_library).into_iter().collect(),
        ..Launches::default()
    })
}
