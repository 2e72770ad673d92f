//! GPU launches of GEMMs: by a library, or in tiles.

use thalweg_cpu::gemm::Gemm;
use thalweg_device::gpu::{self, Arg, Call, Launch, Launches, LibraryStep, Source, WithLibraries};
use thalweg_device::{KernelError, Prepare};
use thalweg_tensor::DType;
use thalweg_tensor::shape::elements;

use super::elementwise::to_struct;
use super::sources::GEMM;
use crate::support::elementwise::Walk;

/// Rows and columns of a tile, and elements of the inner dimension that are loaded at once, in
/// `kernels/thalweg.cuh`.
const TILE: usize = 64;
const DEPTH: usize = 16;

/// Number of blocks that fills a GPU: with fewer, a long inner dimension is split into segments.
const TARGET_BLOCKS: usize = 256;

/// Minimum number of elements of the inner dimension in a segment.
const MIN_SEGMENT: usize = 256;

/// Split of GEMMs into tiles and segments, which depends on their shape alone.
#[derive(Clone, Copy)]
pub(super) struct GemmTiles {
    batches: usize,
    rows: usize,
    columns: usize,
    depth: usize,
    segments: usize,
    each: usize,
}

impl GemmTiles {
    /// One GEMM for each batch, not split along the inner dimension.
    pub(super) fn new(batches: usize, [rows, columns, depth]: [usize; 3]) -> GemmTiles {
        GemmTiles {
            batches,
            rows,
            columns,
            depth,
            segments: 1,
            each: depth,
        }
    }

    /// The same in segments, if there would be few blocks.
    pub(super) fn segmented(self) -> GemmTiles {
        let max_segments = (TARGET_BLOCKS / self.units().max(1)).max(1);
        let segments = (self.depth / MIN_SEGMENT).clamp(1, max_segments);
        if segments == 1 {
            return self;
        }
        let each = self.depth.div_ceil(segments).next_multiple_of(DEPTH);
        let segments = self.depth.div_ceil(each);
        GemmTiles {
            segments,
            each,
            ..self
        }
    }

    fn units(&self) -> usize {
        self.batches * self.rows.div_ceil(TILE) * self.columns.div_ceil(TILE) * self.segments
    }

    /// Number of elements of all segments' partial sums.
    pub(super) fn partial(&self) -> usize {
        self.batches * self.rows * self.columns * self.segments
    }

    /// As `struct GEMM` of `kernels/thalweg.cuh`.
    pub(super) fn to_struct(self) -> [usize; 6] {
        [
            self.batches,
            self.rows,
            self.columns,
            self.depth,
            self.segments,
            self.each,
        ]
    }

    /// Launch with a block for each tile of each segment, without arguments; `longest` is the length
    /// of the longest tensor.
    pub(super) fn launch(
        &self,
        p: &Prepare<'_>,
        source: &'static Source,
        name: &'static str,
        longest: usize,
    ) -> Launch {
        let longest = longest.max(self.partial());
        let mut launch = Launch::over(longest, source, name, &[p.outputs[0].dtype]);
        let units = u32::try_from(self.units()).unwrap_or(u32::MAX);
        launch.blocks = units.clamp(1, 1 << 16);
        launch
    }

    /// `first`, followed by a launch that adds up the segments by function `Join` of the same source.
    pub(super) fn joined(&self, first: Launch) -> Launches {
        let mut join = Launch::over(
            self.batches * self.rows * self.columns,
            first.function.source,
            "Join",
            &first.function.types,
        );
        join.function.large = first.function.large;
        let mut launches = Launches::from(first);
        if self.segments > 1 {
            let join = join
                .arg(Arg::Scratch(0))
                .output(0)
                .indices(&self.to_struct());
            launches.list.push(join);
            // A sum has at most 8 bytes.
            launches.scratch = self.partial() * 8;
        }
        launches
    }
}

/// GEMMs of the matrices of inputs 0 and 1; `batch` has the batch dimensions of both
/// inputs and of the output.
pub(crate) fn gemm(
    p: &Prepare<'_>,
    gemm: Gemm,
    [a, b, out]: [&[usize]; 3],
) -> Result<Launches, KernelError> {
    let Gemm { m, n, k, .. } = gemm;
    let outputs = p.outputs[0].elements();
    if outputs == 0 {
        return Ok(Launches::default());
    }
    let tiles = GemmTiles::new(outputs / (m * n), [m, n, k]).segmented();
    let longest = p.inputs[0].elements().max(p.inputs[1].elements());
    let transposed = u32::from(gemm.transpose_a) | u32::from(gemm.transpose_b) << 1;
    let launch = tiles
        .launch(p, &GEMM, "MatMul", longest)
        .input(0)
        .input(1)
        .output(0)
        .arg(Arg::Scratch(0))
        .indices(&tiles.to_struct())
        .indices(&to_struct(&Walk::new(a, b, out))?)
        .value(transposed);
    Ok(Launches {
        with_libraries: library_calls(p, gemm, [a, b]).into_iter().collect(),
        ..tiles.joined(launch)
    })
}

/// Library calls for GEMMs of floats whose batches are those of the output or one for all.
fn library_calls(p: &Prepare<'_>, gemm: Gemm, batches: [&[usize]; 2]) -> Option<WithLibraries> {
    let Gemm { m, n, k, .. } = gemm;
    let whole = p.outputs[0].elements() / (m * n);
    if !DType::FLOATS.contains(&p.dtype(0)) || k == 0 {
        return None;
    }
    let step = |own: &[usize], matrix: usize| match elements(own) {
        1 => Some(0),
        all if all == whole => Some(matrix),
        _ => None,
    };
    let call = Call::Gemm(gpu::Gemm {
        dtype: p.dtype(0),
        batches: whole,
        left_step: step(batches[0], m * k)?,
        right_step: step(batches[1], k * n)?,
        rows: m,
        columns: n,
        depth: k,
        transpose_left: gemm.transpose_a,
        transpose_right: gemm.transpose_b,
    });
    let args = [Arg::Input(0), Arg::Input(1), Arg::Output(0)];
    Some(WithLibraries {
        steps: [LibraryStep::Call(call, args)].into_iter().collect(),
        scratch: 0,
    })
}
