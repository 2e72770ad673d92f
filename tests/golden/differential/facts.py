"""Questions about wires and nodes."""

from model import Stateful


def varies(node):
    """True if the node's results may differ between steps."""
    return bool(node.variables) or isinstance(node, Stateful) or any(w.varies for w in node.inputs)


def within(wire, low, high):
    """True if all values are in [low, high]."""
    if wire.value.size == 0:
        return True
    return (low is None or bool(wire.value.min() >= low)) and (high is None or bool(wire.value.max() <= high))


def broadcast(a, b):
    """True if two shapes broadcast."""
    return all(x == y or x == 1 or y == 1 for x, y in zip(reversed(a), reversed(b)))


class Shaped:
    """Stands for a wire that does not exist yet, where a test asks for its shape."""

    def __init__(self, kind, dims):
        self.kind, self.dims, self.finite = kind, dims, True


def test_dims(test, kind, dims):
    """True if a wire of that shape would pass the test."""
    return test(Shaped(kind, dims))
