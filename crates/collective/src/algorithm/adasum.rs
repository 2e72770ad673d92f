//! Adasum (Maleki et al., 2020): of two gradients a and b, a (1 - a.b / 2 a.a) + b (1 - a.b / 2 b.b). It is their sum where
//! they are orthogonal, and their mean where they are equal.

use thalweg_cpu::number::Number;
use thalweg_tensor::{DType, dispatch};

use crate::aligned::Aligned;
use crate::channel::Channel;
use crate::error::{CollectiveError, Result};
use crate::links::Sink;

/// Combines one tensor of all ranks, in pairs at distances 1, 2, 4 and so on. Dot products are taken in f64.
pub(crate) fn adasum(ch: &mut Channel<'_>, data: &mut [u8], dtype: DType) -> Result<()> {
    if !dtype.is_float() {
        return Err(CollectiveError::Undefined {
            op: "Adasum",
            dtype,
        });
    }
    if !ch.size().is_power_of_two() {
        return Err(CollectiveError::Argument(format!(
            "Adasum takes a number of ranks that is a power of two, not {}: use Average",
            ch.size()
        )));
    }
    let mut other = Aligned::zeroed(data.len());
    let other = other.bytes_mut();
    let mut distance = 1;
    while distance < ch.size() {
        let rank = ch.rank() ^ distance;
        ch.exchange(Some((rank, data)), Some((rank, Sink::store(other))))?;
        // The value of the lower rank is the first operand on both.
        match ch.rank() < rank {
            true => combine(dtype, data, other),
            false => {
                combine(dtype, other, data);
                data.copy_from_slice(other);
            }
        }
        distance <<= 1;
    }
    Ok(())
}

fn combine(dtype: DType, first: &mut [u8], second: &[u8]) {
    dispatch!(dtype, FLOATS, T => {
        let a: &mut [T] = bytemuck::cast_slice_mut(first);
        let b: &[T] = bytemuck::cast_slice(second);
        let [mut ab, mut aa, mut bb] = [0.0f64; 3];
        for (x, y) in a.iter().zip(b) {
            let (x, y) = (x.to_f64(), y.to_f64());
            ab += x * y;
            aa += x * x;
            bb += y * y;
        }
        let share = |own: f64| if own == 0.0 { 1.0 } else { 1.0 - ab / (2.0 * own) };
        let (of_a, of_b) = (share(aa), share(bb));
        for (x, y) in a.iter_mut().zip(b) {
            *x = T::from_f64(x.to_f64() * of_a + y.to_f64() * of_b);
        }
    }, else {});
}
