"""Functions of two elements, with broadcasting, and selections."""

from model import EVERY, FLOAT, HALF, INDEX, INT, NUMBER, SIGNED, SINGLE, Refused, np
from registry import family, op
from rules import COMPOSED, EXACT, EXACT_SPECIAL, ROUNDED, SUMMED, Rule


@family("AddV2 Add Sub Mul", EXACT_SPECIAL, weight=2.5)
def arithmetic(g, name):
    x = g.wire(g.kind(NUMBER), specials=True)
    g.add(name, x=x, y=g.partner(x, specials=True))


@family("Maximum Minimum", EXACT, weight=1.2)
def extremes(g, name):
    x = g.wire(g.kind(NUMBER))
    g.add(name, x=x, y=g.partner(x))


@op("SquaredDifference", COMPOSED)
def squared_difference(g):
    x = g.wire(g.kind(NUMBER))
    g.add("SquaredDifference", x=x, y=g.partner(x))


@family("RealDiv Div", EXACT_SPECIAL, weight=1.2)
def quotient(g, name):
    kinds = FLOAT if name == "RealDiv" else NUMBER
    x = g.wire(g.kind(kinds), specials=True)
    g.add(name, x=x, y=g.partner(x, low=0.1 if x.kind in FLOAT else 1, specials=True))


@op("DivNoNan", EXACT)
def div_no_nan(g):
    x = g.wire(g.kind(FLOAT))
    g.add("DivNoNan", x=x, y=g.partner(x, low=0))


@op("MulNoNan", EXACT_SPECIAL, weight=0.6)
def mul_no_nan(g):
    x = g.wire(g.kind(FLOAT), specials=True)
    g.add("MulNoNan", x=x, y=g.partner(x))


@family("FloorDiv TruncateDiv FloorMod Mod TruncateMod", EXACT, weight=0.8)
def whole_division(g, name):
    """The divisor is positive or negative as a whole: no zero, and no lowest integer by -1."""
    kinds = INT + (FLOAT if name in ("FloorDiv", "FloorMod", "Mod", "TruncateMod") else ())
    kind = g.kind(kinds)
    x = g.wire(kind)
    if kind in SIGNED and g.chance(0.4):
        y = g.fresh(kind, g.subshape(x.dims), -7, -2)
    elif kind in FLOAT and g.chance(0.4):
        y = g.fresh(kind, g.subshape(x.dims), -5.0, -0.5)
    else:
        y = g.partner(x, low=0.5 if kind in FLOAT else 1, high=20)
    g.add(name, x=x, y=y)


@op("Pow", ROUNDED)
def power(g):
    kind = g.kind(FLOAT + INDEX)
    if kind in FLOAT:
        x = g.wire(kind, low=0.1, high=5)
        return g.add("Pow", x=x, y=g.partner(x, low=-3, high=3))
    x = g.wire(kind, low=-5, high=5)
    return g.add("Pow", x=x, y=g.partner(x, low=0, high=5))


@op("Atan2", ROUNDED)
def atan2(g):
    y = g.wire(g.kind(FLOAT))
    g.add("Atan2", y=y, x=g.partner(y, low=0.05))


@family("Xlogy Xdivy Xlog1py", ROUNDED, weight=0.7)
def x_times(g, name):
    """Zero where x is zero, whatever the other is."""
    x = g.wire(g.kind(FLOAT))
    g.add(name, x=x, y=g.partner(x, low=0.1))


@family("Igamma Igammac", Rule("rounded", 4), weight=0.3)
def igamma(g, name):
    a = g.wire(g.kind(SINGLE), low=0.5, high=8)
    g.add(name, a=a, x=g.partner(a, low=0.2, high=8))


@op("Zeta", Rule("rounded", 4), weight=0.3)
def zeta(g):
    x = g.wire(g.kind(SINGLE), low=1.5, high=8)
    g.add("Zeta", x=x, q=g.partner(x, low=0.5, high=8))


@family("Equal NotEqual", EXACT_SPECIAL)
def equality(g, name):
    x = g.wire(g.kind(EVERY), specials=True)
    y = g.partner(x, specials=True)
    if x.kind in FLOAT and not (x.exact and y.exact):
        a, b = x.value.astype(np.float64), y.value.astype(np.float64)
        if np.any(np.isclose(a, b, rtol=1e-4 if x.kind not in HALF else 0.1, atol=0)):
            raise Refused("near", "rounding decides whether they are equal")
    g.add(name, x=x, y=y)


@op("ApproximateEqual", EXACT, weight=0.4)
def approximate_equal(g):
    x = g.wire(g.kind(NUMBER))
    g.add("ApproximateEqual", x=x, y=g.like(x), tolerance=g.one(0.01, 0.5, 1.5))


@family("Less LessEqual Greater GreaterEqual", EXACT_SPECIAL)
def order(g, name):
    x = g.wire(g.kind(NUMBER), specials=True)
    g.add(name, x=x, y=g.partner(x, specials=True))


@family("LogicalAnd LogicalOr", weight=0.8)
def logical(g, name):
    x = g.wire("bool")
    g.add(name, x=x, y=g.partner(x))


@op("LogicalNot", weight=0.8)
def logical_not(g):
    g.add("LogicalNot", x=g.wire("bool"))


@family("BitwiseAnd BitwiseOr BitwiseXor", weight=0.6)
def bitwise(g, name):
    x = g.wire(g.kind(INT))
    g.add(name, x=x, y=g.partner(x))


@family("LeftShift RightShift", weight=0.6)
def shift(g, name):
    x = g.wire(g.kind(INT))
    g.add(name, x=x, y=g.partner(x, low=0, high=7))


@op("AddN", SUMMED)
def add_n(g):
    x = g.wire(g.kind(NUMBER))
    g.add("AddN", inputs=[x] + [g.like(x) for _ in range(g.integer(0, 3))])


@op("SelectV2", EXACT_SPECIAL, weight=1.5)
def select_v2(g):
    x = g.wire(g.kind(EVERY), specials=True)
    y = g.partner(x, specials=True)
    g.add("SelectV2", condition=g.wire("bool", dims=g.subshape(x.dims)), t=x, e=y)


@op("Select", EXACT_SPECIAL)
def select(g):
    """The condition has the shape of the others, is a scalar, or a vector that picks rows."""
    x = g.wire(g.kind(EVERY), specials=True)
    dims = g.one(x.dims, (), x.dims[:1])
    g.add("Select", condition=g.wire("bool", dims=dims), x=x, y=g.like(x, specials=True))


@op("ClipByValue", EXACT)
def clip_by_value(g):
    x = g.wire(g.kind(NUMBER))
    low = g.host(g.one(0, 1, 2), x.kind)
    high = g.host(g.one(3, 4), x.kind)
    g.add("ClipByValue", t=x, clip_value_min=low, clip_value_max=high)
