// Convolutions as GEMMs whose operands are read from the images: the elements of a window are
// a row; the taps of the filter (its lines, columns and input or output channels) are the inner
// dimension. Images have either layout; filters have lines, columns, input channels, output channels.
#include "thalweg.cuh"

typedef Element<T>::Wrap Wrap;

// Lengths of an image, and the steps from a pixel and from a channel to the next.
struct Image {
    Index lines;
    Index columns;
    Index channels;
    Index pixel;
    Index channel;
};

// Window (y, x) of the output begins at the input's pixel (y, x) * stride - pad, and contains every
// `dilation`th pixel.
struct Convolution {
    Index batch;
    Image in;
    Image out;
    Index lines;
    Index columns;
    Index stride[2];
    Index dilation[2];
    Index pad[2];
};

// Line and column of an image, and the offset to add to them.
struct Pixel {
    Index at;
    Index line;
    Index column;
};

// Position of pixel i of a batch of images, and the offset of the image with the same index on the other side.
__device__ inline Pixel pixel_of(const Image& image, const Image& other, Index i) {
    const Index line = i / image.columns, number = line / image.lines;
    return {number * other.lines * other.columns * other.channels, line - number * image.lines,
            i - line * image.columns};
}

// Offset of a channel of pixel i.
__device__ inline Index place_of(const Image& image, Index i, Index channel) {
    const Index plane = image.lines * image.columns, number = i / plane;
    return number * plane * image.channels + (i - number * plane) * image.pixel +
           channel * image.channel;
}

// Distance of a tap of the filter from the beginning of its window, and the offset of its channel.
__device__ inline Pixel tap_of(const Convolution& c, const Image& image, Index k) {
    const Index tap = k / image.channels, line = tap / c.columns;
    return {(k - tap * image.channels) * image.channel, line * c.dilation[0],
            (tap - line * c.columns) * c.dilation[1]};
}

// The input as a GEMM operand: windows are the lines, and taps of the filter the inner dimension.
struct Seen {
    typedef Pixel Line;
    typedef Pixel Depth;
    const T* from;
    const Convolution& c;
    bool across;

    __device__ Pixel window(Index i) const {
        const Pixel out = pixel_of(c.out, c.in, i);
        return {out.at, out.line * c.stride[0] - c.pad[0], out.column * c.stride[1] - c.pad[1]};
    }
    __device__ Pixel line(Index i) const {
        const Index windows = c.batch * c.out.lines * c.out.columns;
        return window(i < windows ? i : windows - 1);
    }
    __device__ Pixel depth(Index k) const { return tap_of(c, c.in, k); }
    __device__ Wrap get(const Pixel& window, const Pixel& tap) const {
        // Positions above the image and to its left wrap to large numbers, like those after its end.
        const Index line = window.line + tap.line, column = window.column + tap.column;
        if (line >= c.in.lines || column >= c.in.columns) return Wrap(0);
        return (Wrap)widen(
            from[window.at + (line * c.in.columns + column) * c.in.pixel + tap.at]);
    }
};

// The same with taps of the filter as the lines, and windows as the inner dimension.
struct SeenBy {
    typedef Pixel Line;
    typedef Pixel Depth;
    Seen seen;
    Index taps;
    bool across;

    __device__ Pixel line(Index i) const { return seen.depth(i < taps ? i : taps - 1); }
    __device__ Pixel depth(Index k) const { return seen.window(k); }
    __device__ Wrap get(const Pixel& tap, const Pixel& window) const {
        return seen.get(window, tap);
    }
};

// The output's gradient as a GEMM operand: the input's pixels are the lines; the inner dimension is the
// filter's positions and the output's channels.
struct Seeing {
    typedef Pixel Line;
    typedef Pixel Depth;
    const T* from;
    const Convolution& c;
    bool across;

    __device__ Pixel line(Index i) const {
        const Index pixels = c.batch * c.in.lines * c.in.columns;
        const Pixel in = pixel_of(c.in, c.out, i < pixels ? i : pixels - 1);
        return {in.at, in.line + c.pad[0], in.column + c.pad[1]};
    }
    __device__ Pixel depth(Index k) const { return tap_of(c, c.out, k); }
    __device__ Wrap get(const Pixel& pixel, const Pixel& tap) const {
        if (pixel.line < tap.line || pixel.column < tap.column) return Wrap(0);
        Index line = pixel.line - tap.line, column = pixel.column - tap.column;
        if (c.stride[0] != 1 || c.stride[1] != 1) {
            if (line % c.stride[0] != 0 || column % c.stride[1] != 0) return Wrap(0);
            line /= c.stride[0];
            column /= c.stride[1];
        }
        if (line >= c.out.lines || column >= c.out.columns) return Wrap(0);
        return (Wrap)widen(
            from[pixel.at + (line * c.out.columns + column) * c.out.pixel + tap.at]);
    }
};

// The filter as a GEMM operand: input channels are the lines; the inner dimension is its positions and output channels.
struct Turned {
    typedef Index Line;
    typedef Index Depth;
    const T* from;
    const Convolution& c;
    bool across;

    __device__ Index line(Index i) const {
        return (i < c.in.channels ? i : c.in.channels - 1) * c.out.channels;
    }
    __device__ Index depth(Index k) const {
        const Index tap = k / c.out.channels;
        return tap * c.in.channels * c.out.channels + (k - tap * c.out.channels);
    }
    __device__ Wrap get(Index line, Index depth) const {
        return (Wrap)widen(from[line + depth]);
    }
};

// The output's gradient as a GEMM operand: channels are the lines, pixels the inner dimension.
struct Channels {
    typedef Index Line;
    typedef Index Depth;
    const T* from;
    const Convolution& c;
    bool across;

    __device__ Index line(Index i) const {
        return (i < c.out.channels ? i : c.out.channels - 1) * c.out.channel;
    }
    __device__ Index depth(Index k) const { return place_of(c.out, k, 0); }
    __device__ Wrap get(Index line, Index depth) const {
        return (Wrap)widen(from[line + depth]);
    }
};

KERNEL(Conv2D, const T* input, const T* filter, T* output, Gemm p, Convolution c) {
    each_unit(p, [&](const Unit& unit) {
        const Seen left{input, c, c.in.channel == 1};
        const Matrix right{filter, p.columns, 1, p.columns, false};
        multiply<Wrap>(p, unit, left, right, [&](Index row, Index column, Wrap sum) {
            output[place_of(c.out, row, column)] = Narrow<T>::from(sum);
        });
    });
}

KERNEL(Conv2DBackpropInput, const T* filter, const T* gradient, T* output, Gemm p,
       Convolution c) {
    each_unit(p, [&](const Unit& unit) {
        const Seeing left{gradient, c, c.out.channel == 1};
        const Turned right{filter, c, true};
        multiply<Wrap>(p, unit, left, right, [&](Index row, Index column, Wrap sum) {
            output[place_of(c.in, row, column)] = Narrow<T>::from(sum);
        });
    });
}

KERNEL(Conv2DBackpropFilter, const T* input, const T* gradient, T* output, Wrap* partial,
       Gemm p, Convolution c) {
    each_unit(p, [&](const Unit& unit) {
        const SeenBy left{{input, c, false}, p.rows, c.in.channel != 1};
        const Channels right{gradient, c, c.out.channel != 1};
        multiply<Wrap>(p, unit, left, right, [&](Index row, Index column, Wrap sum) {
            store(p, unit, row, column, sum, output, partial);
        });
    });
}

KERNEL(Join, const Wrap* partial, T* output, Gemm p) { join(p, partial, output); }
