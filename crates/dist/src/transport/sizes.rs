// Made from the .proto files by tests/messages.rs.
use thalweg_graphdef::sizes::{Field, Measured, Packed, Table};

static HEADER: Table = Table {
    bytes: size_of::<super::messages::Header>(),
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

impl Measured for super::messages::Header {
    const TABLE: &'static Table = &HEADER;
}

static OPEN: Table = Table {
    bytes: size_of::<super::messages::Open>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
        (3, Field::Bytes),
        (4, Field::Number),
        (5, Field::Number),
        (6, Field::Message(&VERSION)),
        (7, Field::Message(&PROCESS)),
        (8, Field::Messages(&PROCESS)),
        (9, Field::Messages(&TASK)),
    ],
};

impl Measured for super::messages::Open {
    const TABLE: &'static Table = &OPEN;
}

static VERSION: Table = Table {
    bytes: size_of::<super::messages::Version>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Bytes),
    ],
};

impl Measured for super::messages::Version {
    const TABLE: &'static Table = &VERSION;
}

static PROCESS: Table = Table {
    bytes: size_of::<super::messages::Process>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
        (3, Field::Number),
        (4, Field::Number),
    ],
};

impl Measured for super::messages::Process {
    const TABLE: &'static Table = &PROCESS;
}

static OPENED: Table = Table {
    bytes: size_of::<super::messages::Opened>(),
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

impl Measured for super::messages::Opened {
    const TABLE: &'static Table = &OPENED;
}

static TASK: Table = Table {
    bytes: size_of::<super::messages::Task>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
        (3, Field::Bytes),
        (4, Field::Number),
    ],
};

impl Measured for super::messages::Task {
    const TABLE: &'static Table = &TASK;
}

static REGISTER: Table = Table {
    bytes: size_of::<super::messages::Register>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Message(&PART)),
        (3, Field::Number),
    ],
};

impl Measured for super::messages::Register {
    const TABLE: &'static Table = &REGISTER;
}

static REGISTERED: Table = Table {
    bytes: size_of::<super::messages::Registered>(),
    fields: &[
        (1, Field::Number),
    ],
};

impl Measured for super::messages::Registered {
    const TABLE: &'static Table = &REGISTERED;
}

static FORGET: Table = Table {
    bytes: size_of::<super::messages::Forget>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
        (3, Field::Number),
    ],
};

impl Measured for super::messages::Forget {
    const TABLE: &'static Table = &FORGET;
}

static PART: Table = Table {
    bytes: size_of::<super::messages::Part>(),
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

impl Measured for super::messages::Part {
    const TABLE: &'static Table = &PART;
}

static OUTPUT: Table = Table {
    bytes: size_of::<super::messages::Output>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Number),
    ],
};

impl Measured for super::messages::Output {
    const TABLE: &'static Table = &OUTPUT;
}

static CHANNEL: Table = Table {
    bytes: size_of::<super::messages::Channel>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Number),
        (3, Field::Number),
    ],
};

impl Measured for super::messages::Channel {
    const TABLE: &'static Table = &CHANNEL;
}

static NODE: Table = Table {
    bytes: size_of::<super::messages::Node>(),
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

impl Measured for super::messages::Node {
    const TABLE: &'static Table = &NODE;
}

static REGION: Table = Table {
    bytes: size_of::<super::messages::Region>(),
    fields: &[
        (1, Field::Messages(&NODE)),
        (2, Field::Messages(&OUTPUT)),
    ],
};

impl Measured for super::messages::Region {
    const TABLE: &'static Table = &REGION;
}

static FACT: Table = Table {
    bytes: size_of::<super::messages::Fact>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Message(<thalweg_graphdef::messages::TensorShapeProto as Measured>::TABLE)),
    ],
};

impl Measured for super::messages::Fact {
    const TABLE: &'static Table = &FACT;
}

static RUN: Table = Table {
    bytes: size_of::<super::messages::Run>(),
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

impl Measured for super::messages::Run {
    const TABLE: &'static Table = &RUN;
}

static ONCE: Table = Table {
    bytes: size_of::<super::messages::Once>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
    ],
};

impl Measured for super::messages::Once {
    const TABLE: &'static Table = &ONCE;
}

static TRACED: Table = Table {
    bytes: size_of::<super::messages::Traced>(),
    fields: &[
        (1, Field::Messages(&EVENT)),
        (2, Field::Number),
        (3, Field::Number),
    ],
};

impl Measured for super::messages::Traced {
    const TABLE: &'static Table = &TRACED;
}

static EVENT_CHANNEL: Table = Table {
    bytes: size_of::<super::messages::event::Channel>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Number),
    ],
};

impl Measured for super::messages::event::Channel {
    const TABLE: &'static Table = &EVENT_CHANNEL;
}

static EVENT: Table = Table {
    bytes: size_of::<super::messages::Event>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Bytes),
        (3, Field::Bytes),
        (4, Field::Number),
        (5, Field::Number),
        (6, Field::Number),
        (7, Field::Number),
        (8, Field::Message(&EVENT_CHANNEL)),
        (9, Field::BytesList),
    ],
};

impl Measured for super::messages::Event {
    const TABLE: &'static Table = &EVENT;
}

static RECEIVE: Table = Table {
    bytes: size_of::<super::messages::Receive>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
        (3, Field::Number),
        (4, Field::Number),
    ],
};

impl Measured for super::messages::Receive {
    const TABLE: &'static Table = &RECEIVE;
}

static VALUE: Table = Table {
    bytes: size_of::<super::messages::Value>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Number),
        (3, Field::Numbers(8, Packed::Varint)),
        (4, Field::Number),
        (5, Field::Message(&LOAN)),
    ],
};

impl Measured for super::messages::Value {
    const TABLE: &'static Table = &VALUE;
}

static LOAN: Table = Table {
    bytes: size_of::<super::messages::Loan>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Number),
    ],
};

impl Measured for super::messages::Loan {
    const TABLE: &'static Table = &LOAN;
}

static COLOCATE: Table = Table {
    bytes: size_of::<super::messages::Colocate>(),
    fields: &[
    ],
};

impl Measured for super::messages::Colocate {
    const TABLE: &'static Table = &COLOCATE;
}

static COLOCATION: Table = Table {
    bytes: size_of::<super::messages::Colocation>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Bytes),
        (3, Field::Bytes),
    ],
};

impl Measured for super::messages::Colocation {
    const TABLE: &'static Table = &COLOCATION;
}

static END: Table = Table {
    bytes: size_of::<super::messages::End>(),
    fields: &[
        (1, Field::Message(&ERROR)),
    ],
};

impl Measured for super::messages::End {
    const TABLE: &'static Table = &END;
}

static ERROR: Table = Table {
    bytes: size_of::<super::messages::Error>(),
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

impl Measured for super::messages::Error {
    const TABLE: &'static Table = &ERROR;
}

static CLEAR: Table = Table {
    bytes: size_of::<super::messages::Clear>(),
    fields: &[
        (1, Field::BytesList),
    ],
};

impl Measured for super::messages::Clear {
    const TABLE: &'static Table = &CLEAR;
}

static FINISH: Table = Table {
    bytes: size_of::<super::messages::Finish>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
    ],
};

impl Measured for super::messages::Finish {
    const TABLE: &'static Table = &FINISH;
}

static TURN: Table = Table {
    bytes: size_of::<super::messages::Turn>(),
    fields: &[
        (1, Field::Bytes),
        (2, Field::Number),
        (3, Field::Number),
        (4, Field::Number),
        (5, Field::Number),
    ],
};

impl Measured for super::messages::Turn {
    const TABLE: &'static Table = &TURN;
}

static TURN_GIVEN: Table = Table {
    bytes: size_of::<super::messages::TurnGiven>(),
    fields: &[
        (1, Field::Number),
        (2, Field::Number),
        (3, Field::Number),
        (4, Field::Bytes),
    ],
};

impl Measured for super::messages::TurnGiven {
    const TABLE: &'static Table = &TURN_GIVEN;
}
