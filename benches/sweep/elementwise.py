"""Elementwise ops: of one, two and more tensors, with broadcasting, in all their dtypes."""

import numpy as np

from case import Const, op, shape, text, values

f16, f32, f64, i8, i32, i64, u8 = np.float16, np.float32, np.float64, np.int8, np.int32, np.int64, np.uint8

UNARY = {
    "Abs": (f32, f64, i32, i64), "Acos": (f32,), "Acosh": (f32,), "Asin": (f32,), "Asinh": (f32, f64), "Atan": (f32, f64),
    "Atanh": (f32,), "Ceil": (f32, f64), "Cos": (f32, f64), "Cosh": (f32, f64), "Digamma": (f32, f64), "Elu": (f32, f64),
    "Erf": (f32, f64), "Erfc": (f32, f64), "Erfinv": (f32, f64), "Exp": (f16, f32, f64), "Expm1": (f32, f64),
    "Floor": (f32, f64), "Invert": (i32, u8), "IsFinite": (f32, f64), "IsInf": (f32,), "IsNan": (f32, f64),
    "Lgamma": (f32, f64), "Log": (f16, f32, f64), "Log1p": (f32, f64), "LogicalNot": (bool,), "Ndtri": (f32, f64),
    "Neg": (f32, f64, i32), "Reciprocal": (f32, f64), "Relu": (f16, f32, f64, i32), "Relu6": (f32, f64), "Rint": (f32, f64),
    "Round": (f32, i32), "Rsqrt": (f32, f64), "Selu": (f32, f64), "Sigmoid": (f16, f32, f64), "Sign": (f32, f64, i32),
    "Sin": (f32, f64), "Sinh": (f32, f64), "Softplus": (f32, f64), "Softsign": (f32, f64), "Sqrt": (f32, f64),
    "Square": (f32, f64, i32), "Tan": (f32, f64), "Tanh": (f16, f32, f64), "BesselI0e": (f32, f64), "BesselI1e": (f32,),
    "OnesLike": (f32,), "ZerosLike": (f32, i64), "PopulationCount": (i32,),
}
BINARY = {
    "AddV2": (f16, f32, f64, i32, i64), "Atan2": (f32, f64), "BitwiseAnd": (i32, u8), "BitwiseXor": (i64,),
    "Div": (f32, f64, i32), "DivNoNan": (f32, f64), "Equal": (f32, i32, i64, u8), "FloorDiv": (f32, f64, i32, i64),
    "FloorMod": (f32, f64, i32, i64), "Greater": (f32, f64, i32), "Igamma": (f32, f64), "Igammac": (f32,),
    "LeftShift": (i32,), "LessEqual": (f32, i64), "LogicalAnd": (bool,), "Maximum": (f16, f32, f64, i32),
    "Minimum": (f32, i64), "Mul": (f16, f32, f64, i32, i64), "MulNoNan": (f32,), "NextAfter": (f32,), "NotEqual": (f32, i32),
    "Pow": (f32, f64, i32), "Polygamma": (f32,), "RealDiv": (f32, f64), "RightShift": (i32,), "SquaredDifference": (f32, f64),
    "Sub": (f16, f32, f64, i32), "TruncateDiv": (i32, i64), "TruncateMod": (f32, i32), "Xdivy": (f32,), "Xlogy": (f32, f64),
    "Xlog1py": (f32,), "Zeta": (f32,),
}
GRADIENTS = {
    "ReluGrad": (f32, f64), "Relu6Grad": (f32,), "EluGrad": (f32,), "SeluGrad": (f32,), "SoftplusGrad": (f32,),
    "SoftsignGrad": (f32,), "SigmoidGrad": (f32, f64), "TanhGrad": (f32, f64), "RsqrtGrad": (f32,), "SqrtGrad": (f32,),
    "ReciprocalGrad": (f32,), "LeakyReluGrad": (f32,),
}
ALIKE = {"Erf": "erf", "Exp": "exp", "Log": "log", "Tanh": "tanh", "Sigmoid": "sigmoid", "Sin": "sin", "Sqrt": "sqrt",
         "Lgamma": "lgamma", "Digamma": "digamma", "Rsqrt": "rsqrt", "Expm1": "expm1", "AddV2": "add", "Mul": "mul",
         "Maximum": "maximum", "Pow": "pow", "Atan2": "atan2", "RealDiv": "div", "Sub": "sub"}
# Ops of a narrower domain, or whose values would overflow.
DOMAIN = {"Acos": (-1, 1), "Asin": (-1, 1), "Atanh": (-0.9, 0.9), "Erfinv": (-0.9, 0.9), "Acosh": (1, 3), "Ndtri": (0.1, 0.9),
          "Log": (0.1, 4), "Log1p": (-0.5, 4), "Lgamma": (0.1, 20), "Digamma": (0.1, 20), "Rsqrt": (0.1, 4), "Sqrt": (0, 4),
          "Igamma": (0.1, 9), "Igammac": (0.1, 9), "Pow": (0.1, 3), "Polygamma": (1, 4), "Zeta": (1.1, 5), "LeftShift": (0, 8),
          "RightShift": (0, 8), "Xlogy": (0.1, 3), "Xlog1py": (0.1, 3), "Reciprocal": (0.5, 2)}
DIVIDES = ("Div", "FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod", "RealDiv")


def given(rng, name, dims, dtype):
    low, high = DOMAIN.get(name, (1, 100) if name in DIVIDES else (-2, 2))
    if np.dtype(dtype).kind in "iu" and name not in DOMAIN:
        low, high = (1, 100)
    return values(rng, dims, dtype, low, high)


def broadcast(rng):
    """Two shapes that broadcast to one."""
    dims = shape(rng, rng.randint(2, 4))
    kind = rng.choice(("same", "scalar", "row", "column", "middle", "both"))
    other = list(dims)
    if kind == "scalar":
        other = []
    elif kind == "row":
        other = other[-1:]
    elif kind == "column":
        other[-1] = 1
    elif kind == "middle":
        other[len(other) // 2] = 1
    elif kind == "both":
        left = list(dims)
        left[0], other[-1] = 1, 1
        return kind, tuple(left), tuple(other)
    return (kind, dims, tuple(other)) if rng.random() < 0.7 else (kind, tuple(other), dims)


def torched(name, *arrays):
    """The step of the same op in PyTorch."""
    if name not in ALIKE:
        return None

    def make(torch):
        tensors = [torch.from_numpy(np.ascontiguousarray(a)) for a in arrays]
        return lambda: getattr(torch, ALIKE[name])(*tensors)

    return make


def cases(rng, count):
    """All cases."""
    for name, dtypes in UNARY.items():
        for dtype in dtypes:
            for _ in range(count):
                x = given(rng, name, shape(rng), dtype)
                yield op(name, f"{x.dtype}/{text(x.shape)}", torched(name, x), **{unary_name(name): x})
    for name, dtypes in BINARY.items():
        for dtype in dtypes:
            for _ in range(count):
                kind, left, right = broadcast(rng)
                x, y = given(rng, name, left, dtype), given(rng, name, right, dtype)
                label = f"{x.dtype}/{kind}/{text(left)},{text(right)}"
                torch = torched(name, x, y) if x.dtype != f16 else None
                first, second = binary_names(name)
                yield op(name, label, torch, **{first: x, second: y})
    for name, dtypes in GRADIENTS.items():
        for dtype in dtypes:
            dims = shape(rng)
            x, y = values(rng, dims, dtype, 0.1, 2), values(rng, dims, dtype, 0.1, 2)
            first, second = gradient_names(name)
            yield op(name, f"{x.dtype}/{text(dims)}", **{first: x, second: y})
    yield from others(rng, count)


def unary_name(name):
    if name in ("Elu", "Relu", "Relu6", "Selu", "Softplus", "Softsign"):
        return "features"
    return "x"


def binary_names(name):
    return {"Atan2": ("y", "x"), "Igamma": ("a", "x"), "Igammac": ("a", "x"), "NextAfter": ("x1", "x2"),
            "Polygamma": ("a", "x"), "Zeta": ("x", "q")}.get(name, ("x", "y"))


def gradient_names(name):
    if name in ("EluGrad", "SeluGrad"):
        return "gradients", "outputs"
    if name in ("ReluGrad", "Relu6Grad", "SoftplusGrad", "SoftsignGrad", "LeakyReluGrad"):
        return "gradients", "features"
    return "y", "dy"


def others(rng, count):
    """Ops of three tensors, sums of many, casts."""
    for _ in range(count):
        for dtype in (f32, f64, i32):
            dims = shape(rng)
            x, y = values(rng, dims, dtype, 0, 9), values(rng, dims, dtype, 0, 9)
            label = f"{x.dtype}/{text(dims)}"
            mask = values(rng, dims, bool)
            yield op("SelectV2", label, condition=mask, t=x, e=y)
            yield op("SelectV2", "scalar/" + label, condition=mask, t=x, e=np.array(0, dtype))
            yield op("ClipByValue", label, t=x, clip_value_min=np.array(2, dtype), clip_value_max=np.array(5, dtype))
            yield op("AddN", label, inputs=[x, y, x + y, y])
        for a, b in ((f32, f16), (f16, f32), (f32, f64), (f64, f32), (f32, i32), (i32, f32), (i64, i32), (u8, f32), (f32, u8),
                     (bool, f32), (f32, bool), (i8, i32)):
            x = values(rng, shape(rng), a, 0, 100)
            yield op("Cast", f"{x.dtype}-{np.dtype(b)}/{text(x.shape)}", x=x, DstT=b)
        x = values(rng, shape(rng, 3), f32, 0.1, 0.9)
        yield op("Betainc", text(x.shape), a=x, b=x, x=x)
        yield op("CheckNumerics", text(x.shape), tensor=x, message="x")
        yield op("ApproximateEqual", text(x.shape), x=x, y=x)
        yield op("Bucketize", text(x.shape), input=x, boundaries=[float(i) / 20 for i in range(20)])
        yield op("FakeQuantWithMinMaxArgs", text(x.shape), inputs=x, min=0.0, max=1.0)
        yield op("QuantizeAndDequantizeV3", text(x.shape), input=x, input_min=np.float32(0), input_max=np.float32(1),
                 num_bits=Const(np.array(8, i32)), range_given=True)
