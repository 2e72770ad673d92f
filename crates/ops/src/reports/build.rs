//! Builder methods for summaries.

use thalweg_graph::{Graph, Output};
use thalweg_tensor::Tensor;

use super::encode::BAD_COLOR;
use crate::array::SourceOps;

/// The collection of the summaries of a graph; TensorFlow's `GraphKeys.SUMMARIES`.
const SUMMARIES: &str = "summaries";

/// Builder methods for summaries: what an event file tells TensorBoard.
///
/// Each gives a scalar of dtype string, a serialized `Summary`, and adds it to the collection `summaries`. Its tag
/// is its name, with the name scopes around it.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, SourceOps, SummaryOps};
///
/// let g = Graph::new();
/// let loss = g.constant(0.5f32);
/// let weights = g.constant([0.1f32, 0.2]);
/// let scalar = g.name_scope("train", || g.scalar_summary("loss", loss));
/// assert_eq!(scalar.name(), "train/loss:0");
/// g.histogram_summary("weights", weights);
/// // What a training loop fetches, and a writer of event files writes.
/// let all = g.merge_all_summaries().unwrap();
/// assert!(g.errors().is_empty());
/// assert_eq!(g.collection("summaries").len(), 2);
/// # let _ = all;
/// ```
pub trait SummaryOps {
    /// A number, of any dtype of numbers.
    fn scalar_summary<'g>(&'g self, name: &str, value: impl Into<Output<'g>>) -> Output<'g>;

    /// How the numbers of a tensor of any shape are spread. A step fails on numbers that are not finite.
    fn histogram_summary<'g>(&'g self, name: &str, values: impl Into<Output<'g>>) -> Output<'g>;

    /// The first `most` images of a batch `[n, height, width, channels]`, of `u8` or floats; see
    /// [`summaries::image`](crate::summaries::image) for their shades.
    fn image_summary<'g>(
        &'g self,
        name: &str,
        images: impl Into<Output<'g>>,
        most: usize,
    ) -> Output<'g>;

    /// The summaries of the collection `summaries` in one; `None` where there are none. A step fails if two
    /// have the same tag.
    fn merge_all_summaries(&self) -> Option<Output<'_>>;
}

impl SummaryOps for Graph {
    #[track_caller]
    fn scalar_summary<'g>(&'g self, name: &str, value: impl Into<Output<'g>>) -> Output<'g> {
        summary(self, "ScalarSummary", name, value.into(), None)
    }

    #[track_caller]
    fn histogram_summary<'g>(&'g self, name: &str, values: impl Into<Output<'g>>) -> Output<'g> {
        summary(self, "HistogramSummary", name, values.into(), None)
    }

    #[track_caller]
    fn image_summary<'g>(
        &'g self,
        name: &str,
        images: impl Into<Output<'g>>,
        most: usize,
    ) -> Output<'g> {
        summary(self, "ImageSummary", name, images.into(), Some(most))
    }

    #[track_caller]
    fn merge_all_summaries(&self) -> Option<Output<'_>> {
        let all = self.collection(SUMMARIES);
        let merge = || self.op("MergeSummary").inputs(all.clone());
        (!all.is_empty()).then(|| self.at_caller(|| merge().output()))
    }
}

#[track_caller]
fn summary<'g>(
    graph: &'g Graph,
    op: &str,
    name: &str,
    value: Output<'g>,
    images: Option<usize>,
) -> Output<'g> {
    let build = || {
        // The scopes around are known once a node has a name, and the tag is to have them.
        let value = graph
            .op("Identity")
            .input(value)
            .name(&format!("{name}/value"));
        let value = value.output();
        let tag = graph.constant(tag(&value.name()));
        let tag = tag.named(&format!("{name}/tag"));
        let node = graph.op(op).input(tag).input(value).name(name);
        match images {
            None => node.output(),
            Some(most) => {
                let most = i64::try_from(most).unwrap_or(i64::MAX);
                let color = Tensor::vector(&BAD_COLOR);
                let node = node.attr("max_images", most);
                node.attr("bad_color", color).output()
            }
        }
    };
    let made = graph.at_caller(build);
    graph.add_to_collection(SUMMARIES, made);
    made
}

/// The tag: the name of the value's node, of which "train/loss/value_1:0" gives "train/loss_1".
fn tag(value: &str) -> String {
    let value = value.strip_suffix(":0").unwrap_or(value);
    match value.rsplit_once("/value") {
        Some((scopes, number)) => format!("{scopes}{number}"),
        None => value.to_owned(),
    }
}
