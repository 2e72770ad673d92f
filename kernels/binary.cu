// Two inputs with broadcasting, element by element. Entries are named as their ops.
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

// x and y are the elements as they are computed; the result is one too.
#define COMPUTED(name, expression) BINARY(name, T, Narrow<T>::from, W, expression)
// x and y are the elements as they are added and multiplied.
#define WRAPPING(name, expression) BINARY(name, T, Narrow<T>::from, Wrap, expression)
// The result is a truth.
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
COMPUTED(Relu6Grad, y > W(0) && y < W(6) ? x : W(0))

COMPARED(Less, x < y)
COMPARED(LessEqual, x <= y)
COMPARED(Greater, x > y)
COMPARED(GreaterEqual, x >= y)

#ifdef T_FLOAT
COMPUTED(RealDiv, x / y)
COMPUTED(FloorDiv, floor(x / y))
COMPUTED(Pow, pow(x, y))

// The exact remainder, moved to the divisor's sign.
__device__ inline W floor_mod(W x, W y) {
    W remainder = fmod(x, y);
    return remainder != W(0) && (remainder < W(0)) != (y < W(0)) ? remainder + y : remainder;
}
COMPUTED(FloorMod, floor_mod(x, y))

COMPUTED(SqrtGrad, W(0.5) * y / x)
COMPUTED(RsqrtGrad, W(-0.5) * y * x * x * x)
COMPUTED(TanhGrad, y * (W(1) - x * x))
COMPUTED(SigmoidGrad, y * x * (W(1) - x))
COMPUTED(SoftplusGrad, x / (W(1) + exp(-y)))
COMPUTED(EluGrad, y < W(0) ? x * (y + W(1)) : x)

KERNEL(LeakyReluGrad, const T* left, const T* right, T* output, Index n, Walk walk, f32 alpha) {
    const W factor = widen(Narrow<T>::from(alpha));
    zip(left, right, output, n, walk, [=](T gradient, T feature) {
        return widen(feature) > W(0) ? gradient : Narrow<T>::from(widen(gradient) * factor);
    });
}
#endif
#endif
