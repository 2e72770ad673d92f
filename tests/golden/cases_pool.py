"""MaxPool, AvgPool and their gradients, both layouts."""

import numpy as np

from inputs import distinct, generator, rnd
from reference import f16, f32, f64, i16, i32, i64, tf

# label: (input NHWC, ksize (h, w), strides (h, w), padding)
CONFIGS = {
    "valid_2x2_s2": ([2, 4, 6, 3], (2, 2), (2, 2), "VALID"),
    "same_2x2_s2": ([1, 4, 4, 2], (2, 2), (2, 2), "SAME"),
    "same_2x2_s2_odd": ([2, 5, 7, 2], (2, 2), (2, 2), "SAME"),
    "valid_2x2_s2_odd": ([1, 5, 7, 2], (2, 2), (2, 2), "VALID"),
    "same_2x2_s1": ([1, 4, 5, 2], (2, 2), (1, 1), "SAME"),
    "valid_3x3_s1": ([1, 5, 6, 2], (3, 3), (1, 1), "VALID"),
    "same_3x3_s1": ([1, 5, 4, 3], (3, 3), (1, 1), "SAME"),
    "valid_3x3_s2": ([2, 7, 8, 2], (3, 3), (2, 2), "VALID"),
    "same_3x3_s2": ([1, 7, 6, 2], (3, 3), (2, 2), "SAME"),
    "same_3x2_s1x2": ([1, 6, 7, 2], (3, 2), (1, 2), "SAME"),
    "valid_1x4_s1x3": ([1, 3, 10, 2], (1, 4), (1, 3), "VALID"),
    "same_5x5_s3": ([1, 8, 8, 1], (5, 5), (3, 3), "SAME"),
    "valid_whole_image": ([2, 4, 3, 5], (4, 3), (1, 1), "VALID"),
    "valid_1x1_s1": ([1, 3, 3, 2], (1, 1), (1, 1), "VALID"),
    "valid_1x1_s2_gaps": ([1, 5, 5, 2], (1, 1), (2, 2), "VALID"),
    "valid_2x2_s3_gaps": ([1, 8, 8, 2], (2, 2), (3, 3), "VALID"),
    "same_one_pixel": ([1, 1, 1, 3], (2, 2), (2, 2), "SAME"),
    "same_2x2_s2_channels_33": ([1, 4, 4, 33], (2, 2), (2, 2), "SAME"),
    "same_2x2_s2_mnist": ([1, 14, 14, 8], (2, 2), (2, 2), "SAME"),
    "valid_no_images": ([0, 4, 4, 2], (2, 2), (2, 2), "VALID"),
}
IN_F64 = ("valid_2x2_s2", "same_2x2_s2_odd", "same_3x3_s2", "valid_3x3_s1", "same_5x5_s3")


def add(s):
    """Adds the cases of this module."""
    for label, config in CONFIGS.items():
        for name, dtype in (("f32", f32), ("f64", f64)):
            if name == "f32" or label in IN_F64:
                pools(s, f"{name}_{label}", dtype, *config)
    special(s)
    second_versions(s)
    places(s)
    over_channels(s)


def attributes(ksize, strides, padding):
    """The attributes in NHWC order."""
    return {"ksize": [1, *ksize, 1], "strides": [1, *strides, 1], "padding": padding, "data_format": "NHWC"}


def pools(s, label, dtype, dims, ksize, strides, padding):
    """All four ops on one configuration; no ties, so every gradient has one place to go."""
    attrs = attributes(ksize, strides, padding)
    image = distinct(dtype, dims).draw(generator(f"pools/{label}"))
    run = s.case_twice("MaxPool", label, images=(0,), input=image, **attrs)
    if run is not None:
        pooled = run.outputs[0]
        s.case_twice(
            "MaxPoolGrad",
            label,
            images=(0, 1, 2),
            orig_input=image,
            orig_output=pooled,
            grad=rnd(dtype, pooled.shape),
            **attrs,
        )
        s.case_twice(
            "MaxPoolGradGrad",
            label,
            images=(0, 1, 2),
            orig_input=image,
            orig_output=pooled,
            grad=rnd(dtype, dims),
            **attrs,
        )
    run = s.case_twice("AvgPool", label, images=(0,), value=image, **attrs)
    if run is not None:
        s.case_twice(
            "AvgPoolGrad",
            label,
            images=(1,),
            sizes=(0,),
            orig_input_shape=np.array(dims, i32),
            grad=rnd(dtype, run.outputs[0].shape),
            **attrs,
        )


def second_versions(s):
    """Windows as inputs."""
    for label in ("valid_2x2_s2", "same_3x3_s2", "same_3x2_s1x2", "valid_no_images"):
        for name, dtype in (("f32", f32), ("f16", f16), ("i32", i32)):
            dims, ksize, strides, padding = CONFIGS[label]
            given = {"padding": padding, "data_format": "NHWC"}
            windows = {"ksize": np.array([1, *ksize, 1], i32), "strides": np.array([1, *strides, 1], i32)}
            image = distinct(f32, dims).draw(generator(f"V2/{label}"))
            image = (image * (100 if dtype == i32 else 1)).astype(dtype)
            label_of = f"{name}_{label}"
            run = s.case_twice(
                "MaxPoolV2", label_of, images=(0,), sizes=(1, 2), input=image, **windows, **given
            )
            if run is None:
                continue
            pooled = run.outputs[0]
            for op, shape in (("MaxPoolGradV2", pooled.shape), ("MaxPoolGradGradV2", dims)):
                s.case_twice(
                    op,
                    label_of,
                    images=(0, 1, 2),
                    sizes=(3, 4),
                    orig_input=image,
                    orig_output=pooled,
                    grad=rnd(dtype, shape),
                    **windows,
                    **given,
                )


def places(s):
    """MaxPoolWithArgmax and its gradient; TensorFlow has them for channels that come last."""
    for label in ("valid_2x2_s2", "same_3x3_s2", "same_2x2_s2_odd", "same_5x5_s3", "same_2x2_s2_channels_33"):
        dims, ksize, strides, padding = CONFIGS[label]
        attrs = attributes(ksize, strides, padding)
        del attrs["data_format"]
        for name, dtype, index, whole in (
            ("f32", f32, i64, False),
            ("f32_whole", f32, i64, True),
            ("f64_i32", f64, i32, True),
            ("i16", i16, i64, False),
        ):
            image = rnd(dtype, dims, -9, 9, 0).draw(generator(f"places/{label}"))
            target = tf.as_dtype(index)
            run = s.case(
                "MaxPoolWithArgmax",
                f"{name}_{label}",
                input=image,
                include_batch_in_index=whole,
                Targmax=target,
                tol=None,
                **attrs,
            )
            # TensorFlow's CPU has the gradient for i64 only.
            if run is not None and index == i64:
                s.case(
                    "MaxPoolGradWithArgmax",
                    f"{name}_{label}",
                    input=image,
                    grad=rnd(dtype, run.outputs[0].shape),
                    argmax=run.outputs[1],
                    include_batch_in_index=whole,
                    **attrs,
                )
    attrs = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    odd = np.array([[np.nan, 1, 2, 3], [4, 5, 5, np.nan], [1, 1, 0, -np.inf], [1, 1, 0, np.inf]], f32)
    s.case("MaxPoolWithArgmax", "f32_nan_inf", input=odd.reshape(1, 4, 4, 1), tol=None, **attrs)


def special(s):
    """Ties, negative images against padding, explicit padding, integers."""
    ties = np.array([[1, 1, 0, 2], [1, 1, 2, 2], [0, 0, 3, 3], [0, 0, 3, 1]], f32).reshape(1, 4, 4, 1)
    for label, ksize, strides, padding in (
        ("2x2_s2", (2, 2), (2, 2), "VALID"),
        ("3x3_s1_overlapping", (3, 3), (1, 1), "SAME"),
        ("2x2_s1_overlapping", (2, 2), (1, 1), "VALID"),
    ):
        attrs = attributes(ksize, strides, padding)
        run = s.case_twice("MaxPool", f"f32_ties_{label}", images=(0,), input=ties, **attrs)
        pooled = run.outputs[0]
        s.case_twice(
            "MaxPoolGrad",
            f"f32_ties_{label}",
            images=(0, 1, 2),
            orig_input=ties,
            orig_output=pooled,
            grad=rnd(f32, pooled.shape),
            **attrs,
        )
        rounded = rnd(f32, [2, 5, 5, 2], -2, 2, 0).draw(generator(label))
        run = s.case_twice("MaxPool", f"f32_many_ties_{label}", images=(0,), input=rounded, **attrs)
        pooled = run.outputs[0]
        s.case_twice(
            "MaxPoolGrad",
            f"f32_many_ties_{label}",
            images=(0, 1, 2),
            orig_input=rounded,
            orig_output=pooled,
            grad=rnd(f32, pooled.shape),
            **attrs,
        )
    attrs = attributes((3, 3), (2, 2), "SAME")
    for name, dtype in (("f32", f32), ("f64", f64)):
        s.case_twice(
            "MaxPool",
            f"{name}_all_negative_padded",
            images=(0,),
            input=rnd(dtype, [1, 4, 5, 2], -9, -1),
            **attrs,
        )
        s.case_twice(
            "AvgPool", f"{name}_padding_not_counted", images=(0,), value=np.ones([1, 4, 5, 2], dtype), **attrs
        )
    for name, dtype in (("i32", i32), ("i64", i64)):
        s.case_twice(
            "MaxPool",
            f"{name}_2x2_s2",
            images=(0,),
            input=rnd(dtype, [1, 4, 4, 2], -9, 9),
            **attributes((2, 2), (2, 2), "VALID"),
        )
    explicit = attributes((3, 3), (2, 2), "EXPLICIT") | {"explicit_paddings": [0, 0, 1, 0, 2, 1, 0, 0]}
    image = distinct(f32, [1, 6, 5, 2]).draw(generator("explicit"))
    run = s.case_twice("MaxPool", "f32_explicit_3x3_s2", images=(0,), input=image, **explicit)
    if run is not None:
        pooled = run.outputs[0]
        s.case_twice(
            "MaxPoolGrad",
            "f32_explicit_3x3_s2",
            images=(0, 1, 2),
            orig_input=image,
            orig_output=pooled,
            grad=rnd(f32, pooled.shape),
            **explicit,
        )


def over_channels(s):
    """Windows over channels.

    TensorFlow's CPU has MaxPool alone for them: the others are computed over the columns of images whose columns are
    the channels.
    """
    for label, dims, window in (
        ("4_by_2", [2, 3, 2, 4], 2),
        ("9_by_3", [1, 2, 5, 9], 3),
        ("all_of_300", [2, 2, 1, 300], 300),
        ("no_images", [0, 2, 2, 4], 2),
    ):
        attrs = {
            "ksize": [1, 1, 1, window],
            "strides": [1, 1, 1, window],
            "padding": "VALID",
            "data_format": "NHWC",
        }
        pooled = [*dims[:3], dims[3] // window]
        for name, dtype in (("f32", f32), ("f64", f64), ("i32", i32)):
            image = (distinct(f64, dims).draw(generator(f"over_channels/{label}")) * 100).astype(dtype)
            own = f"{name}_over_channels_{label}"
            s.case_twice("MaxPool", own, images=(0,), input=image, **attrs)
            grad, again = (rnd(dtype, shape, -9, 9).draw(generator(own)) for shape in (pooled, dims))
            given = {"orig_input": image, "orig_output": image_max(image, pooled)}
            in_columns(s, "MaxPoolGrad", own, attrs, given | {"grad": grad}, dims)
            in_columns(s, "MaxPoolGradGrad", own, attrs, given | {"grad": again}, pooled)
            if dtype != i32:
                in_columns(s, "AvgPool", own, attrs, {"value": image}, pooled)
                given = {"orig_input_shape": np.array(dims, i32), "grad": grad}
                in_columns(s, "AvgPoolGrad", own, attrs, given, dims)
    windows = {"ksize": np.array([1, 1, 1, 2], i32), "strides": np.array([1, 1, 1, 2], i32)}
    image = distinct(f32, [2, 3, 2, 4])
    given = {"padding": "SAME", "data_format": "NHWC"}
    s.case_twice("MaxPoolV2", "f32_over_channels", images=(0,), sizes=(1, 2), input=image, **windows, **given)


def image_max(image, pooled):
    """The maximum of each window of channels."""
    return image.reshape([*pooled, image.shape[3] // pooled[3]]).max(axis=4)


def in_columns(s, op, label, attrs, arguments, dims):
    """One op with windows over channels, computed over columns, and recorded as it would be over channels."""
    window = attrs["ksize"][3]
    over = attrs | {"ksize": [1, 1, window, 1], "strides": [1, 1, window, 1]}

    def moved(value):
        n, lines, columns, channels = value if value.ndim == 1 else value.shape
        shape = [n, lines * columns, channels, 1]
        return np.array(shape, i32) if value.ndim == 1 else value.reshape(shape)

    run = s.run(op, f"nhwc_{label}", {name: moved(value) for name, value in arguments.items()} | over)
    if run is None:
        return
    run.inputs = list(arguments.values())
    run.outputs = [run.outputs[0].reshape(dims)]
    for key in ("ksize", "strides"):
        run.attrs[key] = {"ints": attrs[key]}
    ranks = [value.ndim for value in run.inputs]
    images = [i for i, rank in enumerate(ranks) if rank == 4]
    s.record_twice(op, label, run, images, [i for i, rank in enumerate(ranks) if rank == 1], (0,))
