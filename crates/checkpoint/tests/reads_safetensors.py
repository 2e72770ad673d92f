"""Reads and writes safetensors files with the format's own package for Python:

    reads_safetensors.py read FILE     prints the content of a file: a JSON object a line
    reads_safetensors.py write FILE    writes a file from such lines on the standard input
"""

import json
import sys

import ml_dtypes
import numpy as np
from safetensors.numpy import load_file, save_file


def read(path):
    for name, array in load_file(path).items():
        data = np.ascontiguousarray(array).tobytes().hex()
        print(json.dumps({"name": name, "dtype": str(array.dtype), "shape": list(array.shape), "data": data}))


def write(path):
    arrays = {}
    for line in map(json.loads, sys.stdin):
        dtype = ml_dtypes.bfloat16 if line["dtype"] == "bfloat16" else line["dtype"]
        array = np.frombuffer(bytes.fromhex(line["data"]), dtype=dtype)
        arrays[line["name"]] = array.reshape(line["shape"])
    save_file(arrays, path, metadata={"format": "np"})


if __name__ == "__main__":
    {"read": read, "write": write}[sys.argv[1]](sys.argv[2])
