#!/usr/bin/env python3
"""A TensorFlow 1 program under TensorFlow 2, with its sessions recorded.

usage: program_shim.py SETTINGS.json SCRIPT_OR_MODULE [ARGUMENT ...]

`public_programs.py` starts this file. The settings: `target`, where sessions go (none: this process), `steps`,
after how many recorded runs the program ends, `record`, the file of the record, and `mnist`, a folder.

The program gets a `tensorflow` with the names of version 1, seeds for each graph, and stand-ins for libraries
that are gone. Each run of a session that fetches a float is recorded with its time.
"""

import json
import os
import random
import runpy
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import numpy as np
import program_stand_ins as stand_ins
import tensorflow as tf
from tensorflow.python.client import session as client
from tensorflow.python.framework import ops

v1 = tf.compat.v1
SEED = 1234


def leaves(structure):
    """All values in a structure of fetches or of what they gave."""
    if isinstance(structure, dict):
        structure = list(structure.values())
    if isinstance(structure, (list, tuple)):
        return [leaf for part in structure for leaf in leaves(part)]
    return [structure]


class Recorder:
    """Seeds, targets and recorded runs of all sessions of this process."""

    def __init__(self, settings):
        self.settings, self.runs = settings, []

    def install(self):
        graph_init, session_init, run = (
            ops.Graph.__init__,
            client.BaseSession.__init__,
            client.BaseSession.run,
        )

        def new_graph(graph, *arguments, **named):
            graph_init(graph, *arguments, **named)
            graph.seed = SEED

        def new_session(session, target="", graph=None, config=None):
            if self.settings["target"]:
                target, given = self.settings["target"], config
                config = v1.ConfigProto()
                if given is not None:
                    config.CopyFrom(given)
                # As sessions of a process have it: variables of their own.
                config.isolate_session_state = True
            session_init(session, target, graph, config=config)

        def recorded(session, fetches, *arguments, **named):
            start = time.perf_counter()
            result = run(session, fetches, *arguments, **named)
            self.note(fetches, result, time.perf_counter() - start)
            return result

        ops.Graph.__init__ = new_graph
        client.BaseSession.__init__ = new_session
        client.BaseSession.run = recorded
        v1.reset_default_graph()
        random.seed(SEED)
        np.random.seed(SEED)

    def note(self, fetches, result, seconds):
        names = [getattr(f, "name", str(f)) for f in leaves(fetches)]
        found = leaves(result)
        if len(names) != len(found):
            names = [f"fetch {n}" for n in range(len(found))]
        values = {}
        for name, value in zip(names, found):
            value = np.asarray(value if isinstance(value, (np.ndarray, np.generic, float)) else 0)
            if value.dtype.kind == "f" and value.size:
                # An array counts by the mean of what it holds.
                wide = value.astype(np.float64)
                values[name] = float(wide.reshape(()) if value.size == 1 else np.abs(wide).mean())
        if values:
            self.runs.append({"seconds": seconds, "values": values})
            if len(self.runs) >= self.settings["steps"]:
                self.end()

    def end(self, error=None):
        with open(self.settings["record"], "w") as file:
            json.dump({"runs": self.runs, "error": error}, file)
        sys.stdout.flush()
        os._exit(0)


def main():
    with open(sys.argv[1]) as file:
        settings = json.load(file)
    v1.disable_v2_behavior()
    v1.logging.set_verbosity(v1.logging.ERROR)
    stand_ins.names_of_version_1(settings["contrib"])
    stand_ins.names_of_old_python()
    stand_ins.mnist(settings["mnist"])
    recorder = Recorder(settings)
    recorder.install()
    sys.argv = sys.argv[2:]
    script = sys.argv[0]
    is_file = script.endswith(".py")
    sys.path[:1] = [os.path.dirname(script) if is_file else "", os.getcwd()]
    error = None
    try:
        (runpy.run_path if is_file else runpy.run_module)(script, run_name="__main__")
    except BaseException as e:
        import traceback

        traceback.print_exc()
        if not (isinstance(e, SystemExit) and not e.code):
            error = f"{type(e).__name__}: {e}"
    recorder.end(error)


if __name__ == "__main__":
    main()
