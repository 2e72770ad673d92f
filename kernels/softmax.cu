// Softmax and cross entropy of rows of logits, one block for a row at a time.
#include "thalweg.cuh"

typedef Element<T>::Wide W;

__device__ inline W larger(W a, W b) { return b > a ? b : a; }
__device__ inline W sum(W a, W b) { return a + b; }

// Joins the values of the threads of a block; all of them get the result. Their number is a power of two, and
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
    // Waits before a thread writes again.
    __syncthreads();
    return all;
}

__device__ inline W infinity() { return (W)__uint_as_float(0x7f800000); }

// The largest logit of a row, and the sum of exp(logit - largest).
__device__ inline W normalizer(const T* x, Index step, Index classes, W& total) {
    W largest = -infinity();
    for (Index i = threadIdx.x; i < classes; i += blockDim.x) {
        largest = larger(largest, widen(x[i * step]));
    }
    largest = joined(largest, larger);
    total = W(0);
    for (Index i = threadIdx.x; i < classes; i += blockDim.x) {
        total += exp(widen(x[i * step]) - largest);
    }
    total = joined(total, sum);
    return largest;
}

// y[i] = of(x[i] - largest, sum of exp(x - largest)).
template <class F>
__device__ inline void rows(const T* input, T* output, Index count, Index classes, F of) {
    for (Index row = blockIdx.x; row < count; row += gridDim.x) {
        const T* x = input + row * classes;
        W total;
        const W largest = normalizer(x, 1, classes, total);
        for (Index i = threadIdx.x; i < classes; i += blockDim.x) {
            output[row * classes + i] = Narrow<T>::from(of(widen(x[i]) - largest, total));
        }
    }
}

KERNEL(Softmax, const T* input, T* output, Index count, Index classes) {
    rows(input, output, count, classes, [](W x, W total) { return exp(x) / total; });
}

KERNEL(LogSoftmax, const T* input, T* output, Index count, Index classes) {
    rows(input, output, count, classes, [](W x, W total) { return x - log(total); });
}

// Steps of logits and labels to the next row and class; 0 if they are repeated.
struct Steps {
    Index x_row, x_class, y_row, y_class;
};

KERNEL(SoftmaxCrossEntropyWithLogits, const T* logits, const T* labels, T* loss, T* backprop,
       Index count, Index classes, Steps steps) {
    for (Index row = blockIdx.x; row < count; row += gridDim.x) {
        const T* x = logits + row * steps.x_row;
        const T* y = labels + row * steps.y_row;
        W total;
        const W largest = normalizer(x, steps.x_class, classes, total), log_total = log(total);
        W own = W(0);
        for (Index i = threadIdx.x; i < classes; i += blockDim.x) {
            const W above = widen(x[i * steps.x_class]) - largest, label = widen(y[i * steps.y_class]);
            // A class of probability 0 contributes nothing, however unlikely the logits make it.
            if (label != W(0)) own += label * (log_total - above);
            backprop[row * classes + i] = Narrow<T>::from(exp(above) / total - label);
        }
        own = joined(own, sum);
        if (threadIdx.x == 0) loss[row] = Narrow<T>::from(own);
    }
}

#ifdef U_TYPE
// A label that is no class makes its row NaN.
KERNEL(SparseSoftmaxCrossEntropyWithLogits, const T* logits, const U* labels, T* loss, T* backprop,
       Index count, Index classes) {
    for (Index row = blockIdx.x; row < count; row += gridDim.x) {
        const T* x = logits + row * classes;
        const i64 own = (i64)labels[row];
        const bool valid = own >= 0 && own < (i64)classes;
        W total;
        const W largest = normalizer(x, 1, classes, total);
        const W nothing = infinity() - infinity();
        for (Index i = threadIdx.x; i < classes; i += blockDim.x) {
            const W part = exp(widen(x[i]) - largest) / total - ((i64)i == own ? W(1) : W(0));
            backprop[row * classes + i] = Narrow<T>::from(valid ? part : nothing);
        }
        if (threadIdx.x == 0) {
            loss[row] = Narrow<T>::from(valid ? log(total) - (widen(x[own]) - largest) : nothing);
        }
    }
}
#endif
