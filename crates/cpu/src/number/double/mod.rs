//! Exponentials, logarithms, angles and error functions of `f64` as straight lines of arithmetic: a loop over them is
//! vectorised, which a loop over calls of the system's library is not. The same bits on every machine, within a few units
//! of the last place.
//!
//! ```
//! use thalweg_cpu::number::double;
//!
//! for x in [-3.0f64, 0.5, 40.0] {
//!     assert!((double::sin(x) - x.sin()).abs() < 1e-15);
//!     assert!((double::atan(x) - x.atan()).abs() < 1e-15);
//! }
//! ```

mod angles;
mod error_function;
mod exponential;
mod hyperbolic;
mod polynomial;

pub use angles::{MAX_ANGLE, acos, asin, atan, atan2, cos, sin, tan};
pub use error_function::{erf, erfc, erfc_for_single};
pub use exponential::{exp, exp_m1, ln, ln_1p, tanh};
pub use hyperbolic::{acosh, asinh, atanh, cosh, sinh};
pub use polynomial::ROUND;

#[cfg(test)]
mod tests;
