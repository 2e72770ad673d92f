"""A graph and its results as one JSON line."""

import base64
import json

from encode import SHORT
from model import FLOAT, np


def tensor_json(array, kind=None):
    """A tensor as `encode.tensor` writes it, in one go; strings that are no UTF-8 as "base64"."""
    if array.dtype.kind == "O":
        words = [w if isinstance(w, bytes) else str(w).encode() for w in array.reshape(-1)]
        line = {"dtype": "string", "dims": list(array.shape)}
        try:
            return line | {"data": [w.decode() for w in words]}
        except UnicodeDecodeError:
            return line | {"base64": [base64.b64encode(w).decode() for w in words]}
    kind = kind or SHORT[array.dtype.name]
    if kind in FLOAT:
        # A double's shortest decimal reads back as the same value of each narrower type.
        data = array.astype(np.float64).reshape(-1).tolist()
        if not np.isfinite(data).all():
            names = {np.inf: "inf", -np.inf: "-inf"}
            data = [v if np.isfinite(v) else names.get(v, "nan") for v in data]
    else:
        data = array.reshape(-1).tolist()
    return {"dtype": kind, "dims": list(array.shape), "data": data}


def line(seed, g, emitted, results):
    """The line of one graph."""
    slacks = [w.slack or (0.0, 0.0) for w in g.fetched]
    fields = {
        "seed": seed,
        "graph": base64.b64encode(emitted.graph_def.SerializeToString(deterministic=True)).decode(),
        "feeds": {name: tensor_json(array) for name, array in emitted.feeds.items()},
        "fetches": emitted.fetches,
        "targets": emitted.targets,
        "init": emitted.init,
        "steps": g.steps,
        "results": [[tensor_json(a) for a in step] for step in results],
        "tolerance": [{"rel": float(f"{r:.2g}"), "abs": float(f"{a:.2g}")} for r, a in slacks],
    }
    return json.dumps(fields, separators=(",", ":"))
