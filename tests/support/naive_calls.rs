//! What libraries compute, one element after the other, on the emulated GPU's memory.

use thalweg::device::gpu::{Address, Call, Convolution, Direction, Gemm};
use thalweg_tensor::DType;

/// Whether [`compute`] takes this.
pub fn takes(call: &Call) -> bool {
    let dtype = match call {
        Call::Gemm(p) => p.dtype,
        Call::Convolution(c) => c.dtype,
    };
    dtype == DType::F32
}

/// Element `i` of some `f32`.
unsafe fn at(address: Address, i: usize) -> *mut f32 {
    // SAFETY: by the caller's promise.
    unsafe { (address as *mut f32).add(i) }
}

/// Computes a call of `f32`.
///
/// # Safety
/// The addresses are those of two inputs and an output that are as large as the call says.
pub unsafe fn compute(call: &Call, addresses: [Address; 3]) {
    // SAFETY: by the caller's promise.
    unsafe {
        match call {
            Call::Gemm(p) => gemm(p, addresses),
            Call::Convolution(c) => convolution(c, addresses),
        }
    }
}

unsafe fn gemm(p: &Gemm, [left, right, out]: [Address; 3]) {
    for batch in 0..p.batches {
        for row in 0..p.rows {
            for column in 0..p.columns {
                let mut sum = 0.0;
                for i in 0..p.depth {
                    let l = if p.transpose_left {
                        i * p.rows + row
                    } else {
                        row * p.depth + i
                    };
                    let r = match p.transpose_right {
                        true => column * p.depth + i,
                        false => i * p.columns + column,
                    };
                    // SAFETY: within the matrices that the call names.
                    unsafe {
                        let l = *at(left, batch * p.left_step + l);
                        sum += l * *at(right, batch * p.right_step + r);
                    }
                }
                let o = (batch * p.rows + row) * p.columns + column;
                // SAFETY: as above.
                unsafe { *at(out, o) = sum };
            }
        }
    }
}

/// Where an element of a tensor with these dimensions (images, channels, lines, columns) is.
fn place(c: &Convolution, dims: [usize; 4], [n, ch, y, x]: [usize; 4]) -> usize {
    let [_, channels, lines, columns] = dims;
    match c.channels_last {
        true => ((n * lines + y) * columns + x) * channels + ch,
        false => ((n * channels + ch) * lines + y) * columns + x,
    }
}

unsafe fn convolution(c: &Convolution, [a, b, result]: [Address; 3]) {
    let (dims, images, filter, output) = match c.direction {
        Direction::Forward => (c.output, a, b, result),
        Direction::Images => (c.images, result, a, b),
        Direction::Filter => (c.filter, a, result, b),
    };
    for i in 0..dims.iter().product() {
        // SAFETY: within the tensor that the call names.
        unsafe { *at(result, i) = 0.0 };
    }
    let [n, out_c, out_h, out_w] = c.output;
    let [_, in_c, k_h, k_w] = c.filter;
    let loops = [n, out_c, out_h, out_w, in_c, k_h, k_w];
    for mut index in 0..loops.iter().product() {
        let mut i = [0; 7];
        for (i, len) in i.iter_mut().zip(loops).rev() {
            (*i, index) = (index % len, index / len);
        }
        let [n, oc, oy, ox, ic, ky, kx] = i;
        let y = (oy * c.stride[0] + ky * c.dilation[0]).checked_sub(c.padding[0]);
        let x = (ox * c.stride[1] + kx * c.dilation[1]).checked_sub(c.padding[1]);
        let (Some(y), Some(x)) = (y, x) else { continue };
        if y >= c.images[2] || x >= c.images[3] {
            continue;
        }
        // SAFETY: within the tensors that the call names, which are apart.
        unsafe {
            let image = at(images, place(c, c.images, [n, ic, y, x]));
            let weight = at(filter, place(c, c.filter, [oc, ic, ky, kx]));
            let out = at(output, place(c, c.output, [n, oc, oy, ox]));
            match c.direction {
                Direction::Forward => *out += *image * *weight,
                Direction::Images => *image += *out * *weight,
                Direction::Filter => *weight += *out * *image,
            }
        }
    }
}
