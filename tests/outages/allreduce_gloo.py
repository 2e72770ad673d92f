"""Sums of f32 by gloo, one rank of those that RANK and WORLD_SIZE tell of: the median seconds for each size in bytes.

usage: allreduce_gloo.py 4096,65536
"""
import sys
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
for size in map(int, sys.argv[1].split(",")):
    values = torch.ones(size // 4)
    times = []
    for _ in range(7):
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(values)
        times.append(time.perf_counter() - began)
    if dist.get_rank() == 0:
        # The first ones connect, and open the windows of TCP.
        print("all-reduce", size, sorted(times[2:])[2], flush=True)
dist.destroy_process_group()
