"""Golden graphs: samplers of candidate classes, and the losses that train on them."""

import numpy as np

from graphs_parts import train, variable, whole
from graphs_record import golden
from reference import i64, raw, tf, v1

CLASSES = np.array([[1, 2], [0, 4], [3, 3]], i64)


def sampled(op, count, classes=CLASSES, unique=True, **arguments):
    """A sampler's three outputs."""
    true = tf.constant(classes, tf.int64)
    return op(true_classes=true, num_true=classes.shape[1], num_sampled=count, unique=unique, **arguments)


@golden("samplers_ranges", rel=1e-6, absolute=0)
def ranges(g):
    """Uniform and log-uniform candidates from seeds, unique and not; two runs of each."""
    fetched = []
    for op in (raw.UniformCandidateSampler, raw.LogUniformCandidateSampler):
        for count, below, unique in (
            (5, 5, True),
            (4, 5, False),
            (64, 64, True),
            (100, 1 << 20, True),
            (30, 12345, False),
            (20, 2**40 + 1, True),
        ):
            fetched += sampled(op, count, unique=unique, range_max=below, seed=3, seed2=below % 97 + 1)
    fetched += sampled(raw.AllCandidateSampler, 5)
    fetched += sampled(raw.UniformCandidateSampler, 3, CLASSES[:0], range_max=9, seed=8)
    for _ in range(2):
        g.step(*fetched)
    g.step(*sampled(raw.UniformCandidateSampler, 5, range_max=4, seed=1), fails=True)
    g.step(*sampled(raw.UniformCandidateSampler, 2, range_max=4, seed=1), fails=True)


@golden("samplers_learned", rel=1e-6, absolute=0)
def learned(g):
    """Candidates by the counts of the classes of the runs before."""
    classes = v1.placeholder(tf.int64, [None, 2])
    fetched = []
    for op in (raw.LearnedUnigramCandidateSampler, raw.ThreadUnsafeUnigramCandidateSampler):
        for count, below, unique in ((5, 7, True), (20, 7, False), (30, 100, True)):
            fetched += op(
                true_classes=classes, num_true=2, num_sampled=count, unique=unique, range_max=below, seed=5, seed2=6
            )
    for batch in (CLASSES, CLASSES % 2, np.full([40, 2], 6, i64), CLASSES[:0]):
        g.step(*fetched, feeds={classes: batch})


@golden("samplers_fixed", rel=1e-6, absolute=0)
def fixed(g):
    """Candidates by given weights, with distortion, reserved classes and shards."""
    weights = [0.5, 3.0, 1.0, 0.25, 7.0, 2.0, 0.125, 1.5]
    small = np.array([[1], [3], [0]], i64)
    fetched = []
    for count, unique, below, arguments in (
        (4, True, 8, {}),
        (30, False, 8, {"distortion": 0.75}),
        (5, True, 11, {"num_reserved_ids": 3}),
        (3, True, 4, {"num_shards": 2, "shard": 1}),
        (3, True, 5, {"num_shards": 2, "shard": 0, "num_reserved_ids": 2}),
        (9, False, 8, {"distortion": 0.0}),
    ):
        fetched += sampled(
            raw.FixedUnigramCandidateSampler,
            count,
            small,
            unique,
            range_max=below,
            unigrams=weights,
            seed=11,
            seed2=count,
            **arguments,
        )
    for _ in range(2):
        g.step(*fetched)
    for arguments in ({"range_max": 9, "unigrams": weights}, {"range_max": 8}):
        g.step(*sampled(raw.FixedUnigramCandidateSampler, 2, small, seed=1, **arguments), fails=True)


@golden("samplers_hits")
def hits(g):
    """Candidates that are true classes; a candidate that stands twice."""
    classes, candidates = v1.placeholder(tf.int64, [None, 2]), v1.placeholder(tf.int64, [None])
    found = raw.ComputeAccidentalHits(true_classes=classes, sampled_candidates=candidates, num_true=2)
    for batch, drawn in ((CLASSES, [0, 3, 2, 3, 9]), (CLASSES, []), (CLASSES[:0], [1]), (CLASSES, [7, 8])):
        g.step(*found, feeds={classes: batch, candidates: drawn})


def word2vec(g, loss_of, **arguments):
    """The skip-gram model: a table of embeddings, and a loss over sampled classes."""
    words, labels = v1.placeholder(tf.int32, [None], name="words"), v1.placeholder(tf.int64, [None, 1], name="labels")
    table = variable("embeddings", [50, 8], arguments.pop("kind"))
    weights, biases = variable("weights", [50, 8], "ref"), variable("biases", [50], "resource")
    inputs = tf.nn.embedding_lookup(table, words)
    loss = tf.reduce_mean(loss_of(weights, biases, labels, inputs, **arguments))
    step = v1.train.GradientDescentOptimizer(1.0).minimize(loss)
    feeds = {
        words: [whole(f"words {i}", [16], 50) for i in range(3)],
        labels: [whole(f"labels {i}", [16, 1], 50, i64) for i in range(3)],
    }
    train(g, step, [loss], feeds)


@golden("word2vec_nce")
def nce(g):
    """tf.nn.nce_loss as in the tutorial, by the log-uniform sampler that it takes."""
    v1.set_random_seed(4)
    word2vec(g, v1.nn.nce_loss, num_sampled=12, num_classes=50, kind="resource")


@golden("word2vec_softmax")
def softmax(g):
    """tf.nn.sampled_softmax_loss; accidental hits are removed."""
    v1.set_random_seed(5)
    word2vec(g, v1.nn.sampled_softmax_loss, num_sampled=12, num_classes=50, seed=9, kind="ref")


@golden("word2vec_fixed")
def weighted(g):
    """nce_loss with candidates by the counts of words, of partitioned weights, as in the embedding example."""
    v1.set_random_seed(6)

    def loss(weights, biases, labels, inputs):
        counts = [float(100 // (i + 1)) for i in range(50)]
        candidates = tf.random.fixed_unigram_candidate_sampler(
            labels, 1, 12, True, 50, distortion=0.75, unigrams=counts
        )
        parts = [weights[:25], weights[25:]]
        return v1.nn.nce_loss(
            parts,
            biases,
            labels,
            inputs,
            12,
            50,
            sampled_values=candidates,
            remove_accidental_hits=True,
            partition_strategy="div",
        )

    word2vec(g, loss, kind="resource")
