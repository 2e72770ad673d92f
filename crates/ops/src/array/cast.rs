//! Elements of one dtype as those of another.

use half::{bf16, f16};
use smallvec::smallvec;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, bool_attr, type_attr};
use thalweg_tensor::{DType, Element, dispatch};

use crate::elementwise::convert;
use crate::shapes;

/// Another dtype.
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
        shape: shapes::unchanged,
        gradient: Gradient::Rule(|g| {
            let (x, dtype) = (g.input(0).dtype(), g.grad().dtype());
            let back = || {
                g.graph()
                    .op("Cast")
                    .input(g.grad())
                    .attr("DstT", x)
                    .output()
            };
            smallvec![(x.is_float() && dtype.is_float()).then(back)]
        }),
        same_as: |cx| (cx.attrs().dtype("SrcT") == cx.attrs().dtype("DstT")).then_some(0),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(
            |p| dispatch!(p.dtype(0), PLAIN, A => to::<A>(p), else Err(KernelError::DType(p.dtype(0)))),
        ),
        gpu(crate::gpu::cast),
    ],
};

fn to<A: Element + Into<Scalar>>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let dtype = p.outputs.first().map_or(DType::F32, |o| o.dtype);
    dispatch!(dtype, PLAIN, B => Ok(convert::<A, B>(p, |x| B::from(x.into()))), else Err(KernelError::DType(dtype)))
}

/// Any element, in one of the three types that hold all of its kind exactly.
#[derive(Clone, Copy)]
enum Scalar {
    Float(f64),
    Signed(i64),
    Unsigned(u64),
}

macro_rules! scalar {
    ($($t:ty, $variant:ident, $wide:ty, |$x:ident| $into:expr, |$f:ident| $float:expr, |$i:ident| $signed:expr, |$u:ident| $unsigned:expr;)*) => {$(
        impl From<$t> for Scalar {
            #[inline(always)]
            fn from($x: $t) -> Scalar { Scalar::$variant($into) }
        }
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

scalar! {
    f16, Float, f64, |x| x.to_f64(), |f| f16::from_f64(f), |i| f16::from_f64(i as f64), |u| f16::from_f64(u as f64);
    bf16, Float, f64, |x| x.to_f64(), |f| bf16::from_f64(f), |i| bf16::from_f64(i as f64), |u| bf16::from_f64(u as f64);
    f32, Float, f64, |x| x.into(), |f| f as f32, |i| i as f32, |u| u as f32;
    f64, Float, f64, |x| x, |f| f, |i| i as f64, |u| u as f64;
    i8, Signed, i64, |x| x.into(), |f| f as i8, |i| i as i8, |u| u as i8;
    i16, Signed, i64, |x| x.into(), |f| f as i16, |i| i as i16, |u| u as i16;
    i32, Signed, i64, |x| x.into(), |f| f as i32, |i| i as i32, |u| u as i32;
    i64, Signed, i64, |x| x, |f| f as i64, |i| i, |u| u as i64;
    u8, Unsigned, u64, |x| x.into(), |f| f as u8, |i| i as u8, |u| u as u8;
    u16, Unsigned, u64, |x| x.into(), |f| f as u16, |i| i as u16, |u| u as u16;
    u32, Unsigned, u64, |x| x.into(), |f| f as u32, |i| i as u32, |u| u as u32;
    u64, Unsigned, u64, |x| x, |f| f as u64, |i| i as u64, |u| u;
    bool, Unsigned, u64, |x| x.into(), |f| f != 0.0, |i| i != 0, |u| u != 0;
}
