"""The list of recorded cases, and the ways to add one."""

import dataclasses
import sys

import numpy as np

from encode import FLOATS, Raw, dumps, short_name, tensor
from harness import execute
from inputs import Var, draw, generator, is_input
from reference import f64
from tolerance import default_tolerance

# Input attributes that hold one number per dimension and are reordered for NCHW.
PER_DIMENSION = ("strides", "ksize", "dilations")
CONTROL_TYPES = ("DstT", "dtype", "out_type")


def to_nchw(array):
    """[N, ..., C] as [N, C, ...]."""
    return np.ascontiguousarray(np.moveaxis(array, -1, 1))


def permute(values):
    """A per-dimension list of a rank 4 op in NCHW order."""
    n, h, w, c = values
    return [n, c, h, w]


class Suite:
    """Cases in the order they are added; names are unique."""

    def __init__(self):
        self.lines, self.names, self.failures, self.audits = [], set(), [], []

    def case(self, op, label, tol="default", audit=True, **arguments):
        """Runs `op` and records it as `op/label`.

        Keywords are those of `tf.raw_ops`: arrays, lists of arrays, `Var` and `Rand` are inputs, the
        rest attributes. `tol` is a (rel, abs) pair, None for exact, or "default".
        """
        result = self.run(op, label, arguments)
        if result is not None:
            self.record(op, label, result, tol, arguments if audit else None)
        return result

    def run(self, op, label, arguments, **options):
        """Draws the random inputs and executes; a failure is kept and reported at the end."""
        rng = generator(f"{op}/{label}")
        for key, value in arguments.items():
            arguments[key] = draw(value, rng)
        try:
            return execute(op, arguments, **options)
        except Exception as error:  # Any refusal by TensorFlow is a fault of the case.
            self.failures.append(f"{op}/{label}: {type(error).__name__}: {str(error)[:300]}")
            return None

    def record(self, op, label, result, tol="default", audited=None):
        """Writes a Result down as one JSON line."""
        name = f"{op}/{label}"
        if name in self.names:
            self.failures.append(f"{name}: the name occurs twice")
        self.names.add(name)
        values = [i for i in result.inputs if not isinstance(i, Var)]
        values += [i.value for i in result.inputs if isinstance(i, Var) and i.value is not None]
        produced = list(result.outputs) + list(result.after or [])
        if tol == "default":
            tol = default_tolerance(op, values, produced)
        elif tol is not None:
            tol = {"rel": tol[0], "abs": tol[1]}
        line = {
            "name": name,
            "op": op,
            "attrs": result.attrs,
            "inputs": [variable(i) if isinstance(i, Var) else tensor(i) for i in result.inputs],
            "outputs": [tensor(o) for o in result.outputs],
        }
        if result.second is not None:
            line["outputs_second_run"] = [tensor(o) for o in result.second]
        if result.after is not None:
            line["variables_after"] = [tensor(a) for a in result.after]
        if tol is not None:
            line["tolerance"] = tol
        self.lines.append(dumps(line))
        if audited is not None:
            self.audit(op, name, audited, result, tol or {"rel": 0.0, "abs": 0.0})

    def audit(self, op, name, arguments, result, tol):
        """Holds the recorded numbers to half their tolerance against the same op in f64.

        A more careful implementation than TensorFlow's must pass too, so a recorded result may
        not use the whole tolerance up by itself.
        """
        low = [o for o in result.outputs if is_low(o)]
        if not low or any(k in arguments for k in CONTROL_TYPES):
            return
        wide = {k: widen(v) for k, v in arguments.items()}
        reference = execute(op, wide).outputs
        for got, want in zip(result.outputs, reference):
            if not is_low(got):
                continue
            rounded = np.asarray(want, f64).astype(np.asarray(got).dtype)
            if tol["rel"] == 0.0:
                bad = not np.array_equal(got, rounded, equal_nan=True)
            else:
                want64, got64 = np.asarray(want, f64), np.asarray(got, f64)
                finite = np.isfinite(want64) & np.isfinite(got64)
                bound = 0.5 * (tol["abs"] + tol["rel"] * np.abs(want64))
                bad = np.any(np.abs(got64[finite] - want64[finite]) > bound[finite])
            if bad:
                self.audits.append(name)
                print(f"audit {name}: {got} against {rounded}", file=sys.stderr)

    def case_twice(self, op, label, images=(), sizes=(), out_images=(0,), **arguments):
        """Records an NHWC case and its NCHW twin; see `record_twice`."""
        result = self.run(op, f"nhwc_{label}", arguments)
        if result is not None:
            self.record_twice(op, label, result, images, sizes, out_images, arguments)
        return result

    def record_twice(self, op, label, result, images, sizes, out_images, audited=None):
        """Records an NHWC Result as it is and as NCHW.

        TensorFlow's CPU has no NCHW kernels here, so the twin is the same run with the image inputs
        (by position, `images`), the size inputs (`sizes`), the image outputs (`out_images`) and the
        per-dimension attributes reordered.
        """
        self.record(op, f"nhwc_{label}", result, audited=audited)
        self.record(op, f"nchw_{label}", nchw_twin(result, images, sizes, out_images))


def nchw_twin(run, images, sizes, out_images):
    """The Result as NCHW would have it."""
    attrs = dict(run.attrs)
    attrs["data_format"] = {"s": "NCHW"}
    for key in PER_DIMENSION:
        if key in attrs:
            attrs[key] = {"ints": permute(attrs[key]["ints"])}
    pads = attrs.get("explicit_paddings", {"ints": []})["ints"]
    if pads:
        attrs["explicit_paddings"] = {"ints": pads[0:2] + pads[6:8] + pads[2:6]}
    inputs = [
        to_nchw(v) if i in images else np.asarray(permute(v), v.dtype) if i in sizes else v
        for i, v in enumerate(run.inputs)
    ]
    outputs = [to_nchw(v) if i in out_images else v for i, v in enumerate(run.outputs)]
    return dataclasses.replace(run, attrs=attrs, inputs=inputs, outputs=outputs)


def variable(var):
    """A variable input; without "data" it is not initialised."""
    if var.value is None:
        name = short_name(np.dtype(var.dtype))
        return {"variable": Raw(dumps({"dtype": name, "dims": list(var.dims)}))}
    return {"variable": tensor(var.value)}


def is_low(array):
    """True if an array has a floating type coarser than f64."""
    array = np.asarray(array)
    return array.dtype.kind not in "OSU" and short_name(array.dtype) in FLOATS and array.dtype != f64


def widen(value):
    """An argument with its floating arrays in f64."""
    if isinstance(value, list) and is_input(value):
        return [widen(v) for v in value]
    if isinstance(value, (np.ndarray, np.generic)) and is_low(value):
        return np.asarray(value, f64)
    return value
