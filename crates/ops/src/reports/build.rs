//! Builder methods for summaries.

use thalweg_graph::{Graph, Output};
use thalweg_tensor::Tensor;

use super::encode::BAD_COLOR;
use crate::array::SourceOps;

/// Collection of a graph's summaries; TensorFlow's `GraphKeys.SUMMARIES`.
const SUMMARIES: &str = "summaries";

/// Builder methods for summaries, which event files carry to TensorBoard.
///
/// Each returns a scalar of dtype string, a serialized `Summary`, and adds it to the collection `summaries`. Its tag
/// is its name, including the name scopes.
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
/// // A training loop fetches this, and a writer of event files writes it.
/// let all = g.merge_all_summaries().unwrap();
/// assert!(g.errors().is_empty());
/// assert_eq!(g.collection("summaries").len(), 2);
/// # let _ = all;
/// ```
pub trait SummaryOps {
    /// Summary of a number, of any numeric dtype.
    fn scalar_summary<'g>(&'g self, name: &str, value: impl Into<Output<'g>>) -> Output<'g>;

    /// Summary of the distribution of a tensor's numbers. A step fails on numbers that are not finite.
    fn histogram_summary<'g>(&'g self, name: &str, values: impl Into<Output<'g>>) -> Output<'g>;

    /// Summary of the first `max_images` images of a batch `[n, height, width, channels]`, of `u8` or floats; see
    /// [`summaries::image`](crate::summaries::image) for their conversion to pixels.
    fn image_summary<'g>(
        &'g self,
        name: &str,
        images: impl Into<Output<'g>>,
        max_images: usize,
    ) -> Output<'g>;

    /// Merges the summaries of the collection `summaries`; `None` if there are none. A step fails if two
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
        max_images: usize,
    ) -> Output<'g> {
        summary(self, "ImageSummary", name, images.into(), Some(max_images))
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
        // The tag includes the name scopes, which are known once a node has a name.
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
            Some(max_images) => {
                let max_images = i64::try_from(max_images).unwrap_or(i64::MAX);
                let color = Tensor::vector(&BAD_COLOR);
                let node = node.attr("max_images", max_images);
                node.attr("bad_color", color).output()
            }
        }
    };
    let made = graph.at_caller(build);
    graph.add_to_collection(SUMMARIES, made);
    made
}

/// Tag from the name of the value's node: "train/loss/value_1:0" gives "train/loss_1".
fn tag(value: &str) -> String {
    let value = value.strip_suffix(":0").unwrap_or(value);
    match value.rsplit_once("/value") {
        Some((scopes, number)) => format!("{scopes}{number}"),
        None => value.to_owned(),
    }
}
