//! State, beside variables, that outlives a step and may block: queues, accumulators of gradients, staging areas,
//! turns of synchronous training; and optionals.

mod accumulator;
mod accumulator_ops;
mod element;
mod ops;
mod optional;
mod queues;
mod reference;
mod stage;
mod stage_ops;
mod state;
mod turns;

use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &queues::FIFO,
    &queues::PADDING_FIFO,
    &queues::RANDOM_SHUFFLE,
    &ops::ENQUEUE,
    &ops::ENQUEUE_MANY,
    &ops::DEQUEUE,
    &ops::DEQUEUE_MANY,
    &ops::DEQUEUE_UP_TO,
    &ops::SIZE,
    &ops::CLOSE,
    &ops::IS_CLOSED,
    &reference::FIFO,
    &reference::PADDING_FIFO,
    &reference::RANDOM_SHUFFLE,
    &reference::ENQUEUE,
    &reference::ENQUEUE_MANY,
    &reference::DEQUEUE,
    &reference::DEQUEUE_MANY,
    &reference::DEQUEUE_UP_TO,
    &reference::SIZE,
    &reference::CLOSE,
    &reference::IS_CLOSED,
    &reference::ACCUMULATOR,
    &reference::APPLY_GRADIENT,
    &reference::TAKE_GRADIENT,
    &reference::NUM_ACCUMULATED,
    &reference::SET_GLOBAL_STEP,
    &accumulator_ops::ACCUMULATOR,
    &accumulator_ops::APPLY_GRADIENT,
    &accumulator_ops::TAKE_GRADIENT,
    &accumulator_ops::NUM_ACCUMULATED,
    &accumulator_ops::SET_GLOBAL_STEP,
    &stage_ops::STAGE,
    &stage_ops::UNSTAGE,
    &stage_ops::PEEK,
    &stage_ops::SIZE,
    &stage_ops::CLEAR,
    &optional::FROM_VALUE,
    &optional::GET_VALUE,
    &optional::HAS_VALUE,
    &optional::NONE,
    &turns::SUM,
    &turns::BEGIN,
    &turns::GIVE,
    &turns::MEAN,
    &turns::KEEP,
    &turns::KEPT,
];
