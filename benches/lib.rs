//! Benches that cross the crates. Each is a program of its own: `cargo bench -p thalweg-benches --bench NAME`.
