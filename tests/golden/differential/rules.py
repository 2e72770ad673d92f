"""Tolerances of ops against TensorFlow's results, and valid inputs."""

import dataclasses

from model import FLOAT, HALF, np


@dataclasses.dataclass(frozen=True)
class Rule:
    """`noise` is one of:

    - "exact": IEEE arithmetic or copying fixes each bit;
    - "rounded": each element has an error of its own, in proportion to it;
    - "summed": terms may be added in any order, so the error follows the largest terms.

    `factor` scales the error; below the size `least` it is no smaller than there. `specials` says that
    infinities and NaNs may go in and come out. `composed` is for exact ops of several steps: halves may
    be rounded after each, or once. `single` is for ops that compute in f32 and return f64.
    """

    noise: str
    factor: float = 1.0
    least: float = 0.0
    specials: bool = False
    composed: bool = False
    single: bool = False

    def exact(self, kind):
        """True if results of this type have only one right value."""
        return kind not in FLOAT or self.noise == "exact" and not (self.composed and kind in HALF)


EXACT = Rule("exact")
EXACT_SPECIAL = Rule("exact", specials=True)
COMPOSED = Rule("exact", composed=True)
ROUNDED = Rule("rounded")
# Where a function's zero is a difference of large terms.
DIFFERENCE = Rule("rounded", least=1.0)
DIFFERENCE_SPECIAL = Rule("rounded", least=1.0, specials=True)
ROUNDED_SPECIAL = Rule("rounded", specials=True)
SUMMED = Rule("summed")

# The error of a rounded op: 16 units in the last place for f32, for which vector libraries have
# cheap polynomials. TensorFlow itself rounds halves after each step of many ops.
UNIT = {"f32": 16 * 2.0**-23, "f64": 64 * 2.0**-52, "f16": 3 * 2.0**-10, "bf16": 3 * 2.0**-7}
SMALLEST = {"f32": 0.0, "f64": 0.0, "f16": 2.0**-23, "bf16": 0.0}


def amplitude(rule, kind, output, inputs):
    """The largest error of each element of `output` (f64), given the op's inputs of floats."""
    unit = UNIT["f32" if rule.single and kind == "f64" else kind] * rule.factor
    size = np.where(np.isfinite(output), np.abs(output), 0.0)
    largest = size.max(initial=0.0)
    if rule.noise != "summed":
        # Near a zero of the function a cheap polynomial's error does not shrink with the result.
        return unit * (size + 0.125 * max(rule.least, min(1.0, largest))) + SMALLEST[kind]
    terms = [np.abs(i[np.isfinite(i)]).max(initial=0.0) for i in inputs]
    # Two factors of a product, or one list of terms: the larger bound covers both.
    terms = max([largest, *terms, float(np.prod(sorted(terms)[-2:])) if terms else 0.0])
    part = 0.75 if kind in HALF else 0.5
    return np.full(output.shape, part * unit * terms) + SMALLEST[kind]
