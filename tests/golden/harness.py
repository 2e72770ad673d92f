"""Runs one TensorFlow op per case and records inputs, attributes and outputs as JSON.

Every case has a graph and a session of its own, with graph rewriting switched off and the inputs
fed, so only the op's CPU kernel runs.
"""

import dataclasses

import numpy as np

from encode import attr_json
from inputs import Var, is_input
from reference import raw, tf, v1

# Attributes that choose nothing about the result; left out so that a reader need not know them.
SILENT_ATTRS = {
    "grad_a",
    "grad_b",
    "grad_x",
    "grad_y",
    "use_cudnn_on_gpu",
    "use_locking",
    "Truncate",
    "validate_shape",
    "incompatible_shape_error",
}


def session(graph, threads=1):
    """A session that runs the graph as it is written."""
    config = v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    return v1.Session(graph=graph, config=config)


@dataclasses.dataclass
class Result:
    """Results of one run of an op."""

    attrs: dict = dataclasses.field(default_factory=dict)
    inputs: list = dataclasses.field(default_factory=list)
    outputs: list = dataclasses.field(default_factory=list)
    after: list | None = None
    second: list | None = None


def typed(value, dtype):
    """A result in its dtype: of quantized numbers, a session gives the integers."""
    return value.view(dtype.as_numpy_dtype) if dtype.is_quantized else value


def execute(op, arguments, runs=1, threads=1):
    """Builds `op` through tf.raw_ops, runs it and returns a Result with inputs in op-def order."""
    result = Result()
    with tf.Graph().as_default() as graph:
        feeds, init, given, variables = {}, [], {}, []

        def bring(value):
            if isinstance(value, Var):
                dtype = value.dtype if value.value is None else value.value.dtype
                dims = value.dims if value.value is None else value.value.shape
                handle = raw.VarHandleOp(
                    dtype=tf.as_dtype(dtype), shape=dims, shared_name=f"v{len(given)}", container=""
                )
                given[handle.name] = value
                variables.append((handle, tf.as_dtype(dtype)))
                if value.value is not None:
                    first = v1.placeholder(value.value.dtype, dims)
                    init.append((raw.AssignVariableOp(resource=handle, value=first), {first: value.value}))
                return handle
            value = np.asarray(value)
            place = v1.placeholder(tf.string if value.dtype.kind in "OS" else value.dtype, value.shape)
            feeds[place] = value
            given[place.name] = value
            return place

        kwargs = {}
        for key, value in arguments.items():
            if not is_input(value):
                kwargs[key] = value
            elif isinstance(value, list):
                kwargs[key] = [bring(v) for v in value]
            else:
                kwargs[key] = bring(value)
        getattr(raw, op)(**kwargs)
        node = graph.get_operations()[-1]
        assert node.type == op, node.type
        reads = [raw.ReadVariableOp(resource=h, dtype=t) for h, t in variables]
        with session(graph, threads) as sess:
            for assign, feed in init:
                sess.run(assign, feed)
            runs_seen = []
            for _ in range(runs):
                found = sess.run(node.outputs if node.outputs else node, feeds) or []
                runs_seen.append([typed(o, t.dtype) for o, t in zip(found, node.outputs)])
            result.outputs = runs_seen[0]
            result.second = runs_seen[1] if runs > 1 else None
            if variables and op != "VarIsInitializedOp":
                result.after = sess.run(reads)
        definition = node.node_def
        for key in sorted(definition.attr):
            if not key.startswith("_") and key not in SILENT_ATTRS:
                result.attrs[key] = attr_json(definition.attr[key])
        result.inputs = [given[t.name] for t in node.inputs]
    return result
