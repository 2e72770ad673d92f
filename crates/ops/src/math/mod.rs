//! Elementwise arithmetic, with broadcasting.

mod abs_sign_min_max;
mod add_n;
mod arithmetic;
mod bessel;
mod bessel_igamma;
mod betainc;
mod bitwise;
pub(crate) mod broadcast;
mod clip;
mod compare;
mod compare_bitpack;
mod complex;
mod complex_functions;
mod define;
mod division;
mod finite;
mod inlined;
mod integrals;
mod no_nan;
mod pow_exp_log;
mod reciprocal;
mod rounding;
mod scalar_functions;
mod select;
mod sigmoid_tanh_softplus;
mod special;
mod trigonometry;

use thalweg_device::Op;
use thalweg_graph::{Graph, Output, Value};

pub(crate) use abs_sign_min_max::magnitude;
pub(crate) use division::IntegerDivide;
pub(crate) use scalar_functions::per_element_in_f64_2;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &arithmetic::ADD,
    &arithmetic::ADD_V1,
    &arithmetic::SUB,
    &arithmetic::MUL,
    &arithmetic::NEG,
    &arithmetic::SQUARE,
    &bitwise::BITWISE_AND,
    &bitwise::BITWISE_OR,
    &bitwise::BITWISE_XOR,
    &bitwise::LEFT_SHIFT,
    &bitwise::RIGHT_SHIFT,
    &bitwise::INVERT,
    &bitwise::POPULATION_COUNT,
    &broadcast::BROADCAST_GRADIENT_ARGS,
    &clip::SELECT_V1,
    &clip::CLIP_BY_VALUE,
    &complex::COMPLEX_OP,
    &complex::REAL_OP,
    &complex::IMAG,
    &complex::ANGLE,
    &complex::COMPLEX_ABS,
    &complex::CONJ,
    &compare_bitpack::COMPARE_AND_BITPACK,
    &compare::EQUAL,
    &compare::NOT_EQUAL,
    &compare::LESS,
    &compare::LESS_EQUAL,
    &compare::GREATER,
    &compare::GREATER_EQUAL,
    &compare::LOGICAL_AND,
    &compare::LOGICAL_OR,
    &compare::LOGICAL_NOT,
    &division::REAL_DIV,
    &division::DIV,
    &division::FLOOR_DIV,
    &division::FLOOR_MOD,
    &division::TRUNCATE_DIV,
    &division::TRUNCATE_MOD,
    &division::MOD,
    &finite::IS_NAN,
    &finite::IS_INF,
    &finite::IS_FINITE,
    &finite::CHECK_NUMERICS,
    &finite::APPROXIMATE_EQUAL,
    &finite::NEXT_AFTER,
    &no_nan::DIV_NO_NAN,
    &no_nan::MUL_NO_NAN,
    &no_nan::XLOGY,
    &no_nan::XLOG1PY,
    &no_nan::XDIVY,
    &abs_sign_min_max::ABS,
    &abs_sign_min_max::SIGN,
    &abs_sign_min_max::MAXIMUM,
    &abs_sign_min_max::MINIMUM,
    &rounding::FLOOR,
    &pow_exp_log::SQRT,
    &pow_exp_log::SQRT_GRAD,
    &pow_exp_log::RSQRT,
    &pow_exp_log::RSQRT_GRAD,
    &pow_exp_log::EXP,
    &pow_exp_log::LOG,
    &pow_exp_log::LOG1P,
    &pow_exp_log::EXPM1,
    &pow_exp_log::POW,
    &reciprocal::RECIPROCAL,
    &reciprocal::INV,
    &reciprocal::RECIPROCAL_GRAD,
    &reciprocal::INV_GRAD,
    &rounding::CEIL,
    &rounding::ROUND,
    &rounding::RINT,
    &select::SELECT,
    &sigmoid_tanh_softplus::TANH,
    &sigmoid_tanh_softplus::TANH_GRAD,
    &sigmoid_tanh_softplus::SIGMOID,
    &sigmoid_tanh_softplus::SIGMOID_GRAD,
    &sigmoid_tanh_softplus::SOFTPLUS,
    &sigmoid_tanh_softplus::SOFTPLUS_GRAD,
    &special::ERF,
    &special::ERFC,
    &special::ERFINV,
    &special::NDTRI,
    &special::LGAMMA,
    &special::DIGAMMA,
    &special::POLYGAMMA,
    &special::ZETA,
    &bessel::I0,
    &bessel::I1,
    &bessel::J0,
    &bessel::J1,
    &bessel::K0,
    &bessel::K0E,
    &bessel::K1,
    &bessel::K1E,
    &bessel::Y0,
    &bessel::Y1,
    &bessel_igamma::BESSEL_I0E,
    &bessel_igamma::BESSEL_I1E,
    &bessel_igamma::IGAMMA,
    &bessel_igamma::IGAMMAC,
    &bessel_igamma::IGAMMA_GRAD_A,
    &betainc::BETAINC,
    &integrals::DAWSN,
    &integrals::EXPINT,
    &integrals::FRESNEL_COS,
    &integrals::FRESNEL_SIN,
    &integrals::SPENCE,
    &add_n::ADD_N,
    &add_n::ACCUMULATE_N_V2,
    &arithmetic::SQUARED_DIFFERENCE,
    &trigonometry::SIN,
    &trigonometry::COS,
    &trigonometry::TAN,
    &trigonometry::ASIN,
    &trigonometry::ACOS,
    &trigonometry::ATAN,
    &trigonometry::ATAN_2,
    &trigonometry::SINH,
    &trigonometry::COSH,
    &trigonometry::ASINH,
    &trigonometry::ACOSH,
    &trigonometry::ATANH,
];

/// Builder methods of elementwise ops. Two operands are broadcast.
#[allow(
    clippy::wrong_self_convention,
    reason = "an output is `Copy`, and a question about its elements is asked of it"
)]
pub trait MathOps<'g>: Sized {
    /// `|x|`.
    fn abs(self) -> Output<'g>;
    /// -1, 0 or 1.
    fn sign(self) -> Output<'g>;
    /// `x * x`.
    fn square(self) -> Output<'g>;
    /// Square root.
    fn sqrt(self) -> Output<'g>;
    /// One over the square root.
    fn rsqrt(self) -> Output<'g>;
    /// e to the power of x.
    fn exp(self) -> Output<'g>;
    /// Natural logarithm.
    fn log(self) -> Output<'g>;
    /// Natural logarithm of `1 + x`.
    fn log1p(self) -> Output<'g>;
    /// Hyperbolic tangent.
    fn tanh(self) -> Output<'g>;
    /// `1 / (1 + exp(-x))`.
    fn sigmoid(self) -> Output<'g>;
    /// `log(1 + exp(x))`.
    fn softplus(self) -> Output<'g>;
    /// x rounded down to an integer.
    fn floor(self) -> Output<'g>;
    /// x rounded up to an integer.
    fn ceil(self) -> Output<'g>;
    /// x rounded to the nearest integer, ties to even.
    fn round(self) -> Output<'g>;
    /// e to the power of x, minus 1.
    fn expm1(self) -> Output<'g>;
    /// One divided by x.
    fn reciprocal(self) -> Output<'g>;
    /// Sine.
    fn sin(self) -> Output<'g>;
    /// Cosine.
    fn cos(self) -> Output<'g>;
    /// Tangent.
    fn tan(self) -> Output<'g>;
    /// Inverse sine.
    fn asin(self) -> Output<'g>;
    /// Inverse cosine.
    fn acos(self) -> Output<'g>;
    /// Inverse tangent.
    fn atan(self) -> Output<'g>;
    /// Hyperbolic sine.
    fn sinh(self) -> Output<'g>;
    /// Hyperbolic cosine.
    fn cosh(self) -> Output<'g>;
    /// Inverse hyperbolic sine.
    fn asinh(self) -> Output<'g>;
    /// Inverse hyperbolic cosine.
    fn acosh(self) -> Output<'g>;
    /// Inverse hyperbolic tangent.
    fn atanh(self) -> Output<'g>;
    /// Error function.
    fn erf(self) -> Output<'g>;
    /// 1 minus the error function.
    fn erfc(self) -> Output<'g>;
    /// Logarithm of the absolute value of the gamma function.
    fn lgamma(self) -> Output<'g>;
    /// Derivative of the logarithm of the gamma function.
    fn digamma(self) -> Output<'g>;
    /// `true` if x is NaN.
    fn is_nan(self) -> Output<'g>;
    /// `true` if x is infinite.
    fn is_inf(self) -> Output<'g>;
    /// `true` if x is neither infinite nor NaN.
    fn is_finite(self) -> Output<'g>;
    /// Negation of a bool.
    fn logical_not(self) -> Output<'g>;
    /// x to the power of `exponent`.
    fn pow(self, exponent: impl Into<Value<'g>>) -> Output<'g>;
    /// Larger of two values.
    fn maximum(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// Smaller of two values.
    fn minimum(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// Quotient, rounded down.
    fn floor_div(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// Remainder of the quotient rounded down.
    fn floor_mod(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// Angle of the point whose second coordinate is x and whose first is `other`.
    fn atan2(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// Remainder of the quotient rounded towards zero.
    fn truncate_mod(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// Quotient, or 0 if the divisor is 0.
    fn div_no_nan(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// Bitwise and.
    fn bitwise_and(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// Bitwise or.
    fn bitwise_or(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// Bitwise exclusive or.
    fn bitwise_xor(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// Square of the difference.
    fn squared_difference(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// `x == y`.
    fn equal(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// `x != y`.
    fn not_equal(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// `x < y`.
    fn less(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// `x <= y`.
    fn less_equal(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// `x > y`.
    fn greater(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// `x >= y`.
    fn greater_equal(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// `true` if both are true.
    fn logical_and(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// `true` if at least one is true.
    fn logical_or(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// `then` where this bool is true, `otherwise` where it is false.
    fn select(self, then: impl Into<Value<'g>>, otherwise: impl Into<Value<'g>>) -> Output<'g>;
}

#[track_caller]
fn unary_op<'g>(op: &str, x: Output<'g>) -> Output<'g> {
    x.graph().op(op).input(x).output()
}

#[track_caller]
fn binary_op<'g>(op: &str, x: Output<'g>, y: impl Into<Value<'g>>) -> Output<'g> {
    let y = y.into().beside(x);
    x.graph().op(op).input(x).input(y).output()
}

// One line for each method: its name and its op.
macro_rules! methods {
    ($($name:ident $op:literal;)* -- $($name2:ident $op2:literal;)*) => {
        impl<'g> MathOps<'g> for Output<'g> {
            $(#[track_caller]
            fn $name(self) -> Output<'g> {
                unary_op($op, self)
            })*
            $(#[track_caller]
            fn $name2(self, other: impl Into<Value<'g>>) -> Output<'g> {
                binary_op($op2, self, other)
            })*
            #[track_caller]
            fn select(
                self,
                then: impl Into<Value<'g>>,
                otherwise: impl Into<Value<'g>>,
            ) -> Output<'g> {
                let graph = self.graph();
                let (then, otherwise) = match (then.into(), otherwise.into()) {
                    (then @ Value::Tensor(_), Value::Output(o)) => (then.beside(o), o),
                    (then, otherwise) => {
                        let then = then.on(graph);
                        (then, otherwise.beside(then))
                    }
                };
                graph.op("SelectV2").input(self).input(then).input(otherwise).output()
            }
        }
    };
}

methods! {
    abs "Abs"; sign "Sign"; square "Square"; sqrt "Sqrt"; rsqrt "Rsqrt"; exp "Exp"; log "Log";
    log1p "Log1p"; tanh "Tanh"; sigmoid "Sigmoid"; softplus "Softplus"; floor "Floor";
    logical_not "LogicalNot";
    ceil "Ceil"; round "Round"; expm1 "Expm1"; reciprocal "Reciprocal"; sin "Sin"; cos "Cos"; tan "Tan"; asin "Asin"; acos "Acos"; atan "Atan"; sinh "Sinh"; cosh "Cosh"; asinh "Asinh"; acosh "Acosh"; atanh "Atanh"; erf "Erf"; erfc "Erfc"; lgamma "Lgamma"; digamma "Digamma"; is_nan "IsNan"; is_inf "IsInf"; is_finite "IsFinite";
    --
    pow "Pow"; maximum "Maximum"; minimum "Minimum"; floor_div "FloorDiv"; floor_mod "FloorMod";
    squared_difference "SquaredDifference"; equal "Equal"; not_equal "NotEqual"; less "Less";
    less_equal "LessEqual"; greater "Greater"; greater_equal "GreaterEqual";
    logical_and "LogicalAnd"; logical_or "LogicalOr"; atan2 "Atan2"; truncate_mod "TruncateMod"; div_no_nan "DivNoNan"; bitwise_and "BitwiseAnd"; bitwise_or "BitwiseOr"; bitwise_xor "BitwiseXor";
}

/// Builder methods of elementwise ops that take a list.
pub trait SumOps {
    /// Sum of tensors of one shape, from the first to the last.
    fn add_n<'g>(&'g self, terms: &[Output<'g>]) -> Output<'g>;
}

impl SumOps for Graph {
    #[track_caller]
    fn add_n<'g>(&'g self, terms: &[Output<'g>]) -> Output<'g> {
        self.op("AddN").inputs(terms.iter().copied()).output()
    }
}
