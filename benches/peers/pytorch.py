#!/usr/bin/env python3
"""The cases of the example `bench` on PyTorch, eager; `peer.py` describes the lines read and written."""

import math

import torch
import torch.nn.functional as F
from torch import nn

import peer


def numbers(*dims):
    n = math.prod(dims)
    return (torch.arange(n, dtype=torch.float32) * 7919 % 1013 / 1013 - 0.5).reshape(dims)


def memory(c):
    return torch.channels_last if c["format"] == "NHWC" else torch.contiguous_format


def padding(c):
    """Zeros on each side, and one more after where TensorFlow's SAME is uneven."""
    sides = []
    for k in reversed(c["filter"]):
        out = -(-c["side"] // c["stride"])
        whole = max((out - 1) * c["stride"] + k - c["side"], 0) if c["same"] else 0
        sides.append((whole // 2, whole - whole // 2))
    return sides


def conv(c):
    (left, right), (above, below) = padding(c)
    # PyTorch pads evenly: where that is not even, by the larger side, which computes as much.
    pad, stride = [max(above, below), max(left, right)], [c["stride"]] * 2
    x = numbers(c["batch"], c["from"], c["side"], c["side"]).contiguous(memory_format=memory(c))
    w = numbers(c["to"], c["from"], *c["filter"]).contiguous(memory_format=memory(c))
    y = F.conv2d(x, w, stride=stride, padding=pad)
    if c["pass"] == "forward":
        return lambda: F.conv2d(x, w, stride=stride, padding=pad)
    dy = torch.rand_like(y).contiguous(memory_format=memory(c))
    mask = [c["pass"] == "images", c["pass"] == "filter", False]
    return lambda: torch.ops.aten.convolution_backward(dy, x, w, None, stride, pad, [1, 1], False, [0, 0], 1, mask)


def product(c):
    ta, tb = c["transposed"]
    m, n, k = c["m"], c["n"], c["k"]
    a = numbers(k, m).t() if ta else numbers(m, k)
    b = numbers(n, k).t() if tb else numbers(k, n)
    return lambda: a @ b


OPS = [lambda y: y * 1.01, lambda y: y + 0.1, lambda y: y.clamp_min(-0.3), lambda y: y * y]


def chain(c):
    x = numbers(c["numbers"])

    def step():
        y = x
        for op in range(c["ops"]):
            y = OPS[op % 4](y)
        return y

    return step


def cross_entropy(c):
    x = numbers(c["rows"], c["classes"]).requires_grad_()
    labels = torch.arange(c["rows"]) % c["classes"]

    def step():
        x.grad = None
        F.cross_entropy(x, labels).backward()

    return step


def adam(c):
    w = torch.zeros(c["numbers"], requires_grad=True)
    w.grad = numbers(c["numbers"])
    optimizer = torch.optim.Adam([w], lr=1e-4)
    return optimizer.step


def deep_mnist():
    layers = [nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    layers += [nn.Linear(3136, 1024), nn.ReLU(), nn.Dropout(0.5), nn.Linear(1024, 10)]
    return nn.Sequential(*layers)


def lenet():
    layers = [nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    layers += [nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)]
    return nn.Sequential(*layers)


MODELS = {"deep_mnist": deep_mnist, "lenet": lenet}


def network(c):
    torch.manual_seed(0)
    model = MODELS[c["model"]]().to(memory_format=memory(c))
    images = torch.rand(c["batch"], 1, 28, 28).contiguous(memory_format=memory(c))
    return model, images


def train(c):
    model, images = network(c)
    labels = torch.randint(0, 10, (c["batch"],))
    is_deep = c["model"] == "deep_mnist"
    make = torch.optim.Adam if is_deep else torch.optim.SGD
    optimizer = make(model.parameters(), lr=1e-4 if is_deep else 0.01)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step


def infer(c):
    model, images = network(c)
    model.eval()

    def step():
        with torch.inference_mode():
            return model(images).argmax(1)

    return step


def line(c):
    x = numbers(16)
    w, b = torch.zeros((), requires_grad=True), torch.zeros((), requires_grad=True)
    optimizer = torch.optim.SGD([w, b], lr=0.1)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = (w * x + b - x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


KINDS = {f.__name__: f for f in (conv, product, chain, cross_entropy, adam, train, infer, line)}


def case(c):
    torch.set_num_threads(c["threads"])
    does = KINDS.get(c["kind"])
    return does(c) if does else None


peer.answer(case)
