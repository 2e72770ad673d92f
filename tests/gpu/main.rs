//! Tests of the GPU backend: emulated, against fakes of CUDA, and on a card where there is one.

mod absent_card;
mod commands;
mod emulated;
mod fake_cuda;
mod faults;
mod kernel_table;
mod nvrtc;
mod random_graphs;
mod ranks;
mod sessions;
mod steps;
mod ten_minutes;
mod training;
