// Common parts of all kernels: element types, the types of computations, loops over elements, segmented sums, and
// tiled GEMMs.
//
// A source is compiled once for each set of types that is used, which are given by macros:
// T (and U, if there are two) is the element type, given by T_TYPE; T_FLOAT is defined if it is a
// floating-point one, T_BOOL if it is bool. Index is 32 bits wide unless INDEX_64 is defined.
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

// Halves are stored as bits, and computed as f32.
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
#define ENTRY(name, ...) extern "C" __global__ void name(__VA_ARGS__)

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

// Types for computing with an element (Wide), and for adding and multiplying it (Wrap): integers
// wrap, which is defined only for unsigned ones.
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
    // Rounds to nearest, ties to even.
    __device__ static bf16 from(f32 x) {
        u32 bits = __float_as_uint(x);
        if ((bits & 0x7fffffff) > 0x7f800000) return bf16{(u16)(bits >> 16 | 0x40)};
        return bf16{(u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
    }
};

// Elements that are loaded and stored together.
template <class E, int N>
struct alignas(sizeof(E) * N) Pack {
    E at[N];
};

__device__ constexpr int pack_of(int a, int b) { return 16 / (a > b ? a : b); }

#ifndef MULTI_TENSOR
#define KERNEL(name, ...) ENTRY(name, __VA_ARGS__)

__device__ inline u32 own_block() { return blockIdx.x; }
__device__ inline u32 own_blocks() { return gridDim.x; }
#else
// A multi-tensor launch does the work of several launches of a function, its members. The table has the first block of
// each member and the end of the last, then the arguments of each, in words of 8 bytes. There are no more members than
// threads of a block. Only kernels that take their elements by `first` and `stride` may be launched so.
#define KERNEL(name, ...)                                      \
    static __device__ inline void name##_member(__VA_ARGS__);  \
    ENTRY(name, const u64* table, u32 members) {               \
        run_member(name##_member, table, members);             \
    }                                                          \
    static __device__ inline void name##_member(__VA_ARGS__)

// The member of this block, its place among the blocks of that, and the number of these.
struct Member {
    u32 number, block, blocks;
};
__shared__ Member member;

__device__ inline u32 own_block() { return member.block; }
__device__ inline u32 own_blocks() { return member.blocks; }

template <int... I>
struct Numbers {};
// The numbers below N.
template <int N, int... I>
struct Below : Below<N - 1, N - 1, I...> {};
template <int... I>
struct Below<0, I...> {
    typedef Numbers<I...> All;
};

template <class... A, int... I>
__device__ __forceinline__ void call(void (*kernel)(A...), const u64* arguments, Numbers<I...>) {
    kernel(*(const A*)(arguments + I)...);
}

template <class... A>
__device__ __forceinline__ void run_member(void (*kernel)(A...), const u64* table, u32 members) {
    const u32 i = threadIdx.x, block = blockIdx.x;
    if (i < members && table[i] <= block && block < table[i + 1]) {
        member = Member{i, block - (u32)table[i], (u32)(table[i + 1] - table[i])};
    }
    __syncthreads();
    const u64* arguments = table + members + 1 + member.number * sizeof...(A);
    call(kernel, arguments, typename Below<sizeof...(A)>::All());
}
#endif

// The first element of this thread, and the step to its next one.
__device__ inline Index first() { return (Index)own_block() * blockDim.x + threadIdx.x; }
__device__ inline Index stride() { return (Index)own_blocks() * blockDim.x; }

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

// Calls f(d, index) for the index of element i along each dimension d, innermost first. Dimensions are numbers of the
// program, so that lengths and strides stay where arguments are, and need no memory of each thread.
template <int MOST, class F>
__device__ inline void unravel(Index rank, const Index (&len)[MOST], Index i, F f) {
#pragma unroll
    for (int d = MOST - 1; d >= 0; --d) {
        if (d >= (int)rank) continue;
        const Index next = i / len[d];
        f(d, i - next * len[d]);
        i = next;
    }
}

// Strides of two inputs in the dimensions of an output, outermost dimension first; a stride is 0 if an
// input is broadcast.
const int MOST_DIMS = 8;
struct Walk {
    Index rank;
    Index len[MOST_DIMS];
    Index a[MOST_DIMS];
    Index b[MOST_DIMS];
};

// Offsets of the two inputs for element i of the output; both must be 0 before.
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

// Updates of rows: sorted row numbers with the position of each one's update, the number of updates, elements of a row, and
// rows. Nothing is updated if an index was refused: the status says so. Without row numbers, all elements are updated.
#define TOUCHED \
    const u32 *rows, const u32 *order, Index count, Index inner, Index len, const u64 *status
#define TOUCHED_ARGS rows, order, count, inner, len, status

// Calls f(element, first update, end of updates, column) for each element of each row that is updated.
template <class F>
__device__ inline void each_run(Index n, TOUCHED, F f) {
    if (status[0] != ~(u64)0) return;
    for (Index i = first(); i < n; i += stride()) {
        const Index k = i / inner, row = rows[k];
        if (row >= len || (k > 0 && rows[k - 1] == row)) continue;
        Index end = k + 1;
        while (end < count && rows[end] == row) ++end;
        f(row * inner + i % inner, k, end, i % inner);
    }
}

// Calls f(element, element of the gradient) for each update of each element, in the order of updates.
template <class F>
__device__ inline void each_update(Index n, TOUCHED, F f) {
    if (!rows) {
        for (Index i = first(); i < n; i += stride()) f(i, i);
        return;
    }
    each_run(n, TOUCHED_ARGS, [&](Index at, Index begin, Index end, Index column) {
        for (Index k = begin; k < end; ++k) f(at, order[k] * inner + column);
    });
}

// Sums of `count` terms for each of `outputs`, split into `segments` of `each` terms, which are added up
// independently; `partial` holds their sums, the outputs of the first segment first. If `across`, a
// block adds up a segment: for terms that are adjacent in memory. Otherwise a thread does: for outputs
// that are adjacent.
struct Segments {
    Index outputs;
    Index count;
    Index segments;
    Index each;
    Index across;
};

// Joins the values of the threads of a block of 256; all of them get the result.
template <class Sum>
__device__ inline Sum joined(Sum own) {
    __shared__ Sum shared[256];
    shared[threadIdx.x] = own;
    __syncthreads();
    for (unsigned half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] = join(shared[threadIdx.x], shared[threadIdx.x + half]);
        __syncthreads();
    }
    Sum all = shared[0];
    // Waits before a thread writes again.
    __syncthreads();
    return all;
}

// Adds up each segment; `take(output, begin, step, end)` returns a thread's sum over a part of it.
template <class Sum, class F>
__device__ inline void by_segment(const Segments& s, Sum* partial, F take) {
    const Index units = s.outputs * s.segments;
    for (Index i = s.across ? (Index)blockIdx.x : first(); i < units;
         i += s.across ? (Index)gridDim.x : stride()) {
        const Index output = i % s.outputs, begin = i / s.outputs * s.each;
        const Index end = begin + s.each < s.count ? begin + s.each : s.count;
        if (s.across) {
            const Sum all = joined(take(output, begin + threadIdx.x, (Index)blockDim.x, end));
            if (threadIdx.x == 0) partial[i] = all;
        } else {
            partial[i] = take(output, begin, (Index)1, end);
        }
    }
}

// Calls f(output, joined segments) once for each output, a block at a time; without
// segments, the joined value is `nothing`.
template <class Sum, class F>
__device__ inline void together(const Segments& s, const Sum* partial, Sum nothing, F f) {
    for (Index output = blockIdx.x; output < s.outputs; output += gridDim.x) {
        Sum own = nothing;
        for (Index i = threadIdx.x; i < s.segments; i += blockDim.x) {
            own = join(own, partial[i * s.outputs + output]);
        }
        own = joined(own);
        if (threadIdx.x == 0) f(output, own);
    }
}

// Tiled GEMMs. An operand describes a line (a row of the left operand,
// a column of the right one) by `line(i)`, and a position along the inner dimension by `depth(k)`;
// `get` returns the element at both, widened. Lines beyond the last are read but not used; positions
// beyond the last are described but not read. `across`: elements that are adjacent in memory are adjacent along the
// inner dimension.

// Lines of a tile, and positions of the inner dimension that are loaded at once. Each thread of a block of 256
// loads EACH elements of both operands, and holds EACH x EACH sums.
const int TILE = 64, DEPTH = 16, EACH = 4;
// Length of a tile's row in shared memory: longer than the tile by one load of a thread, to reduce bank
// conflicts of stores along the inner dimension.
const int TILE_ROW = TILE + EACH;

// A GEMM of `rows` x `columns` sums over `depth` positions, split into segments of `each` of them. With
// more than one, their sums are in scratch memory and are added up by `join`.
struct Gemm {
    Index batches;
    Index rows;
    Index columns;
    Index depth;
    Index segments;
    Index each;
};

// The work of a block at a time.
struct Unit {
    Index batch;
    Index segment;
    Index row;
    Index column;
};

// Stores a sum in the output, or among the sums of all segments.
template <class S>
__device__ inline void store(const Gemm& p, const Unit& unit, Index row, Index column, S sum,
                             T* output, S* partial) {
    const Index segment = unit.batch * p.segments + unit.segment;
    const Index at = (segment * p.rows + row) * p.columns + column;
    if (p.segments == 1) {
        output[at] = Narrow<T>::from(sum);
    } else {
        partial[at] = sum;
    }
}

template <class S, class Side>
struct Loader {
    const Side& side;
    typename Side::Line lines[EACH];
    S held[EACH];

    __device__ int line(int i) const {
        return side.across ? threadIdx.x / DEPTH + i * (TILE / EACH) : threadIdx.x % TILE;
    }
    __device__ int depth(int i) const {
        return side.across ? threadIdx.x % DEPTH : threadIdx.x / TILE + i * (DEPTH / EACH);
    }
    __device__ Loader(const Side& side, Index first) : side(side) {
        for (int i = 0; i < EACH; ++i) lines[i] = side.line(first + line(i));
    }
    // Loads the elements from position k on; zeros from `end` on.
    __device__ void fetch(Index k, Index end) {
        if (side.across) {
            const typename Side::Depth at = side.depth(k + depth(0));
            const bool inside = k + depth(0) < end;
#pragma unroll
            for (int i = 0; i < EACH; ++i) held[i] = inside ? side.get(lines[i], at) : S(0);
        } else {
#pragma unroll
            for (int i = 0; i < EACH; ++i) {
                const Index own = k + depth(i);
                held[i] = own < end ? side.get(lines[0], side.depth(own)) : S(0);
            }
        }
    }
    __device__ void put(S (*tile)[TILE_ROW]) const {
#pragma unroll
        for (int i = 0; i < EACH; ++i) tile[depth(i)][line(i)] = held[i];
    }
};

// Computes the sums of a unit: calls f(row, column, sum) for each.
template <class S, class Left, class Right, class F>
__device__ inline void multiply(const Gemm& p, const Unit& unit, const Left& left,
                                const Right& right, F f) {
    alignas(64) __shared__ S a[DEPTH][TILE_ROW];
    alignas(64) __shared__ S b[DEPTH][TILE_ROW];
    const int y = threadIdx.x / (TILE / EACH) * EACH, x = threadIdx.x % (TILE / EACH) * EACH;
    const Index begin = unit.segment * p.each;
    const Index end = begin + p.each < p.depth ? begin + p.each : p.depth;
    Loader<S, Left> rows(left, unit.row);
    Loader<S, Right> columns(right, unit.column);
    S sums[EACH][EACH] = {};
    if (begin < end) {
        rows.fetch(begin, end);
        columns.fetch(begin, end);
    }
    for (Index k = begin; k < end; k += DEPTH) {
        rows.put(a);
        columns.put(b);
        __syncthreads();
        // Loads the next elements while these are multiplied.
        rows.fetch(k + DEPTH, end);
        columns.fetch(k + DEPTH, end);
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            const Pack<S, EACH> u = *(const Pack<S, EACH>*)&a[d][y];
            const Pack<S, EACH> v = *(const Pack<S, EACH>*)&b[d][x];
#pragma unroll
            for (int i = 0; i < EACH; ++i) {
#pragma unroll
                for (int j = 0; j < EACH; ++j) sums[i][j] += u.at[i] * v.at[j];
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const Index row = unit.row + y + i;
#pragma unroll
        for (int j = 0; j < EACH; ++j) {
            const Index column = unit.column + x + j;
            if (row < p.rows && column < p.columns) f(row, column, sums[i][j]);
        }
    }
}

// Calls f(unit) for each unit of this block.
template <class F>
__device__ inline void each_unit(const Gemm& p, F f) {
    const Index across = (p.columns + TILE - 1) / TILE, down = (p.rows + TILE - 1) / TILE;
    const Index units = p.batches * p.segments * down * across;
    for (Index i = blockIdx.x; i < units; i += gridDim.x) {
        const Index segment = i / across / down;
        f(Unit{segment / p.segments, segment % p.segments, i / across % down * TILE,
               i % across * TILE});
    }
}

// Adds up the segments of each sum, from the first to the last.
template <class S>
__device__ inline void join(const Gemm& p, const S* partial, T* output) {
    const Index matrix = p.rows * p.columns;
    for (Index i = first(); i < p.batches * matrix; i += stride()) {
        S sum = S(0);
        for (Index segment = 0; segment < p.segments; ++segment) {
            sum += partial[(i / matrix * p.segments + segment) * matrix + i % matrix];
        }
        output[i] = Narrow<T>::from(sum);
    }
}

// A matrix as an operand of a GEMM: its lines, and the steps from one to the next and along each.
struct Matrix {
    typedef Index Line;
    typedef Index Depth;
    const T* from;
    Index lines;
    Index line_step;
    Index depth_step;
    bool across;

    __device__ Index line(Index i) const { return (i < lines ? i : lines - 1) * line_step; }
    __device__ Index depth(Index k) const { return k * depth_step; }
    __device__ Element<T>::Wrap get(Index line, Index depth) const {
        return (Element<T>::Wrap)widen(from[line + depth]);
    }
};
