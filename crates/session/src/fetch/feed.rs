//! Feeds: values that a step takes in place of outputs.

use smallvec::SmallVec;
use thalweg_graph::{Graph, Output, OutputId};
use thalweg_plan::SessionError;
use thalweg_tensor::Tensor;

/// A value for an output, for one step. Any output can be fed: the graph is cut there.
///
/// [`Feeding::feed`] makes one. A value in the middle of a graph can be fed as well as a placeholder, which helps tests.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{MathOps, NewGraph, SourceOps};
/// use thalweg_session::{Feeding, Session};
/// use thalweg_tensor::DType;
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, []);
/// let hidden = x.exp().named("hidden");
/// let y = hidden + 1.0;
///
/// let session = Session::new(&g)?;
/// // What lies before `hidden` does not run, so `x` is not needed.
/// let fed: f32 = session.run(y, [hidden.feed(5.0f32)])?;
/// // The same by number and by name, for programs that do not keep the output.
/// let by_number: f32 = session.run(y, [hidden.id().feed(5.0f32)])?;
/// let by_name: f32 = session.run(y, ["hidden".feed(5.0f32)])?;
/// assert_eq!([fed, by_number, by_name], [6.0; 3]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Feed<'f> {
    target: Target<'f>,
    pub(crate) value: Tensor,
}

#[derive(Clone, Debug)]
enum Target<'f> {
    Output(Output<'f>),
    Number(OutputId),
    Name(&'f str),
}

impl Feed<'_> {
    /// Outputs of `graph` and values, in order.
    ///
    /// # Errors
    /// [`SessionError::OtherGraph`], [`SessionError::NoSuchName`].
    pub fn all_of<'v>(
        feeds: &'v [Feed<'_>],
        graph: &Graph,
    ) -> Result<impl Iterator<Item = (OutputId, &'v Tensor)>, SessionError> {
        let mut outputs = SmallVec::<[OutputId; 4]>::new();
        for feed in feeds {
            outputs.push(feed.output(graph)?);
        }
        let values = feeds.iter().map(|f| &f.value);
        Ok(outputs.into_iter().zip(values))
    }

    fn output(&self, graph: &Graph) -> Result<OutputId, SessionError> {
        match self.target {
            Target::Output(output) if std::ptr::eq(output.graph(), graph) => Ok(output.id()),
            Target::Output(output) => Err(SessionError::OtherGraph {
                what: "feed",
                name: output.name(),
            }),
            Target::Number(output) => {
                super::list::check_number(graph, "feed", output.node)?;
                Ok(output)
            }
            Target::Name(name) => super::list::output_called(graph, "feed", name),
        }
    }
}

/// Makes feeds: of an output, of its number, of its name (`x:0`, or `x`).
pub trait Feeding<'f> {
    /// This output's value for a step. A tensor is shared, not copied.
    fn feed(self, value: impl Into<Tensor>) -> Feed<'f>;
}

impl<'f> Feeding<'f> for Output<'f> {
    fn feed(self, value: impl Into<Tensor>) -> Feed<'f> {
        Feed {
            target: Target::Output(self),
            value: value.into(),
        }
    }
}

impl<'f> Feeding<'f> for OutputId {
    fn feed(self, value: impl Into<Tensor>) -> Feed<'f> {
        Feed {
            target: Target::Number(self),
            value: value.into(),
        }
    }
}

impl<'f> Feeding<'f> for &'f str {
    fn feed(self, value: impl Into<Tensor>) -> Feed<'f> {
        Feed {
            target: Target::Name(self),
            value: value.into(),
        }
    }
}
