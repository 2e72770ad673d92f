"""Results of TensorFlow's variable scopes, initializers and layers.

    python tests/golden/layers.py            # writes layers.jsonl.gz beside this file
    python tests/golden/layers.py --check    # compares with it, writes nothing

in a virtual environment with tensorflow-cpu and tf_keras of the same version: tf.compat.v1.layers is
made of Keras 2. tests/engine/layer_cases.rs reads the file.
"""

import os
import pathlib
import sys

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import layer_runs  # noqa: E402
import scope_programs  # noqa: E402
from encode import dumps, tensor  # noqa: E402
from generate import check, pack  # noqa: E402
from harness import session  # noqa: E402
from layer_runs import TYPES, initializer  # noqa: E402
from reference import tf, v1  # noqa: E402

FILE = pathlib.Path(__file__).resolve().parent / "layers.jsonl.gz"

SCALINGS = [
    (scale, mode, distribution)
    for scale in (1.0, 0.3)
    for mode in ("fan_in", "fan_out", "fan_avg")
    for distribution in ("uniform", "truncated_normal", "untruncated_normal")
]
NAMED = ("glorot_uniform", "glorot_normal", "he_uniform", "he_normal", "lecun_uniform", "lecun_normal")


def initializers():
    """(initializer, dims, dtype, the graph's seed), some of them with a seed of their own."""
    for dtype in ("f32", "f64", "i32", "bool"):
        yield {"class": "zeros"}, [2, 3], dtype, None
        yield {"class": "ones"}, [], dtype, None
    yield {"class": "constant", "value": -2.5}, [3], "f32", None
    yield {"class": "constant", "value": 7}, [2], "i64", None
    for graph_seed in (None, 11):
        for dtype in ("f32", "f64"):
            yield {"class": "random_uniform", "minval": -0.1, "maxval": 0.7, "seed": 3}, [4, 5], dtype, graph_seed
            yield {"class": "random_normal", "mean": 1.5, "stddev": 0.3, "seed": 4}, [7], dtype, graph_seed
            yield {"class": "truncated_normal", "mean": -1.0, "stddev": 2.0, "seed": 5}, [3, 6], dtype, graph_seed
    for i, (scale, mode, distribution) in enumerate(SCALINGS):
        what = {"class": "variance_scaling", "scale": scale, "mode": mode, "distribution": distribution, "seed": i}
        yield what, [[5, 3], [3, 2, 4, 2], [6]][i % 3], "f32", 7
    for name in NAMED:
        for dims in ([8, 4], [3, 3, 2, 5], []):
            yield {"class": name, "seed": 21}, dims, "f32", 1
    yield {"class": "identity", "gain": 0.5}, [3, 4], "f32", None
    yield {"class": "identity", "gain": 2.0}, [4, 2], "f64", None
    for dims in ([5, 3], [3, 5], [4, 4], [2, 3, 4, 5]):
        yield {"class": "orthogonal", "gain": 1.5, "seed": 8}, dims, "f32", 2
    # The bounds are narrowed before they are subtracted.
    yield {"class": "random_uniform", "minval": 0.1, "maxval": 0.3, "seed": 3}, [4, 5], "f16", 5


def initializer_lines():
    for i, (what, dims, dtype, graph_seed) in enumerate(initializers()):
        with tf.Graph().as_default() as graph:
            if graph_seed is not None:
                v1.set_random_seed(graph_seed)
            variable = v1.get_variable("w", dims, dtype=TYPES[dtype], initializer=initializer(what))
            with session(graph) as sess:
                sess.run(variable.initializer)
                value = tensor(sess.run(variable))
        name = f"initializer/{what['class']} {i}"
        yield {"name": name, "initializer": what, "graph_seed": graph_seed, "value": value}


def lines():
    v1.enable_resource_variables()
    made = [*scope_programs.lines(), *initializer_lines(), *layer_runs.lines()]
    return [dumps(line) for line in made]


if __name__ == "__main__":
    found = lines()
    if "--check" in sys.argv:
        sys.exit(1 if check(FILE, found) else 0)
    data = pack(found)
    FILE.write_bytes(data)
    print(f"{len(found)} cases, {len(data)} bytes")
