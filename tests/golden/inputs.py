"""Inputs of cases: arrays, random arrays that are drawn late, and variables."""

import zlib

import numpy as np


class Rand:
    """A random tensor that is drawn when its case's name, and so its seed, is known."""

    def __init__(self, dtype, dims, lo, hi, digits):
        self.dtype, self.dims, self.lo, self.hi, self.digits = dtype, tuple(dims), lo, hi, digits

    def draw(self, rng):
        """Floats are rounded to few decimal digits, which keeps the file small."""
        dtype = np.dtype(self.dtype)
        if dtype == np.bool_:
            return rng.integers(0, 2, self.dims).astype(np.bool_)
        if np.issubdtype(dtype, np.integer):
            return np.asarray(rng.integers(self.lo, self.hi + 1, self.dims, dtype=np.int64)).astype(dtype)
        values = rng.uniform(self.lo, self.hi, self.dims)
        if np.issubdtype(dtype, np.complexfloating):
            values = values + 1j * rng.uniform(self.lo, self.hi, self.dims)
        return np.asarray(np.round(values, self.digits), dtype)


class Distinct(Rand):
    """Like Rand, but no value occurs twice: for tests where a tie would be ambiguous."""

    def draw(self, rng):
        count = int(np.prod(self.dims))
        steps = rng.permutation(count).astype(np.float64).reshape(self.dims)
        return np.asarray(np.round((steps - count // 2) * 0.01, 2), self.dtype)


class Var:
    """A variable given to an op as a resource; `value` None leaves it uninitialised."""

    def __init__(self, value, dtype=None, dims=None):
        self.value, self.dtype, self.dims = value, dtype, dims


def rnd(dtype, dims, lo=-2, hi=2, digits=3):
    """Uniform values in [lo, hi]."""
    return Rand(dtype, dims, lo, hi, digits)


def distinct(dtype, dims):
    """A shuffled ladder of values, 0.01 apart."""
    return Distinct(dtype, dims, 0, 0, 2)


def generator(name):
    """The generator of a case: seeded by its name, so that one case never moves another."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def draw(value, rng):
    """Replaces every Rand in an input, inside lists and variables too, by its values."""
    if isinstance(value, Rand):
        return value.draw(rng)
    if isinstance(value, Var) and value.value is not None:
        return Var(draw(value.value, rng))
    if isinstance(value, list) and value and isinstance(value[0], (Rand, np.ndarray)):
        return [draw(v, rng) for v in value]
    return value


def is_input(value):
    """Inputs are arrays, numpy scalars, variables and lists of arrays; all else is an attribute."""
    if isinstance(value, list):
        return bool(value) and isinstance(value[0], (np.ndarray, Rand))
    return isinstance(value, (np.ndarray, np.generic, Var, Rand))
