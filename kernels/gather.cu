// Gathers of slices by index, segment sums of slices, and reversed sequences. An index that is out of range
// lowers the status to its position; the first one counts.
#include "thalweg.cuh"

typedef Element<T>::Wrap Wrap;

#ifdef U_TYPE
// Lowers the status to the position of the first index that is refused.
template <class F>
__device__ inline void check(const U* indices, Index count, u64* status, F is_taken) {
    for (Index i = first(); i < count; i += stride()) {
        if (!is_taken((i64)indices[i])) atomicMin(status, (u64)i);
    }
}

// params[batch][outer][len][inner] by indices[batch][count].
struct Sizes {
    Index batch;
    Index outer;
    Index len;
    Index inner;
    Index count;
};

KERNEL(GatherV2, const T* params, const U* indices, T* output, Index n, Sizes s, u64* status) {
    const auto is_taken = [&](i64 index) { return index >= 0 && index < (i64)s.len; };
    check(indices, s.batch * s.count, status, is_taken);
    for (Index i = first(); i < n; i += stride()) {
        const Index row = i / s.inner, block = row / s.count;
        const i64 index = (i64)indices[block / s.outer * s.count + row % s.count];
        output[i] = is_taken(index)
                        ? params[(block * s.len + (Index)index) * s.inner + i % s.inner]
                        : T{};
    }
}

// A thread for each element of a segment walks all ids, so sums are in the order of the slices.
KERNEL(UnsortedSegmentSum, const T* data, const U* ids, T* output, Index n, Index rows,
       Index inner, Index segments, u64* status) {
    check(ids, rows, status, [&](i64 id) { return id < (i64)segments; });
    for (Index i = first(); i < n; i += stride()) {
        const i64 segment = (i64)(i / inner);
        const Index column = i % inner;
        Wrap sum = Wrap(0);
        for (Index row = 0; row < rows; ++row) {
            if ((i64)ids[row] == segment) sum += (Wrap)widen(data[row * inner + column]);
        }
        output[i] = Narrow<T>::from(sum);
    }
}

// Of each sequence the first elements, as many as its length says, from last to first. A length that is out of range lowers
// the status to its position.
struct Sequences {
    Index batches;
    Index len;
    Index batch_step;
    Index step;
};

KERNEL(ReverseSequence, const T* input, const U* lengths, T* output, Index n, Sequences s,
       u64* status) {
    for (Index i = first(); i < s.batches; i += stride()) {
        if (lengths[i] < 0 || (u64)lengths[i] > s.len) atomicMin(status, (u64)i);
    }
    for (Index i = first(); i < n; i += stride()) {
        const Index length = (Index)lengths[i / s.batch_step % s.batches];
        const Index at = i / s.step % s.len;
        output[i] = input[at < length && length <= s.len ? i + (length - 1 - 2 * at) * s.step : i];
    }
}
#endif
