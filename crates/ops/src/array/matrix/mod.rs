//! Diagonals and bands of matrices.

mod band;
mod diag_band_part;
mod index_map;
mod matrix_diag;

use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &matrix_diag::MATRIX_DIAG,
    &matrix_diag::MATRIX_DIAG_V2,
    &matrix_diag::MATRIX_DIAG_V3,
    &matrix_diag::MATRIX_DIAG_PART,
    &matrix_diag::MATRIX_DIAG_PART_V2,
    &matrix_diag::MATRIX_DIAG_PART_V3,
    &matrix_diag::MATRIX_SET_DIAG,
    &matrix_diag::MATRIX_SET_DIAG_V2,
    &matrix_diag::MATRIX_SET_DIAG_V3,
    &diag_band_part::MATRIX_BAND_PART,
    &matrix_diag::BATCH_MATRIX_DIAG,
    &matrix_diag::BATCH_MATRIX_DIAG_PART,
    &matrix_diag::BATCH_MATRIX_SET_DIAG,
    &diag_band_part::BATCH_MATRIX_BAND_PART,
    &diag_band_part::DIAG,
    &diag_band_part::DIAG_PART,
];
