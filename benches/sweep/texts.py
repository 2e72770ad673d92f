"""Ops of strings."""

import numpy as np

from case import Case, Const, op, raw, values

WORDS = b"the quick brown fox jumps over a lazy dog while seven wizards make 1234 toxic brews 5.75 each".split()


def words(rng, number, most=1):
    """Strings of up to so many words."""
    return np.array([b" ".join(rng.choice(WORDS) for _ in range(rng.randint(1, most))) for _ in range(number)], "S")


def cases(rng, count):
    """All cases."""
    for _ in range(count):
        number = rng.choice((300, 5000, 40000))
        single, lines = words(rng, number), words(rng, number, 12)
        label = str(number)
        for name in ("StringLower", "StringUpper", "StringLength", "StringStrip"):
            yield op(name, label, input=lines)
        yield op("StringSplitV2", label, input=lines, sep=Const(np.array(b" ", "S")))
        yield op("StringJoin", label, inputs=[single, lines], separator="-")
        yield op("ReduceJoin", label, inputs=lines.reshape(-1, 10), reduction_indices=Const(np.array([1], np.int32)))
        yield op("RegexReplace", label, input=lines, pattern=Const(np.array(b"[aeiou]", "S")), rewrite=Const(np.array(b"_", "S")))
        yield op("StaticRegexFullMatch", label, input=lines, pattern=".*fox.*")
        yield op("StringToHashBucketFast", label, input=lines, num_buckets=1000)
        yield op("StringToHashBucketStrong", label, input=lines, num_buckets=1000, key=[1, 2])
        yield op("StringToHashBucket", label, string_tensor=lines, num_buckets=1000)
        numbers = np.array([b"%.3f" % rng.uniform(-99, 99) for _ in range(number)], "S")
        yield op("StringToNumber", label, string_tensor=numbers)
        yield op("AsString", f"int/{label}", input=values(rng, (number,), np.int32, 0, 100000))
        yield op("AsString", f"float/{label}", input=values(rng, (number,)))
        yield op("Substr", label, input=lines, pos=Const(np.array(0, np.int32)), len=Const(np.array(3, np.int32)))
        yield op("EncodeBase64", label, input=lines)
        yield op("UnicodeDecode", label, input=lines, input_encoding="UTF-8")
        yield op("UnicodeTranscode", label, input=lines, input_encoding="UTF-8", output_encoding="UTF-16-BE")
        fixed = np.array([bytes(rng.randrange(1, 256) for _ in range(40)) for _ in range(number // 10)], "S40")
        yield op("DecodeRaw", label, bytes=fixed, out_type=np.float32)
        yield op("Equal", f"string/{label}", x=single, y=single[::-1].copy())
        yield op("GatherV2", f"string/{label}", params=single, indices=np.arange(0, number, 2, dtype=np.int32),
                 axis=Const(np.array(0, np.int32)))
        yield op("Unique", f"string/{label}", x=single)
        csv = np.array([b"%d,%.2f,%s" % (i, i / 7, rng.choice(WORDS)) for i in range(number)], "S")
        yield Case(f"DecodeCSV/{label}", lambda inputs, csv=csv: raw.DecodeCSV(
            records=inputs.input(csv), record_defaults=[[0], [0.0], [b""]]))
