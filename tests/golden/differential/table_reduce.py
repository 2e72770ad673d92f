"""Reductions, running sums, and where the largest is."""

from model import ANY, FLOAT, INDEX, NUMBER, TYPES
from registry import family, op
from rules import EXACT, ROUNDED, SUMMED


def axes(g, rank):
    """Axes to reduce: none, one, several, all; a scalar or a vector."""
    if rank and g.chance(0.4):
        return g.host(g.axis(rank), g.one(*INDEX))
    some = [a - rank if g.chance(0.2) else a for a in range(rank) if g.chance(0.6)]
    g.random.shuffle(some)
    return g.host(some, g.one(*INDEX))


@family("Sum Mean", SUMMED, weight=2)
def sums(g, name):
    x = g.wire(g.kind(NUMBER))
    g.add(name, input=x, axis=axes(g, len(x.dims)), keep_dims=g.chance(0.4))


@op("Prod", ROUNDED)
def prod(g):
    kind = g.kind(NUMBER)
    x = g.wire(kind, low=-2 if kind in FLOAT else None, high=2 if kind in FLOAT else None)
    g.add("Prod", input=x, axis=axes(g, len(x.dims)), keep_dims=g.chance(0.4))


@family("Max Min", EXACT, weight=1.2)
def extremes(g, name):
    x = g.wire(g.kind(NUMBER))
    g.add(name, input=x, axis=axes(g, len(x.dims)), keep_dims=g.chance(0.4))


@family("All Any")
def logical(g, name):
    x = g.wire("bool")
    g.add(name, input=x, axis=axes(g, len(x.dims)), keep_dims=g.chance(0.4))


@op("EuclideanNorm", SUMMED, weight=0.6)
def euclidean_norm(g):
    x = g.wire(g.kind(FLOAT))
    g.add("EuclideanNorm", input=x, axis=axes(g, len(x.dims)), keep_dims=g.chance(0.4))


@op("L2Loss", SUMMED, weight=0.7)
def l2_loss(g):
    g.add("L2Loss", t=g.wire(g.kind(FLOAT)))


@family("ArgMax ArgMin")
def arg_extremes(g, name):
    x = g.wire(g.kind(ANY), rank=(1, 5), test=lambda w: 0 not in w.dims)
    axis = g.host(g.axis(len(x.dims)), g.one(*INDEX))
    g.add(name, input=x, dimension=axis, output_type=TYPES[g.one(*INDEX)])


@family("Cumsum Cumprod", SUMMED, weight=0.9)
def running(g, name):
    kind = g.kind(NUMBER)
    bound = 1.5 if name == "Cumprod" and kind in FLOAT else None
    x = g.wire(kind, rank=(1, 5), low=bound and -bound, high=bound)
    axis = g.host(g.axis(len(x.dims)), g.one(*INDEX))
    g.add(name, x=x, axis=axis, exclusive=g.chance(0.4), reverse=g.chance(0.4))


@op("CumulativeLogsumexp", SUMMED, weight=0.4)
def cumulative_logsumexp(g):
    x = g.wire(g.kind(FLOAT), rank=(1, 4), low=-5, high=5)
    axis = g.host(g.axis(len(x.dims)), g.one(*INDEX))
    g.add("CumulativeLogsumexp", x=x, axis=axis, exclusive=False, reverse=g.chance(0.4))
