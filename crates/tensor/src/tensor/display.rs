//! Formatting of tensors: dtype, shape, and the first elements.

use std::fmt;

use super::value::Tensor;

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The most elements that are printed.
const MAX_SHOWN: usize = 8;

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} ", self.dtype, self.shape())?;
        let mut list = f.debug_list();
        dispatch!(self.dtype, COMPLEX, T => {
            let shown = self.as_slice::<T>().unwrap_or(&[]).iter().take(MAX_SHOWN);
            shown.for_each(|z| { list.entry(&format_args!("{z}")); });
        }, else dispatch!(self.dtype, PLAIN, T => {
            list.entries(self.as_slice::<T>().unwrap_or(&[]).iter().take(MAX_SHOWN));
        }, else {
            list.entries(self.as_strings().unwrap_or_default().iter().take(MAX_SHOWN).map(String::from_utf8_lossy));
        }));
        list.finish()?;
        if self.len() > MAX_SHOWN {
            write!(f, " and {} more", self.len() - MAX_SHOWN)?;
        }
        Ok(())
    }
}
