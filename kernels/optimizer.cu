// The steps of optimizers: a variable and its slots, in one pass. Entries are named as their ops and
// take what these take, in that order; then the number of elements, and an attribute's flag where
// there is one. Rates are in memory, so that a step that is captured takes new ones.
#include "thalweg.cuh"

typedef Element<T>::Wide W;

__device__ inline W read(const T* scalar) { return widen(scalar[0]); }

KERNEL(ResourceApplyGradientDescent, T* var, const T* rate, const T* grad, Index n) {
    const W alpha = read(rate);
    for (Index i = first(); i < n; i += stride()) {
        var[i] = Narrow<T>::from(widen(var[i]) - alpha * widen(grad[i]));
    }
}

KERNEL(ResourceApplyMomentum, T* var, T* accum, const T* rate, const T* grad, const T* momentum, Index n,
       u32 nesterov) {
    const W lr = read(rate), decay = read(momentum);
    for (Index i = first(); i < n; i += stride()) {
        const W g = widen(grad[i]), sum = widen(accum[i]) * decay + g;
        const W step = nesterov ? g * lr + sum * decay * lr : sum * lr;
        var[i] = Narrow<T>::from(widen(var[i]) - step);
        accum[i] = Narrow<T>::from(sum);
    }
}

KERNEL(ResourceApplyAdam, T* var, T* m, T* v, const T* beta1_power, const T* beta2_power, const T* rate,
       const T* beta1, const T* beta2, const T* epsilon, const T* grad, Index n, u32 nesterov) {
    const W b1 = read(beta1), new1 = W(1) - b1, new2 = W(1) - read(beta2), eps = read(epsilon);
    const W alpha = read(rate) * sqrt(W(1) - read(beta2_power)) / (W(1) - read(beta1_power));
    for (Index i = first(); i < n; i += stride()) {
        const W g = widen(grad[i]);
        W mean = widen(m[i]), square = widen(v[i]);
        mean += (g - mean) * new1;
        square += (g * g - square) * new2;
        const W ahead = nesterov ? g * new1 + b1 * mean : mean;
        var[i] = Narrow<T>::from(widen(var[i]) - ahead * alpha / (sqrt(square) + eps));
        m[i] = Narrow<T>::from(mean);
        v[i] = Narrow<T>::from(square);
    }
}

__device__ inline void adagrad(T* var, T* accum, W lr, W eps, const T* grad, Index n, bool grow) {
    for (Index i = first(); i < n; i += stride()) {
        const W g = widen(grad[i]);
        const W sum = grow ? widen(accum[i]) + g * g : widen(accum[i]);
        var[i] = Narrow<T>::from(widen(var[i]) - lr * g / (sqrt(sum) + eps));
        accum[i] = Narrow<T>::from(sum);
    }
}

KERNEL(ResourceApplyAdagrad, T* var, T* accum, const T* rate, const T* grad, Index n, u32 grow) {
    adagrad(var, accum, read(rate), W(0), grad, n, grow);
}

KERNEL(ResourceApplyAdagradV2, T* var, T* accum, const T* rate, const T* epsilon, const T* grad, Index n,
       u32 grow) {
    adagrad(var, accum, read(rate), read(epsilon), grad, n, grow);
}

KERNEL(ResourceApplyRMSProp, T* var, T* ms, T* mom, const T* rate, const T* rho, const T* momentum,
       const T* epsilon, const T* grad, Index n) {
    const W lr = read(rate), fresh = W(1) - read(rho), decay = read(momentum), eps = read(epsilon);
    for (Index i = first(); i < n; i += stride()) {
        const W g = widen(grad[i]);
        W square = widen(ms[i]);
        square += (g * g - square) * fresh;
        const W step = widen(mom[i]) * decay + lr * g / sqrt(square + eps);
        var[i] = Narrow<T>::from(widen(var[i]) - step);
        ms[i] = Narrow<T>::from(square);
        mom[i] = Narrow<T>::from(step);
    }
}

KERNEL(ResourceApplyCenteredRMSProp, T* var, T* mg, T* ms, T* mom, const T* rate, const T* rho,
       const T* momentum, const T* epsilon, const T* grad, Index n) {
    const W lr = read(rate), fresh = W(1) - read(rho), decay = read(momentum), eps = read(epsilon);
    for (Index i = first(); i < n; i += stride()) {
        const W g = widen(grad[i]);
        W mean = widen(mg[i]), square = widen(ms[i]);
        square += (g * g - square) * fresh;
        mean += (g - mean) * fresh;
        const W step = widen(mom[i]) * decay + lr * g / sqrt(square - mean * mean + eps);
        var[i] = Narrow<T>::from(widen(var[i]) - step);
        mg[i] = Narrow<T>::from(mean);
        ms[i] = Narrow<T>::from(square);
        mom[i] = Narrow<T>::from(step);
    }
}
