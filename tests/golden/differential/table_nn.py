"""Softmaxes, losses, biases and normalisations."""

from model import FLOAT, INDEX, NUMBER
from registry import family, op
from rules import ROUNDED, SUMMED, Rule

SOFTMAX = Rule("rounded", 2)
NORMALISED = Rule("summed", 4)


def classes(w):
    """Has a last dimension, and nothing is empty."""
    return len(w.dims) > 0 and 0 not in w.dims


@family("Softmax LogSoftmax", SOFTMAX, weight=1.2)
def softmax(g, name):
    g.add(name, logits=g.wire(g.kind(FLOAT), rank=(1, 4), low=-20, high=20))


@op("SoftmaxCrossEntropyWithLogits", SUMMED)
def softmax_cross_entropy(g):
    """Labels may be a row for all, and need not sum to one."""
    x = g.wire(g.kind(FLOAT), rank=2, low=-20, high=20, test=classes)
    dims = g.one(x.dims, x.dims, (1, x.dims[1]))
    g.add("SoftmaxCrossEntropyWithLogits", features=x, labels=g.wire(x.kind, dims=dims, low=0, high=1))


@op("SparseSoftmaxCrossEntropyWithLogits", SUMMED)
def sparse_softmax_cross_entropy(g):
    x = g.wire(g.kind(FLOAT), rank=2, low=-20, high=20, test=classes)
    labels = g.wire(g.one(*INDEX), dims=x.dims[:1], low=0, high=x.dims[1] - 1)
    g.add("SparseSoftmaxCrossEntropyWithLogits", features=x, labels=labels)


@family("BiasAdd BiasAddV1", weight=0.8)
def bias_add(g, name):
    x = g.wire(g.kind(NUMBER), rank=(2, 5))
    g.add(name, value=x, bias=g.wire(x.kind, dims=x.dims[-1:]))


@op("BiasAddGrad", SUMMED, weight=0.7)
def bias_add_grad(g):
    g.add("BiasAddGrad", out_backprop=g.wire(g.kind(NUMBER), rank=(2, 5)))


def image(w):
    return len(w.dims) == 4 and 0 not in w.dims


def response(g):
    """Attributes of a local response normalisation."""
    return {
        "depth_radius": g.integer(0, 3),
        "bias": g.one(1.0, 2.0),
        "alpha": g.one(1.0, 0.1),
        "beta": g.one(0.5, 0.75, 1.0),
    }


@op("LRN", ROUNDED, weight=0.8)
def lrn(g):
    g.add("LRN", input=g.wire(g.kind(("f32", "f16", "bf16")), rank=4, test=image), **response(g))


@op("LRNGrad", SUMMED, weight=0.6, needs=["LRN"])
def lrn_grad(g):
    x = g.wire(g.kind(("f32", "f16", "bf16"), "LRN"), rank=4, test=image)
    settings = response(g)
    y = g.add("LRN", input=x, **settings)[0]
    g.add("LRNGrad", input_grads=g.like(x), input_image=x, output_image=y, **settings)


def batch_norm(g, name):
    """In training the moments come from the batch, and the running ones may move towards them."""
    kind = "f32" if name == "FusedBatchNorm" else g.kind(("f32", "f16", "bf16"), "FusedBatchNormV3")
    training = g.chance(0.5)
    x = g.wire(
        kind, rank=4, test=lambda w: image(w) and (not training or w.dims[0] * w.dims[1] * w.dims[2] > 2)
    )
    factor = g.one(1.0, 0.25) if training else 1.0
    channels = x.dims[-1:]
    moments = (0,) if training and factor == 1.0 else channels
    return (
        x,
        training,
        {
            "scale": g.wire("f32", dims=channels),
            "offset": g.wire("f32", dims=channels),
            "mean": g.wire("f32", dims=moments),
            "variance": g.wire("f32", dims=moments, low=0.2, high=4),
            "epsilon": g.one(1e-3, 1e-2, 0.1),
            "exponential_avg_factor": factor,
            "is_training": training,
        },
    )


@family("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3", NORMALISED, weight=0.8)
def fused_batch_norm(g, name):
    """TensorFlow does not write the moments that are saved for a gradient outside of training, nor ever the
    third reserved space, which is for GPUs."""
    x, training, arguments = batch_norm(g, name)
    g.add(name, junk=(5,) if training else (3, 4, 5), x=x, **arguments)


@family("FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3", NORMALISED, weight=0.6)
def fused_batch_norm_grad(g, name):
    """From the forward op's saved moments, or from moments that are just there."""
    forward = name.replace("Grad", "")
    x, training, arguments = batch_norm(g, forward)
    if training and g.may(forward):
        saved = g.add(forward, junk=(5,), x=x, **arguments)[3:5] + [g.fresh("f32", (0,))]
    else:
        channels = x.dims[-1:]
        saved = [g.wire("f32", dims=channels), g.wire("f32", dims=channels, low=0.2, high=4)]
        saved.append(g.fresh("f32", (0,)))
    keys = ["reserve_space_1", "reserve_space_2", "reserve_space_3"][: 3 if name.endswith("V3") else 2]
    g.add(
        name,
        y_backprop=g.like(x),
        x=x,
        scale=arguments["scale"],
        epsilon=arguments["epsilon"],
        is_training=training,
        **dict(zip(keys, saved)),
    )
