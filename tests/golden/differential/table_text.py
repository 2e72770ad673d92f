"""Strings."""

from model import FLOAT, INDEX, INT, TYPES, Refused, np
from registry import family, op
from rules import EXACT_SPECIAL


@op("StringJoin")
def string_join(g):
    """Scalars join with anything, other shapes are the same."""
    x = g.wire("string")
    others = [g.wire("string", dims=g.one(x.dims, ())) for _ in range(g.integer(0, 2))]
    g.add("StringJoin", inputs=[x, *others], separator=g.one("", "-", ", "))


@op("AsString")
def as_string(g):
    kind = g.kind(FLOAT + INT + ("bool",))
    settings = {}
    if kind in FLOAT:
        settings = g.one({}, {"precision": g.integer(0, 4)}, {"scientific": True}, {"shortest": True})
    if g.chance(0.4):
        settings |= {"width": g.integer(1, 12), "fill": g.one("", " ", "0")}
    x = g.wire(kind)
    if kind in FLOAT and np.any(x.value == 0):
        raise Refused("zero", "the sign of a zero follows from how the elements were dealt out")
    g.add("AsString", input=x, **settings)


NUMBERS = [b"0", b"1", b"-17", b"42", b"+5", b" 8 "]
DECIMALS = [b"3.5", b"-2e3", b"1e-5", b"0.1", b".5", b"inf", b"nan", b"-0"]


@op("StringToNumber", EXACT_SPECIAL)
def string_to_number(g):
    kind = g.one("f32", "f64", "i32", "i64")
    dims = g.shape((0, 2), most=10)
    array = np.empty(dims, object)
    for i in range(array.size):
        array.reshape(-1)[i] = g.one(*(NUMBERS + (DECIMALS if kind in FLOAT else [])))
    g.add("StringToNumber", string_tensor=g.source(array, "string"), out_type=TYPES[kind])


@op("StringToHashBucketFast")
def hash_fast(g):
    g.add("StringToHashBucketFast", input=g.wire("string"), num_buckets=g.one(1, 10, 997, 2**40))


@op("StringToHashBucket", weight=0.5)
def hash_bucket(g):
    g.add("StringToHashBucket", string_tensor=g.wire("string"), num_buckets=g.one(1, 10, 997))


@op("StringToHashBucketStrong", weight=0.5)
def hash_strong(g):
    g.add(
        "StringToHashBucketStrong",
        input=g.wire("string"),
        num_buckets=g.one(10, 997),
        key=[g.integer(0, 2**40), 7],
    )


@op("Substr")
def substr(g):
    """Positions are inside of the string, from either end; longer ones are cut."""
    unit = g.one("BYTE", "UTF8_CHAR")
    x = g.wire("string", rank=(0, 3), test=readable(unit))
    if not valid(x, unit):
        return
    shortest = min((length(v, unit) for v in x.value.reshape(-1)), default=0)
    kind = g.one(*INDEX)
    dims = g.one((), x.dims)
    position = g.array.integers(-shortest, shortest, dims, endpoint=True)
    position, count = (g.source(a, kind, known=True) for a in (position, g.array.integers(0, 5, dims)))
    g.add("Substr", input=x, pos=position, len=count, unit=unit)


def readable(unit):
    """A test of wires: wires that are made later are tested then."""
    return lambda w: not hasattr(w, "value") or valid(w, unit)


def valid(wire, unit):
    """True if all strings can be split into units."""
    if unit == "BYTE":
        return True
    try:
        for value in wire.value.reshape(-1):
            value.decode()
    except UnicodeDecodeError:
        return False
    return True


def length(value, unit):
    return len(value) if unit == "BYTE" else len(value.decode())


@op("StringLength")
def string_length(g):
    unit = g.one("BYTE", "UTF8_CHAR")
    x = g.wire("string", test=readable(unit))
    if valid(x, unit):
        g.add("StringLength", input=x, unit=unit)


@op("ReduceJoin")
def reduce_join(g):
    x = g.wire("string", rank=(1, 4), test=lambda w: 0 not in w.dims)
    axes = [a - len(x.dims) * g.chance(0.3) for a in range(len(x.dims)) if g.chance(0.6)]
    g.random.shuffle(axes)
    settings = {"keep_dims": g.chance(0.4), "separator": g.one("", "+")}
    g.add("ReduceJoin", inputs=x, reduction_indices=g.host(axes), **settings)


@family("StringLower StringUpper", weight=0.5)
def letters(g, name):
    x = g.wire("string", test=readable("UTF8_CHAR"))
    if valid(x, "UTF8_CHAR"):
        g.add(name, input=x, encoding=g.one("", "utf-8"))


@op("StringStrip", weight=0.5)
def string_strip(g):
    g.add("StringStrip", input=g.wire("string"))


@op("StringSplitV2", weight=0.5)
def string_split_v2(g):
    separator = g.source(np.array(g.one(b"", b",", b"a", b" "), object), "string")
    g.add("StringSplitV2", input=g.wire("string", rank=1), sep=separator, maxsplit=g.one(-1, -1, 1, 2))


@op("StringSplit", weight=0.3)
def string_split(g):
    separator = g.source(np.array(g.one(b"", b",", b"ab"), object), "string")
    g.add("StringSplit", input=g.wire("string", rank=1), delimiter=separator, skip_empty=g.chance(0.5))


@family("StaticRegexReplace RegexReplace", weight=0.4)
def regex_replace(g, name):
    x = g.wire("string", test=readable("UTF8_CHAR"))
    pattern, rewrite = g.one("a", "[0-9]+", "^.", "b*$"), g.one("", "x", r"<\0>")
    if name == "RegexReplace":
        pattern, rewrite = (g.source(np.array(t.encode(), object), "string") for t in (pattern, rewrite))
    if valid(x, "UTF8_CHAR"):
        g.add(name, input=x, pattern=pattern, rewrite=rewrite, replace_global=g.chance(0.6))


@family("StaticRegexFullMatch RegexFullMatch", weight=0.4)
def regex_match(g, name):
    pattern = g.one("a.*", "[0-9.-]+", ".*", "(one|two)")
    if name == "RegexFullMatch":
        pattern = g.source(np.array(pattern.encode(), object), "string")
    g.add(name, input=g.wire("string"), pattern=pattern)


@op("UnsortedSegmentJoin", weight=0.4)
def segment_join(g):
    x = g.wire("string", rank=(1, 2))
    count = g.integer(1, 4)
    where = g.source(g.array.integers(0, count, x.dims[:1]), g.one(*INDEX))
    g.add(
        "UnsortedSegmentJoin",
        inputs=x,
        segment_ids=where,
        num_segments=g.host(count),
        separator=g.one("", "|"),
    )


@op("EncodeBase64", weight=0.4)
def encode_base64(g):
    g.add("EncodeBase64", input=g.wire("string"), pad=g.chance(0.5))


@op("DecodeBase64", weight=0.3, needs=["EncodeBase64"])
def decode_base64(g):
    coded = g.add("EncodeBase64", input=g.wire("string"), pad=g.chance(0.5))[0]
    g.add("DecodeBase64", input=coded)


@op("DecodeRaw", weight=0.4)
def decode_raw(g):
    """All strings are of one length, a multiple of the numbers' size."""
    kind = g.one("u8", "i8", "i16", "u16", "i32", "i64")
    array = np.empty(g.shape((0, 2), most=6), object)
    for i in range(array.size):
        array.reshape(-1)[i] = bytes(g.integer(0, 255) for _ in range(16))
    g.add("DecodeRaw", bytes=g.source(array, "string"), out_type=TYPES[kind], little_endian=g.chance(0.7))


@op("StringFormat", weight=0.3)
def string_format(g):
    parts = [g.wire(g.one("i32", "string", "i64")) for _ in range(g.integer(1, 2))]
    template = "-".join(["{}"] * len(parts))
    g.add("StringFormat", inputs=parts, template=template, placeholder="{}", summarize=g.one(-1, 3))
