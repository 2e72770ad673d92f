"""A case of the sweep, and random shapes and values."""

import numpy as np
import tensorflow as tf2

raw = tf2.raw_ops


class Case:
    """A name, a function that builds the case in the default graph, and one that makes its step in PyTorch."""

    def __init__(self, name, build, torch=None):
        self.name = name
        self.build = build
        self.torch = torch
        self.family = ""


class Var:
    """A value that the case keeps in a resource variable."""

    def __init__(self, array):
        self.array = np.asarray(array)


class Const:
    """A value that is a constant on both sides: a shape, an axis."""

    def __init__(self, array):
        self.array = np.asarray(array)


def op(name, label, torch=None, **arguments):
    """A case of one op: arrays are inputs, the rest are attributes."""

    def value(inputs, argument):
        if isinstance(argument, Var):
            return inputs.variable(argument.array)
        if isinstance(argument, Const):
            return tf2.constant(argument.array)
        if isinstance(argument, np.ndarray):
            return inputs.input(argument)
        if isinstance(argument, list) and argument and isinstance(argument[0], np.ndarray):
            return [inputs.input(a) for a in argument]
        return argument

    def build(inputs):
        return getattr(raw, name)(**{k: value(inputs, v) for k, v in arguments.items()})

    return Case(f"{name}/{label}", build, torch)


def text(dims):
    return "x".join(map(str, dims)) or "scalar"


def shape(rng, rank=None, elements=None):
    """A shape of about so many elements: dimensions differ by orders of magnitude, and few are powers of two."""
    rank = rank or rng.randint(1, 4)
    elements = elements or int(2 ** rng.uniform(14, 20))
    weights = [rng.expovariate(1) + 0.05 for _ in range(rank)]
    total = sum(weights)
    dims = [max(1, round(elements ** (w / total))) for w in weights]
    rng.shuffle(dims)
    return tuple(dims)


def values(rng, dims, dtype=np.float32, low=-2.0, high=2.0):
    """Random values of a dtype."""
    own = np.random.default_rng(rng.getrandbits(32))
    dtype = np.dtype(dtype)
    if dtype == bool:
        return own.random(dims) < 0.5
    if dtype.kind in "iu":
        low = max(low, 0) if dtype.kind == "u" else low
        return own.integers(int(low), max(int(low) + 1, int(high)), dims).astype(dtype)
    return own.uniform(low, high, dims).astype(dtype)


def below(rng, dims, limit, dtype=np.int32):
    """Random indices."""
    own = np.random.default_rng(rng.getrandbits(32))
    return own.integers(0, max(1, limit), dims).astype(dtype)
