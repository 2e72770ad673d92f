// Index of the first of the largest or the smallest elements along a dimension. NaN is
// skipped; if there is nothing else, the index is 0.
#include "thalweg.cuh"

typedef Element<T>::Wide W;

// An element and its index; `at` is NONE if there is none.
struct Found {
    W value;
    Index at;
};
const Index NONE = ~(Index)0;

struct Largest {
    __device__ static bool is_better(W a, W b) { return a > b; }
};
struct Smallest {
    __device__ static bool is_better(W a, W b) { return a < b; }
};

// The better of two, or the first if they are equal.
template <class Order>
__device__ inline Found better(Found a, Found b) {
    if (a.at == NONE) return b;
    if (b.at == NONE || Order::is_better(a.value, b.value)) return a;
    if (Order::is_better(b.value, a.value)) return b;
    return a.at < b.at ? a : b;
}

// Layout of elements: [outputs / inner][n][inner].
struct Rows {
    Index outputs;
    Index n;
    Index inner;
};

// The best of every `step`th element from `begin` on.
template <class Order>
__device__ inline Found find(const T* input, const Rows& rows, Index output, Index begin,
                             Index step) {
    const T* row = input + output / rows.inner * rows.n * rows.inner + output % rows.inner;
    Found best{W(0), NONE};
    for (Index i = begin; i < rows.n; i += step) {
        const W x = widen(row[i * rows.inner]), same = x;
        if (x == same) best = better<Order>(best, Found{x, i});
    }
    return best;
}

// One block for each output if `together`, otherwise one thread for each.
template <class Order>
__device__ inline void positions(const T* input, U* output, const Rows& rows, u32 together) {
    if (!together) {
        for (Index i = first(); i < rows.outputs; i += stride()) {
            const Found best = find<Order>(input, rows, i, 0, 1);
            output[i] = (U)(best.at == NONE ? 0 : best.at);
        }
        return;
    }
    __shared__ Found shared[256];
    for (Index i = blockIdx.x; i < rows.outputs; i += gridDim.x) {
        shared[threadIdx.x] = find<Order>(input, rows, i, threadIdx.x, blockDim.x);
        __syncthreads();
        for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
            if (threadIdx.x < half) {
                shared[threadIdx.x] =
                    better<Order>(shared[threadIdx.x], shared[threadIdx.x + half]);
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) output[i] = (U)(shared[0].at == NONE ? 0 : shared[0].at);
        __syncthreads();
    }
}

KERNEL(ArgMax, const T* input, U* output, Rows rows, u32 together) {
    positions<Largest>(input, output, rows, together);
}

KERNEL(ArgMin, const T* input, U* output, Rows rows, u32 together) {
    positions<Smallest>(input, output, rows, together);
}
