// Conversions of elements between types, like Rust's `as`; a source that is not exact in f32 is converted to a half
// by way of f64.
#include "thalweg.cuh"

// Conversion of an f64 to an f32 that keeps lost bits as the last bit ("round to odd"), so that rounding once more to
// fewer digits gives the same as rounding once.
__device__ inline f32 round_to_odd(f64 x) {
    f32 y = (f32)x;
    u32 bits = __float_as_uint(y);
    if (x != x || (f64)y == x) return y;
    if (fabs((f64)y) > fabs(x)) bits -= 1;
    return __uint_as_float(bits | 1);
}

template <class E>
struct To {
    template <class W>
    __device__ static E from(W x) {
        return (E)x;
    }
};
#define HALF(E)                                                                            \
    template <>                                                                            \
    struct To<E> {                                                                         \
        __device__ static E from(f32 x) { return Narrow<E>::from(x); }                     \
        template <class W>                                                                 \
        __device__ static E from(W x) {                                                    \
            return Narrow<E>::from(round_to_odd((f64)x));                                  \
        }                                                                                  \
    };
HALF(f16)
HALF(bf16)

enum Kind { INTEGER, FLOAT, BOOL };
template <class E>
constexpr Kind kind = INTEGER;
template <>
constexpr Kind kind<f16> = FLOAT;
template <>
constexpr Kind kind<bf16> = FLOAT;
template <>
constexpr Kind kind<f32> = FLOAT;
template <>
constexpr Kind kind<f64> = FLOAT;
template <>
constexpr Kind kind<bool> = BOOL;

template <class E>
__device__ inline E convert(T element) {
    auto x = widen(element);
    if constexpr (kind<E> == BOOL) {
        return x != decltype(x)(0);
    } else if constexpr (kind<E> == INTEGER && kind<T> == FLOAT) {
        // Rounds towards zero; saturates values that are out of range; NaN becomes 0.
        const bool is_signed = E(-1) < E(1);
        const E highest = (E)(~(u64)0 >> (64 - 8 * sizeof(E) + is_signed));
        const E lowest = is_signed ? (E)(-highest - 1) : E(0);
        const f64 y = (f64)x;
        if (y != y) return E(0);
        if (y <= (f64)lowest) return lowest;
        return y >= (f64)highest ? highest : (E)y;
    } else {
        return To<E>::from(x);
    }
}

// One function for each result type: all are compiled together.
#define CAST(E)                                                                   \
    KERNEL(Cast_##E, const T* input, E* output, Index n) {                        \
        map(input, output, n, [](T element) { return convert<E>(element); });     \
    }
CAST(f16)
CAST(bf16)
CAST(f32)
CAST(f64)
CAST(i8)
CAST(i16)
CAST(i32)
CAST(i64)
CAST(u8)
CAST(u16)
CAST(u32)
CAST(u64)
CAST(bool)
