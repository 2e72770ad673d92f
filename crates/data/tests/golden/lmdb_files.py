"""Files of LMDB, by py-lmdb (`pip install lmdb`).

    python lmdb_files.py write    # writes lmdb.mdb.gz and lmdb_named.mdb.gz, the golden files
    python lmdb_files.py read DIR # prints each key, and length and CRC-32 of its value
"""

import gzip
import os
import sys
import tempfile
import zlib

import lmdb

HERE = os.path.dirname(os.path.abspath(__file__))


def value(n):
    """Values in leaves, and above 2 KB in overflow pages."""
    return bytes([n % 251]) * (n * 37 % 3000 if n % 4 == 0 else n % 50)


def write(name, fill, **options):
    with tempfile.TemporaryDirectory() as folder:
        env = lmdb.open(folder, map_size=1 << 40, **options)
        fill(env)
        env.close()
        with open(os.path.join(folder, "data.mdb"), "rb") as file:
            data = file.read()
    with open(os.path.join(HERE, name), "wb") as file:
        file.write(gzip.compress(data, 9, mtime=0))


def fill(env):
    """600 keys in an order of their own, of which some are deleted and written again: free pages, two transactions."""
    numbers = [n * 7 % 600 for n in range(600)]
    with env.begin(write=True) as txn:
        for n in numbers:
            txn.put(b"%08d_name" % n, b"first")
    with env.begin(write=True) as txn:
        for n in numbers:
            txn.put(b"%08d_name" % n, value(n))
        for n in range(0, 600, 100):
            txn.delete(b"%08d_name" % n)


def fill_named(env):
    with env.begin(write=True) as txn:
        for name in (b"test", b"train"):
            txn.put(b"k", name, db=env.open_db(name, txn=txn))


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write("lmdb.mdb.gz", fill)
        write("lmdb_named.mdb.gz", fill_named, max_dbs=2)
    else:
        env = lmdb.open(sys.argv[2], readonly=True, lock=False)
        with env.begin() as txn:
            for key, data in txn.cursor():
                assert txn.get(key) == data
                print(key.decode(), len(data), zlib.crc32(data))
            print("stat", txn.stat()["entries"], txn.stat()["depth"])
