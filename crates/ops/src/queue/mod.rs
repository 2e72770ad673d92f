//! State, beside variables, that outlives a step and may block: queues, barriers, accumulators of gradients, staging
//! areas and maps, mutexes, turns of synchronous training.

mod accumulator;
mod accumulator_ops;
mod barrier;
mod barrier_ops;
mod blocking_queue;
mod elements;
mod map_stage_ops;
mod mutex_ops;
mod partial_elements;
mod queue_ops;
mod queue_references;
mod queues;
mod requests;
mod sparse_sum;
mod stage_ops;
mod staging_area;
mod staging_map;
mod turns;

pub(crate) use blocking_queue::BlockingQueue;
pub(crate) use queues::{resource_handle, shared_name};
use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &queues::FIFO,
    &queues::PADDING_FIFO,
    &queues::PRIORITY,
    &queues::RANDOM_SHUFFLE,
    &queue_ops::ENQUEUE,
    &queue_ops::ENQUEUE_MANY,
    &queue_ops::DEQUEUE,
    &queue_ops::DEQUEUE_MANY,
    &queue_ops::DEQUEUE_UP_TO,
    &queue_ops::SIZE,
    &queue_ops::CLOSE,
    &queue_ops::IS_CLOSED,
    &queue_references::HANDLE_NAME,
    &queue_references::FIFO,
    &queue_references::PADDING_FIFO,
    &queue_references::PRIORITY,
    &queue_references::RANDOM_SHUFFLE,
    &queue_references::ENQUEUE,
    &queue_references::ENQUEUE_MANY,
    &queue_references::DEQUEUE,
    &queue_references::DEQUEUE_MANY,
    &queue_references::DEQUEUE_UP_TO,
    &queue_references::SIZE,
    &queue_references::CLOSE,
    &queue_references::IS_CLOSED,
    &queue_references::ACCUMULATOR,
    &queue_references::APPLY_GRADIENT,
    &queue_references::TAKE_GRADIENT,
    &queue_references::NUM_ACCUMULATED,
    &queue_references::SET_GLOBAL_STEP,
    &queue_references::SPARSE_ACCUMULATOR,
    &queue_references::APPLY_SPARSE_GRADIENT,
    &queue_references::TAKE_SPARSE_GRADIENT,
    &accumulator_ops::ACCUMULATOR,
    &accumulator_ops::APPLY_GRADIENT,
    &accumulator_ops::TAKE_GRADIENT,
    &accumulator_ops::NUM_ACCUMULATED,
    &accumulator_ops::SET_GLOBAL_STEP,
    &accumulator_ops::SPARSE_ACCUMULATOR,
    &accumulator_ops::APPLY_SPARSE_GRADIENT,
    &accumulator_ops::TAKE_SPARSE_GRADIENT,
    &mutex_ops::MUTEX,
    &mutex_ops::LOCK,
    &mutex_ops::CONSUME,
    &stage_ops::STAGE,
    &stage_ops::UNSTAGE,
    &stage_ops::PEEK,
    &stage_ops::SIZE,
    &stage_ops::CLEAR,
    &map_stage_ops::STAGE,
    &map_stage_ops::PEEK,
    &map_stage_ops::UNSTAGE,
    &map_stage_ops::UNSTAGE_NO_KEY,
    &map_stage_ops::SIZE,
    &map_stage_ops::INCOMPLETE_SIZE,
    &map_stage_ops::CLEAR,
    &map_stage_ops::ORDERED_STAGE,
    &map_stage_ops::ORDERED_PEEK,
    &map_stage_ops::ORDERED_UNSTAGE,
    &map_stage_ops::ORDERED_UNSTAGE_NO_KEY,
    &map_stage_ops::ORDERED_SIZE,
    &map_stage_ops::ORDERED_INCOMPLETE_SIZE,
    &map_stage_ops::ORDERED_CLEAR,
    &barrier_ops::MAKE,
    &barrier_ops::INSERT,
    &barrier_ops::TAKE,
    &barrier_ops::CLOSE,
    &barrier_ops::READY_SIZE,
    &barrier_ops::INCOMPLETE_SIZE,
    &barrier_ops::REF_MAKE,
    &barrier_ops::REF_INSERT,
    &barrier_ops::REF_TAKE,
    &barrier_ops::REF_CLOSE,
    &barrier_ops::REF_READY_SIZE,
    &barrier_ops::REF_INCOMPLETE_SIZE,
    &turns::SUM,
    &turns::BEGIN,
    &turns::GIVE,
    &turns::MEAN,
    &turns::KEEP,
    &turns::KEPT,
];
