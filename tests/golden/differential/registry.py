"""The table of ops: what each is called, how it is made, and how exact it is."""

import dataclasses
import functools
from collections.abc import Callable

from tensorflow.python.framework import kernels, op_def_registry

from model import NAMES, tf
from rules import EXACT


@dataclasses.dataclass(frozen=True)
class Entry:
    """`make(g)` adds the op to a graph being built, with inputs that it picks or makes there.

    `needs` are the op types that it brings along; `weight` is how often it is drawn.
    """

    name: str
    make: Callable
    weight: float
    needs: frozenset


ENTRIES: dict[str, Entry] = {}
RULES: dict[str, object] = {}


def op(name, rule=EXACT, weight=1.0, needs=()):
    """Registers the decorated function as the maker of the op `name`."""

    def register(make):
        assert name not in ENTRIES, name
        ENTRIES[name] = Entry(name, make, weight, frozenset(needs) | {name})
        RULES[name] = rule
        return make

    return register


def family(names, rule=EXACT, weight=1.0, needs=()):
    """Registers the decorated function, called with the op's name too, for several ops."""

    def register(make):
        for name in names.split():
            op(name, rule, weight, needs)(functools.partial(make, name=name))
        return make

    return register


def pattern(label, rule=EXACT, weight=1.0, needs=()):
    """Registers several ops that only make sense together; `needs` are their types."""

    def register(make):
        assert label not in ENTRIES, label
        ENTRIES[label] = Entry(label, make, weight, frozenset(needs))
        RULES[label] = rule
        return make

    return register


@functools.lru_cache(maxsize=None)
def kernel_kinds(name, attr="T"):
    """The types that an op's definition allows and for which TensorFlow has a CPU kernel; None for all."""
    found = defined_kinds(name, attr)
    registered = set()
    for kernel in kernels.get_registered_kernels_for_op(name).kernel:
        if kernel.device_type not in ("CPU", "DEFAULT"):
            continue
        allowed = [c.allowed_values.list.type for c in kernel.constraint if c.name == attr]
        if not allowed:
            return found
        registered |= {NAMES.get(tf.as_dtype(t)) for t in allowed[0]}
    return frozenset(registered if found is None else registered & found)


def defined_kinds(name, attr):
    """The types that an op's definition allows; None for all."""
    definition = op_def_registry.get(name)
    for described in definition.attr if definition else ():
        if described.name == attr and described.allowed_values.list.type:
            return frozenset(NAMES.get(tf.as_dtype(t)) for t in described.allowed_values.list.type)
    return None
