// Pooling over windows, channel by channel. Gradients gather: a thread walks the windows
// that contain its pixel, in their order, so that no two threads add to one element.
#include "thalweg.cuh"

typedef Element<T>::Wide W;
typedef Element<T>::Wrap Wrap;

// One axis of a pooling: window `o` contains the `window` pixels from `o * stride - pad` on, as
// far as they lie inside; at least one does.
struct Axis {
    Index in;
    Index out;
    Index window;
    Index stride;
    Index pad;
};

// Layout of elements: [outer][line][column][inner].
struct Pool {
    Axis lines;
    Axis columns;
    Index inner;
};

struct Range {
    Index begin;
    Index end;
};

// Range of pixels in a window.
__device__ inline Range seen(const Axis& axis, Index window) {
    const Index start = window * axis.stride, end = start + axis.window - axis.pad;
    return {start > axis.pad ? start - axis.pad : 0, end < axis.in ? end : axis.in};
}

// Range of windows that contain a pixel.
__device__ inline Range seeing(const Axis& axis, Index pixel) {
    const Index at = pixel + axis.pad, end = at / axis.stride + 1;
    const Index begin = at < axis.window ? 0 : (at - axis.window) / axis.stride + 1;
    return {begin, end < axis.out ? end : axis.out};
}

// Position of element i of images of this size.
struct Place {
    Index outer;
    Index line;
    Index column;
    Index inner;
};

__device__ inline Place place(Index lines, Index columns, Index inner, Index i) {
    const Index pixel = i / inner, line = pixel / columns;
    return {line / lines, line % lines, pixel % columns, i % inner};
}

// Calls f(at) for each element in window i, line by line, and returns their number.
template <class F>
__device__ inline Index each_seen(const Pool& p, Index i, F f) {
    const Place out = place(p.lines.out, p.columns.out, p.inner, i);
    const Range y = seen(p.lines, out.line), x = seen(p.columns, out.column);
    for (Index line = y.begin; line < y.end; ++line) {
        const Index row = (out.outer * p.lines.in + line) * p.columns.in;
        for (Index column = x.begin; column < x.end; ++column) {
            f((row + column) * p.inner + out.inner);
        }
    }
    return (y.end - y.begin) * (x.end - x.begin);
}

// Calls f(window) for each window that contains element i of the images, line by line.
template <class F>
__device__ inline void each_seeing(const Pool& p, Index i, F f) {
    const Place in = place(p.lines.in, p.columns.in, p.inner, i);
    const Range y = seeing(p.lines, in.line), x = seeing(p.columns, in.column);
    for (Index line = y.begin; line < y.end; ++line) {
        const Index row = (in.outer * p.lines.out + line) * p.columns.out;
        for (Index column = x.begin; column < x.end; ++column) {
            f((row + column) * p.inner + in.inner);
        }
    }
}

// Only NaN differs from itself.
template <class E>
__device__ inline bool is_nan(E x) {
    const E same = x;
    return x != same;
}

// Elements of 16 bytes, which are loaded and stored together where the channels come last in whole packs.
const int LANES = 16 / sizeof(T);

// A pooling of packs of L elements.
template <int L>
__device__ inline Pool in_packs(const Pool& p) {
    return {p.lines, p.columns, p.inner / L};
}

// The maximum, or NaN.
template <int L>
__device__ inline void max_pool(const T* input, T* output, Index n, const Pool& pool) {
    const Pool packs = in_packs<L>(pool);
    for (Index i = first(); i < n / L; i += stride()) {
        W best[L] = {};
        bool begun = false;
        each_seen(packs, i, [&](Index at) {
            const Pack<T, L> own = ((const Pack<T, L>*)input)[at];
#pragma unroll
            for (int k = 0; k < L; ++k) {
                const W x = widen(own.at[k]);
                if (!begun || x > best[k] || is_nan(x)) best[k] = x;
            }
            begun = true;
        });
        Pack<T, L> out;
#pragma unroll
        for (int k = 0; k < L; ++k) out.at[k] = Narrow<T>::from(best[k]);
        ((Pack<T, L>*)output)[i] = out;
    }
}

KERNEL(MaxPool, const T* input, T* output, Index n, Pool pool) {
    if (pool.inner % LANES == 0) {
        max_pool<LANES>(input, output, n, pool);
    } else {
        max_pool<1>(input, output, n, pool);
    }
}

// true if element i is the first of the largest in this window; if there are NaNs, the first NaN
// counts as the largest.
__device__ inline bool is_largest(const T* input, const Pool& pool, Index window, Index i) {
    const W own = widen(input[i]);
    bool largest = true;
    each_seen(pool, window, [&](Index at) {
        const W x = widen(input[at]);
        if (at < i) {
            largest = largest && !is_nan(x) && (is_nan(own) || x < own);
        } else if (at > i) {
            largest = largest && (is_nan(own) || x <= own);
        }
    });
    return largest;
}

KERNEL(MaxPoolGrad, const T* input, const T* gradient, T* output, Index n, Pool pool) {
    for (Index i = first(); i < n; i += stride()) {
        Wrap sum = Wrap(0);
        each_seeing(pool, i, [&](Index window) {
            if (is_largest(input, pool, window, i)) sum += (Wrap)widen(gradient[window]);
        });
        output[i] = Narrow<T>::from(sum);
    }
}

// For each window, the value at the first of its largest elements, or at the first NaN.
KERNEL(MaxPoolGradGrad, const T* input, const T* gradient, T* output, Index n, Pool pool) {
    for (Index i = first(); i < n; i += stride()) {
        W best = W(0);
        Index found = 0;
        bool begun = false;
        each_seen(pool, i, [&](Index at) {
            const W x = widen(input[at]);
            if (!begun || (!is_nan(best) && (x > best || is_nan(x)))) {
                best = x;
                found = at;
            }
            begun = true;
        });
        output[i] = gradient[found];
    }
}

#ifdef U_TYPE
// Indices start again after this many elements; comparisons with NaN are false.
KERNEL(MaxPoolWithArgmax, const T* input, T* output, U* places, Index n, Pool pool, Index image) {
    for (Index i = first(); i < n; i += stride()) {
        W best = W(0);
        Index found = 0;
        bool begun = false;
        each_seen(pool, i, [&](Index at) {
            const W x = widen(input[at]);
            if (!begun || x > best) {
                best = x;
                found = at;
            }
            begun = true;
        });
        output[i] = Narrow<T>::from(best);
        places[i] = (U)(found % image);
    }
}

// The first window whose index is not one of its elements.
KERNEL(MaxPoolPlaces, const U* places, Index n, Pool pool, Index image, u64* status) {
    for (Index i = first(); i < n; i += stride()) {
        bool own = false;
        each_seen(pool, i, [&](Index at) { own = own || (i64)(at % image) == (i64)places[i]; });
        if (!own) atomicMin(status, (u64)i);
    }
}

KERNEL(MaxPoolGradWithArgmax, const T* gradient, const U* places, T* output, Index n, Pool pool,
       Index image) {
    for (Index i = first(); i < n; i += stride()) {
        Wrap sum = Wrap(0);
        each_seeing(pool, i, [&](Index window) {
            if ((i64)(i % image) == (i64)places[window]) sum += (Wrap)widen(gradient[window]);
        });
        output[i] = Narrow<T>::from(sum);
    }
}
#endif

#ifdef T_FLOAT
// The maximum of each window, and the index of its first largest element in the part of the window inside of the image,
// line by line; if there are NaNs, the first NaN counts as the largest.
template <int L>
__device__ inline void store_argmax(const T* input, T* output, u8* which, Index n, const Pool& pool) {
    const Pool packs = in_packs<L>(pool);
    for (Index i = first(); i < n / L; i += stride()) {
        W best[L] = {};
        Pack<u8, L> found = {};
        u32 number = 0;
        each_seen(packs, i, [&](Index at) {
            const Pack<T, L> own = ((const Pack<T, L>*)input)[at];
#pragma unroll
            for (int k = 0; k < L; ++k) {
                const W x = widen(own.at[k]);
                if (number == 0 || x > best[k] || (is_nan(x) && !is_nan(best[k]))) {
                    best[k] = x;
                    found.at[k] = (u8)number;
                }
            }
            ++number;
        });
        Pack<T, L> out;
#pragma unroll
        for (int k = 0; k < L; ++k) out.at[k] = Narrow<T>::from(best[k]);
        ((Pack<T, L>*)output)[i] = out;
        ((Pack<u8, L>*)which)[i] = found;
    }
}

KERNEL(MaxPoolStoreArgmax, const T* input, T* output, u8* which, Index n, Pool pool) {
    if (pool.inner % LANES == 0) {
        store_argmax<LANES>(input, output, which, n, pool);
    } else {
        store_argmax<1>(input, output, which, n, pool);
    }
}

// The gradients of the windows whose stored index is that of the element.
template <int L>
__device__ inline void stored_argmax_grad(const T* gradient, const u8* which, T* output, Index n,
                                          const Pool& pool) {
    const Pool packs = in_packs<L>(pool);
    for (Index i = first(); i < n / L; i += stride()) {
        const Place in = place(pool.lines.in, pool.columns.in, packs.inner, i);
        const Range windows = seeing(pool.columns, in.column), y = seeing(pool.lines, in.line);
        Wrap sums[L];
#pragma unroll
        for (int k = 0; k < L; ++k) sums[k] = Wrap(0);
        for (Index line = y.begin; line < y.end; ++line) {
            const Index above = in.line - seen(pool.lines, line).begin;
            const Index row = (in.outer * pool.lines.out + line) * pool.columns.out;
            for (Index column = windows.begin; column < windows.end; ++column) {
                const Range x = seen(pool.columns, column);
                const u32 own = (u32)(above * (x.end - x.begin) + in.column - x.begin);
                const Index window = (row + column) * packs.inner + in.inner;
                const Pack<u8, L> found = ((const Pack<u8, L>*)which)[window];
                const Pack<T, L> dy = ((const Pack<T, L>*)gradient)[window];
#pragma unroll
                for (int k = 0; k < L; ++k) {
                    if (found.at[k] == own) sums[k] += (Wrap)widen(dy.at[k]);
                }
            }
        }
        Pack<T, L> out;
#pragma unroll
        for (int k = 0; k < L; ++k) out.at[k] = Narrow<T>::from(sums[k]);
        ((Pack<T, L>*)output)[i] = out;
    }
}

KERNEL(MaxPoolGradStoredArgmax, const T* gradient, const u8* which, T* output, Index n, Pool pool) {
    if (pool.inner % LANES == 0) {
        stored_argmax_grad<LANES>(gradient, which, output, n, pool);
    } else {
        stored_argmax_grad<1>(gradient, which, output, n, pool);
    }
}

KERNEL(AvgPool, const T* input, T* output, Index n, Pool pool) {
    for (Index i = first(); i < n; i += stride()) {
        W sum = W(0);
        const Index count = each_seen(pool, i, [&](Index at) { sum += widen(input[at]); });
        output[i] = Narrow<T>::from(sum / W(count));
    }
}

KERNEL(AvgPoolGrad, const T* gradient, T* output, Index n, Pool pool) {
    for (Index i = first(); i < n; i += stride()) {
        W sum = W(0);
        each_seeing(pool, i, [&](Index window) {
            const Index count = each_seen(pool, window, [](Index) {});
            sum += widen(gradient[window]) / W(count);
        });
        output[i] = Narrow<T>::from(sum);
    }
}
#endif
