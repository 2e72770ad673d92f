//! Hyperparameters, as TensorBoard's plugin `hparams` reads them:
//! `tensorboard/plugins/hparams/plugin_data.proto` and `api.proto`.

use std::collections::BTreeMap;

use prost::Message;

use thalweg_graphdef::messages::{DataType, TensorProto, TensorShapeProto};

use super::event_writer::{SummaryWriter, now};
use super::values::of_plugin;
use crate::error::SummaryError;

const PLUGIN: &str = "hparams";

/// A hyperparameter's value.
///
/// ```
/// use thalweg_summary::HParam;
///
/// assert_eq!(HParam::from("Adam"), HParam::Text("Adam".to_owned()));
/// assert_eq!(HParam::from(50), HParam::Number(50.0));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HParam {
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// A flag.
    Flag(bool),
}

macro_rules! from {
    ($($type:ty => |$value:ident| $made:expr),*) => {$(
        impl From<$type> for HParam {
            fn from($value: $type) -> HParam {
                $made
            }
        }
    )*};
}

from! {
    f64 => |v| HParam::Number(v),
    f32 => |v| HParam::Number(v.into()),
    i32 => |v| HParam::Number(v.into()),
    u32 => |v| HParam::Number(v.into()),
    i64 => |v| HParam::Number(v as f64),
    u64 => |v| HParam::Number(v as f64),
    usize => |v| HParam::Number(v as f64),
    &str => |v| HParam::Text(v.to_owned()),
    String => |v| HParam::Text(v),
    bool => |v| HParam::Flag(v)
}

/// The final status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum RunStatus {
    /// Unknown.
    Unknown = 0,
    /// It succeeded.
    Success = 1,
    /// It failed.
    Failure = 2,
    /// It is still running.
    Running = 3,
}

impl SummaryWriter {
    /// Writes the hyperparameters of this run, and the tags of the scalars that it is judged by.
    /// TensorBoard's tab "HParams" compares the runs of a folder: each run writes into a folder of
    /// its own. Call this once, before the run.
    ///
    /// # Errors
    /// [`SummaryError::Write`], [`SummaryError::Closed`].
    ///
    /// ```
    /// # use thalweg_summary::{RunStatus, SummaryWriter};
    /// # fn main() -> Result<(), thalweg_summary::SummaryError> {
    /// # let logs = std::env::temp_dir().join(format!("thalweg-hparams-{}", std::process::id()));
    /// let writer = SummaryWriter::create(logs.join("rate-0.01"))?;
    /// writer.hparams([("rate", 0.01.into()), ("optimizer", "Adam".into())], &["loss"])?;
    /// writer.scalar("loss", 0.5, 1)?;
    /// writer.hparams_end(RunStatus::Success)?;
    /// # std::fs::remove_dir_all(&logs).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    pub fn hparams<'a>(
        &self,
        values: impl IntoIterator<Item = (&'a str, HParam)>,
        metrics: &[&str],
    ) -> Result<(), SummaryError> {
        let values: BTreeMap<String, HParam> = values
            .into_iter()
            .map(|(name, v)| (name.to_owned(), v))
            .collect();
        let infos = values.iter().map(|(name, value)| HParamInfo {
            name: name.clone(),
            r#type: data_type(value),
        });
        let metrics = metrics.iter().map(|&tag| MetricInfo {
            name: Some(MetricName {
                group: String::new(),
                tag: tag.to_owned(),
            }),
        });
        self.hparams_data(
            "_hparams_/experiment",
            Data::Experiment(Experiment {
                time_created_secs: now(),
                hparam_infos: infos.collect(),
                metric_infos: metrics.collect(),
            }),
        )?;
        let values = values
            .into_iter()
            .map(|(name, v)| (name, v.into()))
            .collect();
        self.hparams_data(
            "_hparams_/session_start_info",
            Data::Start(SessionStart {
                hparams: values,
                start_time_secs: now(),
            }),
        )
    }

    /// Writes the final status of the run with these hyperparameters, and the current time as its
    /// end.
    ///
    /// # Errors
    /// [`SummaryError::Write`], [`SummaryError::Closed`].
    pub fn hparams_end(&self, status: RunStatus) -> Result<(), SummaryError> {
        self.hparams_data(
            "_hparams_/session_end_info",
            Data::End(SessionEnd {
                status: status.into(),
                end_time_secs: now(),
            }),
        )
    }

    fn hparams_data(&self, tag: &str, data: Data) -> Result<(), SummaryError> {
        let content = PluginData { data: Some(data) }.encode_to_vec();
        // The plugin looks at the content alone, but a summary needs a value.
        let none = TensorProto {
            dtype: DataType::DtFloat.into(),
            tensor_shape: Some(TensorShapeProto::default()),
            float_val: vec![0.0],
            ..TensorProto::default()
        };
        let summary = of_plugin(PLUGIN, content, tag, none);
        self.summary(&summary.encode_to_vec(), 0)
    }
}

/// `DataType` of `api.proto`.
fn data_type(value: &HParam) -> i32 {
    match value {
        HParam::Text(_) => 1,
        HParam::Flag(_) => 2,
        HParam::Number(_) => 3,
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct PluginData {
    #[prost(oneof = "Data", tags = "2, 3, 4")]
    data: Option<Data>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Data {
    #[prost(message, tag = "2")]
    Experiment(Experiment),
    #[prost(message, tag = "3")]
    Start(SessionStart),
    #[prost(message, tag = "4")]
    End(SessionEnd),
}

#[derive(Clone, PartialEq, prost::Message)]
struct Experiment {
    #[prost(double, tag = "3")]
    time_created_secs: f64,
    #[prost(message, repeated, tag = "4")]
    hparam_infos: Vec<HParamInfo>,
    #[prost(message, repeated, tag = "5")]
    metric_infos: Vec<MetricInfo>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct HParamInfo {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int32, tag = "4")]
    r#type: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct MetricInfo {
    #[prost(message, optional, tag = "1")]
    name: Option<MetricName>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct MetricName {
    #[prost(string, tag = "1")]
    group: String,
    #[prost(string, tag = "2")]
    tag: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct SessionStart {
    #[prost(btree_map = "string, message", tag = "1")]
    hparams: BTreeMap<String, ProtoValue>,
    #[prost(double, tag = "5")]
    start_time_secs: f64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct SessionEnd {
    #[prost(enumeration = "RunStatus", tag = "1")]
    status: i32,
    #[prost(double, tag = "2")]
    end_time_secs: f64,
}

/// `google.protobuf.Value`.
#[derive(Clone, PartialEq, prost::Message)]
struct ProtoValue {
    #[prost(oneof = "Kind", tags = "2, 3, 4")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Kind {
    #[prost(double, tag = "2")]
    Number(f64),
    #[prost(string, tag = "3")]
    Text(String),
    #[prost(bool, tag = "4")]
    Flag(bool),
}

impl From<HParam> for ProtoValue {
    fn from(value: HParam) -> ProtoValue {
        let kind = match value {
            HParam::Number(v) => Kind::Number(v),
            HParam::Text(v) => Kind::Text(v),
            HParam::Flag(v) => Kind::Flag(v),
        };
        ProtoValue { kind: Some(kind) }
    }
}
