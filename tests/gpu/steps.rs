//! Steps on a card or the emulated GPU: the checks of `support/gpu_steps.rs`.

use thalweg_tests::card;
use thalweg_tests::gpu_steps::{self, Check};

fn check(check: Check) {
    if let Some(gpu) = card::gpu() {
        check(&gpu);
    }
}

#[test]
fn replayed_steps_give_what_uncaptured_ones_give() {
    check(gpu_steps::replayed_steps_give_what_uncaptured_ones_give);
}

#[test]
fn what_is_read_before_an_update_stays_as_it_was_read() {
    check(gpu_steps::what_is_read_before_an_update_stays_as_it_was_read);
}

#[test]
fn a_step_beyond_a_gpus_memory_is_an_error_that_names_the_device_and_the_session_goes_on() {
    check(gpu_steps::a_step_beyond_a_gpus_memory_is_an_error_that_names_the_device_and_the_session_goes_on);
}

#[test]
fn a_limit_holds_and_logical_devices_have_memory_of_their_own() {
    check(gpu_steps::a_limit_holds_and_logical_devices_have_memory_of_their_own);
}

#[test]
fn a_variable_without_a_value_is_an_error_that_names_it() {
    check(gpu_steps::a_variable_without_a_value_is_an_error_that_names_it);
}

#[test]
fn steps_of_several_threads_take_turns() {
    check(gpu_steps::steps_of_several_threads_take_turns);
}

#[test]
fn a_cancelled_step_and_one_without_time_end_and_the_session_goes_on() {
    check(gpu_steps::a_cancelled_step_and_one_without_time_end_and_the_session_goes_on);
}

#[test]
fn a_trace_names_kernels_and_copies_with_their_bytes() {
    check(gpu_steps::a_trace_names_kernels_and_copies_with_their_bytes);
}
