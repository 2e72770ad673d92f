// Elementwise functions of one input. Entries are named as their ops.
#include "thalweg.cuh"

// x has the type of the computation.
#define UNARY(name, expression)                                    \
    KERNEL(name, const T* input, T* output, Index n) {             \
        map(input, output, n, [](T element) {                      \
            Element<T>::Wide x = widen(element);                   \
            return Narrow<T>::from(expression);                    \
        });                                                        \
    }

// x has the type of wrapping additions and multiplications.
#define WRAPPING(name, expression)                                 \
    KERNEL(name, const T* input, T* output, Index n) {             \
        map(input, output, n, [](T element) {                      \
            Element<T>::Wrap x = (Element<T>::Wrap)widen(element); \
            return Narrow<T>::from(expression);                    \
        });                                                        \
    }

typedef Element<T>::Wide W;

KERNEL(OnesLike, T* output, Index n) {
    for (Index i = first(); i < n; i += stride()) output[i] = Narrow<T>::from(W(1));
}

// The result is a bool.
#define PREDICATE(name, expression)                                \
    KERNEL(name, const T* input, bool* output, Index n) {          \
        map(input, output, n, [](T element) {                      \
            Element<T>::Wide x = widen(element);                   \
            return bool(expression);                               \
        });                                                        \
    }

#ifdef T_BOOL
UNARY(LogicalNot, !x)
#else
KERNEL(Range, T* output, Index n, T begin, T step) {
    typedef Element<T>::Wrap Wrap;
    const Wrap x = (Wrap)widen(begin), by = (Wrap)widen(step);
    for (Index i = first(); i < n; i += stride()) output[i] = Narrow<T>::from(x + (Wrap)i * by);
}

WRAPPING(Neg, -x)
WRAPPING(Square, x * x)
UNARY(Sign, x > W(0) ? W(1) : x < W(0) ? W(-1) : x)
UNARY(Relu, x < W(0) ? W(0) : x)
UNARY(Relu6, x < W(0) ? W(0) : x > W(6) ? W(6) : x)

#ifdef T_FLOAT
UNARY(Abs, fabs(x))
UNARY(Sqrt, sqrt(x))
UNARY(Rsqrt, W(1) / sqrt(x))
UNARY(Exp, exp(x))
UNARY(Log, log(x))
UNARY(Log1p, log1p(x))
UNARY(Tanh, tanh(x))
UNARY(Floor, floor(x))
UNARY(Elu, x < W(0) ? expm1(x) : x)

UNARY(Expm1, expm1(x))
UNARY(Ceil, ceil(x))
// Ties go to the even number.
UNARY(Round, rint(x))
UNARY(Rint, rint(x))
UNARY(Reciprocal, W(1) / x)
UNARY(Inv, W(1) / x)
UNARY(Sin, sin(x))
UNARY(Cos, cos(x))
UNARY(Tan, tan(x))
UNARY(Asin, asin(x))
UNARY(Acos, acos(x))
UNARY(Atan, atan(x))
UNARY(Sinh, sinh(x))
UNARY(Cosh, cosh(x))
UNARY(Asinh, asinh(x))
UNARY(Acosh, acosh(x))
UNARY(Atanh, atanh(x))
UNARY(Erf, erf(x))
UNARY(Erfc, erfc(x))
UNARY(Lgamma, lgamma(x))
UNARY(Softsign, x / (W(1) + fabs(x)))
// The constants of Klambauer et al., Self-Normalizing Neural Networks, 2017.
UNARY(Selu, x < W(0) ? W(1.7580993408473769) * expm1(x) : W(1.0507009873554805) * x)

PREDICATE(IsNan, x != x)
PREDICATE(IsInf, x == x && x - x != W(0))
PREDICATE(IsFinite, x - x == W(0))

// The input, unchanged; lowers the status to the index of the first element that is not finite.
KERNEL(CheckNumerics, const T* input, T* output, Index n, u64* status) {
    for (Index i = first(); i < n; i += stride()) {
        const W x = widen(input[i]);
        if (x - x != W(0)) atomicMin(status, (u64)i);
        output[i] = input[i];
    }
}

// Uses the one of two forms whose exponential cannot overflow.
__device__ inline W sigmoid(W x) {
    W e = exp(-fabs(x));
    return x < W(0) ? e / (W(1) + e) : W(1) / (W(1) + e);
}
UNARY(Sigmoid, sigmoid(x))

__device__ inline W softplus(W x) { return (x > W(0) ? x : W(0)) + log1p(exp(-fabs(x))); }
UNARY(Softplus, x != x ? x : softplus(x))

KERNEL(LeakyRelu, const T* input, T* output, Index n, f32 alpha) {
    // The factor is an element of the tensor's type.
    const W factor = widen(Narrow<T>::from(alpha));
    map(input, output, n, [=](T element) {
        W x = widen(element);
        return x > W(0) ? element : Narrow<T>::from(x * factor);
    });
}
#else
WRAPPING(Abs, widen(element) < W(0) ? -x : x)
UNARY(Round, x)
UNARY(Invert, ~x)

KERNEL(PopulationCount, const T* input, u8* output, Index n) {
    map(input, output, n, [](T element) {
        u64 bits = (u64)element;
        if (sizeof(T) < 8) bits &= ((u64)1 << 8 * (sizeof(T) & 7)) - 1;
        u8 count = 0;
        for (; bits; bits &= bits - 1) ++count;
        return count;
    });
}
#endif
#endif
