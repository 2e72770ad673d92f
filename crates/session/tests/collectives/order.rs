//! The order of collectives, and their errors.

use std::time::Duration;

use thalweg_device::KernelError;
use thalweg_graph::{Graph, Output};
use thalweg_ops::{
    ALL_RANKS, ArrayOps, CollectiveOps, FlowOps, MathOps, NewGraph, RankOps, ReduceOp, ReduceOps,
    SourceOps,
};
use thalweg_session::{Cancel, Feeding, RunOptions, Session, SessionError, SessionOptions};
use thalweg_tensor::DType;

use crate::modes;
use crate::world::World;

/// Many collectives that need nothing of each other.
fn independent<'g>(x: Output<'g>, count: usize) -> Vec<Output<'g>> {
    let of = |i: usize| {
        let long = (0..i % 5).fold(x, |y, _| y.tanh());
        long.all_reduce(ReduceOp::Sum).named(&format!("sum{i}"))
    };
    (0..count).map(of).collect()
}

#[test]
fn all_ranks_run_all_collectives_in_one_order_one_after_the_other() {
    for options in modes() {
        let world = World::new(3);
        world.run(&options, |_, options| {
            let g = Graph::new();
            let x = g.placeholder("x", DType::F32, [300, 100]);
            let all = independent(x, 20);
            let session = Session::with_options(&g, options).unwrap();
            let fed = thalweg_tensor::Tensor::zeros(DType::F32, &[300, 100]).unwrap();
            for _ in 0..10 {
                session.step(&all[..], [x.feed(fed.clone())]).unwrap();
            }
        });
        assert_eq!(world.overlapping(), 0);
        assert_eq!(world.log(0).len(), 200);
        assert_eq!(world.log(0), world.log(1));
        assert_eq!(world.log(0), world.log(2));
    }
}

/// Whichever could run first, on ranks whose feeds have other shapes.
#[test]
fn collectives_run_in_the_order_in_which_they_were_built() {
    let world = World::new(2);
    world.run(&modes()[1], |rank, options| {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [-1]);
        // A slice that takes all is left out.
        let first = x.tanh().slice([0], [1]).all_reduce(ReduceOp::Sum);
        let all = [
            first.named("first"),
            x.all_gather(ALL_RANKS).named("second"),
        ];
        let session = Session::with_options(&g, options).unwrap();
        let feed = [x.feed(vec![1.0f32; rank + 1])];
        session.step(&all[..], feed).unwrap();
    });
    assert_eq!(world.log(0), ["first", "second"]);
    assert_eq!(world.log(1), ["first", "second"]);
}

#[test]
fn two_equal_nodes_are_two_collectives() {
    let world = World::new(2);
    world.run(&modes()[0], |_, options| {
        let g = Graph::new();
        let x = g.constant([1.0f32]);
        let (a, b) = (x.all_reduce(ReduceOp::Sum), x.all_reduce(ReduceOp::Sum));
        let session = Session::with_options(&g, options).unwrap();
        assert_eq!(session.run::<Vec<f32>>(a + b, []).unwrap(), [4.0]);
        // One whose value is not used runs where it is waited for.
        let awaited = g.control_dependencies([a], || g.constant(1.0f32) * 2.0);
        let session_of_both = session.run::<f32>(awaited, []);
        assert_eq!(session_of_both.unwrap(), 2.0);
    });
    assert_eq!(world.log(0).len(), 3);
}

#[test]
fn ranks_with_different_graphs_fail_before_the_first_collective() {
    let world = World::new(2);
    let found = world.run(&modes()[0], |rank, options| {
        let g = Graph::new();
        let x = g.constant([1.0f32]);
        let op = [ReduceOp::Sum, ReduceOp::Max][rank];
        let y = x.all_reduce(op).named("y");
        let session = Session::with_options(&g, options).unwrap();
        session.run::<Vec<f32>>(y, [])
    });
    for result in found {
        let error = result.unwrap_err();
        assert!(matches!(&error, SessionError::Collectives { first, .. } if first == "y"));
        let text = error.to_string();
        assert!(text.contains("y = HorovodAllreduce(sum) f32[1]"), "{text}");
        assert!(text.contains("y = HorovodAllreduce(max) f32[1]"), "{text}");
    }
    assert!(world.log(0).is_empty());
}

#[test]
fn a_step_that_ends_while_it_waits_abandons_its_collective() {
    for options in modes() {
        let world = World::new(2);
        let found = world.run(&options, |rank, options| {
            let g = Graph::new();
            let y = g.constant([1.0f32]).all_reduce(ReduceOp::Sum).named("y");
            let session = Session::with_options(&g, options).unwrap();
            session.step(y, []).unwrap();
            if rank == 1 {
                return None;
            }
            let limited = RunOptions::new().timeout(Duration::from_millis(50));
            let late = session.step_with(y, [], &limited).unwrap_err();
            let cancel = Cancel::new();
            let cancelled = std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(50));
                    cancel.cancel();
                });
                let options = RunOptions::new().cancelled_by(&cancel);
                session.step_with(y, [], &options).unwrap_err()
            });
            Some((late, cancelled))
        });
        let (late, cancelled) = found[0].as_ref().unwrap();
        assert!(
            matches!(late, SessionError::Timeout { next, .. } if next == "y"),
            "{late}"
        );
        assert!(
            matches!(cancelled, SessionError::Cancelled { next } if next == "y"),
            "{cancelled}"
        );
        assert_eq!(world.abandoned(), 2);
    }
}

#[test]
fn a_step_times_out_while_other_ranks_have_not_agreed() {
    let world = World::new(2);
    world.run(&modes()[0], |rank, options| {
        let g = Graph::new();
        let y = g.constant([1.0f32]).all_reduce(ReduceOp::Sum).named("y");
        let session = Session::with_options(&g, options).unwrap();
        if rank == 0 {
            let limited = RunOptions::new().timeout(Duration::from_millis(50));
            let late = session.step_with(y, [], &limited).unwrap_err();
            assert!(matches!(late, SessionError::Timeout { next, .. } if next == "y"));
        }
    });
    assert!(world.log(0).is_empty());
}

#[test]
fn a_collective_without_ranks_is_an_error() {
    let g = Graph::new();
    let y = g.constant([1.0f32]).all_reduce(ReduceOp::Sum).named("y");
    let session = Session::new(&g).unwrap();
    for error in [
        session.run::<Vec<f32>>(y, []).unwrap_err(),
        session.run::<i32>(g.rank(ALL_RANKS), []).unwrap_err(),
    ] {
        let none = |e: &SessionError| {
            matches!(
                e,
                SessionError::Kernel {
                    source: KernelError::NoRanks,
                    ..
                }
            )
        };
        assert!(none(&error), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("give the session SessionOptions::collectives"),
            "{text}"
        );
    }
}

#[test]
fn a_group_has_as_many_ranks_as_its_node_says() {
    let found = World::new(2).run(&SessionOptions::new(), |_, options| {
        let g = Graph::new();
        let keys = [3, 0, 1].map(|k: i32| g.constant(k));
        let node = g
            .op("CollectiveReduceV2")
            .input(g.constant([1.0f32]))
            .inputs(keys);
        let y = node.attr("merge_op", "Add").attr("final_op", "Id").output();
        let session = Session::with_options(&g, options).unwrap();
        session.run::<Vec<f32>>(y, []).unwrap_err().to_string()
    });
    for text in found {
        assert!(
            text.contains("its group_size is 3, and group 0 has 2 ranks"),
            "{text}"
        );
    }
}

#[test]
fn a_collective_in_a_branch_is_refused_by_its_name() {
    let found = World::new(1).run(&SessionOptions::new(), |_, options| {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [1]);
        let yes = x.reduce_sum(&[0], false).greater(g.constant(0.0f32));
        let y = g.cond(
            yes,
            |_| vec![x.all_reduce(ReduceOp::Sum).named("inner")],
            |_| vec![x * 2.0],
        );
        let session = Session::with_options(&g, options).unwrap();
        session
            .run::<Vec<f32>>(y[0], [x.feed([1.0f32])])
            .unwrap_err()
    });
    let text = found[0].to_string();
    assert!(text.contains("inner"), "{text}");
    assert!(
        text.contains("outside of functions, branches and loops"),
        "{text}"
    );
}
