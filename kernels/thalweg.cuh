// What all kernels share: element types, what they are computed in, and loops over elements.
//
// A source is compiled once for each set of types that it is asked for, which come as macros:
// T (and U, where there are two) is the element type, by T_TYPE; T_FLOAT is defined where it is a
// floating-point one, T_BOOL where it is bool. Index is 32 bits wide unless INDEX_64 is defined.
#pragma once

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

// Halves are bits: they are computed as f32.
struct f16 {
    u16 bits;
};
struct bf16 {
    u16 bits;
};

typedef T_TYPE T;
#ifdef U_TYPE
typedef U_TYPE U;
#endif

#ifdef EMULATED
#include "emulator.h"
#else
#define KERNEL(name, ...) extern "C" __global__ void name(__VA_ARGS__)

__device__ inline f32 half_to_float(u16 bits) {
    f32 value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ inline u16 float_to_half(f32 value) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#endif

#ifdef INDEX_64
typedef u64 Index;
#else
typedef u32 Index;
#endif

// What an element is computed in (Wide), and what it is added and multiplied in (Wrap): integers
// wrap, which only unsigned ones may.
template <class E>
struct Element;
#define ELEMENT(E, WIDE, WRAP)  \
    template <>                 \
    struct Element<E> {         \
        typedef WIDE Wide;      \
        typedef WRAP Wrap;      \
    };
ELEMENT(f16, f32, f32)
ELEMENT(bf16, f32, f32)
ELEMENT(f32, f32, f32)
ELEMENT(f64, f64, f64)
ELEMENT(i8, i8, u32)
ELEMENT(i16, i16, u32)
ELEMENT(i32, i32, u32)
ELEMENT(i64, i64, u64)
ELEMENT(u8, u8, u32)
ELEMENT(u16, u16, u32)
ELEMENT(u32, u32, u32)
ELEMENT(u64, u64, u64)
ELEMENT(bool, bool, bool)

template <class E>
__device__ inline E widen(E x) {
    return x;
}
__device__ inline f32 widen(f16 x) { return half_to_float(x.bits); }
__device__ inline f32 widen(bf16 x) { return __uint_as_float((u32)x.bits << 16); }

template <class E>
struct Narrow {
    template <class W>
    __device__ static E from(W x) {
        return (E)x;
    }
};
template <>
struct Narrow<f16> {
    __device__ static f16 from(f32 x) { return f16{float_to_half(x)}; }
};
template <>
struct Narrow<bf16> {
    // To the nearest, ties to even.
    __device__ static bf16 from(f32 x) {
        u32 bits = __float_as_uint(x);
        if ((bits & 0x7fffffff) > 0x7f800000) return bf16{(u16)(bits >> 16 | 0x40)};
        return bf16{(u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
    }
};

// Elements that are loaded and stored at once.
template <class E, int N>
struct alignas(sizeof(E) * N) Pack {
    E at[N];
};

__device__ constexpr int pack_of(int a, int b) { return 16 / (a > b ? a : b); }

// The first element of this thread, and the step to its next one.
__device__ inline Index first() { return (Index)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline Index stride() { return (Index)gridDim.x * blockDim.x; }

// out[i] = f(a[i]). Tensors begin at multiples of 64 bytes.
template <class A, class B, class F>
__device__ inline void map(const A* a, B* out, Index n, F f) {
    const int N = pack_of(sizeof(A), sizeof(B));
    const Index packs = n / N;
    for (Index i = first(); i < packs; i += stride()) {
        Pack<A, N> x = ((const Pack<A, N>*)a)[i];
        Pack<B, N> y;
#pragma unroll
        for (int k = 0; k < N; ++k) y.at[k] = f(x.at[k]);
        ((Pack<B, N>*)out)[i] = y;
    }
    for (Index i = packs * N + first(); i < n; i += stride()) out[i] = f(a[i]);
}

// Calls f(d, index) for the index of element i along each dimension d, innermost first.
template <class F>
__device__ inline void unravel(Index rank, const Index* len, Index i, F f) {
    for (int d = (int)rank - 1; d >= 0; --d) {
        Index next = i / len[d];
        f(d, i - next * len[d]);
        i = next;
    }
}

// How two inputs are walked to fill an output, outermost dimension first; a step is 0 where an
// input is broadcast.
const int MOST_DIMS = 8;
struct Walk {
    Index rank;
    Index len[MOST_DIMS];
    Index a[MOST_DIMS];
    Index b[MOST_DIMS];
};

// Where the two inputs are for element i of the output; both begin at 0.
__device__ inline void locate(const Walk& walk, Index i, Index& a, Index& b) {
    unravel(walk.rank, walk.len, i, [&](int d, Index index) {
        a += index * walk.a[d];
        b += index * walk.b[d];
    });
}

// out[i] = f(a[..], b[..]), with broadcasting.
template <class A, class B, class C, class F>
__device__ inline void zip(const A* a, const B* b, C* out, Index n, const Walk& walk, F f) {
    if (walk.rank == 1) {
        const int N = pack_of(sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B), sizeof(C));
        const Index packs = n / N;
        const bool whole_a = walk.a[0] != 0, whole_b = walk.b[0] != 0;
        for (Index i = first(); i < packs; i += stride()) {
            Pack<A, N> x;
            Pack<B, N> y;
            Pack<C, N> z;
            if (whole_a) x = ((const Pack<A, N>*)a)[i];
            if (whole_b) y = ((const Pack<B, N>*)b)[i];
#pragma unroll
            for (int k = 0; k < N; ++k) {
                z.at[k] = f(whole_a ? x.at[k] : a[0], whole_b ? y.at[k] : b[0]);
            }
            ((Pack<C, N>*)out)[i] = z;
        }
        for (Index i = packs * N + first(); i < n; i += stride()) {
            out[i] = f(a[whole_a ? i : 0], b[whole_b ? i : 0]);
        }
        return;
    }
    for (Index i = first(); i < n; i += stride()) {
        Index at_a = 0, at_b = 0;
        locate(walk, i, at_a, at_b);
        out[i] = f(a[at_a], b[at_b]);
    }
}
