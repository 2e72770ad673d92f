//! Cast, Bitcast.

use bytemuck::Pod;
use half::{bf16, f16};
use smallvec::smallvec;
use thalweg_cpu::number::single;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, bool_attr, type_attr};
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::{DType, Shape, dispatch};

use crate::support::elementwise::{BLOCK, CHUNK, Compute, convert};
use crate::support::shape_inputs::{checked_shape, invalid_value};
use crate::support::shapes;
use crate::support::widened::{as_integers, as_uints};

/// Converts to another dtype.
pub(crate) static CAST: Op = Op {
    def: OpDef {
        name: "Cast",
        summary: "The elements as another dtype: floats become integers by leaving out the fraction, numbers become bools by being other than zero.",
        inputs: &[arg("x", "SrcT")],
        outputs: &[arg("y", "DstT")],
        attrs: &[
            type_attr("SrcT", DType::PLAIN),
            type_attr("DstT", DType::PLAIN),
            bool_attr("Truncate", false),
        ],
        shape: |cx| {
            shapes::unchanged(cx)?;
            let narrow = cx.attrs().dtype("DstT") == Some(DType::I32);
            let fits = |d: &i64| !narrow || i32::try_from(*d).is_ok();
            if let (Some(elements), Some(0 | 1)) = (cx.elements(0), cx.shape(0).rank()) {
                cx.set_elements(0, elements.into_iter().map(|d| d.filter(fits)).collect());
            }
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let (x, dtype) = (g.input(0).dtype(), g.grad().dtype());
            let back = || {
                g.graph()
                    .op("Cast")
                    .input(g.grad())
                    .attr("DstT", x)
                    .output()
            };
            let flows = |dtype: DType| dtype.is_float() || dtype.is_complex();
            smallvec![(flows(x) && flows(dtype)).then(back)]
        }),
        same_as: |cx| (cx.attrs().dtype("SrcT") == cx.attrs().dtype("DstT")).then_some(0),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(to), gpu(crate::gpu::cast)],
};

/// Kernel of Cast: direct loops for the common dtypes; all others go through the widest type of their kind, which
/// holds them exactly.
fn to(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let (from, to) = (
        p.dtype(0),
        p.outputs.first().map_or(DType::F32, |o| o.dtype),
    );
    if from.is_quantized() || to.is_quantized() {
        return as_integers(p, &self::to);
    }
    Ok(match (from, to) {
        (DType::F32, DType::F64) => convert::<f32, f64>(p, f64::from),
        (DType::F32, DType::I32) => convert::<f32, i32>(p, single::to_i32),
        // Beyond an i32 it is beyond a u8.
        (DType::F32, DType::U8) => convert::<f32, u8>(p, |x| single::to_i32(x).clamp(0, 255) as u8),
        (DType::F16 | DType::BF16 | DType::F32, DType::Bool) => {
            convert::<f32, bool>(p, |x| x != 0.0)
        }
        (DType::F32, DType::I64) => convert::<f32, i64>(p, |x| x as i64),
        (DType::F32, DType::F16 | DType::BF16) => {
            let rounding = f32::conversion(to).ok_or(KernelError::DType(to))?;
            by_way_of::<f32>(p, move |from, to| rounding.narrow(from, to))
        }
        (DType::F16 | DType::BF16, DType::F32) => convert::<f32, f32>(p, |x| x),
        // The values fit an i32, which processors convert in one instruction.
        (DType::U8 | DType::Bool, DType::F32) => convert::<u64, f32>(p, |x| x as i32 as f32),
        (DType::F16 | DType::BF16 | DType::F32 | DType::F64, _) => narrowed::<f64>(p, to)?,
        (DType::I8 | DType::I16 | DType::I32 | DType::I64, _) => narrowed::<i64>(p, to)?,
        (DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool, _) => {
            narrowed::<u64>(p, to)?
        }
        (DType::C64 | DType::C128, DType::C128) => convert::<Complex<f64>, Complex<f64>>(p, |x| x),
        (DType::C64 | DType::C128, DType::C64) => {
            convert::<Complex<f64>, Complex<f32>>(p, |x| Complex::new(x.re as f32, x.im as f32))
        }
        (DType::C64 | DType::C128, DType::Bool) => {
            convert::<Complex<f64>, bool>(p, |x| x != Complex::ZERO)
        }
        // The imaginary part is left out.
        (DType::C64 | DType::C128, _) => narrowed::<Complex<f64>>(p, to)?,
        (other, _) => return Err(KernelError::DType(other)),
    })
}

fn narrowed<W: Compute + Into<Scalar>>(
    p: &Prepare<'_>,
    to: DType,
) -> Result<Prepared, KernelError> {
    let narrow: fn(&[W], &mut [u8]) = match to {
        DType::Bool => |from, to| to_all::<W, u8>(from, to, |x| bool::from(x).into()),
        DType::C64 => {
            |from, to| to_all::<W, Complex<f32>>(from, to, |x| Complex::from(f32::from(x)))
        }
        DType::C128 => {
            |from, to| to_all::<W, Complex<f64>>(from, to, |x| Complex::from(f64::from(x)))
        }
        to => dispatch!(to, NUMBERS, B => |from, to| to_all::<W, B>(from, to, B::from), else {
            return Err(KernelError::DType(to))
        }),
    };
    as_uints(p, &[], &[0], &|p| Ok(by_way_of(p, narrow)))
}

fn to_all<W: Copy + Into<Scalar>, B: Pod>(from: &[W], to: &mut [u8], f: impl Fn(Scalar) -> B) {
    for (to, &x) in bytemuck::cast_slice_mut(to).iter_mut().zip(from) {
        *to = f(x.into());
    }
}

/// Kernel that widens a block of elements at a time, and writes it to the output with `narrow`.
fn by_way_of<W: Compute>(
    p: &Prepare<'_>,
    narrow: impl Fn(&[W], &mut [u8]) + Send + Sync + 'static,
) -> Prepared {
    let (conversion, size) = (W::conversion(p.dtype(0)), p.outputs[0].dtype.size());
    Prepared::new(p.outputs[0].elements(), move |cx| {
        let out = cx.output_bytes(0)?;
        let Some(c) = &conversion else {
            let x = cx.input::<W>(0)?;
            for_chunks(cx.pool(), out, CHUNK * size, &|i, out| {
                narrow(&x[i * CHUNK..], out)
            });
            return Ok(());
        };
        let x = cx.input_bytes(0)?;
        for_chunks(cx.pool(), out, CHUNK * size, &|i, out| {
            let x = &x[i * CHUNK * c.size..][..out.len() / size * c.size];
            for (x, out) in c.blocks(x).zip(out.chunks_mut(BLOCK * size)) {
                narrow(&x, out);
            }
        });
        Ok(())
    })
    .each()
}

impl From<Complex<f64>> for Scalar {
    #[inline(always)]
    fn from(x: Complex<f64>) -> Scalar {
        Scalar::Float(x.re)
    }
}

/// An element, in one of the three types that hold all elements of its kind exactly.
#[derive(Clone, Copy)]
enum Scalar {
    Float(f64),
    Signed(i64),
    Unsigned(u64),
}

macro_rules! wide {
    ($($t:ty, $variant:ident;)*) => {$(
        impl From<$t> for Scalar {
            #[inline(always)]
            fn from(x: $t) -> Scalar { Scalar::$variant(x) }
        }
    )*};
}

wide! {
    f64, Float;
    i64, Signed;
    u64, Unsigned;
}

macro_rules! narrow {
    ($($t:ty, |$f:ident| $float:expr, |$i:ident| $signed:expr, |$u:ident| $unsigned:expr;)*) => {$(
        impl From<Scalar> for $t {
            #[inline(always)]
            fn from(scalar: Scalar) -> $t {
                match scalar {
                    Scalar::Float($f) => $float,
                    Scalar::Signed($i) => $signed,
                    Scalar::Unsigned($u) => $unsigned,
                }
            }
        }
    )*};
}

narrow! {
    f16, |f| f16::from_f64(f), |i| f16::from_f64(i as f64), |u| f16::from_f64(u as f64);
    bf16, |f| bf16::from_f64(f), |i| bf16::from_f64(i as f64), |u| bf16::from_f64(u as f64);
    f32, |f| f as f32, |i| i as f32, |u| u as f32;
    f64, |f| f, |i| i as f64, |u| u as f64;
    i8, |f| f as i8, |i| i as i8, |u| u as i8;
    i16, |f| f as i16, |i| i as i16, |u| u as i16;
    i32, |f| f as i32, |i| i as i32, |u| u as i32;
    i64, |f| f as i64, |i| i, |u| u as i64;
    u8, |f| f as u8, |i| i as u8, |u| u as u8;
    u16, |f| f as u16, |i| i as u16, |u| u as u16;
    u32, |f| f as u32, |i| i as u32, |u| u as u32;
    u64, |f| f as u64, |i| i as u64, |u| u;
    bool, |f| f != 0.0, |i| i != 0, |u| u != 0;
}

/// Dtypes of any bits.
const BITS: &[DType] = &DType::joined::<19>(DType::ALL_NUMBERS, DType::QUANTIZED);

/// Reinterprets the bytes as elements of another dtype.
pub(crate) static BITCAST: Op = Op {
    def: OpDef {
        name: "Bitcast",
        summary: "The same bytes as elements of another dtype: of a smaller one, with a last dimension more, of a larger one, with one less.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "type")],
        attrs: &[type_attr("T", BITS), type_attr("type", BITS)],
        shape: |cx| {
            let to = cx.attrs().dtype("type").unwrap_or(DType::F32);
            let (from, to) = (cx.dtype(0).size(), to.size());
            let Some(dims) = cx.shape(0).dims() else {
                return Ok(());
            };
            let mut dims = dims.to_vec();
            if from > to {
                dims.push(Some(from / to.max(1)));
            } else if from < to {
                let parts = to / from.max(1);
                match dims.pop() {
                    Some(None) => {}
                    Some(Some(d)) if d == parts => {}
                    _ => {
                        let reason =
                            format!("the last dimension of {} must be {parts}", cx.shape(0));
                        return Err(invalid_value(0, reason));
                    }
                }
            }
            let shape = checked_shape(0, Shape::partial(dims))?;
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        Ok(Prepared::new(p.outputs[0].elements(), |cx| {
            let (from, to) = (cx.input_bytes(0)?, cx.output_bytes(0)?);
            to.copy_from_slice(from);
            Ok(())
        }))
    })],
};
