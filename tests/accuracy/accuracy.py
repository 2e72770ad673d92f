#!/usr/bin/env python3
"""Largest error of each function of floats, in units of the last place, against an oracle of higher precision.

usage: accuracy.py grpc://HOST:PORT > docs/results/accuracy.md

A server computes every function, and TensorFlow too, for the second column. f16 and bf16: every number. f32: two million numbers
over all exponents and signs. f64: a million. The oracle is the x87 format (64 bits of mantissa) for f16, bf16, f32 and f64,
and mpmath for the functions that it does not have: those are tried on 6,000 numbers of each dtype at most.
Needs tensorflow, numpy, mpmath.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import mpmath as mp
import numpy as np
import tensorflow as tf2

tf = tf2.compat.v1
tf.disable_v2_behavior()
R = tf2.raw_ops
L = np.longdouble
mp.mp.prec = 120
DTYPES = {"f16": np.float16, "bf16": tf2.bfloat16.as_numpy_dtype, "f32": np.float32, "f64": np.float64}
MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
LOWEST = {"f16": -14, "bf16": -126, "f32": -126, "f64": -1022}


def exact(f):
    return lambda *xs: np.array([f(*map(float, row)) for row in zip(*xs)], dtype=L)


def by_mpmath(f):
    """An oracle from mpmath; a pole or a complex value is NaN."""

    def value(*xs):
        if any(np.isnan(xs)):
            return np.nan
        try:
            y = f(*[mp.mpf(x) for x in xs])
            return L(mp.nstr(mp.mpf(y), 30)) if not isinstance(y, mp.mpc) else np.nan
        except (ValueError, ZeroDivisionError, OverflowError, mp.libmp.NoConvergence):
            return np.nan

    return exact(value)


def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


ALPHA, SCALE = L("1.6732632423543772848170429916717"), L("1.0507009873554804934193349852946")
ONE = L(1)
FAST = {
    "Sqrt": np.sqrt, "Rsqrt": lambda x: ONE / np.sqrt(x), "Reciprocal": lambda x: ONE / x, "Square": lambda x: x * x,
    "Exp": np.exp, "Expm1": np.expm1, "Log": np.log, "Log1p": np.log1p, "Sin": np.sin, "Cos": np.cos, "Tan": np.tan,
    "Asin": np.arcsin, "Acos": np.arccos, "Atan": np.arctan, "Sinh": np.sinh, "Cosh": np.cosh, "Tanh": np.tanh,
    "Asinh": np.arcsinh, "Acosh": np.arccosh, "Atanh": np.arctanh,
    "Sigmoid": lambda x: np.where(x > 0, ONE / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x)))),
    "Softplus": softplus, "Softsign": lambda x: x / (1 + np.abs(x)),
    "Elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "Selu": lambda x: SCALE * np.where(x > 0, x, ALPHA * np.expm1(np.minimum(x, 0))),
}
SLOW = {
    "Erf": mp.erf, "Erfc": mp.erfc,
    "Lgamma": lambda x: np.inf if x <= 0 and x == mp.floor(x) else mp.re(mp.loggamma(x)),
    "Digamma": mp.digamma, "Erfinv": lambda x: mp.inf if x == 1 else -mp.inf if x == -1 else mp.erfinv(x),
    "Ndtri": lambda x: mp.sqrt(2) * mp.erfinv(2 * x - 1),
    "BesselI0e": lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), "BesselI1e": lambda x: mp.besseli(1, x) * mp.exp(-abs(x)),
}
# Numbers of these functions end at a size: behind it they are 0, 1, infinite or x, and mpmath takes long.
SIZE = {"Lgamma": 1e6, "Digamma": 1e6, "BesselI0e": 700, "BesselI1e": 700, "Erfc": 30, "Erf": 30, "Erfinv": 1, "Ndtri": 1}
FAST_2 = {
    "Pow": np.power, "Atan2": np.arctan2, "RealDiv": np.divide, "Xlogy": lambda x, y: np.where(x == 0, 0, x * np.log(y)),
    "Xdivy": lambda x, y: np.where(x == 0, 0, x / y), "Xlog1py": lambda x, y: np.where(x == 0, 0, x * np.log1p(y)),
    "SquaredDifference": lambda x, y: (x - y) * (x - y),
}
SLOW_2 = {
    "Igamma": lambda a, x: mp.gammainc(a, 0, x, regularized=True), "Igammac": lambda a, x: mp.gammainc(a, x, regularized=True),
    "Zeta": lambda x, q: mp.zeta(x, q), "Polygamma": lambda n, x: mp.polygamma(int(n), x),
}


def numbers(kind, count, rng):
    """Numbers over all exponents and signs, and special ones."""
    dtype = DTYPES[kind]
    if kind in ("f16", "bf16"):
        return np.arange(1 << 16, dtype=np.uint16).view(dtype)
    bits = np.uint32 if kind == "f32" else np.uint64
    some = rng.integers(0, np.iinfo(bits).max, count, dtype=bits, endpoint=True).view(dtype)
    common = np.concatenate([rng.uniform(-20, 20, count // 2), rng.uniform(-1.5, 1.5, count // 2)]).astype(dtype)
    special = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).tiny], dtype)
    near = np.nextafter(special[2:4], dtype(0)).repeat(1)
    return np.concatenate([some, common, special, near])


def error(kind, found, wanted):
    """Errors in units of the last place of the wanted value; infinite where only one is infinite or NaN."""
    found, dtype = found.astype(L), DTYPES[kind]
    with np.errstate(all="ignore"):
        largest = L(np.float64(np.finfo(np.float32).max)) if kind == "bf16" else L(np.finfo(dtype).max)
        if kind == "bf16":
            largest = L(3.3895313892515355e38)
        exponent = np.maximum(np.floor(np.log2(np.abs(wanted))), LOWEST[kind])
        exponent = np.where(np.isfinite(exponent), exponent, LOWEST[kind])
        unit = np.exp2((exponent - MANTISSA[kind]).astype(L))
        off = np.abs(found - wanted) / unit
        rounds_to_infinity = np.abs(wanted) > largest
        off = np.where(np.isinf(found) & rounds_to_infinity & (np.sign(found) == np.sign(wanted)), 0, off)
        off = np.where(np.isnan(found) & np.isnan(wanted), 0, off)
        off = np.where(np.isinf(wanted) & (found == wanted), 0, off)
        # A result that is no normal number may be flushed to zero.
        tiny = np.exp2(L(LOWEST[kind]))
        off = np.where((np.abs(wanted) < tiny) & (np.abs(found) <= tiny), np.minimum(off, 1), off)
        return np.where(np.isnan(off), np.inf, off)


def run(target, name, kind, xs):
    dtype = DTYPES[kind]
    with tf.Graph().as_default(), tf.Session(target) as session:
        fed = [tf.placeholder(dtype, x.shape) for x in xs]
        import inspect

        op = getattr(R, name)
        names = [p for p in inspect.signature(op).parameters if p != "name"]
        y = op(**dict(zip(names, fed)))
        return session.run(y, dict(zip(fed, xs)))


def row(name, kind, xs, oracle):
    # A NaN has no neighbours, and numbers below the normal ones are flushed by TensorFlow's threads.
    tiny = 2.0 ** LOWEST[kind]
    keep = np.ones(len(xs[0]), bool)
    for x in xs:
        wide = x.astype(np.float64)
        keep &= (np.abs(wide) >= tiny) | (wide == 0) | np.isnan(wide)
    xs = [x[keep] for x in xs]
    with np.errstate(all="ignore"):
        wanted = oracle(*[x.astype(L) for x in xs]).astype(L)
    cells = []
    for target in (sys.argv[1], ""):
        try:
            found = run(target, name, kind, xs)
        except Exception as problem:
            cells.append("refused" if "none of" in str(problem) or "must be one of" in str(problem) or "kernel" in str(problem) else "fails")
            continue
        off = error(kind, np.asarray(found), wanted)
        at = int(np.argmax(np.where(np.isinf(off), -1, off)))
        text = f"{float(off[at]):.3g} at {', '.join(f'{float(x[at]):.6g}' for x in xs)}" if len(off) else "-"
        wrong = np.flatnonzero(np.isinf(off))
        if len(wrong):
            w = wrong[0]
            text += f"; {len(wrong)} of other kind: ({', '.join(f'{float(x[w]):.6g}' for x in xs)}) is {float(found[w]):.6g}, not {float(wanted[w]):.6g}"
        cells.append(text)
    print(f"| {name} | {kind} | {len(xs[0]):,} | {cells[0]} | {cells[1]} |", flush=True)


def main():
    rng = np.random.default_rng(7)
    only = sys.argv[2:]
    print("| function | dtype | numbers | Thalweg: largest error (ulp) at | TensorFlow: largest error (ulp) at |")
    print("| --- | --- | --- | --- | --- |")
    for table, arity, fast in ((FAST, 1, True), (FAST_2, 2, True), (SLOW, 1, False), (SLOW_2, 2, False)):
        for name, oracle in table.items():
            if only and name not in only:
                continue
            for kind in DTYPES:
                count = {"f32": 1 << 20, "f64": 1 << 19}.get(kind, 0) if fast else 3000
                xs = [numbers(kind, max(count, 1), rng) for _ in range(arity)]
                if kind in ("f16", "bf16") and arity == 2:
                    xs = [rng.permutation(np.tile(x, 8 if fast else 1)) for x in xs]
                if not fast:
                    xs = [rng.permutation(x)[:6000] for x in xs]
                    size = SIZE.get(name, 1e3 if arity == 2 else np.inf)
                    keep = np.all([~(np.abs(x.astype(np.float64)) > size) for x in xs], axis=0)
                    if name == "Ndtri":
                        # The oracle's 120 bits do not hold 2 x - 1 of smaller numbers.
                        keep &= ~(xs[0].astype(np.float64) < 1e-18) | (xs[0] == 0)
                    if arity == 2:
                        low = 1.01 if name == "Zeta" else 1e-3
                        keep &= (xs[0].astype(np.float64) > low) & (xs[1].astype(np.float64) > 1e-3)
                    xs = [x[keep] for x in xs]
                    if name == "Polygamma":
                        xs[0] = np.floor(np.minimum(xs[0].astype(np.float64), 20)).astype(xs[0].dtype)
                row(name, kind, xs, oracle if fast else by_mpmath(oracle))


main()
