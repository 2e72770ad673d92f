// Made from the .proto files by tests/messages.rs.
use thalweg_graphdef::sizes::{Field, Measured, Table};

static NAMED_TENSOR_PROTO: Table = Table {
    bytes: size_of::<super::messages::NamedTensorProto>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Message(<thalweg_graphdef::messages::TensorProto as Measured>::TABLE)),
    ],
};

impl Measured for super::messages::NamedTensorProto {
    const TABLE: &'static Table = &NAMED_TENSOR_PROTO;
}

static THREAD_POOL_OPTION_PROTO: Table = Table {
    bytes: size_of::<super::messages::ThreadPoolOptionProto>(),
    fields: &[
        (1, Field::Number),
    ],
};

impl Measured for super::messages::ThreadPoolOptionProto {
    const TABLE: &'static Table = &THREAD_POOL_OPTION_PROTO;
}

static JOB_DEF: Table = Table {
    bytes: size_of::<super::messages::JobDef>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Map(&Table { bytes: 8 + size_of::<String>(), fields: &[(1, Field::Number), (2, Field::Bytes)] })),
    ],
};

impl Measured for super::messages::JobDef {
    const TABLE: &'static Table = &JOB_DEF;
}

static CLUSTER_DEF: Table = Table {
    bytes: size_of::<super::messages::ClusterDef>(),
    fields: &[
        (1, Field::Messages(&JOB_DEF)),
    ],
};

impl Measured for super::messages::ClusterDef {
    const TABLE: &'static Table = &CLUSTER_DEF;
}

static GRAPH_OPTIONS: Table = Table {
    bytes: size_of::<super::messages::GraphOptions>(),
    fields: &[
        (7, Field::Number),
    ],
};

impl Measured for super::messages::GraphOptions {
    const TABLE: &'static Table = &GRAPH_OPTIONS;
}

static CONFIG_PROTO_EXPERIMENTAL: Table = Table {
    bytes: size_of::<super::messages::config_proto::Experimental>(),
    fields: &[
        (8, Field::Number),
    ],
};

impl Measured for super::messages::config_proto::Experimental {
    const TABLE: &'static Table = &CONFIG_PROTO_EXPERIMENTAL;
}

static CONFIG_PROTO: Table = Table {
    bytes: size_of::<super::messages::ConfigProto>(),
    fields: &[
        (4, Field::BytesList),
        (7, Field::Number),
        (10, Field::Message(&GRAPH_OPTIONS)),
        (11, Field::Number),
        (12, Field::Messages(&THREAD_POOL_OPTION_PROTO)),
        (14, Field::Message(&CLUSTER_DEF)),
        (15, Field::Number),
        (16, Field::Message(&CONFIG_PROTO_EXPERIMENTAL)),
    ],
};

impl Measured for super::messages::ConfigProto {
    const TABLE: &'static Table = &CONFIG_PROTO;
}

static RUN_OPTIONS: Table = Table {
    bytes: size_of::<super::messages::RunOptions>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Number),
        (5, Field::Number),
    ],
};

impl Measured for super::messages::RunOptions {
    const TABLE: &'static Table = &RUN_OPTIONS;
}

static TENSOR_CONNECTION: Table = Table {
    bytes: size_of::<super::messages::TensorConnection>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Bytes),
    ],
};

impl Measured for super::messages::TensorConnection {
    const TABLE: &'static Table = &TENSOR_CONNECTION;
}

static CALLABLE_OPTIONS: Table = Table {
    bytes: size_of::<super::messages::CallableOptions>(),
    fields: &[
        (1, Field::BytesList),
        (2, Field::BytesList),
        (3, Field::BytesList),
        (4, Field::Message(&RUN_OPTIONS)),
        (5, Field::Messages(&TENSOR_CONNECTION)),
        (6, Field::Map(&Table { bytes: size_of::<String>() + size_of::<String>(), fields: &[(1, Field::Bytes), (2, Field::Bytes)] })),
        (7, Field::Map(&Table { bytes: size_of::<String>() + size_of::<String>(), fields: &[(1, Field::Bytes), (2, Field::Bytes)] })),
    ],
};

impl Measured for super::messages::CallableOptions {
    const TABLE: &'static Table = &CALLABLE_OPTIONS;
}

static DEVICE_LOCALITY: Table = Table {
    bytes: size_of::<super::messages::DeviceLocality>(),
    fields: &[
        (1, Field::Number),
    ],
};

impl Measured for super::messages::DeviceLocality {
    const TABLE: &'static Table = &DEVICE_LOCALITY;
}

static DEVICE_ATTRIBUTES: Table = Table {
    bytes: size_of::<super::messages::DeviceAttributes>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Bytes),
        (4, Field::Number),
        (5, Field::Message(&DEVICE_LOCALITY)),
        (6, Field::Number),
        (7, Field::Bytes),
        (8, Field::Number),
    ],
};

impl Measured for super::messages::DeviceAttributes {
    const TABLE: &'static Table = &DEVICE_ATTRIBUTES;
}

static CREATE_SESSION_REQUEST: Table = Table {
    bytes: size_of::<super::messages::CreateSessionRequest>(),
    fields: &[
        (1, Field::Message(<thalweg_graphdef::messages::GraphDef as Measured>::TABLE)),
        (2, Field::Message(&CONFIG_PROTO)),
        (3, Field::Bytes),
    ],
};

impl Measured for super::messages::CreateSessionRequest {
    const TABLE: &'static Table = &CREATE_SESSION_REQUEST;
}

static CREATE_SESSION_RESPONSE: Table = Table {
    bytes: size_of::<super::messages::CreateSessionResponse>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
    ],
};

impl Measured for super::messages::CreateSessionResponse {
    const TABLE: &'static Table = &CREATE_SESSION_RESPONSE;
}

static EXTEND_SESSION_REQUEST: Table = Table {
    bytes: size_of::<super::messages::ExtendSessionRequest>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Message(<thalweg_graphdef::messages::GraphDef as Measured>::TABLE)),
        (3, Field::Number),
    ],
};

impl Measured for super::messages::ExtendSessionRequest {
    const TABLE: &'static Table = &EXTEND_SESSION_REQUEST;
}

static EXTEND_SESSION_RESPONSE: Table = Table {
    bytes: size_of::<super::messages::ExtendSessionResponse>(),
    fields: &[
        (4, Field::Number),
    ],
};

impl Measured for super::messages::ExtendSessionResponse {
    const TABLE: &'static Table = &EXTEND_SESSION_RESPONSE;
}

static RUN_STEP_REQUEST: Table = Table {
    bytes: size_of::<super::messages::RunStepRequest>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Messages(&NAMED_TENSOR_PROTO)),
        (3, Field::BytesList),
        (4, Field::BytesList),
        (5, Field::Message(&RUN_OPTIONS)),
        (6, Field::Bytes),
        (7, Field::Number),
        (8, Field::Number),
    ],
};

impl Measured for super::messages::RunStepRequest {
    const TABLE: &'static Table = &RUN_STEP_REQUEST;
}

static RUN_STEP_RESPONSE: Table = Table {
    bytes: size_of::<super::messages::RunStepResponse>(),
    fields: &[
        (1, Field::Messages(&NAMED_TENSOR_PROTO)),
        (2, Field::Message(<thalweg_graphdef::messages::RunMetadata as Measured>::TABLE)),
        (3, Field::Number),
        (4, Field::Bytes),
    ],
};

impl Measured for super::messages::RunStepResponse {
    const TABLE: &'static Table = &RUN_STEP_RESPONSE;
}

static PARTIAL_RUN_SETUP_REQUEST: Table = Table {
    bytes: size_of::<super::messages::PartialRunSetupRequest>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::BytesList),
        (3, Field::BytesList),
        (4, Field::BytesList),
        (5, Field::Number),
    ],
};

impl Measured for super::messages::PartialRunSetupRequest {
    const TABLE: &'static Table = &PARTIAL_RUN_SETUP_REQUEST;
}

static PARTIAL_RUN_SETUP_RESPONSE: Table = Table {
    bytes: size_of::<super::messages::PartialRunSetupResponse>(),
    fields: &[
        (1, Field::Bytes),
    ],
};

impl Measured for super::messages::PartialRunSetupResponse {
    const TABLE: &'static Table = &PARTIAL_RUN_SETUP_RESPONSE;
}

static CLOSE_SESSION_REQUEST: Table = Table {
    bytes: size_of::<super::messages::CloseSessionRequest>(),
    fields: &[
        (1, Field::Bytes),
    ],
};

impl Measured for super::messages::CloseSessionRequest {
    const TABLE: &'static Table = &CLOSE_SESSION_REQUEST;
}

static CLOSE_SESSION_RESPONSE: Table = Table {
    bytes: size_of::<super::messages::CloseSessionResponse>(),
    fields: &[
    ],
};

impl Measured for super::messages::CloseSessionResponse {
    const TABLE: &'static Table = &CLOSE_SESSION_RESPONSE;
}

static RESET_REQUEST: Table = Table {
    bytes: size_of::<super::messages::ResetRequest>(),
    fields: &[
        (1, Field::BytesList),
        (2, Field::BytesList),
    ],
};

impl Measured for super::messages::ResetRequest {
    const TABLE: &'static Table = &RESET_REQUEST;
}

static RESET_RESPONSE: Table = Table {
    bytes: size_of::<super::messages::ResetResponse>(),
    fields: &[
    ],
};

impl Measured for super::messages::ResetResponse {
    const TABLE: &'static Table = &RESET_RESPONSE;
}

static LIST_DEVICES_REQUEST: Table = Table {
    bytes: size_of::<super::messages::ListDevicesRequest>(),
    fields: &[
        (1, Field::Bytes),
    ],
};

impl Measured for super::messages::ListDevicesRequest {
    const TABLE: &'static Table = &LIST_DEVICES_REQUEST;
}

static LIST_DEVICES_RESPONSE: Table = Table {
    bytes: size_of::<super::messages::ListDevicesResponse>(),
    fields: &[
        (1, Field::Messages(&DEVICE_ATTRIBUTES)),
        (2, Field::Messages(&DEVICE_ATTRIBUTES)),
    ],
};

impl Measured for super::messages::ListDevicesResponse {
    const TABLE: &'static Table = &LIST_DEVICES_RESPONSE;
}

static MAKE_CALLABLE_REQUEST: Table = Table {
    bytes: size_of::<super::messages::MakeCallableRequest>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Message(&CALLABLE_OPTIONS)),
        (3, Field::Number),
    ],
};

impl Measured for super::messages::MakeCallableRequest {
    const TABLE: &'static Table = &MAKE_CALLABLE_REQUEST;
}

static MAKE_CALLABLE_RESPONSE: Table = Table {
    bytes: size_of::<super::messages::MakeCallableResponse>(),
    fields: &[
        (1, Field::Number),
    ],
};

impl Measured for super::messages::MakeCallableResponse {
    const TABLE: &'static Table = &MAKE_CALLABLE_RESPONSE;
}

static RUN_CALLABLE_REQUEST: Table = Table {
    bytes: size_of::<super::messages::RunCallableRequest>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
        (3, Field::Messages(<thalweg_graphdef::messages::TensorProto as Measured>::TABLE)),
        (4, Field::Number),
    ],
};

impl Measured for super::messages::RunCallableRequest {
    const TABLE: &'static Table = &RUN_CALLABLE_REQUEST;
}

static RUN_CALLABLE_RESPONSE: Table = Table {
    bytes: size_of::<super::messages::RunCallableResponse>(),
    fields: &[
        (1, Field::Messages(<thalweg_graphdef::messages::TensorProto as Measured>::TABLE)),
        (2, Field::Message(<thalweg_graphdef::messages::RunMetadata as Measured>::TABLE)),
    ],
};

impl Measured for super::messages::RunCallableResponse {
    const TABLE: &'static Table = &RUN_CALLABLE_RESPONSE;
}

static RELEASE_CALLABLE_REQUEST: Table = Table {
    bytes: size_of::<super::messages::ReleaseCallableRequest>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
    ],
};

impl Measured for super::messages::ReleaseCallableRequest {
    const TABLE: &'static Table = &RELEASE_CALLABLE_REQUEST;
}

static RELEASE_CALLABLE_RESPONSE: Table = Table {
    bytes: size_of::<super::messages::ReleaseCallableResponse>(),
    fields: &[
    ],
};

impl Measured for super::messages::ReleaseCallableResponse {
    const TABLE: &'static Table = &RELEASE_CALLABLE_RESPONSE;
}
