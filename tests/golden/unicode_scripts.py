#!/usr/bin/env python3
"""Writes the table of UnicodeScript from TensorFlow: ranges of code points, and the number of each one's script."""

import pathlib

import numpy as np

from reference import raw, tf, v1

TABLE = pathlib.Path(__file__).parents[2] / "crates/ops/src/strings/unicode/scripts.bin"


def ranges():
    """Pairs of a first code point and the script of it and of those behind it."""
    with tf.Graph().as_default(), v1.Session() as session:
        scripts = session.run(raw.UnicodeScript(input=np.arange(0x110000, dtype=np.int32)))
    starts = np.flatnonzero(np.diff(scripts, prepend=scripts[0] - 1))
    return [(int(start), int(scripts[start])) for start in starts]


def main():
    """Three bytes of a code point, the lowest first, and one of a script."""
    TABLE.write_bytes(b"".join(start.to_bytes(3, "little") + bytes([script]) for start, script in ranges()))


if __name__ == "__main__":
    main()
