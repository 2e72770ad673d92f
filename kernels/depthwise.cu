// Depthwise convolution: every input channel has `each` filters of its own. Gradients of images gather,
// so that no two threads add to one element.
#include "thalweg.cuh"

typedef Element<T>::Wide W;

// Sizes of an image, and the steps from one pixel, and one channel, to the next.
struct Image {
    Index lines;
    Index columns;
    Index channels;
    Index pixel;
    Index channel;

    __device__ Index at(Index image, Index line, Index column, Index c) const {
        return image * lines * columns * channels + (line * columns + column) * pixel + c * channel;
    }
};

struct Axis {
    Index taps;
    Index stride;
    Index dilation;
    Index pad;
};

struct Depthwise {
    Image in;
    Image out;
    Axis y;
    Axis x;
    Index each;
};

// The pixel that a tap of an output reads; false if it is outside of the image.
__device__ inline bool seen(const Axis& axis, Index output, Index tap, Index len, Index& pixel) {
    const Index at = output * axis.stride + tap * axis.dilation;
    pixel = at - axis.pad;
    return at >= axis.pad && pixel < len;
}

// The output whose tap reads a pixel; false if there is none.
__device__ inline bool seeing(const Axis& axis, Index pixel, Index tap, Index len, Index& output) {
    const Index at = pixel + axis.pad, before = tap * axis.dilation;
    if (at < before) return false;
    output = (at - before) / axis.stride;
    return output * axis.stride == at - before && output < len;
}

// Calls f(batch, line, column, channel) for element i of an image with the layout of `image`.
template <class F>
__device__ inline void locate(const Image& image, Index i, F f) {
    const Index pixels = image.lines * image.columns;
    Index c, pixel, batch;
    if (image.channel == 1) {
        c = i % image.channels;
        pixel = i / image.channels % pixels;
        batch = i / image.channels / pixels;
    } else {
        pixel = i % pixels;
        c = i / pixels % image.channels;
        batch = i / pixels / image.channels;
    }
    f(batch, pixel / image.columns, pixel % image.columns, c);
}

KERNEL(DepthwiseConv2dNative, const T* input, const T* filter, T* output, Index n, Depthwise g) {
    for (Index i = first(); i < n; i += stride()) {
        locate(g.out, i, [&](Index batch, Index line, Index column, Index c) {
            W sum = W(0);
            for (Index a = 0; a < g.y.taps; ++a) {
                Index y, x;
                if (!seen(g.y, line, a, g.in.lines, y)) continue;
                for (Index b = 0; b < g.x.taps; ++b) {
                    if (!seen(g.x, column, b, g.in.columns, x)) continue;
                    sum += widen(input[g.in.at(batch, y, x, c / g.each)]) *
                           widen(filter[(a * g.x.taps + b) * g.out.channels + c]);
                }
            }
            output[i] = Narrow<T>::from(sum);
        });
    }
}

KERNEL(DepthwiseConv2dNativeBackpropInput, const T* filter, const T* gradient, T* output, Index n,
       Depthwise g) {
    for (Index i = first(); i < n; i += stride()) {
        locate(g.in, i, [&](Index batch, Index line, Index column, Index c) {
            W sum = W(0);
            for (Index a = 0; a < g.y.taps; ++a) {
                Index y, x;
                if (!seeing(g.y, line, a, g.out.lines, y)) continue;
                for (Index b = 0; b < g.x.taps; ++b) {
                    if (!seeing(g.x, column, b, g.out.columns, x)) continue;
                    for (Index m = c * g.each; m < (c + 1) * g.each; ++m) {
                        sum += widen(gradient[g.out.at(batch, y, x, m)]) *
                               widen(filter[(a * g.x.taps + b) * g.out.channels + m]);
                    }
                }
            }
            output[i] = Narrow<T>::from(sum);
        });
    }
}

struct Sum {
    W value;
};
__device__ inline Sum join(const Sum& a, const Sum& b) { return Sum{a.value + b.value}; }

// An output is an element of the filter, its terms are the outputs of all images.
KERNEL(DepthwiseFilterSums, const T* input, const T* gradient, Sum* partial, Depthwise g,
       Segments segments) {
    by_segment(segments, partial, [&](Index output, Index begin, Index step, Index end) {
        const Index c = output % g.out.channels, tap = output / g.out.channels;
        const Index a = tap / g.x.taps, b = tap % g.x.taps;
        Sum sum = {W(0)};
        for (Index k = begin; k < end; k += step) {
            const Index line = k / g.out.columns, column = k % g.out.columns;
            const Index batch = line / g.out.lines;
            Index y, x;
            if (!seen(g.y, line % g.out.lines, a, g.in.lines, y)) continue;
            if (!seen(g.x, column, b, g.in.columns, x)) continue;
            sum.value += widen(input[g.in.at(batch, y, x, c / g.each)]) *
                         widen(gradient[g.out.at(batch, line % g.out.lines, column, c)]);
        }
        return sum;
    });
}

KERNEL(DepthwiseFilter, const Sum* partial, T* output, Segments segments) {
    together(segments, partial, Sum{W(0)},
             [&](Index i, const Sum& sum) { output[i] = Narrow<T>::from(sum.value); });
}
