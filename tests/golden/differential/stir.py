"""Errors inside of a node that is many ops: later steps may amplify the error of one step.

A composite's function calls `stirred` on each inexact step. In the nudged lanes of an eager run that
moves the step's result, as `Lane.nudge` does with a node's; everywhere else it does nothing.
"""

from model import NAMES, tf
from rules import UNIT


class Stirring:
    """Which lane is running, and how many steps it has stirred."""

    lane = count = 0


def stirred(tensor):
    """The tensor, moved by the error of a rounded op: up, down, or in turns."""
    if not Stirring.lane or not tf.executing_eagerly():
        return tensor
    Stirring.count += 1
    sign = {1: 1, 2: -1}.get(Stirring.lane, (-1) ** Stirring.count)
    return tensor + tf.cast(sign * UNIT[NAMES[tensor.dtype]], tensor.dtype) * (tf.abs(tensor) + 0.125)
