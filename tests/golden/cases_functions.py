"""Functions of one and two elements: trigonometry, special functions, rounding, bits, guarded quotients."""

import numpy as np

from cases_math import FLOAT, INT, PAIRS
from inputs import rnd
from kinds import ANY, ivec
from reference import f32, f64, i8, i32, i64, tf, u8

INF, NAN = np.inf, np.nan

# Op to the range of its random inputs and its values of special interest.
UNARY = {
    "Sin": (-4, 4, [0.0, 100.0, -0.0, INF]),
    "Cos": (-4, 4, [0.0, 100.0, INF]),
    "Tan": (-1.4, 1.4, [0.0, 10.0, INF]),
    "Asin": (-1, 1, [0.0, 1.0, -1.0, 1.5]),
    "Acos": (-1, 1, [0.0, 1.0, -1.0, 1.5]),
    "Atan": (-9, 9, [0.0, INF, -INF]),
    "Sinh": (-4, 4, [0.0, 200.0, -INF]),
    "Cosh": (-4, 4, [0.0, 200.0, -INF]),
    "Asinh": (-9, 9, [0.0, -INF, INF]),
    "Acosh": (1, 9, [1.0, 0.5, INF]),
    "Atanh": (-0.9, 0.9, [0.0, 1.0, -1.0, 2.0]),
    "Expm1": (-3, 3, [0.0, 1e-6, -INF, INF]),
    "Erf": (-3, 3, [0.0, INF, -INF, 5.0]),
    "Erfc": (-2, 3, [0.0, INF, -INF, 5.0]),
    "Erfinv": (-0.9, 0.9, [0.0, 1.0, -1.0, 1.5]),
    "Ndtri": (0.05, 0.95, [0.5, 0.0, 1.0, -1.0]),
    "Lgamma": (0.1, 6, [1.0, 2.0, 0.0, -1.0, INF, 30.0]),
    "Digamma": (0.1, 6, [1.0, 30.0, -1.0, 0.5]),
    "BesselI0e": (-20, 20, [0.0, -0.0, 8.0, -8.0, 300.0, INF]),
    "BesselI1e": (-20, 20, [0.0, 8.0, -8.0, 300.0, -300.0]),
    "BesselI0": (-20, 20, [0.0, -1.0, 300.0, INF]),
    "BesselI1": (-20, 20, [0.0, -1.0, 30.0, INF]),
    "BesselJ0": (-20, 20, [0.0, -1.0, 30.0, INF]),
    "BesselJ1": (-20, 20, [0.0, -1.0, 30.0, INF]),
    "BesselK0": (0.2, 20, [0.0, -1.0, 30.0, INF]),
    "BesselK0e": (0.2, 20, [0.0, -1.0, 300.0, INF]),
    "BesselK1": (0.2, 20, [0.0, -1.0, 30.0, INF]),
    "BesselK1e": (0.2, 20, [0.0, -1.0, 300.0, INF]),
    "BesselY0": (0.2, 20, [0.0, -1.0, 30.0]),
    "BesselY1": (0.2, 20, [-1.0, 30.0]),
    "Dawsn": (-5, 5, [0.0, -0.3, 12.0, -30.0, INF]),
    "Expint": (0.1, 5, [0.0, -1.0, 30.0, 50.0, INF]),
    "FresnelCos": (-5, 5, [0.0, -0.3, 1.5, 30.0, -INF]),
    "FresnelSin": (-5, 5, [0.0, -0.3, 1.5, 30.0, -INF]),
    "Spence": (0.1, 5, [0.0, -1.0, 1.0, 2.0, 30.0, 1e6]),
    "Ceil": (-3, 3, [-0.5, 2.0, INF, -INF]),
    "Round": (-3, 3, [0.5, 1.5, 2.5, -0.5, -2.5, INF]),
    "Rint": (-3, 3, [0.5, 1.5, 2.5, -0.5, -2.5, INF]),
    "Reciprocal": (0.3, 3, [0.0, INF, -2.0]),
    "Inv": (0.3, 3, [0.0, INF, -2.0]),
    "IsNan": (-1, 1, [INF, -INF, 0.0]),
    "IsInf": (-1, 1, [INF, -INF, 0.0]),
    "IsFinite": (-1, 1, [INF, -INF, 0.0]),
    "Softsign": (-4, 4, [0.0, 100.0]),
    "Selu": (-4, 4, [0.0, -0.0, 100.0, -INF]),
}

# Floats that TensorFlow's CPU has no kernel for.
LACKING = {
    "Erfinv": ("f16", "bf16"),
    "Ndtri": ("f16", "bf16"),
    "Lgamma": ("bf16",),
    "Digamma": ("bf16",),
    "Rint": ("f16", "bf16"),
    "BesselI0e": ("f16", "bf16"),
    "BesselI1e": ("f16", "bf16"),
    **{f"Bessel{f}": ("f16", "bf16") for f in ("I0", "I1", "J0", "J1", "K0", "K0e", "K1", "K1e", "Y0", "Y1")},
    **{op: ("f16", "bf16") for op in ("Dawsn", "Expint", "FresnelCos", "FresnelSin", "Spence")},
}


def add(s):
    """Adds the cases of this module."""
    unary(s)
    binary(s)
    extremes(s)
    integers(s)
    choices(s)
    scans(s)


def unary(s):
    """Functions of one float."""
    for op, (lo, hi, limits) in UNARY.items():
        key = "features" if op in ("Softsign", "Selu") else "x"
        for name, dtype in FLOAT.items():
            if name not in LACKING.get(op, ()):
                s.case(op, f"{name}_2x3", **{key: rnd(dtype, [2, 3], lo, hi)})
        for name in ("f32", "f64"):
            # TensorFlow's f64 Erf gives NaN for an infinity, its f32 gives 1.
            own = [v for v in limits if (op, name) != ("Erf", "f64") or np.isfinite(v)]
            s.case(op, f"{name}_limits", **{key: np.array(own + [NAN], FLOAT[name])})
        for dims in ([], [0, 2], [37]):
            label = "x".join(map(str, dims)) or "scalar"
            s.case(op, f"f32_shape_{label}", **{key: rnd(f32, dims, lo, hi)})
    s.case("Digamma", "f64_negative", x=np.array([-0.3, -0.5, -1.7, -2.2, -7.5]))
    s.case("Lgamma", "f64_negative", x=np.array([-0.3, -0.5, -1.7, -2.2, -7.5]))
    for op in ("ReciprocalGrad", "InvGrad"):
        for name, dtype in FLOAT.items():
            s.case(op, f"{name}_2x3", y=rnd(dtype, [2, 3]), dy=rnd(dtype, [2, 3]))
    for op, key in (("SoftsignGrad", "features"), ("SeluGrad", "outputs")):
        for name, dtype in FLOAT.items():
            arguments = {key: rnd(dtype, [2, 3], -1, 2), "gradients": rnd(dtype, [2, 3])}
            s.case(op, f"{name}_2x3", **arguments)
        s.case(op, "f32_limits", **{key: np.array([0, -0.0, NAN], f32), "gradients": np.ones(3, f32)})
    for name, dtype in FLOAT.items():
        s.case("CheckNumerics", f"{name}_2x3", tensor=rnd(dtype, [2, 3]), message="here")
    s.case("CheckNumerics", "f32_empty", tensor=rnd(f32, [0, 3]), message="")


def binary(s):
    """Functions of two floats, with broadcasting."""
    some = ("same_2x3", "both_ways", "scalar_right", "empty")
    for op, keys, low, high in (
        ("Atan2", ("y", "x"), (-2, 2), (-2, 2)),
        ("DivNoNan", ("x", "y"), (-2, 2), (0.3, 2)),
        ("MulNoNan", ("x", "y"), (-2, 2), (-2, 2)),
        ("Xlogy", ("x", "y"), (-2, 2), (0.1, 3)),
        ("Xlog1py", ("x", "y"), (-2, 2), (-0.5, 3)),
        ("Xdivy", ("x", "y"), (-2, 2), (0.3, 3)),
        ("TruncateMod", ("x", "y"), (-9, 9), (0.7, 3)),
        ("Mod", ("x", "y"), (-9, 9), (0.7, 3)),
        ("TruncateDiv", ("x", "y"), (-9, 9), (0.7, 3)),
        ("NextAfter", ("x1", "x2"), (-2, 2), (-2, 2)),
        ("Zeta", ("x", "q"), (1.5, 4), (0.5, 9)),
    ):
        names = ("f32", "f64") if op in ("NextAfter", "Zeta", "Mod", "TruncateMod") else FLOAT
        for name in names:
            for label in some if name == "f32" else some[:2]:
                a, b = PAIRS[label]
                # One digit keeps quotients in 16 bits away from whole numbers.
                digits = 3 if name in ("f32", "f64") else 1
                x, y = rnd(FLOAT[name], a, *low, digits), rnd(FLOAT[name], b, *high, digits)
                s.case(op, f"{name}_{label}", audit=op != "NextAfter", **{keys[0]: x, keys[1]: y})
        if op == "Zeta":
            continue
        for name in ("f32", "f64"):
            x = np.array([0, 0, 1, -1, 0, NAN, 2, NAN, INF, -7.5], FLOAT[name])
            y = np.array([0, 1, 0, 0, NAN, 0, INF, 1, -1, 2], FLOAT[name])
            if op in ("Mod", "TruncateMod"):
                x, y = x[6:], y[6:]
            # The neighbours of an f32 are not those of an f64.
            s.case(op, f"{name}_limits", audit=op != "NextAfter", **{keys[0]: x, keys[1]: y})
    s.case("Zeta", "f64_limits", x=np.array([1.0, 0.5, 2, 3, 2.5, 2]), q=np.array([1.0, 1, 0, -1, -0.5, -0.5]))
    for name in ("f32", "f64"):
        a = np.array([[0], [1], [2], [3]], FLOAT[name])
        s.case("Polygamma", f"{name}_orders", a=a, x=rnd(FLOAT[name], [5], 0.3, 6))
    s.case("Polygamma", "f64_limits", a=np.array([0.5, -1, 1, 2]), x=np.array([1.0, 1, 0, -1]))
    betainc(s)
    for op in ("Igamma", "Igammac", "IgammaGradA"):
        for name in ("f32", "f64"):
            for label, a, x in (("near", [4, 1], [5]), ("row", [3], [2, 3])):
                s.case(op, f"{name}_{label}", a=rnd(FLOAT[name], a, 0.4, 9), x=rnd(FLOAT[name], x, 0.2, 9))
        a, x = np.array([0, -1, 2, 2, NAN, 1, 50, 0.01, 3]), np.array([1, 1, 0, -1, 1, NAN, 2, 30, 200.0])
        s.case(op, "f64_limits", a=a, x=x)
    for name in ("f32", "f64"):
        x, y = rnd(FLOAT[name], [7], -3, 3, 1), rnd(FLOAT[name], [7], -3, 3, 1)
        s.case("ApproximateEqual", f"{name}_7", x=x, y=y, tolerance=1.25)
    s.case(
        "ApproximateEqual",
        "f32_limits",
        x=np.array([NAN, INF, INF, 1, 1], f32),
        y=np.array([NAN, INF, -INF, 1 + 1e-6, 1 + 1e-4], f32),
        tolerance=1e-5,
    )


def betainc(s):
    """Betainc: inputs of one shape, or scalars beside others."""
    for name in ("f32", "f64"):
        for label, a, b, x in (("same", [2, 3], [2, 3], [2, 3]), ("scalar_x", [4], [4], []), ("scalars", [], [], [5])):
            a, b, x = rnd(FLOAT[name], a, 0.3, 9), rnd(FLOAT[name], b, 0.3, 9), rnd(FLOAT[name], x, 0.02, 0.98)
            s.case("Betainc", f"{name}_{label}", a=a, b=b, x=x)
    a = np.array([0, -1, 2, 2, 2, 2, 2, INF, 1e3, 1e-9, 3, NAN])
    b = np.array([1, 1, 0, -1, 3, 3, 3, 1, 1e3, 1, INF, 1])
    s.case("Betainc", "f64_limits", a=a, b=b, x=np.array([0.5, 0.5, 0.5, 0.5, 0, 1, 1.5, 0.5, 0.5, 0.5, 0.5, 0.5]))


def extremes(s):
    """Numbers at the ends of the range, where intermediate results overflow, cancel or have poles."""
    for name, dtype in FLOAT.items():
        most = float(np.finfo({"bf16": np.float32}.get(name, dtype)).max)
        large = np.array([most, -most, most / 2, most / 4, -most / 3, INF, -INF], dtype)
        for op in ("Asinh", "Acosh"):
            s.case(op, f"{name}_large", x=large)
    near = np.array([1 - 2**-24, 2**-24 - 1, -0.999, 1e-30, -1e-30], f32)
    s.case("Atanh", "f32_near_one", x=near)
    s.case("Erfinv", "f32_small", x=np.array([1e-30, -1e-20, 1e-8, 1e-3, -0.3, 0.49999, 0.5, -0.9999], f32))
    for name in ("f32", "f64"):
        some = np.array([1.5, 2, 3, INF], FLOAT[name])
        s.case("Zeta", f"{name}_far", x=some, q=np.array([INF] * 4, FLOAT[name]))
        s.case("Polygamma", f"{name}_far", a=np.array([1, 2, 5], FLOAT[name]), x=np.array([INF] * 3, FLOAT[name]))
        for op in ("Igamma", "Igammac"):
            x = np.array([0, 0.5, 1, 2, 1e30], FLOAT[name])
            s.case(op, f"{name}_far", a=np.array([INF] * 5, FLOAT[name]), x=x)
    s.case("Digamma", "f64_near_pole", x=np.array([-1e-12, -1 - 1e-9, -3 + 1e-7, INF]))


def integers(s):
    """Bits, and remainders of integers."""
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift"):
        for name, dtype in ((n, ANY[n]) for n in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")):
            lo = 0 if name[0] == "u" else -100
            y = (0, 6) if "Shift" in op else (lo, 100)
            s.case(op, f"{name}_same_2x3", x=rnd(dtype, [2, 3], lo, 100), y=rnd(dtype, [2, 3], *y))
        for label in ("both_ways", "scalar_right", "empty"):
            a, b = PAIRS[label]
            s.case(op, f"i32_{label}", x=rnd(i32, a, -99, 99), y=rnd(i32, b, 0, 9))
    for op in ("LeftShift", "RightShift"):
        s.case(op, "i8_far", x=np.array([-3, -3, 3, 127, -128], i8), y=np.array([9, -1, 127, 7, 7], i8))
        s.case(op, "i64_far", x=np.array([-3, -3, 3], i64), y=np.array([99, -1, 63], i64))
    for op in ("Invert", "PopulationCount"):
        for name in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"):
            lo = 0 if name[0] == "u" else -100
            s.case(op, f"{name}_2x3", x=rnd(ANY[name], [2, 3], lo, 100))
        s.case(op, "i32_empty", x=rnd(i32, [0]))
    x, y = np.array([7, -7, 7, -7, 6, -6, 0, 1]), np.array([3, 3, -3, -3, 3, -3, 5, -9])
    for name in ("i32", "i64"):
        for op in ("TruncateMod", "Mod", "TruncateDiv"):
            s.case(op, f"{name}_signs", x=x.astype(INT[name]), y=y.astype(INT[name]))
            s.case(op, f"{name}_row", x=rnd(INT[name], [2, 3], -9, 9), y=rnd(INT[name], [3], 1, 4))
    for op in ("FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod"):
        # Nothing is divided, so a divisor of zero is no mistake.
        s.case(op, "i32_nothing_by_zero", x=np.zeros([0], i32), y=np.zeros([], i32))
    s.case("TruncateDiv", "u8_4", x=rnd(u8, [4], 0, 99), y=rnd(u8, [4], 1, 9))
    s.case("TruncateDiv", "f32_signs", x=(x / 2).astype(f32), y=y.astype(f32))
    s.case("TruncateDiv", "f64_signs", x=x / 2, y=y.astype(f64))


def choices(s):
    """Select as TensorFlow 1 has it, limits, and sums."""
    for name in ("f32", "f64", "f16", "bf16", "i8", "i32", "i64", "u8", "bool"):
        lo = 0 if name == "u8" else -9
        t, e = (rnd(ANY[name], [2, 3], lo, 9) for _ in range(2))
        s.case("Select", f"{name}_same_2x3", condition=rnd(np.bool_, [2, 3]), x=t, y=e)
    for label, c, dims in (
        ("scalar", [], [2, 3]),
        ("scalars", [], []),
        ("vector", [3], [3, 2, 2]),
        ("vectors", [4], [4]),
        ("empty", [0], [0, 3]),
        ("empty_rows", [3], [3, 0]),
    ):
        s.case("Select", f"f32_{label}", condition=rnd(np.bool_, c), x=rnd(f32, dims), y=rnd(f32, dims))
    for name in ("f32", "f64", "f16", "bf16", "i8", "i32", "i64", "u8"):
        lo = 0 if name == "u8" else -9
        dtype = ANY[name]
        t, low, high = rnd(dtype, [2, 3], lo, 9), np.array(2, dtype), np.array(5, dtype)
        s.case("ClipByValue", f"{name}_scalars", t=t, clip_value_min=low, clip_value_max=high)
    s.case(
        "ClipByValue",
        "f32_each",
        t=rnd(f32, [2, 3], -3, 3),
        clip_value_min=rnd(f32, [2, 3], -2, 0),
        clip_value_max=rnd(f32, [2, 3], 0, 2),
    )
    s.case(
        "ClipByValue",
        "f32_limits",
        t=np.array([NAN, INF, -INF, 3], f32),
        clip_value_min=np.array(-1, f32),
        clip_value_max=np.array(2, f32),
    )
    s.case(
        "ClipByValue",
        "f32_crossed",
        t=np.array([-3, 0, 1.5, 3], f32),
        clip_value_min=np.array(2, f32),
        clip_value_max=np.array(1, f32),
    )
    for name in ("f32", "i32", "bf16"):
        terms = [rnd(ANY[name], [2, 3], -9, 9) for _ in range(3)]
        # TensorFlow replaces the op by others before it runs.
        s.case("AccumulateNV2", f"{name}_3", inputs=terms, shape=tf.TensorShape([2, 3]))


def scans(s):
    """Running sums, products and logarithms of sums; norms."""
    for op in ("Cumsum", "Cumprod", "CumulativeLogsumexp"):
        names = FLOAT if op == "CumulativeLogsumexp" else list(FLOAT) + ["i8", "i32", "i64", "u8", "u16"]
        for name in names:
            lo = 0 if name[0] == "u" else -2
            for exclusive, reverse in ((False, False), (True, True)) if name in ("f32", "i32") else ((False, True),):
                label = f"{name}{'_exclusive' * exclusive}{'_reverse' * reverse}"
                x = rnd(ANY[name], [2, 3, 2], lo, 2)
                s.case(op, label, x=x, axis=np.array(1, i32), exclusive=exclusive, reverse=reverse)
        for dims, axis in (([5], 0), ([2, 3], -1), ([3, 0], 1), ([0, 3], 1), ([2, 1, 3], 0), ([300], 0)):
            label = "x".join(map(str, dims))
            x = rnd(f64, dims, -1.2, 1.2)
            s.case(op, f"f64_{label}_along_{axis}", x=x, axis=np.array(axis, i64), exclusive=False, reverse=False)
            x = rnd(f64, dims, -1.2, 1.2)
            if len(dims) == 2:
                s.case(op, f"f64_{label}_exclusive", x=x, axis=np.array(axis, i64), exclusive=True, reverse=False)
    x = np.array([[1, INF, 2, -INF], [-INF, -INF, 1, INF], [-INF, -INF, -INF, -INF]], f32)
    for exclusive in (False, True):
        label = "f32_limits" + "_exclusive" * exclusive
        s.case("CumulativeLogsumexp", label, x=x, axis=np.array(1, i32), exclusive=exclusive, reverse=False)
    for name in FLOAT:
        x = rnd(FLOAT[name], [3, 4], -2, 2)
        s.case("EuclideanNorm", f"{name}_rows", input=x, axis=ivec(1), keep_dims=False)
    for dims, axes, keep in (([3, 4], [0], True), ([2, 3, 2], [0, -1], False), ([3], [], False), ([0, 3], [0], False)):
        label = "x".join(map(str, dims)) + "_over_" + "_".join(map(str, axes))
        s.case("EuclideanNorm", f"f32_{label}", input=rnd(f32, dims), axis=ivec(*axes), keep_dims=keep)
    s.case("EuclideanNorm", "i32_columns", input=rnd(i32, [3, 4], -9, 9), axis=ivec(0), keep_dims=False)
