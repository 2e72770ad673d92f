#!/usr/bin/env python3
"""Results of tf.compat.v1.losses and tf.compat.v1.metrics, for tests/engine/losses.rs and metrics.rs.

    python tests/golden/losses.py            # writes losses.jsonl.gz
    python tests/golden/losses.py --check    # compares with it, writes nothing; fails on a difference

in a virtual environment with tensorflow-cpu.
"""

import argparse
import itertools
import pathlib
import sys

import numpy as np

from encode import dumps, tensor
from generate import check, pack, report
from harness import session
from inputs import distinct, draw, generator, rnd
from reference import f32, i32, i64, tf, v1

PATH = pathlib.Path(__file__).parent / "losses.jsonl.gz"
TOLERANCE = {"rel": 2e-6, "abs": 3e-6}
REDUCTIONS = {
    "none": "none",
    "sum": "weighted_sum",
    "sum_over_batch_size": "weighted_sum_over_batch_size",
    "sum_over_nonzero_weights": "weighted_sum_by_nonzero_weights",
    "mean": "weighted_mean",
}


def drawn(name, *inputs):
    rng = generator(name)
    return [None if i is None else np.asarray(draw(i, rng)) for i in inputs]


def place(array):
    return v1.placeholder(array.dtype, array.shape)


# Losses.

# By loss: labels, predictions, further arguments; and dimensions of weights, beside those of a number.
ELEMENTS = [[3, 1], [1, 4], [3, 4]]
LOSSES = {
    "absolute_difference": (rnd(f32, [3, 4]), rnd(f32, [3, 4]), {}, ELEMENTS),
    "mean_squared_error": (rnd(f32, [3, 4]), rnd(f32, [3, 4]), {}, ELEMENTS),
    "mean_squared_error/of_integers": (rnd(i32, [5]), rnd(f32, [5]), {}, [[5]]),
    "mean_squared_error/of_rank_3": (rnd(f32, [2, 3, 2]), rnd(f32, [2, 3, 2]), {}, [[2, 1, 1], [1, 3, 1]]),
    "huber_loss": (rnd(f32, [3, 4], -3, 3), rnd(f32, [3, 4], -3, 3), {"delta": 1.0}, ELEMENTS),
    "huber_loss/wide": (rnd(f32, [3, 4], -3, 3), rnd(f32, [3, 4], -3, 3), {"delta": 2.5}, [[3, 4]]),
    "huber_loss/at_delta": (
        np.zeros(5, f32),
        np.array([-2, -0.5, 0, 0.5, 2], f32),
        {"delta": 0.5},
        [[5]],
    ),
    "hinge_loss": (rnd(i32, [3, 4], 0, 1), rnd(f32, [3, 4]), {}, ELEMENTS),
    "hinge_loss/at_the_edge": (np.array([0, 1, 1], f32), np.array([-1, 1, 0], f32), {}, [[3]]),
    "log_loss": (rnd(i32, [3, 4], 0, 1), rnd(f32, [3, 4], 0, 1), {"epsilon": 1e-7}, ELEMENTS),
    "log_loss/certain": (
        np.array([0, 0, 1, 1], f32),
        np.array([0, 1, 0, 1], f32),
        {"epsilon": 1e-3},
        [[4]],
    ),
    "cosine_distance": (rnd(f32, [3, 4], -1, 1), rnd(f32, [3, 4], -1, 1), {"axis": 1}, [[3, 1]]),
    "cosine_distance/first_axis": (rnd(f32, [3, 4], -1, 1), rnd(f32, [3, 4], -1, 1), {"axis": 0}, [[1, 4]]),
    "cosine_distance/negative_axis": (rnd(f32, [2, 3, 2]), rnd(f32, [2, 3, 2]), {"axis": -2}, [[2, 1, 2]]),
    "sigmoid_cross_entropy": (rnd(i32, [3, 4], 0, 1), rnd(f32, [3, 4], -4, 4), {}, ELEMENTS),
    "sigmoid_cross_entropy/smoothed": (
        rnd(f32, [3, 4], 0, 1),
        rnd(f32, [3, 4], -4, 4),
        {"label_smoothing": 0.1},
        [[3, 4]],
    ),
    "sigmoid_cross_entropy/large_and_zero": (
        np.array([0, 1, 0, 1, 0, 1], f32),
        np.array([1e4, 1e4, -1e4, -1e4, 0, 0], f32),
        {},
        [[6]],
    ),
    "softmax_cross_entropy": (np.eye(4, dtype=f32)[[1, 0, 3]], rnd(f32, [3, 4], -4, 4), {}, [[3]]),
    "softmax_cross_entropy/of_integers": (np.eye(4, dtype=i32)[[1, 0, 3]], rnd(f32, [3, 4], -4, 4), {}, [[3]]),
    "softmax_cross_entropy/smoothed": (
        np.eye(4, dtype=f32)[[1, 0, 3]],
        rnd(f32, [3, 4], -4, 4),
        {"label_smoothing": 0.1},
        [[3]],
    ),
    "softmax_cross_entropy/of_rank_3": (
        np.eye(4, dtype=f32)[[[1, 0, 3], [2, 2, 1]]],
        rnd(f32, [2, 3, 4], -4, 4),
        {"label_smoothing": 0.2},
        [[2, 3], [2, 1]],
    ),
    "softmax_cross_entropy/large": (
        np.eye(3, dtype=f32)[[0, 1]],
        np.array([[1e4, 0, -1e4], [1e4, 0, 5]], f32),
        {},
        [[2]],
    ),
    "sparse_softmax_cross_entropy": (rnd(i64, [3], 0, 3), rnd(f32, [3, 4], -4, 4), {}, [[3], [3, 1]]),
    "sparse_softmax_cross_entropy/column": (rnd(i32, [3, 1], 0, 3), rnd(f32, [3, 4], -4, 4), {}, [[3], [3, 1]]),
    "sparse_softmax_cross_entropy/of_rank_3": (
        rnd(i32, [2, 3], 0, 3),
        rnd(f32, [2, 3, 4], -4, 4),
        {},
        [[2, 3], [2, 1], [2, 3, 1]],
    ),
    "mean_pairwise_squared_error": (rnd(f32, [3, 4]), rnd(f32, [3, 4]), {}, [[3, 1], [3, 4], [1, 4]]),
    "mean_pairwise_squared_error/of_rank_3": (rnd(f32, [2, 3, 2]), rnd(f32, [2, 3, 2]), {}, [[2, 1, 1]]),
    "mean_pairwise_squared_error/one_each": (rnd(f32, [3, 1]), rnd(f32, [3, 1]), {}, [[3, 1]]),
}


def weights_of(shapes):
    """Kinds of weights: none, a number, one for each of some dimensions, some and all of them zero."""
    yield "unweighted", None
    yield "number", np.array(0.5, f32)
    yield "zero", np.array(0, f32)
    for dims in shapes:
        label = "x".join(map(str, dims))
        yield label, rnd(f32, dims, 0.1, 2)
        some = np.ones(dims, i32)
        some.reshape(-1)[::2] = 0
        yield f"{label}_mask", some
        yield f"{label}_zero", np.zeros(dims, f32)
        yield f"{label}_signed", rnd(f32, dims, -1, 1)


def loss_cases():
    for (loss, given), reduction in itertools.product(LOSSES.items(), REDUCTIONS):
        pairwise = loss.startswith("mean_pairwise")
        if pairwise and reduction != "sum":
            continue
        labels, predictions, arguments, shapes = given
        for label, weights in weights_of(shapes):
            name = f"{loss}/{label}" if pairwise else f"{loss}/{label}/{reduction}"
            yield loss_case(name, loss.split("/")[0], drawn(name, labels, predictions, weights), arguments, reduction)


def call(loss, labels, predictions, weights, arguments, reduction):
    further = dict(arguments)
    if weights is not None:
        further["weights"] = weights
    if reduction is not None and loss != "mean_pairwise_squared_error":
        further["reduction"] = REDUCTIONS[reduction]
    return getattr(v1.losses, loss)(labels, predictions, **further)


def loss_case(name, loss, arrays, arguments, reduction):
    with tf.Graph().as_default() as graph:
        places = [None if a is None else place(a) for a in arrays]
        value = call(loss, *places, arguments, reduction)
        assert v1.losses.get_losses() == [value]
        asked = {"value": value, "gradient": tf.gradients(value, places[1])[0]}
        weights = arrays[2]
        if weights is not None and weights.dtype == f32:
            asked["weights_gradient"] = tf.gradients(value, places[2])[0]
        with session(graph) as sess:
            found = sess.run(asked, {p: a for p, a in zip(places, arrays) if p is not None})
    return {
        "name": name,
        "kind": "loss",
        "loss": loss,
        "arguments": arguments,
        "reduction": reduction,
        "labels": tensor(arrays[0]),
        "predictions": tensor(arrays[1]),
        "weights": None if weights is None else tensor(weights),
        **{key: tensor(array) for key, array in found.items()},
        "tolerance": TOLERANCE,
    }


# Metrics.


def rows(dtype, low, high):
    """Batches of several lengths, the last of them empty."""
    return [rnd(dtype, [n], low, high) for n in (5, 1, 8, 0)]


def matrices(dtype, low, high):
    return [rnd(dtype, [n, 3], low, high) for n in (4, 2, 6)]


def columns(batches):
    return [rnd(b.dtype, [*b.dims, 1], b.lo, b.hi) for b in batches]


def ones_like(batches):
    return [rnd(f32, b.dims, 0, 2) for b in batches]


SKEWED = [
    np.array([0, 0, 0.001, 0.3, 0.5, 0.5, 0.9, 1], f32),
    np.array([1, 0.9999999, 0.25, 0, 0.7], f32),
]
SKEWED_LABELS = [np.array([0, 1, 0, 0, 1, 0, 1, 1], np.bool_), np.array([1, 1, 0, 0, 0], np.bool_)]

# By metric: batches of labels (none for a mean), of predictions, further arguments, kinds of weights.
METRICS = {
    "mean": (None, matrices(f32, -3, 3), {}, ["number", "zero", "rows", "rows_1", "all", "signed"]),
    "mean/of_integers": (None, rows(i32, 0, 9), {}, ["number", "all"]),
    "accuracy": (rows(i64, 0, 2), rows(i64, 0, 2), {}, ["number", "all", "rows_1"]),
    "accuracy/other_dtype": (rows(i32, 0, 2), rows(i64, 0, 2), {}, []),
    "accuracy/column": (columns(rows(i64, 0, 2)), rows(i64, 0, 2), {}, ["all"]),
    "accuracy/matrix": (matrices(i64, 0, 1), matrices(i64, 0, 1), {}, ["rows", "rows_1", "all"]),
    "mean_squared_error": (matrices(f32, -2, 2), matrices(f32, -2, 2), {}, ["number", "rows_1", "all"]),
    "mean_squared_error/column": (rows(f32, -2, 2), columns(rows(f32, -2, 2)), {}, []),
    "precision": (rows(np.bool_, 0, 1), rows(np.bool_, 0, 1), {}, ["number", "zero", "all", "rows_1"]),
    "precision/of_integers": (matrices(i64, 0, 2), matrices(i32, 0, 1), {}, ["rows", "all"]),
    "recall": (rows(np.bool_, 0, 1), rows(np.bool_, 0, 1), {}, ["number", "zero", "all", "rows_1"]),
    "recall/of_integers": (matrices(i64, 0, 2), matrices(i32, 0, 1), {}, ["rows", "all"]),
    "auc/roc": (rows(np.bool_, 0, 1), rows(f32, 0, 1), {"curve": "ROC"}, ["number", "all", "zero"]),
    "auc/pr": (rows(np.bool_, 0, 1), rows(f32, 0, 1), {"curve": "PR"}, ["number", "all", "zero"]),
    "auc/roc_matrix": (matrices(i32, 0, 1), matrices(f32, 0, 1), {"curve": "ROC"}, ["rows", "all"]),
    "auc/roc_skewed": (SKEWED_LABELS, SKEWED, {"curve": "ROC"}, []),
    "auc/pr_skewed": (SKEWED_LABELS, SKEWED, {"curve": "PR"}, []),
    "mean_iou": (rows(i64, 0, 3), rows(i64, 0, 3), {"num_classes": 4}, ["all"]),
    "mean_iou/absent_class": (rows(i32, 0, 1), rows(i32, 0, 1), {"num_classes": 5}, []),
    "mean_iou/matrix": (matrices(i32, 0, 2), matrices(i32, 0, 2), {"num_classes": 3}, ["all"]),
    "confusion_matrix": (rows(i64, 0, 3), rows(i64, 0, 3), {"num_classes": 4}, ["all"]),
    "top_k": (rows(i32, 0, 2)[:3], [distinct(f32, [n, 3]) for n in (5, 1, 8)], {"k": 2}, ["number", "all"]),
}


def weight_batches(kind, batches):
    """Weights of each batch; all of one rank."""

    def of(batch):
        dims = list(batch.dims)
        if kind == "number":
            return rnd(f32, [], 0, 2)
        if kind == "zero":
            return np.zeros([], f32)
        if kind == "rows":
            return rnd(f32, dims[:-1], 0, 2)
        if kind == "rows_1":
            return rnd(f32, [*dims[:1], 1], 0, 2)
        return rnd(f32, dims, -1 if kind == "signed" else 0, 2)

    return [of(batch) for batch in batches]


def metric(name, labels, predictions, weights, arguments):
    """The tensors of a metric: its value, its update, and the value again once it is updated."""
    if name == "mean":
        return v1.metrics.mean(predictions, weights)
    if name == "top_k":
        hits = tf.math.in_top_k(targets=labels, predictions=predictions, k=arguments["k"])
        return v1.metrics.mean(tf.cast(hits, tf.float32), weights, name="top_k")
    if name == "confusion_matrix":
        from tensorflow.python.ops import metrics_impl

        with v1.variable_scope("confusion_matrix"):
            n = arguments["num_classes"]
            return metrics_impl._streaming_confusion_matrix(labels, predictions, n, weights)
    return getattr(v1.metrics, name)(labels, predictions, weights=weights, **arguments)


def metric_cases():
    for kind, (labels, predictions, arguments, weights) in METRICS.items():
        yield metric_case(f"metrics/{kind}", labels, predictions, None, arguments)
        for weight in weights:
            batches = weight_batches(weight, predictions if kind != "top_k" else labels)
            yield metric_case(f"metrics/{kind}/weights_{weight}", labels, predictions, batches, arguments)


def metric_case(name, *given):
    *lists, arguments = given
    lists = [x and drawn(f"{name}/{i}", *x) for i, x in enumerate(lists)]
    kind = name.split("/")[1]
    with tf.Graph().as_default() as graph:
        places = [x and v1.placeholder(x[0].dtype, [None] * x[0].ndim) for x in lists]
        value, update = metric(kind, *places, arguments)
        variables = v1.get_collection(v1.GraphKeys.METRIC_VARIABLES)
        # Nothing asks for the true negatives of a PR curve.
        sums = [op for op in graph.get_operations() if op.type.startswith("AssignAdd")]
        batches, values, updates = [], [], []
        with session(graph) as sess:
            sess.run([v.initializer for v in variables])
            values.append(tensor(sess.run(value)))
            for batch in itertools.zip_longest(*[x or [] for x in lists]):
                feed = {p: a for p, a in zip(places, batch) if p is not None}
                updated, _ = sess.run((update, sums), feed)
                values.append(tensor(sess.run(value)))
                updates.append(tensor(updated))
                batches.append([None if a is None else tensor(a) for a in batch])
            after = {v.op.name: tensor(sess.run(v)) for v in variables}
    return {
        "name": name,
        "kind": "metric",
        "metric": kind,
        "arguments": arguments,
        "batches": batches,
        "values": values,
        # The update of mean_iou is the matrix.
        "updates": None if kind == "mean_iou" else updates,
        "variables": after,
        "tolerance": TOLERANCE,
    }


# Which shapes fit each other.

VALUES = [[], [3], [3, 4], [3, 1]]
WEIGHTS = [[], [1], [3], [4], [3, 1], [1, 4], [1, 1], [3, 4], [4, 3], [2, 4], [1, 3], [3, 4, 1], [1, 1, 1]]


def fit_cases():
    """The value of ones with weights of 2, or that TensorFlow takes no such shapes."""
    functions = ["mean_squared_error", "hinge_loss", "metrics/mean", "metrics/precision", "metrics/accuracy"]
    for function, dims, weights in itertools.product(functions, VALUES, WEIGHTS):
        # TensorFlow's precision and recall repeat an element for each of several weights, alone of all.
        if not (function == "metrics/precision" and dims == [3, 1] and weights in ([1, 4], [3, 4], [1, 3], [3, 4, 1])):
            yield fit_case(function, dims, dims, weights)
    for function, labels, predictions in itertools.product(functions, VALUES + [[4], [4, 3]], VALUES):
        if function != "metrics/mean" and labels != predictions:
            yield fit_case(function, labels, predictions, None)
    for labels, logits in [([3], [3, 4]), ([3, 1], [3, 4]), ([4], [3, 4]), ([3, 4], [3, 4]), ([3, 2], [3, 2, 4])]:
        for weights in [None, *WEIGHTS]:
            yield fit_case("sparse_softmax_cross_entropy", labels, logits, weights)


def fit_case(function, labels, predictions, weights):
    name = f"fit/{function}/{labels}/{predictions}/{weights}".replace(" ", "")
    kind = i32 if "sparse" in function else f32
    arrays = [np.ones(labels, kind), np.full(predictions, 3, f32)]
    arrays.append(None if weights is None else np.full(weights, 2, f32))
    with tf.Graph().as_default() as graph:
        places = [None if a is None else place(a) for a in arrays]
        try:
            if function.startswith("metrics/"):
                _, value = metric(function.split("/")[1], *places, {})
            else:
                value = call(function, *places, {}, "sum" if weights else None)
        except ValueError:
            value = None
        found = None
        if value is not None:
            with session(graph) as sess:
                sess.run([v.initializer for v in v1.get_collection(v1.GraphKeys.METRIC_VARIABLES)])
                found = tensor(sess.run(value, {p: a for p, a in zip(places, arrays) if p is not None}))
    return {
        "name": name,
        "kind": "fit",
        "function": function,
        "reduction": "sum" if weights else "sum_over_nonzero_weights",
        "labels": tensor(arrays[0]),
        "predictions": tensor(arrays[1]),
        "weights": None if weights is None else tensor(arrays[2]),
        "value": found,
        "tolerance": TOLERANCE,
    }


def total_cases():
    """Sums of the collections of losses and of penalties."""
    values = {"losses": [0.5, 1.25, 2.0], "regularization_losses": [0.125, 3.0]}
    for losses, penalties in itertools.product((1, 3), (0, 1, 2)):
        with tf.Graph().as_default() as graph:
            taken = {"losses": values["losses"][:losses], "regularization_losses": values["regularization_losses"][:penalties]}
            for key, numbers in taken.items():
                for number in numbers:
                    v1.add_to_collection(key, tf.constant(number))
            asked = {"total": v1.losses.get_total_loss(), "regularization": v1.losses.get_regularization_loss()}
            with session(graph) as sess:
                found = sess.run(asked)
        yield {
            "name": f"total/{losses}_{penalties}",
            "kind": "total",
            "collections": taken,
            **{key: tensor(value) for key, value in found.items()},
            "tolerance": TOLERANCE,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args()
    cases = itertools.chain(loss_cases(), metric_cases(), fit_cases(), total_cases())
    lines = [dumps(case) for case in cases]
    if options.check:
        sys.exit(1 if check(PATH, lines) else 0)
    data = pack(lines)
    PATH.write_bytes(data)
    report(PATH, lines, data)


if __name__ == "__main__":
    main()
