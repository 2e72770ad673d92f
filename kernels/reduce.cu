// Reductions along some dimensions, in an order that depends on the shape alone.
#include "thalweg.cuh"

typedef Element<T>::Wide W;
typedef Element<T>::Wrap Wrap;

// Dimensions with the steps along them, outermost first.
const int MOST_DIMS_OF_A_KIND = 8;
struct Space {
    Index rank;
    Index len[MOST_DIMS_OF_A_KIND];
    Index step[MOST_DIMS_OF_A_KIND];
};

__device__ inline Index at(const Space& space, Index i) {
    Index offset = 0;
    unravel(space.rank, space.len, i,
            [&](int d, Index index) { offset += index * space.step[d]; });
    return offset;
}

// A reduction: `outputs` of `count` elements each, every one in `segments` of `each` elements that
// are reduced independently. With more than one, `partial` holds their results.
struct Job {
    Index outputs;
    Index count;
    Index segments;
    Index each;
};

// One block for each segment: for elements that are adjacent in memory.
template <class F>
__device__ inline void across(const T* input, T* output, typename F::Acc* partial, const Job& job,
                              const Space& kept, const Space& taken, F fold) {
    __shared__ typename F::Acc shared[256];
    for (Index unit = blockIdx.x; unit < job.outputs * job.segments; unit += gridDim.x) {
        const Index out = unit / job.segments, begin = unit % job.segments * job.each;
        const Index end = begin + job.each < job.count ? begin + job.each : job.count;
        const T* row = input + at(kept, out);
        typename F::Acc acc = fold.empty();
        for (Index i = begin + threadIdx.x; i < end; i += blockDim.x) {
            acc = fold.join(acc, fold.lift(row[at(taken, i)]));
        }
        shared[threadIdx.x] = acc;
        __syncthreads();
        for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
            if (threadIdx.x < half) {
                shared[threadIdx.x] = fold.join(shared[threadIdx.x], shared[threadIdx.x + half]);
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            if (job.segments == 1) {
                output[out] = fold.finish(shared[0]);
            } else {
                partial[unit] = shared[0];
            }
        }
        __syncthreads();
    }
}

// One thread for each segment: for outputs that are adjacent in memory.
template <class F>
__device__ inline void along(const T* input, T* output, typename F::Acc* partial, const Job& job,
                             const Space& kept, const Space& taken, F fold) {
    for (Index unit = first(); unit < job.outputs * job.segments; unit += stride()) {
        const Index out = unit % job.outputs, segment = unit / job.outputs;
        const Index begin = segment * job.each;
        const Index end = begin + job.each < job.count ? begin + job.each : job.count;
        const T* column = input + at(kept, out);
        typename F::Acc acc = fold.empty();
        for (Index i = begin; i < end; ++i) acc = fold.join(acc, fold.lift(column[at(taken, i)]));
        if (job.segments == 1) {
            output[out] = fold.finish(acc);
        } else {
            partial[out * job.segments + segment] = acc;
        }
    }
}

// Joins the segments of each output.
template <class F>
__device__ inline void together(const typename F::Acc* partial, T* output, const Job& job, F fold) {
    for (Index out = first(); out < job.outputs; out += stride()) {
        typename F::Acc acc = fold.empty();
        for (Index i = 0; i < job.segments; ++i) {
            acc = fold.join(acc, partial[out * job.segments + i]);
        }
        output[out] = fold.finish(acc);
    }
}

// All threads of a launch have the same form.
const Index ACROSS = 0, ALONG = 1;

#define REDUCTION(name, Fold)                                                                  \
    KERNEL(name, const T* input, T* output, Fold::Acc* partial, Job job, Space kept,           \
           Space taken, Index form) {                                                          \
        const Fold fold{job.count};                                                            \
        if (form == ACROSS) {                                                                  \
            across(input, output, partial, job, kept, taken, fold);                            \
        } else if (form == ALONG) {                                                            \
            along(input, output, partial, job, kept, taken, fold);                             \
        } else {                                                                               \
            together(partial, output, job, fold);                                              \
        }                                                                                      \
    }

// A fold: its initial value, its join, the conversion of an element and of the final result.
#define FOLD(name, A, EMPTY, LIFT, JOIN, FINISH)                       \
    struct name##Fold {                                                \
        typedef A Acc;                                                 \
        Index count;                                                   \
        __device__ Acc empty() const { return EMPTY; }                 \
        __device__ Acc lift(T x) const { return LIFT; }                \
        __device__ Acc join(Acc a, Acc b) const { return JOIN; }       \
        __device__ T finish(Acc acc) const { return FINISH; }          \
    };                                                                 \
    REDUCTION(name, name##Fold)

#ifdef T_BOOL
FOLD(All, bool, true, x, a && b, acc)
FOLD(Any, bool, false, x, a || b, acc)
#else
FOLD(Sum, Wrap, Wrap(0), (Wrap)widen(x), a + b, Narrow<T>::from(acc))
FOLD(Prod, Wrap, Wrap(1), (Wrap)widen(x), a * b, Narrow<T>::from(acc))

#ifdef T_FLOAT
FOLD(Mean, W, W(0), widen(x), a + b, Narrow<T>::from(acc / W(count)))
FOLD(L2Loss, W, W(0), widen(x) * widen(x), a + b, Narrow<T>::from(acc * W(0.5)))
__device__ inline W infinity() { return (W)__uint_as_float(0x7f800000); }
FOLD(Max, W, -infinity(), widen(x), b != b || b > a ? b : a, Narrow<T>::from(acc))
FOLD(Min, W, infinity(), widen(x), b != b || b < a ? b : a, Narrow<T>::from(acc))
#else
const bool is_signed = T(-1) < T(1);
const T highest = (T)(~(u64)0 >> (64 - 8 * sizeof(T) + is_signed));
const T lowest = is_signed ? (T)(-highest - 1) : T(0);
FOLD(Max, T, lowest, x, b > a ? b : a, acc)
FOLD(Min, T, highest, x, b < a ? b : a, acc)

// Adds in 64 bits, so that only a sum that exceeds them wraps; a mean is rounded towards zero.
__device__ inline T mean(u64 sum, Index count) {
    if (count == 0) return T(0);
    return is_signed ? (T)((i64)sum / (i64)count) : (T)(sum / count);
}
FOLD(Mean, u64, 0, (u64)x, a + b, mean(acc, count))
#endif
#endif
