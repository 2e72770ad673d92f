// Cumulative sums and products along an axis. Entries are named as their ops. A block takes a line, part after part.
#include "thalweg.cuh"

typedef Element<T>::Wrap Wrap;

const int BLOCK = 256;

// Element i of a line is i * inner elements behind its first one.
#define SCAN(name, start, expression)                                                               \
    KERNEL(name, const T* input, T* output, Index lines, Index len, Index inner, u32 exclusive,     \
           u32 reverse) {                                                                           \
        const auto combine = [](Wrap x, Wrap y) { return Wrap(expression); };                       \
        __shared__ Wrap shared[2 * BLOCK];                                                          \
        const Index t = threadIdx.x;                                                                \
        for (Index line = blockIdx.x; line < lines; line += gridDim.x) {                            \
            const Index begin = line / inner * len * inner + line % inner;                          \
            Wrap before_part = start;                                                               \
            for (Index from = 0; from < len; from += BLOCK) {                                       \
                const Index step = from + t;                                                        \
                const Index at = begin + (reverse ? len - 1 - step : step) * inner;                 \
                shared[t] = step < len ? (Wrap)widen(input[at]) : start;                            \
                __syncthreads();                                                                    \
                Index now = 0;                                                                      \
                for (Index back = 1; back < BLOCK; back *= 2) {                                     \
                    const Wrap own = shared[now + t];                                               \
                    shared[BLOCK - now + t] = t < back ? own : combine(shared[now + t - back], own); \
                    now = BLOCK - now;                                                              \
                    __syncthreads();                                                                \
                }                                                                                   \
                const Wrap before = t ? combine(before_part, shared[now + t - 1]) : before_part;    \
                const Wrap until = combine(before_part, shared[now + t]);                           \
                if (step < len) output[at] = Narrow<T>::from(exclusive ? before : until);           \
                before_part = combine(before_part, shared[now + BLOCK - 1]);                        \
                __syncthreads();                                                                    \
            }                                                                                       \
        }                                                                                           \
    }

SCAN(Cumsum, Wrap(0), x + y)
SCAN(Cumprod, Wrap(1), x * y)
