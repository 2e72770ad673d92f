"""Hand-made cases for placements.py, each for one rule."""

CASES = []


def n(name, op, *inputs, device="", at=(), **more):
    return {"name": name, "op": op, "inputs": list(inputs), "device": device, "class": list(at)} | more


def case(name, *nodes, world="four", soft=None):
    """A case; strict and soft unless told which."""
    for s in (False, True) if soft is None else (soft,):
        CASES.append({"name": name + (", soft" if s else ""), "world": world, "soft": s, "nodes": list(nodes)})


def cpu(i):
    return f"/device:CPU:{i}"


X = n("x", "Placeholder")
W0, W1 = "cluster from worker 0", "cluster from ps 1"

# Requested devices.
case("nothing asked", X, n("y", "Neg", "x"))
case("a number asked", X, n("y", "Neg", "x", device=cpu(2)), n("z", "Neg", "y"))
case("a type asked", n("x", "Placeholder", device="/device:CPU:*"), n("y", "Neg", "x", device=cpu(3)))
case("a full name asked", n("x", "Placeholder", device="/job:localhost/replica:0/task:0/device:CPU:1"))
case("a number without a type", n("x", "Placeholder", device="/device:*:2"))
case("no such number", X, n("y", "Neg", "x", device=cpu(4)))
case("no such type", X, n("y", "Neg", "x", device="/device:GPU:0"))
case("no such type, any number", X, n("y", "Neg", "x", device="/device:GPU:*"), world="one")
case("no such type, its number exists", X, n("y", "Neg", "x", device="/device:GPU:2"))
case("no such job", X, n("y", "Neg", "x", device="/job:worker"))
case("no such task", X, n("y", "Neg", "x", device="/task:1/device:CPU:0"))
case("no such replica", X, n("y", "Neg", "x", device="/replica:1"))
case("task and type missing", X, n("y", "Neg", "x", device="/task:3/device:GPU:0"))
case("first of twelve", X, n("y", "Neg", "x", device="/device:CPU:*"), n("z", "Neg", "y", device=cpu(11)), world="twelve")

# Clusters: the own process first, then by name.
for world in (W0, W1):
    case(f"nothing asked, {world}", X, n("y", "Neg", "x"), world=world)
    case(f"a job asked, {world}", n("x", "Placeholder", device="/job:ps"), n("y", "Neg", "x", device="/job:worker"), world=world)
    case(f"a task asked, {world}", n("x", "Placeholder", device="/task:1"), n("y", "Neg", "x", device="/task:0"), world=world)
    case(f"a number asked, {world}", n("x", "Placeholder", device=cpu(1)), n("y", "Neg", "x", device="/job:ps" + cpu(1)), world=world)
    case(f"soft stays in the job, {world}", n("x", "Placeholder", device="/job:ps/task:1/device:GPU:0"), world=world)
    case(f"soft stays in the task, {world}", n("x", "Placeholder", device="/job:worker/task:1" + cpu(7)), world=world)
    case(f"no such task, {world}", n("x", "Placeholder", device="/job:worker/task:2"), world=world)
    case(f"no such job, {world}", n("x", "Placeholder", device="/job:wroker"), world=world)

# Variables: users come to the handle, whatever they ask for.
V1 = n("v", "VarHandleOp", device=cpu(1))
case("users stand with their variable", V1, n("r", "ReadVariableOp", "v"), n("c", "Const"), n("a", "AssignVariableOp", "v", "c"))
case("a user that asks gives way", V1, n("r", "ReadVariableOp", "v", device=cpu(2)), n("y", "Neg", "r", device=cpu(2)))
case("a user that asks for nothing that exists gives way", V1, n("r", "ReadVariableOp", "v", device="/device:GPU:0"))
case("a user that asks for another job gives way", V1, n("r", "ReadVariableOp", "v", device="/job:nowhere"))
case("a user decides for a free variable", n("v", "VarHandleOp"), n("r", "ReadVariableOp", "v", device=cpu(2)), n("c", "Const"), n("a", "AssignVariableOp", "v", "c"))
case("two users that differ", n("v", "VarHandleOp"), n("r", "ReadVariableOp", "v", device=cpu(2)), n("s", "ReadVariableOp", "v", device=cpu(3)))
case("a user fills in what the variable leaves", n("v", "VarHandleOp", device="/job:localhost"), n("r", "ReadVariableOp", "v", device=cpu(3)))
case("a variable that nobody uses", n("v", "VarHandleOp", device=cpu(3)), n("w", "VarHandleOp"))
case("a variable on what is missing", n("v", "VarHandleOp", device="/device:GPU:0"), n("r", "ReadVariableOp", "v"))
case("a variable on what is missing, with a user", n("v", "VarHandleOp", device="/device:GPU:0"), n("r", "ReadVariableOp", "v", device=cpu(1)))
case("a variable on a missing number, with a user", n("v", "VarHandleOp", device=cpu(9)), n("r", "ReadVariableOp", "v", device=cpu(1)))
case("a handle through Identity", V1, n("i", "Identity", "v", device=cpu(2)), n("r", "ReadVariableOp", "i"))


def momentum(a, b, **more):
    return (
        n("v", "VarHandleOp", device=a),
        n("m", "VarHandleOp", device=b),
        n("rate", "Const", scalar=True),
        n("grad", "Const"),
        n("step", "ResourceApplyMomentum", "v", "m", "rate", "grad", "rate", **more),
    )


case("two variables of one user", *momentum(cpu(1), ""))
case("two variables of one user, the second asks", *momentum("", cpu(2)))
case("two variables of one user that differ", *momentum(cpu(1), cpu(2)))
case("two variables of one user that differ in type", *momentum(cpu(1), "/device:GPU:0"))
case("two variables of one user that fill in", *momentum("/device:CPU:*", "/job:localhost" + cpu(2)))
case("two variables of one user on two jobs", *momentum("/job:ps", "/job:worker"), world=W0)
case("two variables of one user on two tasks", *momentum("/job:ps/task:0", "/job:ps/task:1"), world=W0)
case("two variables of one user, which asks", *momentum("", "", device=cpu(3)))
case("reads on the worker of a variable on a server", n("v", "VarHandleOp", device="/job:ps/task:1"), n("r", "ReadVariableOp", "v", device="/job:worker/task:1"), n("y", "Neg", "r", device="/job:worker/task:1"), world=W0)

# Groups.
case("a group by name", n("a", "Placeholder", device=cpu(2)), n("b", "Placeholder", at=["a"]))
case("a group by a name that comes later", n("a", "Placeholder", at=["b"]), n("b", "Placeholder", device=cpu(2)))
case("a group whose name no node has", n("a", "Placeholder", at=["ghost"]), n("b", "Placeholder", at=["ghost"], device=cpu(2)))
case("a group through a third node", n("a", "Placeholder", at=["b"]), n("b", "Placeholder", at=["c"]), n("c", "Placeholder"), n("d", "Neg", "a", at=["c"], device=cpu(3)))
case("a node in two groups", n("a", "Placeholder", device=cpu(1)), n("b", "Placeholder"), n("c", "Neg", "a", at=["a", "b"]))
case("a node in two groups that differ", n("a", "Placeholder", device=cpu(1)), n("b", "Placeholder", device=cpu(2)), n("c", "Neg", "a", at=["a", "b"]))
case("a group that differs in the number", n("a", "Placeholder", device=cpu(1)), n("b", "Placeholder", at=["a"], device=cpu(2)))
case("a group that differs in the type", n("a", "Placeholder", device=cpu(1)), n("b", "Placeholder", at=["a"], device="/device:GPU:1"))
case("a group that differs in the job", n("a", "Placeholder", device="/job:ps"), n("b", "Placeholder", at=["a"], device="/job:worker"), world=W0)
case("a group that differs in the task", n("a", "Placeholder", device="/job:ps/task:1"), n("b", "Placeholder", at=["a"], device="/job:ps/task:0"), world=W0)
case("a group that differs in the replica", n("a", "Placeholder", device="/replica:0"), n("b", "Placeholder", at=["a"], device="/replica:1"))
case("a third node after two that differ in the number", n("a", "Placeholder", device=cpu(1)), n("b", "Placeholder", at=["a"], device=cpu(2)), n("c", "Placeholder", at=["a"], device=cpu(3)))
case("a group with a variable", V1, n("b", "Placeholder", at=["v"]), n("c", "Neg", "b", at=["b"]))
case("a group with a variable that differs", V1, n("b", "Placeholder", at=["v"], device=cpu(2)))
case("a group with a variable that differs in the job", n("v", "VarHandleOp", device="/job:ps"), n("b", "Placeholder", at=["v"], device="/job:worker"), world=W0)
case("a slot with its variable", V1, n("m", "VarHandleOp", at=["v"]), n("r", "ReadVariableOp", "m"))
case("a slot that asks for another device", V1, n("m", "VarHandleOp", at=["v"], device=cpu(2)), n("r", "ReadVariableOp", "m"))
case("parts of a name from two nodes", n("a", "Placeholder", device="/job:ps"), n("b", "Placeholder", at=["a"], device="/task:1"), n("c", "Neg", "b", at=["b"], device=cpu(1)), world=W0)
case("parts that exist only apart", n("a", "Placeholder", device="/job:ps"), n("b", "Placeholder", at=["a"], device="/task:7"), world=W0)
case("its own name as a group", n("a", "Placeholder", at=["a"], device=cpu(1)))

# Generators follow their consumers.
case("a constant follows its only consumer", n("c", "Const"), n("y", "Neg", "c", device=cpu(2)))
case("a constant follows its consumers", n("c", "Const"), n("y", "Neg", "c", device=cpu(2)), n("z", "Neg", "c", device=cpu(2)))
case("a constant whose consumers differ", n("c", "Const"), n("y", "Neg", "c", device=cpu(2)), n("z", "Neg", "c", device=cpu(1)))
case("a placeholder follows its consumer", X, n("y", "Neg", "x", device=cpu(2)))
case("a constant that nobody uses", n("c", "Const"))
case("a constant that asks does not follow", n("c", "Const", device=cpu(1)), n("y", "Neg", "c", device=cpu(2)))
case("a constant that asks for a type follows", n("c", "Const", device="/device:CPU:*"), n("y", "Neg", "c", device=cpu(2)))
case("a constant that is waited for", n("c", "Const"), n("y", "NoOp", "^c", device=cpu(2)))
case("a constant that is used and waited for", n("c", "Const"), n("y", "Neg", "c", device=cpu(2)), n("z", "NoOp", "^c", device=cpu(1)))
case("a constant that waits", X, n("c", "Const", "^x"), n("y", "Neg", "c", device=cpu(2)))
case("a constant that another constant waits for", n("c", "Const"), n("d", "Const", "^c"), n("y", "Neg", "d", device=cpu(2)))
case("a constant assigned to a variable", n("c", "Const"), n("v", "VarHandleOp", device=cpu(2)), n("a", "AssignVariableOp", "v", "c"))
case("a variable follows the consumers of its handle", n("v", "VarHandleOp"), n("i", "VarIsInitializedOp", "v", device=cpu(2)))
case("a constant in another job than its consumer", n("c", "Const", device="/job:ps"), n("y", "Neg", "c", device="/job:worker"), world=W0)
case("a constant in a group", n("c", "Const", at=["d"]), n("d", "Const"), n("y", "Neg", "c", device=cpu(1)), n("z", "Neg", "d", device=cpu(2)))
case("a node with one input does not follow", X, n("i", "Identity", "x"), n("y", "Neg", "i", device=cpu(2)))

# Metadata follows its input.
for op in ("Shape", "Size", "Rank"):
    case(f"{op} follows its input", X, n("y", "Neg", "x", device=cpu(2)), n("s", op, "y"), n("t", "Neg", "s"))
    case(f"{op} that asks", X, n("y", "Neg", "x", device=cpu(2)), n("s", op, "y", device=cpu(1)))
case("metadata of a constant", n("c", "Const"), n("s", "Shape", "c"), n("y", "Neg", "c", device=cpu(2)))
case("metadata of a constant that asks", n("c", "Const", device=cpu(2)), n("s", "Shape", "c"))
case("metadata that may not follow", n("x", "Placeholder"), n("y", "Neg", "x", device="/job:ps"), n("s", "Shape", "y", device="/job:worker"), world=W0)
case("metadata that follows within its job", n("x", "Placeholder"), n("y", "Neg", "x", device="/job:ps/task:1"), n("s", "Shape", "y", device="/job:ps"), world=W0)
case("metadata in a group", X, n("y", "Neg", "x", device=cpu(2)), n("s", "Shape", "y", at=["t"]), n("t", "Neg", "x", device=cpu(1)))
case("metadata that leads its group", X, n("y", "Neg", "x", device=cpu(2)), n("s", "Shape", "y", at=["z"]), n("z", "Neg", "x"))

# An Identity between two that ask for the same follows its input.
R = n("r", "ReadVariableOp", "v")
I = n("i", "Identity", "r")
JOB, TYPE = "/job:localhost", "/device:CPU:*"


def passing(read, own, user):
    return V1, n("r", "ReadVariableOp", "v", device=read), n("i", "Identity", "r", device=own), n("y", "Neg", "i", device=user)


case("Identity that nobody uses", V1, R, I)
case("Identity with a consumer", V1, R, I, n("y", "Neg", "i"))
case("Identity with two consumers", V1, R, I, n("y", "Neg", "i"), n("z", "Neg", "i"))
case("Identity that is used twice by one", V1, R, I, n("y", "Add", "i", "i"))
case("Identity that is waited for", V1, R, I, n("z", "NoOp", "^i"))
case("Identity that waits", V1, R, n("z", "NoOp"), n("i", "Identity", "r", "^z"))
case("Identity whose input has other users", V1, R, I, n("j", "Identity", "r"), n("z", "NoOp", "^r"))
case("Identity whose input asks", V1, n("r", "ReadVariableOp", "v", device=cpu(1)), I)
case("Identity whose consumer asks", V1, R, I, n("y", "Neg", "i", device=cpu(1)))
case("Identity between two that ask for a type", *passing(TYPE, "", TYPE))
case("Identity between two that ask for a job", *passing(JOB, "", JOB))
case("Identity between two that ask for different things", *passing(JOB, "", TYPE))
case("Identity that asks, as its neighbours do", *passing(TYPE, TYPE, TYPE))
case("Identity that asks", *passing("", JOB, ""))
case("Identities in a row", V1, R, I, n("j", "Identity", "i"), n("k", "Identity", "j"))
case("Identity of a constant in a group", n("c", "Const", at=["z"]), n("i", "Identity", "c"), n("z", "NoOp", device=cpu(1)))
case("Identity that leads its group", V1, R, n("i", "Identity", "r", at=["z"]), n("z", "Neg", "r"))
case("Identity that does not lead its group", V1, R, n("z", "Neg", "r"), n("i", "Identity", "r", at=["z"]))
case("Neg does not follow", V1, R, n("i", "Neg", "r"))

# A model over servers and workers.
model = [n("x", "Placeholder", device="/job:worker/task:1")]
for i in range(4):
    ps = f"/job:ps/task:{i % 2}"
    model += [
        n(f"w{i}", "VarHandleOp", device=ps),
        n(f"w{i}/init", "Const"),
        n(f"w{i}/assign", "AssignVariableOp", f"w{i}", f"w{i}/init"),
        n(f"w{i}/read", "ReadVariableOp", f"w{i}"),
        n(f"layer{i}", "Add", f"layer{i - 1}" if i else "x", f"w{i}/read", device="/job:worker/task:1"),
        n(f"g{i}", "Neg", f"layer{i}", at=[f"layer{i}"]),
        n(f"w{i}/update", "AssignAddVariableOp", f"w{i}", f"g{i}"),
    ]
case("a model over servers and workers", *model, n("train", "NoOp", *[f"^w{i}/update" for i in range(4)]), world=W0)
