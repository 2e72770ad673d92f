"""Golden graphs: parsers of records, examples in TensorFlow's form and CSV."""

import numpy as np

from graphs_record import golden
from reference import i32, raw, tf, v1


def feature(values):
    """A feature of a list of integers, floats or strings."""
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def example(**features):
    """A serialized example of lists of integers, floats and strings."""
    made = {key: feature(values) for key, values in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString(deterministic=True)


EXAMPLES = [
    example(id=[1], x=[0.5, -2.0], words=[b"a", b"bc"], many=[7, 8, 9], pairs=[1.0, 2.0, 3.0, 4.0]),
    example(id=[-5], x=[1.5, 1e20], label=[b"dog"], pairs=[5.0, 6.0]),
    example(id=[1 << 40], x=[0.0, 0.25], words=[b""], many=[1], label=[b"\xff\x00"]),
]
BAD = [
    example(x=[0.5, -2.0]),
    example(id=[1], x=[0.5]),
    example(id=[1.5], x=[0.5, 1.0]),
    example(id=[1], x=[0.5, 1.0], pairs=[1.0, 2.0, 3.0]),
    b"\x0a\x05xx",
]


@golden("records_examples")
def examples(g):
    """Dense, sparse and ragged features of batches and of single examples; defaults; examples that do not fit."""
    serialized = v1.placeholder(tf.string, [None], name="serialized")
    one = v1.placeholder(tf.string, [], name="one")
    features = {
        "id": tf.io.FixedLenFeature([], tf.int64),
        "x": tf.io.FixedLenFeature([2], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.string, default_value=b"none"),
        "pairs": tf.io.FixedLenSequenceFeature([2], tf.float32, allow_missing=True, default_value=-1.0),
        "words": tf.io.VarLenFeature(tf.string),
        "many": tf.io.VarLenFeature(tf.int64),
    }
    ragged = {"many": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int32), "words": tf.io.RaggedFeature(tf.string)}

    def flat(parsed):
        parts = []
        for key in sorted(parsed):
            value = parsed[key]
            if isinstance(value, tf.SparseTensor):
                parts += [value.indices, value.values, value.dense_shape]
            elif isinstance(value, tf.RaggedTensor):
                parts += [value.values, value.row_splits]
            else:
                parts.append(value)
        return parts

    batch = flat(tf.io.parse_example(serialized, features))
    both = flat(tf.io.parse_example(serialized, ragged))
    single = flat(tf.io.parse_single_example(one, {k: v for k, v in features.items() if k != "pairs"}))
    old = raw.ParseExample(
        serialized=serialized,
        names=np.array([], object),
        sparse_keys=[b"many"],
        dense_keys=[b"id", b"x"],
        dense_defaults=[np.array([], np.int64), np.array([9, 9], np.float32)],
        sparse_types=[tf.int64],
        dense_shapes=[[], [2]],
    )
    lone = raw.ParseSingleExample(
        serialized=one,
        dense_defaults=[np.array([], np.int64)],
        num_sparse=1,
        sparse_keys=["words"],
        dense_keys=["id"],
        sparse_types=[tf.string],
        dense_shapes=[[]],
    )
    for fetches in (batch, both, tf.nest.flatten(old)):
        g.step(*fetches, feeds={serialized: np.array(EXAMPLES, object)})
        g.step(*fetches, feeds={serialized: np.array(EXAMPLES[1:2], object)})
    for serial in EXAMPLES:
        g.step(*single, feeds={one: np.array(serial, object)})
        g.step(*tf.nest.flatten(lone), feeds={one: np.array(serial, object)})
    for serial in BAD:
        g.step(*batch, feeds={serialized: np.array([EXAMPLES[0], serial], object)}, fails=True)


@golden("records_csv")
def csv(g):
    """Columns of each dtype, quotes, missing values, chosen columns; records that do not fit."""
    records = v1.placeholder(tf.string, None, name="records")
    defaults = [[1], tf.constant([2], tf.int64), [0.5], tf.constant([0.25], tf.float64), [b"none"]]
    columns = tf.io.decode_csv(records, defaults)
    required = tf.io.decode_csv(records, [tf.constant([], tf.int32), tf.constant([], tf.string)], field_delim=";", na_value="NA")
    chosen = tf.io.decode_csv(records, [[0.0], [b""]], select_cols=[1, 3])
    bare = tf.io.decode_csv(records, [[b""], [b""]], use_quote_delim=False)
    good = [b"1,2,3.5,4e3,text", b",,,,", b'-7,9000000000,-.5,1,"a ""b"", c"', b" 5 ,6,7,8,x y\r\n"]
    g.step(*columns, feeds={records: np.array(good[:3], object)})
    g.step(*columns, feeds={records: np.array(good[:2] + good[:2], object).reshape(2, 2)})
    g.step(*columns, feeds={records: np.array(good[2], object)})
    for wrong in (b"1,2,3,4", b"1,2,3,4,5,6", b"x,2,3,4,5", b'1,2,3,4,a"b', b'1,2,3,4,"ab', b'1,2,3,4,"a"b'):
        g.step(*columns, feeds={records: np.array([good[0], wrong], object)}, fails=True)
    g.step(*required, feeds={records: np.array([b"1;a", b'2;"b;c"'], object)})
    g.step(*required, feeds={records: np.array([b"NA;a"], object)}, fails=True)
    g.step(*required, feeds={records: np.array([b"1;"], object)}, fails=True)
    g.step(*chosen, feeds={records: np.array([b"1,2,3,x,5", b",,,", b"a,4,b,c"], object)})
    g.step(*bare, feeds={records: np.array([b'"a",b"c', b"x,"], object)})


@golden("records_sparse")
def sparse(g):
    """Sparse tensors as components of dataset elements."""
    tensor = tf.SparseTensor([[0, 1], [0, 3], [2, 0]], [1.5, 2.5, 3.5], [4, 5])
    rows = tf.compat.v1.data.Dataset.from_tensor_slices(tensor)
    for dataset, number in ((rows, 4), (rows.batch(3), 2), (rows.batch(2).batch(2), 1), (rows.map(lambda s: s), 4)):
        following = v1.data.make_one_shot_iterator(dataset).get_next()
        for _ in range(number):
            g.step(following.indices, following.values, following.dense_shape)
        g.step(following.indices, fails=True)
    whole = tf.compat.v1.data.Dataset.from_tensors(tensor)
    following = v1.data.make_one_shot_iterator(whole).get_next()
    g.step(following.indices, following.values, following.dense_shape)


@golden("records_ragged")
def ragged_elements(g):
    """Ragged tensors as components of dataset elements: made by functions, sliced, batched, rows of batches."""
    Dataset = tf.compat.v1.data.Dataset
    counts = Dataset.from_tensor_slices(np.array([2, 0, 3], i32))
    ragged = counts.map(lambda n: tf.RaggedTensor.from_row_splits(tf.range(n), tf.stack([0, n, n])))
    following = v1.data.make_one_shot_iterator(ragged).get_next()
    for _ in range(3):
        g.step(following.values, following.row_splits)
    flat = tf.ragged.constant([[1.5, 2.5], [], [3.5]], dtype=tf.float32)
    deep = tf.ragged.constant([[[1, 2], [3]], [], [[], [4, 5, 6]]], dtype=tf.int64)
    pairs = tf.RaggedTensor.from_row_splits(tf.reshape(tf.range(10), [5, 2]), tf.constant([0, 2, 2, 5], tf.int32))
    text = tf.ragged.constant([[b"a", b""], [], [b"bc"]])
    for tensor in (flat, deep, pairs, text):
        rows = Dataset.from_tensor_slices(tensor)
        takes(g, rows, 3)
        takes(g, rows.batch(2), 2)
        takes(g, rows.batch(3).unbatch(), 3)
        takes(g, rows.batch(1).batch(2), 2)
        takes(g, rows.map(lambda row: (row, row.flat_values if isinstance(row, tf.RaggedTensor) else row)), 3)
    takes(g, Dataset.zip((Dataset.from_tensor_slices(deep), counts)).batch(3), 1)
    takes(g, counts.map(lambda n: tf.RaggedTensor.from_row_splits(tf.range(n), tf.stack([0, n, n]))).batch(3), 1)
    takes(g, Dataset.from_tensors(deep), 1)
    variants = raw.RaggedTensorToVariant(
        rt_nested_splits=deep.nested_row_splits, rt_dense_values=deep.flat_values, batched_input=True
    )
    kind = {"Tvalues": tf.int64, "Tsplits": tf.int64}
    from_variant = raw.RaggedTensorFromVariant
    whole = from_variant(encoded_ragged=variants, input_ragged_rank=1, output_ragged_rank=2, **kind)
    g.step(*whole.output_nested_splits, whole.output_dense_values)
    table = tf.stack([variants, variants])
    whole = from_variant(encoded_ragged=table, input_ragged_rank=-1, output_ragged_rank=3, **kind)
    g.step(*whole.output_nested_splits, whole.output_dense_values)
    for asked, rank, values in ((0, 1, tf.int64), (2, 3, tf.int64), (1, 2, tf.int32)):
        kind["Tvalues"] = values
        whole = from_variant(encoded_ragged=variants, input_ragged_rank=asked, output_ragged_rank=rank, **kind)
        g.step(whole.output_dense_values, fails=True)


def takes(g, dataset, number):
    """Takes all elements of a dataset, and the error behind them."""
    parts = []
    for value in tf.nest.flatten(v1.data.make_one_shot_iterator(dataset).get_next()):
        ragged = isinstance(value, tf.RaggedTensor)
        parts += [*value.nested_row_splits, value.flat_values] if ragged else [value]
    for _ in range(number):
        g.step(*parts)
    g.step(*parts, fails=True)


@golden("json_examples")
def json_examples(g):
    """Examples from JSON, parsed: numbers as texts and as numbers, both names of fields, and texts that are none."""
    x = v1.placeholder(tf.string, [None], name="x")
    kinds = {"i": tf.int64, "f": tf.float32, "b": tf.string}
    parsed = tf.io.parse_example(raw.DecodeJSONExample(json_examples=x), {k: tf.io.VarLenFeature(d) for k, d in kinds.items()})
    fetched = [part for k in kinds for part in (parsed[k].indices, parsed[k].values, parsed[k].dense_shape)]
    features = lambda content: ('{"features":{"feature":{%s}}}' % content).encode()
    good = [
        features('"i":{"int64List":{"value":["1",2,"-3",4.0,1e3,null]}},"f":{"float_list":{"value":[1.5,"2","Infinity",0.1,3e38]}}'),
        features('"i":{"int64_list":{"value":["9223372036854775807",-9223372036854775808]}},"b":{"bytesList":{"value":["aGk="]}}'),
        features('"f":{"floatList":{"value":5}},"i":{"int64List":{}}'),
        b"{}",
    ]
    g.step(*fetched, feeds={x: np.array(good, object)})
    lists = (
        '{"int64List":{"value":[1.5]}}',
        '{"int64List":{"value":["x"]}}',
        '{"int64List":{"value":[9223372036854775808]}}',
        '{"int64List":{"value":[true]}}',
        '{"floatList":{"value":[1e39]}}',
        '{"bytesList":{"value":["*"]}}',
        '{"int64List":{"value":[1]},"floatList":{"value":[1]}}',
        '{"other":1}',
    )
    for bad in (*(features(f'"i":{c}') for c in lists), b"[]", b"", b"{} x", b'{"unknown":1}'):
        g.step(*fetched, feeds={x: np.array([bad], object)}, fails=True)
