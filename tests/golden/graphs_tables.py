"""Golden graphs: lookup tables of each kind over several steps, on handles and on references."""

import numpy as np

from graphs_parts import counted_names
from graphs_record import golden
from reference import i64, raw, tf, v1

# Pairs of dtypes of keys and values that HashTable has kernels for.
FIXED = (
    (tf.int32, tf.float64),
    (tf.int32, tf.float32),
    (tf.int32, tf.int32),
    (tf.int32, tf.string),
    (tf.int64, tf.float64),
    (tf.int64, tf.float32),
    (tf.int64, tf.int32),
    (tf.int64, tf.int64),
    (tf.int64, tf.string),
    (tf.string, tf.bool),
    (tf.string, tf.float64),
    (tf.string, tf.float32),
    (tf.string, tf.int32),
    (tf.string, tf.int64),
    (tf.string, tf.string),
)
# Those of the tables whose entries change.
MUTABLE = tuple(pair for pair in FIXED if pair not in ((tf.int32, tf.string), (tf.string, tf.string)))


def some(dtype, count, start=0):
    """Elements of a dtype, different ones as far as it has them."""
    numbers = range(start, start + count)
    if dtype == tf.string:
        return tf.constant([b"", *(f"word {i}\0".encode() for i in numbers)][-count:])
    if dtype == tf.bool:
        return tf.constant([i % 3 == 0 for i in numbers])
    scale = 1.5 if dtype.is_floating else 7
    return tf.constant([(i * scale) - 9 for i in numbers], dtype)


@golden("tables_fixed")
def fixed(g):
    """Tables that an initializer fills, of each pair of dtypes; keys of several ranks."""
    inits, found = [], []
    for number, (key, value) in enumerate(FIXED):
        table = raw.HashTableV2(key_dtype=key, value_dtype=value, shared_name=f"table {number}")
        inits.append(raw.InitializeTableV2(table_handle=table, keys=some(key, 6), values=some(value, 6)))
        default = some(value, 1, 50)[0]
        for keys in (some(key, 9, 3), some(key, 1)[0], tf.reshape(some(key, 4, 4), [2, 2]), some(key, 0)):
            found.append(raw.LookupTableFindV2(table_handle=table, keys=keys, default_value=default))
        found.append(raw.LookupTableSizeV2(table_handle=table))
    g.step(*found[4::5])
    g.step(*found, fails=True)
    g.step(run=inits)
    g.step(*found)
    # Filling a table again with as many entries changes nothing.
    g.step(run=inits)
    g.step(*found)


@golden("tables_conflicts")
def conflicts(g):
    """What a HashTable refuses: other values of a key, other entries, an empty list, inserts."""
    keys, values = v1.placeholder(tf.string, [None]), v1.placeholder(tf.int64, [None])
    table = raw.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64, shared_name="table")
    init = raw.InitializeTableV2(table_handle=table, keys=keys, values=values)
    size = raw.LookupTableSizeV2(table_handle=table)
    found = raw.LookupTableFindV2(table_handle=table, keys=keys, default_value=tf.constant(-1, tf.int64))
    other = raw.LookupTableFindV2(table_handle=table, keys=values, default_value=tf.constant(-1, tf.int64))
    other_value = raw.LookupTableFindV2(table_handle=table, keys=keys, default_value=tf.constant(-1))
    many = raw.LookupTableFindV2(table_handle=table, keys=keys, default_value=tf.constant([1, 2, 3], tf.int64))
    again = raw.HashTableV2(key_dtype=tf.string, value_dtype=tf.string, shared_name="table", name="again")
    words = np.array([b"a", b"b", b"a"], object)
    numbers = np.array([1, 2, 3], i64)
    g.step(feeds={keys: words, values: numbers}, run=init, fails=True)
    g.step(feeds={keys: words[:0], values: numbers[:0]}, run=init, fails=True)
    g.step(feeds={keys: words[:2], values: numbers}, run=init, fails=True)
    g.step(size)
    # One value twice is no conflict.
    g.step(feeds={keys: words, values: np.array([1, 2, 1], i64)}, run=init)
    g.step(size, found, feeds={keys: words})
    g.step(feeds={keys: words[:2], values: numbers[:2]}, run=init)
    g.step(feeds={keys: words[:1], values: numbers[:1]}, run=init, fails=True)
    g.step(other, feeds={values: numbers}, fails=True)
    g.step(other_value, feeds={keys: words}, fails=True)
    g.step(many, feeds={keys: words})
    g.step(many, feeds={keys: words[:1]}, fails=True)
    g.step(run=again, fails=True)


@golden("tables_mutable")
def mutable(g):
    """Tables whose entries change, of each pair of dtypes: insert, replace, remove, import."""
    inserts, more, removes, found = [], [], [], []
    for number, (key, value) in enumerate(MUTABLE):
        table = raw.MutableHashTableV2(key_dtype=key, value_dtype=value, shared_name=f"table {number}")
        inserts.append(raw.LookupTableInsertV2(table_handle=table, keys=some(key, 6), values=some(value, 6)))
        more.append(raw.LookupTableInsertV2(table_handle=table, keys=some(key, 30, 4), values=some(value, 30, 1)))
        removes.append(raw.LookupTableRemoveV2(table_handle=table, keys=some(key, 12, 2)))
        one = some(value, 1, 50)[0]
        for default in (one, some(value, 9, 70)):
            found.append(raw.LookupTableFindV2(table_handle=table, keys=some(key, 9, 1), default_value=default))
        found.append(raw.LookupTableSizeV2(table_handle=table))
    g.step(*found)
    for change in (inserts, more, removes, removes, inserts):
        g.step(run=change)
        g.step(*found)


@golden("tables_import")
def imports(g):
    """Import replaces all entries; an export has them all, here in order."""
    keys, values = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.float32, [None])
    tables = [
        raw.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.float32),
        raw.HashTableV2(key_dtype=tf.int64, value_dtype=tf.float32),
    ]
    for table in tables:
        load = raw.LookupTableImportV2(table_handle=table, keys=keys, values=values)
        out = raw.LookupTableExportV2(table_handle=table, Tkeys=tf.int64, Tvalues=tf.float32)
        ordered = [tf.sort(out.keys), tf.gather(out.values, tf.argsort(out.keys))]
        feeds = {keys: np.arange(5, dtype=i64) * 3, values: np.arange(5) / 4}
        g.step(run=load, feeds=feeds)
        g.step(*ordered)
    load = raw.LookupTableImportV2(table_handle=tables[0], keys=keys, values=values)
    feeds = {keys: np.array([7, 7, -1], i64), values: np.array([1, 2, 3])}
    g.step(run=load, feeds=feeds)
    out = raw.LookupTableExportV2(table_handle=tables[0], Tkeys=tf.int64, Tvalues=tf.float32)
    g.step(tf.sort(out.keys), tf.gather(out.values, tf.argsort(out.keys)))


@golden("tables_of_tensors")
def of_tensors(g):
    """Values that are vectors; keys and values that do not fit."""
    keys, values = v1.placeholder(tf.string, None), v1.placeholder(tf.float32, None)
    table = raw.MutableHashTableOfTensorsV2(key_dtype=tf.string, value_dtype=tf.float32, value_shape=[2])
    insert = raw.LookupTableInsertV2(table_handle=table, keys=keys, values=values)
    default = v1.placeholder(tf.float32, None)
    found = raw.LookupTableFindV2(table_handle=table, keys=keys, default_value=default)
    words = np.array([b"one", b"two", b"three"], object)
    rows = np.arange(6).reshape(3, 2) / 2
    g.step(run=insert, feeds={keys: words, values: rows})
    g.step(found, feeds={keys: np.array([[b"two", b"none"]], object), default: [-1, -2]})
    g.step(found, feeds={keys: np.array([b"none", b"one"], object), default: [[8, 9], [6, 7]]})
    g.step(found, feeds={keys: np.array(b"three", object), default: [0, 0]})
    g.step(found, feeds={keys: words, default: 0}, fails=True)
    g.step(run=insert, feeds={keys: words, values: rows[:, :1]}, fails=True)
    g.step(run=insert, feeds={keys: words[:2], values: rows}, fails=True)
    numbers = raw.MutableHashTableOfTensorsV2(key_dtype=tf.int64, value_dtype=tf.string, value_shape=[3])
    put = raw.LookupTableInsertV2(
        table_handle=numbers, keys=tf.constant([5, 6], tf.int64), values=tf.reshape(some(tf.string, 6), [2, 3])
    )
    got = raw.LookupTableFindV2(
        table_handle=numbers, keys=tf.constant([6, 1, 5], tf.int64), default_value=some(tf.string, 3, 20)
    )
    g.step(run=put)
    g.step(got)
    bad = raw.MutableHashTableOfTensorsV2(key_dtype=tf.int64, value_dtype=tf.string, value_shape=[])
    g.step(run=bad, fails=True)


@golden("tables_dense")
def dense(g):
    """Tables of buckets: each bucket of an export is TensorFlow's, before and after removals and growth."""
    for key, value in ((tf.int64, tf.int64), (tf.int32, tf.float32), (tf.string, tf.bool), (tf.string, tf.int32)):
        marks = {"empty_key": some(key, 1, 100)[0], "deleted_key": some(key, 1, 101)[0]}
        table = raw.MutableDenseHashTableV2(
            value_dtype=value, initial_num_buckets=8, max_load_factor=0.6, **marks
        )
        insert = raw.LookupTableInsertV2(table_handle=table, keys=some(key, 4), values=some(value, 4))
        more = raw.LookupTableInsertV2(table_handle=table, keys=some(key, 20, 2), values=some(value, 20))
        remove = raw.LookupTableRemoveV2(table_handle=table, keys=some(key, 5, 1))
        found = raw.LookupTableFindV2(table_handle=table, keys=some(key, 6, 1), default_value=some(value, 1, 9)[0])
        size = raw.LookupTableSizeV2(table_handle=table)
        export = raw.LookupTableExportV2(table_handle=table, Tkeys=key, Tvalues=value)
        for change in (insert, remove, insert, more, remove):
            g.step(run=change)
            g.step(found, size, *export)
        other = raw.MutableDenseHashTableV2(value_dtype=value, initial_num_buckets=4, **marks)
        load = raw.LookupTableImportV2(table_handle=other, keys=export.keys, values=export.values)
        g.step(run=load)
        g.step(
            raw.LookupTableFindV2(table_handle=other, keys=some(key, 6, 1), default_value=some(value, 1, 9)[0]),
            raw.LookupTableSizeV2(table_handle=other),
        )
        taken = raw.LookupTableFindV2(
            table_handle=table, keys=marks["empty_key"][None], default_value=some(value, 1, 9)[0]
        )
        g.step(taken, fails=True)


@golden("tables_dense_vectors")
def dense_vectors(g):
    """Buckets of keys and values that are vectors, and settings that cannot be."""
    keys, values = v1.placeholder(tf.int64, None), v1.placeholder(tf.float32, None)
    none, gone = tf.constant([0, 0], tf.int64), tf.constant([0, -1], tf.int64)
    table = raw.MutableDenseHashTableV2(
        empty_key=none, deleted_key=gone, value_dtype=tf.float32, value_shape=[3], initial_num_buckets=4
    )
    insert = raw.LookupTableInsertV2(table_handle=table, keys=keys, values=values)
    remove = raw.LookupTableRemoveV2(table_handle=table, keys=keys)
    default = tf.constant([-1.0, -2.0, -3.0])
    found = raw.LookupTableFindV2(table_handle=table, keys=keys, default_value=default)
    export = raw.LookupTableExportV2(table_handle=table, Tkeys=tf.int64, Tvalues=tf.float32)
    pairs = np.array([[1, 2], [2, 1], [1, 2], [0, 5], [7, 0]], i64)
    rows = np.arange(15).reshape(5, 3)
    g.step(run=insert, feeds={keys: pairs, values: rows})
    g.step(found, *export, feeds={keys: [[2, 1], [5, 0], [1, 2]]})
    g.step(run=remove, feeds={keys: pairs[1:2]})
    g.step(found, *export, feeds={keys: pairs})
    g.step(run=insert, feeds={keys: pairs, values: rows[:, :2]}, fails=True)
    g.step(run=insert, feeds={keys: pairs[:, :1], values: rows}, fails=True)
    g.step(run=insert, feeds={keys: [[0, 0]], values: rows[:1]}, fails=True)
    g.step(run=insert, feeds={keys: [[0, -1]], values: rows[:1]}, fails=True)
    for buckets, load, deleted in ((12, 0.5, gone), (2, 0.5, gone), (8, 1.0, gone), (8, 0.5, none), (8, 0.5, gone[0])):
        bad = raw.MutableDenseHashTableV2(
            empty_key=none,
            deleted_key=deleted,
            value_dtype=tf.float32,
            initial_num_buckets=buckets,
            max_load_factor=load,
        )
        g.step(run=bad, fails=True)


@golden("tables_anonymous")
def anonymous(g):
    """Tables without a name, made and used in one step."""
    fresh = raw.AnonymousHashTable(key_dtype=tf.string, value_dtype=tf.int64)
    change = raw.AnonymousMutableHashTable(key_dtype=tf.string, value_dtype=tf.int64)
    rows = raw.AnonymousMutableHashTableOfTensors(key_dtype=tf.string, value_dtype=tf.int64, value_shape=[2])
    buckets = raw.AnonymousMutableDenseHashTable(
        empty_key="-", deleted_key="+", value_dtype=tf.int64, initial_num_buckets=4
    )
    keys = tf.constant(["a", "b", "c"])
    for table, width in ((fresh, []), (change, []), (rows, [2]), (buckets, [])):
        values = tf.reshape(tf.range(3 * int(np.prod(width)), dtype=tf.int64), [3, *width])
        fill = raw.InitializeTableV2 if table is fresh else raw.LookupTableInsertV2
        with tf.control_dependencies([fill(table_handle=table, keys=keys, values=values)]):
            found = raw.LookupTableFindV2(
                table_handle=table, keys=tf.constant(["c", "x"]), default_value=tf.fill(width, np.int64(-1))
            )
            size = raw.LookupTableSizeV2(table_handle=table)
        for _ in range(2):
            g.step(found, size)


@golden("tables_ref")
def of_old(g):
    """The ops before resources: tables whose handle is a reference to strings."""
    words = raw.HashTable(key_dtype=tf.string, value_dtype=tf.int64, shared_name="words", name="words")
    init = raw.InitializeTable(
        table_handle=words, keys=tf.constant(["a", "b"]), values=tf.constant([4, 5], tf.int64)
    )
    keys = v1.placeholder(tf.string, [None])
    found = raw.LookupTableFind(table_handle=words, keys=keys, default_value=tf.constant(-1, tf.int64))
    size = raw.LookupTableSize(table_handle=words)
    feeds = {keys: np.array([b"b", b"x", b"a"], object)}
    g.step(found, feeds=feeds, fails=True)
    g.step(run=init)
    g.step(found, size, feeds=feeds)
    # What stands behind the reference.
    g.step(tf.identity(words)[1])
    counts = raw.MutableHashTable(key_dtype=tf.int64, value_dtype=tf.float32, name="counts")
    vectors = raw.MutableHashTableOfTensors(key_dtype=tf.int64, value_dtype=tf.float32, value_shape=[2])
    for table, width in ((counts, []), (vectors, [2])):
        numbers = tf.constant([3, 1], tf.int64)
        values = tf.reshape(tf.range(2.0 * int(np.prod(width))), [2, *width])
        insert = raw.LookupTableInsert(table_handle=table, keys=numbers, values=values)
        got = raw.LookupTableFind(table_handle=table, keys=numbers[:1], default_value=tf.zeros(width))
        out = raw.LookupTableExport(table_handle=table, Tkeys=tf.int64, Tvalues=tf.float32)
        load = raw.LookupTableImport(table_handle=table, keys=numbers[:1], values=values[1:])
        g.step(run=insert)
        g.step(got, tf.sort(out.keys), tf.gather(out.values, tf.argsort(out.keys)))
        g.step(run=load)
        g.step(got, *out)


@golden("tables_vocabulary")
def vocabulary(g):
    """The tables of tf.lookup and tf.contrib: words to numbers with out-of-vocabulary buckets, and back."""
    words, numbers = tf.constant(["the", "quick", "fox"]), tf.range(3, dtype=tf.int64)
    with counted_names():
        static = tf.lookup.StaticVocabularyTable(
            tf.lookup.KeyValueTensorInitializer(words, numbers), num_oov_buckets=3
        )
        back = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(numbers, words), "?")
    ids = v1.placeholder(tf.int64, [None, 2])
    text = v1.placeholder(tf.string, [None])
    sparse = tf.SparseTensor([[0, 0], [1, 2]], tf.constant(["fox", "dog"]), [2, 3])
    g.init(v1.tables_initializer())
    counted = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 0)
    g.step(static.lookup(text), feeds={text: np.array([b"fox", b"dog", b"", b"the"], object)})
    g.step(back.lookup(ids), feeds={ids: np.array([[2, 0], [7, 1]])})
    g.step(static.lookup(sparse).values, static.size())
    with tf.control_dependencies([counted.insert(text, counted.lookup(text) + 1)]):
        total = counted.lookup(tf.constant(["fox", "dog"]))
    for batch in ([b"fox", b"the"], [b"fox"]):
        g.step(total, feeds={text: np.array(batch, object)})


@golden("tables_in_loops")
def in_loops(g):
    """A table that loops and a branch look up."""
    table = raw.HashTableV2(key_dtype=tf.int64, value_dtype=tf.int64, shared_name="next")
    init = raw.InitializeTableV2(
        table_handle=table, keys=tf.range(4, dtype=tf.int64), values=tf.constant([2, 3, 1, 9], tf.int64)
    )
    start = v1.placeholder(tf.int64, [])

    def follow(key):
        found = raw.LookupTableFindV2(table_handle=table, keys=key, default_value=tf.constant(-1, tf.int64))
        return tf.ensure_shape(found, [])

    # The last number before one without a successor.
    last, _ = v1.while_loop(lambda _, key: key >= 0, lambda _, key: (key, follow(key)), (start, start))
    choice = tf.cond(start > 1, lambda: follow(start), lambda: start)
    g.step(run=init)
    for key in (0, 1, 2, 7):
        g.step(last, choice, feeds={start: key})
    g.step(tf.map_fn(follow, tf.constant([3, 2, 8], tf.int64)))


@golden("tables_of_datasets")
def of_datasets(g):
    """Tables that datasets fill, of each pair of dtypes; datasets without elements, and with two values of a key."""
    inits, found = [], []
    for number, (key, value) in enumerate(FIXED):
        dataset = v1.data.Dataset.from_tensor_slices((some(key, 6), some(value, 6)))
        table = raw.HashTableV2(key_dtype=key, value_dtype=value, shared_name=f"dataset {number}")
        inits.append(raw.InitializeTableFromDataset(table_handle=table, dataset=dataset._variant_tensor))
        found.append(raw.LookupTableFindV2(table_handle=table, keys=some(key, 9, 3), default_value=some(value, 1, 50)[0]))
        found.append(raw.LookupTableSizeV2(table_handle=table))
    g.step(*found, fails=True)
    g.step(run=inits)
    g.step(*found)
    # A table that is filled stays as it is.
    g.step(run=inits)
    g.step(*found)
    words = lambda keys, values: v1.data.Dataset.from_tensor_slices((tf.constant(keys, tf.string), tf.constant(values, tf.int64)))
    for number, dataset in enumerate((words(["a"], [1]).take(0), words(["a", "a"], [1, 2]), words(["a", "a"], [3, 3]))):
        table = raw.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64, shared_name=f"conflict {number}")
        init = raw.InitializeTableFromDataset(table_handle=table, dataset=dataset._variant_tensor)
        size = raw.LookupTableSizeV2(table_handle=table)
        g.step(run=init, fails=number < 2)
        g.step(size)
