"""Control flow and calls whose bodies update a variable: the stateful forms If, While and the call."""

from model import TYPES, raw, tf
from registry import pattern
from rules import EXACT
from table_flow import LOOP
from table_state import RESOURCE, variable

STATE = " ".join(RESOURCE)
KINDS = ("f32", "f64", "i32", "i64")


def added(handle, x, kind):
    """The variable's value after x is added to it."""
    update = raw.AssignAddVariableOp(resource=handle, value=x)
    with tf.control_dependencies([update]):
        return raw.ReadVariableOp(resource=handle, dtype=TYPES[kind])


def target(g):
    """A variable, and a wire that can be added to it."""
    v = variable(g, "AssignAddVariableOp", KINDS, False, (0, 2))
    return v, g.wire(v.kind, dims=v.dims, low=-3, high=3)


@pattern("cond on a variable", f"Switch Merge {STATE}", f"If {STATE}", weight=0.5)
def cond_on_variable(g):
    (v, x), p = target(g), g.wire("bool", rank=0)

    def function(p, x, handle):
        read = lambda: raw.ReadVariableOp(resource=handle, dtype=TYPES[v.kind])  # noqa: E731
        return tf.cond(p, lambda: added(handle, x, v.kind), read)

    g.compose("cond_on_variable", function, [p, x, v], EXACT)


@pattern("while on a variable", f"{LOOP[0]} {STATE}", f"While {STATE}", weight=0.5)
def while_on_variable(g):
    (v, x), count = target(g), g.wire("i32", rank=0, low=0, high=4)

    def function(count, x, handle):
        def step(i, last):
            return i + 1, added(handle, x + tf.cast(i, x.dtype), v.kind)

        return tf.while_loop(lambda i, last: i < count, step, (tf.constant(0), x), parallel_iterations=1)

    g.compose("while_on_variable", function, [count, x, v], EXACT)


@pattern(
    "call on a variable", f"StatefulPartitionedCall {STATE}", f"StatefulPartitionedCall {STATE}", weight=0.5
)
def call_on_variable(g):
    v, x = target(g)

    def function(x, handle):
        def body(x, handle):
            return added(handle, x, v.kind)

        return (body if tf.executing_eagerly() else tf.function(body))(x, handle)

    g.compose("call_on_variable", function, [x, v], EXACT)
