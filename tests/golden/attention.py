"""Results of Keras's multi-head attention on sequences.

    python tests/golden/attention.py            # writes attention.jsonl.gz beside this file
    python tests/golden/attention.py --check    # compares with it, writes nothing

in a virtual environment with tensorflow-cpu and tf_keras of the same version. tests/engine/attention.rs
reads the file. Every target sees a source: of one that sees none, Keras's numbers depend on how far
the dtype rounds.
"""

import os
import pathlib
import sys

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np  # noqa: E402

from encode import dumps, tensor  # noqa: E402
from generate import check, pack  # noqa: E402
from harness import session  # noqa: E402
from inputs import generator  # noqa: E402
from reference import tf, v1  # noqa: E402

# TensorFlow is imported with the settings of `reference`, and so before Keras.
import tf_keras  # noqa: E402

FILE = pathlib.Path(__file__).resolve().parent / "attention.jsonl.gz"
TOLERANCE = {"f32": {"rel": 1e-4, "abs": 1e-5}, "f64": {"rel": 1e-10, "abs": 1e-10}}

# Heads, width, dimensions of the queries, and special options.
CASES = {
    "plain": (2, 3, [2, 4, 5], {}),
    "f32": (3, 2, [2, 5, 4], {"dtype": "f32"}),
    "one head, one step": (1, 4, [3, 1, 2], {}),
    "without bias": (2, 2, [1, 3, 4], {"use_bias": False}),
    "two sequences": (2, 3, [2, 3, 4], {"sources": [2, 5, 6]}),
    "causal": (2, 2, [2, 5, 3], {"causal": True}),
    "causal, two sequences": (2, 2, [1, 4, 3], {"causal": True, "sources": [1, 2, 3]}),
    "masked": (2, 3, [2, 4, 3], {"mask": [2, 4, 4]}),
    "one mask for all": (2, 2, [3, 4, 2], {"mask": [1, 4, 4]}),
    "a mask for each source": (2, 2, [2, 3, 4], {"mask": [2, 1, 5], "sources": [2, 5, 3]}),
    "a mask for each head": (3, 2, [2, 4, 2], {"mask": [2, 3, 4, 4]}),
    "masked and causal": (2, 2, [2, 4, 3], {"mask": [2, 4, 4], "causal": True}),
}


def drawn(rng, dims, dtype):
    """Few digits keep the file small."""
    return np.round(rng.uniform(-1.0, 1.0, dims), 2).astype(dtype)


def line(name, heads, width, dims, special):
    """One case: all that goes in, and all that comes out."""
    rng = generator(name)
    short = special.get("dtype", "f64")
    dtype = {"f32": "float32", "f64": "float64"}[short]
    targets = drawn(rng, dims, dtype)
    sources = drawn(rng, special["sources"], dtype) if "sources" in special else None
    mask = None
    if "mask" in special:
        mask = rng.integers(0, 2, special["mask"]).astype(bool)
        mask[..., 0] = True
    with tf.Graph().as_default() as graph:
        xs = [tf.constant(x) for x in (targets, sources) if x is not None]
        layer = tf_keras.layers.MultiHeadAttention(heads, width, use_bias=special.get("use_bias", True), dtype=dtype)
        given = None if mask is None else tf.constant(mask)
        causal = special.get("causal", False)
        output = layer(xs[0], xs[-1], attention_mask=given, use_causal_mask=causal)
        weights = [drawn(rng, v.shape.as_list(), dtype) for v in layer.weights]
        factor = drawn(rng, dims, dtype)
        grads = tf.gradients(tf.reduce_sum(output * factor), [*xs, *layer.weights])
        with session(graph) as sess:
            for variable, weight in zip(layer.weights, weights):
                sess.run(variable.assign(weight))
            found, grads = sess.run([output, grads])
    return {
        "name": name,
        "heads": heads,
        "width": width,
        "bias": special.get("use_bias", True),
        "causal": causal,
        "targets": tensor(targets),
        "sources": None if sources is None else tensor(sources),
        "mask": None if mask is None else tensor(mask),
        "variables": [{"name": v.name.removesuffix(":0"), "value": tensor(w)} for v, w in zip(layer.weights, weights)],
        "factor": tensor(factor),
        "output": tensor(found),
        "grads": [tensor(grad) for grad in grads],
        "tolerance": TOLERANCE[short],
    }


def lines():
    v1.enable_resource_variables()
    return [dumps(line(name, *case)) for name, case in CASES.items()]


if __name__ == "__main__":
    found = lines()
    if "--check" in sys.argv:
        sys.exit(1 if check(FILE, found) else 0)
    data = pack(found)
    FILE.write_bytes(data)
    print(f"{len(found)} cases, {len(data)} bytes")
