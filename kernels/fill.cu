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

// A condition decides on `each` elements that lie side by side.
KERNEL(SelectSlices, const bool* condition, const T* then, const T* otherwise, T* output, Index n,
       Index each) {
    for (Index i = first(); i < n; i += stride()) {
        output[i] = condition[i / each] ? then[i] : otherwise[i];
    }
}

// The band of matrices around their main diagonals; a negative number of diagonals is all.
KERNEL(MatrixBandPart, const T* input, T* output, Index n, Index rows, Index columns, i64 lower,
       i64 upper) {
    for (Index i = first(); i < n; i += stride()) {
        const i64 row = (i64)(i / columns % rows), column = (i64)(i % columns);
        const bool below = lower < 0 || row - column <= lower;
        output[i] = below && (upper < 0 || column - row <= upper) ? input[i] : T(0);
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
