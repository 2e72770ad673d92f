"""Programs of variable scopes, and the names that TensorFlow gives, or how it refuses.

A program is a list of statements; tests/engine/layer_scopes.rs runs the same.
"""

import random

from reference import tf, v1

DTYPES = {"f32": tf.float32, "i32": tf.int32}
REUSE = {"no": None, "yes": True, "auto": v1.AUTO_REUSE}


def scope(name, *do, reuse="no"):
    """A scope inside of the one around it."""
    return {"in": name, "reuse": reuse, "do": list(do)}


def unique(name, *do):
    """A scope whose name is made unique."""
    return {"unique": name, "do": list(do)}


def again(label, *do, reuse="no"):
    """A scope that was kept."""
    return {"again": label, "reuse": reuse, "do": list(do)}


def names(name, *do):
    """A name scope."""
    return {"names": name, "do": list(do)}


def keep(label):
    """Keeps the variable scope around."""
    return {"keep": label}


def get(name, dims=(2,), dtype="f32"):
    """A variable."""
    return {"get": name, "dims": list(dims), "dtype": dtype}


def op(name):
    """Any node."""
    return {"op": name}


def dense(units, name=None):
    """A layer on the node that every program begins with, of shape [1, 3]."""
    return {"dense": units, "named": name}


PROGRAMS = {
    "names nest": [scope("a", get("w"), scope("b", get("w"), op("x")), op("x")), get("w"), op("x")],
    "a second entry has another name scope": [scope("a", get("w"), op("x")), scope("a", get("v"), op("x"))],
    "a variable is made once": [scope("a", get("w")), scope("a", get("w"))],
    "a variable of the root is made once": [get("w"), get("w")],
    "reuse finds": [scope("a", get("w")), scope("a", get("w"), reuse="yes")],
    "reuse makes nothing": [scope("a", get("w"), reuse="yes")],
    "auto reuse makes and finds": [scope("a", get("w"), get("w"), reuse="auto")],
    "reuse is inherited": [scope("a", scope("b", get("w"))), scope("a", scope("b", get("w")), reuse="yes")],
    "reuse ends with its scope": [scope("a", get("w")), scope("a", get("w"), reuse="yes"), scope("a", get("w"))],
    "auto inside of reuse": [scope("a", scope("b", get("w"), reuse="auto"), reuse="yes")],
    "reuse inside of auto": [scope("a", scope("b", get("w"), reuse="yes"), reuse="auto")],
    "another shape": [scope("a", get("w", (2,))), scope("a", get("w", (3,)), reuse="yes")],
    "another rank": [scope("a", get("w", (2,))), scope("a", get("w", (2, 1)), reuse="auto")],
    "another dtype": [scope("a", get("w")), scope("a", get("w", dtype="i32"), reuse="auto")],
    "another shape and dtype": [get("w"), scope("a", get("v")), scope("a", get("v", (4,), "i32"), reuse="yes")],
    "a scope again": [scope("a", get("w"), keep("s")), scope("b", again("s", get("v"), op("x")), get("w"), op("x"))],
    "a scope again inherits nothing": [
        scope("a", get("w"), keep("s")),
        scope("b", again("s", get("w")), reuse="yes"),
    ],
    "a scope again keeps its reuse": [scope("a", keep("s"), reuse="auto"), again("s", get("w")), again("s", get("w"))],
    "a scope again with reuse": [scope("a", get("w"), keep("s")), again("s", get("w"), reuse="yes"), again("s", get("w"))],
    "a deep scope again": [scope("a", scope("b", keep("s"))), again("s", get("w"), op("x"), scope("c", get("w"), op("x")))],
    "the root again": [keep("s"), scope("a", again("s", get("w"), op("x")), op("x"))],
    "name scopes name no variables": [names("n", get("w"), op("x"), scope("a", get("w"), op("x")))],
    "a name scope first": [names("a", op("x")), scope("a", get("w"), op("x"))],
    "unique names": [unique("a", get("w"), op("x")), unique("a", get("w"), op("x")), unique("a", get("w"), op("x"))],
    "unique after a plain scope": [scope("a", get("w")), unique("a", get("w")), scope("a_1", get("v")), unique("a", get("w"))],
    "unique names begin anew": [
        scope("s", unique("a", get("w")), unique("a", get("w"))),
        scope("s", unique("a", get("w")), unique("a", get("w")), reuse="yes"),
    ],
    "unique names begin anew in a second entry": [scope("s", unique("a", get("w"))), scope("s", unique("a", get("w")))],
    "unique names in a scope again": [
        scope("s", unique("a", get("w")), keep("k")),
        again("k", unique("a", get("v"))),
        scope("s", unique("a", get("u"))),
        again("k", unique("a", get("t")), unique("a", get("t"))),
    ],
    "unique names of inner scopes": [scope("s", scope("t", unique("a", get("w"))), unique("a", get("w")), unique("t", get("w")))],
    "a long name": [scope("a/b", get("w"), op("x"), keep("s")), again("s", op("x")), scope("a", scope("b", get("v"), op("x")))],
    "a node has the name": [op("w"), get("w"), get("v"), op("v")],
    "an empty scope": [scope("", get("w"), op("x"), keep("s")), again("s", get("v"))],
    "case": [scope("a", get("w"), get("W"), op("W"))],
    "layers": [dense(4), dense(5), dense(4, "fc"), scope("a", dense(4), dense(4, "fc"), dense(2))],
    "a layer twice": [dense(4, "fc"), dense(4, "fc")],
    "a layer shared": [scope("a", dense(4, "fc"), dense(4, "fc"), reuse="auto")],
    "layers shared by order": [scope("a", dense(4), dense(5)), scope("a", dense(4), dense(5), reuse="yes")],
    "layers shared in another order": [scope("a", dense(4), dense(5)), scope("a", dense(5), dense(4), reuse="yes")],
    "more layers than there were": [scope("a", dense(4)), scope("a", dense(4), dense(5), reuse="yes")],
    "a layer like a scope": [scope("dense", get("kernel", (3, 4))), dense(4), scope("dense_1", get("bias", (4,)))],
    "layers in name scopes": [names("n", dense(4)), names("n", dense(4))],
}


def random_program(rng, depth=0, kept=None):
    """Statements that meet each other's names often."""
    kept = set() if kept is None else kept
    statements = []
    for _ in range(rng.choice((1, 2, 2, 3)) if depth else 4):
        kind = rng.random()
        deeper = depth < 3
        inside = lambda: random_program(rng, depth + 1, kept)  # noqa: E731
        if deeper and kind < 0.35:
            reuse = rng.choice(("no", "no", "auto", "auto", "yes"))
            statements.append(scope(rng.choice(("a", "b", "dense")), *inside(), reuse=reuse))
        elif deeper and kind < 0.45:
            statements.append(unique(rng.choice(("a", "b")), *inside()))
        elif deeper and kind < 0.5:
            statements.append(names(rng.choice(("a", "b", "n")), *inside()))
        elif deeper and kind < 0.58 and kept:
            label = rng.choice(sorted(kept))
            statements.append(again(label, *inside(), reuse=rng.choice(("no", "auto"))))
        elif kind < 0.66:
            label = rng.choice(("s", "t"))
            kept.add(label)
            statements.append(keep(label))
        elif kind < 0.78:
            statements.append(op(rng.choice("xw")))
        elif kind < 0.88:
            statements.append(dense(rng.choice((4, 4, 4, 4, 5)), rng.choice((None, "fc"))))
        else:
            dtype = rng.choice(("f32",) * 9 + ("i32",))
            statements.append(get(rng.choice("wvu"), rng.choice(((2,),) * 9 + ((3,),)), dtype))
    return statements


ERRORS = {
    "already exists": "exists",
    "does not exist": "missing",
    "specified shape": "shape",
    "specified dtype": "dtype",
}


def run(program):
    """The names that the program makes; an error is the last."""
    made, kept = [], {}

    def each(statements):
        for statement in statements:
            one(statement)

    def one(s):
        reuse = REUSE[s.get("reuse", "no")]
        if "in" in s:
            with v1.variable_scope(s["in"], reuse=reuse):
                each(s["do"])
        elif "unique" in s:
            with v1.variable_scope(None, default_name=s["unique"]):
                each(s["do"])
        elif "again" in s:
            with v1.variable_scope(kept[s["again"]], reuse=reuse):
                each(s["do"])
        elif "names" in s:
            with v1.name_scope(s["names"]):
                each(s["do"])
        elif "keep" in s:
            kept[s["keep"]] = v1.get_variable_scope()
        elif "get" in s:
            made.append(v1.get_variable(s["get"], s["dims"], DTYPES[s["dtype"]]).handle.op.name)
        elif "op" in s:
            made.append(tf.no_op(name=s["op"]).name)
        else:
            made.append(v1.layers.dense(x, s["dense"], name=s["named"]).op.name)

    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [1, 3], name="input")
        try:
            each(program)
        except ValueError as error:
            made.append({"error": next(kind for text, kind in ERRORS.items() if text in str(error))})
        variables = [v.handle.op.name for v in v1.global_variables()]
    return {"program": program, "made": made, "variables": variables}


def lines():
    for name, program in PROGRAMS.items():
        yield {"name": f"scope/{name}"} | run(program)
    wanted, seed = 200, 0
    while wanted:
        rng = random.Random(f"scopes {seed}")
        result = run(random_program(rng))
        # A program that fails at once says little.
        if len(result["made"]) > 3:
            yield {"name": f"scope/random {seed}"} | result
            wanted -= 1
        seed += 1
