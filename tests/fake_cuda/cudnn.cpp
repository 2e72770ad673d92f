// So much of cuDNN as Thalweg calls, for f32: convolutions as its documentation says, in both
// layouts.
#include <cstring>
#include <vector>

#include "stream.h"

enum Status { SUCCESS = 0, BAD_PARAM = 2000, NOT_SUPPORTED = 3000 };
enum { NCHW = 0, NHWC = 1 };
enum { FLOAT = 0, CROSS_CORRELATION = 1, FMA_MATH = 3 };

struct Handle {
    void* stream = nullptr;
};

// Of a tensor: images, channels, lines, columns; of a filter: output and input channels, lines,
// columns.
struct Tensor {
    int dtype, format, dims[4];
    size_t elements() const { return (size_t)dims[0] * dims[1] * dims[2] * dims[3]; }
    size_t at(int n, int c, int h, int w) const {
        const size_t C = dims[1], H = dims[2], W = dims[3];
        return format == NHWC ? ((n * H + h) * W + w) * C + c : ((n * C + c) * H + h) * W + w;
    }
};

struct Convolution {
    int pad[2], stride[2], dilation[2], mode, compute, math = 0;
};

// What the heuristic tells of an algorithm; the same for all three directions.
struct Performance {
    int algorithm, status;
    float time;
    size_t memory;
    int deterministic, math, reserved[3];
};

template <class F>
static void walk(const Tensor& x, const Tensor& w, const Tensor& y, const Convolution& c, F f) {
    for (int n = 0; n < y.dims[0]; ++n)
        for (int k = 0; k < y.dims[1]; ++k)
            for (int p = 0; p < y.dims[2]; ++p)
                for (int q = 0; q < y.dims[3]; ++q)
                    for (int i = 0; i < w.dims[1]; ++i)
                        for (int r = 0; r < w.dims[2]; ++r)
                            for (int s = 0; s < w.dims[3]; ++s) {
                                const int h = p * c.stride[0] - c.pad[0] + r * c.dilation[0];
                                const int v = q * c.stride[1] - c.pad[1] + s * c.dilation[1];
                                if (h < 0 || v < 0 || h >= x.dims[2] || v >= x.dims[3]) continue;
                                f(x.at(n, i, h, v), w.at(k, i, r, s), y.at(n, k, p, q));
                            }
}

static int offer(const Tensor* x, const Tensor* w, const Convolution* c, const Tensor* y, int most,
                 int* count, Performance* list) {
    *count = 0;
    if (x->dtype != FLOAT) return NOT_SUPPORTED;
    const bool plain = c->mode == CROSS_CORRELATION && c->compute == FLOAT && c->math == FMA_MATH;
    bool fits = x->dims[0] == y->dims[0] && x->dims[1] == w->dims[1] && y->dims[1] == w->dims[0];
    for (int i = 0; i < 2; ++i) {
        const int window = (w->dims[2 + i] - 1) * c->dilation[i] + 1;
        const int places = x->dims[2 + i] + 2 * c->pad[i] - window;
        fits = fits && y->dims[2 + i] == places / c->stride[i] + 1;
    }
    if (!plain || !fits || most < 3) return BAD_PARAM;
    // The first does not always give the same, and the second is not supported.
    const int statuses[3] = {SUCCESS, NOT_SUPPORTED, SUCCESS};
    for (int i = 0; i < 3; ++i) {
        list[i] = Performance();
        list[i].algorithm = i;
        list[i].status = statuses[i];
        list[i].deterministic = i > 0;
    }
    *count = 3;
    return SUCCESS;
}

static int workspace(int algorithm, size_t* bytes) {
    *bytes = 500;
    return algorithm == 2 ? SUCCESS : BAD_PARAM;
}

static bool plain(const void* alpha, const void* beta, int algorithm, size_t bytes) {
    return *(float*)alpha == 1 && *(float*)beta == 0 && algorithm == 2 && bytes == 500;
}

extern "C" {
int cudnnCreate(Handle** handle) {
    *handle = new Handle();
    return SUCCESS;
}

int cudnnDestroy(Handle* handle) {
    delete handle;
    return SUCCESS;
}

int cudnnSetStream(Handle* handle, void* stream) {
    handle->stream = stream;
    return SUCCESS;
}

int cudnnCreateTensorDescriptor(Tensor** tensor) {
    *tensor = new Tensor();
    return SUCCESS;
}

int cudnnSetTensor4dDescriptor(Tensor* tensor, int format, int dtype, int n, int c, int h, int w) {
    *tensor = Tensor{dtype, format, {n, c, h, w}};
    return SUCCESS;
}

int cudnnDestroyTensorDescriptor(Tensor* tensor) {
    delete tensor;
    return SUCCESS;
}

int cudnnCreateFilterDescriptor(Tensor** filter) {
    *filter = new Tensor();
    return SUCCESS;
}

int cudnnSetFilter4dDescriptor(Tensor* filter, int dtype, int format, int k, int c, int h, int w) {
    *filter = Tensor{dtype, format, {k, c, h, w}};
    return SUCCESS;
}

int cudnnDestroyFilterDescriptor(Tensor* filter) {
    delete filter;
    return SUCCESS;
}

int cudnnCreateConvolutionDescriptor(Convolution** convolution) {
    *convolution = new Convolution();
    return SUCCESS;
}

int cudnnSetConvolution2dDescriptor(Convolution* c, int pad_h, int pad_w, int u, int v,
                                    int dilation_h, int dilation_w, int mode, int compute) {
    *c = Convolution{{pad_h, pad_w}, {u, v}, {dilation_h, dilation_w}, mode, compute};
    return SUCCESS;
}

int cudnnSetConvolutionMathType(Convolution* convolution, int math) {
    convolution->math = math;
    return SUCCESS;
}

int cudnnDestroyConvolutionDescriptor(Convolution* convolution) {
    delete convolution;
    return SUCCESS;
}

int cudnnGetConvolutionForwardAlgorithm_v7(Handle*, Tensor* x, Tensor* w, Convolution* c, Tensor* y,
                                           int most, int* count, Performance* list) {
    return offer(x, w, c, y, most, count, list);
}

int cudnnGetConvolutionBackwardDataAlgorithm_v7(Handle*, Tensor* w, Tensor* y, Convolution* c,
                                                Tensor* x, int most, int* count,
                                                Performance* list) {
    return offer(x, w, c, y, most, count, list);
}

int cudnnGetConvolutionBackwardFilterAlgorithm_v7(Handle*, Tensor* x, Tensor* y, Convolution* c,
                                                  Tensor* w, int most, int* count,
                                                  Performance* list) {
    return offer(x, w, c, y, most, count, list);
}

int cudnnGetConvolutionForwardWorkspaceSize(Handle*, Tensor*, Tensor*, Convolution*, Tensor*,
                                            int algorithm, size_t* bytes) {
    return workspace(algorithm, bytes);
}

int cudnnGetConvolutionBackwardDataWorkspaceSize(Handle*, Tensor*, Tensor*, Convolution*, Tensor*,
                                                 int algorithm, size_t* bytes) {
    return workspace(algorithm, bytes);
}

int cudnnGetConvolutionBackwardFilterWorkspaceSize(Handle*, Tensor*, Tensor*, Convolution*,
                                                   Tensor*, int algorithm, size_t* bytes) {
    return workspace(algorithm, bytes);
}

int cudnnConvolutionForward(Handle* handle, const void* alpha, Tensor* xd, const float* x,
                            Tensor* wd, const float* w, Convolution* cd, int algorithm, void* space,
                            size_t bytes, const void* beta, Tensor* yd, float* y) {
    if (!plain(alpha, beta, algorithm, bytes)) return BAD_PARAM;
    const Tensor a = *xd, b = *wd, d = *yd;
    const Convolution c = *cd;
    return hand_to(handle->stream, [=] {
        memset(space, 0xee, bytes);
        memset(y, 0, d.elements() * sizeof(float));
        walk(a, b, d, c, [&](size_t i, size_t j, size_t k) { y[k] += x[i] * w[j]; });
        return SUCCESS;
    });
}

int cudnnConvolutionBackwardData(Handle* handle, const void* alpha, Tensor* wd, const float* w,
                                 Tensor* yd, const float* y, Convolution* cd, int algorithm,
                                 void* space, size_t bytes, const void* beta, Tensor* xd, float* x) {
    if (!plain(alpha, beta, algorithm, bytes)) return BAD_PARAM;
    const Tensor a = *xd, b = *wd, d = *yd;
    const Convolution c = *cd;
    return hand_to(handle->stream, [=] {
        memset(space, 0xee, bytes);
        memset(x, 0, a.elements() * sizeof(float));
        walk(a, b, d, c, [&](size_t i, size_t j, size_t k) { x[i] += y[k] * w[j]; });
        return SUCCESS;
    });
}

int cudnnConvolutionBackwardFilter(Handle* handle, const void* alpha, Tensor* xd, const float* x,
                                   Tensor* yd, const float* y, Convolution* cd, int algorithm,
                                   void* space, size_t bytes, const void* beta, Tensor* wd,
                                   float* w) {
    if (!plain(alpha, beta, algorithm, bytes)) return BAD_PARAM;
    const Tensor a = *xd, b = *wd, d = *yd;
    const Convolution c = *cd;
    return hand_to(handle->stream, [=] {
        memset(space, 0xee, bytes);
        memset(w, 0, b.elements() * sizeof(float));
        walk(a, b, d, c, [&](size_t i, size_t j, size_t k) { w[j] += x[i] * y[k]; });
        return SUCCESS;
    });
}
}
