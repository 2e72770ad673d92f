"""How far two runs of a golden graph are apart."""

import numpy as np


def excess(got, expected, tolerance):
    """The largest ratio of distance to tolerance; infinite where anything else differs."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return np.inf
    if got.dtype.kind != "f":
        return 0.0 if np.array_equal(got, expected) else np.inf
    finite = np.isfinite(expected)
    if not np.array_equal(got[~finite], expected[~finite], equal_nan=True):
        return np.inf
    wide = expected[finite].astype(np.float64)
    with np.errstate(invalid="ignore"):
        over = np.abs(got[finite] - wide) / (tolerance["abs"] + tolerance["rel"] * np.abs(wide))
    return float(over.max(initial=0.0))


def distance(steps, recorded, tolerance):
    """The largest excess over all results, and the number of the step that has it."""
    worst, at = 0.0, 0
    for index, (new, old) in enumerate(zip(steps, recorded, strict=True)):
        codes = [step.error and step.error["code"] for step in (new, old)]
        pairs = zip(new.results, old.results, strict=True) if codes[0] == codes[1] else None
        over = np.inf if pairs is None else max((excess(*pair, tolerance) for pair in pairs), default=0.0)
        if over > worst or np.isnan(over):
            worst, at = over, index
    return worst, at
