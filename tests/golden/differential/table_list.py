"""Lists of tensors: map, scan and fold, TensorArray, and the TensorList ops by themselves."""

from model import FLOAT, NUMBER, TYPES, np, raw, tf
from registry import pattern
from rules import EXACT_SPECIAL
from table_flow import LOOP, body, settled

ARRAY = "TensorArrayV3 TensorArrayGatherV3 TensorArraySizeV3"
NEEDS = (f"{LOOP[0]} {ARRAY}", f"{LOOP[1]} TensorListReserve TensorListStack")


def rows(g):
    """A wire with rows to go over, and one like a row."""
    x = g.wire(
        g.kind(FLOAT + ("i32", "i64"), "AddV2"),
        rank=(1, 3),
        low=-3,
        high=3,
        test=lambda w: w.dims[:1] != (0,),
    )
    return x, g.wire(x.kind, dims=x.dims[1:], low=-3, high=3)


@pattern("map_fn", *NEEDS, weight=0.8)
def map_fn(g):
    x, y = rows(g)
    step, rule = body(g, x.kind)
    g.compose("map_fn", lambda x, y: tf.map_fn(lambda row: step(row, y), x), [x, y], rule)


@pattern("scan", *NEEDS, weight=0.7)
def scan(g):
    x, y = rows(g)
    step, rule = body(g, x.kind)
    step, back = settled(step, x.kind), g.chance(0.3)
    g.compose("scan", lambda x, y: tf.scan(step, x, initializer=y, reverse=back), [x, y], rule)


@pattern("fold", *NEEDS, weight=0.7)
def fold(g):
    x, y = rows(g)
    step, rule = body(g, x.kind)
    step, name = settled(step, x.kind), g.one("foldl", "foldr")
    g.compose(name, lambda x, y: getattr(tf, name)(step, x, initializer=y), [x, y], rule)


def distinct(g, size):
    """Some indices, each once: in a graph TensorFlow's gradient of a list's gather keeps one of several."""
    return g.random.sample(range(size), g.integer(1, size))


@pattern("tensor array", ARRAY, "TensorListReserve TensorListGather", weight=0.7)
def tensor_array(g):
    """Written one by one, read in part and stacked or joined."""
    x, y = rows(g)
    count = g.integer(1, 3)
    picks = distinct(g, count + 1)
    join = len(y.dims) > 0 and g.chance(0.5)

    def function(x, y):
        array = tf.TensorArray(x.dtype, size=count + 1, clear_after_read=False, element_shape=y.shape)
        for i in range(count):
            array = array.write(i, y + tf.cast(i, y.dtype))
        array = array.write(count, x[0])
        return (
            array.concat() if join else array.stack(),
            array.gather(picks),
            array.read(picks[0]),
            array.size(),
        )

    g.compose("tensor_array", function, [x, y], EXACT_SPECIAL)


@pattern("tensor array unstack", ARRAY, "TensorListFromTensor TensorListGather", weight=0.5)
def tensor_array_unstack(g):
    x, _ = rows(g)
    size = x.dims[0]
    order = distinct(g, size)

    def function(x):
        array = tf.TensorArray(x.dtype, size=size, clear_after_read=False).unstack(x)
        return array.gather(order), array.read(order[0])

    g.compose("tensor_array_unstack", function, [x], EXACT_SPECIAL)


@pattern(
    "list from tensor",
    "TensorListFromTensor TensorListSetItem TensorListStack TensorListGather"
    " TensorListGetItem TensorListLength TensorListElementShape",
    weight=0.6,
)
def list_from_tensor(g):
    """Rows in, some changed, and out again in several ways."""
    x = g.wire(g.kind(NUMBER, "AddV2"), rank=(1, 3), test=lambda w: w.dims[:1] != (0,))
    y = g.wire(x.kind, dims=x.dims[1:])
    at, picks = g.integer(0, x.dims[0] - 1), distinct(g, x.dims[0])
    dims, dtype = np.array(x.dims[1:], np.int32), TYPES[x.kind]

    def function(x, y):
        items = raw.TensorListFromTensor(tensor=x, element_shape=dims)
        items = raw.TensorListSetItem(input_handle=items, index=at, item=y)
        return (
            raw.TensorListStack(input_handle=items, element_shape=dims, element_dtype=dtype),
            raw.TensorListGather(input_handle=items, indices=picks, element_shape=dims, element_dtype=dtype),
            raw.TensorListGetItem(
                input_handle=items, index=picks[0], element_shape=dims, element_dtype=dtype
            ),
            raw.TensorListLength(input_handle=items),
            raw.TensorListElementShape(input_handle=items, shape_type=tf.int32),
        )

    g.compose("list_from_tensor", function, [x, y], EXACT_SPECIAL)


@pattern("list pushed", "EmptyTensorList TensorListPushBack TensorListStack", weight=0.6)
def list_pushed(g):
    x = g.wire(g.kind(NUMBER, "AddV2"), rank=(0, 3))
    y, dims, dtype = g.like(x), np.array(x.dims, np.int32), TYPES[x.kind]
    pops = g.chance(0.5)

    def function(x, y):
        items = raw.EmptyTensorList(element_shape=dims, max_num_elements=np.int32(-1), element_dtype=dtype)
        for item in (x, y, x):
            items = raw.TensorListPushBack(input_handle=items, tensor=item)
        outputs = []
        if pops:
            items, last = raw.TensorListPopBack(input_handle=items, element_shape=dims, element_dtype=dtype)
            outputs = [last]
        return [*outputs, raw.TensorListStack(input_handle=items, element_shape=dims, element_dtype=dtype)]

    g.compose("list_pushed", function, [x, y], EXACT_SPECIAL)


@pattern("list reserved", "TensorListReserve TensorListSetItem TensorListResize TensorListStack", weight=0.5)
def list_reserved(g):
    """Unset elements are zeros; then the list is resized."""
    x = g.wire(g.kind(NUMBER, "AddV2"), rank=(0, 3))
    dims, dtype, more = np.array(x.dims, np.int32), TYPES[x.kind], g.integer(2, 5)

    def function(x):
        items = raw.TensorListReserve(element_shape=dims, num_elements=np.int32(2), element_dtype=dtype)
        items = raw.TensorListSetItem(input_handle=items, index=1, item=x)
        items = raw.TensorListResize(input_handle=items, size=np.int32(more))
        return raw.TensorListStack(input_handle=items, element_shape=dims, element_dtype=dtype)

    g.compose("list_reserved", function, [x], EXACT_SPECIAL)


@pattern(
    "list scattered", "TensorListScatterV2 TensorListSplit TensorListConcatV2 TensorListStack", weight=0.4
)
def list_scattered(g):
    x = g.wire(g.kind(NUMBER, "AddV2"), rank=(1, 3), test=lambda w: w.dims[:1] != (0,))
    order = g.random.sample(range(x.dims[0]), x.dims[0])
    dims, dtype = np.array(x.dims[1:], np.int32), TYPES[x.kind]
    join = len(x.dims) > 1

    def function(x):
        items = raw.TensorListScatterV2(
            tensor=x, indices=order, element_shape=dims, num_elements=np.int32(len(order) + 1)
        )
        stacked = raw.TensorListStack(input_handle=items, element_shape=dims, element_dtype=dtype)
        if not join:
            return [stacked]
        lengths = np.array([len(order)], np.int64)
        split = raw.TensorListSplit(tensor=x, element_shape=np.int32(-1), lengths=lengths)
        joined = raw.TensorListConcatV2(
            input_handle=split, element_shape=np.int32(-1), leading_dims=lengths, element_dtype=dtype
        )
        return [stacked, *joined]

    g.compose("list_scattered", function, [x], EXACT_SPECIAL)
