//! Arithmetic on elements, with broadcasting.

mod abs_sign_min_max;
mod add_n;
mod arithmetic;
mod bessel_igamma;
mod bitwise;
pub(crate) mod broadcast;
mod clip;
mod compare;
mod define;
mod division;
mod finite;
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

pub(crate) use division::Divide;

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
    &abs_sign_min_max::FLOOR,
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
    &bessel_igamma::BESSEL_I0E,
    &bessel_igamma::BESSEL_I1E,
    &bessel_igamma::IGAMMA,
    &bessel_igamma::IGAMMAC,
    &bessel_igamma::IGAMMA_GRAD_A,
    &add_n::ADD_N,
    &add_n::ACCUMULATE_N_V2,
    &add_n::SQUARED_DIFFERENCE,
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

/// Builder methods of this family. Each works element by element; two operands are broadcast.
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
    /// The square root.
    fn sqrt(self) -> Output<'g>;
    /// One over the square root.
    fn rsqrt(self) -> Output<'g>;
    /// e to the power of x.
    fn exp(self) -> Output<'g>;
    /// The natural logarithm.
    fn log(self) -> Output<'g>;
    /// The natural logarithm of `1 + x`.
    fn log1p(self) -> Output<'g>;
    /// The hyperbolic tangent.
    fn tanh(self) -> Output<'g>;
    /// `1 / (1 + exp(-x))`.
    fn sigmoid(self) -> Output<'g>;
    /// `log(1 + exp(x))`.
    fn softplus(self) -> Output<'g>;
    /// The largest whole number not above x.
    fn floor(self) -> Output<'g>;
    /// The smallest whole number not below x.
    fn ceil(self) -> Output<'g>;
    /// The nearest whole number; of two as near, the even one.
    fn round(self) -> Output<'g>;
    /// e to the power of x, less 1.
    fn expm1(self) -> Output<'g>;
    /// One divided by x.
    fn reciprocal(self) -> Output<'g>;
    /// The sine.
    fn sin(self) -> Output<'g>;
    /// The cosine.
    fn cos(self) -> Output<'g>;
    /// The tangent.
    fn tan(self) -> Output<'g>;
    /// The angle of a sine.
    fn asin(self) -> Output<'g>;
    /// The angle of a cosine.
    fn acos(self) -> Output<'g>;
    /// The angle of a tangent.
    fn atan(self) -> Output<'g>;
    /// The hyperbolic sine.
    fn sinh(self) -> Output<'g>;
    /// The hyperbolic cosine.
    fn cosh(self) -> Output<'g>;
    /// What has x for its hyperbolic sine.
    fn asinh(self) -> Output<'g>;
    /// What has x for its hyperbolic cosine.
    fn acosh(self) -> Output<'g>;
    /// What has x for its hyperbolic tangent.
    fn atanh(self) -> Output<'g>;
    /// The error function.
    fn erf(self) -> Output<'g>;
    /// One less the error function.
    fn erfc(self) -> Output<'g>;
    /// The logarithm of the absolute value of the gamma function.
    fn lgamma(self) -> Output<'g>;
    /// The derivative of the logarithm of the gamma function.
    fn digamma(self) -> Output<'g>;
    /// Whether x is not a number.
    fn is_nan(self) -> Output<'g>;
    /// Whether x is an infinity.
    fn is_inf(self) -> Output<'g>;
    /// Whether x is a number and no infinity.
    fn is_finite(self) -> Output<'g>;
    /// The opposite of a bool.
    fn logical_not(self) -> Output<'g>;
    /// x to the power of `exponent`.
    fn pow(self, exponent: impl Into<Value<'g>>) -> Output<'g>;
    /// The larger of two.
    fn maximum(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// The smaller of two.
    fn minimum(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// The quotient, rounded down.
    fn floor_div(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// The remainder of the quotient rounded down.
    fn floor_mod(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// The angle of the point whose second coordinate is x and whose first is `other`.
    fn atan2(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// The remainder of the quotient rounded towards zero.
    fn truncate_mod(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// The quotient, 0 where the divisor is 0.
    fn div_no_nan(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// The bits of both.
    fn bitwise_and(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// The bits of either.
    fn bitwise_or(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// The bits of one alone.
    fn bitwise_xor(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// The square of the difference.
    fn squared_difference(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// Whether equal.
    fn equal(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// Whether different.
    fn not_equal(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// Whether below.
    fn less(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// Whether at most.
    fn less_equal(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// Whether above.
    fn greater(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// Whether at least.
    fn greater_equal(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// Whether both are true.
    fn logical_and(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// Whether at least one is true.
    fn logical_or(self, other: impl Into<Value<'g>>) -> Output<'g>;
    /// Of a bool: `then` where true, `otherwise` where false.
    fn select(self, then: impl Into<Value<'g>>, otherwise: impl Into<Value<'g>>) -> Output<'g>;
}

#[track_caller]
fn one<'g>(op: &str, x: Output<'g>) -> Output<'g> {
    x.graph().op(op).input(x).output()
}

#[track_caller]
fn two<'g>(op: &str, x: Output<'g>, y: impl Into<Value<'g>>) -> Output<'g> {
    let y = y.into().beside(x);
    x.graph().op(op).input(x).input(y).output()
}

// One line a method: what it is called and which op it is.
macro_rules! methods {
    ($($name:ident $op:literal;)* -- $($name2:ident $op2:literal;)*) => {
        impl<'g> MathOps<'g> for Output<'g> {
            $(#[track_caller]
            fn $name(self) -> Output<'g> {
                one($op, self)
            })*
            $(#[track_caller]
            fn $name2(self, other: impl Into<Value<'g>>) -> Output<'g> {
                two($op2, self, other)
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

/// Builder methods of this family that take a list.
pub trait SumOps {
    /// The sum of tensors of one shape, from the first to the last.
    fn add_n<'g>(&'g self, terms: &[Output<'g>]) -> Output<'g>;
}

impl SumOps for Graph {
    #[track_caller]
    fn add_n<'g>(&'g self, terms: &[Output<'g>]) -> Output<'g> {
        self.op("AddN").inputs(terms.iter().copied()).output()
    }
}
