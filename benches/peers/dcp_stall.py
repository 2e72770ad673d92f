"""How long an asynchronous save of PyTorch's distributed checkpoints keeps a training waiting: `dcp_stall.py FOLDER ROUNDS`.

A row of a table for each size, as `cargo bench -p thalweg-benches --bench checkpoints` prints: the time of `async_save`, and
the time until the checkpoint is there.
"""

import os
import shutil
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

SIZES = [
    ("deep MNIST", [800, 32, 51_200, 64, 3_211_264, 1024, 10_240, 10]),
    ("100 MB", [3_125_000] * 8),
    ("1 GB", [15_625_000] * 16),
]


def main():
    folder, rounds = sys.argv[1], int(sys.argv[2])
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    dist.init_process_group("gloo", rank=0, world_size=1)
    print("| variables | async_save | written after |")
    print("| --- | --- | --- |")
    for name, sizes in SIZES:
        values = {f"w{i}": torch.rand(n) for i, n in enumerate(sizes)}
        blocked, written = [], []
        for i in range(rounds + 1):
            path = os.path.join(folder, "dcp")
            shutil.rmtree(path, ignore_errors=True)
            begun = time.perf_counter()
            future = dcp.async_save(values, checkpoint_id=path)
            returned = time.perf_counter()
            future.result()
            # The first one makes buffers and threads.
            if i > 0:
                blocked.append(returned - begun)
                written.append(time.perf_counter() - begun)
        shutil.rmtree(path, ignore_errors=True)
        ms = [f"{1e3 * statistics.median(all):.2f} ms" for all in (blocked, written)]
        print(f"| {name} | {ms[0]} | {ms[1]} |", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
