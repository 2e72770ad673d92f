"""Golden graphs: branches and cases of both versions of control flow, with gradients and updates in them."""

import numpy as np

from graphs_parts import floats, variable
from graphs_record import golden
from reference import f32, i32, raw, tf, v1


def cond(g):
    """Branches, nested, with gradients, and with updates of both kinds of variables in one branch alone."""
    p, q = (v1.placeholder(tf.bool, [], name=n) for n in "pq")
    x = v1.placeholder(tf.float32, [2, 3], name="x")
    # A function's body cannot take a reference, so functional branches have resources alone.
    kinds = ("ref", "resource") if not v1.control_flow_v2_enabled() else ("resource", "resource")
    one, other = (variable(n, [2, 3], k) for n, k in zip(("one", "other"), kinds))

    def inner():
        return tf.cond(q, lambda: tf.sin(x) * one, lambda: x + other)

    y = tf.cond(p, lambda: inner() * 2.0, lambda: tf.exp(x) * one * other)
    # A branch may return an outer value unchanged.
    kept = tf.cond(q, lambda: y, lambda: x)
    gradients = [tf.convert_to_tensor(d) for d in tf.gradients(kept * kept, [x, one, other])]

    def updated(v, amount):
        with tf.control_dependencies([v1.assign_add(v, tf.fill([2, 3], amount))]):
            return tf.identity(x)

    moved = tf.cond(p, lambda: updated(one, 1.0), lambda: updated(other, -1.0), name="moved")
    several = tf.cond(q, lambda: [x[0], tf.constant(1)], lambda: [x[1], tf.size(x)])
    g.init_variables()
    for first in (True, False):
        for second in (True, False):
            feeds = {p: first, q: second, x: floats(f"cond {first} {second}", [2, 3])}
            g.step(y, kept, *several, feeds=feeds)
            g.step(*gradients, feeds=feeds)
            g.step(moved, feeds=feeds)
            g.step(one, other)


golden("cond_v1")(cond)
golden("cond_v2", flow="v2")(cond)


@golden("cond_v1_outside")
def cond_outside(g):
    """Control edges into branches, a loop in a branch, and a branch that makes nothing."""
    p = v1.placeholder(tf.bool, [], name="p")
    x = v1.placeholder(tf.float32, [], name="x")
    count = variable("count", [], "resource", v1.zeros_initializer())
    with tf.control_dependencies([count.assign_add(1.0)]):
        y = tf.cond(p, lambda: x + count.read_value(), lambda: x - count.read_value())

    def power():
        return tf.while_loop(lambda i, v: i < 5, lambda i, v: (i + 1, v * x), (0, 1.0))[1]

    z = tf.cond(p, power, lambda: x)
    slope = tf.gradients(z, x)[0]
    nothing = tf.cond(p, lambda: count.assign_sub(10.0).op, lambda: tf.no_op())
    g.init_variables()
    for truth in (True, False, True):
        g.step(y, feeds={p: truth, x: 3.0})
        g.step(z, slope, feeds={p: truth, x: 1.5})
        g.step(feeds={p: truth}, run=nothing)
        g.step(count)


def cases(g):
    """tf.case by predicates and tf.switch_case by number, with a gradient."""
    x = v1.placeholder(tf.float32, [3], name="x")
    index = v1.placeholder(tf.int32, [], name="index")
    weight = variable("weight", [3], "resource")
    by_order = tf.case(
        [(tf.reduce_sum(x) > 1.0, lambda: x * 2.0), (x[0] > 0.0, lambda: x * weight)],
        default=lambda: -x,
    )
    by_number = tf.switch_case(index, [lambda: x + 1.0, lambda: x * weight, lambda: tf.square(x) * weight])
    gradients = tf.gradients(by_number, [x, weight])
    g.init_variables()
    for fed in ([1, 1, 1], [0.5, -1, 0], [-1, 0.25, 0.5]):
        g.step(by_order, feeds={x: np.array(fed, f32)})
    # A number that no branch has takes the last branch.
    for number in (0, 1, 2, 3, -1):
        g.step(by_number, *gradients, feeds={x: np.array([0.5, 2, -1], f32), index: number})


golden("case_v1")(cases)
golden("case_v2", flow="v2")(cases)


@golden("dead_values")
def dead_values(g):
    """Switches and merges by hand: propagation of dead values."""
    p = v1.placeholder(tf.bool, [], name="p")
    x = v1.placeholder(tf.float32, [2], name="x")
    count = variable("count", [], "resource", v1.zeros_initializer())
    old = variable("old", [], "ref", v1.zeros_initializer())
    switch = raw.Switch(data=x, pred=p, name="switch")
    no, yes = tf.negative(switch.output_false, name="no"), tf.square(switch.output_true, name="yes")
    merge = raw.Merge(inputs=[no, yes], name="merge")
    with tf.control_dependencies([yes]):
        held = tf.constant(5.0, name="held")
        counted = count.assign_add(1.0, read_value=False)
        old_counted = v1.assign_add(old, 1.0)
    with tf.control_dependencies([merge.output]):
        free = tf.constant(7.0, name="free")
    # One dead input makes a node dead; a merge of dead inputs alone is dead too.
    mixed = tf.add(no, yes, name="mixed")
    both_dead = raw.Merge(inputs=[mixed, mixed + 1.0], name="both_dead")
    three = raw.Merge(inputs=[mixed, no, mixed * 2.0], name="three")
    rest = raw.Merge(inputs=[held, raw.Switch(data=2.0, pred=p).output_false], name="rest")
    ref_switch = raw.RefSwitch(data=old._ref(), pred=p, name="ref_switch")
    ref_merge = raw.RefMerge(inputs=[ref_switch.output_false, ref_switch.output_true], name="ref_merge")
    chosen = v1.assign_add(ref_switch.output_true, 10.0, name="add_if")
    g.init_variables()
    for truth in (True, False):
        feeds = {p: truth, x: np.array([3, -4], f32)}
        live, dead = (yes, no) if truth else (no, yes)
        g.step(live, merge.output, merge.value_index, free, *rest, feeds=feeds)
        g.step(dead, feeds=feeds, fails=True)
        g.step(live, dead, feeds=feeds, fails=True)
        g.step(mixed, feeds=feeds, fails=True)
        g.step(both_dead.output, feeds=feeds, fails=True)
        g.step(both_dead.value_index, feeds=feeds, fails=True)
        g.step(held, feeds=feeds, fails=not truth)
        g.step(three.output, three.value_index, feeds=feeds, fails=truth)
        # A target that is dead does nothing.
        g.step(feeds=feeds, run=[counted, old_counted, chosen, mixed])
        g.step(tf.identity(count), old)
        g.step(ref_merge.output, ref_merge.value_index, feeds=feeds)
        # A fed value is alive, whatever would have made it.
        g.step(mixed, feeds={no: np.array([1, 1], f32), yes: np.array([2, 2], f32)})
        g.step(mixed, feeds=feeds | {dead: np.array([1, 1], f32)})


@golden("ref_select")
def ref_select(g):
    """RefSelect and RefIdentity choose a variable, which is then updated."""
    index = v1.placeholder(tf.int32, [], name="index")
    parts = [variable(f"part{i}", [2], "ref") for i in range(3)]
    chosen = raw.RefIdentity(input=raw.RefSelect(index=index, inputs=[v._ref() for v in parts]))
    update = v1.assign(chosen, tf.fill([2], tf.cast(index, tf.float32)))
    g.init_variables()
    for number in (2, 0):
        g.step(update, feeds={index: i32(number)})
        g.step(*parts)
    g.step(update, feeds={index: i32(3)}, fails=True)


@golden("cond_merges_v1")
def merges(g):
    """Merges whose index is fetched, and one of a dead value and a constant outside of the branches: a sparse gradient."""
    p = v1.placeholder(tf.bool, [], name="p")
    x = v1.placeholder(tf.float32, [2, 3], name="x")
    w = variable("w", [4, 2], "resource")
    taken = raw.Switch(data=x, pred=p)
    merged = raw.Merge(inputs=[taken.output_false * 2.0, taken.output_true])
    read = tf.cond(tf.constant(True), lambda: x[0, 0] * tf.reduce_sum(w.sparse_read([1, 2])), lambda: tf.constant(0.0))
    slope = tf.gradients(read, w)[0]
    g.init_variables()
    for value in (True, False):
        feeds = {p: value, x: floats(f"merges {value}", [2, 3])}
        g.step(merged.output, merged.value_index, feeds=feeds)
        g.step(read, slope.values, slope.indices, slope.dense_shape, feeds=feeds)
