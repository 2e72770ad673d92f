//! Flags that are accepted for compatibility and have no effect.

/// Each flag with the reason.
const IGNORED: &[(&str, &str)] = &[
    ("use_chrome_trace_format", "traces have no other format"),
    ("server_protocol", "servers speak gRPC"),
    (
        "num_inter_threads",
        "the engine runs a step's branches on all of its threads",
    ),
    ("gpu_thread_mode", "a GPU needs no threads of its own"),
    ("per_gpu_thread_count", "a GPU needs no threads of its own"),
    ("gpu_indices", "devices are taken in their order"),
    ("use_numa_affinity", "the system places threads"),
    ("allow_growth", "memory grows as it is needed"),
    (
        "force_gpu_compatible",
        "host memory is page-locked where a GPU takes it",
    ),
    (
        "gpu_memory_frac_for_testing",
        "memory grows as it is needed",
    ),
    ("winograd_nonfused", "cuDNN chooses"),
    ("batchnorm_persistent", "cuDNN chooses"),
    ("autotune_threshold", "cuDNN chooses"),
    (
        "enable_optimizations",
        "graphs are always simplified and fused",
    ),
    ("xla", "graphs are always simplified and fused"),
    ("xla_compile", "graphs are always simplified and fused"),
    ("sync_on_finish", "a step ends when its devices have ended"),
    (
        "agg_small_grads_max_bytes",
        "gradients are reduced one by one, or all together: see --gradient_repacking",
    ),
    (
        "agg_small_grads_max_group",
        "gradients are reduced one by one, or all together: see --gradient_repacking",
    ),
    (
        "allreduce_merge_scope",
        "gradients are reduced one by one, or all together: see --gradient_repacking",
    ),
    ("use_resource_vars", "all variables are resources"),
    (
        "single_l2_loss_op",
        "the gradient of the decay is added beside each variable",
    ),
    (
        "compute_lr_on_cpu",
        "the rate is computed where the global step is",
    ),
    ("batch_group_size", "each batch is prepared by one thread"),
    (
        "fuse_decode_and_crop",
        "the window is decoded alone where the decoder can",
    ),
    ("use_datasets", "there is one way to read files"),
    ("input_preprocessor", "there is one for each data set"),
    (
        "datasets_parallel_interleave_cycle_length",
        "files are read one after the other, and shuffled in memory",
    ),
    (
        "datasets_sloppy_parallel_interleave",
        "the order follows from the seed",
    ),
    (
        "datasets_parallel_interleave_prefetch",
        "files are read one after the other",
    ),
    (
        "multi_device_iterator_max_buffer_size",
        "see --datasets_prefetch_buffer_size",
    ),
];

/// A line for each of the given flags that has no effect.
pub fn notes(given: &[String]) -> Vec<String> {
    let reason = |name: &String| IGNORED.iter().find(|(flag, _)| flag == name);
    let line = |(flag, why): &(&str, &str)| format!("--{flag} has no effect: {why}");
    given.iter().filter_map(reason).map(line).collect()
}
