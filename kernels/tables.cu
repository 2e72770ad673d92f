// Copies by a table of offsets for each axis, and sums along an axis by lists of its elements.
#include "thalweg.cuh"

typedef Element<T>::Wrap Wrap;

// Lengths of the axes, outermost first, and where the table of each begins. So many elements are adjacent in both tensors.
struct Tables {
    Index rank;
    Index each;
    Index len[MOST_DIMS];
    Index start[MOST_DIMS];
};

// The offset of element i by the tables.
__device__ inline Index located(const Tables& s, const u64* tables, Index i) {
    Index at = i % s.each;
    unravel(s.rank, s.len, i / s.each, [&](int axis, Index index) {
        at += (Index)tables[s.start[axis] + index];
    });
    return at;
}

KERNEL(GatherByTables, const T* input, T* output, const u64* tables, Index n, Tables s) {
    for (Index i = first(); i < n; i += stride()) output[i] = input[located(s, tables, i)];
}

KERNEL(ScatterByTables, const T* input, T* output, const u64* tables, Index n, Tables s) {
    for (Index i = first(); i < n; i += stride()) output[located(s, tables, i)] = input[i];
}

// A tensor [outer][from][inner] summed to [outer][to][inner]: element j along the axis is the sum of those in
// from[starts[j]] to before from[starts[j + 1]].
struct Axis {
    Index from;
    Index to;
    Index inner;
};

// Calls f(offset, k) for each element k of the lists that element i of the output is the sum of.
template <class F>
__device__ inline void each_listed(const u64* starts, const u64* from, Index i, Axis axis, F f) {
    const Index row = i / axis.inner, outer = row / axis.to, at = row % axis.to;
    for (Index k = (Index)starts[at]; k < (Index)starts[at + 1]; ++k) {
        f((outer * axis.from + (Index)from[k]) * axis.inner + i % axis.inner, k);
    }
}

KERNEL(SumAlongAxis, const T* input, T* output, const u64* starts, const u64* from, Index n,
       Axis axis) {
    for (Index i = first(); i < n; i += stride()) {
        Wrap sum = Wrap(0);
        each_listed(starts, from, i, axis, [&](Index at, Index k) { sum += (Wrap)widen(input[at]); });
        output[i] = Narrow<T>::from(sum);
    }
}

#ifdef U_TYPE
// Of each element along the axis: two elements, and the fraction of the way from the first to the second.
KERNEL(LerpAlongAxis, const T* input, U* output, const u64* low, const u64* high,
       const f64* fractions, Index n, Axis axis) {
    for (Index i = first(); i < n; i += stride()) {
        const Index row = i / axis.inner, outer = row / axis.to, at = row % axis.to;
        const auto of = [&](u64 from) {
            return (f32)widen(input[(outer * axis.from + (Index)from) * axis.inner + i % axis.inner]);
        };
        const f32 a = of(low[at]), b = of(high[at]);
        output[i] = Narrow<U>::from((Element<U>::Wide)(a + (b - a) * (f32)fractions[at]));
    }
}

KERNEL(WeighAlongAxis, const T* input, U* output, const u64* starts, const u64* from,
       const f64* weights, Index n, Axis axis) {
    for (Index i = first(); i < n; i += stride()) {
        f32 sum = 0;
        each_listed(starts, from, i, axis, [&](Index at, Index k) {
            sum += (f32)widen(input[at]) * (f32)weights[k];
        });
        output[i] = Narrow<U>::from((Element<U>::Wide)sum);
    }
}
#endif
