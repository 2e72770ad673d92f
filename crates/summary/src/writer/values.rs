//! Methods of the writer for each kind of event: scalars, histograms, images, text, graphs, session
//! logs.

use prost::Message;

use thalweg_device::KernelError;
use thalweg_graph::Graph;
use thalweg_graphdef::messages::{
    DataClass, GraphDef, MetaGraphDef, TensorProto, TensorShapeProto,
};
use thalweg_graphdef::messages::{DataType, summary_metadata::PluginData};
use thalweg_graphdef::{ExportOptions, export};
use thalweg_ops::summaries;
use thalweg_tensor::Tensor;

use super::event_writer::{SummaryWriter, now};
use crate::error::SummaryError;
use crate::messages::session_log::SessionStatus;
use crate::messages::summary::{Value, value};
use crate::messages::{RunMetadata, SessionLog, Summary, SummaryMetadata, TaggedRunMetadata};

// The fields of an `Event` (`core/util/event.proto`).
const GRAPH_DEF: u8 = 4;
const SUMMARY: u8 = 5;
const SESSION_LOG: u8 = 7;
const RUN_METADATA: u8 = 8;
const META_GRAPH: u8 = 9;

/// An event of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent<'a> {
    /// It began, or began again, at this step. TensorBoard drops earlier events of this step and
    /// later ones: after a restore, curves do not go back.
    Start,
    /// It ended.
    Stop,
    /// It saved a checkpoint, whose files begin with this prefix.
    Checkpoint(&'a str),
}

/// All of these fail with [`SummaryError::Write`], [`SummaryError::Closed`] and
/// [`SummaryError::TooLarge`], and with the errors listed at each.
impl SummaryWriter {
    /// Writes a number, which is stored as `f32`. A value that is not finite is shown as such.
    ///
    /// # Errors
    /// See above.
    pub fn scalar(&self, tag: &str, value: impl Into<f64>, step: i64) -> Result<(), SummaryError> {
        self.summary(
            &summaries::scalar(tag.as_bytes(), value.into() as f32),
            step,
        )
    }

    /// Writes the distribution of the numbers of a tensor, in TensorFlow's buckets.
    ///
    /// # Errors
    /// [`SummaryError::Value`] for numbers that are not finite, and for strings.
    ///
    /// ```
    /// # use thalweg_summary::SummaryWriter;
    /// # use thalweg_tensor::Tensor;
    /// # fn main() -> Result<(), thalweg_summary::SummaryError> {
    /// # let logs = std::env::temp_dir().join(format!("thalweg-histogram-{}", std::process::id()));
    /// # let writer = SummaryWriter::create(&logs)?;
    /// writer.histogram("weights", &Tensor::vector(&[0.1f32, -0.2, 0.3]), 1)?;
    /// let error = writer.histogram("weights", &Tensor::vector(&[f32::NAN]), 2).unwrap_err();
    /// assert!(error.to_string().contains("element 0: NaN in the histogram \"weights\""));
    /// # std::fs::remove_dir_all(&logs).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    pub fn histogram(&self, tag: &str, values: &Tensor, step: i64) -> Result<(), SummaryError> {
        let summary = summaries::histogram(tag.as_bytes(), values);
        self.summary(&summary.map_err(|e| self.value(tag, &e))?, step)
    }

    /// Writes the first `most` images of a batch `[n, height, width, channels]`, with 1 (grey), 3
    /// (RGB) or 4 channels (with alpha), of `u8` or floats. Floats are scaled to shades as
    /// TensorFlow's `tf.summary.image` does; see
    /// [`summaries::image`](thalweg_ops::summaries::image). Their tags are `tag/image/0` and so on,
    /// and `tag/image` if `most` is 1.
    ///
    /// # Errors
    /// [`SummaryError::Value`] for other shapes and dtypes.
    ///
    /// ```
    /// # use thalweg_summary::SummaryWriter;
    /// # use thalweg_tensor::{DType, Tensor};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let logs = std::env::temp_dir().join(format!("thalweg-image-{}", std::process::id()));
    /// # let writer = SummaryWriter::create(&logs)?;
    /// writer.image("digits", &Tensor::zeros(DType::F32, &[8, 28, 28, 1])?, 1, 3)?;
    /// # std::fs::remove_dir_all(&logs)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn image(
        &self,
        tag: &str,
        images: &Tensor,
        step: i64,
        most: usize,
    ) -> Result<(), SummaryError> {
        let summary = summaries::image(tag.as_bytes(), images, most, &summaries::BAD_COLOR);
        self.summary(&summary.map_err(|e| self.value(tag, &e))?, step)
    }

    /// Writes a text, as Markdown.
    ///
    /// # Errors
    /// See above.
    pub fn text(&self, tag: &str, text: &str, step: i64) -> Result<(), SummaryError> {
        let tensor = TensorProto {
            dtype: DataType::DtString.into(),
            tensor_shape: Some(TensorShapeProto::default()),
            string_val: vec![text.as_bytes().to_vec()],
            ..TensorProto::default()
        };
        let summary = of_plugin("text", Vec::new(), tag, tensor);
        self.summary(&summary.encode_to_vec(), step)
    }

    /// Writes a graph, which TensorBoard's graph view shows, with shapes on its edges.
    ///
    /// # Errors
    /// [`SummaryError::Graph`] for a graph that no GraphDef can hold.
    pub fn graph(&self, graph: &Graph) -> Result<(), SummaryError> {
        let def = export(graph, &ExportOptions::new().output_shapes(true));
        let def = def.map_err(|reason| SummaryError::Graph {
            path: self.path().to_owned(),
            reason,
        })?;
        self.graph_def(&def)
    }

    /// Writes a graph that is a message already.
    ///
    /// # Errors
    /// See above.
    pub fn graph_def(&self, def: &GraphDef) -> Result<(), SummaryError> {
        self.field(now(), 0, GRAPH_DEF, &def.encode_to_vec())
    }

    /// Writes a MetaGraph.
    ///
    /// # Errors
    /// See above.
    pub fn meta_graph(&self, def: &MetaGraphDef, step: i64) -> Result<(), SummaryError> {
        self.field(now(), step, META_GRAPH, &def.encode_to_vec())
    }

    /// Writes the cost of a traced step. Each has a tag of its own, such as "step 100". `thalweg_train::run_metadata`
    /// makes the message of a trace.
    ///
    /// # Errors
    /// See above.
    pub fn run_metadata(
        &self,
        tag: &str,
        metadata: &RunMetadata,
        step: i64,
    ) -> Result<(), SummaryError> {
        let tagged = TaggedRunMetadata {
            tag: tag.to_owned(),
            run_metadata: metadata.encode_to_vec(),
        };
        self.field(now(), step, RUN_METADATA, &tagged.encode_to_vec())
    }

    /// Writes a serialized `Summary`: the output of `MergeSummary` and the other summary ops. Its
    /// bytes are written unchanged.
    ///
    /// # Errors
    /// See above.
    pub fn summary(&self, summary: &[u8], step: i64) -> Result<(), SummaryError> {
        self.field(now(), step, SUMMARY, summary)
    }

    /// Writes an event of a session.
    ///
    /// # Errors
    /// See above.
    pub fn session_log(&self, what: SessionEvent<'_>, step: i64) -> Result<(), SummaryError> {
        let (status, path) = match what {
            SessionEvent::Start => (SessionStatus::Start, ""),
            SessionEvent::Stop => (SessionStatus::Stop, ""),
            SessionEvent::Checkpoint(path) => (SessionStatus::Checkpoint, path),
        };
        let log = SessionLog {
            status: status.into(),
            checkpoint_path: path.to_owned(),
            msg: String::new(),
        };
        self.field(now(), step, SESSION_LOG, &log.encode_to_vec())
    }

    /// The error of a value with this tag.
    fn value(&self, tag: &str, error: &KernelError) -> SummaryError {
        let reason = match error {
            // The caller passed one tensor, and does not know the inputs of an op.
            KernelError::Element {
                element, reason, ..
            } => format!("element {element}: {reason}"),
            other => other.to_string(),
        };
        SummaryError::Value {
            path: self.path().to_owned(),
            tag: tag.to_owned(),
            reason,
        }
    }
}

/// A summary for a plugin of TensorBoard.
pub(crate) fn of_plugin(plugin: &str, content: Vec<u8>, tag: &str, tensor: TensorProto) -> Summary {
    let metadata = SummaryMetadata {
        plugin_data: Some(PluginData {
            plugin_name: plugin.to_owned(),
            content,
        }),
        data_class: DataClass::Tensor.into(),
        ..SummaryMetadata::default()
    };
    Summary {
        value: vec![Value {
            tag: tag.to_owned(),
            metadata: Some(metadata),
            value: Some(value::Value::Tensor(tensor)),
            ..Value::default()
        }],
    }
}
