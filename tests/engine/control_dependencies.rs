//! Control dependencies through nodes that only pass on their input; steps that end early beside other steps.

use std::time::Duration;

use thalweg::collective::{Coordinator, Join};
use thalweg::hvd::{Hvd, ReduceOp};
use thalweg::prelude::*;
use thalweg::session::Cancel;
use thalweg_tests::cpus::cpus;

/// Options with `count` devices that share `threads` threads.
fn devices_sharing_threads(count: usize, threads: usize) -> SessionOptions {
    cpus(count).threads(threads)
}

const LENGTH: usize = 1 << 16;

/// An update that fails late, because its variable has no value.
fn failing<'g>(g: &'g Graph, x: Output<'g>) -> Operation<'g> {
    let unset = g.variable("unset", 0.0f32);
    unset.assign_add((0..4).fold(x, |y, _| y.tanh()).sum())
}

/// Runs an update that must wait for one that fails: its effect must never be visible.
fn assert_held_back(
    options: impl Fn() -> SessionOptions,
    build: for<'g> fn(&'g Graph, Output<'g>, Output<'g>, Variable<'g>) -> Operation<'g>,
) {
    for _ in 0..20 {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, [LENGTH as i64]);
        let y = g.placeholder("y", DType::F32, []);
        let w = g.device("/cpu:0", || g.variable("w", 1.0f32));
        let update = build(&g, x, y, w);
        assert_eq!(g.errors(), []);
        let session = Session::with_options(&g, options()).unwrap();
        session.run(w.initializer(), []).unwrap();
        let feeds = [
            x.feed(Tensor::zeros(DType::F32, &[LENGTH]).unwrap()),
            y.feed(5.0f32),
        ];
        assert!(session.step(update, feeds).is_err());
        assert_eq!(session.run::<f32>(w, []).unwrap(), 1.0);
    }
}

fn identity<'g>(g: &'g Graph, x: Output<'g>) -> Output<'g> {
    g.op("Identity").input(x).output()
}

#[test]
fn a_factor_of_one_that_waits_for_an_update_runs_it() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2]);
    let w = g.variable("w", [1.0f32, 2.0]);
    let update = w.assign_add([1.0f32, 1.0]);
    let one = g.control_dependencies([update], || g.constant(1.0f32));
    // The product equals `x`, and runs the update all the same.
    let y = x * one;
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    for step in 1..3 {
        let got: Vec<f32> = session.run(y, [x.feed([3.0f32, 4.0])]).unwrap();
        assert_eq!(got, [3.0, 4.0]);
        let w: Vec<f32> = session.run(w, []).unwrap();
        assert_eq!(w, [1.0 + step as f32, 2.0 + step as f32]);
    }
}

#[test]
fn users_of_a_passed_on_value_inherit_its_control_dependencies() {
    assert_held_back(
        || devices_sharing_threads(1, 2),
        |g, x, y, w| {
            let fails = failing(g, x);
            let guarded = g.control_dependencies([fails], || identity(g, y));
            w.assign(guarded.reshape([-1; 0]))
        },
    );
}

#[test]
fn users_of_a_passed_on_handle_inherit_its_control_dependencies() {
    assert_held_back(
        || devices_sharing_threads(1, 2),
        |g, x, y, w| {
            let fails = failing(g, x);
            let handle = g.control_dependencies([fails], || identity(g, w.handle()));
            g.op("AssignVariableOp").input(handle).input(y).build()
        },
    );
}

#[test]
fn control_dependencies_of_a_passed_on_value_cross_devices() {
    assert_held_back(
        || devices_sharing_threads(2, 4),
        |g, x, y, w| {
            let guarded = g.device("/cpu:1", || {
                let (fails, z) = (failing(g, x), y.tanh());
                g.control_dependencies([fails], || identity(g, z))
            });
            w.assign(guarded)
        },
    );
}

#[test]
fn pass_through_nodes_forward_each_dependency_once() {
    // Doubled at each of these layers, there would be 2^48 waits.
    const LAYERS: usize = 48;
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let w = g.variable("w", 1.0f32);
    let update = w.assign(x.tanh());
    let mut groups = [update, update];
    for _ in 0..LAYERS {
        groups = [g.group("a", groups), g.group("b", groups)];
    }
    let mut passed = x;
    for _ in 0..LAYERS {
        passed = g.control_dependencies([passed.operation(), groups[0]], || identity(&g, passed));
    }
    let session = Session::with_options(&g, devices_sharing_threads(1, 2)).unwrap();
    let got = session.step((passed, groups[1]), [x.feed(0.5f32)]).unwrap();
    assert_eq!(got.scalar::<f32>(0).unwrap(), 0.5);
    let updated = session.run::<f32>(w, []).unwrap();
    assert!((updated - 0.5f32.tanh()).abs() < 1e-6, "{updated}");
}

#[test]
fn cancelled_steps_do_not_affect_others() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [1 << 14]);
    let a = g.device("/cpu:0", || x.square());
    let b = g.device("/cpu:1", || a.sqrt() + x);
    let c = g.device("/cpu:2", || (b * a).sum());
    let session = Session::with_options(&g, devices_sharing_threads(3, 6)).unwrap();
    let input = |v: f32| Tensor::new(&[1 << 14], &vec![v; 1 << 14]).unwrap();
    let run = |v: f32| {
        let got = session.step(c, [x.feed(input(v))]).unwrap();
        got.scalar::<f32>(0).unwrap()
    };
    let expected: Vec<f32> = (0..4).map(|i| run(i as f32)).collect();
    std::thread::scope(|scope| {
        for (i, expected) in expected.iter().enumerate() {
            let run = &run;
            scope.spawn(move || (0..100).for_each(|_| assert_eq!(run(i as f32), *expected)));
        }
        let (session, input) = (&session, &input);
        scope.spawn(move || {
            for i in 0..100 {
                let limit = RunOptions::new().timeout(Duration::from_micros(i * 3));
                let ended = session.step_with(c, [x.feed(input(9.0))], &limit);
                assert!(matches!(ended, Ok(_) | Err(SessionError::Timeout { .. })));
            }
        });
        scope.spawn(move || {
            for i in 0..100 {
                let cancel = Cancel::new();
                std::thread::scope(|inner| {
                    let cancel = &cancel;
                    inner.spawn(move || {
                        (0..i * 50).for_each(|_| std::hint::spin_loop());
                        cancel.cancel();
                    });
                    let options = RunOptions::new().cancelled_by(cancel);
                    let ended = session.step_with(c, [x.feed(input(9.0))], &options);
                    assert!(matches!(ended, Ok(_) | Err(SessionError::Cancelled { .. })));
                });
            }
        });
    });
}

#[test]
fn a_graph_may_grow_while_steps_run() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [64]);
    let base = g.device("/cpu:0", || x.tanh());
    let session = Session::with_options(&g, devices_sharing_threads(2, 2)).unwrap();
    let zeros = Tensor::zeros(DType::F32, &[64]).unwrap();
    std::thread::scope(|scope| {
        for k in 0..3 {
            let (session, g, zeros) = (&session, &g, &zeros);
            scope.spawn(move || {
                for i in 0..60 {
                    // Scopes belong to the graph: another thread's scope may surround this node.
                    let y = g.device(format!("/cpu:{}", (k + i) % 2), || {
                        base.square() + f64::from(i)
                    });
                    let got = session.step((y, base), [x.feed(zeros)]).unwrap();
                    assert_eq!(got.slice::<f32>(0).unwrap()[0], i as f32);
                }
            });
        }
    });
}

#[test]
fn variables_of_one_name_on_two_devices_are_separate() {
    let g = Graph::new();
    let handle = |device: &str| {
        g.device(device, || {
            let node = g.op("VarHandleOp").attr("dtype", DType::F32);
            let node = node
                .attr("shape", Shape::known(&[]))
                .attr("shared_name", "v");
            node.output()
        })
    };
    let (a, b) = (handle("/cpu:0"), handle("/cpu:1"));
    let assign = |h, value: f32| {
        g.op("AssignVariableOp")
            .input(h)
            .input(g.constant(value))
            .build()
    };
    let read = |h| {
        g.op("ReadVariableOp")
            .input(h)
            .attr("dtype", DType::F32)
            .output()
    };
    let (set_a, set_b, both) = (assign(a, 1.0), assign(b, 2.0), (read(a), read(b)));
    let session = Session::with_options(&g, devices_sharing_threads(2, 2)).unwrap();
    session.run(set_a, []).unwrap();
    assert!(session.step(both.1, []).is_err());
    session.run(set_b, []).unwrap();
    let got = session.step(both, []).unwrap();
    assert_eq!(
        (got.scalar::<f32>(0).unwrap(), got.scalar::<f32>(1).unwrap()),
        (1.0, 2.0)
    );
}

#[test]
fn renaming_under_control_dependencies_keeps_them() {
    let g = Graph::new();
    let seen = g.variable("seen", 0i64);
    let y = g.constant(2.0f32) * 2.0;
    let after = g.control_dependencies([seen.assign_add(1)], || y.named("after"));
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    assert_eq!(session.run::<f32>(after, []).unwrap(), 4.0);
    assert_eq!(session.run::<i64>(seen, []).unwrap(), 1);
    assert_eq!(after.name(), "after:0");
}

/// A rank with two devices, which wait for other ranks in turn.
fn waits_on_two_devices(join: &Join) {
    let hvd = Hvd::meet(join).unwrap();
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [8]);
    let chain = |device: &str| {
        g.device(device, || {
            let waits = (0..6).fold(x, |y, _| y.tanh().all_reduce(ReduceOp::Average));
            waits.sum()
        })
    };
    let both = [chain("/cpu:0"), chain("/cpu:1")];
    let session = Session::with_options(&g, hvd.session(devices_sharing_threads(2, 2))).unwrap();
    let expected = (0..6).fold(0.5f32, |y, _| y.tanh()) * 8.0;
    for _ in 0..200 {
        let got = session.step(both, [x.feed(vec![0.5f32; 8])]).unwrap();
        for i in 0..2 {
            assert!((got.scalar::<f32>(i).unwrap() - expected).abs() < 1e-5);
        }
    }
}

#[test]
fn devices_waiting_for_other_ranks_continue_on_any_thread() {
    let (done, all) = std::sync::mpsc::channel();
    let mut coordinators = Vec::new();
    // More threads than processors: some are late to see that no instruction is ready.
    for _ in 0..3 {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let coordinator = Coordinator::start(listener, 2, "of the tests").unwrap();
        for rank in 0..2 {
            let join = Join::at(coordinator.address(), rank, 2, "of the tests");
            let done = done.clone();
            std::thread::spawn(move || {
                waits_on_two_devices(&join);
                done.send(()).unwrap();
            });
        }
        coordinators.push(coordinator);
    }
    for _ in 0..6 {
        let ended = all.recv_timeout(Duration::from_secs(120));
        ended.expect("the ranks stand still");
    }
}
