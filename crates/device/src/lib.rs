//! Where kernels run: the CPU, its threads and memory, and the kernel interface.

pub mod pool;
