// Made from the .proto files by tests/messages.rs.
use super::{Field, Measured, Packed, Table};

static TENSOR_SHAPE_PROTO_DIM: Table = Table {
    bytes: size_of::<crate::messages::tensor_shape_proto::Dim>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Bytes),
    ],
};

impl Measured for crate::messages::tensor_shape_proto::Dim {
    const TABLE: &'static Table = &TENSOR_SHAPE_PROTO_DIM;
}

static TENSOR_SHAPE_PROTO: Table = Table {
    bytes: size_of::<crate::messages::TensorShapeProto>(),
    fields: &[
        (2, Field::Messages(&TENSOR_SHAPE_PROTO_DIM)),
        (3, Field::Number),
    ],
};

impl Measured for crate::messages::TensorShapeProto {
    const TABLE: &'static Table = &TENSOR_SHAPE_PROTO;
}

static TENSOR_PROTO: Table = Table {
    bytes: size_of::<crate::messages::TensorProto>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Message(&TENSOR_SHAPE_PROTO)),
        (3, Field::Number),
        (4, Field::Bytes),
        (5, Field::Numbers(4, Packed::Four)),
        (6, Field::Numbers(8, Packed::Eight)),
        (7, Field::Numbers(4, Packed::Varint)),
        (8, Field::BytesList),
        (9, Field::Numbers(4, Packed::Four)),
        (10, Field::Numbers(8, Packed::Varint)),
        (11, Field::Numbers(1, Packed::Varint)),
        (12, Field::Numbers(8, Packed::Eight)),
        (13, Field::Numbers(4, Packed::Varint)),
        (16, Field::Numbers(4, Packed::Varint)),
        (17, Field::Numbers(8, Packed::Varint)),
    ],
};

impl Measured for crate::messages::TensorProto {
    const TABLE: &'static Table = &TENSOR_PROTO;
}

static ATTR_VALUE_LIST_VALUE: Table = Table {
    bytes: size_of::<crate::messages::attr_value::ListValue>(),
    fields: &[
        (2, Field::BytesList),
        (3, Field::Numbers(8, Packed::Varint)),
        (4, Field::Numbers(4, Packed::Four)),
        (5, Field::Numbers(1, Packed::Varint)),
        (6, Field::Numbers(4, Packed::Varint)),
        (7, Field::Messages(&TENSOR_SHAPE_PROTO)),
        (8, Field::Messages(&TENSOR_PROTO)),
        (9, Field::Messages(&NAME_ATTR_LIST)),
    ],
};

impl Measured for crate::messages::attr_value::ListValue {
    const TABLE: &'static Table = &ATTR_VALUE_LIST_VALUE;
}

static ATTR_VALUE: Table = Table {
    bytes: size_of::<crate::messages::AttrValue>(),
    fields: &[
        (1, Field::Message(&ATTR_VALUE_LIST_VALUE)),
        (2, Field::Bytes),
        (3, Field::Number),
        (4, Field::Number),
        (5, Field::Number),
        (6, Field::Number),
        (7, Field::Message(&TENSOR_SHAPE_PROTO)),
        (8, Field::Message(&TENSOR_PROTO)),
        (9, Field::Bytes),
        (10, Field::Message(&NAME_ATTR_LIST)),
    ],
};

impl Measured for crate::messages::AttrValue {
    const TABLE: &'static Table = &ATTR_VALUE;
}

static NAME_ATTR_LIST: Table = Table {
    bytes: size_of::<crate::messages::NameAttrList>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Map(&Table { bytes: size_of::<String>() + size_of::<crate::messages::AttrValue>(), fields: &[(1, Field::Bytes), (2, Field::Message(&ATTR_VALUE))] })),
    ],
};

impl Measured for crate::messages::NameAttrList {
    const TABLE: &'static Table = &NAME_ATTR_LIST;
}

static NODE_DEF_EXPERIMENTAL_DEBUG_INFO: Table = Table {
    bytes: size_of::<crate::messages::node_def::ExperimentalDebugInfo>(),
    fields: &[
        (1, Field::BytesList),
        (2, Field::BytesList),
    ],
};

impl Measured for crate::messages::node_def::ExperimentalDebugInfo {
    const TABLE: &'static Table = &NODE_DEF_EXPERIMENTAL_DEBUG_INFO;
}

static NODE_DEF: Table = Table {
    bytes: size_of::<crate::messages::NodeDef>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Bytes),
        (3, Field::BytesList),
        (4, Field::Bytes),
        (5, Field::Map(&Table { bytes: size_of::<String>() + size_of::<crate::messages::AttrValue>(), fields: &[(1, Field::Bytes), (2, Field::Message(&ATTR_VALUE))] })),
        (6, Field::Message(&NODE_DEF_EXPERIMENTAL_DEBUG_INFO)),
    ],
};

impl Measured for crate::messages::NodeDef {
    const TABLE: &'static Table = &NODE_DEF;
}

static VERSION_DEF: Table = Table {
    bytes: size_of::<crate::messages::VersionDef>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Number),
        (3, Field::Numbers(4, Packed::Varint)),
    ],
};

impl Measured for crate::messages::VersionDef {
    const TABLE: &'static Table = &VERSION_DEF;
}

static OP_DEF_ARG_DEF: Table = Table {
    bytes: size_of::<crate::messages::op_def::ArgDef>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Bytes),
        (3, Field::Number),
        (4, Field::Bytes),
        (5, Field::Bytes),
        (6, Field::Bytes),
        (16, Field::Number),
    ],
};

impl Measured for crate::messages::op_def::ArgDef {
    const TABLE: &'static Table = &OP_DEF_ARG_DEF;
}

static OP_DEF_ATTR_DEF: Table = Table {
    bytes: size_of::<crate::messages::op_def::AttrDef>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Bytes),
        (3, Field::Message(&ATTR_VALUE)),
        (4, Field::Bytes),
        (5, Field::Number),
        (6, Field::Number),
        (7, Field::Message(&ATTR_VALUE)),
    ],
};

impl Measured for crate::messages::op_def::AttrDef {
    const TABLE: &'static Table = &OP_DEF_ATTR_DEF;
}

static OP_DEF: Table = Table {
    bytes: size_of::<crate::messages::OpDef>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Messages(&OP_DEF_ARG_DEF)),
        (3, Field::Messages(&OP_DEF_ARG_DEF)),
        (4, Field::Messages(&OP_DEF_ATTR_DEF)),
        (5, Field::Bytes),
        (6, Field::Bytes),
        (8, Field::Message(&OP_DEPRECATION)),
        (16, Field::Number),
        (17, Field::Number),
        (18, Field::Number),
        (19, Field::Number),
        (20, Field::BytesList),
        (21, Field::Number),
    ],
};

impl Measured for crate::messages::OpDef {
    const TABLE: &'static Table = &OP_DEF;
}

static OP_DEPRECATION: Table = Table {
    bytes: size_of::<crate::messages::OpDeprecation>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Bytes),
    ],
};

impl Measured for crate::messages::OpDeprecation {
    const TABLE: &'static Table = &OP_DEPRECATION;
}

static OP_LIST: Table = Table {
    bytes: size_of::<crate::messages::OpList>(),
    fields: &[
        (1, Field::Messages(&OP_DEF)),
    ],
};

impl Measured for crate::messages::OpList {
    const TABLE: &'static Table = &OP_LIST;
}

static FUNCTION_DEF_ARG_ATTRS: Table = Table {
    bytes: size_of::<crate::messages::function_def::ArgAttrs>(),
    fields: &[
        (1, Field::Map(&Table { bytes: size_of::<String>() + size_of::<crate::messages::AttrValue>(), fields: &[(1, Field::Bytes), (2, Field::Message(&ATTR_VALUE))] })),
    ],
};

impl Measured for crate::messages::function_def::ArgAttrs {
    const TABLE: &'static Table = &FUNCTION_DEF_ARG_ATTRS;
}

static FUNCTION_DEF: Table = Table {
    bytes: size_of::<crate::messages::FunctionDef>(),
    fields: &[
        (1, Field::Message(&OP_DEF)),
        (3, Field::Messages(&NODE_DEF)),
        (4, Field::Map(&Table { bytes: size_of::<String>() + size_of::<String>(), fields: &[(1, Field::Bytes), (2, Field::Bytes)] })),
        (5, Field::Map(&Table { bytes: size_of::<String>() + size_of::<crate::messages::AttrValue>(), fields: &[(1, Field::Bytes), (2, Field::Message(&ATTR_VALUE))] })),
        (6, Field::Map(&Table { bytes: size_of::<String>() + size_of::<String>(), fields: &[(1, Field::Bytes), (2, Field::Bytes)] })),
        (7, Field::Map(&Table { bytes: 8 + size_of::<crate::messages::function_def::ArgAttrs>(), fields: &[(1, Field::Number), (2, Field::Message(&FUNCTION_DEF_ARG_ATTRS))] })),
        (8, Field::Map(&Table { bytes: 8 + 8, fields: &[(1, Field::Number), (2, Field::Number)] })),
    ],
};

impl Measured for crate::messages::FunctionDef {
    const TABLE: &'static Table = &FUNCTION_DEF;
}

static GRADIENT_DEF: Table = Table {
    bytes: size_of::<crate::messages::GradientDef>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Bytes),
    ],
};

impl Measured for crate::messages::GradientDef {
    const TABLE: &'static Table = &GRADIENT_DEF;
}

static REGISTERED_GRADIENT: Table = Table {
    bytes: size_of::<crate::messages::RegisteredGradient>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Bytes),
    ],
};

impl Measured for crate::messages::RegisteredGradient {
    const TABLE: &'static Table = &REGISTERED_GRADIENT;
}

static FUNCTION_DEF_LIBRARY: Table = Table {
    bytes: size_of::<crate::messages::FunctionDefLibrary>(),
    fields: &[
        (1, Field::Messages(&FUNCTION_DEF)),
        (2, Field::Messages(&GRADIENT_DEF)),
        (3, Field::Messages(&REGISTERED_GRADIENT)),
    ],
};

impl Measured for crate::messages::FunctionDefLibrary {
    const TABLE: &'static Table = &FUNCTION_DEF_LIBRARY;
}

static GRAPH_DEF: Table = Table {
    bytes: size_of::<crate::messages::GraphDef>(),
    fields: &[
        (1, Field::Messages(&NODE_DEF)),
        (2, Field::Message(&FUNCTION_DEF_LIBRARY)),
        (3, Field::Number),
        (4, Field::Message(&VERSION_DEF)),
    ],
};

impl Measured for crate::messages::GraphDef {
    const TABLE: &'static Table = &GRAPH_DEF;
}

static COLLECTION_DEF_NODE_LIST: Table = Table {
    bytes: size_of::<crate::messages::collection_def::NodeList>(),
    fields: &[
        (1, Field::BytesList),
    ],
};

impl Measured for crate::messages::collection_def::NodeList {
    const TABLE: &'static Table = &COLLECTION_DEF_NODE_LIST;
}

static COLLECTION_DEF_BYTES_LIST: Table = Table {
    bytes: size_of::<crate::messages::collection_def::BytesList>(),
    fields: &[
        (1, Field::BytesList),
    ],
};

impl Measured for crate::messages::collection_def::BytesList {
    const TABLE: &'static Table = &COLLECTION_DEF_BYTES_LIST;
}

static COLLECTION_DEF_INT64_LIST: Table = Table {
    bytes: size_of::<crate::messages::collection_def::Int64List>(),
    fields: &[
        (1, Field::Numbers(8, Packed::Varint)),
    ],
};

impl Measured for crate::messages::collection_def::Int64List {
    const TABLE: &'static Table = &COLLECTION_DEF_INT64_LIST;
}

static COLLECTION_DEF_FLOAT_LIST: Table = Table {
    bytes: size_of::<crate::messages::collection_def::FloatList>(),
    fields: &[
        (1, Field::Numbers(4, Packed::Four)),
    ],
};

impl Measured for crate::messages::collection_def::FloatList {
    const TABLE: &'static Table = &COLLECTION_DEF_FLOAT_LIST;
}

static COLLECTION_DEF_ANY_LIST: Table = Table {
    bytes: size_of::<crate::messages::collection_def::AnyList>(),
    fields: &[
        (1, Field::Messages(&ANY)),
    ],
};

impl Measured for crate::messages::collection_def::AnyList {
    const TABLE: &'static Table = &COLLECTION_DEF_ANY_LIST;
}

static COLLECTION_DEF: Table = Table {
    bytes: size_of::<crate::messages::CollectionDef>(),
    fields: &[
        (1, Field::Message(&COLLECTION_DEF_NODE_LIST)),
        (2, Field::Message(&COLLECTION_DEF_BYTES_LIST)),
        (3, Field::Message(&COLLECTION_DEF_INT64_LIST)),
        (4, Field::Message(&COLLECTION_DEF_FLOAT_LIST)),
        (5, Field::Message(&COLLECTION_DEF_ANY_LIST)),
    ],
};

impl Measured for crate::messages::CollectionDef {
    const TABLE: &'static Table = &COLLECTION_DEF;
}

static ANY: Table = Table {
    bytes: size_of::<crate::messages::Any>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Bytes),
    ],
};

impl Measured for crate::messages::Any {
    const TABLE: &'static Table = &ANY;
}

static SAVE_SLICE_INFO_DEF: Table = Table {
    bytes: size_of::<crate::messages::SaveSliceInfoDef>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Numbers(8, Packed::Varint)),
        (3, Field::Numbers(8, Packed::Varint)),
        (4, Field::Numbers(8, Packed::Varint)),
    ],
};

impl Measured for crate::messages::SaveSliceInfoDef {
    const TABLE: &'static Table = &SAVE_SLICE_INFO_DEF;
}

static VARIABLE_DEF: Table = Table {
    bytes: size_of::<crate::messages::VariableDef>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Bytes),
        (3, Field::Bytes),
        (4, Field::Message(&SAVE_SLICE_INFO_DEF)),
        (5, Field::Number),
        (6, Field::Bytes),
        (7, Field::Number),
        (8, Field::Number),
        (9, Field::Number),
    ],
};

impl Measured for crate::messages::VariableDef {
    const TABLE: &'static Table = &VARIABLE_DEF;
}

static SAVER_DEF: Table = Table {
    bytes: size_of::<crate::messages::SaverDef>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Bytes),
        (3, Field::Bytes),
        (4, Field::Number),
        (5, Field::Number),
        (6, Field::Number),
        (7, Field::Number),
    ],
};

impl Measured for crate::messages::SaverDef {
    const TABLE: &'static Table = &SAVER_DEF;
}

static TENSOR_INFO_COO_SPARSE: Table = Table {
    bytes: size_of::<crate::messages::tensor_info::CooSparse>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Bytes),
        (3, Field::Bytes),
    ],
};

impl Measured for crate::messages::tensor_info::CooSparse {
    const TABLE: &'static Table = &TENSOR_INFO_COO_SPARSE;
}

static TENSOR_INFO: Table = Table {
    bytes: size_of::<crate::messages::TensorInfo>(),
    fields: &[
        (2, Field::Number),
        (3, Field::Message(&TENSOR_SHAPE_PROTO)),
        (1, Field::Bytes),
        (4, Field::Message(&TENSOR_INFO_COO_SPARSE)),
    ],
};

impl Measured for crate::messages::TensorInfo {
    const TABLE: &'static Table = &TENSOR_INFO;
}

static SIGNATURE_DEF: Table = Table {
    bytes: size_of::<crate::messages::SignatureDef>(),
    fields: &[
        (1, Field::Map(&Table { bytes: size_of::<String>() + size_of::<crate::messages::TensorInfo>(), fields: &[(1, Field::Bytes), (2, Field::Message(&TENSOR_INFO))] })),
        (2, Field::Map(&Table { bytes: size_of::<String>() + size_of::<crate::messages::TensorInfo>(), fields: &[(1, Field::Bytes), (2, Field::Message(&TENSOR_INFO))] })),
        (3, Field::Bytes),
        (4, Field::Map(&Table { bytes: size_of::<String>() + size_of::<crate::messages::TensorProto>(), fields: &[(1, Field::Bytes), (2, Field::Message(&TENSOR_PROTO))] })),
    ],
};

impl Measured for crate::messages::SignatureDef {
    const TABLE: &'static Table = &SIGNATURE_DEF;
}

static ASSET_FILE_DEF: Table = Table {
    bytes: size_of::<crate::messages::AssetFileDef>(),
    fields: &[
        (1, Field::Message(&TENSOR_INFO)),
        (2, Field::Bytes),
    ],
};

impl Measured for crate::messages::AssetFileDef {
    const TABLE: &'static Table = &ASSET_FILE_DEF;
}

static SAVED_VARIABLE: Table = Table {
    bytes: size_of::<crate::messages::SavedVariable>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Message(&TENSOR_SHAPE_PROTO)),
        (3, Field::Number),
        (6, Field::Bytes),
    ],
};

impl Measured for crate::messages::SavedVariable {
    const TABLE: &'static Table = &SAVED_VARIABLE;
}

static SAVED_OBJECT: Table = Table {
    bytes: size_of::<crate::messages::SavedObject>(),
    fields: &[
        (7, Field::Message(&SAVED_VARIABLE)),
    ],
};

impl Measured for crate::messages::SavedObject {
    const TABLE: &'static Table = &SAVED_OBJECT;
}

static SAVED_OBJECT_GRAPH: Table = Table {
    bytes: size_of::<crate::messages::SavedObjectGraph>(),
    fields: &[
        (1, Field::Messages(&SAVED_OBJECT)),
    ],
};

impl Measured for crate::messages::SavedObjectGraph {
    const TABLE: &'static Table = &SAVED_OBJECT_GRAPH;
}

static META_GRAPH_DEF_META_INFO_DEF: Table = Table {
    bytes: size_of::<crate::messages::meta_graph_def::MetaInfoDef>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Message(&OP_LIST)),
        (3, Field::Message(&ANY)),
        (4, Field::BytesList),
        (5, Field::Bytes),
        (6, Field::Bytes),
        (7, Field::Number),
        (8, Field::Map(&Table { bytes: size_of::<String>() + size_of::<String>(), fields: &[(1, Field::Bytes), (2, Field::Bytes)] })),
    ],
};

impl Measured for crate::messages::meta_graph_def::MetaInfoDef {
    const TABLE: &'static Table = &META_GRAPH_DEF_META_INFO_DEF;
}

static META_GRAPH_DEF: Table = Table {
    bytes: size_of::<crate::messages::MetaGraphDef>(),
    fields: &[
        (1, Field::Message(&META_GRAPH_DEF_META_INFO_DEF)),
        (2, Field::Message(&GRAPH_DEF)),
        (3, Field::Message(&SAVER_DEF)),
        (4, Field::Map(&Table { bytes: size_of::<String>() + size_of::<crate::messages::CollectionDef>(), fields: &[(1, Field::Bytes), (2, Field::Message(&COLLECTION_DEF))] })),
        (5, Field::Map(&Table { bytes: size_of::<String>() + size_of::<crate::messages::SignatureDef>(), fields: &[(1, Field::Bytes), (2, Field::Message(&SIGNATURE_DEF))] })),
        (6, Field::Messages(&ASSET_FILE_DEF)),
        (7, Field::Message(&SAVED_OBJECT_GRAPH)),
    ],
};

impl Measured for crate::messages::MetaGraphDef {
    const TABLE: &'static Table = &META_GRAPH_DEF;
}

static QUEUE_RUNNER_DEF: Table = Table {
    bytes: size_of::<crate::messages::QueueRunnerDef>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::BytesList),
        (3, Field::Bytes),
        (4, Field::Bytes),
    ],
};

impl Measured for crate::messages::QueueRunnerDef {
    const TABLE: &'static Table = &QUEUE_RUNNER_DEF;
}

static SAVED_MODEL: Table = Table {
    bytes: size_of::<crate::messages::SavedModel>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Messages(&META_GRAPH_DEF)),
    ],
};

impl Measured for crate::messages::SavedModel {
    const TABLE: &'static Table = &SAVED_MODEL;
}

static HISTOGRAM_PROTO: Table = Table {
    bytes: size_of::<crate::messages::HistogramProto>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Number),
        (3, Field::Number),
        (4, Field::Number),
        (5, Field::Number),
        (6, Field::Numbers(8, Packed::Eight)),
        (7, Field::Numbers(8, Packed::Eight)),
    ],
};

impl Measured for crate::messages::HistogramProto {
    const TABLE: &'static Table = &HISTOGRAM_PROTO;
}

static SUMMARY_METADATA_PLUGIN_DATA: Table = Table {
    bytes: size_of::<crate::messages::summary_metadata::PluginData>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Bytes),
    ],
};

impl Measured for crate::messages::summary_metadata::PluginData {
    const TABLE: &'static Table = &SUMMARY_METADATA_PLUGIN_DATA;
}

static SUMMARY_METADATA: Table = Table {
    bytes: size_of::<crate::messages::SummaryMetadata>(),
    fields: &[
        (1, Field::Message(&SUMMARY_METADATA_PLUGIN_DATA)),
        (2, Field::Bytes),
        (3, Field::Bytes),
        (4, Field::Number),
    ],
};

impl Measured for crate::messages::SummaryMetadata {
    const TABLE: &'static Table = &SUMMARY_METADATA;
}

static SUMMARY_IMAGE: Table = Table {
    bytes: size_of::<crate::messages::summary::Image>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Number),
        (3, Field::Number),
        (4, Field::Bytes),
    ],
};

impl Measured for crate::messages::summary::Image {
    const TABLE: &'static Table = &SUMMARY_IMAGE;
}

static SUMMARY_AUDIO: Table = Table {
    bytes: size_of::<crate::messages::summary::Audio>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Number),
        (3, Field::Number),
        (4, Field::Bytes),
        (5, Field::Bytes),
    ],
};

impl Measured for crate::messages::summary::Audio {
    const TABLE: &'static Table = &SUMMARY_AUDIO;
}

static SUMMARY_VALUE: Table = Table {
    bytes: size_of::<crate::messages::summary::Value>(),
    fields: &[
        (1, Field::Bytes),
        (7, Field::Bytes),
        (9, Field::Message(&SUMMARY_METADATA)),
        (2, Field::Number),
        (3, Field::Bytes),
        (4, Field::Message(&SUMMARY_IMAGE)),
        (5, Field::Message(&HISTOGRAM_PROTO)),
        (6, Field::Message(&SUMMARY_AUDIO)),
        (8, Field::Message(&TENSOR_PROTO)),
    ],
};

impl Measured for crate::messages::summary::Value {
    const TABLE: &'static Table = &SUMMARY_VALUE;
}

static SUMMARY: Table = Table {
    bytes: size_of::<crate::messages::Summary>(),
    fields: &[
        (1, Field::Messages(&SUMMARY_VALUE)),
    ],
};

impl Measured for crate::messages::Summary {
    const TABLE: &'static Table = &SUMMARY;
}

static SESSION_LOG: Table = Table {
    bytes: size_of::<crate::messages::SessionLog>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Bytes),
        (3, Field::Bytes),
    ],
};

impl Measured for crate::messages::SessionLog {
    const TABLE: &'static Table = &SESSION_LOG;
}

static TAGGED_RUN_METADATA: Table = Table {
    bytes: size_of::<crate::messages::TaggedRunMetadata>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Bytes),
    ],
};

impl Measured for crate::messages::TaggedRunMetadata {
    const TABLE: &'static Table = &TAGGED_RUN_METADATA;
}

static EVENT: Table = Table {
    bytes: size_of::<crate::messages::Event>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Number),
        (3, Field::Bytes),
        (4, Field::Bytes),
        (5, Field::Message(&SUMMARY)),
        (7, Field::Message(&SESSION_LOG)),
        (8, Field::Message(&TAGGED_RUN_METADATA)),
        (9, Field::Bytes),
    ],
};

impl Measured for crate::messages::Event {
    const TABLE: &'static Table = &EVENT;
}

static ALLOCATION_DESCRIPTION: Table = Table {
    bytes: size_of::<crate::messages::AllocationDescription>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Number),
        (3, Field::Bytes),
    ],
};

impl Measured for crate::messages::AllocationDescription {
    const TABLE: &'static Table = &ALLOCATION_DESCRIPTION;
}

static TENSOR_DESCRIPTION: Table = Table {
    bytes: size_of::<crate::messages::TensorDescription>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Message(&TENSOR_SHAPE_PROTO)),
        (4, Field::Message(&ALLOCATION_DESCRIPTION)),
    ],
};

impl Measured for crate::messages::TensorDescription {
    const TABLE: &'static Table = &TENSOR_DESCRIPTION;
}

static NODE_OUTPUT: Table = Table {
    bytes: size_of::<crate::messages::NodeOutput>(),
    fields: &[
        (1, Field::Number),
        (3, Field::Message(&TENSOR_DESCRIPTION)),
    ],
};

impl Measured for crate::messages::NodeOutput {
    const TABLE: &'static Table = &NODE_OUTPUT;
}

static NODE_EXEC_STATS: Table = Table {
    bytes: size_of::<crate::messages::NodeExecStats>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
        (3, Field::Number),
        (4, Field::Number),
        (5, Field::Number),
        (7, Field::Messages(&NODE_OUTPUT)),
        (8, Field::Bytes),
        (9, Field::Number),
        (10, Field::Number),
    ],
};

impl Measured for crate::messages::NodeExecStats {
    const TABLE: &'static Table = &NODE_EXEC_STATS;
}

static DEVICE_STEP_STATS: Table = Table {
    bytes: size_of::<crate::messages::DeviceStepStats>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Messages(&NODE_EXEC_STATS)),
    ],
};

impl Measured for crate::messages::DeviceStepStats {
    const TABLE: &'static Table = &DEVICE_STEP_STATS;
}

static STEP_STATS: Table = Table {
    bytes: size_of::<crate::messages::StepStats>(),
    fields: &[
        (1, Field::Messages(&DEVICE_STEP_STATS)),
    ],
};

impl Measured for crate::messages::StepStats {
    const TABLE: &'static Table = &STEP_STATS;
}

static RUN_METADATA: Table = Table {
    bytes: size_of::<crate::messages::RunMetadata>(),
    fields: &[
        (1, Field::Message(&STEP_STATS)),
        (3, Field::Messages(&GRAPH_DEF)),
    ],
};

impl Measured for crate::messages::RunMetadata {
    const TABLE: &'static Table = &RUN_METADATA;
}
