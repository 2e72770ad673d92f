//! Complex, Real, Imag, Conj, ComplexAbs, Angle: complex numbers, their parts and their polar form.

use smallvec::smallvec;
use thalweg_device::{Kernel, KernelError, Op, Prepare, Prepared, cpu, cpu_tensors};
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, type_attr_or};
use thalweg_graph::{InferError, OpDef, Output};
use thalweg_tensor::DType;
use thalweg_tensor::num_complex::Complex;

use super::broadcast::sum_to;
use crate::support::elementwise::{binary_to, computed, convert, unary};
use crate::support::gradient_nodes::conj;
use crate::support::shapes;
use crate::support::sparse_sum;

const COMPLEX: AttrDef = type_attr_or("T", DType::COMPLEX, DType::C64);
const REAL: &[DType] = &[DType::F32, DType::F64];

/// A complex number of a real and an imaginary part.
pub(crate) static COMPLEX_OP: Op = Op {
    def: OpDef {
        name: "Complex",
        summary: "The complex numbers of these real and imaginary parts, with broadcasting.",
        inputs: &[arg("real", "T"), arg("imag", "T")],
        outputs: &[arg("out", "Tout")],
        attrs: &[
            type_attr_or("T", REAL, DType::F32),
            type_attr_or("Tout", DType::COMPLEX, DType::C64),
        ],
        shape: |cx| {
            expect_parts(cx.attrs().dtype("Tout"), Some(cx.dtype(0)))?;
            shapes::broadcast(cx)
        },
        gradient: Gradient::Rule(|g| {
            let (re, im, dz) = (g.input(0), g.input(1), g.grad());
            let (to_re, to_im) = (part("Real", dz), part("Imag", dz));
            smallvec![Some(sum_to(to_re, re, im)), Some(sum_to(to_im, im, re))]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| match p.dtype(0) {
        DType::F32 => Ok(binary_to::<f32, Complex<f32>>(p, Complex::new)),
        DType::F64 => Ok(binary_to::<f64, Complex<f64>>(p, Complex::new)),
        other => Err(KernelError::DType(other)),
    })],
};

/// Checks that real numbers have the dtype of the complex numbers' parts.
fn expect_parts(complex: Option<DType>, real: Option<DType>) -> Result<(), InferError> {
    match (complex, real) {
        (Some(complex), Some(real)) if complex.real() != real => Err(InferError::Attr {
            attr: "Tout",
            reason: format!("the parts of {complex} are {}, not {real}", complex.real()),
        }),
        _ => Ok(()),
    }
}

/// Node of a part of complex numbers: `Real`, `Imag`, `Angle` or `ComplexAbs`.
fn part<'g>(op: &str, z: Output<'g>) -> Output<'g> {
    let node = z.graph().op(op).input(z);
    node.attr("Tout", z.dtype().real()).output()
}

/// Node of complex numbers with these parts.
fn complex<'g>(re: Output<'g>, im: Output<'g>, dtype: DType) -> Output<'g> {
    let node = re.graph().op("Complex").input(re).input(im);
    node.attr("Tout", dtype).output()
}

/// Node of complex numbers without an imaginary part.
fn without_imaginary(re: Output<'_>, dtype: DType) -> Output<'_> {
    complex(re, re.constant_like(0), dtype)
}

const Z: &[Arg] = &[arg("input", "T")];
const PART: &[Arg] = &[arg("output", "Tout")];
const PART_ATTRS: &[AttrDef] = &[COMPLEX, type_attr_or("Tout", REAL, DType::F32)];

/// Definition of a real function of complex numbers.
const fn part_op(name: &'static str, summary: &'static str, gradient: Gradient) -> OpDef {
    OpDef {
        name,
        summary,
        inputs: Z,
        outputs: PART,
        attrs: PART_ATTRS,
        shape: |cx| {
            expect_parts(Some(cx.dtype(0)), cx.attrs().dtype("Tout"))?;
            shapes::unchanged(cx)
        },
        gradient,
        ..OpDef::EMPTY
    }
}

/// Kernel of a real function of complex numbers.
fn to_real(
    p: &Prepare<'_>,
    f: impl Fn(Complex<f64>) -> f64 + Copy + Send + Sync + 'static,
) -> Result<Prepared, KernelError> {
    match p.dtype(0) {
        DType::C64 => Ok(convert::<Complex<f64>, f32>(p, move |z| f(z) as f32)),
        DType::C128 => Ok(convert::<Complex<f64>, f64>(p, f)),
        other => Err(KernelError::DType(other)),
    }
}

/// The real part.
pub(crate) static REAL_OP: Op = Op {
    def: part_op(
        "Real",
        "The real part of each complex number.",
        Gradient::Rule(|g| smallvec![Some(without_imaginary(g.grad(), g.input(0).dtype()))]),
    ),
    kernels: &[cpu(|p| to_real(p, |z| z.re))],
};

/// The imaginary part.
pub(crate) static IMAG: Op = Op {
    def: part_op(
        "Imag",
        "The imaginary part of each complex number.",
        Gradient::Rule(|g| {
            let (dy, dtype) = (g.grad(), g.input(0).dtype());
            smallvec![Some(complex(dy.constant_like(0), dy, dtype))]
        }),
    ),
    kernels: &[cpu(|p| to_real(p, |z| z.im))],
};

/// The angle of the polar form.
pub(crate) static ANGLE: Op = Op {
    def: part_op(
        "Angle",
        "The angle of each complex number in its polar form, in radians.",
        Gradient::Rule(|g| {
            let z = g.input(0);
            let turned = complex(part("Imag", z), part("Real", z), z.dtype());
            smallvec![Some(-(without_imaginary(g.grad(), z.dtype()) / turned))]
        }),
    ),
    kernels: &[cpu(|p| to_real(p, |z| z.arg()))],
};

/// The absolute value.
pub(crate) static COMPLEX_ABS: Op = Op {
    def: OpDef {
        inputs: &[arg("x", "T")],
        outputs: &[arg("y", "Tout")],
        ..part_op(
            "ComplexAbs",
            "The absolute value of each complex number.",
            Gradient::Rule(|g| {
                let (z, dtype) = (g.input(0), g.input(0).dtype());
                let scaled = without_imaginary(g.grad(), dtype) * z;
                let size = without_imaginary(g.output(0), dtype);
                let node = g.graph().op("DivNoNan").input(scaled).input(size);
                smallvec![Some(node.output())]
            }),
        )
    },
    kernels: &[cpu(|p| to_real(p, |z| z.norm()))],
};

/// The complex conjugate.
pub(crate) static CONJ: Op = Op {
    def: OpDef {
        name: "Conj",
        summary: "The complex conjugate of each number: its imaginary part has the other sign.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr_or("T", CONJUGATED, DType::C64)],
        shape: shapes::unchanged,
        gradient: Gradient::Rule(|g| smallvec![Some(conj(g.grad()))]),
        ..OpDef::EMPTY
    },
    kernels: CONJ_KERNELS,
};

/// Dtypes of Conj: complex numbers, and variants (sparse matrices).
const CONJUGATED: &[DType] = &DType::joined::<3>(DType::COMPLEX, &[DType::Variant]);

const CONJ_KERNELS: &[Kernel] = &[
    cpu(|p| {
        computed!(p.dtype(0), COMPLEX, T => Ok(unary::<T>(p, |z: T| z.conj())), else
        Err(KernelError::DType(p.dtype(0))))
    })
    .in_place(&[(0, 0)])
    .only(&[("T", DType::COMPLEX)]),
    cpu_tensors(sparse_sum::conj).only(&[("T", &[DType::Variant])]),
];
