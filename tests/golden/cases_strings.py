"""Strings and summaries: text, numbers in it, hashes."""

import numpy as np

from inputs import Var, rnd
from kinds import ANY
from reference import f16, f32, f64, i32, i64, tf, u8

WORDS = np.array(
    ["", "a", "ab", "Hello, World", "  padded\t\n", "äöü €", "x" * 5, "0123456789abcdef", "y" * 33, "z" * 64, "w" * 65]
    + ["The quick brown fox jumps over the lazy dog. " * 4, "q" * 128, "ends in blanks  "],
    object,
)
NUMBERS = [1.5, -0.1, 1e10, np.inf, np.nan, 0.00001234, -np.inf, 0.0, -0.0, 123456.789, 2.5, 3.5, 999999.5]


def text(*values):
    """A tensor of strings."""
    return np.array(values, object)


def add(s):
    """Adds the cases of this module."""
    plain(s)
    as_string(s)
    numbers(s)
    joined(s)
    formatted(s)
    summaries(s)
    moved(s)
    shown(s)
    expressions(s)
    serialized(s)
    unicode(s)
    ngrams(s)
    json_examples(s)
    variables(s)


def variables(s):
    """Slices of variables of strings."""
    words = np.array([["a", "bc", ""], ["d", "e\0f", "g"], ["h", "i", "j"]], object)
    for label, at in (("rows", [2, 0, 2]), ("one", 1), ("none", []), ("nested", [[0], [1]])):
        s.case("ResourceGather", f"string_{label}", resource=Var(words), indices=np.array(at, i32), dtype=tf.string, audit=False)
    s.case("ResourceGather", "string_batch", resource=Var(words), indices=np.array([2, 0, 1], i64), batch_dims=1, dtype=tf.string, audit=False)
    for label, at, new in (
        ("rows", [[2], [0], [2]], [["u", "v", "w"], ["", "x", "y"], ["l", "m", "n"]]),
        ("elements", [[1, 1], [0, 2]], ["long word", ""]),
        ("none", np.zeros([0, 1]), np.zeros([0, 3])),
    ):
        s.case("ResourceScatterNdUpdate", f"string_{label}", ref=Var(words), indices=np.array(at, i64), updates=np.array(new, object), audit=False)


def json_examples(s):
    """Examples from JSON, of byte strings: TensorFlow does not pack its numbers."""
    feature = lambda content: '{"features":{"feature":{"a":%s}}}' % content
    lists = ('{"bytesList":{"value":["aGk=","aGk","_-8=","+/8=",""]}}', '{"bytes_list":{"value":"eA=="}}', '{"bytesList":{"value":null}}')
    s.case("DecodeJSONExample", "bytes", json_examples=text(*(feature(c) for c in lists)))
    empty = [feature(c) for c in ("{}", '{"int64List":{}}', '{"floatList":{"value":[]}}', '{"bytesList":{"value":null}}')]
    s.case("DecodeJSONExample", "empty", json_examples=text("{}", ' {"features":{}} ', '{"features":null}', '{"features":{"feature":{}}}', *empty))


def plain(s):
    """One string after the other."""
    for unit in ("BYTE", "UTF8_CHAR"):
        s.case("StringLength", unit.lower(), input=WORDS, unit=unit)
    for op in ("StringLower", "StringUpper"):
        for encoding in ("", "utf-8"):
            s.case(op, encoding or "ascii", input=WORDS, encoding=encoding)
    s.case("StringStrip", "words", input=WORDS)
    s.case("StringStrip", "empty", input=np.zeros([2, 0], object))
    for buckets in (1, 10, 2**62):
        s.case("StringToHashBucket", f"{buckets}", string_tensor=WORDS, num_buckets=buckets)
        s.case("StringToHashBucketFast", f"{buckets}", input=WORDS, num_buckets=buckets)
        s.case("StringToHashBucketStrong", f"{buckets}", input=WORDS, num_buckets=buckets, key=[123, -5])
    long = text(*["abcdefghij"[: i % 10] + "k" * i for i in range(0, 300, 7)])
    s.case("StringToHashBucketFast", "lengths", input=long, num_buckets=2**62)
    for pad in (False, True):
        s.case("EncodeBase64", f"pad_{pad}", input=WORDS, pad=pad)
    s.case("DecodeBase64", "words", input=text("", "YQ", "YWI=", "YWJj", "SGVsbG8sIFdvcmxk", "YQ=="))
    for pos, length in ((0, 3), (1, 0), (-1, 2), (2, -1), (2, 99)):
        words = text("hello", "äöü", "xyz")
        for unit in ("BYTE", "UTF8_CHAR"):
            # A part of a character is no text that the table could hold.
            if unit == "BYTE":
                words = text("hello", "world", "xyz")
            label = f"{unit.lower()}_{pos}_{length}"
            s.case("Substr", label, input=words, pos=np.array(pos, i32), len=np.array(length, i32), unit=unit)
    s.case("Substr", "each", input=text("hello", "world"), pos=np.array([1, -2], i64), len=np.array([2, 1], i64))
    s.case("Substr", "broadcast", input=np.array([["hello"], ["world"]], object), pos=np.array([1, 2, 3], i32), len=np.array([2, 1, 9], i32))
    raw = text("abcdefgh", "ijklmnop")
    for name in ("u8", "i8", "u16", "i16", "i32", "i64", "f16", "f32", "f64"):
        for little in (True, False):
            s.case("DecodeRaw", f"{name}_{little}", bytes=raw, out_type=ANY[name], little_endian=little, audit=False)
    for dtype in (np.complex64, np.complex128):
        for little in (True, False):
            numbers = np.array([1.5 - 2j, -0.25 + 3j], dtype)
            numbers = numbers if little else numbers.byteswap()
            label = f"{np.dtype(dtype).name}_{little}"
            s.case("DecodeRaw", label, bytes=np.array(numbers.tobytes(), object), out_type=dtype, little_endian=little, audit=False)
    s.case("DecodeRaw", "no_bytes", bytes=text("", ""), out_type=f32, audit=False)


def as_string(s):
    """Numbers as text."""
    settings = {
        "plain": {},
        "scientific": {"scientific": True},
        "shortest": {"shortest": True},
        "places": {"precision": 3},
        "no_places": {"precision": 0},
        "shortest_places": {"precision": 3, "shortest": True},
        "width": {"width": 12},
        "zeros": {"width": 12, "fill": "0"},
        "left": {"width": 12, "fill": "-"},
        "sign": {"width": 12, "fill": "+"},
        "blank": {"width": 12, "fill": " ", "precision": 2, "scientific": True},
        "fill_alone": {"fill": "0"},
    }
    for label, attrs in settings.items():
        s.case("AsString", f"f64_{label}", input=np.array(NUMBERS, f64), **attrs)
    for label in ("plain", "width", "zeros", "left", "sign"):
        s.case("AsString", f"i32_{label}", input=np.array([[0, -7], [123456, 2**31 - 1]], i32), **settings[label])
        s.case("AsString", f"bool_{label}", input=np.array([True, False]), **settings[label])
        s.case("AsString", f"string_{label}", input=text("a", "longer than it"), **settings[label])
    for name, dtype in ANY.items():
        if name not in ("bool",):
            s.case("AsString", f"{name}", input=rnd(dtype, [3], 0, 9))


def numbers(s):
    """Text as numbers."""
    floats = text("1.5", " 2 ", "+3", "-4e3", "nan", "-INF", "infinity", "1e400", "1e-50", "1.", ".5", "0.1")
    hexadecimal = text("0x1A", "-0X1a", " +0x1.8p1 ", "0x.8", "0x1p-1074", "0x1.fffffffffffff8", "0x1.000001", "0x1p2000")
    whole = text("1", " 2 ", "+3", "0", "2147483647")
    for name in ("f32", "f64"):
        s.case("StringToNumber", name, string_tensor=floats, out_type=ANY[name], tol=None, audit=False)
        s.case("StringToNumber", f"hexadecimal_{name}", string_tensor=hexadecimal, out_type=ANY[name], tol=None, audit=False)
    for name in ("i32", "i64"):
        words = np.append(whole, "-2147483648")
        s.case("StringToNumber", name, string_tensor=words, out_type=ANY[name], audit=False)


def joined(s):
    """Strings put together."""
    a, b = np.array([["a", "b"], ["c", "d"]], object), np.array([["w", "x"], ["y", ""]], object)
    s.case("StringJoin", "two", inputs=[a, b], separator="+")
    s.case("StringJoin", "scalars", inputs=[a, np.array("-", object), b])
    s.case("StringJoin", "only_scalars", inputs=[np.array("-", object), np.array("x", object)])
    for label, axes in (("none", []), ("rows", [0]), ("columns", [-1]), ("both", [0, 1]), ("both_turned", [1, 0])):
        for keep in (False, True):
            axes = np.array(axes, i32)
            s.case("ReduceJoin", f"{label}_{keep}", inputs=a, reduction_indices=axes, keep_dims=keep, separator="-")
    s.case("ReduceJoin", "empty", inputs=np.zeros([2, 0], object), reduction_indices=np.array([1], i32))
    for skip in (True, False):
        words = text("a b  c", "", " x;y ")
        for label, delimiter in (("space", " "), ("two", " ;"), ("bytes", "")):
            delimiter = np.array(delimiter, object)
            s.case("StringSplit", f"{label}_{skip}", input=words, delimiter=delimiter, skip_empty=skip)
    for label, sep, most in (("spaces", "", -1), ("arrows", "<>", -1), ("once", "<>", 1), ("spaces_once", "", 1)):
        words = text("a<>b<><>c", "", " x  y z", "<>")
        s.case("StringSplitV2", label, input=words, sep=np.array(sep, object), maxsplit=most)
    base, three, ten = np.array("a/b", object), np.array(3, i32), np.array(10, i32)
    s.case("ShardedFilename", "any", basename=base, shard=three, num_shards=ten)
    s.case("ShardedFilespec", "any", basename=base, num_shards=ten)


def formatted(s):
    """Tensors in text."""
    values = {
        "f32": np.array([0.1, 1 / 3, 1e10, 123456789, 1e-7, np.nan, -np.inf], f32),
        "f64": np.array([0.1, 1 / 3, 1e10, 123456789.125, 1e-7], f64),
        "f16": np.array([0.1, 1 / 3, 65504], f16),
        "long": np.arange(20, dtype=i32),
        "matrix": np.arange(6, dtype=i32).reshape(2, 3),
        "cube": np.arange(24, dtype=i32).reshape(2, 3, 4),
        "large": np.arange(400, dtype=i32).reshape(20, 20),
        "bool": np.array([True, False]),
        "scalar": np.array(2.5, f32),
        "strings": text('a"b', "line\n", "ä", "'\\"),
        "empty": np.zeros([0], f32),
    }
    for label, value in values.items():
        for most in (-1, 1, 3):
            s.case("StringFormat", f"{label}_{most}", inputs=[value], summarize=most)
    two = [values["scalar"], values["matrix"]]
    s.case("StringFormat", "two", inputs=two, template="a {} b {}.", placeholder="{}")


def summaries(s):
    """Serialized summaries."""
    for name, dtype in ANY.items():
        if name != "bool":
            s.case("ScalarSummary", name, tags=np.array("a/b", object), values=rnd(dtype, [], 1, 9))
    s.case("ScalarSummary", "two", tags=text("a", "b"), values=np.array([0, -0.0], f32))
    tag = np.array("h", object)
    for name in ("f32", "f64", "i32", "u8", "f16"):
        s.case("HistogramSummary", name, tag=tag, values=rnd(ANY[name], [5, 7], 0, 9))
    for label, values in (
        ("mixed", [0.5, -1, 2, 0, 1e-13, -1e-13, 1e21]),
        ("empty", []),
        ("zero", [0.0]),
        ("cancelling", [1.0, -1.0]),
    ):
        s.case("HistogramSummary", f"f32_{label}", tag=tag, values=np.array(values, f32))
    one, two = summary("a", 1.5), summary("b", -2)
    s.case("MergeSummary", "two", inputs=[one, two])
    s.case("MergeSummary", "one", inputs=[text(one.item(), two.item())])
    s.case("MergeSummary", "empty", inputs=[np.zeros([0], object)])
    for name, dtype in ANY.items():
        s.case(
            "TensorSummaryV2",
            name,
            tag=np.array("t", object),
            tensor=rnd(dtype, [2, 3], 0, 9),
            serialized_summary_metadata=np.array("", object),
        )
    for label, dims in (("scalar", []), ("empty", [0, 2])):
        s.case(
            "TensorSummaryV2",
            label,
            tag=np.array("t", object),
            tensor=rnd(f32, dims, 1, 9),
            serialized_summary_metadata=np.array("", object),
        )
    tag, none = np.array("t", object), np.array("", object)
    for label, value in (("strings", text("a", "", "ä")), ("string", np.array("word", object)), ("no_strings", np.zeros([0], object))):
        s.case("TensorSummaryV2", label, tag=tag, tensor=value, serialized_summary_metadata=none)
    sound = np.array([0, 0.5, -0.5, 1, -1, 2, -2, 1.5 / 32768, 2.5 / 32768, -1.5 / 32768], f32)
    for label, sounds in (("mono", sound.reshape(1, 10)), ("stereo", sound.reshape(1, 5, 2)), ("four", sound[:8].reshape(4, 2))):
        s.case("AudioSummaryV2", label, tag=tag, tensor=sounds, sample_rate=np.array(100.5, f32))
    s.case("AudioSummaryV2", "one", tag=tag, tensor=sound.reshape(2, 5), sample_rate=np.array(8000, f32), max_outputs=1)


def summary(tag, value):
    """A serialized summary with one number."""
    tag = tag.encode()
    inside = b"\n" + bytes([len(tag)]) + tag + b"\x15" + np.array(value, f32).tobytes()
    return np.array(b"\n" + bytes([len(inside)]) + inside, object)


def shown(s):
    """Ops that print, and their outputs."""
    x = rnd(f32, [2, 3])
    s.case("Print", "f32", input=x, data=[np.array("of x:", object)], message="x", tol=None)
    s.case("Assert", "true", condition=np.array(True), data=[np.array("no", object)])
    s.case("PrintV2", "text", input=np.array("a line", object))


def moved(s):
    """Ops that only move or compare elements, on strings."""
    a = np.array([["a", "b", ""], ["c", "a", "longer"]], object)
    b = np.array([["a", "x", ""], ["y", "a", "z"]], object)
    s.case("Identity", "string", input=a)
    s.case("Reshape", "string", tensor=a, shape=np.array([3, 2], i32))
    s.case("ExpandDims", "string", input=a, axis=np.array(1, i32))
    s.case("Squeeze", "string", input=a.reshape(2, 1, 3))
    s.case("ConcatV2", "string", values=[a, b], axis=np.array(1, i32))
    s.case("Pack", "string", values=[a, b], axis=1)
    s.case("Unpack", "string", value=a, num=2, axis=0)
    s.case("Split", "string", axis=np.array(0, i32), value=a, num_split=2)
    s.case("Slice", "string", input=a, begin=np.array([0, 1], i32), size=np.array([2, 1], i32))
    s.case(
        "StridedSlice",
        "string",
        input=a,
        begin=np.array([1, -1], i32),
        end=np.array([2, -4], i32),
        strides=np.array([1, -2], i32),
        shrink_axis_mask=1,
    )
    s.case("GatherV2", "string", params=a, indices=np.array([1, 1, 0], i64), axis=np.array(0, i32))
    s.case("GatherNd", "string", params=a, indices=np.array([[1, 2], [0, 0]], i32))
    for label, indices, updates, shape in (
        ("string", [[1], [1], [0]], text("a", "b", "c"), [3]),
        ("string_rows", [[2], [0], [2]], np.array([["a", "b"], ["c", ""], ["d", "e"]], object), [4, 2]),
        ("string_none", np.zeros([0, 1]), text(), [2]),
    ):
        at, shape = np.array(indices, i32), np.array(shape, i32)
        s.case("ScatterNd", label, indices=at, updates=updates, shape=shape)
    for label, x, y in (
        ("string", a, b),
        ("string_scalar", a, text("!").reshape([])),
        ("string_rows", a[:1], b[:, :1]),
        ("string_none", np.zeros([0, 2], object), text("x", "y")),
    ):
        s.case("Add", label, x=x, y=y)
    image = np.array([f"{i}" for i in range(16)], object)
    s.case("SpaceToDepth", "string", input=image.reshape(1, 4, 4, 1), block_size=2)
    s.case("DepthToSpace", "string", input=image.reshape(2, 1, 2, 4), block_size=2)
    s.case("Empty", "string_2x3", shape=np.array([2, 3], i32), dtype=np.object_, init=True)
    s.case("Concat", "string", concat_dim=np.array(0, i32), values=[a, b])
    s.case("Gather", "string", params=a, indices=np.array([1, 0], i32))
    s.case("SplitV", "string", value=a, size_splits=np.array([1, 2], i32), axis=np.array(1, i32), num_split=2)
    s.case("ReverseV2", "string", tensor=a, axis=np.array([1], i32))
    s.case("Tile", "string", input=a, multiples=np.array([2, 1], i32))
    s.case("Transpose", "string", x=a, perm=np.array([1, 0], i32))
    s.case("Fill", "string", dims=np.array([2, 2], i32), value=np.array("f", object))
    s.case("SelectV2", "string", condition=np.array([True, False, True]), t=a, e=b)
    s.case("Shape", "string", input=a)
    s.case("Size", "string", input=a)
    s.case("Rank", "string", input=a)
    pads = np.array([[1, 0], [0, 2]], i32)
    s.case("Pad", "string", input=a, paddings=pads)
    s.case("PadV2", "string", input=a, paddings=pads, constant_values=np.array("p", object))
    s.case("MirrorPad", "string", input=a, paddings=pads, mode="SYMMETRIC")
    s.case("Roll", "string", input=a, shift=np.array(1, i32), axis=np.array(1, i32))
    s.case("ReverseSequence", "string", input=a, seq_lengths=np.array([2, 3], i32), seq_dim=1)
    s.case("TensorScatterUpdate", "string", tensor=a, indices=np.array([[1]], i32), updates=b[:1])
    for op in ("DynamicStitch", "ParallelDynamicStitch"):
        s.case(op, "string", indices=[np.array([3, 0], i32), np.array([1, 0], i32)], data=[a, b])
    for label, ids in (("rows", np.array([1, 1], i32)), ("each", np.array([[2, 0, 2], [0, 0, 2]], i64))):
        count = np.array(3, i32)
        s.case("UnsortedSegmentJoin", label, inputs=a, segment_ids=ids, num_segments=count, separator=", ")
    for op in ("Equal", "NotEqual"):
        s.case(op, "string", x=a, y=b)
        s.case(op, "string_broadcast", x=a, y=np.array("a", object))


def expressions(s):
    """Regular expressions."""
    lines = text("abc", "abcabc", "", "a.c", "x42y7", "äöü", "A B  C")
    for name, pattern in (("letters", "[a-c]+"), ("any", ".*"), ("digits", r".*\d+.*"), ("choice", "a|abc")):
        s.case("StaticRegexFullMatch", name, input=lines, pattern=pattern)
        s.case("RegexFullMatch", name, input=lines, pattern=text(pattern).reshape(()))
    for name, pattern, rewrite in (
        ("groups", r"(\w)(\d)", r"\2-\1"),
        ("blanks", r"\s+", "_"),
        ("dollar", "b", "$1"),
        ("empty", "", "|"),
    ):
        for globally in (True, False):
            label = name + ("" if globally else " once")
            s.case("StaticRegexReplace", label, input=lines, pattern=pattern, rewrite=rewrite, replace_global=globally)
        s.case(
            "RegexReplace", name, input=lines, pattern=text(pattern).reshape(()), rewrite=text(rewrite).reshape(())
        )


def message(dtype, dims, **lists):
    """A serialized tensor whose elements are in the list of their type."""
    proto = tf.make_tensor_proto(0.0).__class__(dtype=dtype.as_datatype_enum)
    for size in dims:
        proto.tensor_shape.dim.add(size=size)
    for name, values in lists.items():
        getattr(proto, name).extend(values)
    return np.array(proto.SerializeToString(), object)


def serialized(s):
    """Tensors and sparse tensors as strings, and back."""
    for name, dtype in ANY.items():
        for label, dims in (("scalar", []), ("2x3", [2, 3]), ("none", [0, 2])):
            low = 0 if np.dtype(dtype).kind == "u" else -9
            written = s.case("SerializeTensor", f"{name}_{label}", audit=False, tensor=rnd(dtype, dims, low, 9))
            given = np.array(written.outputs[0], object)
            s.case("ParseTensor", f"{name}_{label}", audit=False, serialized=given, out_type=dtype)
    for label, words in (("scalar", text("ab").reshape([])), ("2x2", text("a", "", "bcd", "\xe4").reshape(2, 2))):
        written = s.case("SerializeTensor", f"string_{label}", tensor=words)
        given = np.array(written.outputs[0], object)
        s.case("ParseTensor", f"string_{label}", serialized=given, out_type=np.object_)
    for label, dtype, lists in (
        ("f16", tf.float16, {"half_val": [0x3C00, 0xC000]}),
        ("f32", tf.float32, {"float_val": [1.5, -2.0]}),
        ("f64", tf.float64, {"double_val": [1.5]}),
        ("i8", tf.int8, {"int_val": [-7, 5]}),
        ("i64", tf.int64, {"int64_val": [-(2**40)]}),
        ("u64", tf.uint64, {"uint64_val": [2**63]}),
        ("bool", tf.bool, {"bool_val": [True, False]}),
        ("nothing", tf.int32, {}),
    ):
        kind = dtype.as_numpy_dtype
        s.case("ParseTensor", f"listed_{label}", audit=False, serialized=message(dtype, [2, 2], **lists), out_type=kind)
    short = message(tf.string, [3], string_val=[b"a", b"bc"])
    s.case("ParseTensor", "listed_string", serialized=short, out_type=np.object_)
    sparse(s)


def sparse(s):
    """Sparse tensors as three strings each."""
    index = np.array([[0, 1], [0, 2], [2, 0], [3, 3]], i64)
    shape = np.array([5, 4], i64)
    for name, values in (
        ("f32", np.array([1.5, -2, 0, 7], f32)),
        ("i64", np.array([1, 2, 3, 4], i64)),
        ("u8", np.array([1, 2, 3, 255], u8)),
        ("bool", np.array([True, False, True, True])),
        ("string", text("a", "", "bcd", "e")),
    ):
        given = {"sparse_indices": index, "sparse_values": values, "sparse_shape": shape}
        whole = s.case("SerializeSparse", name, **given).outputs[0]
        rows = s.case("SerializeManySparse", name, **given).outputs[0]
        dtype = np.object_ if name == "string" else values.dtype.type
        s.case("DeserializeSparse", name, audit=False, serialized_sparse=whole, dtype=dtype)
        s.case("DeserializeSparse", f"{name}_rows", audit=False, serialized_sparse=rows, dtype=dtype)
        s.case("DeserializeManySparse", name, audit=False, serialized_sparse=rows, dtype=dtype)
    matrix = np.stack([rows[:2], rows[2:4], rows[3:]])
    s.case("DeserializeSparse", "matrix", audit=False, serialized_sparse=matrix, dtype=np.object_)
    parts = []
    for count, dims in ((1, []), (2, []), (0, [3, 4]), (1, [5, 2])):
        given = {"sparse_indices": np.zeros([count, len(dims)], i64), "sparse_values": np.arange(count).astype(f32)}
        label = f"{count}_of_{len(dims)}"
        parts += s.case("SerializeSparse", label, **given, sparse_shape=np.array(dims, i64)).outputs
    s.case("DeserializeManySparse", "scalars", audit=False, serialized_sparse=np.stack(parts[:2]), dtype=f32)
    s.case("DeserializeManySparse", "sizes", audit=False, serialized_sparse=np.stack(parts[2:]), dtype=f32)
    s.case("DeserializeSparse", "nothing", audit=False, serialized_sparse=parts[2], dtype=f32)
    nothing = {"sparse_indices": index[:0], "sparse_values": np.zeros([0], f32)}
    s.case("SerializeManySparse", "nothing", **nothing, sparse_shape=shape)
    s.case("SerializeManySparse", "no_rows", **nothing, sparse_shape=np.array([0, 4], i64))


def unicode(s):
    """Code points of strings, and strings of code points."""
    words = text("", "a", "äöü €", "\U0001f600 smile", "tab\tand\nline", "\x01\x1f\x20")
    policies = (
        {"errors": "replace"},
        {"errors": "replace", "replacement_char": 63, "replace_control_characters": True},
        {"errors": "ignore", "replace_control_characters": True},
        {"errors": "strict"},
    )
    for number, policy in enumerate(policies):
        # TensorFlow ends the process where splits are i32.
        given = {"input": words, "input_encoding": "UTF-8", **policy}
        s.case("UnicodeDecode", f"{number}", **given)
        s.case("UnicodeDecodeWithOffsets", f"{number}", **given)
        s.case("UnicodeTranscode", f"{number}", input=words, input_encoding="UTF-8", output_encoding="UTF-8", **policy)
    plain = text("abc", "", "x y")
    for encoding in ("UTF-16-BE", "UTF-32-BE"):
        wide = s.case("UnicodeTranscode", encoding, input=plain, input_encoding="UTF-8", output_encoding=encoding)
        s.case("UnicodeDecodeWithOffsets", encoding, input=wide.outputs[0], input_encoding=encoding)
    # An odd byte at the end.
    s.case("UnicodeDecodeWithOffsets", "odd", input=text("abc", "a\x00b"), input_encoding="UTF-16-BE")
    s.case("UnicodeDecode", "ascii", input=text("abc", "äb"), input_encoding="US-ASCII")
    s.case("UnicodeDecode", "latin_1", input=text("abc", "äb"), input_encoding="ISO-8859-1")
    points = np.array([104, 105, 0x20AC, 0x1F600, 0xD800, 0x110000, 0xFFFF, 65], i32)
    ends = np.array([0, 2, 4, 4, 8], i64)
    for errors in ("replace", "ignore"):
        given = {"input_values": points, "input_splits": ends, "output_encoding": "UTF-8", "errors": errors}
        s.case("UnicodeEncode", errors, **given)
        s.case("UnicodeEncode", f"{errors}_63", replacement_char=63, **given)
    s.case(
        "UnicodeEncode",
        "utf_16",
        input_values=points[:2],
        input_splits=np.array([0, 1, 2], i32),
        output_encoding="UTF-16-BE",
    )


def ngrams(s):
    """Runs of strings in the rows of a ragged matrix."""
    words = text("a", "b", "c", "d", "e", "f", "g")
    ends = np.array([0, 1, 1, 3, 7], i64)
    for widths in ([1], [2], [3, 1], [4, 2]):
        for pad_width in (-1, 0, 1, 5):
            for short in (False, True):
                s.case(
                    "StringNGrams",
                    f"{'_'.join(map(str, widths))}_pad_{pad_width}_{short}".lower(),
                    data=words,
                    data_splits=ends,
                    separator="|",
                    ngram_widths=widths,
                    left_pad="LP",
                    right_pad="RP",
                    pad_width=pad_width,
                    preserve_short_sequences=short,
                )
    s.case(
        "StringNGrams",
        "nothing",
        data=words[:0],
        data_splits=np.array([0, 0], i32),
        separator=" ",
        ngram_widths=[2],
        left_pad="",
        right_pad="",
        pad_width=0,
        preserve_short_sequences=True,
    )
