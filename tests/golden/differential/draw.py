"""Random choices: shapes, axes, and arrays of numbers."""

import random

from model import ANY, ARRAYS, INT, SIGNED, Refused, np
from words import words

MAIN = {"f32": 70, "f64": 14, "f16": 8, "bf16": 8}
MAIN_INT = {"i32": 60, "i64": 20, "i8": 5, "u8": 5, "i16": 3, "u16": 3, "u32": 2, "u64": 2}


class Draw:
    """The random numbers of a seed; `palette` says how much the graph likes each type."""

    def __init__(self, seed):
        self.random, self.array = random.Random(seed), np.random.default_rng(seed)
        self.palette = {kind: 0.2 for kind in ANY}
        self.palette |= {self.weighted(MAIN): 10.0, self.weighted(MAIN_INT): 5.0, "bool": 1.0, "string": 0.7}

    def chance(self, probability):
        return self.random.random() < probability

    def one(self, *options):
        return self.random.choice(options)

    def integer(self, low, high):
        return self.random.randint(low, high)

    def uniform(self, low, high):
        return round(self.random.uniform(low, high), 3)

    def weighted(self, weights):
        """A key of `weights`, drawn by its value."""
        return self.random.choices(list(weights), list(weights.values()))[0]

    def shape(self, rank=None, most=48, zero=0.03):
        """Dimensions with at most `most` elements; `rank` is a number or a (least, most) pair."""
        if rank is None:
            rank = self.weighted({0: 1.5, 1: 4, 2: 5, 3: 3, 4: 1.5, 5: 0.7})
        elif isinstance(rank, tuple):
            rank = self.integer(*rank)
        while True:
            dims = [self.weighted({1: 1.5, 2: 3, 3: 3, 4: 2, 5: 1}) for _ in range(rank)]
            if int(np.prod(dims)) <= most:
                break
        if rank and self.chance(zero):
            dims[self.integer(0, rank - 1)] = 0
        return tuple(dims)

    def subshape(self, dims):
        """A shape that broadcasts with `dims`, and mostly to `dims`."""
        dims = list(dims[self.integer(0, len(dims)) if self.chance(0.4) else 0 :])
        for i in range(len(dims)):
            if self.chance(0.2):
                dims[i] = 1
        return tuple(dims)

    def axis(self, rank, negative=True):
        """An axis of a tensor of that rank, counted from either end."""
        if rank == 0:
            raise Refused("rank")
        axis = self.integer(0, rank - 1)
        return axis - rank if negative and self.chance(0.3) else axis

    def numbers(self, kind, dims, low=None, high=None):
        """A random array; floats often stand on a coarse grid, where ties and exact sums happen."""
        if kind == "bool":
            return self.array.integers(0, 2, dims).astype(bool)
        if kind == "string":
            return words(self.random, dims)
        if kind in INT:
            low = (-9 if kind in SIGNED else 0) if low is None else low
            high = 9 if high is None else high
            return self.array.integers(low, high, dims, endpoint=True).astype(ARRAYS[kind])
        low, high = -3.0 if low is None else low, 3.0 if high is None else high
        if self.chance(0.3) and high - low >= 1:
            values = np.ceil(low * 4) / 4 + 0.25 * self.array.integers(0, int((high - low) * 4), dims)
            values = np.minimum(values, high)
        else:
            values = self.array.uniform(low, high, dims)
        return np.asarray(values, ARRAYS[kind])

    def special(self, array):
        """The array with some infinities, NaNs and negative zeros."""
        array = np.array(array)
        for _ in range(self.integer(1, 3)):
            if array.size:
                array.reshape(-1)[self.integer(0, array.size - 1)] = self.one(np.inf, -np.inf, np.nan, -0.0)
        return array
