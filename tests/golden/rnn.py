"""Results of TensorFlow's recurrent cells on sequences, as a loop and unrolled.

    python tests/golden/rnn.py            # writes rnn.jsonl.gz beside this file
    python tests/golden/rnn.py --check    # compares with it, writes nothing

in a virtual environment with tensorflow-cpu and tf_keras of the same version, which has the cells.
tests/engine/rnn.rs reads the file.
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

FILE = pathlib.Path(__file__).resolve().parent / "rnn.jsonl.gz"
TOLERANCE = {"f32": {"rel": 1e-4, "abs": 1e-5}, "f64": {"rel": 1e-11, "abs": 1e-11}}

LSTM, GRU, BASIC = {"class": "lstm", "units": 3}, {"class": "gru", "units": 4}, {"class": "basic", "units": 3}

# The cell, the dimensions of its input (batch, time, features), and special options.
CASES = {
    "lstm/plain": (LSTM, [2, 5, 4], {}),
    "lstm/f32": (LSTM, [3, 6, 2], {"dtype": "f32"}),
    "lstm/one step": (LSTM, [2, 1, 3], {}),
    "lstm/forget bias": (LSTM | {"forget_bias": -0.5}, [1, 3, 2], {}),
    "lstm/initial state": (LSTM, [2, 3, 2], {"initial": True}),
    "lstm/time first": (LSTM, [2, 4, 3], {"time_major": True}),
    "lstm/lengths": (LSTM, [4, 5, 2], {"lengths": [5, 0, 3, 1]}),
    "lstm/lengths and initial state": (LSTM, [3, 4, 2], {"lengths": [2, 0, 3], "initial": True}),
    "gru/plain": (GRU, [2, 5, 3], {}),
    "gru/f32": (GRU, [2, 7, 3], {"dtype": "f32"}),
    "gru/one feature": (GRU, [1, 4, 1], {}),
    "gru/initial state": (GRU, [2, 3, 2], {"initial": True}),
    "gru/time first, lengths": (GRU, [3, 4, 2], {"time_major": True, "lengths": [0, 2, 3]}),
    "gru/all lengths zero": (GRU, [2, 3, 2], {"lengths": [0, 0], "initial": True}),
    "basic/plain": (BASIC, [2, 4, 3], {}),
    "basic/lengths and initial state": (BASIC, [3, 4, 2], {"lengths": [2, 0, 4], "initial": True}),
}


def cell_of(what, dtype):
    """The cell of a description."""
    if what["class"] == "lstm":
        return v1.nn.rnn_cell.LSTMCell(what["units"], forget_bias=what.get("forget_bias", 1.0), dtype=dtype)
    if what["class"] == "basic":
        return v1.nn.rnn_cell.BasicRNNCell(what["units"], dtype=dtype)
    return v1.nn.rnn_cell.GRUCell(what["units"], dtype=dtype)


def build(form, cell, x, lengths, initial, time_major):
    """The outputs of all steps as one tensor, and the parts of the last state."""
    state = v1.nn.rnn_cell.LSTMStateTuple(*initial) if len(initial) == 2 else initial[0] if initial else None
    axis = 0 if time_major else 1
    if form == "loop":
        outputs, state = v1.nn.dynamic_rnn(cell, x, lengths, state, x.dtype, time_major=time_major)
    else:
        steps = tf.unstack(x, axis=axis)
        outputs, state = v1.nn.static_rnn(cell, steps, state, x.dtype, lengths)
        outputs = tf.stack(outputs, axis)
    return outputs, list(state) if isinstance(state, tuple) else [state]


def drawn(rng, dims, dtype):
    """Few digits keep the file small."""
    return np.round(rng.uniform(-1.0, 1.0, dims), 2).astype(dtype)


def line(name, form, what, dims, special):
    """One case: all that goes in, and all that comes out."""
    rng = generator(name)
    short = special.get("dtype", "f64")
    dtype = tf.as_dtype({"f32": "float32", "f64": "float64"}[short])
    batch, time, features = dims
    time_major = special.get("time_major", False)
    value = drawn(rng, [time, batch, features] if time_major else dims, dtype.as_numpy_dtype)
    parts = 2 if what["class"] == "lstm" else 1
    first = [drawn(rng, [batch, what["units"]], dtype.as_numpy_dtype) for _ in range(parts)]
    first = first if special.get("initial") else []
    with tf.Graph().as_default() as graph:
        x = tf.constant(value)
        initial = [tf.constant(part) for part in first]
        lengths = special.get("lengths")
        given = None if lengths is None else tf.constant(lengths, tf.int32)
        outputs, state = build(form, cell_of(what, dtype), x, given, initial, time_major)
        variables = v1.global_variables()
        weights = [drawn(rng, v.shape.as_list(), dtype.as_numpy_dtype) for v in variables]
        results = [outputs, *state]
        factors = [drawn(rng, r.shape.as_list(), dtype.as_numpy_dtype) for r in results]
        loss = tf.add_n([tf.reduce_sum(r * f) for r, f in zip(results, factors)])
        sources = [x, *initial, *variables]
        grads = tf.gradients(loss, sources, unconnected_gradients="zero")
        with session(graph) as sess:
            sess.run(v1.global_variables_initializer())
            start = sess.run(variables[1])
            for variable, weight in zip(variables, weights):
                variable.load(weight, sess)
            found, grads = sess.run([results, grads])
    return {
        "name": f"{name}, {form}",
        "form": form,
        "cell": what,
        "time_major": time_major,
        "x": tensor(value),
        "lengths": lengths,
        "initial": [tensor(part) for part in first],
        "variables": [{"name": v.op.name, "value": tensor(w)} for v, w in zip(variables, weights)],
        "first_bias": tensor(start),
        "factors": [tensor(f) for f in factors],
        "outputs": tensor(found[0]),
        "state": [tensor(part) for part in found[1:]],
        "grads": [tensor(grad) for grad in grads],
        "tolerance": TOLERANCE[short],
    }


def lines():
    v1.enable_resource_variables()
    forms = ("loop", "unrolled")
    made = [line(name, form, *case) for name, case in CASES.items() for form in forms]
    return [dumps(one) for one in made]


if __name__ == "__main__":
    found = lines()
    if "--check" in sys.argv:
        sys.exit(1 if check(FILE, found) else 0)
    data = pack(found)
    FILE.write_bytes(data)
    print(f"{len(found)} cases, {len(data)} bytes")
