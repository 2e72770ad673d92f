//! Special functions in `f64`, by the approximations of the Cephes library (S. L. Moshier, Methods
//! and Programs for Mathematical Functions, 1989), which TensorFlow uses as well.
//!
//! ```
//! use std::f64::consts::PI;
//! use thalweg_cpu::special::{digamma, ndtri, polygamma};
//!
//! assert!((digamma(2.0) - digamma(1.0) - 1.0).abs() < 1e-12);
//! assert!((polygamma(1.0, 1.0) - PI * PI / 6.0).abs() < 1e-12);
//! // Half of all normal numbers are below zero.
//! assert!(ndtri(0.5).abs() < 1e-12);
//! ```

mod bessel;
mod bessel_k;
mod beta;
mod gamma;
mod integrals;
mod ndtri;
mod polygamma;
mod polynomial;

pub use bessel::{i0e, i0e_single, i1e, i1e_single};
pub use bessel_k::{i0, i1, j0, j1, k0, k0e, k1, k1e, y0, y1};
pub use beta::{betainc, betainc_single};
pub use gamma::{igamma, igamma_single, igamma_slope, igammac, igammac_single};
pub use integrals::{dawsn, expint, fresnel, spence};
pub use ndtri::{erfinv, ndtri};
pub use polygamma::{digamma, polygamma, polygamma_single, zeta, zeta_single};
