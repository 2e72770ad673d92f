"""Golden graphs of rare ops: mutexes, temporary variables, parts of lists, gradients of arrays, names of 2015 and 2016."""

import numpy as np
from tensorflow.core.framework import graph_pb2

from graphs_parts import floats
from graphs_record import golden
from reference import f32, i32, raw, tf, v1


def older(producer):
    """Lets the graph have ops that TensorFlow took back in later versions."""
    def_ = graph_pb2.GraphDef()
    def_.versions.producer = producer
    def_.node.add(name="older", op="NoOp")
    tf.graph_util.import_graph_def(def_, name="")


@golden("critical_sections")
def critical_sections(g):
    """A value that is read and written under a lock, twice in one step, and a lock that a failed step gives back."""
    x = v1.placeholder(tf.float32, [], name="x")
    total = v1.get_variable("total", initializer=1.0, use_resource=True)
    section = tf.CriticalSection(name="section")

    def more():
        read = total.read_value()
        with tf.control_dependencies([read]):
            return v1.assign(total, read * 2.0 + x)

    both = [section.execute(more), section.execute(more)]
    last = tf.group(*both)
    with tf.control_dependencies([last]):
        result = total.read_value()

    def wrong():
        return tf.debugging.check_numerics(x / 0.0, "not finite")

    failing = section.execute(wrong)
    g.init_variables()
    for i in range(3):
        g.step(result, feeds={x: f32(i)})
    g.step(failing, feeds={x: f32(1)}, fails=True)
    g.step(result, feeds={x: f32(5)})


@golden("temporary_variables")
def temporary_variables(g):
    """A sum in a variable that a step makes and destroys."""
    x = v1.placeholder(tf.float32, [2], name="x")
    made = raw.TemporaryVariable(shape=[2], dtype=tf.float32, var_name="sum")
    first = raw.Assign(ref=made, value=x)
    second = raw.AssignAdd(ref=first, value=x * 2.0)
    third = raw.AssignSub(ref=second, value=[1.0, 0.5])
    result = raw.DestroyTemporaryVariable(ref=third, var_name="sum")
    for i in range(2):
        g.step(result, feeds={x: floats(f"temporary {i}", [2])})


@golden("list_parts")
def list_parts(g):
    """TensorListScatter, TensorListConcat, TensorListConcatLists, TensorListPushBackBatch."""
    x = v1.placeholder(tf.float32, [3, 2], name="x")
    places = tf.constant([4, 0, 2])
    scattered = raw.TensorListScatter(tensor=x, indices=places, element_shape=[2])
    rows = raw.TensorListFromTensor(tensor=x, element_shape=[2])
    pieces = raw.TensorListSplit(tensor=x, element_shape=[-1, 2], lengths=tf.constant([1, 2], tf.int64))
    joined, lengths = raw.TensorListConcat(input_handle=pieces, element_dtype=tf.float32)
    both = raw.TensorListConcatLists(input_a=rows, input_b=scattered, element_dtype=tf.float32)
    many = tf.stack([rows, rows, both])
    longer = raw.TensorListPushBackBatch(input_handles=many, tensor=x)
    stack = lambda handle: raw.TensorListStack(
        input_handle=handle, element_shape=[2], element_dtype=tf.float32, num_elements=-1
    )
    g.step(stack(scattered), joined, lengths, stack(both), feeds={x: floats("list parts", [3, 2])})
    g.step(*[stack(longer[i]) for i in range(3)], feeds={x: floats("list parts", [3, 2])})


@golden("array_gradients")
def array_gradients(g):
    """The array of gradients whose elements have a dimension more."""
    x = v1.placeholder(tf.float32, [2, 3], name="x")
    array = tf.TensorArray(tf.float32, 2, element_shape=[3]).unstack(x)
    grad, flow = raw.TensorArrayGradWithShape(
        handle=array.handle, flow_in=array.flow, shape_to_prepend=[2], source="gradients"
    )
    wide = tf.stack([x[0], x[1]])
    flow = raw.TensorArrayWriteV3(handle=grad, index=0, value=wide, flow_in=flow)
    flow = raw.TensorArrayWriteV3(handle=grad, index=0, value=wide * 2.0, flow_in=flow)
    read = raw.TensorArrayReadV3(handle=grad, index=0, flow_in=flow, dtype=tf.float32)
    loose = v1.placeholder_with_default(x[0], None)
    narrow = raw.TensorArrayWriteV3(handle=grad, index=1, value=loose, flow_in=flow)
    g.step(read, feeds={x: floats("array gradients", [2, 3])})
    g.step(narrow, feeds={x: floats("array gradients", [2, 3])}, fails=True)


@golden("old_matrices", absolute=1e-4)
def old_matrices(g):
    """Diagonals of batches by their first names, MatrixExponential, PlaceholderV2."""
    older(2)
    x = v1.placeholder(tf.float32, [2, 3, 3], name="x")
    tensors = [
        raw.BatchMatrixDiag(diagonal=x[0]),
        raw.BatchMatrixDiagPart(input=x),
        raw.BatchMatrixSetDiag(input=x, diagonal=x[0, :2]),
        raw.BatchMatrixBandPart(input=x, num_lower=tf.constant(1, tf.int64), num_upper=tf.constant(0, tf.int64)),
        raw.MatrixExponential(input=x),
        raw.MatrixExponential(input=x * 10.0),
        raw.PlaceholderV2(dtype=tf.float32, shape=[2, 3, 3], name="second"),
        raw.DebugGradientIdentity(input=x),
    ]
    given = {x: floats("old matrices", [2, 3, 3])}
    g.step(*tensors, feeds={**given, tensors[-2]: floats("second", [2, 3, 3])})


@golden("old_normal_numbers")
def old_normal_numbers(g):
    """Numbers of a generator whose state begins with its algorithm."""
    older(28)
    state = v1.get_variable("state", initializer=tf.constant([1, 5, 2**40, 77], tf.int64), use_resource=True)
    normal = lambda dtype: raw.StatefulStandardNormal(resource=state.handle, shape=tf.constant([5], i32), dtype=dtype)
    numbers = normal(tf.float32)
    with tf.control_dependencies([numbers]):
        wide = normal(tf.float64)
    g.init_variables()
    for _ in range(2):
        g.step(numbers, wide)
        g.step(state)


@golden("mapped_functions")
def mapped_functions(g):
    """For, which counts up and down, and MapDefun over the rows of two tensors."""
    x = v1.placeholder(tf.float32, [3, 2], name="x")
    n = v1.placeholder(tf.int32, [3], name="n")

    def in_library(body, *specs):
        made = tf.function(body, autograph=False).get_concrete_function(*specs)
        made.add_to_graph(v1.get_default_graph())
        return made

    number, row = tf.TensorSpec([], tf.int32), tf.TensorSpec([2], tf.float32)
    body = in_library(lambda i, a: [a * 2.0 + tf.cast(i, tf.float32)], number, row)
    loop = lambda: raw.For(start=n[0], limit=n[1], delta=n[2], input=[x[0]], body=body)[0]
    result = loop()
    for limits in ([0, 3, 1], [5, 0, -2], [2, 2, 1]):
        g.step(result, feeds={x: floats("mapped", [3, 2]), n: np.array(limits, i32)})
    g.step(result, feeds={x: floats("mapped", [3, 2]), n: np.array([3, 0, 1], i32)}, fails=True)
    twice = in_library(lambda a, i, c: [a * c[0], tf.cast(i, tf.float32) + c[1]], row, number, row)
    rows, sums = raw.MapDefun(
        arguments=[x, n], captured_inputs=[x[1]], output_types=[tf.float32, tf.float32], output_shapes=[[2], []], f=twice
    )
    g.step(rows, sums, feeds={x: floats("mapped", [3, 2]), n: np.array([4, 5, 6], i32)})
