#!/usr/bin/env python3
"""The cases of `gpu_run` on PyTorch and a GPU; `peer.py` describes the lines read and written. A step of a
convolution is ten of them, which are waited for at once.

usage: pytorch_gpu.py [DEVICE]                   cuda, if nothing is said
       pytorch_gpu.py DEVICE --compile CASE...   runs these cases once, so that torch.compile has them on disk
"""

import json
import sys

import torch
import torch.nn.functional as F
from torch import nn

import peer

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cuda"
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
# Convolutions that are waited for at once.
TOGETHER = 10


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def precision(tf32):
    torch.backends.cudnn.allow_tf32 = tf32
    # It tries the engines and takes the fastest, as we do.
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = tf32


def conv(c):
    """One convolution: where TensorFlow's SAME is uneven, with zeros of the larger side all round."""
    precision(False)
    pad = []
    for k in c["filter"]:
        out = -(-c["side"] // c["stride"])
        whole = max((out - 1) * c["stride"] + k - c["side"], 0) if c["same"] else 0
        pad.append(-(-whole // 2))
    stride = [c["stride"]] * 2
    last = dict(dtype=DTYPES[c["dtype"]], device=DEVICE)
    rand = lambda *dims: torch.rand(*dims, **last).contiguous(memory_format=torch.channels_last)
    x = rand(c["batch"], c["from"], c["side"], c["side"])
    w = rand(c["to"], c["from"], *c["filter"])
    dy = torch.rand_like(F.conv2d(x, w, stride=stride, padding=pad))
    mask = [c["pass"] == "images", c["pass"] == "filter", False]

    def one():
        if c["pass"] == "forward":
            return F.conv2d(x, w, stride=stride, padding=pad)
        return torch.ops.aten.convolution_backward(
            dy, x, w, None, stride, pad, [1, 1], False, [0, 0], 1, mask
        )

    def together():
        for _ in range(TOGETHER):
            one()

    replay = captured(together) if DEVICE == "cuda" else together

    def step():
        replay()
        wait()

    return step


class Block(nn.Module):
    """Three convolutions beside a short cut."""

    def __init__(self, start, width, stride):
        super().__init__()
        unit = lambda a, b, k, s=1: nn.Sequential(
            nn.Conv2d(a, b, k, s, k // 2, bias=False), nn.BatchNorm2d(b)
        )
        self.short = unit(start, 4 * width, 1, stride) if start != 4 * width else nn.Identity()
        self.first, self.second = unit(start, width, 1), unit(width, width, 3, stride)
        self.third = unit(width, 4 * width, 1)

    def forward(self, x):
        y = F.relu(self.second(F.relu(self.first(x))))
        return F.relu(self.third(y) + self.short(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers += [nn.MaxPool2d(3, 2, 1)]
    start = 64
    for blocks, width, stride in [(3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)]:
        for block in range(blocks):
            layers.append(Block(start, width, stride if block == 0 else 1))
            start = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(start, 1001))


def deep_mnist():
    layers = [nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    layers += [nn.Linear(3136, 1024), nn.ReLU(), nn.Dropout(0.5), nn.Linear(1024, 10)]
    return nn.Sequential(*layers)


def train(c):
    """A step of training; data and weights are on the device."""
    precision(c["tf32"])
    torch.manual_seed(0)
    is_mnist = c["model"] == "deep_mnist"
    shape, classes = ((1, 28, 28), 10) if is_mnist else ((3, 224, 224), 1001)
    memory = torch.channels_last if c["format"] == "NHWC" else torch.contiguous_format
    model = (deep_mnist() if is_mnist else resnet50()).to(DEVICE, memory_format=memory).train()
    images = torch.rand(c["batch"], *shape, device=DEVICE).contiguous(memory_format=memory)
    labels = torch.randint(0, classes, (c["batch"],), device=DEVICE)
    on_card = DEVICE == "cuda"
    if is_mnist:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, capturable=on_card, fused=True)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)

    half = DTYPES[c.get("dtype", "f32")]

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, dtype=half, enabled=half != torch.float32):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    if c["compiled"]:
        step = torch.compile(step, mode="reduce-overhead" if on_card else "default")
    elif on_card:
        step = captured(step)

    def waited():
        step()
        wait()

    for _ in range(3):
        waited()
    return waited


def captured(step):
    """The step as a CUDA graph."""
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


KINDS = {"conv": conv, "train": train}


def case(c):
    does = KINDS.get(c["kind"])
    return does(c) if does else None


if sys.argv[2:3] == ["--compile"]:
    for text in sys.argv[3:]:
        case(json.loads(text))
else:
    peer.answer(case)
