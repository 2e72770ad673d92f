//! The byte strings of a tensor, borrowed.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::{Index, Range};

/// The byte strings of a tensor, or some that follow each other. They lie one after the other in one buffer.
///
/// ```
/// use thalweg_tensor::Tensor;
///
/// let words = Tensor::strings(&[3], &["one", "two", "three"])?;
/// let words = words.as_strings()?;
/// assert_eq!((words.len(), &words[2]), (3, &b"three"[..]));
/// assert_eq!(words.iter().map(<[u8]>::len).sum::<usize>(), words.byte_len());
/// assert_eq!(words.range(1..2).only(), Some(&b"two"[..]));
/// # Ok::<(), thalweg_tensor::TensorError>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct Strings<'a> {
    /// The bytes of the tensor's strings.
    bytes: &'a [u8],
    /// The end of the string in front of the first.
    start: usize,
    /// The end of each string.
    ends: &'a [usize],
}

impl<'a> Strings<'a> {
    /// Strings that end at these places of `bytes`.
    pub(super) fn new(bytes: &'a [u8], ends: &'a [usize]) -> Strings<'a> {
        Strings {
            bytes,
            start: 0,
            ends,
        }
    }

    /// The number of strings.
    pub fn len(self) -> usize {
        self.ends.len()
    }

    /// `true` if there are none.
    pub fn is_empty(self) -> bool {
        self.ends.is_empty()
    }

    /// The end of string `i - 1`.
    fn start(self, i: usize) -> usize {
        i.checked_sub(1).map_or(self.start, |last| self.ends[last])
    }

    /// String `i`; `None` beyond the last.
    pub fn get(self, i: usize) -> Option<&'a [u8]> {
        let end = *self.ends.get(i)?;
        Some(&self.bytes[self.start(i)..end])
    }

    /// The first string; `None` if there is none.
    pub fn first(self) -> Option<&'a [u8]> {
        self.get(0)
    }

    /// The string of a tensor that has one; `None` if there are none or more.
    pub fn only(self) -> Option<&'a [u8]> {
        self.get(0).filter(|_| self.len() == 1)
    }

    /// Strings that follow each other.
    ///
    /// # Panics
    /// Where the range ends beyond the last.
    pub fn range(self, range: Range<usize>) -> Strings<'a> {
        Strings {
            bytes: self.bytes,
            start: self.start(range.start),
            ends: &self.ends[range],
        }
    }

    /// The bytes of all strings, one after the other.
    pub fn bytes(self) -> &'a [u8] {
        &self.bytes[self.start..self.start(self.len())]
    }

    /// The number of bytes of all strings.
    pub fn byte_len(self) -> usize {
        self.bytes().len()
    }

    /// The end of each string in [`Strings::bytes`].
    pub(super) fn ends(self) -> impl Iterator<Item = usize> {
        self.ends.iter().map(move |end| end - self.start)
    }

    /// The strings in their order.
    pub fn iter(self) -> StringsIter<'a> {
        StringsIter {
            bytes: self.bytes,
            start: self.start,
            ends: self.ends.iter(),
        }
    }

    /// The strings, copied.
    pub fn to_vecs(self) -> Vec<Vec<u8>> {
        self.iter().map(<[u8]>::to_vec).collect()
    }
}

impl Index<usize> for Strings<'_> {
    type Output = [u8];

    fn index(&self, i: usize) -> &[u8] {
        &self.bytes[self.start(i)..self.ends[i]]
    }
}

impl PartialEq for Strings<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.bytes() == other.bytes() && self.ends().eq(other.ends())
    }
}

impl Eq for Strings<'_> {}

impl fmt::Debug for Strings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(String::from_utf8_lossy))
            .finish()
    }
}

impl<'a> IntoIterator for Strings<'a> {
    type Item = &'a [u8];
    type IntoIter = StringsIter<'a>;

    fn into_iter(self) -> StringsIter<'a> {
        self.iter()
    }
}

/// Iterator over [`Strings`].
#[derive(Clone, Debug)]
pub struct StringsIter<'a> {
    bytes: &'a [u8],
    start: usize,
    ends: std::slice::Iter<'a, usize>,
}

impl<'a> Iterator for StringsIter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let end = *self.ends.next()?;
        let string = &self.bytes[self.start..end];
        self.start = end;
        Some(string)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ends.size_hint()
    }
}

impl ExactSizeIterator for StringsIter<'_> {}
impl FusedIterator for StringsIter<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_strings_equal_tensors_of_the_same_strings() {
        let (bytes, ends) = (b"onetwothree", [3, 3, 6, 11]);
        let all = Strings::new(bytes, &ends);
        let expected: [&[u8]; 4] = [b"one", b"", b"two", b"three"];
        assert!(all.iter().eq(expected));
        for start in 0..=4 {
            for end in start..=4 {
                let part = all.range(start..end);
                assert!(part.iter().eq(expected[start..end].iter().copied()));
                let joined = expected[start..end].concat();
                let mut own_ends = Vec::new();
                for string in part {
                    own_ends.push(own_ends.last().unwrap_or(&0) + string.len());
                }
                assert_eq!(part, Strings::new(&joined, &own_ends));
                assert_eq!(part.get(end - start), None);
                for i in start..end {
                    assert_eq!(
                        (&part[i - start], part.get(i - start)),
                        (expected[i], Some(expected[i]))
                    );
                }
            }
        }
        assert_ne!(all.range(0..2), all.range(1..3));
        assert_eq!(
            (all.only(), all.range(2..3).only()),
            (None, Some(&b"two"[..]))
        );
    }
}
