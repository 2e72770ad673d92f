//! Rows of a ragged matrix, by the places where they begin and end.

use std::ops::Range;

use thalweg_device::KernelError;

/// The rows of `len` values that input `input` splits: row `i` is `splits[i]..splits[i + 1]`. Without splits there are none.
///
/// # Errors
/// The splits do not begin with 0, do not end with `len`, or decrease.
pub(super) fn ragged_rows(
    input: usize,
    splits: &[i64],
    len: usize,
) -> Result<Vec<Range<usize>>, KernelError> {
    let wrong = |element: usize, reason: String| KernelError::Element {
        input,
        element,
        reason,
    };
    match splits {
        [] if len == 0 => return Ok(Vec::new()),
        [] => return Err(KernelError::Invalid(format!("input {input} has no splits"))),
        [0, ..] => {}
        [first, ..] => {
            return Err(wrong(
                0,
                format!("First split value must be 0, got {first}"),
            ));
        }
    }
    let mut rows = Vec::with_capacity(splits.len() - 1);
    for (i, pair) in splits.windows(2).enumerate() {
        let end = usize::try_from(pair[1]).ok();
        let end = end.filter(|end| pair[1] >= pair[0] && *end <= len);
        let end = end.ok_or_else(|| {
            let (before, found) = (pair[0], pair[1]);
            wrong(
                i + 1,
                format!("Invalid split value {found}, must be in [{before}, {len}]"),
            )
        })?;
        rows.push(pair[0] as usize..end);
    }
    let last = rows.last().map_or(0, |row| row.end);
    match last == len {
        true => Ok(rows),
        false => Err(wrong(
            splits.len() - 1,
            format!("Last split value must be data size. Expected {len}, got {last}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_that_do_not_cover_the_values_in_order_are_errors() {
        assert_eq!(
            ragged_rows(1, &[0, 2, 2, 3], 3).unwrap(),
            [0..2, 2..2, 2..3]
        );
        assert!(ragged_rows(1, &[], 0).unwrap().is_empty());
        for (splits, len) in [
            (&[][..], 1),
            (&[1, 2], 2),
            (&[0, 2, 1], 2),
            (&[0, 3], 2),
            (&[0, -1], 2),
            (&[0, 1], 2),
        ] {
            assert!(ragged_rows(1, splits, len).is_err(), "{splits:?} {len}");
        }
    }
}
