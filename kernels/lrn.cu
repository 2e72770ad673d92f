// Local response normalization over channels, which come last.
#include "thalweg.cuh"

struct Response {
    Index channels;
    Index radius;
};

// Calls f(i) for each neighbour of element `at` among the channels.
template <class F>
__device__ inline void each_neighbour(const Response& r, Index at, F f) {
    const Index own = at % r.channels, pixel = at - own;
    const Index begin = own > r.radius ? own - r.radius : 0;
    const Index end = own + r.radius + 1 < r.channels ? own + r.radius + 1 : r.channels;
    for (Index c = begin; c < end; ++c) f(pixel + c);
}

__device__ inline f32 norm(const T* x, const Response& r, Index at, f32 bias, f32 alpha) {
    f32 sum = 0;
    each_neighbour(r, at, [&](Index i) { sum += widen(x[i]) * widen(x[i]); });
    return bias + alpha * sum;
}

KERNEL(LRN, const T* x, T* y, Index n, Response r, f32 bias, f32 alpha, f32 beta) {
    for (Index i = first(); i < n; i += stride()) {
        y[i] = Narrow<T>::from(widen(x[i]) * pow(norm(x, r, i, bias, alpha), -beta));
    }
}

KERNEL(LRNNorms, const T* x, f32* norms, Index n, Response r, f32 bias, f32 alpha) {
    for (Index i = first(); i < n; i += stride()) norms[i] = norm(x, r, i, bias, alpha);
}

KERNEL(LRNGrad, const T* dy, const T* x, const T* y, const f32* norms, T* dx, Index n, Response r,
       f32 alpha, f32 beta) {
    for (Index i = first(); i < n; i += stride()) {
        f32 sum = 0;
        each_neighbour(r, i, [&](Index k) { sum += widen(dy[k]) * widen(y[k]) / norms[k]; });
        const f32 own = widen(dy[i]) * pow(norms[i], -beta);
        dx[i] = Narrow<T>::from(own - 2 * alpha * beta * widen(x[i]) * sum);
    }
}
