"""The steps of optimizers that are not in cases_state, those of rows, and updates of parts of variables."""

import numpy as np

from inputs import Var, rnd
from kinds import ANY, low
from reference import f16, f32, f64, i32, i64

# By op, without its prefix: slots with the range of their values, and settings.
STEPS = {
    "KerasMomentum": ({"accum": (-1, 1)}, {"lr": 0.05, "momentum": 0.9}),
    "ProximalGradientDescent": ({}, {"alpha": 0.1, "l1": 0.2, "l2": 0.3}),
    "ProximalAdagrad": ({"accum": (0.1, 1)}, {"lr": 0.5, "l1": 0.2, "l2": 0.3}),
    "AdagradDA": (
        {"gradient_accumulator": (-1, 1), "gradient_squared_accumulator": (0.1, 1)},
        {"lr": 0.5, "l1": 0.1, "l2": 0.2},
    ),
    "Adadelta": ({"accum": (0.1, 1), "accum_update": (0.1, 1)}, {"lr": 0.5, "rho": 0.9, "epsilon": 1e-3}),
    "Ftrl": ({"accum": (0.1, 1), "linear": (-1, 1)}, {"lr": 0.5, "l1": 0.2, "l2": 0.3, "lr_power": -0.5}),
    "FtrlV2": (
        {"accum": (0.1, 1), "linear": (-1, 1)},
        {"lr": 0.5, "l1": 0.2, "l2": 0.3, "l2_shrinkage": 0.1, "lr_power": -0.5},
    ),
    "Adagrad": ({"accum": (0.1, 1)}, {"lr": 0.05}),
    "AdagradV2": ({"accum": (0.1, 1)}, {"lr": 0.05, "epsilon": 1e-3}),
    "Momentum": ({"accum": (-1, 1)}, {"lr": 0.05, "momentum": 0.9}),
    "RMSProp": (
        {"ms": (0.1, 1), "mom": (-1, 1)},
        {"lr": 0.01, "rho": 0.9, "momentum": 0.9, "epsilon": 1e-6},
    ),
    "CenteredRMSProp": (
        {"mg": (-0.5, 0.5), "ms": (0.5, 1), "mom": (-1, 1)},
        {"lr": 0.01, "rho": 0.9, "momentum": 0.9, "epsilon": 1e-6},
    ),
    "AddSign": ({"m": (-1, 1)}, {"lr": 0.05, "alpha": 1.1, "sign_decay": 0.9, "beta": 0.8}),
    "PowerSign": ({"m": (-1, 1)}, {"lr": 0.05, "logbase": 0.7, "sign_decay": 0.9, "beta": 0.8}),
    "AdaMax": (
        {"m": (-1, 1), "v": (0.1, 1)},
        {"beta1_power": 0.9, "lr": 0.05, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-6},
    ),
    "AdamWithAmsgrad": (
        {"m": (-1, 1), "v": (0.1, 1), "vhat": (0.1, 1)},
        {"beta1_power": 0.9, "beta2_power": 0.9, "lr": 0.05, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-3},
    ),
}
WHOLE = """KerasMomentum ProximalGradientDescent ProximalAdagrad AdagradDA Adadelta Ftrl FtrlV2 AddSign PowerSign
AdaMax AdamWithAmsgrad""".split()
ROWS = """KerasMomentum ProximalGradientDescent ProximalAdagrad AdagradDA Adadelta Ftrl FtrlV2 Adagrad AdagradV2
Momentum RMSProp CenteredRMSProp""".split()
# By op: labels with their changed arguments.
VARIANTS = {
    "KerasMomentum": {"_nesterov": {"use_nesterov": True}},
    "Momentum": {"_nesterov": {"use_nesterov": True}},
    "Adagrad": {"_slots_kept": {"update_slots": False}},
    "AdagradV2": {"_slots_kept": {"update_slots": False}},
    "ProximalGradientDescent": {"_no_l1": {"l1": 0.0}},
    "ProximalAdagrad": {"_no_l1": {"l1": 0.0}},
    "AdagradDA": {"_no_l1": {"l1": 0.0}},
    "Ftrl": {
        "_power": {"lr_power": -0.7},
        "_by_lr": {"multiply_linear_by_lr": True},
        "_power_by_lr": {"lr_power": -0.7, "multiply_linear_by_lr": True},
        "_no_l1": {"l1": 0.0},
    },
    "FtrlV2": {"_power": {"lr_power": -0.7}, "_by_lr": {"multiply_linear_by_lr": True}},
}


def add(s):
    """Adds the cases of this module."""
    for op in WHOLE:
        for name, dtype in (("f32", f32), ("f64", f64)):
            for shape, dims in (("scalar", []), ("37", [37]), ("3x5", [3, 5]), ("empty", [0, 2])):
                step(s, "ResourceApply", op, f"{name}_{shape}", dtype, dims, dims, {})
        for label, changed in VARIANTS.get(op, {}).items():
            step(s, "ResourceApply", op, f"f32_3x5{label}", f32, [3, 5], [3, 5], changed)
    for op in ROWS:
        for name, dtype, index in (("f32", f32, i32), ("f64", f64, i64)):
            for shape, dims, rows in (
                ("5x3", [5, 3], [4, 0, 4, 1]),
                ("6", [6], [5, 2, 2]),
                ("3x2x2", [3, 2, 2], [1]),
                ("no_rows", [3, 2], []),
            ):
                indices = np.array(rows, index)
                grad = [len(rows)] + dims[1:]
                step(s, "ResourceSparseApply", op, f"{name}_{shape}", dtype, dims, grad, {"indices": indices})
        for label, changed in VARIANTS.get(op, {}).items():
            indices = np.array([4, 0, 4, 1], i32)
            changed = changed | {"indices": indices}
            step(s, "ResourceSparseApply", op, f"f32_5x3{label}", f32, [5, 3], [4, 3], changed)
    scatter(s)
    scatter_nd(s)
    gather(s)
    others(s)


def step(s, prefix, op, label, dtype, dims, grad, changed):
    """One step on variables of `dims` with a gradient of shape `grad`."""
    slots, settings = STEPS[op]
    settings = settings | {k: v for k, v in changed.items() if isinstance(v, float)}
    others = {k: v for k, v in changed.items() if not isinstance(v, float)}
    if op == "AdagradDA":
        others["global_step"] = np.array(3, i64)
    name = "delta" if op.endswith("Descent") and prefix == "ResourceApply" else "grad"
    s.case(
        prefix + op,
        label,
        var=Var(rnd(dtype, dims)),
        **{k: Var(rnd(dtype, dims, lo, hi)) for k, (lo, hi) in slots.items()},
        **{k: np.array(v, dtype) for k, v in settings.items()},
        **others,
        **{name: rnd(dtype, grad)},
    )


def scatter(s):
    """Updates of rows."""
    for way in ("Update", "Add", "Sub", "Mul", "Div", "Min", "Max"):
        op = f"ResourceScatter{way}"
        kinds = ANY if way == "Update" else {k: v for k, v in ANY.items() if k != "bool"}
        for name, dtype in kinds.items():
            # Divisors are not zero.
            least, most = (1, 9) if way == "Div" else (low(dtype), 9)
            var = Var(rnd(dtype, [4, 2], low(dtype), 9))
            updates = rnd(dtype, [3, 2], least, most)
            s.case(op, f"{name}_rows", resource=var, indices=np.array([3, 0, 3], i32), updates=updates)
        for label, dims, at, index in (
            ("one_row", [5, 3], 2, i64),
            ("matrix", [4, 2], [[1, 1, 0], [3, 2, 2]], i32),
            ("vector", [6], [5, 5, 0], i64),
            ("no_indices", [4, 2], [], i32),
        ):
            at = np.array(at, index)
            updates = rnd(f32, list(at.shape) + dims[1:], 1, 3)
            s.case(op, f"f32_{label}", resource=Var(rnd(f32, dims)), indices=at, updates=updates)
        s.case(
            op,
            "f32_scalar",
            resource=Var(rnd(f32, [4, 2])),
            indices=np.array([3, 0], i32),
            updates=np.array(1.5, f32),
        )


def scatter_nd(s):
    """Updates of slices by their indices."""
    for way in ("Update", "Add", "Sub", "Min", "Max"):
        op = f"ResourceScatterNd{way}"
        kinds = ANY if way == "Update" else {k: ANY[k] for k in ("f16", "f32", "f64", "i32", "i64", "u8")}
        for name, dtype in kinds.items():
            s.case(
                op,
                f"{name}_rows",
                ref=Var(rnd(dtype, [4, 2], low(dtype), 9)),
                indices=np.array([[3], [0], [3]], i32),
                updates=rnd(dtype, [3, 2], low(dtype), 9),
            )
        for label, dims, at, index in (
            ("elements", [3, 4], [[2, 3], [0, 0], [2, 3]], i64),
            ("nested", [3, 4, 2], [[[2, 3]], [[0, 0]]], i32),
            ("vector", [6], [[5], [5], [0]], i64),
        ):
            at = np.array(at, index)
            updates = rnd(f32, list(at.shape[:-1]) + dims[at.shape[-1] :])
            s.case(op, f"f32_{label}", ref=Var(rnd(f32, dims)), indices=at, updates=updates)
    s.case(
        "ResourceScatterNdAdd",
        "f32_ignored",
        ref=Var(rnd(f32, [3, 2])),
        indices=np.array([[2], [7], [-1]], i32),
        updates=rnd(f32, [3, 2]),
        bad_indices_policy="IGNORE",
    )


def gather(s):
    """Slices of variables."""
    for name, dtype in ANY.items():
        var = Var(rnd(dtype, [4, 3], low(dtype), 9))
        s.case("ResourceGather", f"{name}_rows", resource=var, indices=np.array([3, 0, 3], i32), dtype=dtype, audit=False)
        if name not in ("f16", "bf16", "u16"):
            s.case(
                "ResourceGatherNd",
                f"{name}_rows",
                resource=var,
                indices=np.array([[3], [0]], i32),
                dtype=dtype,
                audit=False,
            )
    for label, dims, at, batch, index in (
        ("one", [5], 2, 0, i64),
        ("matrix", [4, 2], [[1, 1, 0], [3, 2, 2]], 0, i32),
        ("none", [4, 2], [], 0, i64),
        ("batch", [2, 4, 3], [[1, 3, 1], [0, 0, 2]], 1, i32),
        ("batch_all", [2, 4], [1, 3], 1, i32),
        ("no_columns", [4, 0], [3, 2], 0, i32),
    ):
        s.case(
            "ResourceGather",
            f"f32_{label}",
            resource=Var(rnd(f32, dims)),
            indices=np.array(at, index),
            batch_dims=batch,
            dtype=f32,
            audit=False,
        )
    for label, dims, at, index in (
        ("elements", [3, 4], [[2, 3], [0, 0], [2, 3]], i64),
        ("nested", [3, 4, 2], [[[2, 3]], [[0, 0]]], i32),
        ("one", [3, 2], [1], i32),
    ):
        s.case(
            "ResourceGatherNd",
            f"f32_{label}",
            resource=Var(rnd(f32, dims)),
            indices=np.array(at, index),
            dtype=f32,
            audit=False,
        )


def others(s):
    """Counting, shapes, slices."""
    for name, dtype in (("i32", i32), ("i64", i64)):
        s.case("ResourceCountUpTo", name, resource=Var(np.array(3, dtype)), limit=5, T=dtype)
    for label, state, delta in (("carry", [-1, 5, 9], 3), ("zeros", [0, 0, 0], 0), ("large", [2**62, -1, -9], 2**54 + 1)):
        delta, state = np.array(delta, np.uint64), Var(np.array(state, i64))
        s.case("RngReadAndSkip", label, resource=state, alg=np.array(1, i32), delta=delta, audit=False)
    for label, delta in (("forward", 2**33), ("back", -2)):
        state = Var(np.array([767, 6, 9], i64))
        s.case("RngSkip", label, resource=state, algorithm=np.array(3, i64), delta=np.array(delta, i64), audit=False)
    for label, dims in (("scalar", []), ("2x3", [2, 3]), ("empty", [0])):
        for name, dtype in (("i32", i32), ("i64", i64)):
            s.case("VariableShape", f"{label}_{name}", input=Var(rnd(f32, dims)), out_type=dtype, audit=False)
    for name, dtype in ANY.items():
        if name == "f16":
            continue
        s.case(
            "ResourceStridedSliceAssign",
            f"{name}",
            ref=Var(rnd(dtype, [4, 3], low(dtype), 9)),
            begin=np.array([1, 0], i32),
            end=np.array([4, 3], i32),
            strides=np.array([2, 1], i32),
            value=rnd(dtype, [2, 3], low(dtype), 9),
        )
    for name, dtype in (("c64", np.complex64), ("c128", np.complex128)):
        s.case(
            "ResourceStridedSliceAssign",
            name,
            ref=Var(rnd(dtype, [3, 2])),
            begin=np.array([1, 0], i32),
            end=np.array([3, 2], i32),
            strides=np.array([1, 1], i32),
            value=rnd(dtype, [2, 2]),
            audit=False,
        )
    for label, dims, begin, end, strides, value, masks in (
        ("backwards", [5], [-1], [-4], [-2], [2], {}),
        ("row", [3, 4], [1], [2], [1], [4], {"shrink_axis_mask": 1}),
        ("element", [3, 4], [1, 2], [2, 3], [1, 1], [], {"shrink_axis_mask": 3}),
        ("all", [3, 4], [0, 0], [0, 0], [1, 1], [3, 4], {"begin_mask": 3, "end_mask": 3}),
        ("last", [2, 3, 4], [0, 1], [0, 3], [1, 1], [2, 3, 2], {"ellipsis_mask": 1}),
        ("nothing", [3], [2], [1], [1], [0], {}),
        ("nothing_of_another_shape", [2, 2], [0, 0], [0, 0], [1, 1], [1, 0], {}),
        ("broadcast_row", [3, 4], [0, 1], [3, 3], [2, 1], [2], {}),
        ("broadcast_column", [3, 4], [0, 1], [3, 3], [2, 1], [2, 1], {}),
    ):
        s.case(
            "ResourceStridedSliceAssign",
            f"f32_{label}",
            ref=Var(rnd(f32, dims)),
            begin=np.array(begin, i64),
            end=np.array(end, i64),
            strides=np.array(strides, i64),
            value=rnd(f32, value),
            **masks,
        )
    for label, value in (("scalar", 7.5), ("scalar_backwards", -1.0)):
        sign = -1 if "backwards" in label else 1
        s.case(
            "ResourceStridedSliceAssign",
            f"f32_{label}",
            ref=Var(np.arange(12, dtype=f32).reshape(4, 3)),
            begin=np.array([0, 1][::1] if sign > 0 else [-1, 2], i32),
            end=np.array([3, 3] if sign > 0 else [-4, 0], i32),
            strides=np.array([2, 1] if sign > 0 else [-2, -1], i32),
            value=np.array(value, f32),
        )
