"""A graph while it grows: picks inputs, adds nodes, keeps those that the lanes accept."""

from draw import Draw
from facts import broadcast, test_dims, varies, within
from lanes import LANES, Lane, evaluate, settle
from model import (
    ARRAYS,
    FLOAT,
    INDEX,
    NAMES,
    Composite,
    Gradient,
    Node,
    Read,
    Refused,
    Source,
    State,
    Stateful,
    Variable,
    np,
)
from registry import RULES, kernel_kinds
from rules import EXACT


class Builder(Draw):
    """The nodes so far and the random choices; `allowed` are op types, None for all.

    `vague` lets placeholders keep back dimensions.
    """

    def __init__(self, seed, allowed=None, vague=True):
        super().__init__(seed)
        self.allowed, self.vague = allowed, vague
        self.nodes, self.variables = [], []
        self.lanes = [Lane(i) for i in range(LANES)]
        self.stateful, self.step = False, 0
        # Which control flow the graph gets: 1 is Switch and Merge, 2 is If and While.
        older, newer = self.may("Switch", "Merge"), self.may("StatelessIf") or self.may("StatelessWhile")
        self.flow = self.one(*([1] if older else []), *([2] if newer or not older else []))
        self.current = None

    def kind(self, among, op=None, attr="T"):
        """A type: one that TensorFlow has a kernel for, rather one that the graph uses already."""
        supported = kernel_kinds(op or self.current, attr)
        kinds = [k for k in among if supported is None or k in supported]
        if not kinds:
            raise Refused("no kernel", f"{op or self.current} {among}")
        waiting = [w.kind for w in self.wires() if not w.uses and w.kind in kinds]
        if waiting and self.chance(0.7):
            return self.random.choice(waiting)
        return self.weighted({k: self.palette[k] for k in kinds})

    # Sources.

    def source(self, array, kind, fed=None, known=False):
        """A constant or a placeholder with that value; `known` says that its shape is declared."""
        array = np.asarray(array) if kind == "string" else np.asarray(array, ARRAYS[kind])
        fed = self.chance(0.4) if fed is None else fed
        shape = list(array.shape)
        if fed and not known and self.chance(0.2):
            some = [None if self.chance(0.5) else d for d in shape] if self.chance(0.7) else None
            shape = some if self.vague else shape
        node = Source(f"{'fed' if fed else 'const'}_{len(self.nodes)}", array, kind, fed, shape)
        return self.join(node)[0]

    def fresh(self, kind, dims, low=None, high=None, specials=False):
        """A new source with random values."""
        array = self.numbers(kind, dims, low, high)
        if specials and kind in FLOAT and self.chance(0.06):
            array = self.special(array)
        return self.source(array, kind)

    def host(self, values, kind="i32", known=False):
        """A small argument such as axes or a shape: mostly a constant."""
        return self.source(np.asarray(values, ARRAYS[kind]), kind, self.chance(0.15), known)

    # Wires.

    def wire(self, kind, rank=None, dims=None, low=None, high=None, specials=False, test=None, reuse=0.9):
        """A wire of that type: one of the graph, brought into [low, high] if need be, or a new source."""

        def fits(w):
            if w.kind != kind or not (w.finite or specials):
                return False
            if dims is not None and w.dims != tuple(dims):
                return False
            if rank is not None and not (
                rank[0] <= len(w.dims) <= rank[1] if isinstance(rank, tuple) else len(w.dims) == rank
            ):
                return False
            return test is None or test(w)

        if self.chance(reuse):
            found = [w for w in self.wires() if fits(w)]
            if found:
                # Late and unused ones rather than early ones, so that graphs get deep.
                chosen = max(
                    self.random.choices(found, k=4),
                    key=lambda w: (w.uses == 0, not isinstance(w.node, Source), self.random.random()),
                )
                if within(chosen, low, high):
                    return chosen
                adapted = self.adapt(chosen, low, high)
                if adapted is not None:
                    return adapted
        if dims is None:
            for _ in range(20):
                dims = self.shape(rank)
                if test is None or test_dims(test, kind, dims):
                    break
            else:
                raise Refused("shape")
        return self.fresh(kind, dims, low, high, specials)

    def adapt(self, wire, low, high):
        """The wire's values brought into [low, high] by ops that the graph may have; None without them."""
        if wire.kind in FLOAT:
            return self.adapt_float(wire, low, high)
        if wire.kind in INDEX and None not in (low, high) and self.may("FloorMod", "AddV2"):
            folded = self.add("FloorMod", x=wire, y=self.host(high - low + 1, wire.kind))[0]
            return self.add("AddV2", x=folded, y=self.host(low, wire.kind))[0] if low else folded
        return None

    def adapt_float(self, wire, low, high):
        """The same for floats: clipped, or folded and lifted."""
        kind = wire.kind
        if None not in (low, high) and self.may("ClipByValue") and self.chance(0.5):
            ends = {"clip_value_min": self.host(low, kind), "clip_value_max": self.host(high, kind)}
            return self.add("ClipByValue", t=wire, **ends)[0]
        if high is None and low >= 0 and self.may("Abs", "AddV2") and self.chance(0.5):
            return self.add("AddV2", x=self.add("Abs", x=wire)[0], y=self.host(low, kind))[0]
        if not self.may("Maximum", "Minimum"):
            return None
        if low is not None:
            wire = self.add("Maximum", x=wire, y=self.host(low, kind))[0]
        if high is not None and not within(wire, None, high):
            wire = self.add("Minimum", x=wire, y=self.host(high, kind))[0]
        return wire

    def like(self, wire, low=None, high=None, specials=False):
        """A wire of the same type and shape."""
        return self.wire(wire.kind, dims=wire.dims, low=low, high=high, specials=specials)

    def partner(self, wire, low=None, high=None, specials=False):
        """A wire of the same type that broadcasts with this one."""
        if self.chance(0.5):
            return self.like(wire, low, high, specials)
        if self.chance(0.5):
            return self.wire(wire.kind, None, self.subshape(wire.dims), low, high, specials)
        fits = lambda w: broadcast(w.dims, wire.dims)  # noqa: E731
        return self.wire(wire.kind, None, None, low, high, specials, fits, reuse=0.6)

    def wires(self):
        """All outputs so far."""
        return [w for n in self.nodes for w in n.outputs if not w.junk]

    # Nodes.

    def may(self, *ops):
        """True if the graph may have all these ops."""
        return self.allowed is None or all(op in self.allowed for op in ops)

    def add(self, op, junk=(), **arguments):
        """Adds a node and returns its outputs; raises Refused where it cannot be."""
        if not self.may(op):
            raise Refused("filtered", op)
        node = Node(f"{op}_{len(self.nodes)}", op, arguments, RULES[op])
        node.junk = junk
        return self.join(node)

    def update(self, op, twin, **arguments):
        """Adds an op that updates variables."""
        if not self.may(op):
            raise Refused("filtered", op)
        self.join(State(f"{op}_{len(self.nodes)}", op, twin, arguments, RULES[op]))

    def read(self, variable):
        """The variable's value at this point of the graph."""
        return self.join(Read(f"read_{len(self.nodes)}", variable, EXACT))[0]

    def draw(self, op, **arguments):
        """Adds a random op that keeps a state."""
        if not self.may(op):
            raise Refused("filtered", op)
        self.stateful = True
        return self.join(Stateful(f"{op}_{len(self.nodes)}", op, arguments, RULES[op], self))

    def compose(self, label, function, parts, rule):
        """Adds the results of a Python function of wires and variables."""
        return self.join(Composite(f"{label}_{len(self.nodes)}", label, function, parts, rule))

    def variable(self, initial, kind, reference):
        """A new variable with that initial value."""
        made = Variable(f"variable_{len(self.variables)}", np.asarray(initial, ARRAYS[kind]), kind, reference)
        self.variables.append(made)
        return made

    def join(self, node):
        """Evaluates a node in all lanes and keeps it if they agree."""
        self.place(node, len(self.nodes))
        self.nodes.append(node)
        for wire in node.inputs:
            wire.uses += 1
        if node.variables:
            self.stateful = True
        return node.outputs

    def shorten(self, nodes, variables):
        """Takes the last nodes and variables away again, so that so many are left."""
        for node in self.nodes[nodes:]:
            for wire in node.inputs:
                wire.uses -= 1
        del self.nodes[nodes:], self.variables[variables:]

    def place(self, node, number):
        """Evaluates and checks a node; TensorFlow's refusal is one of ours."""
        if isinstance(node, Stateful) and not all(w.exact for w in node.inputs):
            raise Refused("unstable", "random ops of what depends on rounding")
        try:
            with np.errstate(all="ignore"):
                arrays = evaluate(self.lanes, node, number)
        except (ValueError, TypeError, LookupError, NotImplementedError) as error:
            raise Refused("TensorFlow", f"{node.text()}: {error}") from error
        except Exception as error:
            if type(error).__module__.startswith("tensorflow"):
                raise Refused("TensorFlow", f"{node.text()}: {error}") from error
            raise
        for wire, values in zip(node.outputs, arrays):
            wire.varies = varies(node)
            if wire.junk:
                continue
            with np.errstate(all="ignore"):
                settle(node, wire, NAMES[self.lanes[0].values[wire].dtype], values)
            wire.steps[self.step] = values[0]

    def replay(self):
        """Evaluates all nodes once more, in new lanes."""
        for number, node in enumerate(self.nodes):
            self.place(node, number)

    def advance(self):
        """Evaluates the next step, where it differs from the one before."""
        self.step += 1
        taped = self.lanes[0].tape is not None
        for lane in self.lanes:
            lane.forget()
        for number, node in enumerate(self.nodes):
            if taped or varies(node):
                self.place(node, number)

    def differentiate(self, ys, xs, rule):
        """Adds tf.gradients; the way there is evaluated again, now recorded by tapes."""
        before = self.lanes
        node = Gradient(f"gradients_{len(self.nodes)}", ys, xs, rule)
        self.lanes = [Lane(i, taped=True) for i in range(LANES)]
        for lane in self.lanes:
            lane.watched = set(xs)
        try:
            self.replay()
            return self.join(node)
        except Refused:
            self.lanes = before
            raise
