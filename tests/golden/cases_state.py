"""Variables and the fused optimizer updates."""

import numpy as np

from inputs import Var, rnd
from reference import f32, f64, i32, i64

FLOAT = {"f32": f32, "f64": f64}
SHAPES = {"scalar": [], "vector": [7], "matrix": [3, 5], "empty": [0, 2], "long": [131]}


def add(s):
    """Adds the cases of this module."""
    variables(s)
    updates(s)


def variables(s):
    """Assignment, reading, and checks for a value."""
    types = FLOAT | {"i32": i32, "i64": i64, "bool": np.bool_}
    for name, dtype in types.items():
        for label, dims in (("scalar", []), ("2x3", [2, 3]), ("empty", [0, 2])):
            s.case(
                "AssignVariableOp",
                f"{name}_{label}",
                resource=Var(rnd(dtype, dims, -9, 9)),
                value=rnd(dtype, dims, -9, 9),
            )
            s.case(
                "ReadVariableOp",
                f"{name}_{label}",
                resource=Var(rnd(dtype, dims, -9, 9)),
                dtype=dtype,
                audit=False,
            )
            if name != "bool":
                for op in ("AssignAddVariableOp", "AssignSubVariableOp"):
                    s.case(
                        op,
                        f"{name}_{label}",
                        resource=Var(rnd(dtype, dims, -9, 9)),
                        value=rnd(dtype, dims, -9, 9),
                    )
        s.case(
            "AssignVariableOp",
            f"{name}_first_value",
            resource=Var(None, dtype, [2]),
            value=rnd(dtype, [2], -9, 9),
        )
        s.case("VarIsInitializedOp", f"{name}_with_value", resource=Var(rnd(dtype, [2], -9, 9)))
        s.case("VarIsInitializedOp", f"{name}_without_value", resource=Var(None, dtype, [2]))
    for op in ("AssignAddVariableOp", "AssignSubVariableOp"):
        s.case(op, "f32_long", resource=Var(rnd(f32, [1037])), value=rnd(f32, [1037]))


def updates(s):
    """Every fused update: `slots` are the variables after the first, `scalars` the settings."""
    for name, dtype in FLOAT.items():
        for shape, dims in SHAPES.items():
            update(s, name, shape, dtype, dims)


def update(s, name, shape, dtype, dims):
    """All updates on one type and shape."""

    def case(op, label, grad, **arguments):
        arguments = {k: dtype(v) if isinstance(v, float) else v for k, v in arguments.items()}
        arguments = {k: np.asarray(v) if isinstance(v, np.generic) else v for k, v in arguments.items()}
        s.case(
            op, f"{name}_{shape}{label}", var=Var(rnd(dtype, dims)), **arguments, **{grad: rnd(dtype, dims)}
        )

    def slot(lo, hi):
        return Var(rnd(dtype, dims, lo, hi))

    case("ResourceApplyGradientDescent", "", "delta", alpha=0.1)
    for nesterov in (False, True):
        suffix = "_nesterov" if nesterov else ""
        case(
            "ResourceApplyMomentum",
            suffix,
            "grad",
            accum=slot(-1, 1),
            lr=0.05,
            momentum=0.9,
            use_nesterov=nesterov,
        )
        case(
            "ResourceApplyAdam",
            suffix,
            "grad",
            m=slot(-1, 1),
            v=slot(0.01, 1),
            beta1_power=0.9,
            beta2_power=0.999,
            lr=0.01,
            beta1=0.9,
            beta2=0.999,
            epsilon=1e-8,
            use_nesterov=nesterov,
        )
        case(
            "ResourceApplyAdam",
            f"{suffix}_third_step",
            "grad",
            m=slot(-1, 1),
            v=slot(0.01, 1),
            beta1_power=0.512,
            beta2_power=0.970299,
            lr=0.02,
            beta1=0.8,
            beta2=0.99,
            epsilon=1e-3,
            use_nesterov=nesterov,
        )
    case("ResourceApplyAdagrad", "", "grad", accum=slot(0.1, 1), lr=0.05, update_slots=True)
    case("ResourceApplyAdagrad", "_slots_kept", "grad", accum=slot(0.1, 1), lr=0.05, update_slots=False)
    case("ResourceApplyAdagradV2", "", "grad", accum=slot(0.1, 1), lr=0.05, epsilon=1e-3, update_slots=True)
    case(
        "ResourceApplyAdagradV2",
        "_slots_kept",
        "grad",
        accum=slot(0.1, 1),
        lr=0.05,
        epsilon=1e-3,
        update_slots=False,
    )
    for label, momentum in (("", 0.0), ("_momentum", 0.9)):
        case(
            "ResourceApplyRMSProp",
            label,
            "grad",
            ms=slot(0.1, 1),
            mom=slot(-1, 1),
            lr=0.01,
            rho=0.9,
            momentum=momentum,
            epsilon=1e-6,
        )
        # The mean square exceeds the squared mean, as it does for any history of gradients.
        case(
            "ResourceApplyCenteredRMSProp",
            label,
            "grad",
            mg=slot(-0.5, 0.5),
            ms=slot(0.5, 1),
            mom=slot(-1, 1),
            lr=0.01,
            rho=0.9,
            momentum=momentum,
            epsilon=1e-6,
        )
