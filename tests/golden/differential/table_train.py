"""The update ops of the optimizers: dense and sparse, on resources and on references."""

from model import FLOAT, INDEX
from registry import op
from rules import Rule
from table_state import REFERENCE, RESOURCE

# name: (slots with the range in which they begin, scalars, flags). A scalar that is a list of two
# numbers is drawn between them.
ANY_VALUE, POSITIVE = (-1.0, 1.0), (0.2, 2.0)
RATE, DECAY = [0.01, 0.5], [0.5, 0.95]
ADAM = {
    "beta1_power": [0.3, 0.9],
    "beta2_power": [0.5, 0.95],
    "lr": RATE,
    "beta1": DECAY,
    "beta2": DECAY,
    "epsilon": 1e-3,
}
RULES_OF = {
    "GradientDescent": ({}, {"alpha": RATE}, ()),
    "Momentum": ({"accum": ANY_VALUE}, {"lr": RATE, "momentum": DECAY}, ("use_nesterov",)),
    "KerasMomentum": ({"accum": ANY_VALUE}, {"lr": RATE, "momentum": DECAY}, ("use_nesterov",)),
    "Adagrad": ({"accum": POSITIVE}, {"lr": RATE}, ("update_slots",)),
    "AdagradV2": ({"accum": POSITIVE}, {"lr": RATE, "epsilon": 1e-3}, ("update_slots",)),
    "Adadelta": (
        {"accum": POSITIVE, "accum_update": POSITIVE},
        {"lr": RATE, "rho": DECAY, "epsilon": 1e-3},
        (),
    ),
    "Adam": ({"m": ANY_VALUE, "v": POSITIVE}, ADAM, ("use_nesterov",)),
    "AdamWithAmsgrad": ({"m": ANY_VALUE, "v": POSITIVE, "vhat": POSITIVE}, ADAM, ()),
    "AdaMax": (
        {"m": ANY_VALUE, "v": POSITIVE},
        {k: v for k, v in ADAM.items() if k != "beta2_power"},
        (),
    ),
    "RMSProp": (
        {"ms": POSITIVE, "mom": ANY_VALUE},
        {"lr": RATE, "rho": DECAY, "momentum": DECAY, "epsilon": 1e-3},
        (),
    ),
    # The mean square stays above the square of the mean.
    "CenteredRMSProp": (
        {"mg": (-0.2, 0.2), "ms": (1.0, 2.0), "mom": ANY_VALUE},
        {"lr": RATE, "rho": DECAY, "momentum": DECAY, "epsilon": 1e-2},
        (),
    ),
    "Ftrl": (
        {"accum": POSITIVE, "linear": ANY_VALUE},
        {"lr": RATE, "l1": [0.0, 0.1], "l2": [0.0, 0.1], "lr_power": -0.5},
        ("multiply_linear_by_lr",),
    ),
    "FtrlV2": (
        {"accum": POSITIVE, "linear": ANY_VALUE},
        {"lr": RATE, "l1": [0.0, 0.1], "l2": [0.0, 0.1], "l2_shrinkage": [0.0, 0.1], "lr_power": -0.5},
        ("multiply_linear_by_lr",),
    ),
    "AdagradDA": (
        {"gradient_accumulator": ANY_VALUE, "gradient_squared_accumulator": POSITIVE},
        {"lr": RATE, "l1": [0.0, 0.1], "l2": [0.0, 0.1], "global_step": 3},
        (),
    ),
    "ProximalGradientDescent": ({}, {"alpha": RATE, "l1": [0.0, 0.1], "l2": [0.0, 0.1]}, ()),
    "ProximalAdagrad": ({"accum": POSITIVE}, {"lr": RATE, "l1": [0.0, 0.1], "l2": [0.0, 0.1]}, ()),
    "AddSign": (
        {"m": ANY_VALUE},
        {"lr": RATE, "alpha": 1.0, "sign_decay": [0.5, 1.0], "beta": DECAY},
        (),
    ),
    "PowerSign": (
        {"m": ANY_VALUE},
        {"lr": RATE, "logbase": [0.5, 1.0], "sign_decay": [0.5, 1.0], "beta": DECAY},
        (),
    ),
}
DENSE_ONLY = {"GradientDescent", "Adam", "AdamWithAmsgrad", "AdaMax", "AddSign", "PowerSign"}
RESOURCE_ONLY = {"KerasMomentum", "AdamWithAmsgrad"}
UPDATE = Rule("summed", 3)
# A difference of roots, divided by a rate.
FTRL = Rule("summed", 20)


def scalar(g, value, kind, name):
    """A scalar argument of the update; the step counts in whole numbers."""
    value = g.uniform(*value) if isinstance(value, list) else value
    return g.host(value, "i64" if name == "global_step" else kind)


def update(g, name, rule, reference, sparse):
    """One update of a fresh variable and its slots; then some of them are read."""
    slots, scalars, flags = RULES_OF[rule]
    kind = g.kind(FLOAT, name)
    grad_of = [w for w in g.wires() if w.kind == kind and 0 < w.size <= 24 and len(w.dims) <= 3 and w.finite]
    grad_of = [w for w in grad_of if w.dims or not sparse]
    dims = g.one(*grad_of).dims if grad_of and g.chance(0.7) else g.shape((1 if sparse else 0, 3), 24, 0)
    arguments = {"var": g.variable(g.numbers(kind, dims), kind, reference)}
    for slot, (low, high) in slots.items():
        arguments[slot] = g.variable(g.array.uniform(low, high, dims), kind, reference)
    for key, value in scalars.items():
        arguments[key] = scalar(g, value, kind, key)
    if sparse:
        rows = g.random.sample(range(dims[0]), g.integer(0, dims[0]))
        arguments["indices"] = g.source(rows, g.one(*INDEX))
        dims = (len(rows), *dims[1:])
    grad = "delta" if rule in ("GradientDescent", "ProximalGradientDescent") and not sparse else "grad"
    arguments[grad] = g.wire(kind, dims=dims, low=-3, high=3)
    arguments |= {flag: g.chance(0.5) for flag in flags}
    twin = name if name.startswith("Resource") else f"Resource{name}"
    g.update(name, twin, **arguments)
    for key in ("var", *slots):
        if key == "var" or g.chance(0.6):
            g.read(arguments[key])


for _rule in RULES_OF:
    for _sparse in (False, True):
        for _reference in (False, True):
            if _sparse and _rule in DENSE_ONLY or _reference and _rule in RESOURCE_ONLY:
                continue
            _name = ("" if _reference else "Resource") + ("SparseApply" if _sparse else "Apply") + _rule

            def _make(g, name=_name, rule=_rule, reference=_reference, sparse=_sparse):
                update(g, name, rule, reference, sparse)

            op(_name, FTRL if "Ftrl" in _rule else UPDATE, 0.25, REFERENCE if _reference else RESOURCE)(_make)
