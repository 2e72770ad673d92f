//! Library calls (GEMMs and convolutions) on the emulated GPU's memory, computed one element after the other.

use half::{bf16, f16};
use thalweg::device::gpu::{Address, Call, Convolution, Direction, Gemm};
use thalweg_tensor::DType;

/// `true` for calls that [`compute`] supports.
pub fn takes(call: &Call) -> bool {
    DType::FLOATS.contains(&dtype(call))
}

fn dtype(call: &Call) -> DType {
    match call {
        Call::Gemm(p) => p.dtype,
        Call::Convolution(c) => c.dtype,
    }
}

/// A tensor in the GPU's memory.
#[derive(Clone, Copy)]
struct Elements(DType, Address);

impl Elements {
    /// # Safety
    /// It has an element `i`.
    unsafe fn get(self, i: usize) -> f64 {
        let at = self.1 as usize;
        // SAFETY: by the caller's promise.
        unsafe {
            match self.0 {
                DType::F16 => (*(at as *const f16).add(i)).to_f64(),
                DType::BF16 => (*(at as *const bf16).add(i)).to_f64(),
                DType::F64 => *(at as *const f64).add(i),
                _ => f64::from(*(at as *const f32).add(i)),
            }
        }
    }

    /// # Safety
    /// It has an element `i`, which nothing else uses.
    unsafe fn set(self, i: usize, value: f64) {
        let at = self.1 as usize;
        // SAFETY: by the caller's promise.
        unsafe {
            match self.0 {
                DType::F16 => *(at as *mut f16).add(i) = f16::from_f64(value),
                DType::BF16 => *(at as *mut bf16).add(i) = bf16::from_f64(value),
                DType::F64 => *(at as *mut f64).add(i) = value,
                _ => *(at as *mut f32).add(i) = value as f32,
            }
        }
    }
}

/// Computes a call, sums in `f64`.
///
/// # Safety
/// The addresses are those of two inputs and an output of the call's sizes.
pub unsafe fn compute(call: &Call, addresses: [Address; 3]) {
    let tensors = addresses.map(|at| Elements(dtype(call), at));
    // SAFETY: by the caller's promise.
    unsafe {
        match call {
            Call::Gemm(p) => gemm(p, tensors),
            Call::Convolution(c) => convolution(c, tensors),
        }
    }
}

unsafe fn gemm(p: &Gemm, [left, right, out]: [Elements; 3]) {
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
                        let l = left.get(batch * p.left_step + l);
                        sum += l * right.get(batch * p.right_step + r);
                    }
                }
                let o = (batch * p.rows + row) * p.columns + column;
                // SAFETY: as above.
                unsafe { out.set(o, sum) };
            }
        }
    }
}

/// Index of an element of a tensor with these dimensions (images, channels, lines, columns).
fn place(c: &Convolution, dims: [usize; 4], [n, ch, y, x]: [usize; 4]) -> usize {
    let [_, channels, lines, columns] = dims;
    match c.channels_last {
        true => ((n * lines + y) * columns + x) * channels + ch,
        false => ((n * channels + ch) * lines + y) * columns + x,
    }
}

unsafe fn convolution(c: &Convolution, [a, b, result]: [Elements; 3]) {
    let (dims, images, filter, output) = match c.direction {
        Direction::Forward => (c.output, a, b, result),
        Direction::Images => (c.images, result, a, b),
        Direction::Filter => (c.filter, a, result, b),
    };
    let mut sums = vec![0.0; dims.iter().product()];
    let [n, out_c, out_h, out_w] = c.output;
    let [_, in_c, k_h, k_w] = c.filter;
    let loops = [n, out_c, out_h, out_w, in_c, k_h, k_w];
    for mut index in 0..loops.iter().product() {
        let mut i = [0; 7];
        for (i, len) in i.iter_mut().zip(loops).rev() {
            (*i, index) = (index % len, index / len);
        }
        let [n, oc, oy, ox, ic, ky, kx] = i;
        let y = (oy * c.stride[0] + ky * c.dilation[0]).checked_sub(c.before[0]);
        let x = (ox * c.stride[1] + kx * c.dilation[1]).checked_sub(c.before[1]);
        let (Some(y), Some(x)) = (y, x) else { continue };
        if y >= c.images[2] || x >= c.images[3] {
            continue;
        }
        // SAFETY: within the tensors that the call names, which do not overlap.
        unsafe {
            let image = place(c, c.images, [n, ic, y, x]);
            let weight = place(c, c.filter, [oc, ic, ky, kx]);
            let out = place(c, c.output, [n, oc, oy, ox]);
            match c.direction {
                Direction::Forward => sums[out] += images.get(image) * filter.get(weight),
                Direction::Images => sums[image] += output.get(out) * filter.get(weight),
                Direction::Filter => sums[weight] += output.get(out) * images.get(image),
            }
        }
    }
    for (i, sum) in sums.into_iter().enumerate() {
        // SAFETY: within the tensor that the call names.
        unsafe { result.set(i, sum) };
    }
}
