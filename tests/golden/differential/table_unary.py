"""Functions of one element."""

from model import ANY, FLOAT, HALF, INT, NUMBER, SIGNED, SINGLE, TYPES, Refused, np
from registry import family, op
from rules import DIFFERENCE, DIFFERENCE_SPECIAL, EXACT, EXACT_SPECIAL, ROUNDED, ROUNDED_SPECIAL, SUMMED, Rule

# name: (types, lowest and highest input, rule). Ranges keep away from poles and steep places,
# where an error in the input would be all that one sees.
SIGNED_NUMBER = FLOAT + SIGNED
UNARY = {
    "Abs": (SIGNED_NUMBER, None, None, EXACT_SPECIAL),
    "Neg": (SIGNED_NUMBER, None, None, EXACT_SPECIAL),
    "Sign": (SIGNED_NUMBER, None, None, EXACT_SPECIAL),
    "Square": (NUMBER, -40, 40, EXACT_SPECIAL),
    "Floor": (FLOAT, None, None, EXACT_SPECIAL),
    "Ceil": (FLOAT, None, None, EXACT_SPECIAL),
    "Rint": (FLOAT, None, None, EXACT_SPECIAL),
    "Round": (FLOAT, None, None, EXACT_SPECIAL),
    "IsNan": (FLOAT, None, None, EXACT_SPECIAL),
    "IsInf": (FLOAT, None, None, EXACT_SPECIAL),
    "IsFinite": (FLOAT, None, None, EXACT_SPECIAL),
    "Invert": (INT, None, None, EXACT_SPECIAL),
    "PopulationCount": (INT, None, None, EXACT_SPECIAL),
    "Relu": (NUMBER, None, None, EXACT_SPECIAL),
    "Relu6": (NUMBER, None, None, EXACT_SPECIAL),
    "Reciprocal": (FLOAT, 0.05, None, ROUNDED_SPECIAL),
    "Inv": (FLOAT, None, -0.05, ROUNDED_SPECIAL),
    "Sqrt": (FLOAT, 1e-3, None, ROUNDED_SPECIAL),
    "Rsqrt": (FLOAT, 0.01, None, ROUNDED_SPECIAL),
    "Exp": (FLOAT, -20, 5, ROUNDED_SPECIAL),
    "Expm1": (FLOAT, -20, 5, DIFFERENCE_SPECIAL),
    "Log": (FLOAT, 0.01, None, DIFFERENCE_SPECIAL),
    "Log1p": (FLOAT, -0.9, None, DIFFERENCE_SPECIAL),
    "Sin": (FLOAT, -30, 30, ROUNDED),
    "Cos": (FLOAT, -30, 30, ROUNDED),
    "Tan": (FLOAT, -1.4, 1.4, ROUNDED),
    "Asin": (FLOAT, -0.95, 0.95, ROUNDED),
    "Acos": (FLOAT, -0.95, 0.95, ROUNDED),
    "Atan": (FLOAT, None, None, ROUNDED),
    "Sinh": (FLOAT, -5, 5, ROUNDED),
    "Cosh": (FLOAT, -5, 5, ROUNDED),
    "Tanh": (FLOAT, None, None, ROUNDED_SPECIAL),
    "Asinh": (FLOAT, None, None, ROUNDED),
    "Acosh": (FLOAT, 1.05, None, DIFFERENCE),
    "Atanh": (FLOAT, -0.95, 0.95, ROUNDED),
    "Sigmoid": (FLOAT, -30, 30, ROUNDED_SPECIAL),
    "Erf": (FLOAT, None, None, ROUNDED),
    "Erfc": (FLOAT, -5, 5, ROUNDED),
    "Erfinv": (SINGLE, -0.95, 0.95, DIFFERENCE),
    "Ndtri": (SINGLE, 0.05, 0.95, DIFFERENCE),
    "Lgamma": (FLOAT, 0.1, 50, DIFFERENCE),
    "Digamma": (FLOAT, 0.1, 50, Rule("rounded", 2, least=1.0)),
    "Elu": (FLOAT, None, 50, DIFFERENCE_SPECIAL),
    "Selu": (FLOAT, None, 50, DIFFERENCE_SPECIAL),
    "Softplus": (FLOAT, None, None, DIFFERENCE),
    "Softsign": (FLOAT, None, None, ROUNDED_SPECIAL),
    "BesselI0e": (SINGLE, -20, 20, ROUNDED),
    "BesselI1e": (SINGLE, -20, 20, ROUNDED),
}
# The raw op's name of its input.
FEATURES = {"Relu", "Relu6", "Elu", "Selu", "Softplus", "Softsign"}


def unary(g, name, kinds, low, high, specials):
    """An elementwise function of a wire in the function's range."""
    kind = g.kind(kinds)
    if kind in INT:
        low = high = None
    x = g.wire(kind, low=low, high=high, specials=specials)
    g.add(name, **{"features" if name in FEATURES else "x": x})


for _name, (_kinds, _low, _high, _rule) in UNARY.items():

    def _make(g, name=_name, kinds=_kinds, low=_low, high=_high, specials=_rule.specials):
        unary(g, name, kinds, low, high, specials)

    op(_name, _rule, weight=0.7)(_make)


@op("LeakyRelu", EXACT_SPECIAL)
def leaky_relu(g):
    g.add("LeakyRelu", features=g.wire(g.kind(FLOAT)), alpha=g.uniform(0.0, 0.9))


# Gradients of functions, from the result or from the argument; `dy` is anything.
@family("SqrtGrad RsqrtGrad InvGrad ReciprocalGrad", ROUNDED)
def grad_by_positive(g, name):
    y = g.wire(g.kind(FLOAT), low=0.1, high=10)
    g.add(name, y=y, dy=g.like(y))


@family("TanhGrad SigmoidGrad", SUMMED)
def grad_by_result(g, name):
    y = g.wire(g.kind(FLOAT), low=-1 if name == "TanhGrad" else 0, high=1)
    g.add(name, y=y, dy=g.like(y))


@family("SoftplusGrad SoftsignGrad", ROUNDED)
def grad_by_features(g, name):
    """In halves e to the eleventh is no number any more, and TensorFlow's gradient has that inside."""
    x = g.wire(g.kind(FLOAT), low=-10)
    g.add(name, gradients=g.like(x), features=x)


@family("ReluGrad Relu6Grad", EXACT)
def grad_of_kink(g, name):
    x = g.wire(g.kind(FLOAT))
    g.add(name, gradients=g.like(x), features=x)


@op("LeakyReluGrad", EXACT)
def leaky_relu_grad(g):
    x = g.wire(g.kind(FLOAT))
    g.add("LeakyReluGrad", gradients=g.like(x), features=x, alpha=g.uniform(0.0, 0.9))


@family("EluGrad SeluGrad", ROUNDED)
def grad_by_outputs(g, name):
    y = g.wire(g.kind(FLOAT), low=-0.9)
    g.add(name, gradients=g.like(y), outputs=y)


@op("Cast", EXACT_SPECIAL, weight=4)
def cast(g):
    """Between any types; conversions of floats outside of an integer's range differ by machine."""
    source, target = g.one(*ANY), g.kind(ANY, "Cast", "DstT")
    if g.chance(0.6):
        source = g.kind(ANY, "Cast", "SrcT")
    low = high = None
    if source in FLOAT and target in INT:
        low, high = (0, 120) if target not in SIGNED else (-120, 120)
    if source not in HALF and target == "f16":
        low, high = (0 if source not in SIGNED + FLOAT else -100), 100
    x = g.wire(source, low=low, high=high, specials=target in FLOAT + ("bool",))
    g.add("Cast", x=x, DstT=TYPES[target])


@op("Bitcast", weight=0.7)
def bitcast(g):
    """Between types of one size, and where the last dimension makes up the difference."""
    sizes = {"f32": 4, "i32": 4, "u32": 4, "f64": 8, "i64": 8, "u64": 8, "i16": 2, "u16": 2, "i8": 1, "u8": 1}
    source = g.kind(tuple(sizes))
    # A float made of an integer's bits is mostly tiny, so the result is an integer.
    target = g.one(*[k for k in sizes if k not in FLOAT])
    ratio = sizes[source] // sizes[target]
    if sizes[target] > sizes[source]:
        last = sizes[target] // sizes[source]
        x = g.wire(source, rank=(1, 3), test=lambda w: w.dims and w.dims[-1] == last)
    else:
        x = g.wire(source, test=lambda w: len(w.dims) < 4 and ratio * size(w) <= 150)
    if source in FLOAT and np.any(x.value == 0):
        raise Refused("zero", "the sign of a zero follows from how the elements were dealt out")
    g.add("Bitcast", input=x, type=TYPES[target])


def size(w):
    """The number of elements of a wire, or of a shape that a wire may get."""
    total = 1
    for d in w.dims:
        total *= d
    return total


@op("CheckNumerics", weight=0.4)
def check_numerics(g):
    g.add("CheckNumerics", tensor=g.wire(g.kind(FLOAT)), message="not finite")


@op("NextAfter", weight=0.5)
def next_after(g):
    x = g.wire(g.kind(SINGLE), low=0.1)
    g.add("NextAfter", x1=x, x2=g.partner(x))
