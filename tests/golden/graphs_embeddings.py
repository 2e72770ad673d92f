"""Golden graphs: embeddings, whose gradients are rows, by every optimizer that has an update for rows."""

import numpy as np

from graphs_optimizers import OPTIMIZERS
from graphs_parts import KINDS, Layers, digests, floats, sparse_loss, train, variable, whole
from graphs_record import golden
from reference import f32, i32, i64, tf, v1

ROWS, WIDTH = 20, 6


def model(g, kind, tables, optimizer, strategy="mod", count=10):
    """The mean of a few embeddings, numbers repeated, classifies; trained for some steps."""
    ids = v1.placeholder(tf.int32, [None, 5], name="ids")
    labels = v1.placeholder(tf.int32, [None], name="labels")
    embedded = v1.nn.embedding_lookup(tables, ids, partition_strategy=strategy)
    loss = sparse_loss(Layers(kind).dense("softmax", tf.reduce_mean(embedded, 1), 4), labels)
    step = optimizer.minimize(loss, v1.train.get_or_create_global_step())
    feeds = {
        ids: [whole(f"ids {i}", [6, 5], ROWS // 2 * (1 + i)) for i in range(2)],
        labels: [whole(f"classes {i}", [6], 4) for i in range(2)],
    }
    train(g, step, [loss], feeds, count)
    for table in tables:
        g.step(table)


def adagrad(g, kind, parts, strategy="mod"):
    """Adagrad on one table, or on one that is dealt out to several."""
    tables = [variable(f"part{i}", [ROWS // parts, WIDTH], kind) for i in range(parts)]
    model(g, kind, tables, v1.train.AdagradOptimizer(0.5), strategy)


for _kind in KINDS:
    golden(f"embeddings_adagrad_{_kind}", rel=1e-4, kind=_kind, parts=1)(adagrad)
    golden(f"embeddings_mod_{_kind}", rel=1e-4, kind=_kind, parts=4)(adagrad)
golden("embeddings_div_resource", rel=1e-4, kind="resource", parts=4, strategy="div")(adagrad)

OTHERS = """
gradient_descent momentum nesterov adam rmsprop rmsprop_centered adadelta ftrl proximal_adagrad
proximal_gradient_descent adagrad_da
""".split()


def by_optimizer(g, kind, optimizer):
    """A table by another optimizer."""
    model(g, kind, [variable("table", [ROWS, WIDTH], kind)], OPTIMIZERS[optimizer](), count=5)


for _kind in KINDS:
    for _name in OTHERS:
        golden(f"embeddings_{_name}_{_kind}", rel=1e-4, kind=_kind, optimizer=_name)(by_optimizer)


@golden("embeddings_sparse", rel=1e-4)
def sparse_ids(g):
    """embedding_lookup_sparse: rows of different lengths, weighted; sums, means, and sqrtn."""
    indices = v1.placeholder(tf.int64, [None, 2], name="indices")
    values = v1.placeholder(tf.int64, [None], name="values")
    weights = v1.placeholder(tf.float32, [None], name="weights")
    dims = tf.constant([4, 3], tf.int64)
    ids = tf.SparseTensor(indices, values, dims)
    heavy = tf.SparseTensor(indices, weights, dims)
    table = variable("table", [ROWS, WIDTH], "resource")
    sums = [
        v1.nn.embedding_lookup_sparse(table, ids, heavy if weighted else None, combiner=combiner)
        for combiner in ("sum", "mean", "sqrtn")
        for weighted in (False, True)
    ]
    loss = tf.add_n([tf.reduce_mean(tf.square(s)) for s in sums])
    step = v1.train.AdagradOptimizer(0.1).minimize(loss)
    feeds = {
        indices: np.array([[0, 0], [0, 1], [1, 0], [2, 0], [2, 1], [2, 2], [3, 0]], i64),
        values: np.array([3, 7, 3, 19, 19, 0, 5], i64),
        weights: floats("weights of ids", [7], 0.1, 2),
    }
    g.init_variables()
    for _ in range(3):
        g.step(loss, *sums, feeds=feeds)
        g.step(feeds=feeds, run=step)
    g.step(*digests([table]), table[3])


@golden("embeddings_scatter")
def scatters(g):
    """Rows of variables set, added to, and so on, of both kinds; gathers, and an index that is too large."""
    ids = v1.placeholder(tf.int32, [3], name="ids")
    rows = v1.placeholder(tf.float32, [3, 2], name="rows")
    names = ("update", "add", "sub", "mul", "div", "min", "max")
    of_kind = {kind: variable(f"table_{kind}", [5, 2], kind) for kind in KINDS}
    g.init_variables()
    for name in names:
        # A number may come twice but where the last one would win.
        feeds = {ids: np.array([4, 0, 2] if name == "update" else [4, 0, 4], i32)}
        feeds[rows] = floats(f"rows to {name}", [3, 2], 0.1, 2)
        for table in of_kind.values():
            g.step(feeds=feeds, run=getattr(v1, f"scatter_{name}")(table, ids, rows))
        g.step(*of_kind.values())
    points = tf.stack([ids, ids % 2], 1)
    for table in of_kind.values():
        g.step(tf.gather(table, ids), feeds={ids: np.array([1, 1, 3], i32)})
        for scatter, numbers in ((v1.scatter_nd_update, [1, 2, 3]), (v1.scatter_nd_add, [1, 1, 3])):
            feeds = {rows: floats("scattered", [3, 2]), ids: np.array(numbers, i32)}
            g.step(feeds=feeds, run=scatter(table, points, rows[:, 0]))
        g.step(table)
    bad = {ids: np.array([1, 5, 0], i32), rows: np.ones([3, 2], f32)}
    for table in of_kind.values():
        g.step(tf.gather(table, ids), feeds=bad, fails=True)
        g.step(feeds=bad, run=v1.scatter_add(table, ids, rows), fails=True)
