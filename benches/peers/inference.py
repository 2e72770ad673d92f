#!/usr/bin/env python3
"""Inference of Keras' networks beside ONNX Runtime and OpenVINO: f32, two threads, programs in alternation.

`inference.py --thalweg BIN --folder DIR` writes each network with random weights as a frozen GraphDef (.pb), a SavedModel
and an ONNX file (.onnx), measures all rounds, and prints a table of medians in images/s. Needs tensorflow-cpu, tf_keras,
tf2onnx, onnxruntime and openvino.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["TF_USE_LEGACY_KERAS"] = "1"

THREADS, WARM_UP, SECONDS = 2, 3, 2.0
# Class of tf_keras.applications, and the width of its images.
NETWORKS = {
    "resnet50": ("ResNet50", 224),
    "inception3": ("InceptionV3", 299),
    "vgg16": ("VGG16", 224),
    "mobilenet": ("MobileNet", 224),
    "mobilenet_v2": ("MobileNetV2", 224),
    "efficientnet_b0": ("EfficientNetB0", 224),
    "densenet121": ("DenseNet121", 224),
}


def make(name, folder):
    """Writes the files of a network, unless they are there."""
    frozen, onnx = folder / f"{name}.pb", folder / f"{name}.onnx"
    if frozen.exists() and onnx.exists():
        return
    import tensorflow as tf
    import tf2onnx
    import tf_keras
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    kind, width = NETWORKS[name]
    tf.random.set_seed(1)
    model = getattr(tf_keras.applications, kind)(weights=None)
    spec = tf.TensorSpec([None, width, width, 3], tf.float32, name="images")
    function = tf.function(lambda images: tf.identity(model(images, training=False), name="scores"))
    constant = convert_variables_to_constants_v2(function.get_concrete_function(spec))
    graph = constant.graph.as_graph_def()
    frozen.write_bytes(graph.SerializeToString())
    tf.saved_model.save(model, str(folder / name), signatures=function.get_concrete_function(spec))
    outputs = [constant.outputs[0].name]
    tf2onnx.convert.from_graph_def(graph, input_names=["images:0"], output_names=outputs, output_path=str(onnx))
    (folder / f"{name}.output").write_text(outputs[0])


def images(name, batch):
    import numpy as np

    width = NETWORKS[name][1]
    return np.random.RandomState(1).rand(batch, width, width, 3).astype("float32")


def median(step):
    for _ in range(WARM_UP):
        step()
    times, began = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - began < SECONDS:
        at = time.perf_counter()
        step()
        times.append(time.perf_counter() - at)
    return statistics.median(times)


def onnxruntime(folder, name, batch):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: images(name, batch)}
    return median(lambda: session.run(None, feed))


def openvino(folder, name, batch):
    import openvino

    core = openvino.Core()
    model = core.read_model(str(folder / f"{name}.pb"))
    width = NETWORKS[name][1]
    model.reshape([batch, width, width, 3])
    options = {"INFERENCE_NUM_THREADS": THREADS, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(model, "CPU", options).create_infer_request()
    feed = images(name, batch)
    return median(lambda: request.infer([feed]))


def thalweg(binary, folder, name, batch, saved):
    """Seconds of a step by `thalweg run --benchmark`."""
    import numpy as np

    if saved:
        what = [folder / name, "--signature", "serving_default", "--batch", batch]
    else:
        feed = folder / f"{name}.{batch}.npy"
        np.save(feed, images(name, batch))
        fetch = (folder / f"{name}.output").read_text()
        what = [folder / f"{name}.pb", "--feed", f"images={feed}", "--fetch", fetch]
    command = [binary, "run", *what, "--threads", THREADS, "--json", "--benchmark"]

    def run(steps):
        done = subprocess.run([str(part) for part in [*command, steps]], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        return json.loads(done.stdout)["latency_ms"]["median"] / 1e3

    return run(max(5, int(SECONDS / run(3))))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--thalweg", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--only", default=",".join(NETWORKS))
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", type=pathlib.Path, help="an older thalweg, measured beside the newer one")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--make", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    names, batches = args.only.split(","), [int(batch) for batch in args.batches.split(",")]
    if args.make:
        return make(names[0], args.folder)
    if args.peer:
        return print(globals()[args.peer](args.folder, names[0], batches[0]))

    def child(name, *more):
        command = [sys.executable, __file__, "--folder", str(args.folder), "--only", name, *more]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        return done.stdout

    def peer(kind):
        return lambda name, batch: float(child(name, "--batches", str(batch), "--peer", kind))

    def ours(binary, saved=False):
        return lambda name, batch: thalweg(binary, args.folder, name, batch, saved)

    programs = {"here": ours(args.thalweg), "SavedModel": ours(args.thalweg, saved=True)}
    if args.before:
        programs["before"] = ours(args.before)
    programs |= {"ONNX Runtime": peer("onnxruntime"), "OpenVINO": peer("openvino")}
    print("| network, batch | " + " | ".join(programs) + " | of the best |")
    print("| --- |" + " ---: |" * (len(programs) + 1), flush=True)
    for name in names:
        child(name, "--make")
        for batch in batches:
            rounds = [{kind: measure(name, batch) for kind, measure in programs.items()} for _ in range(args.rounds)]
            rates = {kind: batch / statistics.median(r[kind] for r in rounds) for kind in programs}
            best = [min(r["ONNX Runtime"], r["OpenVINO"]) / r["here"] for r in rounds]
            cells = [f"{rate:.3g}" for rate in rates.values()] + [f"{statistics.median(best):.2f}"]
            print(f"| {name}, {batch} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
