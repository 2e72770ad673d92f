"""Golden graphs: the image networks of their time, whole but for their widths, each trained ten steps."""

from graphs_parts import KINDS, Layers, flat, floats, sparse_loss, train, variable, whole
from graphs_record import golden
from reference import tf, v1


def placeholders(size, channels=3):
    """Images and their classes."""
    images = v1.placeholder(tf.float32, [None, size, size, channels], name="images")
    return images, v1.placeholder(tf.int32, [None], name="labels")


def fit(g, loss, optimizer, images, labels, classes, batch=2, global_step=None, run=()):
    """Ten steps on two batches."""
    gradients = optimizer.compute_gradients(loss)
    # No gradient needs the decay's part of the loss: without this it could see weights that are updated.
    with tf.control_dependencies([loss]):
        step = optimizer.apply_gradients(gradients, global_step)
    dims = [batch, *images.shape[1:]]
    feeds = {
        images: [floats(f"images {i}", dims, digits=1) for i in range(2)],
        labels: [whole(f"labels {i}", [batch], classes) for i in range(2)],
    }
    train(g, [step, *run], [loss], feeds)


def lenet(g, kind):
    """LeNet-5: convolutions, average pools, tanh, and momentum."""
    layers = Layers(kind)
    images, labels = placeholders(28, 1)
    hidden = layers.conv("c1", images, 5, 6, activation=tf.tanh)
    hidden = tf.nn.avg_pool2d(hidden, 2, 2, "VALID")
    hidden = layers.conv("c3", hidden, 5, 16, padding="VALID", activation=tf.tanh)
    hidden = flat(tf.nn.avg_pool2d(hidden, 2, 2, "VALID"))
    hidden = layers.dense("f6", layers.dense("c5", hidden, 120, tf.tanh), 84, tf.tanh)
    loss = sparse_loss(layers.dense("output", hidden, 10), labels)
    fit(g, loss, v1.train.MomentumOptimizer(0.05, 0.9), images, labels, 10, batch=4)


for _kind in KINDS:
    golden(f"lenet_{_kind}", rel=1e-4, absolute=1e-5, kind=_kind)(lenet)


@golden("alexnet_lrn", rel=1e-4, absolute=1e-5)
def alexnet(g):
    """AlexNet: a stride of 4, overlapping pools, local response normalization, dropout, five convolutions."""
    layers = Layers("ref", 0.1)
    images, labels = placeholders(67)

    def normalized(values):
        return tf.nn.lrn(values, depth_radius=2, bias=1.0, alpha=2e-2, beta=0.75)

    def pooled(values):
        return tf.nn.max_pool2d(values, 3, 2, "VALID")

    hidden = pooled(normalized(layers.conv("conv1", images, 11, 8, stride=4, padding="VALID")))
    hidden = pooled(normalized(layers.conv("conv2", hidden, 5, 12)))
    hidden = layers.conv("conv3", hidden, 3, 16)
    hidden = layers.conv("conv4", hidden, 3, 16)
    hidden = flat(layers.conv("conv5", hidden, 3, 12))
    for name, seed in (("fc6", 6), ("fc7", 7)):
        hidden = tf.nn.dropout(layers.dense(name, hidden, 32, tf.nn.relu), rate=0.5, seed=seed)
    logits = layers.dense("fc8", hidden, 10)
    count = v1.train.get_or_create_global_step()
    rate = v1.train.exponential_decay(0.02, count, 4, 0.5, staircase=True)
    decay = 5e-4 * tf.add_n([tf.nn.l2_loss(v) for v in v1.trainable_variables() if "weights" in v.name])
    loss = sparse_loss(logits, labels) + decay
    fit(g, loss, v1.train.MomentumOptimizer(rate, 0.9), images, labels, 10, global_step=count)


@golden("inception_block", rel=1e-4, absolute=1e-5)
def inception(g):
    """Branches of 1x1, 3x3, 5x5, 1x7 then 7x1, and pools, joined; then the mean of each channel."""
    layers = Layers("resource")
    images, labels = placeholders(17)
    stem = layers.conv("stem", images, 3, 8, stride=2, padding="VALID")
    three = layers.conv("three", layers.conv("three_reduce", stem, 1, 4), 3, 6)
    five = layers.conv("five", layers.conv("five_reduce", stem, 1, 4), 5, 6)
    seven = layers.conv("seven_reduce", stem, 1, 4)
    seven = layers.conv("seven_b", layers.conv("seven_a", seven, (1, 7), 4), (7, 1), 6)
    most = layers.conv("pool_max", tf.nn.max_pool2d(stem, 3, 1, "SAME"), 1, 4)
    mean = layers.conv("pool_mean", tf.nn.avg_pool2d(stem, 3, 1, "SAME"), 1, 4)
    block = tf.concat([layers.conv("one", stem, 1, 6), three, five, seven, most, mean], 3)
    # The next block halves the image in every branch.
    down = layers.conv("down", block, 3, 8, stride=2, padding="VALID")
    pooled = tf.reduce_mean(tf.concat([tf.nn.max_pool2d(block, 3, 2, "VALID"), down], 3), [1, 2])
    loss = sparse_loss(layers.dense("logits", pooled, 10), labels)
    fit(g, loss, v1.train.RMSPropOptimizer(0.005, 0.9, 0.9, 1.0), images, labels, 10)


@golden("separable_conv", rel=1e-4, absolute=1e-5)
def separable(g):
    """MobileNet's blocks: depthwise convolutions with strides and a multiplier, relu6; one of a piece."""
    layers = Layers("resource", 0.3)
    images, labels = placeholders(16)
    hidden = layers.conv("conv", images, 3, 8, stride=2, activation=tf.nn.relu6)
    for index, (channels, stride, multiplier) in enumerate(((12, 1, 1), (16, 2, 2))):
        with v1.variable_scope(f"block{index}"):
            depthwise = layers.weight("depthwise", [3, 3, hidden.shape[-1], multiplier])
            hidden = v1.nn.depthwise_conv2d_native(hidden, depthwise, [1, stride, stride, 1], "SAME")
            hidden = layers.conv("pointwise", tf.nn.relu6(hidden), 1, channels, activation=tf.nn.relu6)
    depthwise, pointwise = layers.weight("last_d", [3, 3, 16, 1]), layers.weight("last_p", [1, 1, 16, 10])
    hidden = tf.nn.separable_conv2d(hidden, depthwise, pointwise, [1, 1, 1, 1], "VALID")
    loss = sparse_loss(tf.reduce_mean(hidden, [1, 2]), labels)
    fit(g, loss, v1.train.MomentumOptimizer(0.02, 0.9, use_nesterov=True), images, labels, 10)


@golden("conv2d_transpose", rel=1e-4, absolute=1e-5)
def transposed(g):
    """Down by convolutions, dilated ones too, up by transposed ones, to the image and to its segments."""
    layers = Layers("resource")
    images, labels = placeholders(12)
    batch = tf.shape(images)[0]
    small = layers.conv("down2", layers.conv("down1", images, 3, 6, stride=2), 3, 8, stride=2)
    wide = layers.weight("dilated", [3, 3, 8, 8])
    # The CPU has no gradient of a dilated convolution, so files dilate by cutting the image up.
    cut = tf.space_to_batch(small, [2, 2], [[2, 3], [2, 3]])
    joined = tf.batch_to_space(tf.nn.conv2d(cut, wide, 1, "VALID"), [2, 2], [[0, 1], [0, 1]])
    small = small + tf.nn.leaky_relu(joined, 0.1)
    weights = layers.weight("up1", [3, 3, 6, 8])
    up = tf.nn.conv2d_transpose(small, weights, tf.stack([batch, 6, 6, 6]), 2, "SAME")
    up = tf.nn.elu(tf.nn.bias_add(up, layers.bias("up1_bias", [6])))
    weights = layers.weight("up2", [2, 2, 3, 6])
    out = tf.nn.conv2d_transpose(up, weights, tf.stack([batch, 12, 12, 3]), 2, "VALID")
    small_images = v1.image.resize_nearest_neighbor(images[:, ::2, ::2], [12, 12])
    loss = tf.reduce_mean(tf.square(tf.sigmoid(out) - small_images))
    scores = layers.conv("score", up, 1, 4, activation=tf.nn.softplus)
    loss += sparse_loss(tf.reduce_max(scores, [1, 2]), labels)
    fit(g, loss, v1.train.AdamOptimizer(0.005), images, labels, 4)


def batch_norm(layers, name, images, training, updates):
    """FusedBatchNorm, on the batch or on moving averages, which `updates` move."""
    channels = int(images.shape[-1])
    with v1.variable_scope(name):
        scale = variable("gamma", [channels], layers.kind, v1.ones_initializer())
        offset = variable("beta", [channels], layers.kind, v1.zeros_initializer())
        means, variances = (
            variable(n, [channels], layers.kind, start, trainable=False)
            for n, start in (("mean", v1.zeros_initializer()), ("variance", v1.ones_initializer()))
        )
        if not training:
            return v1.nn.fused_batch_norm(images, scale, offset, means, variances, 1e-3, is_training=False)[0]
        out, mean, variance = v1.nn.fused_batch_norm(images, scale, offset, epsilon=1e-3)
        for average, now in ((means, mean), (variances, variance)):
            updates.append(v1.assign_sub(average, (average - now) * (1 - 0.9)))
        return out


def bottleneck(layers, norm, name, images, width, stride):
    """1x1, 3x3, 1x1 and a way past them; batch norm before each activation."""

    def linear(label, values, size, channels, step=1):
        with v1.variable_scope(label):
            weights = layers.weight("weights", [size, size, values.shape[-1], channels])
            if step > 1 and size > 1:
                # As ResNet pads for strides, whatever the size of the image.
                values = tf.pad(values, [[0, 0], [1, 1], [1, 1], [0, 0]])
                return tf.nn.conv2d(values, weights, step, "VALID")
            return tf.nn.conv2d(values, weights, step, "SAME")

    with v1.variable_scope(name):
        past = images
        if stride > 1 or images.shape[-1] != 4 * width:
            past = norm("past_norm", linear("past", images, 1, 4 * width, stride))
        hidden = tf.nn.relu(norm("norm1", linear("conv1", images, 1, width)))
        hidden = tf.nn.relu(norm("norm2", linear("conv2", hidden, 3, width, stride)))
        return tf.nn.relu(past + norm("norm3", linear("conv3", hidden, 1, 4 * width)))


def resnet(g, kind, nesterov):
    """A ResNet of bottleneck blocks; weight decay; averages moved by UPDATE_OPS, and used at the end."""
    layers = Layers(kind, 0.2)
    images, labels = placeholders(16)

    def network(training, updates):
        def norm(name, values):
            return batch_norm(layers, name, values, training, updates)

        hidden = tf.pad(images, [[0, 0], [3, 3], [3, 3], [0, 0]])
        weights = layers.weight("conv0", [7, 7, 3, 8])
        hidden = tf.nn.relu(norm("norm0", tf.nn.conv2d(hidden, weights, 2, "VALID")))
        hidden = tf.nn.max_pool2d(hidden, 3, 2, "SAME")
        for index, (width, stride) in enumerate(((4, 1), (4, 1), (6, 2), (6, 1))):
            hidden = bottleneck(layers, norm, f"block{index}", hidden, width, stride)
        return layers.dense("logits", tf.reduce_mean(hidden, [1, 2]), 10)

    updates = []
    with v1.variable_scope("net"):
        logits = network(True, updates)
    for update in updates:
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
    with v1.variable_scope("net", reuse=True):
        judged = tf.nn.softmax(network(False, None))
    decayed = [tf.nn.l2_loss(v) for v in v1.trainable_variables() if "norm" not in v.name]
    loss = sparse_loss(logits, labels) + 1e-3 * tf.add_n(decayed)
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        moved = tf.no_op()
    optimizer = v1.train.MomentumOptimizer(0.01, 0.9, use_nesterov=nesterov)
    fit(g, loss, optimizer, images, labels, 10, batch=6, run=[moved])
    g.step(judged, feeds={images: floats("images to judge", [3, 16, 16, 3])})


# Batch norm over few rows, twelve deep, makes much of the last bits.
golden("resnet_small", rel=5e-4, absolute=5e-5, kind="resource", nesterov=False)(resnet)
golden("resnet_small_nesterov_ref", rel=5e-4, absolute=5e-5, kind="ref", nesterov=True)(resnet)
