// Strided copies of a box of elements. The type of an element is given by
// its size alone.
#include "thalweg.cuh"

const int MOST_AXES = 12;

// Lengths of the axes, outermost first, and the steps along them for reading and
// for writing; a step of 0 repeats.
struct Box {
    Index rank;
    Index len[MOST_AXES];
    i64 from[MOST_AXES];
    i64 to[MOST_AXES];
};

// Offsets at which element i of the box is read and written.
__device__ inline void locate(const Box& box, Index i, i64& from, i64& to) {
    unravel(box.rank, box.len, i, [&](int axis, Index index) {
        from += (i64)index * box.from[axis];
        to += (i64)index * box.to[axis];
    });
}

KERNEL(Move, const T* input, T* output, Index n, i64 from, i64 to, Box box) {
    for (Index i = first(); i < n; i += stride()) {
        i64 read = from, write = to;
        locate(box, i, read, write);
        output[write] = input[read];
    }
}

KERNEL(Zero, T* output, Index n, i64 to, Box box) {
    for (Index i = first(); i < n; i += stride()) {
        i64 read = 0, write = to;
        locate(box, i, read, write);
        output[write] = T(0);
    }
}
