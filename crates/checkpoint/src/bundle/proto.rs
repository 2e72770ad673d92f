//! The messages of an index. Source: TensorFlow's `core/protobuf/tensor_bundle.proto`,
//! `core/framework/tensor_shape.proto`, `tensor_slice.proto`, `versions.proto`.

use prost::Message;

/// BundleHeaderProto, the value of the empty key.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeaderProto {
    #[prost(int32, tag = "1")]
    pub(crate) num_shards: i32,
    /// 0 little, 1 big.
    #[prost(int32, tag = "2")]
    pub(crate) endianness: i32,
    #[prost(message, optional, tag = "3")]
    pub(crate) version: Option<Version>,
}

/// VersionDef.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Version {
    #[prost(int32, tag = "1")]
    pub(crate) producer: i32,
    #[prost(int32, tag = "2")]
    pub(crate) min_consumer: i32,
    #[prost(int32, repeated, tag = "3")]
    pub(crate) bad_consumers: Vec<i32>,
}

/// BundleEntryProto.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EntryProto {
    #[prost(int32, tag = "1")]
    pub(crate) dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) shape: Option<Shape>,
    #[prost(int32, tag = "3")]
    pub(crate) shard_id: i32,
    #[prost(int64, tag = "4")]
    pub(crate) offset: i64,
    #[prost(int64, tag = "5")]
    pub(crate) size: i64,
    #[prost(fixed32, tag = "6")]
    pub(crate) crc32c: u32,
    #[prost(message, repeated, tag = "7")]
    pub(crate) slices: Vec<Slice>,
}

/// TensorShapeProto.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Shape {
    #[prost(message, repeated, tag = "2")]
    pub(crate) dim: Vec<Dim>,
    #[prost(bool, tag = "3")]
    pub(crate) unknown_rank: bool,
}

/// TensorShapeProto.Dim; its name is never used.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Dim {
    #[prost(int64, tag = "1")]
    pub(crate) size: i64,
}

/// TensorSliceProto.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Slice {
    #[prost(message, repeated, tag = "1")]
    pub(crate) extent: Vec<Extent>,
}

/// TensorSliceProto.Extent; without a length, all of the dimension.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Extent {
    #[prost(int64, tag = "1")]
    pub(crate) start: i64,
    #[prost(int64, optional, tag = "2")]
    pub(crate) length: Option<i64>,
}

impl Shape {
    pub(crate) fn of(dims: &[usize]) -> Shape {
        Shape {
            dim: dims.iter().map(|&d| Dim { size: d as i64 }).collect(),
            unknown_rank: false,
        }
    }

    /// The dimensions, if all of them are known.
    pub(crate) fn dims(&self) -> Option<Vec<usize>> {
        let sizes = self.dim.iter().map(|d| usize::try_from(d.size).ok());
        sizes.collect::<Option<_>>().filter(|_| !self.unknown_rank)
    }
}
