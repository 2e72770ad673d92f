//! Checks of steps on a card or the emulated GPU: captured and replayed steps, concurrent steps, cancellation, memory
//! limits, traces.

use std::time::Duration;

use thalweg::prelude::*;
use thalweg::session::Cancel;

use super::gpu_branches;
use super::gpu_lists;
use super::gpu_loops;
use super::gpu_updates;
use super::line::{feeds, line};
use super::test_gpu::{self, Gpu};

/// A check of a GPU; panics on failure.
pub type Check = fn(&Gpu);

/// All checks by name.
pub const CHECKS: [(&str, Check); 37] = [
    (
        "replayed_steps_match_uncaptured_ones",
        replayed_steps_match_uncaptured_ones,
    ),
    (
        "values_read_before_an_update_stay_unchanged",
        values_read_before_an_update_stay_unchanged,
    ),
    (
        "a_step_beyond_a_gpus_memory_is_an_error_that_names_the_device",
        a_step_beyond_a_gpus_memory_is_an_error_that_names_the_device,
    ),
    (
        "logical_devices_have_separate_memory_limits",
        logical_devices_have_separate_memory_limits,
    ),
    (
        "a_variable_without_a_value_is_an_error_that_names_it",
        a_variable_without_a_value_is_an_error_that_names_it,
    ),
    (
        "concurrent_steps_on_a_gpu_are_all_applied",
        concurrent_steps_on_a_gpu_are_all_applied,
    ),
    (
        "cancelled_and_timed_out_steps_end_and_the_session_remains_usable",
        cancelled_and_timed_out_steps_end_and_the_session_remains_usable,
    ),
    (
        "a_trace_names_kernels_and_copies_with_their_bytes",
        a_trace_names_kernels_and_copies_with_their_bytes,
    ),
    (
        "a_branch_gives_the_value_of_the_side_that_the_condition_says",
        gpu_branches::a_branch_gives_the_value_of_the_side_that_the_condition_says,
    ),
    (
        "a_branch_updates_variables_where_it_is_taken",
        gpu_branches::a_branch_updates_variables_where_it_is_taken,
    ),
    (
        "an_element_that_a_branch_rejects_is_an_error_where_it_is_taken",
        gpu_branches::an_element_that_a_branch_rejects_is_an_error_where_it_is_taken,
    ),
    (
        "a_branch_that_a_gpu_cannot_run_runs_on_the_host",
        gpu_branches::a_branch_that_a_gpu_cannot_run_runs_on_the_host,
    ),
    (
        "an_automatic_loss_scale_skips_updates_and_stays_on_the_gpu",
        gpu_branches::an_automatic_loss_scale_skips_updates_and_stays_on_the_gpu,
    ),
    (
        "a_loop_gives_the_values_of_its_last_iteration",
        gpu_loops::a_loop_gives_the_values_of_its_last_iteration,
    ),
    (
        "a_loop_exchanges_its_values",
        gpu_loops::a_loop_exchanges_its_values,
    ),
    (
        "loops_and_branches_in_a_loop_run_on_the_gpu",
        gpu_loops::loops_and_branches_in_a_loop_run_on_the_gpu,
    ),
    (
        "a_loop_updates_a_variable_in_each_iteration",
        gpu_loops::a_loop_updates_a_variable_in_each_iteration,
    ),
    (
        "an_element_that_an_iteration_rejects_is_an_error",
        gpu_loops::an_element_that_an_iteration_rejects_is_an_error,
    ),
    (
        "an_endless_loop_ends_at_its_timeout",
        gpu_loops::an_endless_loop_ends_at_its_timeout,
    ),
    (
        "a_branch_returns_what_it_read_before_its_update",
        gpu_branches::a_branch_returns_what_it_read_before_its_update,
    ),
    (
        "a_branch_runs_whole_between_nodes_of_the_host",
        gpu_branches::a_branch_runs_whole_between_nodes_of_the_host,
    ),
    (
        "a_loop_returns_what_it_read_before_its_update",
        gpu_loops::a_loop_returns_what_it_read_before_its_update,
    ),
    (
        "a_value_that_a_loop_keeps_stays_beside_an_update",
        gpu_loops::a_value_that_a_loop_keeps_stays_beside_an_update,
    ),
    (
        "branches_that_are_too_deep_run_on_the_host",
        gpu_branches::branches_that_are_too_deep_run_on_the_host,
    ),
    (
        "recurrent_networks_train_on_a_gpu_as_on_the_cpu",
        gpu_lists::recurrent_networks_train_on_a_gpu_as_on_the_cpu,
    ),
    (
        "an_unrolled_loop_reads_and_writes_lists",
        gpu_lists::an_unrolled_loop_reads_and_writes_lists,
    ),
    (
        "nested_loops_with_lists_are_unrolled",
        gpu_lists::nested_loops_with_lists_are_unrolled,
    ),
    (
        "a_loop_with_lists_that_cannot_be_unrolled_runs_on_the_host",
        gpu_lists::a_loop_with_lists_that_cannot_be_unrolled_runs_on_the_host,
    ),
    (
        "a_loop_with_lists_that_updates_a_variable_of_the_gpu_is_an_error",
        gpu_lists::a_loop_with_lists_that_updates_a_variable_of_the_gpu_is_an_error,
    ),
    (
        "an_unrolled_loop_draws_other_random_numbers_in_each_iteration",
        gpu_lists::an_unrolled_loop_draws_other_random_numbers_in_each_iteration,
    ),
    (
        "arrays_and_stacks_of_an_unrolled_loop_hold_its_values",
        gpu_lists::arrays_and_stacks_of_an_unrolled_loop_hold_its_values,
    ),
    (
        "an_unrolled_loop_reads_a_variable_after_what_it_waits_for",
        gpu_lists::an_unrolled_loop_reads_a_variable_after_what_it_waits_for,
    ),
    (
        "a_list_may_be_fetched_beside_an_unrolled_loop",
        gpu_lists::a_list_may_be_fetched_beside_an_unrolled_loop,
    ),
    (
        "updates_of_all_variables_are_one_launch_and_match_the_cpu",
        gpu_updates::updates_of_all_variables_are_one_launch_and_match_the_cpu,
    ),
    (
        "casts_and_updates_of_one_variable_keep_their_order",
        gpu_updates::casts_and_updates_of_one_variable_keep_their_order,
    ),
    (
        "a_cast_of_a_value_that_a_loop_keeps_comes_before_an_update",
        gpu_updates::a_cast_of_a_value_that_a_loop_keeps_comes_before_an_update,
    ),
    (
        "the_host_uses_in_turn_whether_variables_have_values",
        gpu_updates::the_host_uses_in_turn_whether_variables_have_values,
    ),
];

pub fn replayed_steps_match_uncaptured_ones(gpu: &Gpu) {
    let steps = if test_gpu::is_required() { 1000 } else { 50 };
    let train = |replayed: bool| {
        let g = Graph::new();
        let line = line(&g);
        let session = Session::with_options(&g, gpu.options()).unwrap();
        session.run(g.initializers(), []).unwrap();
        let watched = match replayed {
            true => RunOptions::default(),
            // Checking every value runs commands one after the other.
            false => RunOptions::new().checked(),
        };
        let step = || {
            let got = session.step_with((line.loss, line.train), feeds(&line), &watched);
            got.unwrap().0.scalar::<f32>(0).unwrap()
        };
        let losses: Vec<f32> = (0..steps).map(|_| step()).collect();
        let w = session.run::<f32>(line.w, []).unwrap();
        (losses, w)
    };
    let (losses, w) = train(true);
    assert_eq!((&losses, w), (&train(false).0, train(false).1));
    assert!(losses[49] < losses[0] / 100.0, "{losses:?}");
}

pub fn values_read_before_an_update_stay_unchanged(gpu: &Gpu) {
    let g = Graph::new();
    let v = g.variable("v", [1.0f32, 2.0]);
    let before = v.value();
    let update = v.assign_add([10.0f32, 10.0]);
    let after = g.control_dependencies([update], || v.read());
    let late = g.control_dependencies([update], || before + g.constant([0.0f32, 0.0]));
    let session = Session::with_options(&g, gpu.options()).unwrap();
    session.run(g.initializers(), []).unwrap();
    for round in 0..4 {
        let got = session.step((before, after, late), []).unwrap();
        let base = 10.0 * round as f32;
        assert_eq!(got.slice::<f32>(0).unwrap(), [1.0 + base, 2.0 + base]);
        assert_eq!(got.slice::<f32>(1).unwrap(), [11.0 + base, 12.0 + base]);
        assert_eq!(got.slice::<f32>(2).unwrap(), [1.0 + base, 2.0 + base]);
    }
}

pub fn a_step_beyond_a_gpus_memory_is_an_error_that_names_the_device(gpu: &Gpu) {
    let g = Graph::new();
    // Two tebibytes: more than any card and the emulated GPU have.
    let x = g.placeholder("x", DType::F64, []);
    let many = g.constant([1i32 << 19, 1 << 19]);
    let huge = g.op("Fill").input(many).input(x).output().square().sum();
    let small = x.square();
    let session = Session::with_options(&g, gpu.options()).unwrap();
    for _ in 0..3 {
        match session.step(huge, [x.feed(3.0f64)]) {
            Err(SessionError::Memory { device, .. }) => {
                assert_eq!(
                    device.to_string(),
                    "/job:localhost/replica:0/task:0/device:GPU:0"
                );
            }
            other => panic!("{other:?}"),
        }
        let got = session.step(small, [x.feed(3.0f64)]).unwrap();
        assert_eq!(got.scalar::<f64>(0).unwrap(), 9.0);
    }
}

pub fn logical_devices_have_separate_memory_limits(gpu: &Gpu) {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let on = |device: &str| g.device(device, || x.square().sum());
    let (first, second) = (on("/gpu:0"), on("/gpu:1"));
    let options = SessionOptions::new()
        .threads(1)
        .gpu(gpu.device().memory_limit(1 << 12))
        .gpu(gpu.device().memory_limit(1 << 20));
    let session = Session::with_options(&g, options).unwrap();
    let feed = [x.feed(vec![1.0f32; 5000])];
    let refused = session.step(first, &feed);
    assert!(
        matches!(refused, Err(SessionError::Memory { .. })),
        "{refused:?}"
    );
    assert_eq!(session.run::<f32>(second, &feed).unwrap(), 5000.0);
}

pub fn a_variable_without_a_value_is_an_error_that_names_it(gpu: &Gpu) {
    let g = Graph::new();
    let line = line(&g);
    let session = Session::with_options(&g, gpu.options()).unwrap();
    let error = session
        .step(line.train, feeds(&line))
        .unwrap_err()
        .to_string();
    assert!(error.contains("uninitialized value w"), "{error}");
    session.run(g.initializers(), []).unwrap();
    session.run(line.train, feeds(&line)).unwrap();
}

pub fn concurrent_steps_on_a_gpu_are_all_applied(gpu: &Gpu) {
    let g = Graph::new();
    let v = g.variable("v", 0.0f32);
    let add = v.assign_add(1.0f32);
    let session = Session::with_options(&g, gpu.options()).unwrap();
    session.run(g.initializers(), []).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| drop(session.step(add, []).unwrap())));
        }
    });
    assert_eq!(session.run::<f32>(v, []).unwrap(), 200.0);
}

pub fn cancelled_and_timed_out_steps_end_and_the_session_remains_usable(gpu: &Gpu) {
    let g = Graph::new();
    let line = line(&g);
    let session = Session::with_options(&g, gpu.options()).unwrap();
    session.run(g.initializers(), []).unwrap();
    for _ in 0..3 {
        let cancel = Cancel::new();
        cancel.cancel();
        let cancelled = RunOptions::new().cancelled_by(&cancel);
        let got = session.step_with(line.train, feeds(&line), &cancelled);
        assert!(
            matches!(got, Err(SessionError::Cancelled { .. })),
            "{got:?}"
        );
        let late = RunOptions::new().timeout(Duration::ZERO);
        let got = session.step_with(line.train, feeds(&line), &late);
        assert!(matches!(got, Err(SessionError::Timeout { .. })), "{got:?}");
        session.run(line.train, feeds(&line)).unwrap();
    }
}

pub fn a_trace_names_kernels_and_copies_with_their_bytes(gpu: &Gpu) {
    let g = Graph::new();
    let line = line(&g);
    let session = Session::with_options(&g, gpu.options()).unwrap();
    session.run(g.initializers(), []).unwrap();
    let (_, trace) = session
        .step_with(line.loss, feeds(&line), &RunOptions::new().traced())
        .unwrap();
    let traffic = trace.traffic();
    assert_eq!(
        (traffic.to_gpus, traffic.from_gpus),
        (24, 4),
        "{:?}",
        trace.events
    );
    assert!(trace.events.iter().any(|e| e.op == "Mean"));
    assert!(trace.events.iter().all(|e| e.device.ends_with("GPU:0")));
}
