"""Sums of f32 by gloo, one rank of those that RANK and WORLD_SIZE tell of: the mean seconds of some in a row, for each size in bytes.

usage: allreduce_gloo.py 4096,65536
"""
import sys
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
for size in map(int, sys.argv[1].split(",")):
    values = torch.empty(size // 4)

    def run(times):
        began = time.perf_counter()
        for _ in range(times):
            values.fill_(1)
            dist.all_reduce(values)
        return (time.perf_counter() - began) / times

    # The first ones connect, and open the windows of TCP.
    run(3)
    seconds = run(8)
    if dist.get_rank() == 0:
        print("all-reduce", size, seconds, flush=True)
dist.barrier()
dist.destroy_process_group()
