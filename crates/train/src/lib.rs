//! What a training program needs: optimizers, schedules, datasets.
