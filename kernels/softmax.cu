// Rows of logits, a block for each at a time.
#include "thalweg.cuh"

typedef Element<T>::Wide W;

__device__ inline W larger(W a, W b) { return b > a ? b : a; }
__device__ inline W sum(W a, W b) { return a + b; }

// What the threads of a block have, joined; all of them get it. Their number is a power of two, and
// at most 256.
template <class Join>
__device__ inline W joined(W own, Join join) {
    __shared__ W shared[256];
    shared[threadIdx.x] = own;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            shared[threadIdx.x] = join(shared[threadIdx.x], shared[threadIdx.x + half]);
        }
        __syncthreads();
    }
    W all = shared[0];
    // Before anyone writes again.
    __syncthreads();
    return all;
}

// y[i] = of(x[i] - the largest, the sum of e to the powers of these).
template <class F>
__device__ inline void rows(const T* input, T* output, Index count, Index classes, F of) {
    for (Index row = blockIdx.x; row < count; row += gridDim.x) {
        const T* x = input + row * classes;
        T* y = output + row * classes;
        W largest = (W)__uint_as_float(0xff800000);
        for (Index i = threadIdx.x; i < classes; i += blockDim.x) largest = larger(largest, widen(x[i]));
        largest = joined(largest, larger);
        W total = W(0);
        for (Index i = threadIdx.x; i < classes; i += blockDim.x) total += exp(widen(x[i]) - largest);
        total = joined(total, sum);
        for (Index i = threadIdx.x; i < classes; i += blockDim.x) {
            y[i] = Narrow<T>::from(of(widen(x[i]) - largest, total));
        }
    }
}

KERNEL(Softmax, const T* input, T* output, Index count, Index classes) {
    rows(input, output, count, classes, [](W x, W total) { return exp(x) / total; });
}

KERNEL(LogSoftmax, const T* input, T* output, Index count, Index classes) {
    rows(input, output, count, classes, [](W x, W total) { return x - log(total); });
}
