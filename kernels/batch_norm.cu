// Batch normalization: statistics of the elements of each channel, and the normalization by them.
#include "thalweg.cuh"

// Layout of elements: [before][channel][after].
struct Channels {
    Index channels;
    Index after;
};

__device__ inline Index place(const Channels& g, Index channel, Index k) {
    if (g.after == 1) return k * g.channels + channel;
    const Index before = k / g.after;
    return (before * g.channels + channel) * g.after + (k - before * g.after);
}

__device__ inline Index channel_of(const Channels& g, Index i) {
    return (g.after == 1 ? i : i / g.after) % g.channels;
}

// Number of elements, their sum, and the sum of squared deviations from their mean.
struct Moments {
    f32 count;
    f32 sum;
    f32 squares;
};

// Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances.
__device__ inline Moments join(const Moments& a, const Moments& b) {
    if (a.count == 0) return b;
    if (b.count == 0) return a;
    const f32 apart = b.sum / b.count - a.sum / a.count, count = a.count + b.count;
    return Moments{count, a.sum + b.sum,
                   a.squares + b.squares + apart * apart * (a.count * (b.count / count))};
}

__device__ inline f32 infinity() { return __uint_as_float(0x7f800000); }

// Channels that are loaded together where they are adjacent, and rows of them that are on their way at a time.
const int LANES = 16 / sizeof(T);
const int ROWS = 4;

__device__ inline bool is_packed(const Channels& g) { return g.after == 1 && g.channels % LANES == 0; }

// Calls f(channel, begin, end, sums) for each group of adjacent channels of each segment; it writes the sums, one for each lane.
template <class Sum, class F>
__device__ inline void by_packed_segment(const Segments& s, Sum* partial, F f) {
    const Index groups = s.outputs / LANES;
    for (Index i = first(); i < groups * s.segments; i += stride()) {
        const Index channel = i % groups * LANES, begin = i / groups * s.each;
        const Index end = begin + s.each < s.count ? begin + s.each : s.count;
        f(channel, begin, end, partial + i / groups * s.outputs + channel);
    }
}

// Calls f(packs) for rows from `begin` on, ROWS at a time: all are loaded before the first is used.
template <class F>
__device__ inline void each_row(const T* x, Index channels, Index begin, Index end, F f) {
    typedef Pack<T, LANES> Row;
    Index k = begin;
    for (; k + ROWS <= end; k += ROWS) {
        Row rows[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) rows[r] = *(const Row*)(x + (k + r) * channels);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) f(rows[r], k + r);
    }
    for (; k < end; ++k) f(*(const Row*)(x + k * channels), k);
}

__device__ inline void packed_moments(const T* x, Moments* partial, const Channels& g,
                                      const Segments& segments) {
    by_packed_segment(segments, partial, [&](Index channel, Index begin, Index end, Moments* to) {
        f32 some[LANES], above[LANES] = {}, squares[LANES] = {};
#pragma unroll
        for (int j = 0; j < LANES; ++j) {
            some[j] = begin < end ? widen(x[begin * g.channels + channel + j]) : 0;
        }
        each_row(x + channel, g.channels, begin, end, [&](const Pack<T, LANES>& row, Index) {
#pragma unroll
            for (int j = 0; j < LANES; ++j) {
                const f32 own = widen(row.at[j]) - some[j];
                above[j] += own;
                squares[j] += own * own;
            }
        });
        const f32 count = begin < end ? (f32)(end - begin) : 0;
#pragma unroll
        for (int j = 0; j < LANES; ++j) {
            const f32 around = count == 0 ? 0 : squares[j] - above[j] * (above[j] / count);
            to[j] = Moments{count, above[j] + some[j] * count, around < 0 ? 0 : around};
        }
    });
}

KERNEL(BatchNormMoments, const T* x, Moments* partial, Channels g, Segments segments) {
    if (is_packed(g)) return packed_moments(x, partial, g, segments);
    by_segment(segments, partial, [&](Index channel, Index begin, Index step, Index end) {
        // Relative to one of them, so that the squares are of numbers about as large as the deviation.
        const f32 some = begin < end ? widen(x[place(g, channel, begin)]) : 0;
        f32 count = 0, sum = 0, above = 0, squares = 0;
        for (Index k = begin; k < end; k += step) {
            const f32 own = widen(x[place(g, channel, k)]);
            count += 1;
            sum += own;
            above += own - some;
            squares += (own - some) * (own - some);
        }
        const f32 around = count == 0 ? 0 : squares - above * (above / count);
        return Moments{count, sum, around < 0 ? 0 : around};
    });
}

// The factor of deviations from the mean.
__device__ inline f32 rate_of(f32 scale, f32 variance, f32 epsilon) { return scale / sqrt(variance + epsilon); }

// Clears the op's last output, if it has one.
__device__ inline void clear(f32* reserve) {
    if (reserve && first() == 0) reserve[0] = 0;
}

// Statistics of all elements: the running mean and variance, those of this step, and the scale of deviations.
KERNEL(BatchNormStatistics, const Moments* partial, const f32* scale, const f32* old_mean,
       const f32* old_variance, f32* batch_mean, f32* batch_variance, f32* own_mean,
       f32* own_variance, f32* rate, Segments segments, f32 epsilon, f32 factor, f32* reserve) {
    clear(reserve);
    together(segments, partial, Moments{0, 0, 0}, [&](Index c, const Moments& all) {
        if (all.count == 0) {
            batch_mean[c] = batch_variance[c] = infinity() - infinity();
            own_mean[c] = own_variance[c] = 0;
            return;
        }
        const f32 mean = all.sum / all.count, variance = all.squares / all.count;
        const f32 unbiased = all.squares / (all.count > 1 ? all.count - 1 : 1);
        own_mean[c] = mean;
        own_variance[c] = variance;
        batch_mean[c] = factor == 1 ? mean : (1 - factor) * old_mean[c] + factor * mean;
        batch_variance[c] =
            factor == 1 ? unbiased : (1 - factor) * old_variance[c] + factor * unbiased;
        rate[c] = rate_of(scale[c], variance, epsilon);
    });
}

// The same with the mean and the variance that are given.
KERNEL(BatchNormFixed, const f32* scale, const f32* mean, const f32* variance, f32* batch_mean,
       f32* batch_variance, f32* own_mean, f32* own_variance, f32* rate, Index channels, f32 epsilon,
       f32* reserve) {
    clear(reserve);
    for (Index c = first(); c < channels; c += stride()) {
        batch_mean[c] = mean[c];
        batch_variance[c] = variance[c];
        own_mean[c] = own_variance[c] = 0;
        rate[c] = rate_of(scale[c], variance[c], epsilon);
    }
}

// The channel's mean, the factor of deviations from it, and the offset.
struct Scaled {
    f32 mean;
    f32 rate;
    f32 offset;
};

__device__ inline f32 scaled(f32 x, const Scaled& own) { return (x - own.mean) * own.rate + own.offset; }

// The normalized elements, plus those of a tensor with ADDS, and without negative ones with `relu`.
template <bool ADDS>
__device__ inline void normalize(const T* x, const T* side, const f32* mean, const f32* rate,
                                 const f32* offset, T* y, Index n, const Channels& g, Index relu) {
    const auto bounded = [&](f32 y) { return Narrow<T>::from(relu && y < 0 ? 0 : y); };
    if (is_packed(g)) {
        for (Index i = first(); i < n / LANES; i += stride()) {
            const Index c = i * LANES % g.channels;
            const Pack<T, LANES> in = ((const Pack<T, LANES>*)x)[i];
            Pack<T, LANES> more;
            if (ADDS) more = ((const Pack<T, LANES>*)side)[i];
            const Pack<f32, LANES> m = *(const Pack<f32, LANES>*)(mean + c);
            const Pack<f32, LANES> r = *(const Pack<f32, LANES>*)(rate + c);
            const Pack<f32, LANES> o = *(const Pack<f32, LANES>*)(offset + c);
            Pack<T, LANES> out;
#pragma unroll
            for (int j = 0; j < LANES; ++j) {
                f32 own = scaled(widen(in.at[j]), Scaled{m.at[j], r.at[j], o.at[j]});
                if (ADDS) own += widen(more.at[j]);
                out.at[j] = bounded(own);
            }
            ((Pack<T, LANES>*)y)[i] = out;
        }
        return;
    }
    for (Index i = first(); i < n; i += stride()) {
        const Index c = channel_of(g, i);
        f32 own = scaled(widen(x[i]), Scaled{mean[c], rate[c], offset[c]});
        if (ADDS) own += widen(side[i]);
        y[i] = bounded(own);
    }
}

KERNEL(BatchNorm, const T* x, const f32* mean, const f32* rate, const f32* offset, T* y, Index n,
       Channels g, Index relu) {
    normalize<false>(x, x, mean, rate, offset, y, n, g, relu);
}

KERNEL(BatchNormAdd, const T* x, const f32* mean, const f32* rate, const f32* offset, T* y, Index n,
       Channels g, Index relu, const T* side) {
    normalize<true>(x, side, mean, rate, offset, y, n, g, relu);
}

// A gradient behind a ReLU: that of an element whose normalized value is positive. The value is computed again, with the
// rounding of the forward pass.
__device__ inline f32 behind_relu(f32 dy, f32 x, const Scaled& own) {
    return widen(Narrow<T>::from(scaled(x, own))) > 0 ? dy : 0;
}

// Parameters of each channel for the gradient of a ReLU, beside the mean.
struct Scaling {
    const f32* scale;
    const f32* variance;
    const f32* offset;
    f32 epsilon;

    __device__ f32 rate(Index c) const { return rate_of(scale[c], variance[c], epsilon); }
};

// Sums of the gradients, and of their products with the elements' deviations from the mean.
struct Products {
    f32 gradients;
    f32 products;
};

__device__ inline Products join(const Products& a, const Products& b) {
    return Products{a.gradients + b.gradients, a.products + b.products};
}

template <bool RELU>
__device__ inline void packed_products(const T* dy, const T* x, const f32* mean, const Scaling& scaling,
                                       Products* partial, const Channels& g, const Segments& segments) {
    by_packed_segment(segments, partial, [&](Index channel, Index begin, Index end, Products* to) {
        const Pack<f32, LANES> middle = *(const Pack<f32, LANES>*)(mean + channel);
        Pack<f32, LANES> r, o;
        if (RELU) {
            o = *(const Pack<f32, LANES>*)(scaling.offset + channel);
#pragma unroll
            for (int j = 0; j < LANES; ++j) r.at[j] = scaling.rate(channel + j);
        }
        f32 gradients[LANES] = {}, products[LANES] = {};
        each_row(dy + channel, g.channels, begin, end, [&](const Pack<T, LANES>& row, Index k) {
            const Pack<T, LANES> own = *(const Pack<T, LANES>*)(x + k * g.channels + channel);
#pragma unroll
            for (int j = 0; j < LANES; ++j) {
                const f32 in = widen(own.at[j]);
                f32 gradient = widen(row.at[j]);
                if (RELU) gradient = behind_relu(gradient, in, Scaled{middle.at[j], r.at[j], o.at[j]});
                gradients[j] += gradient;
                products[j] += gradient * (in - middle.at[j]);
            }
        });
#pragma unroll
        for (int j = 0; j < LANES; ++j) to[j] = Products{gradients[j], products[j]};
    });
}

template <bool RELU>
__device__ inline void sum_products(const T* dy, const T* x, const f32* mean, const Scaling& scaling,
                                    Products* partial, const Channels& g, const Segments& segments) {
    if (is_packed(g)) return packed_products<RELU>(dy, x, mean, scaling, partial, g, segments);
    by_segment(segments, partial, [&](Index channel, Index begin, Index step, Index end) {
        Products all = {0, 0};
        Scaled scaled = {mean[channel], 0, 0};
        if (RELU) scaled = {mean[channel], scaling.rate(channel), scaling.offset[channel]};
        for (Index k = begin; k < end; k += step) {
            const Index at = place(g, channel, k);
            const f32 in = widen(x[at]);
            f32 own = widen(dy[at]);
            if (RELU) own = behind_relu(own, in, scaled);
            all.gradients += own;
            all.products += own * (in - scaled.mean);
        }
        return all;
    });
}

KERNEL(BatchNormProducts, const T* dy, const T* x, const f32* mean, Products* partial, Channels g,
       Segments segments) {
    sum_products<false>(dy, x, mean, Scaling{}, partial, g, segments);
}

KERNEL(BatchNormReluProducts, const T* dy, const T* x, const f32* mean, const f32* scale,
       const f32* variance, const f32* offset, f32 epsilon, Products* partial, Channels g,
       Segments segments) {
    sum_products<true>(dy, x, mean, Scaling{scale, variance, offset, epsilon}, partial, g, segments);
}

// Three numbers of each channel, one after the other for all channels: the factor of the gradient, the factor of the
// element's deviation to subtract, and a constant to subtract.
KERNEL(BatchNormGradients, const Products* partial, const f32* scale, const f32* variance,
       f32* to_scale, f32* to_offset, f32* factors, Segments segments, f32 epsilon) {
    together(segments, partial, Products{0, 0}, [&](Index c, const Products& all) {
        if (segments.count == 0) {
            to_scale[c] = to_offset[c] = 0;
            return;
        }
        const f32 square = variance[c] + epsilon, deviation = sqrt(square);
        const f32 rate = rate_of(scale[c], variance[c], epsilon), count = (f32)segments.count;
        to_scale[c] = all.products / deviation;
        to_offset[c] = all.gradients;
        factors[c] = rate;
        factors[segments.outputs + c] = rate * (all.products / count) / square;
        factors[2 * segments.outputs + c] = rate * (all.gradients / count);
    });
}

template <bool RELU>
__device__ inline void write_gradients(const T* dy, const T* x, const f32* mean, const f32* offset,
                                       const f32* factors, T* dx, Index n, const Channels& g,
                                       Index training) {
    const f32 *along = factors + g.channels, *less = along + g.channels;
    const auto of = [&](T gradient, T in, f32 middle, f32 factor, f32 along, f32 less) {
        f32 grad = widen(gradient) * factor;
        if (training) grad = grad - (widen(in) - middle) * along - less;
        return Narrow<T>::from(grad);
    };
    if (is_packed(g)) {
        for (Index i = first(); i < n / LANES; i += stride()) {
            const Index c = i * LANES % g.channels;
            Pack<T, LANES> gradients = ((const Pack<T, LANES>*)dy)[i];
            const Pack<T, LANES> in = ((const Pack<T, LANES>*)x)[i];
            const auto channels = [&](const f32* from) { return *(const Pack<f32, LANES>*)(from + c); };
            const Pack<f32, LANES> m = channels(mean), f = channels(factors);
            const Pack<f32, LANES> a = channels(along), l = channels(less);
            Pack<f32, LANES> o;
            if (RELU) o = channels(offset);
            Pack<T, LANES> out;
#pragma unroll
            for (int j = 0; j < LANES; ++j) {
                if (RELU) {
                    const Scaled own = {m.at[j], f.at[j], o.at[j]};
                    const f32 shown = behind_relu(widen(gradients.at[j]), widen(in.at[j]), own);
                    gradients.at[j] = Narrow<T>::from(shown);
                }
                out.at[j] = of(gradients.at[j], in.at[j], m.at[j], f.at[j], a.at[j], l.at[j]);
            }
            ((Pack<T, LANES>*)dx)[i] = out;
        }
        return;
    }
    for (Index i = first(); i < n; i += stride()) {
        const Index c = channel_of(g, i);
        T gradient = dy[i];
        if (RELU) {
            const Scaled own = {mean[c], factors[c], offset[c]};
            gradient = Narrow<T>::from(behind_relu(widen(gradient), widen(x[i]), own));
        }
        dx[i] = of(gradient, x[i], mean[c], factors[c], along[c], less[c]);
    }
}

KERNEL(BatchNormGrad, const T* dy, const T* x, const f32* mean, const f32* factors, T* dx,
       Index n, Channels g, Index training) {
    write_gradients<false>(dy, x, mean, mean, factors, dx, n, g, training);
}

KERNEL(BatchNormReluGrad, const T* dy, const T* x, const f32* mean, const f32* factors, T* dx,
       Index n, Channels g, Index training, const f32* offset) {
    write_gradients<true>(dy, x, mean, offset, factors, dx, n, g, training);
}
