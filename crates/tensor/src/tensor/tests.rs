//! Tests of tensors: sharing, alignment, typed reads, printing.

use super::*;
use crate::dtype::DType;

#[test]
fn clones_share_elements_until_a_write() {
    let a = Tensor::vector(&[1.0f32, 2.0]);
    let mut b = a.clone();
    assert!(std::ptr::eq(a.bytes(), b.bytes()));
    b.as_mut_slice::<f32>().unwrap()[0] = 5.0;
    assert_eq!(a.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    assert_eq!(b.to_vec::<f32>().unwrap(), [5.0, 2.0]);
}

#[test]
fn elements_are_aligned() {
    for n in 0..9 {
        let t = Tensor::zeros(DType::U8, &[n]).unwrap();
        assert_eq!(t.bytes().as_ptr() as usize % crate::ALIGNMENT, 0);
    }
}

#[test]
fn wrong_reads_are_errors_with_advice() {
    let t = Tensor::from([[1i32, 2], [3, 4]]);
    let e = t.as_slice::<f32>().unwrap_err();
    assert_eq!(
        e.to_string(),
        "the tensor holds i32, not f32: read it as i32, or Cast it in the graph"
    );
    assert!(matches!(
        t.to_scalar::<i32>(),
        Err(TensorError::NotScalar { .. })
    ));
    assert!(matches!(
        Tensor::new(&[3], &[1.0f32]),
        Err(TensorError::Length { .. })
    ));
    assert!(matches!(
        Tensor::from_bytes(DType::Bool, &[1], &[2]),
        Err(TensorError::Bytes { .. })
    ));
    assert!(matches!(
        Tensor::zeros(DType::F32, &[usize::MAX, 3]),
        Err(TensorError::TooLarge { .. })
    ));
}

#[test]
fn prints_a_few_elements() {
    assert_eq!(Tensor::from([1i64, 2]).to_string(), "i64[2] [1, 2]");
    assert_eq!(Tensor::from("hi").to_string(), "string[] [\"hi\"]");
    let turned = crate::num_complex::Complex::new(1.0f32, -2.5);
    assert_eq!(Tensor::scalar(turned).to_string(), "c64[] [1-2.5i]");
    let long = Tensor::from(vec![0u8; 10]);
    assert!(long.to_string().ends_with("and 2 more"), "{long}");
}
