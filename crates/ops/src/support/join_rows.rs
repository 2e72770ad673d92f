//! Rows of elements that are joined with others.

/// Sets each element of a row to the join of itself and the other row's: a loop for each function, as a call for each
/// element would take longer than the join.
pub(crate) type JoinRows<T> = fn(&mut [T], &[T]);

/// The loop of a [`JoinRows`].
#[inline(always)]
pub(crate) fn join_each<T: Copy>(to: &mut [T], from: &[T], join: impl Fn(T, T) -> T) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = join(*to, from);
    }
}

/// Joins each element of a row with the same one.
pub(crate) fn join_one<T: Copy>(to: &mut [T], one: T, join: JoinRows<T>) {
    const LENGTH: usize = 64;
    let same = [one; LENGTH];
    for part in to.chunks_mut(LENGTH) {
        join(part, &same[..part.len()]);
    }
}
