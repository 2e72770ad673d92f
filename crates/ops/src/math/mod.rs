//! Arithmetic on elements, with broadcasting.

mod arithmetic;
pub(crate) mod broadcast;
mod compare;
mod define;
mod division;
mod magnitude;
mod powers;
mod select;
mod sigmoids;
mod sum;

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
    &broadcast::BROADCAST_GRADIENT_ARGS,
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
    &magnitude::ABS,
    &magnitude::SIGN,
    &magnitude::MAXIMUM,
    &magnitude::MINIMUM,
    &magnitude::FLOOR,
    &powers::SQRT,
    &powers::SQRT_GRAD,
    &powers::RSQRT,
    &powers::RSQRT_GRAD,
    &powers::EXP,
    &powers::LOG,
    &powers::LOG1P,
    &powers::POW,
    &select::SELECT,
    &sigmoids::TANH,
    &sigmoids::TANH_GRAD,
    &sigmoids::SIGMOID,
    &sigmoids::SIGMOID_GRAD,
    &sigmoids::SOFTPLUS,
    &sigmoids::SOFTPLUS_GRAD,
    &sum::ADD_N,
    &sum::SQUARED_DIFFERENCE,
];

/// Builder methods of this family. Each works element by element; two operands are broadcast.
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
    let y = y.into().on(x.graph());
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
                let (then, otherwise) = (then.into().on(graph), otherwise.into().on(graph));
                graph.op("SelectV2").input(self).input(then).input(otherwise).output()
            }
        }
    };
}

methods! {
    abs "Abs"; sign "Sign"; square "Square"; sqrt "Sqrt"; rsqrt "Rsqrt"; exp "Exp"; log "Log";
    log1p "Log1p"; tanh "Tanh"; sigmoid "Sigmoid"; softplus "Softplus"; floor "Floor";
    logical_not "LogicalNot";
    --
    pow "Pow"; maximum "Maximum"; minimum "Minimum"; floor_div "FloorDiv"; floor_mod "FloorMod";
    squared_difference "SquaredDifference"; equal "Equal"; not_equal "NotEqual"; less "Less";
    less_equal "LessEqual"; greater "Greater"; greater_equal "GreaterEqual";
    logical_and "LogicalAnd"; logical_or "LogicalOr";
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
