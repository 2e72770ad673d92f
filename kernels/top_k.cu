// The largest elements of rows. A block takes a row.
#include "thalweg.cuh"

const int BLOCK = 256;

#ifdef U_TYPE
// true if element a of a row comes before element b: descending, equal ones in their order, NaN last.
__device__ inline bool comes_before(const T* row, Index a, Index b) {
    const auto x = widen(row[a]), y = widen(row[b]);
#ifdef T_FLOAT
    const bool x_is_nan = x != x, y_is_nan = y != y;
    if (x_is_nan != y_is_nan) return y_is_nan;
#endif
    return x > y || (!(x < y) && a < b);
}

// One element after the other: the first of those that come after the one before.
KERNEL(TopK, const T* input, T* values, U* indices, Index rows, Index columns, Index k) {
    __shared__ Index shared[BLOCK];
    const Index t = threadIdx.x;
    for (Index r = blockIdx.x; r < rows; r += gridDim.x) {
        const T* row = input + r * columns;
        Index last = columns;
        for (Index j = 0; j < k; ++j) {
            Index own = columns;
            for (Index i = t; i < columns; i += BLOCK) {
                const bool is_left = last == columns || comes_before(row, last, i);
                if (is_left && (own == columns || comes_before(row, i, own))) own = i;
            }
            shared[t] = own;
            __syncthreads();
            for (Index half = BLOCK / 2; half > 0; half /= 2) {
                if (t < half) {
                    const Index a = shared[t], b = shared[t + half];
                    if (b < columns && (a == columns || comes_before(row, b, a))) shared[t] = b;
                }
                __syncthreads();
            }
            last = shared[0];
            if (t == 0) {
                values[r * k + j] = row[last];
                indices[r * k + j] = (U)last;
            }
            __syncthreads();
        }
    }
}

#ifdef T_FLOAT
// true if fewer than k elements of a row are larger than that of its target. A target out of range is none, and neither is
// one in a row with an infinity or NaN.
KERNEL(InTopK, const T* input, const U* targets, bool* output, Index rows, Index columns, i64 k) {
    __shared__ Index above[BLOCK], infinite[BLOCK];
    const Index t = threadIdx.x;
    for (Index r = blockIdx.x; r < rows; r += gridDim.x) {
        const T* row = input + r * columns;
        const i64 target = (i64)targets[r];
        const bool within = target >= 0 && target < (i64)columns;
        const auto least = widen(row[within ? (Index)target : 0]);
        above[t] = 0;
        infinite[t] = 0;
        for (Index i = t; i < columns; i += BLOCK) {
            const auto x = widen(row[i]);
            above[t] += x > least;
            infinite[t] += !(x - x == 0);
        }
        __syncthreads();
        for (Index half = BLOCK / 2; half > 0; half /= 2) {
            if (t < half) {
                above[t] += above[t + half];
                infinite[t] += infinite[t + half];
            }
            __syncthreads();
        }
        if (t == 0) output[r] = within && !infinite[0] && (i64)above[0] < k;
        __syncthreads();
    }
}
#endif
#endif
