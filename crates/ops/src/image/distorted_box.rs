//! SampleDistortedBoundingBox, SampleDistortedBoundingBoxV2, StatelessSampleDistortedBoundingBox, RandomCrop.

use thalweg_cpu::number::Number;
use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{
    Arg, AttrDef, Default, Effect, Gradient, arg, arg_of, attr, bool_attr, float_attr, int_attr,
    type_attr,
};
use thalweg_graph::{AttrKind, Attrs, Infer, InferError, OpDef};
use thalweg_image::BoxSampler;
use thalweg_tensor::{DType, Element, Shape, dispatch};

use super::images::{PIXELS, expect_last, image_error};
use crate::random::philox::Philox;
use crate::random::reserve::take_blocks;
use crate::random::seed_source::SeedSource;
use crate::support::shape_inputs::{invalid_value, vector_length};
use crate::support::shapes::expect_scalar;
use crate::support::widened::as_uints;

const SEEDS: [AttrDef; 2] = [int_attr("seed", 0), int_attr("seed2", 0)];
const SIZES: AttrDef = type_attr(
    "T",
    &[DType::U8, DType::I8, DType::I16, DType::I32, DType::I64],
);
const ASPECT: AttrDef = AttrDef {
    default: Default::Floats(&[0.75, 1.33]),
    ..attr("aspect_ratio_range", AttrKind::Floats)
};
const AREA: AttrDef = AttrDef {
    default: Default::Floats(&[0.05, 1.0]),
    ..attr("area_range", AttrKind::Floats)
};
const ATTEMPTS: AttrDef = int_attr("max_attempts", 100);
const WHOLE: AttrDef = bool_attr("use_image_if_no_bounding_boxes", false);
const OUTPUTS: &[Arg] = &[
    arg("begin", "T"),
    arg("size", "T"),
    arg_of("bboxes", DType::F32),
];

/// The sampler that the attributes describe; the least share of an object may be an input.
fn sampler(attrs: &Attrs) -> Result<BoxSampler, KernelError> {
    let range = |name: &str| match *attrs.floats(name) {
        [least, most] => Ok([least, most]),
        ref other => Err(KernelError::Invalid(format!(
            "{name} is {other:?}, but is a pair of numbers"
        ))),
    };
    Ok(BoxSampler {
        min_object_covered: match attrs.get("min_object_covered") {
            Some(_) => attrs.float("min_object_covered"),
            None => 0.0,
        },
        aspect_ratio: range(ASPECT.name)?,
        area: range(AREA.name)?,
        attempts: usize::try_from(attrs.int(ATTEMPTS.name)).unwrap_or(0),
    })
}

fn sample<T: Number>(
    cx: &KernelCx<'_>,
    (source, mut sampler, whole): (SeedSource, BoxSampler, bool),
    share: Option<usize>,
) -> Result<(), KernelError> {
    if let Some(i) = share {
        sampler.min_object_covered = match *cx.input::<f32>(i)? {
            [share] => share,
            _ => return Err(KernelError::Argument("a scalar")),
        };
    }
    let sides: Vec<usize> = cx
        .input::<T>(0)?
        .iter()
        .map(|&n| n.to_f64() as usize)
        .collect();
    let &[height, width, _] = &*sides else {
        return Err(KernelError::Argument("the size of an image"));
    };
    let (boxes, _) = cx.input::<f32>(1)?.as_chunks::<4>();
    if boxes.is_empty() && !whole {
        let text = "there are no bounding boxes: give some, or set use_image_if_no_bounding_boxes";
        return Err(KernelError::Invalid(text.to_owned()));
    }
    // A block of four words for each attempt, used or not.
    let (philox, first) = match source {
        SeedSource::Counter(philox) => (philox, take_blocks(cx, sampler.attempts as u64)?),
        seeds => seeds.start(cx, 0)?,
    };
    let window = sampler
        .sample(height, width, boxes, &mut philox.words(first))
        .map_err(image_error)?;
    let number = |n: usize| T::from_f64(n as f64);
    // All channels are said by -1, which wraps in unsigned dtypes.
    let all = number(0).sub(number(1));
    let numbers = [
        [number(window.y), number(window.x), number(0)],
        [number(window.height), number(window.width), all],
    ];
    for (i, numbers) in numbers.iter().enumerate() {
        cx.output::<T>(i)?.copy_from_slice(numbers);
    }
    let share = |at: usize, n: usize| at as f32 / n as f32;
    cx.output::<f32>(2)?.copy_from_slice(&[
        share(window.y, height),
        share(window.x, width),
        share(window.y + window.height, height),
        share(window.x + window.width, width),
    ]);
    Ok(())
}

fn prepare_sample(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let attrs = &p.node.attrs;
    let from = (SeedSource::of(p), sampler(attrs)?, attrs.bool(WHOLE.name));
    let share = (p.inputs.len() > 2).then_some(2);
    dispatch!(p.dtype(0), [U8 I8 I16 I32 I64], T => {
        Ok(Prepared::new(1000, move |cx| sample::<T>(cx, from, share)))
    }, else Err(KernelError::DType(p.dtype(0))))
}

fn sample_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    if vector_length(cx, 0)?.is_some_and(|n| n != 3) {
        let text = "the size of an image is its height, width and channels";
        return Err(invalid_value(0, text));
    }
    cx.ranked(1, 3)?;
    expect_last(cx, 1, 4)?;
    if cx.inputs() > 2 {
        expect_scalar(cx, 2)?;
    }
    if cx.inputs() > 3 && cx.ranked(3, 1)?.dim(0).is_some_and(|n| n != 2) {
        return Err(invalid_value(3, "seed must have two elements"));
    }
    cx.set(0, Shape::from([3]));
    cx.set(1, Shape::from([3]));
    cx.set(2, Shape::from([1, 1, 4]));
    Ok(())
}

/// Draws a window of an image.
pub(crate) static SAMPLE_DISTORTED_BOUNDING_BOX: Op = Op {
    def: OpDef {
        name: "SampleDistortedBoundingBox",
        summary: "A random window of an image that contains enough of an object.",
        inputs: &[arg("image_size", "T"), arg_of("bounding_boxes", DType::F32)],
        outputs: OUTPUTS,
        attrs: &[
            SIZES,
            SEEDS[0],
            SEEDS[1],
            float_attr("min_object_covered", 0.1),
            ASPECT,
            AREA,
            ATTEMPTS,
            WHOLE,
        ],
        shape: sample_shape,
        gradient: Gradient::None,
        effect: Effect::Random,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(prepare_sample)],
};

/// Draws a window of an image; the share of an object is an input.
pub(crate) static SAMPLE_DISTORTED_BOUNDING_BOX_V2: Op = Op {
    def: OpDef {
        name: "SampleDistortedBoundingBoxV2",
        summary: "A random window of an image that contains at least a given share of an object.",
        inputs: &[
            arg("image_size", "T"),
            arg_of("bounding_boxes", DType::F32),
            arg_of("min_object_covered", DType::F32),
        ],
        outputs: OUTPUTS,
        attrs: &[SIZES, SEEDS[0], SEEDS[1], ASPECT, AREA, ATTEMPTS, WHOLE],
        shape: sample_shape,
        gradient: Gradient::None,
        effect: Effect::Random,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(prepare_sample)],
};

/// Draws a window of an image by two seeds.
pub(crate) static STATELESS_SAMPLE_DISTORTED_BOUNDING_BOX: Op = Op {
    def: OpDef {
        name: "StatelessSampleDistortedBoundingBox",
        summary: "A random window of an image that contains at least a given share of an object, by two seeds.",
        inputs: &[
            arg("image_size", "T"),
            arg_of("bounding_boxes", DType::F32),
            arg_of("min_object_covered", DType::F32),
            arg("seed", "Tseed"),
        ],
        outputs: OUTPUTS,
        attrs: &[
            SIZES,
            type_attr("Tseed", DType::INDICES),
            ASPECT,
            AREA,
            ATTEMPTS,
            WHOLE,
        ],
        shape: sample_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(prepare_sample)],
};

fn crop<T: Element>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let (&[height, width, channels], &[lines, columns, _]) = (p.dims(0), p.output_dims(0)) else {
        return Err(KernelError::Argument("an image"));
    };
    let philox = Philox::of(&p.node.attrs);
    let (room_y, room_x) = match (height.checked_sub(lines), width.checked_sub(columns)) {
        (Some(y), Some(x)) => (y, x),
        _ => return Err(KernelError::Argument("a crop inside of the image")),
    };
    Ok(Prepared::new(lines * columns * channels, move |cx| {
        let (x, out) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
        let mut words = philox.words(take_blocks(cx, 1)?);
        // TensorFlow uses 32 bits as well.
        let mut start = |room: usize| match room as u32 {
            0 => 0,
            room => (words() % room.saturating_add(1)) as usize,
        };
        let left = start(room_x);
        let top = start(room_y);
        if out.is_empty() {
            return Ok(());
        }
        let line = columns * channels;
        for (i, out) in out.chunks_exact_mut(line).enumerate() {
            let from = ((top + i) * width + left) * channels;
            out.copy_from_slice(&x[from..][..line]);
        }
        Ok(())
    }))
}

/// A window of an image at a random place.
pub(crate) static RANDOM_CROP: Op = Op {
    def: OpDef {
        name: "RandomCrop",
        summary: "A window of an image, of a given size, at a random place.",
        inputs: &[arg("image", "T"), arg_of("size", DType::I64).host()],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", PIXELS), SEEDS[0], SEEDS[1]],
        shape: |cx| {
            let image = cx.ranked(0, 3)?;
            if vector_length(cx, 1)?.is_some_and(|n| n != 2) {
                return Err(invalid_value(1, "a size is a height and a width"));
            }
            let mut dims = [None, None, image.dim(2)];
            for (axis, n) in cx
                .ints(1)
                .unwrap_or_default()
                .into_iter()
                .enumerate()
                .take(2)
            {
                let side = usize::try_from(n).ok();
                if side.is_none_or(|n| image.dim(axis).is_some_and(|all| n > all)) {
                    let text = format!("a side of {n} does not lie in an image of shape {image}");
                    return Err(invalid_value(1, text));
                }
                dims[axis] = side;
            }
            cx.set(0, Shape::partial(dims));
            Ok(())
        },
        gradient: Gradient::None,
        effect: Effect::Random,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        as_uints(p, &[0], &[0], &|p| {
            dispatch!(p.dtype(0), SIZES, T => crop::<T>(p), else
                Err(KernelError::DType(p.dtype(0))))
        })
    })],
};
