"""Random ops: the numbers of a seed pair on the first and the second run of one session."""

import numpy as np

from reference import f32, f64, i32, i64

SHAPES = {"1": [1], "3": [3], "4": [4], "5": [5], "255": [255], "256": [256], "1000": [1000], "7x13": [7, 13]}
SEEDS = {
    "": (87654321, 42),
    "_seed_only": (7, 0),
    "_seed2_only": (0, 5),
    "_large_seeds": (2**40 + 3, 2**33 + 1),
}


def add(s):
    """Adds the cases of this module."""
    for name, dtype in (("f32", f32), ("f64", f64)):
        for op in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal"):
            for label, dims in shapes():
                for suffix, (seed, seed2) in seeds(label):
                    both_runs(
                        s,
                        op,
                        f"{name}_{label}{suffix}",
                        shape=np.array(dims, i32),
                        dtype=dtype,
                        seed=seed,
                        seed2=seed2,
                    )
            both_runs(s, op, f"{name}_5_shape_i64", shape=np.array([5], i64), dtype=dtype, seed=3, seed2=9)
    for name, dtype in (("i32", i32), ("i64", i64)):
        for label, dims in shapes():
            for suffix, (seed, seed2) in seeds(label):
                both_runs(
                    s,
                    "RandomUniformInt",
                    f"{name}_{label}{suffix}",
                    shape=np.array(dims, i32),
                    minval=np.array(-10, dtype),
                    maxval=np.array(90, dtype),
                    seed=seed,
                    seed2=seed2,
                )
        bits = np.iinfo(dtype).bits
        for label, lo, hi in (
            ("one_value", 5, 6),
            ("whole_range", -(2 ** (bits - 1)), 2 ** (bits - 1) - 1),
            ("power_of_two", 0, 1024),
        ):
            both_runs(
                s,
                "RandomUniformInt",
                f"{name}_{label}",
                shape=np.array([9], i32),
                minval=np.array(lo, dtype),
                maxval=np.array(hi, dtype),
                seed=1,
                seed2=2,
            )


def shapes():
    """The shapes, the scalar and the empty one included."""
    return list(SHAPES.items()) + [("scalar", []), ("empty", [0, 3])]


def seeds(label):
    """All seed pairs for one shape, the usual pair for the others."""
    return SEEDS.items() if label == "5" else [("", SEEDS[""])]


def both_runs(s, op, label, **arguments):
    """Records two runs; they must not depend on the number of threads."""
    run = s.run(op, label, arguments, runs=2)
    if run is None:
        return
    other = s.run(op, label, arguments, runs=2, threads=4)
    for a, b in ((run.outputs, other.outputs), (run.second, other.second)):
        if not np.array_equal(a[0], b[0]):
            s.failures.append(f"{op}/{label}: depends on the number of threads")
    # Uniform numbers are bits put into a mantissa; the normal ones go through log, sin and cos, where
    # an argument near a zero of the sine makes the absolute error the larger part.
    if op.startswith("RandomUniform"):
        tolerance = None
    else:
        tolerance = (1e-5, 5e-6) if arguments["dtype"] is f32 else (1e-12, 2e-13)
    s.record(op, label, run, tolerance)
