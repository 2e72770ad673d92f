//! Steps on a card or the emulated GPU: the checks of `support/gpu_steps.rs`, `support/gpu_branches.rs`,
//! `support/gpu_loops.rs`, `support/gpu_lists.rs` and `support/gpu_updates.rs`.

use thalweg_tests::gpu_branches;
use thalweg_tests::gpu_lists;
use thalweg_tests::gpu_loops;
use thalweg_tests::gpu_steps::{self, Check};
use thalweg_tests::gpu_updates;
use thalweg_tests::test_gpu;

fn check(check: Check) {
    if let Some(gpu) = test_gpu::gpu() {
        check(&gpu);
    }
}

#[test]
fn replayed_steps_match_uncaptured_ones() {
    check(gpu_steps::replayed_steps_match_uncaptured_ones);
}

#[test]
fn values_read_before_an_update_stay_unchanged() {
    check(gpu_steps::values_read_before_an_update_stay_unchanged);
}

#[test]
fn a_step_beyond_a_gpus_memory_is_an_error_that_names_the_device() {
    check(gpu_steps::a_step_beyond_a_gpus_memory_is_an_error_that_names_the_device);
}

#[test]
fn logical_devices_have_separate_memory_limits() {
    check(gpu_steps::logical_devices_have_separate_memory_limits);
}

#[test]
fn a_variable_without_a_value_is_an_error_that_names_it() {
    check(gpu_steps::a_variable_without_a_value_is_an_error_that_names_it);
}

#[test]
fn concurrent_steps_on_a_gpu_are_all_applied() {
    check(gpu_steps::concurrent_steps_on_a_gpu_are_all_applied);
}

#[test]
fn cancelled_and_timed_out_steps_end_and_the_session_remains_usable() {
    check(gpu_steps::cancelled_and_timed_out_steps_end_and_the_session_remains_usable);
}

#[test]
fn a_trace_names_kernels_and_copies_with_their_bytes() {
    check(gpu_steps::a_trace_names_kernels_and_copies_with_their_bytes);
}

#[test]
fn a_branch_gives_the_value_of_the_side_that_the_condition_says() {
    check(gpu_branches::a_branch_gives_the_value_of_the_side_that_the_condition_says);
}

#[test]
fn a_branch_updates_variables_where_it_is_taken() {
    check(gpu_branches::a_branch_updates_variables_where_it_is_taken);
}

#[test]
fn an_element_that_a_branch_rejects_is_an_error_where_it_is_taken() {
    check(gpu_branches::an_element_that_a_branch_rejects_is_an_error_where_it_is_taken);
}

#[test]
fn a_branch_that_a_gpu_cannot_run_runs_on_the_host() {
    check(gpu_branches::a_branch_that_a_gpu_cannot_run_runs_on_the_host);
}

#[test]
fn an_automatic_loss_scale_skips_updates_and_stays_on_the_gpu() {
    check(gpu_branches::an_automatic_loss_scale_skips_updates_and_stays_on_the_gpu);
}

#[test]
fn a_loop_gives_the_values_of_its_last_iteration() {
    check(gpu_loops::a_loop_gives_the_values_of_its_last_iteration);
}

#[test]
fn a_loop_exchanges_its_values() {
    check(gpu_loops::a_loop_exchanges_its_values);
}

#[test]
fn loops_and_branches_in_a_loop_run_on_the_gpu() {
    check(gpu_loops::loops_and_branches_in_a_loop_run_on_the_gpu);
}

#[test]
fn a_loop_updates_a_variable_in_each_iteration() {
    check(gpu_loops::a_loop_updates_a_variable_in_each_iteration);
}

#[test]
fn an_element_that_an_iteration_rejects_is_an_error() {
    check(gpu_loops::an_element_that_an_iteration_rejects_is_an_error);
}

#[test]
fn an_endless_loop_ends_at_its_timeout() {
    check(gpu_loops::an_endless_loop_ends_at_its_timeout);
}

#[test]
fn a_branch_returns_what_it_read_before_its_update() {
    check(gpu_branches::a_branch_returns_what_it_read_before_its_update);
}

#[test]
fn a_branch_runs_whole_between_nodes_of_the_host() {
    check(gpu_branches::a_branch_runs_whole_between_nodes_of_the_host);
}

#[test]
fn a_loop_returns_what_it_read_before_its_update() {
    check(gpu_loops::a_loop_returns_what_it_read_before_its_update);
}

#[test]
fn a_value_that_a_loop_keeps_stays_beside_an_update() {
    check(gpu_loops::a_value_that_a_loop_keeps_stays_beside_an_update);
}

#[test]
fn branches_that_are_too_deep_run_on_the_host() {
    check(gpu_branches::branches_that_are_too_deep_run_on_the_host);
}

#[test]
fn recurrent_networks_train_on_a_gpu_as_on_the_cpu() {
    check(gpu_lists::recurrent_networks_train_on_a_gpu_as_on_the_cpu);
}

#[test]
fn an_unrolled_loop_reads_and_writes_lists() {
    check(gpu_lists::an_unrolled_loop_reads_and_writes_lists);
}

#[test]
fn nested_loops_with_lists_are_unrolled() {
    check(gpu_lists::nested_loops_with_lists_are_unrolled);
}

#[test]
fn a_loop_with_lists_that_cannot_be_unrolled_runs_on_the_host() {
    check(gpu_lists::a_loop_with_lists_that_cannot_be_unrolled_runs_on_the_host);
}

#[test]
fn a_loop_with_lists_that_updates_a_variable_of_the_gpu_is_an_error() {
    check(gpu_lists::a_loop_with_lists_that_updates_a_variable_of_the_gpu_is_an_error);
}

#[test]
fn an_unrolled_loop_draws_other_random_numbers_in_each_iteration() {
    check(gpu_lists::an_unrolled_loop_draws_other_random_numbers_in_each_iteration);
}

#[test]
fn arrays_and_stacks_of_an_unrolled_loop_hold_its_values() {
    check(gpu_lists::arrays_and_stacks_of_an_unrolled_loop_hold_its_values);
}

#[test]
fn an_unrolled_loop_reads_a_variable_after_what_it_waits_for() {
    check(gpu_lists::an_unrolled_loop_reads_a_variable_after_what_it_waits_for);
}

#[test]
fn a_list_may_be_fetched_beside_an_unrolled_loop() {
    check(gpu_lists::a_list_may_be_fetched_beside_an_unrolled_loop);
}

#[test]
fn updates_of_all_variables_are_one_launch_and_match_the_cpu() {
    check(gpu_updates::updates_of_all_variables_are_one_launch_and_match_the_cpu);
}

#[test]
fn casts_and_updates_of_one_variable_keep_their_order() {
    check(gpu_updates::casts_and_updates_of_one_variable_keep_their_order);
}

#[test]
fn a_cast_of_a_value_that_a_loop_keeps_comes_before_an_update() {
    check(gpu_updates::a_cast_of_a_value_that_a_loop_keeps_comes_before_an_update);
}

#[test]
fn the_host_uses_in_turn_whether_variables_have_values() {
    check(gpu_updates::the_host_uses_in_turn_whether_variables_have_values);
}
