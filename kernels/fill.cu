// Fills, selections by a condition, and one-hot rows.
#include "thalweg.cuh"

KERNEL(Fill, const T* value, T* output, Index n) {
    const T x = value[0];
    for (Index i = first(); i < n; i += stride()) output[i] = x;
}

KERNEL(ZerosLike, T* output, Index n) {
    for (Index i = first(); i < n; i += stride()) output[i] = T(0);
}

KERNEL(Select, const bool* condition, const T* then, const T* otherwise, T* output, Index n,
       Walk with_then, Walk with_otherwise) {
    for (Index i = first(); i < n; i += stride()) {
        Index at = 0, from = 0;
        locate(with_then, i, at, from);
        if (condition[at]) {
            output[i] = then[from];
        } else {
            at = 0, from = 0;
            locate(with_otherwise, i, at, from);
            output[i] = otherwise[from];
        }
    }
}

#ifdef U_TYPE
// Rows of `depth` elements, `inner` apart: `on` at the index, `off` elsewhere.
KERNEL(OneHot, const U* indices, const T* on, const T* off, T* output, Index n, Index depth,
       Index inner) {
    for (Index i = first(); i < n; i += stride()) {
        Index row = i / inner, index = row % depth;
        i64 wanted = (i64)indices[row / depth * inner + i % inner];
        output[i] = wanted == (i64)index ? on[0] : off[0];
    }
}
#endif
