"""A golden graph of ops that later versions replaced, as files of 2016 have them."""

import numpy as np

from graphs_parts import floats
from graphs_record import golden
from reference import f32, i32, raw, tf, v1


@golden("old_ops", absolute=1e-5)
def old_ops(g):
    """Concat, Gather, Select, FusedBatchNorm, Variable, and others without the versions in their names."""
    x = v1.placeholder(tf.float32, [2, 4, 4, 3], name="x")
    n = v1.placeholder(tf.int32, [3], name="n")
    rows = tf.reshape(x, [2, 16, 3])
    square = x[0, :3, :3, 0]
    scale, offset, none = (
        tf.constant([1.0, 2.0, 0.5]),
        tf.constant([0.1, 0.0, -1.0]),
        tf.constant([], tf.float32),
    )
    batch = {"x": x, "scale": scale, "offset": offset, "mean": none, "variance": none}
    first, second = raw.FusedBatchNorm(**batch), raw.FusedBatchNormV2(**batch)
    back = raw.FusedBatchNormGrad(
        y_backprop=x * x, x=x, scale=scale, reserve_space_1=first[3], reserve_space_2=first[4]
    )
    small = raw.ResizeBilinear(images=x, size=[3, 5])
    cut = raw.SpaceToBatch(input=x, paddings=[[0, 0], [2, 0]], block_size=2)
    tensors = [
        raw.Concat(concat_dim=1, values=[rows, rows * 2.0]),
        raw.Gather(params=rows[0], indices=n),
        v1.where(square > 0.0, square, -square),
        v1.where([True, False], x, -x),
        raw.InTopK(predictions=square, targets=n % 3, k=1),
        raw.BatchMatMul(x=rows, y=rows, adj_x=True),
        raw.Add(x=square, y=square),
        raw.Div(x=-n, y=[2, -2, 3]),
        raw.Div(x=square, y=2.0),
        raw.Mod(x=-n, y=[2, 3, 5]),
        raw.Reverse(tensor=x, dims=[False, True, False, True]),
        raw.MatrixDiag(diagonal=square),
        raw.MatrixDiagPart(input=square),
        raw.MatrixSetDiag(input=square, diagonal=[1.0, 2.0, 3.0]),
        raw.SparseToDense(
            sparse_indices=[[0, 1], [2, 0]], output_shape=[3, 2], sparse_values=[5, 7], default_value=-1
        ),
        raw.Bincount(arr=n, size=6, weights=[0.5, 1.5, 2.0]),
        raw.ListDiff(x=n, y=[1])[0],
        small,
        raw.ResizeBilinearGrad(grads=small * small, original_image=x),
        cut,
        raw.BatchToSpace(input=cut, crops=[[1, 1], [2, 0]], block_size=2),
        *first[:3],
        *second[:3],
        *back[:3],
    ]
    for i in range(2):
        g.step(*tensors, feeds={x: floats(f"old {i}", [2, 4, 4, 3]), n: np.array([1 + i, 0, 4], i32)})


@golden("old_variables")
def old_variables(g):
    """The op Variable, use before a value is there, counting up to a limit, stacks that are references."""
    x = v1.placeholder(tf.float32, [2], name="x")
    wide = v1.placeholder(tf.float32, name="wide")
    kept = raw.Variable(shape=[2], dtype=tf.float32, name="kept")
    given = raw.Assign(ref=kept, value=x)
    loose = raw.Assign(ref=kept, value=tf.concat([x, x], 0), validate_shape=False)
    count = raw.VariableV2(shape=[], dtype=tf.int32, name="count")
    start = raw.Assign(ref=count, value=0)
    counted = raw.CountUpTo(ref=count, limit=2)
    there = [raw.IsVariableInitialized(ref=r) for r in (kept, count)]
    g.step(*there)
    g.step(kept, fails=True)
    g.step(raw.AssignAdd(ref=count, value=1), fails=True)
    g.step(given, feeds={x: np.array([1, 2], f32)})
    g.step(kept)
    g.step(raw.AssignSub(ref=kept, value=x), feeds={x: np.array([0.5, 0.25], f32)})
    g.step(run=loose, feeds={x: np.array([3, 4], f32)})
    g.step(kept)
    g.step(run=raw.Assign(ref=kept, value=wide), feeds={wide: np.zeros([3], f32)}, fails=True)
    g.step(run=start)
    g.step(*there)
    g.step(counted)
    g.step(counted)
    g.step(counted, fails=True)
    g.step(count)
    resource = v1.get_variable("resource", [2], use_resource=True)
    g.step(resource, fails=True)
    g.step(run=v1.assign_add(resource, x), feeds={x: np.array([1, 2], f32)}, fails=True)
    g.step(raw.VarIsInitializedOp(resource=resource.handle))
    # Pushed values come back in the opposite order; a stack lives as long as its step.
    stack = raw.Stack(elem_type=tf.float32, stack_name="numbers")
    one = raw.StackPush(handle=stack, elem=x)
    with tf.control_dependencies([one]):
        two = raw.StackPush(handle=stack, elem=x * 2.0)
    with tf.control_dependencies([two]):
        last = raw.StackPop(handle=stack, elem_type=tf.float32)
    with tf.control_dependencies([last]):
        before = raw.StackPop(handle=stack, elem_type=tf.float32)
    with tf.control_dependencies([before]):
        nothing = raw.StackPop(handle=stack, elem_type=tf.float32)
    g.step(last, before, feeds={x: np.array([1, 2], f32)})
    g.step(nothing, feeds={x: np.array([1, 2], f32)}, fails=True)


@golden("references_at_the_end")
def references_at_the_end(g):
    """A fetched reference has the value at the end of the step; readers in loops and branches see updates before them."""
    x = v1.placeholder(tf.float32, [], name="x")
    step = v1.get_variable("step", initializer=0, trainable=False, use_resource=False)
    w = v1.get_variable("w", initializer=2.0, use_resource=False)
    train = v1.train.AdamOptimizer(0.1).minimize(tf.square(w - x), step)
    given = v1.assign(w, x)
    g.init_variables()
    for _ in range(3):
        g.step("step:0", "w:0", w, run=train, feeds={x: f32(5)})
    g.step(given, "w:0", feeds={x: f32(3)})
    # Who uses the value sees it before or after the update, as the graph orders it.
    with tf.control_dependencies([train]):
        after = step + 0
    g.step(after, "step:0", feeds={x: f32(5)})

    v = v1.get_variable("v", initializer=2.0, use_resource=False)
    n = v1.get_variable("n", initializer=0, use_resource=False)

    def squared(i):
        with tf.control_dependencies([v1.assign(v, tf.square(v))]):
            return i + 1

    def in_branch(i):
        changed = tf.cond(i < 1, lambda: v1.assign(v, tf.square(v)), lambda: v1.assign_add(v, 1.0))
        with tf.control_dependencies([changed]):
            return i + 1

    def counted(i):
        def inner(j):
            with tf.control_dependencies([v1.assign_add(n, n + j)]):
                return j + 1

        return tf.nest.flatten(tf.while_loop(lambda j: j < i + 2, inner, (i,), parallel_iterations=1))[0]

    for body in (squared, in_branch, counted):
        turns = tf.nest.flatten(tf.while_loop(lambda i: i < 3, body, (0,), parallel_iterations=1))
        g.step(run=[v.initializer, n.initializer])
        g.step(*turns)
        g.step("v:0", "n:0")
