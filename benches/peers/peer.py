"""Library of the peers of the example `bench`: they read a line of JSON for each case, and answer one.

In:  {"case": {"kind": "conv", ...}, "seconds": 0.2}
Out: {"seconds": 0.0012}, of one step; {"seconds": null} for cases that are not supported
"""

import json
import math
import statistics
import sys
import time


def seconds(step, limit):
    """Of one step, measured as the example measures itself."""
    began = time.perf_counter()
    step()
    first = time.perf_counter() - began
    steps = math.ceil(1e-3 / max(first, 1e-9))
    began, times = time.perf_counter(), []
    while len(times) < 3 or time.perf_counter() - began < limit:
        at = time.perf_counter()
        for _ in range(steps):
            step()
        times.append((time.perf_counter() - at) / steps)
    return statistics.median(times)


def answer(find):
    """Answers until the input ends; `find` returns a step of a case, or None where it is not supported."""
    known, step = None, None
    for text in sys.stdin:
        request = json.loads(text)
        case = request["case"]
        if case != known:
            known, step = case, None
            step = find(case)
            if step:
                step()
        took = seconds(step, request["seconds"]) if step else None
        print(json.dumps({"seconds": took}), flush=True)
