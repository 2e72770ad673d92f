//! Tests of the GPU backend: emulated, against fakes of CUDA, and on a card where there is one.

mod batch_norm_fusion;
mod channels_last;
mod cudnn_engines;
mod driver_calls;
mod emulated;
mod fake_cuda;
mod fake_libraries;
mod faults;
mod golden_graphs;
mod gpu_run;
mod host_nodes;
mod kernel_table;
mod machine_code;
mod nvrtc;
mod own_op;
mod pool_fusion;
mod random_graphs;
mod ranks;
mod sessions;
mod step_work;
mod steps;
mod training;
mod transfers;
mod watched;
mod watched_fused;
