"""Variables, as resources and as references, and ops that update them."""

from model import FLOAT, INDEX, NUMBER, TYPES, np
from registry import op, pattern
from rules import EXACT, SUMMED
from table_lookup import indices, tuples
from table_move import strided_arguments


RESOURCE = ("VarHandleOp", "AssignVariableOp", "ReadVariableOp")
# A reference is read by an addition of zero.
REFERENCE = ("VariableV2", "Assign", "AddV2")


def variable(g, op, kinds, reference, rank=(0, 3), low=None, high=None, nonempty=False):
    """A variable of the graph that fits, or a new one."""
    kind = g.kind(kinds, op)
    found = [
        v
        for v in g.variables
        if v.kind == kind
        and v.reference == reference
        and rank[0] <= len(v.dims) <= rank[1]
        and low is None
        and not (nonempty and 0 in v.dims)
    ]
    if found and g.chance(0.6):
        return g.one(*found)
    return g.variable(
        g.numbers(kind, g.shape(rank, most=24, zero=0 if nonempty else 0.03), low, high), kind, reference
    )


def twins(names, resource_kinds, rule):
    """Registers a maker for a resource's op and for the reference's op: `Reference:Resource` pairs."""

    def register(make):
        for pair in names.split():
            for_reference, for_resource = pair.split(":")
            for name, reference in ((for_reference, True), (for_resource, False)):

                def bound(g, name=name, twin=for_resource, reference=reference):
                    target = make(g, name, twin, reference)
                    if g.chance(0.8):
                        g.read(target)

                needs = REFERENCE if reference else RESOURCE
                op(name, rule, weight=0.4, needs=needs)(bound)
        return make

    return register


def key(reference):
    return "ref" if reference else "resource"


@twins("Assign:AssignVariableOp AssignAdd:AssignAddVariableOp AssignSub:AssignSubVariableOp", NUMBER, EXACT)
def assign(g, name, twin, reference):
    target = variable(g, name, NUMBER, reference)
    g.update(name, twin, **{key(reference): target}, value=g.wire(target.kind, dims=target.dims))
    return target


@pattern("read", " ".join(RESOURCE), weight=1.5)
def read(g):
    g.read(variable(g, "AssignVariableOp", NUMBER, False))


@pattern("read reference", " ".join(REFERENCE))
def read_reference(g):
    g.read(variable(g, "AddV2", NUMBER, True))


SCATTERS = "Add Sub Mul Div Min Max Update".split()


def scatter(g, name, twin, reference):
    """Rows of a variable. Which of two updates of one row stays is left open, so Update has none such."""
    divides = twin.endswith(("Div", "Mul"))
    target = variable(g, name, FLOAT if divides else NUMBER, reference, (1, 3), nonempty=True)
    unique = twin.endswith("Update")
    rows = target.dims[0]
    if unique:
        where = g.source(g.random.sample(range(rows), g.integer(0, rows)), g.one(*INDEX))
    else:
        where = indices(g, g.shape((0, 2), most=6), rows)
    dims = () if g.chance(0.15) else where.dims + target.dims[1:]
    updates = g.wire(target.kind, dims=dims, low=0.4 if divides else None, high=2 if divides else None)
    g.update(name, twin, **{key(reference): target}, indices=where, updates=updates)
    return target


_PAIRS = [f"Scatter{s}:ResourceScatter{s}" for s in SCATTERS]
twins(" ".join(p for p in _PAIRS if p.endswith(("Min", "Max", "Update"))), NUMBER, EXACT)(scatter)
twins(" ".join(p for p in _PAIRS if p.endswith(("Add", "Sub", "Mul", "Div"))), NUMBER, SUMMED)(scatter)


def scatter_nd(g, name, twin, reference):
    """Slices of a variable; both kinds of op call it `ref`."""
    target = variable(g, name, NUMBER, reference, (1, 3), nonempty=True)
    where, outer, inner = tuples(g, target.dims, unique=twin.endswith("Update"))
    updates = g.wire(target.kind, dims=outer + inner)
    g.update(name, twin, ref=target, indices=where, updates=updates)
    return target


twins("ScatterNdUpdate:ResourceScatterNdUpdate", NUMBER, EXACT)(scatter_nd)
twins("ScatterNdAdd:ResourceScatterNdAdd ScatterNdSub:ResourceScatterNdSub", NUMBER, SUMMED)(scatter_nd)
twins("ScatterNdMin:ResourceScatterNdMin ScatterNdMax:ResourceScatterNdMax", NUMBER, EXACT)(scatter_nd)


@twins("StridedSliceAssign:ResourceStridedSliceAssign", NUMBER, EXACT)
def strided_slice_assign(g, name, twin, reference):
    target = variable(g, name, NUMBER, reference, (1, 3), nonempty=True)
    value = g.read(target)
    arguments = strided_arguments(g, target.dims)
    cut = g.add("StridedSlice", input=value, **arguments)[0]
    g.update(name, twin, ref=target, value=g.wire(cut.kind, dims=cut.dims), **arguments)
    return target


def reading(g, op, arguments):
    """Adds an op that looks at a variable and leaves it as it is."""
    from model import Node

    node = Node(f"{op}_{len(g.nodes)}", op, arguments, EXACT)
    node.reads = True
    return g.join(node)


@op("ResourceGather", weight=0.6, needs=RESOURCE)
def resource_gather(g):
    target = variable(g, "ResourceGather", NUMBER, False, (1, 3), nonempty=True)
    where = indices(g, g.shape((0, 2), most=6), target.dims[0])
    reading(g, "ResourceGather", {"resource": target, "indices": where, "dtype": TYPES[target.kind]})


@op("ResourceGatherNd", weight=0.5, needs=RESOURCE)
def resource_gather_nd(g):
    target = variable(g, "ResourceGatherNd", NUMBER, False, (1, 3), nonempty=True)
    where = tuples(g, target.dims)[0]
    reading(g, "ResourceGatherNd", {"resource": target, "indices": where, "dtype": TYPES[target.kind]})


@op("VariableShape", weight=0.4, needs=RESOURCE)
def variable_shape(g):
    target = variable(g, "AssignVariableOp", NUMBER, False)
    reading(g, "VariableShape", {"input": target, "out_type": TYPES[g.one(*INDEX)]})


@op("VarIsInitializedOp", weight=0.3, needs=RESOURCE)
def var_is_initialized(g):
    reading(g, "VarIsInitializedOp", {"resource": variable(g, "AssignVariableOp", NUMBER, False)})


@op("ResourceCountUpTo", weight=0.3, needs=RESOURCE)
def resource_count_up_to(g):
    """The number before it is counted up; three steps stay below the limit."""
    kind = g.one(*INDEX)
    target = g.variable(np.array(g.integer(0, 5)), kind, False)
    reading(g, "ResourceCountUpTo", {"resource": target, "limit": 100, "T": TYPES[kind]})
