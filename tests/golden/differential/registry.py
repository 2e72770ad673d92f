"""The table of ops: name, construction and exactness of each."""

import dataclasses
import functools
from collections.abc import Callable

from tensorflow.python.framework import kernels, op_def_registry

from model import NAMES, tf
from rules import EXACT


@dataclasses.dataclass(frozen=True)
class Entry:
    """`make(g)` adds the op to a graph being built, with inputs that it picks or makes there.

    `needs` are the op types that it brings along, by form of control flow; `weight` is how often it is
    drawn.
    """

    name: str
    make: Callable
    weight: float
    needs: dict

    def fits(self, allowed, flow):
        """True if a graph of these op types may have it; None stands for all."""
        return allowed is None or self.needs[flow] <= allowed

    @property
    def composed(self):
        """True if it adds ops that `needs` does not name."""
        return self.name not in self.needs[1] and not self.name.startswith("read")

    def makes(self, op, flow):
        """True if it makes that op, in a graph with that form of control flow."""
        return op == self.name or op in self.needs[flow]


ENTRIES: dict[str, Entry] = {}
RULES: dict[str, object] = {}


def register(name, make, rule, weight, older, newer):
    """Adds an entry that needs `older` ops with Switch and Merge, `newer` ones with If and While."""
    assert name not in ENTRIES, name
    ENTRIES[name] = Entry(name, make, weight, {1: frozenset(older), 2: frozenset(newer)})
    RULES[name] = rule


def op(name, rule=EXACT, weight=1.0, needs=()):
    """Registers the decorated function as the maker of the op `name`."""

    def decorate(make):
        register(name, make, rule, weight, {name, *needs}, {name, *needs})
        return make

    return decorate


def family(names, rule=EXACT, weight=1.0, needs=()):
    """Registers the decorated function, called with the op's name too, for several ops."""

    def decorate(make):
        for name in names.split():
            op(name, rule, weight, needs)(functools.partial(make, name=name))
        return make

    return decorate


def pattern(label, older, newer=None, weight=1.0):
    """Registers several ops that only make sense together, named in strings by form of control flow."""

    def decorate(make):
        register(label, make, EXACT, weight, older.split(), (older if newer is None else newer).split())
        return make

    return decorate


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
