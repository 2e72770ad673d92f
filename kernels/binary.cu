// Elementwise functions of two inputs, with broadcasting. Entries are named as their ops.
#include "thalweg.cuh"

typedef Element<T>::Wide W;
typedef Element<T>::Wrap Wrap;

#define BINARY(name, R, C, type, expression)                                              \
    KERNEL(name, const T* left, const T* right, R* output, Index n, Walk walk) {          \
        zip(left, right, output, n, walk, [](T a, T b) {                                  \
            type x = (type)widen(a), y = (type)widen(b);                                  \
            return C(expression);                                                         \
        });                                                                               \
    }

// x and y have the type of the computation, and so has the result.
#define COMPUTED(name, expression) BINARY(name, T, Narrow<T>::from, W, expression)
// x and y have the type of wrapping additions and multiplications.
#define WRAPPING(name, expression) BINARY(name, T, Narrow<T>::from, Wrap, expression)
// The result is a bool.
#define COMPARED(name, expression) BINARY(name, bool, bool, W, expression)

COMPARED(Equal, x == y)
COMPARED(NotEqual, x != y)

#ifdef T_BOOL
COMPARED(LogicalAnd, x && y)
COMPARED(LogicalOr, x || y)
#else
WRAPPING(AddV2, x + y)
WRAPPING(Sub, x - y)
WRAPPING(Mul, x * y)
WRAPPING(SquaredDifference, (x - y) * (x - y))

COMPUTED(Maximum, x > y || x != x ? x : y)
COMPUTED(Minimum, x < y || x != x ? x : y)
COMPUTED(ReluGrad, y > W(0) ? x : W(0))
// ReluGrad of the sum of two gradients.
KERNEL(ReluGradSum, const T* left, const T* right, const T* features, T* output, Index n) {
    const auto of = [](T a, T b, T feature) {
        return widen(feature) > W(0) ? Narrow<T>::from((Wrap)widen(a) + (Wrap)widen(b)) : T{};
    };
    const int N = pack_of(sizeof(T), sizeof(T));
    for (Index i = first(); i < n / N; i += stride()) {
        const Pack<T, N> a = ((const Pack<T, N>*)left)[i], b = ((const Pack<T, N>*)right)[i];
        const Pack<T, N> feature = ((const Pack<T, N>*)features)[i];
        Pack<T, N> out;
#pragma unroll
        for (int k = 0; k < N; ++k) out.at[k] = of(a.at[k], b.at[k], feature.at[k]);
        ((Pack<T, N>*)output)[i] = out;
    }
    for (Index i = n / N * N + first(); i < n; i += stride()) {
        output[i] = of(left[i], right[i], features[i]);
    }
}
COMPUTED(Relu6Grad, y > W(0) && y < W(6) ? x : W(0))

COMPARED(Less, x < y)
COMPARED(LessEqual, x <= y)
COMPARED(Greater, x > y)
COMPARED(GreaterEqual, x >= y)

// A limit is of the shape of the values, or one number for all.
KERNEL(ClipByValue, const T* values, const T* low, const T* high, T* output, Index n,
       Index each_low, Index each_high) {
    for (Index i = first(); i < n; i += stride()) {
        const W lowest = widen(low[each_low ? i : 0]), highest = widen(high[each_high ? i : 0]);
        W x = widen(values[i]);
        x = x > highest ? highest : x;
        output[i] = Narrow<T>::from(x < lowest ? lowest : x);
    }
}

#ifdef T_FLOAT
COMPUTED(RealDiv, x / y)
COMPUTED(FloorDiv, floor(x / y))
COMPUTED(Pow, pow(x, y))

// Exact remainder, moved to the divisor's sign.
__device__ inline W floor_mod(W x, W y) {
    W remainder = fmod(x, y);
    return remainder != W(0) && (remainder < W(0)) != (y < W(0)) ? remainder + y : remainder;
}
COMPUTED(FloorMod, floor_mod(x, y))

COMPUTED(SqrtGrad, y == W(0) ? W(0) : W(0.5) * y / x)
COMPUTED(RsqrtGrad, y == W(0) ? W(0) : W(-0.5) * y * x * x * x)
COMPUTED(TanhGrad, y * (W(1) - x * x))
COMPUTED(SigmoidGrad, y * x * (W(1) - x))
COMPUTED(SoftplusGrad, x / (W(1) + exp(-y)))
COMPUTED(EluGrad, y < W(0) ? x * (y + W(1)) : x)

// Products and quotients that are 0 if one factor is.
COMPUTED(DivNoNan, y == W(0) ? W(0) : x / y)
COMPUTED(MulNoNan, y == W(0) ? W(0) : x * y)
COMPUTED(Xdivy, x == W(0) ? W(0) : x / y)
COMPUTED(Xlogy, x == W(0) ? W(0) : x * log(y))
COMPUTED(Xlog1py, x == W(0) ? W(0) : x * log1p(y))

COMPUTED(TruncateDiv, trunc(x / y))
COMPUTED(TruncateMod, fmod(x, y))
COMPUTED(Mod, fmod(x, y))
COMPUTED(Atan2, atan2(x, y))

COMPUTED(ReciprocalGrad, y == W(0) ? W(0) : -y * x * x)
COMPUTED(InvGrad, y == W(0) ? W(0) : -y * x * x)
COMPUTED(SoftsignGrad, x / ((W(1) + fabs(y)) * (W(1) + fabs(y))))
COMPUTED(SeluGrad, y < W(0) ? x * (y + W(1.7580993408473769)) : x * W(1.0507009873554805))

KERNEL(LeakyReluGrad, const T* left, const T* right, T* output, Index n, Walk walk, f32 alpha) {
    const W factor = widen(Narrow<T>::from(alpha));
    zip(left, right, output, n, walk, [=](T gradient, T feature) {
        return widen(feature) > W(0) ? gradient : Narrow<T>::from(widen(gradient) * factor);
    });
}
#else
const bool is_signed = T(-1) < T(1);

// Rounds towards zero. The lowest integer divided by -1 wraps; a division by zero gives zero, and sets the status.
__device__ inline T quotient(T x, T y) {
    if (is_signed && y == T(-1)) return (T)(Wrap(0) - (Wrap)x);
    return y == T(0) ? T(0) : x / y;
}
__device__ inline T rest(T x, T y) {
    return y == T(0) || (is_signed && y == T(-1)) ? T(0) : x % y;
}
// true if the quotient rounded down is one less than that.
__device__ inline bool is_below(T x, T y) {
    const T left = rest(x, y);
    return left != T(0) && (left < T(0)) != (y < T(0));
}
__device__ inline T power(T x, T y) {
    Wrap base = (Wrap)x, product = Wrap(1);
    for (u64 left = (u64)y; left > 0; left >>= 1) {
        if (left & 1) product *= base;
        base *= base;
    }
    return (T)product;
}
// A shift between 0 and the last bit.
__device__ inline int bits(T y) {
    const int last = 8 * (int)sizeof(T) - 1;
    return y < T(0) ? 0 : (u64)y > (u64)last ? last : (int)y;
}
COMPUTED(BitwiseAnd, x & y)
COMPUTED(BitwiseOr, x | y)
COMPUTED(BitwiseXor, x ^ y)
COMPUTED(LeftShift, (T)((Wrap)x << bits(y)))
COMPUTED(RightShift, (T)(x >> bits(y)))
COMPUTED(TruncateDiv, quotient(x, y))
COMPUTED(TruncateMod, rest(x, y))
COMPUTED(Mod, rest(x, y))
COMPUTED(Div, quotient(x, y))
COMPUTED(FloorDiv, (T)(quotient(x, y) - T(is_below(x, y))))
COMPUTED(FloorMod, (T)(rest(x, y) + (is_below(x, y) ? y : T(0))))
COMPUTED(Pow, power(x, y))

// Lowers the status to the index of the first element that is refused.
template <class F>
__device__ inline void check(const T* input, Index n, u64* status, F is_taken) {
    for (Index i = first(); i < n; i += stride()) {
        if (!is_taken(input[i])) atomicMin(status, (u64)i);
    }
}
KERNEL(CheckNotZero, const T* input, Index n, u64* status) {
    check(input, n, status, [](T x) { return x != T(0); });
}
KERNEL(CheckNotNegative, const T* input, Index n, u64* status) {
    check(input, n, status, [](T x) { return x >= T(0); });
}
#endif
#endif
