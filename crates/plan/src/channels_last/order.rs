//! Orders of the dimensions of images.

use thalweg_tensor::{DType, Tensor};

/// By dimension of NHWC: its place in NCHW.
pub(super) const TO_LAST: [usize; 4] = [0, 2, 3, 1];
/// By dimension of NCHW: its place in NHWC.
pub(super) const TO_FIRST: [usize; 4] = [0, 3, 1, 2];

/// Numbers for each dimension of images in NCHW, in the order of NHWC; the same number of them for each.
pub(super) fn for_last(list: &[i64]) -> Option<Vec<i64>> {
    let each = list.len() / 4;
    let whole = each > 0 && list.len() == 4 * each;
    let of = |&from: &usize| list[from * each..][..each].iter().copied();
    whole.then(|| TO_LAST.iter().flat_map(of).collect())
}

/// The dimension of NHWC that is this one of NCHW; a negative one counts from the end.
pub(super) fn dimension(of: i64) -> Option<i64> {
    let first = usize::try_from(if of < 0 { of + 4 } else { of }).ok()?;
    Some(*TO_FIRST.get(first)? as i64)
}

/// `true` if images in NHWC that are reduced over these dimensions have the rest in the order of NCHW: they do not keep the
/// channels beside lines or columns.
pub(super) fn keeps_order(reduced: &[i64]) -> bool {
    let stays = |d: i64| !reduced.contains(&d);
    !(stays(3) && (stays(1) || stays(2)))
}

/// Other numbers in a tensor of the same dtype and dimensions.
pub(super) fn numbers_like(tensor: &Tensor, numbers: &[i64]) -> Option<Tensor> {
    match tensor.dtype() {
        DType::I64 => Tensor::new(tensor.dims(), numbers).ok(),
        _ => {
            let numbers: Result<Vec<i32>, _> = numbers.iter().map(|&n| n.try_into()).collect();
            Tensor::new(tensor.dims(), &numbers.ok()?).ok()
        }
    }
}
