"""Normalization: over batches, and over neighbouring channels.

TensorFlow has neither in f64, so no case is held against that; FusedBatchNorm leaves the reserved outputs as they were
in memory where it does not train: they are recorded as zeros.
"""

import numpy as np

from inputs import generator, rnd
from reference import bf16, f16, f32

# label: dimensions NHWC
IMAGES = {
    "2x3x4x5": [2, 3, 4, 5],
    "one_channel": [2, 3, 3, 1],
    "channels_17": [1, 2, 3, 17],
    "one_pixel": [1, 1, 1, 3],
    "wide": [1, 7, 13, 2],
    "no_images": [0, 2, 2, 3],
    "no_channels": [2, 2, 2, 0],
}
HALVES = {"f16": f16, "bf16": bf16}


def add(s):
    """Adds the cases of this module."""
    for label, dims in IMAGES.items():
        for training in (True, False):
            batch_norm(s, "V3", f"{label}_{'training' if training else 'fixed'}", f32, dims, training)
    batch_norm(s, "", "training", f32, [2, 2, 3, 2], True)
    batch_norm(s, "", "fixed_epsilon", f32, [2, 2, 3, 2], False, epsilon=0.1)
    batch_norm(s, "V2", "training_averages", f32, [2, 2, 3, 2], True, exponential_avg_factor=0.3)
    batch_norm(s, "V2", "fixed", f32, [2, 2, 3, 2], False)
    batch_norm(s, "V3", "training_averages", f32, [2, 2, 3, 2], True, exponential_avg_factor=0.1)
    batch_norm(s, "V3", "training_far_from_zero", f32, [2, 4, 4, 2], True, at=100.0)
    batch_norm(s, "V3", "training_nan_inf", f32, [1, 2, 2, 3], True, special=True)
    batch_norm(s, "V3", "fixed_nan_inf", f32, [1, 2, 2, 3], False, special=True)
    for name, dtype in HALVES.items():
        for version in ("V2", "V3"):
            for training in (True, False):
                label = f"{name}_{'training' if training else 'fixed'}"
                batch_norm(s, version, label, dtype, [2, 3, 4, 3], training)
    volumes(s)
    responses(s)


def batch_norm(s, version, label, dtype, dims, training, at=0.0, special=False, **attrs):
    """FusedBatchNorm and its gradient."""
    rng = generator(f"batch norm {version} {label}")
    channels = [dims[-1]]
    x = (rnd(f32, dims).draw(rng) + f32(at)).astype(dtype)
    if special:
        x[0, 0, 0, 0], x[0, 0, 0, 1] = np.nan, np.inf
    scale, offset, mean = (rnd(f32, channels).draw(rng) for _ in range(3))
    variance = rnd(f32, channels, 0.1, 2).draw(rng)
    averages = attrs.get("exponential_avg_factor", 1) != 1
    given = [mean, variance] if averages or not training else [np.zeros([0], f32)] * 2
    op = f"FusedBatchNorm{version}"
    run = s.run(
        op,
        label,
        {
            "x": x,
            "scale": scale,
            "offset": offset,
            "mean": given[0],
            "variance": given[1],
            "is_training": training,
            "data_format": "NHWC",
            **attrs,
        },
    )
    if run is None:
        return
    if not training or x.size == 0:
        run.outputs[3:5] = [np.zeros(channels, f32)] * 2
    used = [mean, variance]
    if training and x.size > 0:
        used = list(run.outputs[3:5])
    s.record_twice(op, label, run, (0,), (), (0,))
    if averages:
        return
    if not np.isfinite(used[0]).all():
        used = [mean, variance]
    arguments = {
        "y_backprop": rnd(f32, dims).draw(rng).astype(dtype),
        "x": x,
        "scale": scale,
        "reserve_space_1": used[0],
        "reserve_space_2": used[1],
        "is_training": training,
        "data_format": "NHWC",
        **attrs,
    }
    if version == "V3":
        arguments["reserve_space_3"] = np.zeros([], f32)
    op = f"FusedBatchNormGrad{version}"
    run = s.run(op, label, arguments)
    if run is not None:
        s.record_twice(op, label, run, (0, 1), (), (0,))


def volumes(s):
    """The formats of volumes, which only the third version has."""
    for data_format, dims in (("NDHWC", [2, 2, 3, 2, 3]), ("NCDHW", [2, 3, 2, 3, 2])):
        rng = generator(f"volumes {data_format}")
        x, dy = (rnd(f32, dims).draw(rng) for _ in range(2))
        scale, mean = (rnd(f32, [3]).draw(rng) for _ in range(2))
        variance = rnd(f32, [3], 0.1, 2).draw(rng)
        s.case(
            "FusedBatchNormV3",
            f"{data_format}_training",
            audit=False,
            x=x,
            scale=scale,
            offset=mean,
            mean=np.zeros([0], f32),
            variance=np.zeros([0], f32),
            data_format=data_format,
        )
        s.case(
            "FusedBatchNormGradV3",
            f"{data_format}_training",
            audit=False,
            y_backprop=dy,
            x=x,
            scale=scale,
            reserve_space_1=mean,
            reserve_space_2=variance,
            reserve_space_3=np.zeros([], f32),
            data_format=data_format,
        )


def responses(s):
    """LRN and its gradient.

    TensorFlow has no kernel for bf16. It spreads non-finite values over all channels of a pixel, as it sums by a
    product with a band of ones: that is not part of the op's definition, and in no case.
    """
    configs = {
        "defaults": ([2, 2, 3, 12], {}),
        "alexnet": ([1, 2, 2, 16], {"depth_radius": 2, "alpha": 1e-4, "beta": 0.75, "bias": 2.0}),
        "beta_1": ([1, 2, 2, 9], {"depth_radius": 3, "alpha": 0.5, "beta": 1.0, "bias": 1.5}),
        "beta_0_3": ([1, 1, 2, 7], {"depth_radius": 1, "alpha": 0.7, "beta": 0.3, "bias": 0.5}),
        "own_only": ([1, 2, 2, 5], {"depth_radius": 0}),
        "all_channels": ([1, 2, 2, 5], {"depth_radius": 100}),
        "one_channel": ([2, 3, 2, 1], {}),
        "no_images": ([0, 3, 2, 4], {}),
    }
    for label, (dims, attrs) in configs.items():
        for name, dtype in (("f32", f32), ("f16", f16)):
            if dtype == f16 and label not in ("defaults", "beta_1"):
                continue
            x = rnd(dtype, dims, -1.5, 1.5).draw(generator(f"LRN {label} {name}"))
            run = s.case("LRN", f"{name}_{label}", audit=False, input=x, **attrs)
            if run is not None:
                s.case(
                    "LRNGrad",
                    f"{name}_{label}",
                    audit=False,
                    input_grads=rnd(dtype, dims),
                    input_image=x,
                    output_image=run.outputs[0],
                    **attrs,
                )
