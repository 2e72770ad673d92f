//! Long functions of `f64` as types, whose calls are inlined in loops (see [`Function`]).

use thalweg_cpu::number::double;
use thalweg_cpu::special;

use crate::support::elementwise::Function;

macro_rules! inlined {
    ($($name:ident = $f:path;)*) => {$(
        #[derive(Clone, Copy)]
        pub(super) struct $name;
        impl Function<f64, f64> for $name {
            #[inline(always)]
            fn of(self, x: f64) -> f64 { $f(x) }
        }
    )*};
}

inlined! {
    Sin = double::sin;
    Cos = double::cos;
    Tan = double::tan;
    Asin = double::asin;
    Acos = double::acos;
    Atan = double::atan;
    Sinh = double::sinh;
    Cosh = double::cosh;
    Asinh = double::asinh;
    Acosh = double::acosh;
    Atanh = double::atanh;
    Erf = double::erf;
    Erfc = double::erfc;
    ErfcForSingle = double::erfc_for_single;
    I0e = special::i0e;
    I0eSingle = special::i0e_single;
    I1e = special::i1e;
    I1eSingle = special::i1e_single;
    Ndtri = special::ndtri;
    Erfinv = special::erfinv;
}
