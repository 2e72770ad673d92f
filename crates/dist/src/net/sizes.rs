// Made from the .proto files by tests/messages.rs.
use thalweg_graphdef::sizes::{Field, Measured, Packed, Table};

static HEADER: Table = Table {
    bytes: size_of::<crate::net::messages::Header>(),
    fields: &[
        (1, Field::Message(&OPEN)),
        (2, Field::Message(&OPENED)),
        (3, Field::Message(&REGISTER)),
        (4, Field::Message(&REGISTERED)),
        (5, Field::Message(&RUN)),
        (6, Field::Message(&RECEIVE)),
        (7, Field::Message(&VALUE)),
        (8, Field::Message(&END)),
        (9, Field::Message(&CLEAR)),
        (10, Field::Message(&FINISH)),
        (11, Field::Message(&FORGET)),
        (12, Field::Message(&COLOCATE)),
        (13, Field::Message(&COLOCATION)),
        (14, Field::Message(&TRACED)),
        (20, Field::Message(&TURN)),
        (21, Field::Message(&TURN_GIVEN)),
    ],
};

impl Measured for crate::net::messages::Header {
    const TABLE: &'static Table = &HEADER;
}

static OPEN: Table = Table {
    bytes: size_of::<crate::net::messages::Open>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
        (3, Field::Bytes),
        (4, Field::Number),
        (5, Field::Number),
        (6, Field::Message(&VERSION)),
        (7, Field::Message(&PROCESS)),
        (8, Field::Messages(&PROCESS)),
    ],
};

impl Measured for crate::net::messages::Open {
    const TABLE: &'static Table = &OPEN;
}

static VERSION: Table = Table {
    bytes: size_of::<crate::net::messages::Version>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Bytes),
    ],
};

impl Measured for crate::net::messages::Version {
    const TABLE: &'static Table = &VERSION;
}

static PROCESS: Table = Table {
    bytes: size_of::<crate::net::messages::Process>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
        (3, Field::Number),
        (4, Field::Number),
    ],
};

impl Measured for crate::net::messages::Process {
    const TABLE: &'static Table = &PROCESS;
}

static OPENED: Table = Table {
    bytes: size_of::<crate::net::messages::Opened>(),
    fields: &[
        (1, Field::BytesList),
        (2, Field::Number),
        (3, Field::Messages(&TASK)),
        (4, Field::Bytes),
        (5, Field::Number),
        (6, Field::Message(&VERSION)),
        (7, Field::Number),
        (8, Field::Messages(&PROCESS)),
    ],
};

impl Measured for crate::net::messages::Opened {
    const TABLE: &'static Table = &OPENED;
}

static TASK: Table = Table {
    bytes: size_of::<crate::net::messages::Task>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
        (3, Field::Bytes),
        (4, Field::Number),
    ],
};

impl Measured for crate::net::messages::Task {
    const TABLE: &'static Table = &TASK;
}

static REGISTER: Table = Table {
    bytes: size_of::<crate::net::messages::Register>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Message(&PART)),
        (3, Field::Number),
    ],
};

impl Measured for crate::net::messages::Register {
    const TABLE: &'static Table = &REGISTER;
}

static REGISTERED: Table = Table {
    bytes: size_of::<crate::net::messages::Registered>(),
    fields: &[
        (1, Field::Number),
    ],
};

impl Measured for crate::net::messages::Registered {
    const TABLE: &'static Table = &REGISTERED;
}

static FORGET: Table = Table {
    bytes: size_of::<crate::net::messages::Forget>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
        (3, Field::Number),
    ],
};

impl Measured for crate::net::messages::Forget {
    const TABLE: &'static Table = &FORGET;
}

static PART: Table = Table {
    bytes: size_of::<crate::net::messages::Part>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Messages(&TASK)),
        (3, Field::BytesList),
        (4, Field::Messages(&NODE)),
        (5, Field::Message(<thalweg_graphdef::messages::FunctionDefLibrary as Measured>::TABLE)),
        (6, Field::Numbers(4, Packed::Varint)),
        (7, Field::Messages(&OUTPUT)),
        (8, Field::Messages(&CHANNEL)),
        (9, Field::Number),
    ],
};

impl Measured for crate::net::messages::Part {
    const TABLE: &'static Table = &PART;
}

static OUTPUT: Table = Table {
    bytes: size_of::<crate::net::messages::Output>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Number),
    ],
};

impl Measured for crate::net::messages::Output {
    const TABLE: &'static Table = &OUTPUT;
}

static CHANNEL: Table = Table {
    bytes: size_of::<crate::net::messages::Channel>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Number),
        (3, Field::Number),
    ],
};

impl Measured for crate::net::messages::Channel {
    const TABLE: &'static Table = &CHANNEL;
}

static NODE: Table = Table {
    bytes: size_of::<crate::net::messages::Node>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Bytes),
        (3, Field::Messages(&OUTPUT)),
        (4, Field::Numbers(4, Packed::Varint)),
        (5, Field::Map(&Table { bytes: size_of::<String>() + size_of::<thalweg_graphdef::messages::AttrValue>(), fields: &[(1, Field::Bytes), (2, Field::Message(<thalweg_graphdef::messages::AttrValue as Measured>::TABLE))] })),
        (6, Field::Number),
        (7, Field::Messages(&FACT)),
        (8, Field::Number),
        (9, Field::Bytes),
        (10, Field::Message(&REGION)),
    ],
};

impl Measured for crate::net::messages::Node {
    const TABLE: &'static Table = &NODE;
}

static REGION: Table = Table {
    bytes: size_of::<crate::net::messages::Region>(),
    fields: &[
        (1, Field::Messages(&NODE)),
        (2, Field::Messages(&OUTPUT)),
    ],
};

impl Measured for crate::net::messages::Region {
    const TABLE: &'static Table = &REGION;
}

static FACT: Table = Table {
    bytes: size_of::<crate::net::messages::Fact>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Message(<thalweg_graphdef::messages::TensorShapeProto as Measured>::TABLE)),
    ],
};

impl Measured for crate::net::messages::Fact {
    const TABLE: &'static Table = &FACT;
}

static RUN: Table = Table {
    bytes: size_of::<crate::net::messages::Run>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
        (3, Field::Number),
        (4, Field::Number),
        (5, Field::Number),
        (6, Field::Number),
        (7, Field::Number),
        (20, Field::Message(&ONCE)),
    ],
};

impl Measured for crate::net::messages::Run {
    const TABLE: &'static Table = &RUN;
}

static ONCE: Table = Table {
    bytes: size_of::<crate::net::messages::Once>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
    ],
};

impl Measured for crate::net::messages::Once {
    const TABLE: &'static Table = &ONCE;
}

static TRACED: Table = Table {
    bytes: size_of::<crate::net::messages::Traced>(),
    fields: &[
        (1, Field::Messages(&EVENT)),
        (2, Field::Number),
        (3, Field::Number),
    ],
};

impl Measured for crate::net::messages::Traced {
    const TABLE: &'static Table = &TRACED;
}

static EVENT_CHANNEL: Table = Table {
    bytes: size_of::<crate::net::messages::event::Channel>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Number),
    ],
};

impl Measured for crate::net::messages::event::Channel {
    const TABLE: &'static Table = &EVENT_CHANNEL;
}

static EVENT: Table = Table {
    bytes: size_of::<crate::net::messages::Event>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Bytes),
        (3, Field::Bytes),
        (4, Field::Number),
        (5, Field::Number),
        (6, Field::Number),
        (7, Field::Number),
        (8, Field::Message(&EVENT_CHANNEL)),
    ],
};

impl Measured for crate::net::messages::Event {
    const TABLE: &'static Table = &EVENT;
}

static RECEIVE: Table = Table {
    bytes: size_of::<crate::net::messages::Receive>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
        (3, Field::Number),
        (4, Field::Number),
    ],
};

impl Measured for crate::net::messages::Receive {
    const TABLE: &'static Table = &RECEIVE;
}

static VALUE: Table = Table {
    bytes: size_of::<crate::net::messages::Value>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Number),
        (3, Field::Numbers(8, Packed::Varint)),
        (4, Field::Number),
        (5, Field::Message(&LOAN)),
    ],
};

impl Measured for crate::net::messages::Value {
    const TABLE: &'static Table = &VALUE;
}

static LOAN: Table = Table {
    bytes: size_of::<crate::net::messages::Loan>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Number),
    ],
};

impl Measured for crate::net::messages::Loan {
    const TABLE: &'static Table = &LOAN;
}

static COLOCATE: Table = Table {
    bytes: size_of::<crate::net::messages::Colocate>(),
    fields: &[
    ],
};

impl Measured for crate::net::messages::Colocate {
    const TABLE: &'static Table = &COLOCATE;
}

static COLOCATION: Table = Table {
    bytes: size_of::<crate::net::messages::Colocation>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Bytes),
        (3, Field::Bytes),
    ],
};

impl Measured for crate::net::messages::Colocation {
    const TABLE: &'static Table = &COLOCATION;
}

static END: Table = Table {
    bytes: size_of::<crate::net::messages::End>(),
    fields: &[
        (1, Field::Message(&ERROR)),
    ],
};

impl Measured for crate::net::messages::End {
    const TABLE: &'static Table = &END;
}

static ERROR: Table = Table {
    bytes: size_of::<crate::net::messages::Error>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Bytes),
        (3, Field::Number),
        (4, Field::Message(&TASK)),
        (5, Field::Bytes),
        (6, Field::Bytes),
        (7, Field::Bytes),
    ],
};

impl Measured for crate::net::messages::Error {
    const TABLE: &'static Table = &ERROR;
}

static CLEAR: Table = Table {
    bytes: size_of::<crate::net::messages::Clear>(),
    fields: &[
        (1, Field::BytesList),
    ],
};

impl Measured for crate::net::messages::Clear {
    const TABLE: &'static Table = &CLEAR;
}

static FINISH: Table = Table {
    bytes: size_of::<crate::net::messages::Finish>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
    ],
};

impl Measured for crate::net::messages::Finish {
    const TABLE: &'static Table = &FINISH;
}

static TURN: Table = Table {
    bytes: size_of::<crate::net::messages::Turn>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
        (3, Field::Number),
        (4, Field::Number),
        (5, Field::Number),
    ],
};

impl Measured for crate::net::messages::Turn {
    const TABLE: &'static Table = &TURN;
}

static TURN_GIVEN: Table = Table {
    bytes: size_of::<crate::net::messages::TurnGiven>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Number),
        (3, Field::Number),
        (4, Field::Bytes),
    ],
};

impl Measured for crate::net::messages::TurnGiven {
    const TABLE: &'static Table = &TURN_GIVEN;
}
