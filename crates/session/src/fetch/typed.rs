//! Fetches with typed results.

use smallvec::SmallVec;
use thalweg_graph::{NodeId, Operation, Output, OutputId};
use thalweg_ops::Variable;
use thalweg_plan::{Fetch, SessionError};
use thalweg_tensor::{FromTensor, Tensor};

use super::{FetchList, Fetches, Run};

/// Fetches whose values can be had as an `R`.
///
/// | fetch | `R` |
/// | --- | --- |
/// | a value (an output, a variable, a name) | any [`FromTensor`]: `f32`, `Vec<i64>`, `Tensor` |
/// | a node that is run | `()` |
/// | a tuple | the tuple of theirs |
/// | an array | the array of theirs |
/// | a slice or a vector | the vector of theirs |
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, SourceOps, StateOps};
/// use thalweg_session::Session;
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let count = g.variable("count", 7i64);
/// let pair = g.constant([1.0f32, 2.0]);
/// let session = Session::new(&g)?;
///
/// session.run(g.initializers(), [])?;
/// let (n, [x, y]): (i64, [f32; 2]) = session.run((count, pair), [])?;
/// assert_eq!((n, x, y), (7, 1.0, 2.0));
/// // What is not what it is read as is an error that names it.
/// let error = session.run::<f32>(count, []).unwrap_err();
/// assert!(error.to_string().starts_with("'count/Read/ReadVariableOp:0' was fetched: "));
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is fetched, and its values cannot be had as `{R}`",
    label = "cannot be had as `{R}`",
    note = "an output gives a number, `Vec<T>`, `[T; N]`, `String` or `Tensor`; an operation gives `()`",
    note = "a tuple gives a tuple, an array an array, a slice or a vector gives a `Vec`"
)]
pub trait FetchesAs<R>: Fetches {
    /// Takes its own values.
    ///
    /// # Errors
    /// [`SessionError::Result`], where a value has another type than the one that it is read as.
    fn take(&self, values: &mut Values<'_>) -> Result<R, SessionError>;
}

/// The values of a step that are still to be taken, in the order of the fetches.
pub struct Values<'a> {
    list: &'a FetchList<'a>,
    values: SmallVec<[Option<Tensor>; 4]>,
    next: usize,
}

impl<'a> Values<'a> {
    /// Those of a list, one for each of its items: nothing for a node that was run.
    #[inline]
    pub fn new(list: &'a FetchList<'a>, values: SmallVec<[Option<Tensor>; 4]>) -> Values<'a> {
        Values {
            list,
            values,
            next: 0,
        }
    }

    /// All of them, to be filled in.
    #[inline]
    pub(crate) fn all(&mut self) -> &mut SmallVec<[Option<Tensor>; 4]> {
        &mut self.values
    }

    fn skip(&mut self) {
        self.next += 1;
    }

    fn take<T: FromTensor>(&mut self) -> Result<T, SessionError> {
        let index = self.next;
        self.next += 1;
        let value = self.values.get_mut(index).and_then(Option::take);
        let value = value.ok_or_else(|| self.wrong(index, "it has no value".to_owned()))?;
        T::from_tensor(value).map_err(|e| self.wrong(index, e.to_string()))
    }

    #[cold]
    fn wrong(&self, index: usize, reason: String) -> SessionError {
        let data = self.list.graph().snapshot();
        let what = match self.list.items().get(index) {
            Some(&Fetch::Value(output)) => format!("'{}' was fetched", data.output_name(output)),
            _ => format!("result number {index}"),
        };
        SessionError::Result { what, reason }
    }
}

impl<R: FromTensor> FetchesAs<R> for Output<'_> {
    fn take(&self, values: &mut Values<'_>) -> Result<R, SessionError> {
        values.take()
    }
}

impl<R: FromTensor> FetchesAs<R> for Variable<'_> {
    fn take(&self, values: &mut Values<'_>) -> Result<R, SessionError> {
        values.take()
    }
}

impl<R: FromTensor> FetchesAs<R> for OutputId {
    fn take(&self, values: &mut Values<'_>) -> Result<R, SessionError> {
        values.take()
    }
}

impl<R: FromTensor> FetchesAs<R> for str {
    fn take(&self, values: &mut Values<'_>) -> Result<R, SessionError> {
        values.take()
    }
}

impl<R: FromTensor> FetchesAs<R> for String {
    fn take(&self, values: &mut Values<'_>) -> Result<R, SessionError> {
        values.take()
    }
}

impl FetchesAs<()> for Operation<'_> {
    fn take(&self, values: &mut Values<'_>) -> Result<(), SessionError> {
        values.skip();
        Ok(())
    }
}

impl FetchesAs<()> for NodeId {
    fn take(&self, values: &mut Values<'_>) -> Result<(), SessionError> {
        values.skip();
        Ok(())
    }
}

impl FetchesAs<()> for Run<'_> {
    fn take(&self, values: &mut Values<'_>) -> Result<(), SessionError> {
        values.skip();
        Ok(())
    }
}

impl<R, F: FetchesAs<R> + ?Sized> FetchesAs<R> for &F {
    fn take(&self, values: &mut Values<'_>) -> Result<R, SessionError> {
        (**self).take(values)
    }
}

impl<R, F: FetchesAs<R>> FetchesAs<Vec<R>> for [F] {
    fn take(&self, values: &mut Values<'_>) -> Result<Vec<R>, SessionError> {
        self.iter().map(|f| f.take(values)).collect()
    }
}

impl<R, F: FetchesAs<R>> FetchesAs<Vec<R>> for Vec<F> {
    fn take(&self, values: &mut Values<'_>) -> Result<Vec<R>, SessionError> {
        self[..].take(values)
    }
}

impl<R, F: FetchesAs<R>, const N: usize> FetchesAs<[R; N]> for [F; N] {
    fn take(&self, values: &mut Values<'_>) -> Result<[R; N], SessionError> {
        let all: Vec<R> = self[..].take(values)?;
        all.try_into().map_err(|all: Vec<R>| SessionError::Result {
            what: format!("{N} results"),
            reason: format!("there are {}", all.len()),
        })
    }
}

impl Fetches for () {
    fn add_to(&self, _: &mut FetchList<'_>) {}
}

impl FetchesAs<()> for () {
    fn take(&self, _: &mut Values<'_>) -> Result<(), SessionError> {
        Ok(())
    }
}

// Tuples of one to eight; Rust has no way to say "of any length".
macro_rules! tuples {
    ($(($($name:ident $result:ident)*))*) => {$(
        impl<$($name: Fetches),*> Fetches for ($($name,)*) {
            #[allow(non_snake_case, reason = "the names are those of the types")]
            fn add_to(&self, list: &mut FetchList<'_>) {
                let ($($name,)*) = self;
                $($name.add_to(list);)*
            }
        }

        impl<$($name: FetchesAs<$result>, $result),*> FetchesAs<($($result,)*)> for ($($name,)*) {
            #[allow(non_snake_case, reason = "the names are those of the types")]
            fn take(&self, values: &mut Values<'_>) -> Result<($($result,)*), SessionError> {
                let ($($name,)*) = self;
                Ok(($($name.take(values)?,)*))
            }
        }
    )*};
}

tuples! {
    (A RA)
    (A RA B RB)
    (A RA B RB C RC)
    (A RA B RB C RC D RD)
    (A RA B RB C RC D RD E RE)
    (A RA B RB C RC D RD E RE F RF)
    (A RA B RB C RC D RD E RE F RF G RG)
    (A RA B RB C RC D RD E RE F RF G RG H RH)
}
