//! Tests of the failures that parts of a step send each other.

use prost::Message;

use super::*;
use crate::fuzzing::tasks::bytes_of;
use crate::transport::error_codec::decoded;
use crate::transport::messages::Header;
use crate::transport::messages::header::Kind;

/// Returns the response to a task that asks for values of this step.
fn told(step: &Arc<WorkerStep>, to: u32) -> Option<ClusterError> {
    let mut outgoing = step.outgoing(to).unwrap();
    let mut frames = Frames::default();
    let mut cx = Context::from_waker(Waker::noop());
    assert_eq!(outgoing.poll(&mut frames, &mut cx), Poll::Ready(false));
    let bytes = bytes_of(&mut frames);
    match Header::decode(&bytes[4..]).unwrap().kind.unwrap() {
        Kind::End(end) => end.error.map(decoded),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_derived_failure_carries_the_error_of_the_first() {
    let first = ClusterError::new(Cause::Kernel, "division by zero").in_node("n", "FloorDiv");
    let first = first.at(&("ps".to_owned(), 1));
    let mut step = Arc::new(WorkerStep::default());
    step.fail(first.clone());
    // From one task to the next, however many are between.
    for _ in 0..3 {
        let error = told(&step, 1).unwrap();
        assert_eq!(error, first.clone().derived());
        step = Arc::new(WorkerStep::default());
        step.fail(error);
        // What is only noticed later changes nothing.
        step.fail(ClusterError::new(Cause::SessionLost, "it has gone").derived());
    }
}
