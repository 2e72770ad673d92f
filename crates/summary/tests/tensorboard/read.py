"""Reads an event folder as TensorBoard does, and compares its content with the events that the test wrote.

    python read.py FOLDER
"""

import io
import sys

import numpy as np
from PIL import Image
from tensorboard.backend.event_processing import (
    data_provider,
    directory_watcher,
    event_accumulator,
    event_file_loader,
    io_wrapper,
    plugin_event_accumulator,
    plugin_event_multiplexer,
)
from tensorboard.compat.proto import event_pb2, graph_pb2
from tensorboard.context import RequestContext
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups, metadata
from tensorboard.util import tensor_util

SCALARS = [(1, 0.5), (2, -1e30), (3, float("inf"))]


def events(folder):
    """All of it, in TensorBoard's own accumulator."""
    found = plugin_event_accumulator.EventAccumulator(folder, size_guidance={"tensors": 0})
    found.Reload()
    return found


def check_values(found):
    assert found.file_version == 2.0, found.file_version
    tags = found.Tags()
    tensors = {tag: [(e.step, e.tensor_proto) for e in found.Tensors(tag)] for tag in tags["tensors"]}
    scalars = [(step, float(tensor_util.make_ndarray(t))) for step, t in tensors["loss"]]
    assert scalars == [(s, float(np.float32(v))) for s, v in SCALARS], scalars
    # TensorBoard turns a histogram into rows of left end, right end and count.
    ((step, rows),) = tensors["weights"]
    rows = tensor_util.make_ndarray(rows)
    assert (step, rows[:, 2].sum(), rows[0, 0], rows[-1, 1]) == (4, 6.0, -2.0, 3.0), rows
    for number in (-2.0, -1.0, 0.0, 1e-3, 0.5, 3.0):
        inside = [(left <= number <= right) and count > 0 for left, right, count in rows]
        assert any(inside), (number, rows)
    ((step, text),) = tensors["notes"]
    assert (step, tensor_util.make_ndarray(text).item()) == (5, "A *note*: \u00e4".encode()), text
    plugins = {tag: found.SummaryMetadata(tag).plugin_data.plugin_name for tag in tensors}
    assert plugins["loss"] == "scalars" and plugins["weights"] == "histograms", plugins
    assert plugins["notes"] == "text" and plugins["digits/image/1"] == "images", plugins


def check_images(found):
    for i, shades in enumerate(([0, 127, 255, 63], [128, 255, 1, 255])):
        ((step, image),) = [(e.step, e.tensor_proto) for e in found.Tensors(f"digits/image/{i}")]
        width, height, png = tensor_util.make_ndarray(image)
        assert (step, int(width), int(height)) == (6, 2, 2), (step, width, height)
        pixels = np.asarray(Image.open(io.BytesIO(png))).ravel()
        assert pixels.tolist() == shades, pixels


def check_graph(folder):
    # What a step cost is kept by the older accumulator alone.
    found = event_accumulator.EventAccumulator(folder)
    found.Reload()
    graph = graph_pb2.GraphDef.FromString(found.Graph().SerializeToString())
    assert [node.name for node in graph.node] == ["x", "y"], graph
    cost = found.RunMetadata("step 7")
    assert cost.step_stats.dev_stats[0].device == "/cpu:0", cost


def check_log(folder):
    """Session logs, which the accumulator does not keep."""
    is_event_file = io_wrapper.IsTensorFlowEventsFile
    loader = directory_watcher.DirectoryWatcher(folder, event_file_loader.EventFileLoader, is_event_file)
    logs = [(e.step, e.session_log) for e in loader.Load() if e.WhichOneof("what") == "session_log"]
    kinds = [(step, log.status, log.checkpoint_path) for step, log in logs]
    log = event_pb2.SessionLog
    assert kinds == [(0, log.START, ""), (8, log.CHECKPOINT, "model.ckpt-8"), (9, log.STOP, "")], kinds


def check_hparams(folder, found):
    content = found.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    start = metadata.parse_session_start_info_plugin_data(content)
    values = {name: getattr(v, v.WhichOneof("kind")) for name, v in start.hparams.items()}
    assert values == {"rate": 0.25, "optimizer": "Adam", "nesterov": True}, values

    # What the tab shows, from the plugin itself.
    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(folder)
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, folder)
    context = backend_context.Context(base_plugin.TBContext(data_provider=provider, logdir=folder))
    request = api_pb2.ListSessionGroupsRequest(
        start_index=0,
        slice_size=10,
        allowed_statuses=[api_pb2.STATUS_SUCCESS],
        col_params=[api_pb2.ColParams(hparam=name) for name in ("rate", "optimizer", "nesterov")],
    )
    ctx = RequestContext()
    data = context.hparams_from_data_provider(ctx, "", 10)
    experiment = context.experiment_from_metadata(ctx, "", True, context.hparams_metadata(ctx, ""), data)
    assert [m.name.tag for m in experiment.metric_infos] == ["loss"], experiment
    kinds = {info.name: info.type for info in experiment.hparam_infos}
    assert kinds["nesterov"] == api_pb2.DATA_TYPE_BOOL and kinds["rate"] == api_pb2.DATA_TYPE_FLOAT64, kinds
    groups = list_session_groups.Handler(ctx, context, "", request).run()
    (group,) = groups.session_groups
    assert group.hparams["rate"].number_value == 0.25, group
    (metric,) = group.metric_values
    assert (metric.name.tag, metric.training_step) == ("loss", 3), group


def main(folder):
    found = events(folder)
    check_values(found)
    check_images(found)
    check_graph(folder)
    check_log(folder)
    check_hparams(folder, found)
    print("TensorBoard reads scalars, histograms, texts, images, graphs, costs, logs and hyperparameters")


main(sys.argv[1])
