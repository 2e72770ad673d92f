"""Writes names.txt: the names that TensorFlow gives to ops in nested and repeated scopes.

Run with a Python that has tensorflow-cpu: python3 names.py > names.txt
Lines are `enter SCOPE`, `op NAME => FULL NAME`, and `leave`.
"""

import random

import tensorflow.compat.v1 as tf

SCOPES = ["a", "b", "A", "a_1", "layer", "a/b", "x.y", "", "a/", "layer/inner/"]
NAMES = ["x", "y", "X", "x_1", "a", "A_1", "x/y", "Const", "x-1", "x.2"]


def block(chance, depth):
    for _ in range(chance.randrange(2, 7)):
        if depth < 4 and chance.random() < 0.4:
            scope = chance.choice(SCOPES)
            print(f"enter {scope}")
            with tf.name_scope(scope):
                block(chance, depth + 1)
            print("leave")
        else:
            name = chance.choice(NAMES)
            print(f"op {name} => {tf.no_op(name=name).name}")


with tf.Graph().as_default():
    chance = random.Random(7)
    for _ in range(12):
        block(chance, 0)
