"""A golden graph's files: the graph, arrays, and JSON with the steps; the same bytes each time."""

import base64
import gzip
import io
import json
import zipfile

import numpy as np

from generate import gzipped
from graphs_record import Step, build, load_graph, ops_of, run
from reference import tf, v1

# The earliest time that a zip file can hold.
NO_TIME = (1980, 1, 1, 0, 0, 0)


class Arrays:
    """Arrays by key, and strings, which .npy files cannot hold."""

    def __init__(self):
        self.arrays, self.strings, self.fed = {}, {}, {}

    def put(self, key, array):
        """Keeps the array; returns its key."""
        if array.dtype == object:
            data = [base64.b64encode(as_bytes(v)).decode() for v in array.reshape(-1)]
            self.strings[key] = {"dims": list(array.shape), "base64": data}
        else:
            self.arrays[key] = array
        return key

    def put_fed(self, key, array):
        """Like `put`, but a value that was fed before keeps its first key."""
        data = str(array.tolist()) if array.dtype == object else array.tobytes()
        content = (array.shape, array.dtype.str, data)
        if content not in self.fed:
            self.fed[content] = self.put(key, array)
        return self.fed[content]

    def npz(self):
        """The arrays as a compressed .npz without times."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for key, array in self.arrays.items():
                entry = io.BytesIO()
                np.lib.format.write_array(entry, np.asarray(array, order="C"), (1, 0), allow_pickle=False)
                info = zipfile.ZipInfo(key + ".npy", NO_TIME)
                archive.writestr(info, entry.getvalue(), zipfile.ZIP_DEFLATED, 9)
        return buffer.getvalue()


def as_bytes(value):
    """A string element's bytes."""
    return value if isinstance(value, bytes) else str(value).encode()


def plain(message):
    """A protocol message's bytes; its maps have no order of their own."""
    return message.SerializeToString(deterministic=True)


def described(name, source, ops, recorded, steps, tolerance):
    """The JSON and the arrays of a graph, by the names of their files. `source` says where the graph is."""
    kept = Arrays()
    rows = [
        {
            "feeds": {k: kept.put_fed(f"s{i}/f{j}", v) for j, (k, v) in enumerate(step.feeds.items())},
            "fetches": step.fetches,
            "targets": step.targets,
            "results": [kept.put(f"s{i}/r{j}", v) for j, v in enumerate(step.results)],
            "error": step.error,
        }
        for i, step in enumerate(steps)
    ]
    head = source | {
        "tensorflow": tf.__version__,
        "ops": ops,
        "tolerance": tolerance,
        "inits": recorded.inits,
        "strings": kept.strings,
    }
    return {f"{name}.json": json_text(head, rows).encode(), f"{name}.npz": kept.npz()}


def make(name):
    """Builds a graph, runs it from its bytes alone, and returns its three files."""
    graph_def, recorded, tolerance = build(name)
    data = plain(graph_def)
    steps = run(load_graph(data), recorded.inits, recorded.steps)
    source = {"graph": f"{name}.pb.gz"}
    files = described(name, source, ops_of(graph_def), recorded, steps, tolerance)
    return {f"{name}.pb.gz": gzipped(data)} | files


def json_text(head, rows):
    """A line for each entry and each step."""
    lines = [f"{json.dumps(k)}: {json.dumps(v)},\n" for k, v in head.items()]
    steps = ",\n  ".join(map(json.dumps, rows))
    return "{\n" + "".join(lines) + f'"steps": [\n  {steps}\n]\n}}\n'


def read(name, folder):
    """The JSON's content, and the steps with their arrays."""
    about = json.loads((folder / f"{name}.json").read_text())
    arrays = dict(np.load(folder / f"{name}.npz"))
    for key, value in about["strings"].items():
        flat = np.empty(len(value["base64"]), object)
        flat[:] = [base64.b64decode(v) for v in value["base64"]]
        arrays[key] = flat.reshape(value["dims"])
    steps = [
        Step(
            {k: arrays[v] for k, v in row["feeds"].items()},
            row["fetches"],
            row["targets"],
            row["error"] is not None,
            [arrays[k] for k in row["results"]],
            row["error"],
        )
        for row in about["steps"]
    ]
    return about, steps


def run_files(name, folder):
    """Runs a graph from its files: its description, its recorded steps, and the new results."""
    about, recorded = read(name, folder)
    if "graph" in about:
        load = load_graph(gzip.decompress((folder / about["graph"]).read_bytes()))
    elif "meta_graph" in about:
        load = load_meta(gzip.decompress((folder / about["meta_graph"]).read_bytes()))
    else:
        load = load_saved(folder / about["saved_model"], about["tags"])
    return about, recorded, run(load, about["inits"], recorded)


def load_meta(data):
    """An importer of a MetaGraphDef from its bytes."""
    meta = v1.MetaGraphDef.FromString(data)
    return lambda sess: v1.train.import_meta_graph(meta)


def load_saved(folder, tags):
    """An importer of a SavedModel and its variables."""
    return lambda sess: v1.saved_model.load(sess, tags, str(folder))
