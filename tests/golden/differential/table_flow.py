"""Control flow: branches and loops, as functions (If, While, Case) or as Switch and Merge, and calls.

A graph has one of both forms, by its seed; the Python function of a node makes either, and eagerly it
just runs.
"""

from model import FLOAT, tf
from registry import op, pattern
from rules import EXACT, Rule
from stir import stirred

# Steps of a function's body. The exact ones round the same way wherever they run.
EXACT_STEPS = (
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: tf.maximum(x, y),
    lambda x, y: tf.minimum(x, y),
    lambda x, y: -x,
    lambda x, y: x * x - y,
)
FLOAT_STEPS = (
    lambda x, y: tf.tanh(x),
    lambda x, y: tf.sigmoid(x) * y,
    lambda x, y: x * 0.5 + tf.sin(y),
    lambda x, y: x / (1.0 + tf.abs(y)),
    lambda x, y: x - tf.reduce_mean(y),
)
BRANCH = ("Switch Merge", "StatelessIf")
LOOP = ("Enter Exit LoopCond Merge NextIteration Switch", "StatelessWhile")
EXACT_FLOW = Rule("exact", composed=True)
ROUNDED_FLOW = Rule("summed", 4)


def body(g, kind):
    """A random function of two tensors of one shape, to one of that shape; and its rule."""
    exact = kind not in FLOAT or g.chance(0.4)
    steps = [g.one(*EXACT_STEPS, *(() if exact else FLOAT_STEPS)) for _ in range(g.integer(1, 3))]

    def function(x, y):
        for step in steps:
            x = step(x, y) if exact else stirred(step(x, y))
        return x

    return function, EXACT_FLOW if exact else ROUNDED_FLOW


def looser(*rules):
    return ROUNDED_FLOW if ROUNDED_FLOW in rules else EXACT_FLOW


def pair(g):
    """Two wires of one type and shape."""
    x = g.wire(g.kind(FLOAT + ("i32", "i64"), "AddV2"), low=-3, high=3)
    return x, g.like(x, -3, 3)


@pattern("cond", *BRANCH, weight=1.2)
def cond(g):
    (x, y), p = pair(g), g.wire("bool", rank=0)
    (then, a), (other, b) = body(g, x.kind), body(g, x.kind)
    second = g.chance(0.5)

    def function(p, x, y):
        if second:
            return tf.cond(p, lambda: (then(x, y), x), lambda: (other(y, x), y))
        return tf.cond(p, lambda: then(x, y), lambda: other(y, x))

    g.compose("cond", function, [p, x, y], looser(a, b))


@pattern("nested cond", *BRANCH, weight=0.5)
def nested_cond(g):
    (x, y), p, q = pair(g), g.wire("bool", rank=0), g.wire("bool", rank=0)
    (one, a), (two, b) = body(g, x.kind), body(g, x.kind)

    def function(p, q, x, y):
        inner = lambda: tf.cond(q, lambda: one(x, y), lambda: two(x, y))  # noqa: E731
        return tf.cond(p, inner, lambda: x)

    g.compose("nested_cond", function, [p, q, x, y], looser(a, b))


@pattern("switch_case", "Switch Merge", "StatelessCase", weight=0.7)
def switch_case(g):
    """An index outside of the branches takes the last one."""
    (x, y), index = pair(g), g.wire("i32", rank=0)
    parts = [body(g, x.kind) for _ in range(g.integer(1, 3))]

    def function(index, x, y):
        branches = [lambda f=f: f(x, y) for f, _ in parts]
        if g.flow == 1:
            index = tf.clip_by_value(index, 0, len(branches) - 1)
        return tf.switch_case(index, branches)

    g.compose("switch_case", function, [index, x, y], looser(*(rule for _, rule in parts)))


def settled(f, kind):
    """The body with its values kept in bounds, so that loops end where they began."""
    if kind in FLOAT:
        return lambda x, y: tf.clip_by_value(f(x, y), -4.0, 4.0)
    return lambda x, y: tf.clip_by_value(f(x, y), -99, 99)


@pattern("while", *LOOP, weight=1.2)
def while_loop(g):
    (x, y), count = pair(g), g.wire("i32", rank=0, low=0, high=5)
    step, rule = body(g, x.kind)
    step = settled(step, x.kind)

    def function(count, x, y):
        ahead = lambda i, x: i < count  # noqa: E731
        return tf.while_loop(ahead, lambda i, x: (i + 1, step(x, y)), (tf.constant(0), x))

    g.compose("while", function, [count, x, y], rule)


@pattern("while on a value", *LOOP, weight=0.6)
def while_value(g):
    """How often it runs depends on the data."""
    x = g.wire(g.kind(("f32", "f64", "i32"), "AddV2"), rank=(0, 2), low=0, high=3)

    def function(x):
        below = lambda i, v: tf.logical_and(i < 6, tf.reduce_sum(v) < 20)  # noqa: E731
        return tf.while_loop(below, lambda i, v: (i + 1, v * 2 + 1), (tf.constant(0), x))

    g.compose("while_value", function, [x], Rule("summed"))


@pattern("nested while", *LOOP, weight=0.4)
def nested_while(g):
    (x, y), count = pair(g), g.wire("i32", rank=0, low=0, high=3)
    step, rule = body(g, x.kind)
    step = settled(step, x.kind)

    def function(count, x, y):
        def outer(i, x):
            _, x = tf.while_loop(lambda j, x: j < i, lambda j, x: (j + 1, step(x, y)), (tf.constant(0), x))
            return i + 1, x

        return tf.while_loop(lambda i, x: i < count, outer, (tf.constant(0), x))[1]

    g.compose("nested_while", function, [count, x, y], rule)


@pattern("cond in while", *LOOP, weight=0.4)
def cond_in_while(g):
    (x, y), count = pair(g), g.wire("i32", rank=0, low=0, high=5)
    (one, a), (two, b) = body(g, x.kind), body(g, x.kind)
    one, two = settled(one, x.kind), settled(two, x.kind)

    def function(count, x, y):
        def step(i, x):
            return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: one(x, y), lambda: two(x, y))

        return tf.while_loop(lambda i, x: i < count, step, (tf.constant(0), x))[1]

    g.compose("cond_in_while", function, [count, x, y], looser(a, b))


@pattern("growing while", *LOOP, weight=0.4)
def growing_while(g):
    """A loop variable that changes its shape."""
    x = g.wire(g.kind(FLOAT + ("i32",), "ConcatV2"), rank=1)
    count = g.wire("i32", rank=0, low=0, high=3)

    def function(count, x):
        shapes = (tf.TensorShape([]), tf.TensorShape([None]))
        grow = lambda i, v: (i + 1, tf.concat([v, x], 0))  # noqa: E731
        return tf.while_loop(lambda i, v: i < count, grow, (tf.constant(0), x), shape_invariants=shapes)

    g.compose("growing_while", function, [count, x], EXACT)


@pattern("call", "PartitionedCall", weight=0.8)
def call(g):
    x, y = pair(g)
    step, rule = body(g, x.kind)
    twice = g.chance(0.3)

    def function(x, y):
        called = step if tf.executing_eagerly() else tf.function(step)
        return called(called(x, y), y) if twice else called(x, y)

    g.compose("call", function, [x, y], rule)


@op("NoOp", weight=0.3)
def no_op(g):
    """A target that waits for others."""
    g.add("NoOp")
    g.nodes[-1].controls = g.random.sample(g.nodes[:-1], min(len(g.nodes) - 1, g.integer(0, 3)))


@op("Assert", weight=0.3)
def assert_(g):
    true = g.source(True, "bool")
    data = [g.wire(g.kind(("i32", "f32", "string"), "Identity")) for _ in range(g.integer(1, 2))]
    g.add("Assert", condition=true, data=data)
