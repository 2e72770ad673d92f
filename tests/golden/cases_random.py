"""Random ops: the numbers of a seed pair on the first and the second run of one session."""

import numpy as np

from inputs import Var, rnd
from kinds import ANY
from reference import bf16, f16, f32, f64, i32, i64, u32, u64

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
    bounded(s)


    halves(s)
    moved(s)
    stateless(s)
    permutations(s)
    samplers(s)
    stateful(s)


def halves(s):
    """Halves, and more elements than a block, a vector or a task has."""
    for name, dtype in (("f16", f16), ("bf16", bf16), ("f32", f32), ("f64", f64)):
        for op in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal"):
            dims = np.array([7, 11, 5], i64)
            both_runs(s, op, f"{name}_7x11x5", shape=dims, dtype=dtype, seed=11, seed2=2**31 + 7)
    for name, dtype in (("i32", i32), ("i64", i64)):
        bounds = {"minval": np.array(-3, dtype), "maxval": np.array(1000, dtype)}
        dims = np.array([7, 11, 5], i64)
        both_runs(s, "RandomUniformInt", f"{name}_7x11x5", shape=dims, seed=11, seed2=2**31 + 7, **bounds)


def moved(s):
    """Orders and classes."""
    for name, dtype in ANY.items():
        both_runs(s, "RandomShuffle", f"{name}_rows", value=rnd(dtype, [5, 2], 0, 99), seed=3, seed2=4)
    for label, dims in (
        ("scalar", []),
        ("one", [1]),
        ("empty", [0]),
        ("no_columns", [4, 0]),
        ("vector", [301]),
        ("3x4x2", [3, 4, 2]),
    ):
        value = np.arange(np.prod(dims), dtype=f32).reshape(dims)
        both_runs(s, "RandomShuffle", f"f32_{label}", value=value, seed=5, seed2=6)
    for name in ("f16", "bf16", "f32", "f64"):
        logits = rnd(ANY[name], [2, 3], 0, 2)
        both_runs(s, "Multinomial", f"{name}_2x3", logits=logits, num_samples=np.array(7, i32), seed=1, seed2=2)
    for label, logits, samples, out in (
        ("long", rnd(f32, [3, 40]), 50, i32),
        ("one_class", rnd(f32, [2, 1]), 3, i64),
        ("infinite", np.array([[-np.inf, 1, np.inf], [0, np.nan, 1]], f32), 9, i64),
        ("no_rows", rnd(f32, [0, 3]), 3, i64),
        ("no_samples", rnd(f32, [2, 3]), 0, i64),
    ):
        samples = np.array(samples, i32)
        arguments = {"logits": logits, "num_samples": samples, "output_dtype": out}
        both_runs(s, "Multinomial", f"f32_{label}", seed=1, seed2=2, **arguments)
        s.case("StatelessMultinomial", f"f32_{label}", seed=np.array([4, 5], i64), tol=None, audit=False, **arguments)


def stateless(s):
    """Numbers that follow from seeds, or from a key and a counter."""
    seeds = {"": [3, 5], "_large": [2**40 + 3, -(2**33)], "_zero": [0, 0]}
    lists = {"7x11x5": [7, 11, 5], "scalar": [], "empty": [0, 2], "5": [5]}
    floats = {"f16": f16, "bf16": bf16, "f32": f32, "f64": f64}
    words = {"i32": i32, "i64": i64, "u32": u32, "u64": u64}
    key = {"key": np.array([2**63 + 5], u64), "counter": np.array([7, 2**40], u64), "alg": np.array(1, i32)}

    def case(op, label, dtype, **arguments):
        tolerance = normal_tolerance(dtype) if "Normal" in op else None
        if "minval" not in arguments:
            arguments["dtype"] = dtype
        s.case(op, label, tol=tolerance, audit=False, **arguments)

    for op, kinds in (
        ("StatelessRandomUniform", floats),
        ("StatelessRandomNormal", floats),
        ("StatelessTruncatedNormal", floats),
        ("StatelessRandomUniformInt", {"i32": i32, "i64": i64}),
        ("StatelessRandomUniformFullInt", words),
    ):
        for name, dtype in kinds.items():
            between = {"minval": np.array(-9, dtype), "maxval": np.array(90, dtype)} if op.endswith("mInt") else {}
            for label, dims in lists.items():
                dims = np.array(dims, i32)
                case(op, f"{name}_{label}", dtype, shape=dims, seed=np.array([3, 5], i32), **between)
            for label, seed in seeds.items():
                case(op, f"{name}_6{label}", dtype, shape=np.array([6], i64), seed=np.array(seed, i64), **between)
        for name, dtype in kinds.items():
            between = {"minval": np.array(9, dtype), "maxval": np.array(90, dtype)} if op.endswith("mInt") else {}
            for label in ("7x11x5", "5"):
                case(op + "V2", f"{name}_{label}", dtype, shape=np.array(lists[label], i32), **key, **between)
            any_alg = key | {"alg": np.array(3, i32), "counter": np.array([0, 0], u64)}
            case(op + "V2", f"{name}_any", dtype, shape=np.array([5], i64), **any_alg, **between)
    for label, seed in seeds.items():
        for op in ("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg"):
            s.case(op, f"i64{label}", seed=np.array(seed, i64))
    s.case("StatelessRandomGetKeyCounter", "i32", seed=np.array([-3, 5], i32))
    s.case("StatelessRandomGetAlg", "any")
    for name, dtype in (floats | words).items():
        for label, dims in (("9", [9]), ("5x2", [5, 2]), ("1x3", [1, 3]), ("0", [0])):
            value = np.arange(np.prod(dims)).reshape(dims).astype(dtype)
            s.case("StatelessShuffle", f"{name}_{label}", value=value, **key)


def permutations(s):
    """Places of indices in permutations."""
    op = "RandomIndexShuffle"
    words = {"i32": i32, "i64": i64, "u32": u32, "u64": u64}
    seed = np.array([74, 117, 42], i64)
    for name, dtype in words.items():
        for rounds in (4, 6, 8):
            index, last = np.arange(17, dtype=dtype), np.array(16, dtype)
            s.case(op, f"{name}_17_{rounds}", index=index, seed=seed.astype(dtype), max_index=last, rounds=rounds)
    large = np.array([0, 1, 255, 256, 4095, 65535, 65536, 70000], i64)
    # Of 2**16 and other even powers of two, TensorFlow's permutation has numbers twice, as its block is a bit too short.
    for last in (2**16 - 1, 2**16 + 1, 2**17, 70000, 2**31, 2**40 + 3, 2**62 - 1, 2**63 - 1):
        index = large[large <= last]
        s.case(op, f"i64_last_{last}", index=index, seed=seed, max_index=np.array(last, i64), rounds=4)
    s.case(op, "i64_70_rounds", index=large, seed=seed, max_index=np.array(70000, i64), rounds=70)
    s.case(op, "u64_whole_range", index=np.array([0, 5, 2**64 - 1], u64), seed=seed, max_index=np.array(2**64 - 1, u64))
    s.case(op, "i32_scalars", index=np.array(3, i32), seed=np.array([-1, 2**31 - 1, 0], i32), max_index=np.array(9, i32))
    s.case(op, "i64_seeds_wrap", index=large, seed=np.array([2**32 + 5, -1, 2**63 - 1], i64), max_index=np.array(70000, i64))
    many = np.array([[1, 2, 3], [4, 5, 6]], i32)
    s.case(op, "i32_a_seed_each", index=np.array([3, 3], i32), seed=many, max_index=np.array([9, 12], i32))
    s.case(op, "i32_one_index", index=np.array(3, i32), seed=many, max_index=np.array([9, 12], i32))
    s.case(op, "i32_zero", index=np.array([0, 0], i32), seed=many, max_index=np.array(0, i32))


def samplers(s):
    """Numbers of distributions with parameters."""
    floats = {"f16": f16, "f32": f32, "f64": f64}
    key = {"key": np.array([2**63 + 5], u64), "counter": np.array([7, 2**40], u64), "alg": np.array(1, i32)}
    seed = np.array([3, 5], i64)
    for name, dtype in floats.items():
        alpha = np.array([0.05, 0.5, 1, 1.5, 30], dtype)
        both_runs(s, "RandomGamma", f"{name}_7", shape=np.array([7], i32), alpha=alpha, seed=3, seed2=9)
        arguments = {"shape": np.array([9, 5], i32), "alpha": alpha}
        s.case("StatelessRandomGammaV2", f"{name}_9x5", tol=sampler_tolerance(dtype), audit=False, seed=seed, **arguments)
        s.case("StatelessRandomGammaV3", f"{name}_9x5", tol=sampler_tolerance(dtype), audit=False, **key, **arguments)
        rate = np.array([[0, 0.3], [9.5, 10], [40, 1000]], dtype)
        for out_name, out in (floats | {"i32": i32, "i64": i64}).items():
            label = f"{name}_to_{out_name}"
            both_runs(s, "RandomPoissonV2", label, shape=np.array([4, 2], i32), rate=rate, dtype=out, seed=3, seed2=9)
        for op, parameters in (
            ("StatelessRandomPoisson", {"lam": rate}),
            ("StatelessRandomBinomial", {"counts": np.array([[3], [40], [900]], dtype), "probs": np.array([0.1, 0.7], dtype)}),
        ):
            dims = np.array([4, 3, 2], i32)
            s.case(op, f"{name}_4x3x2", tol=None, audit=False, shape=dims, seed=seed, dtype=i64, **parameters)
            s.case(op, f"{name}_same_dtype", tol=None, audit=False, shape=dims, seed=seed, dtype=dtype, **parameters)
    edges = {"counts": np.array([0, -1, 5, 5, 5, 5.0]), "probs": np.array([0.5, 0.5, 0, -1, 1, 2])}
    s.case("StatelessRandomBinomial", "f64_limits", tol=None, audit=False, shape=np.array([6], i32), seed=seed, **edges)
    for label, dims, alpha in (("scalar", [], np.array(2.5, f32)), ("no_alpha", [3], np.zeros([0], f32)), ("none", [0], np.array([1, 2], f32))):
        both_runs(s, "RandomGamma", f"f32_{label}", shape=np.array(dims, i32), alpha=alpha, seed=3, seed2=9)
        both_runs(s, "RandomPoissonV2", f"f32_{label}", shape=np.array(dims, i32), rate=alpha, seed=3, seed2=9)
    for name in ("f32", "f64"):
        alpha, sample = rnd(floats[name], [3, 1], 0.3, 9), rnd(floats[name], [4], 0.2, 9)
        s.case("RandomGammaGrad", f"{name}_3x4", alpha=alpha, sample=sample)


def sampler_tolerance(dtype):
    """How far a number of a gamma distribution may be off: it goes through logarithms and powers."""
    return {f16: (2e-3, 1e-4), f32: (1e-5, 1e-7), f64: (1e-11, 1e-13)}[dtype]


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
    tolerance = None
    if "Normal" in op:
        tolerance = normal_tolerance(arguments["dtype"])
    elif op == "RandomGamma":
        tolerance = sampler_tolerance(arguments["alpha"].dtype.type)
    s.record(op, label, run, tolerance)


def normal_tolerance(dtype):
    """How far a normal number may be off."""
    return {f16: (2e-3, 1e-4), bf16: (1e-2, 1e-4), f32: (1e-5, 5e-6), f64: (1e-12, 2e-13)}[dtype]


def bounded(s):
    """Numbers of normal distributions between bounds: each sampler, one interval for all, and one for each row."""
    for name, dtype in (("f32", f32), ("f64", f64)):
        for label, dims, bounds in (
            ("inside", [30], (1, 2, -3, 6)),
            ("narrow", [30], (0, 1, 0.2, 0.5)),
            ("tail", [30], (0, 1, 2, 9)),
            ("low_tail", [4, 7], (0, 2, -np.inf, -5)),
            ("above", [25], (1, 1, 0, np.inf)),
            ("groups", [250], (0, 1, -2, 2)),
            ("none", [0, 3], (0, 1, -2, 2)),
            ("rows", [3, 5], ([0, 10, -10], [1, 2, 0.5], [-2, 9, -11], [2, 12, -9.5])),
            ("some_rows", [2, 9], (0, [1, 3], -1, [2, 1])),
        ):
            names = ("means", "stdevs", "minvals", "maxvals")
            parameters = {n: np.array(b, dtype) for n, b in zip(names, bounds)}
            shape = np.array(dims, i32)
            run = s.run("ParameterizedTruncatedNormal", f"{name}_{label}", parameters | {"shape": shape, "seed": 3, "seed2": 9}, runs=2)
            s.record("ParameterizedTruncatedNormal", f"{name}_{label}", run, normal_tolerance(dtype))


def stateful(s):
    """Numbers from a generator whose state is in a variable."""
    state = lambda: Var(np.array([5, 2**40, 77], i64))
    alg = np.array(1, i64)
    for label, dims in (("5", [5]), ("7x13", [7, 13]), ("none", [0])):
        shape = np.array(dims, i64)
        given = {"algorithm": alg, "shape": shape}
        for name, dtype in (("f32", f32), ("f64", f64), ("f16", f16), ("bf16", bf16)):
            for op in ("StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal"):
                s.case(op, f"{name}_{label}", audit=False, resource=state(), **given, dtype=dtype)
        for name, dtype in (("i32", i32), ("i64", i64)):
            bounds = {"minval": np.array(-10, dtype), "maxval": np.array(90, dtype)}
            s.case("StatefulUniformInt", f"{name}_{label}", audit=False, resource=state(), **given, **bounds)
        for name, dtype in (("i32", i32), ("i64", i64), ("u32", u32), ("u64", u64)):
            s.case("StatefulUniformFullInt", f"{name}_{label}", audit=False, resource=state(), **given, dtype=dtype)
    carried = Var(np.array([-3, -1, 77], i64))
    s.case("StatefulUniform", "carry", audit=False, resource=carried, algorithm=alg, shape=np.array([5], i32), dtype=f32)
    for label, counts, probs in (
        ("small", [3.0, 10.0], [0.5, 0.25]),
        ("large", [100.0, 1000.0], [0.5, 0.25]),
    ):
        given = {"algorithm": alg, "shape": np.array([3, 2], i32)}
        s.case(
            "StatefulRandomBinomial",
            label,
            audit=False,
            resource=state(),
            **given,
            counts=np.array(counts),
            probs=np.array(probs),
        )
