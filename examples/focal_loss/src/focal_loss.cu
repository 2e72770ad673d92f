// The focal loss and its gradient. Entries are named as their ops.
#include "thalweg.cuh"

typedef Element<T>::Wide W;

// log(1 + exp(x)), without an exponential that overflows.
__device__ inline W softplus(W x) { return (x > W(0) ? x : W(0)) + log1p(exp(-fabs(x))); }

KERNEL(FocalLoss, const T* logits, const T* targets, T* loss, Index n, f32 gamma, f32 alpha) {
    for (Index i = first(); i < n; i += stride()) {
        const W x = widen(logits[i]), t = widen(targets[i]);
        const W p = W(1) / (W(1) + exp(-x));
        const W missed = p + t - W(2) * p * t;
        const W weight = W(alpha) * t + (W(1) - W(alpha)) * (W(1) - t);
        loss[i] = Narrow<T>::from(weight * pow(missed, W(gamma)) * (softplus(x) - x * t));
    }
}

KERNEL(FocalLossGrad, const T* gradient, const T* logits, const T* targets, T* backprop, Index n, f32 gamma,
       f32 alpha) {
    for (Index i = first(); i < n; i += stride()) {
        const W x = widen(logits[i]), t = widen(targets[i]);
        const W p = W(1) / (W(1) + exp(-x));
        const W missed = p + t - W(2) * p * t;
        const W weight = W(alpha) * t + (W(1) - W(alpha)) * (W(1) - t);
        const W entropy = softplus(x) - x * t;
        const W slope = (W(1) - W(2) * t) * p * (W(1) - p);
        const W of_missed = missed > W(0) ? W(gamma) * pow(missed, W(gamma) - W(1)) * slope : W(0);
        const W found = weight * (of_missed * entropy + pow(missed, W(gamma)) * (p - t));
        backprop[i] = Narrow<T>::from(widen(gradient[i]) * found);
    }
}
