//! What a training program needs: optimizers, schedules, datasets.

pub mod data;
