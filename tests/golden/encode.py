"""Tensors and attributes as JSON text, and the names of types in it."""

import json

import numpy as np

from reference import bf16, f16, f32, tf

DTYPE_NAMES = {
    tf.float16: "f16",
    tf.bfloat16: "bf16",
    tf.float32: "f32",
    tf.float64: "f64",
    tf.int8: "i8",
    tf.int16: "i16",
    tf.int32: "i32",
    tf.int64: "i64",
    tf.uint8: "u8",
    tf.uint16: "u16",
    tf.uint32: "u32",
    tf.uint64: "u64",
    tf.complex64: "c64",
    tf.complex128: "c128",
    tf.bool: "bool",
    tf.qint8: "qi8",
    tf.quint8: "qu8",
    tf.qint16: "qi16",
    tf.quint16: "qu16",
    tf.qint32: "qi32",
    tf.string: "string",
}
QUANTIZED = {"qint8": "qi8", "quint8": "qu8", "qint16": "qi16", "quint16": "qu16", "qint32": "qi32"}
SHORT = {
    np.dtype(k.as_numpy_dtype).name: v
    for k, v in DTYPE_NAMES.items()
    if v != "string" and v not in QUANTIZED.values()
}
FLOATS = ("f16", "bf16", "f32", "f64")
# Dtypes of the parts of complex numbers.
PARTS = {"c64": "f32", "c128": "f64"}


def short_name(dtype):
    """The name of a NumPy dtype; a quantized one has a field of its name."""
    return QUANTIZED[dtype.names[0]] if dtype.names else SHORT[dtype.name]


def number(value, short):
    """One element as a JSON token: the shortest decimal that reads back as the same value."""
    if short == "bool":
        return "true" if value else "false"
    if short == "string":
        return string(value)
    if short in PARTS:
        return f"[{number(value.real, PARTS[short])},{number(value.imag, PARTS[short])}]"
    if short not in FLOATS:
        return str(int(value))
    wide = float(value)
    if not np.isfinite(wide):
        return '"nan"' if np.isnan(wide) else ('"inf"' if wide > 0 else '"-inf"')
    if short in ("f16", "bf16"):
        kind = f16 if short == "f16" else bf16
        # A reader may go through f32, so the text has to survive both roundings.
        for digits in range(1, 10):
            text = f"{wide:.{digits}g}"
            with np.errstate(over="ignore"):
                if kind(float(text)) == value and kind(f32(float(text))) == value:
                    return text
        return repr(wide)
    text = str(value)
    if short == "f32" and f32(float(text)) != value:
        return repr(wide)
    return text


def string(value):
    """A string as JSON; one that is no text as its bytes in hexadecimal digits."""
    try:
        return json.dumps(value.decode() if isinstance(value, bytes) else str(value))
    except UnicodeDecodeError:
        return '{"hex":"' + value.hex() + '"}'


class Raw(str):
    """JSON text that is already encoded."""


def tensor(array):
    """A tensor as a JSON object: dtype, dims and the elements in row-major order."""
    # As an array of bytes a string would lose the zeros that it ends in.
    array = np.array(array, object) if isinstance(array, bytes) else np.asarray(array)
    short = "string" if array.dtype.kind in "OSU" else short_name(array.dtype)
    if array.dtype.names:
        array = array[array.dtype.names[0]]
    data = ",".join(number(v, short) for v in array.reshape(-1))
    dims = json.dumps(list(array.shape), separators=(",", ":"))
    return Raw(f'{{"dtype":"{short}","dims":{dims},"data":[{data}]}}')


def dumps(value):
    """Compact JSON that leaves Raw as it is."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(json.dumps(k) + ":" + dumps(v) for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(dumps(v) for v in value) + "]"
    return json.dumps(value)


def attr_json(value):
    """An AttrValue of a NodeDef by kind: type, types, i, ints, f, floats, b, s, strs, shape."""

    def dims(shape):
        return None if shape.unknown_rank else [None if d.size < 0 else d.size for d in shape.dim]

    def single(text):
        return Raw(str(f32(text)))

    kind = value.WhichOneof("value")
    if kind == "type":
        return {"type": DTYPE_NAMES[tf.as_dtype(value.type)]}
    if kind == "s":
        return {"s": value.s.decode()}
    if kind == "f":
        return {"f": single(value.f)}
    if kind in ("i", "b"):
        return {kind: getattr(value, kind)}
    if kind == "shape":
        return {"shape": dims(value.shape)}
    if value.list.type:
        return {"types": [DTYPE_NAMES[tf.as_dtype(t)] for t in value.list.type]}
    if value.list.s:
        return {"strs": [text.decode() for text in value.list.s]}
    if value.list.f:
        return {"floats": [single(f) for f in value.list.f]}
    return {"ints": list(value.list.i)}
