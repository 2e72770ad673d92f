"""Cuts the files of this folder from the full MNIST set.

    pip install zopfli
    python cut.py FOLDER_WITH_THE_FULL_SET

Keeps the first 10,000 training images and the whole test set, checks every
header on the way, and writes gzip files that hold no time stamp and no name.
"""

import gzip
import pathlib
import struct
import sys

from zopfli.gzip import compress

TRAIN_KEPT = 10_000
HERE = pathlib.Path(__file__).parent


def cut(source: pathlib.Path, magic: int, keep: int | None) -> bytes:
    """The IDX file `source` with its first `keep` items, or with all of them."""
    data = gzip.decompress(source.read_bytes())
    rank = magic & 0xFF
    found, *dims = struct.unpack_from(f">{1 + rank}I", data)
    item = 1
    for dim in dims[1:]:
        item *= dim
    start = 4 * (1 + rank)
    if found != magic or len(data) != start + dims[0] * item:
        sys.exit(f"{source}: not the IDX file that its name says")
    kept = dims[0] if keep is None else keep
    if kept > dims[0]:
        sys.exit(f"{source}: has {dims[0]} items, {kept} are wanted")
    header = struct.pack(f">{1 + rank}I", magic, kept, *dims[1:])
    return header + data[start : start + kept * item]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    source = pathlib.Path(sys.argv[1])
    for name, magic, keep in [
        ("train-images-idx3-ubyte.gz", 0x803, TRAIN_KEPT),
        ("train-labels-idx1-ubyte.gz", 0x801, TRAIN_KEPT),
        ("t10k-images-idx3-ubyte.gz", 0x803, None),
        ("t10k-labels-idx1-ubyte.gz", 0x801, None),
    ]:
        packed = compress(cut(source / name, magic, keep))
        (HERE / name).write_bytes(packed)
        print(f"{name}: {len(packed)} bytes")


main()
