//! The listings of the README and of the book, as doc-tests.

#[doc = include_str!("../README.md")]
struct Readme;

#[doc = include_str!("../docs/book/introduction.md")]
struct Introduction;

#[doc = include_str!("../docs/book/graphs.md")]
struct Graphs;

#[doc = include_str!("../docs/book/layers.md")]
struct Layers;

#[doc = include_str!("../docs/book/coming-from.md")]
struct ComingFrom;

#[doc = include_str!("../docs/book/sessions.md")]
struct Sessions;

#[doc = include_str!("../docs/book/profiling.md")]
struct Profiling;

#[doc = include_str!("../docs/book/own-ops.md")]
struct OwnOps;

#[doc = include_str!("../docs/book/placement.md")]
struct Placement;

#[doc = include_str!("../docs/book/training.md")]
struct Training;

#[cfg(all(feature = "csv", feature = "image"))]
#[doc = include_str!("../docs/book/data.md")]
struct Data;

#[cfg(all(feature = "csv", feature = "stats"))]
#[doc = include_str!("../docs/book/statistics.md")]
struct Statistics;

#[doc = include_str!("../docs/book/models.md")]
struct Models;

#[doc = include_str!("../docs/book/checkpoints.md")]
struct Checkpoints;

#[cfg(feature = "cluster")]
#[doc = include_str!("../docs/book/clusters.md")]
struct Clusters;

#[doc = include_str!("../docs/book/many.md")]
struct Many;

#[cfg(feature = "cluster")]
#[doc = include_str!("../docs/book/cluster-internals.md")]
struct ClusterInternals;

#[doc = include_str!("../docs/book/cpu-kernels.md")]
struct CpuKernels;

#[doc = include_str!("../docs/book/testing.md")]
struct Testing;

#[doc = include_str!("../docs/book/tensorflow.md")]
struct TensorFlow;

#[doc = include_str!("../docs/book/tensorboard.md")]
struct TensorBoard;

#[doc = include_str!("../docs/book/gpu.md")]
struct Gpu;

#[doc = include_str!("../docs/book/memory.md")]
struct Memory;

#[doc = include_str!("../docs/book/plans.md")]
struct Plans;
