//! RealDiv, Div, FloorDiv, FloorMod, TruncateDiv, TruncateMod, Mod.

use smallvec::smallvec;
use thalweg_cpu::number::double::ROUND;
use thalweg_cpu::number::{Arithmetic, Float, Number, Wide};
use thalweg_device::gpu::Launches;
use thalweg_device::{Kernel, KernelCx, KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::{AttrDef, Gradient, type_attr};
use thalweg_tensor::DType;

use super::broadcast::sum_to;
use super::define::{FLOAT_OR_COMPLEX, NUMBER, REAL_OR_COMPLEX, binary_op, float_kernel_2};
use crate::support::elementwise::{Any, BLOCK, Compute, binary, computed};
use crate::support::gradient_nodes::conj;

/// Gradients of `x / y`.
const QUOTIENT_GRADIENT: Gradient = Gradient::Rule(|g| {
    let (x, y, dz) = (g.input(0), g.input(1), g.grad());
    let dx = dz / conj(y);
    let dy = -(dx * conj(g.output(0)));
    smallvec![Some(sum_to(dx, x, y)), Some(sum_to(dy, y, x))]
});

/// `x / y`.
pub(crate) static REAL_DIV: Op = Op {
    def: binary_op(
        "RealDiv",
        "The quotient of two tensors of floats or complex numbers, with broadcasting.",
        FLOAT_OR_COMPLEX,
        QUOTIENT_GRADIENT,
    ),
    kernels: float_kernel_2!(|x, y| x / y, complex: |x: T, y: T| x / y),
};

/// `x / y`, rounded towards zero for integers.
pub(crate) static DIV: Op = Op {
    def: binary_op(
        "Div",
        "The quotient of two tensors, with broadcasting; of integers, rounded towards zero.",
        REAL_OR_COMPLEX,
        QUOTIENT_GRADIENT,
    ),
    kernels: &[
        cpu(|p| {
            computed!(p.dtype(0), FLOATS_AND_COMPLEX, T => Ok(binary::<T>(p, |x: T, y: T| x / y)), else
            computed!(p.dtype(0), INTS, T => Ok(integer_division::<T>(p, T::quotient, |x, y| narrow_quotient(x, y, f64::trunc))), else
                Err(KernelError::DType(p.dtype(0)))))
        }),
        gpu(|p| match DType::FLOATS.contains(&p.dtype(0)) {
            true => crate::gpu::binary_as(p, "RealDiv"),
            false => gpu_launches(p),
        }),
    ],
};

/// `floor(x / y)`.
pub(crate) static FLOOR_DIV: Op = Op {
    def: binary_op(
        "FloorDiv",
        "The quotient of two tensors rounded down, with broadcasting.",
        NUMBER,
        Gradient::None,
    ),
    kernels: &[
        cpu(|p| {
            computed!(p.dtype(0), FLOATS, T => Ok(binary::<T>(p, |x, y| T::narrow(Wide::floor(x.widen() / y.widen())))), else
            computed!(p.dtype(0), INTS, T => Ok(integer_division::<T>(p, T::floor_quotient, |x, y| narrow_quotient(x, y, f64::floor))), else
                Err(KernelError::DType(p.dtype(0)))))
        }),
        gpu(gpu_launches),
    ],
};

/// `x - floor(x / y) y`.
pub(crate) static FLOOR_MOD: Op = Op {
    def: binary_op(
        "FloorMod",
        "The remainder of a division rounded down: it has the divisor's sign.",
        NUMBER,
        Gradient::Rule(|g| {
            let (x, y, dz) = (g.input(0), g.input(1), g.grad());
            let quotient = g.graph().op("FloorDiv").input(x).input(y).output();
            smallvec![Some(sum_to(dz, x, y)), Some(sum_to(-(dz * quotient), y, x))]
        }),
    ),
    kernels: &[
        cpu(|p| {
            computed!(p.dtype(0), FLOATS, T => Ok(binary::<T>(p, |x, y| T::narrow(float_mod(x.widen(), y.widen())))), else
            computed!(p.dtype(0), INTS, T => Ok(integer_division::<T>(p, T::floor_remainder, |x, y| narrow_remainder(x, y, f64::floor))), else
                Err(KernelError::DType(p.dtype(0)))))
        }),
        gpu(gpu_launches),
    ],
};

/// Exact remainder, moved to the divisor's sign.
fn float_mod<W: Wide>(x: W, y: W) -> W {
    let remainder = W::from_f64(x.to_f64() % y.to_f64());
    if remainder != W::ZERO && (remainder < W::ZERO) != (y < W::ZERO) {
        remainder + y
    } else {
        remainder
    }
}

/// Quotient, rounded towards zero.
pub(crate) static TRUNCATE_DIV: Op = Op {
    def: binary_op(
        "TruncateDiv",
        "The quotient of two tensors rounded towards zero, with broadcasting.",
        NUMBER,
        Gradient::None,
    ),
    kernels: &[
        cpu(|p| {
            computed!(p.dtype(0), FLOATS, T => Ok(binary::<T>(p, |x, y| {
            let quotient = x.widen() / y.widen();
            let whole = Wide::floor(Wide::abs(quotient));
            T::narrow(if quotient < <T as Float>::Wide::ZERO { -whole } else { whole })
        })), else
        computed!(p.dtype(0), INTS, T => Ok(integer_division::<T>(p, T::quotient, |x, y| narrow_quotient(x, y, f64::trunc))), else
            Err(KernelError::DType(p.dtype(0)))))
        }),
        gpu(gpu_launches),
    ],
};

const TRUNCATE_MOD_DEF: OpDef = binary_op(
    "TruncateMod",
    "The remainder of a division rounded towards zero: it has the dividend's sign.",
    REMAINDER_ATTRS,
    Gradient::Rule(|g| {
        let (x, y, dz) = (g.input(0), g.input(1), g.grad());
        let quotient = g.graph().op("TruncateDiv").input(x).input(y).output();
        smallvec![Some(sum_to(dz, x, y)), Some(sum_to(-(dz * quotient), y, x))]
    }),
);

/// Dtypes of TensorFlow's remainders.
const REMAINDER_ATTRS: &[AttrDef] = &[type_attr(
    "T",
    &[
        DType::I32,
        DType::I64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ],
)];

const TRUNCATE_MOD_KERNELS: &[Kernel] = &[
    cpu(|p| {
        computed!(p.dtype(0), FLOATS, T => Ok(binary::<T>(p, |x, y| T::from_f64(x.to_f64() % y.to_f64()))), else
    computed!(p.dtype(0), INTS, T => Ok(integer_division::<T>(p, |x, y| x.remainder(y), |x, y| narrow_remainder(x, y, f64::trunc))), else
        Err(KernelError::DType(p.dtype(0)))))
    }),
    gpu(gpu_launches),
];

/// `x - trunc(x / y) y`.
pub(crate) static TRUNCATE_MOD: Op = Op {
    def: TRUNCATE_MOD_DEF,
    kernels: TRUNCATE_MOD_KERNELS,
};

/// `x - trunc(x / y) y`, by its older name.
pub(crate) static MOD: Op = Op {
    def: OpDef {
        name: "Mod",
        ..TRUNCATE_MOD_DEF
    },
    kernels: TRUNCATE_MOD_KERNELS,
};

/// Integer division that is defined for every pair: a division by zero gives zero (and is refused by
/// [`with_zero_check`]), the lowest integer divided by -1 wraps.
pub(crate) trait IntegerDivide: Number {
    /// This number, which has at most 32 bits, as a float.
    fn narrow_to_f64(self) -> f64;
    /// From a float that is a whole number of at most 33 bits.
    fn from_whole(whole: f64) -> Self;
    fn quotient(self, by: Self) -> Self;
    fn remainder(self, by: Self) -> Self;
    fn floor_quotient(self, by: Self) -> Self;
    fn floor_remainder(self, by: Self) -> Self;
    /// Power with an exponent that is not negative, modulo the range.
    fn power(self, exponent: Self) -> Self;
}

macro_rules! divide {
    ($($t:ty, $narrow:ty;)*) => {$(
        impl IntegerDivide for $t {
            #[inline(always)]
            fn narrow_to_f64(self) -> f64 { f64::from(self as $narrow) }
            #[inline(always)]
            fn from_whole(whole: f64) -> $t {
                (whole + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as $t
            }
            fn quotient(self, by: $t) -> $t {
                if by == 0 { 0 } else { self.wrapping_div(by) }
            }
            fn remainder(self, by: $t) -> $t {
                if by == 0 { 0 } else { self.wrapping_rem(by) }
            }
            #[allow(unused_comparisons, reason = "the unsigned ones are never below zero")]
            fn floor_quotient(self, by: $t) -> $t {
                if by == 0 {
                    return 0;
                }
                let (q, r) = (self.wrapping_div(by), self.wrapping_rem(by));
                if r != 0 && (r < 0) != (by < 0) { q.wrapping_sub(1) } else { q }
            }
            #[allow(unused_comparisons, reason = "the unsigned ones are never below zero")]
            fn floor_remainder(self, by: $t) -> $t {
                if by == 0 {
                    return 0;
                }
                let r = self.wrapping_rem(by);
                if r != 0 && (r < 0) != (by < 0) { r.wrapping_add(by) } else { r }
            }
            fn power(self, exponent: $t) -> $t {
                let (mut base, mut left, mut power): ($t, u64, $t) = (self, exponent as u64, 1);
                while left > 0 {
                    if left & 1 == 1 {
                        power = power.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    left >>= 1;
                }
                power
            }
        }
    )*};
}

divide! {
    i8, i8; i16, i16; i32, i32; i64, i32;
    u8, u8; u16, u16; u32, u32; u64, u32;
}

/// The quotient of numbers of at most 32 bits, rounded by `whole`. The float quotient, which processors divide several of
/// at once, is rounded to the right side: two different quotients are further apart than its precision.
#[inline(always)]
fn narrow_quotient<T: IntegerDivide>(x: T, y: T, whole: impl Fn(f64) -> f64) -> T {
    let quotient = T::from_whole(whole(x.narrow_to_f64() / y.narrow_to_f64()));
    if y == T::ZERO { T::ZERO } else { quotient }
}

/// The remainder of a quotient of numbers of at most 32 bits that is rounded by `whole`.
#[inline(always)]
fn narrow_remainder<T: IntegerDivide>(x: T, y: T, whole: impl Fn(f64) -> f64) -> T {
    let remainder = x.sub(narrow_quotient(x, y, whole).mul(y));
    if y == T::ZERO { T::ZERO } else { remainder }
}

/// Kernel of a division of integers, by another function for those of at most 32 bits.
fn integer_division<T: Compute + IntegerDivide>(
    p: &Prepare<'_>,
    wide: impl Fn(T, T) -> T + Copy + Send + Sync + 'static,
    narrow: impl Fn(T, T) -> T + Copy + Send + Sync + 'static,
) -> Prepared {
    let inner = match p.dtype(0).size() <= 4 {
        true => binary::<T>(p, narrow),
        false => binary::<T>(p, wide),
    };
    with_zero_check::<T>(p, inner)
}

const BY_ZERO: &str = "Integer division by zero: an integer has no infinity";

fn with_zero_check<T: Compute + Number>(p: &Prepare<'_>, inner: Prepared) -> Prepared {
    with_check::<T>(p, inner, |y| y == T::ZERO, BY_ZERO)
}

/// The function of `kernels/binary.cu` with the op's name; for integers, after a check that no divisor is zero.
fn gpu_launches(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    match DType::FLOATS.contains(&p.dtype(0)) {
        true => crate::gpu::binary(p),
        false => crate::gpu::checked(p, "CheckNotZero", BY_ZERO),
    }
}

/// Kernel that checks all of input 1 before it runs, unless the output is empty. It must
/// not run in place of that input.
pub(super) fn with_check<T: Compute>(
    p: &Prepare<'_>,
    inner: Prepared,
    wrong: impl Fn(T) -> bool + Copy + Send + Sync + 'static,
    reason: &'static str,
) -> Prepared {
    if p.outputs[0].elements() == 0 {
        return inner;
    }
    let (run, dtype) = (inner.run, p.dtype(1));
    Prepared {
        run: Box::new(move |cx| {
            if let Some(element) = find_first::<T>(cx, dtype, wrong)? {
                return Err(KernelError::Element {
                    input: 1,
                    element,
                    reason: reason.to_owned(),
                });
            }
            run(cx)
        }),
        // It can fail, with the index of an element.
        each: false,
        ..inner
    }
}

/// Index of the first element of input 1 that is `wrong`.
fn find_first<T: Compute>(
    cx: &KernelCx<'_>,
    dtype: DType,
    wrong: impl Fn(T) -> bool + Copy,
) -> Result<Option<usize>, KernelError> {
    let isa = cx.cpu().isa();
    let first_of = |block: &[T]| match isa.run_up_to_avx2(Any(block, wrong)) {
        true => block.iter().position(|&y| wrong(y)),
        false => None,
    };
    let mut before = 0;
    let mut found = |block: &[T]| {
        let at = first_of(block).map(|at| before + at);
        before += block.len();
        at
    };
    Ok(match T::conversion(dtype) {
        None => cx.input::<T>(1)?.chunks(BLOCK).find_map(&mut found),
        Some(c) => c.blocks(cx.input_bytes(1)?).find_map(|block| found(&block)),
    })
}

#[cfg(test)]
mod tests {
    use super::{IntegerDivide, narrow_quotient, narrow_remainder};

    #[test]
    fn an_integer_power_counts_every_bit_of_its_exponent() {
        // 2^53 + 1 is odd, and not representable in f64.
        assert_eq!((-1i64).power((1 << 53) + 1), -1);
        assert_eq!(3i64.power(39), 3i64.wrapping_pow(39));
        assert_eq!(0u8.power(0), 1);
    }

    #[test]
    fn the_lowest_integer_divided_by_minus_one_wraps() {
        assert_eq!(i32::MIN.quotient(-1), i32::MIN);
        assert_eq!(i32::MIN.floor_quotient(-1), i32::MIN);
        assert_eq!(i32::MIN.floor_remainder(-1), 0);
    }

    #[test]
    fn narrow_integers_are_divided_as_wide_ones() {
        let ends = [
            0,
            1,
            2,
            3,
            7,
            46_341,
            1 << 16,
            i64::from(i32::MAX) - 1,
            i64::from(i32::MAX),
        ];
        let signed: Vec<i64> = ends.iter().flat_map(|&x| [x, -x, -x - 1]).collect();
        for &x in &signed {
            for &y in &signed {
                assert_eq!(
                    narrow_quotient(x, y, f64::trunc),
                    x.quotient(y),
                    "{x} / {y}"
                );
                assert_eq!(
                    narrow_quotient(x, y, f64::floor),
                    x.floor_quotient(y),
                    "{x} / {y}"
                );
                assert_eq!(
                    narrow_remainder(x, y, f64::trunc),
                    x.remainder(y),
                    "{x} % {y}"
                );
                assert_eq!(
                    narrow_remainder(x, y, f64::floor),
                    x.floor_remainder(y),
                    "{x} % {y}"
                );
            }
        }
        for x in [0, 1, 5, u64::from(u32::MAX) - 1, u64::from(u32::MAX)] {
            for y in [0, 1, 3, u64::from(u32::MAX)] {
                assert_eq!(
                    narrow_quotient(x, y, f64::trunc),
                    x.quotient(y),
                    "{x} / {y}"
                );
                assert_eq!(
                    narrow_remainder(x, y, f64::floor),
                    x.floor_remainder(y),
                    "{x} % {y}"
                );
            }
        }
    }
}
