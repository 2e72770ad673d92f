//! Images: files, colours, sizes, boxes.
//!
//! The functions are those of `thalweg-image`; here are the ops over them.

mod boxes;
mod color;
mod combined_suppression;
mod contrast;
mod crop_and_resize;
mod crop_and_resize_grad;
mod decode;
mod distorted_box;
mod encode;
mod glimpse;
mod images;
mod non_max_suppression;
mod projective;
mod resize;
mod scale_and_translate;

use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &decode::DECODE_JPEG,
    &decode::DECODE_AND_CROP_JPEG,
    &decode::DECODE_PNG,
    &decode::DECODE_BMP,
    &decode::DECODE_GIF,
    &decode::DECODE_IMAGE,
    &decode::EXTRACT_JPEG_SHAPE,
    &encode::ENCODE_JPEG,
    &encode::ENCODE_JPEG_VARIABLE_QUALITY,
    &encode::ENCODE_PNG,
    &distorted_box::SAMPLE_DISTORTED_BOUNDING_BOX,
    &distorted_box::SAMPLE_DISTORTED_BOUNDING_BOX_V2,
    &distorted_box::STATELESS_SAMPLE_DISTORTED_BOUNDING_BOX,
    &distorted_box::RANDOM_CROP,
    &resize::RESIZE_BICUBIC,
    &resize::RESIZE_BICUBIC_GRAD,
    &resize::RESIZE_AREA,
    &color::ADJUST_CONTRAST,
    &contrast::ADJUST_CONTRAST_V1,
    &color::ADJUST_HUE,
    &color::ADJUST_SATURATION,
    &color::RGB_TO_HSV,
    &color::HSV_TO_RGB,
    &scale_and_translate::SCALE_AND_TRANSLATE,
    &scale_and_translate::SCALE_AND_TRANSLATE_GRAD,
    &projective::PROJECTIVE_TRANSFORM_V2,
    &projective::PROJECTIVE_TRANSFORM_V3,
    &glimpse::EXTRACT_GLIMPSE,
    &glimpse::EXTRACT_GLIMPSE_V2,
    &crop_and_resize::CROP_AND_RESIZE,
    &crop_and_resize_grad::CROP_AND_RESIZE_GRAD_IMAGE,
    &crop_and_resize_grad::CROP_AND_RESIZE_GRAD_BOXES,
    &boxes::DRAW_BOUNDING_BOXES,
    &boxes::DRAW_BOUNDING_BOXES_V2,
    &non_max_suppression::NON_MAX_SUPPRESSION,
    &non_max_suppression::NON_MAX_SUPPRESSION_V2,
    &non_max_suppression::NON_MAX_SUPPRESSION_V3,
    &non_max_suppression::NON_MAX_SUPPRESSION_V4,
    &non_max_suppression::NON_MAX_SUPPRESSION_V5,
    &combined_suppression::WITH_OVERLAPS,
    &combined_suppression::COMBINED,
];
