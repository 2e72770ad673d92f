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

/// The largest tensor that is brought into another order before the step, in bytes.
const MAX_PERMUTED_BYTES: usize = 1 << 20;

/// The elements of a tensor of four dimensions in another order of these; `None` if they are too many, or no plain bytes.
pub(super) fn permuted(tensor: &Tensor, order: [usize; 4]) -> Option<Tensor> {
    let dims: [usize; 4] = tensor.dims().try_into().ok()?;
    let (size, bytes) = (tensor.dtype().size(), tensor.bytes());
    if bytes.is_empty() || bytes.len() > MAX_PERMUTED_BYTES {
        return None;
    }
    let steps = [dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1];
    let (to, steps) = (order.map(|d| dims[d]), order.map(|d| steps[d]));
    let mut new = Vec::with_capacity(bytes.len());
    for element in 0..bytes.len() / size {
        let (mut rest, mut at) = (element, 0);
        for d in (0..4).rev() {
            at += rest % to[d] * steps[d];
            rest /= to[d];
        }
        new.extend_from_slice(&bytes[at * size..][..size]);
    }
    Tensor::from_bytes(tensor.dtype(), &to, &new).ok()
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
