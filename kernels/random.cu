// Counter-based random numbers: Philox 4x32-10, as on the CPU. The words of a block depend on the
// seeds and its number alone, so that threads are independent. Entries are named as their ops.
#include "thalweg.cuh"

typedef Element<T>::Wide W;
typedef Element<T>::Wrap Wrap;

// The seeds: the key, and the upper half of the counter.
struct Philox {
    u32 key[2];
    u32 stream[2];
};

struct Words {
    u32 at[4];
};

// Where numbers begin: the first block, and the seeds.
struct Start {
    u64 first;
    Philox philox;
};

// The four words of block `at`.
__device__ inline Words block(const Philox& philox, u64 at) {
    u32 x0 = (u32)at, x1 = (u32)(at >> 32), x2 = philox.stream[0], x3 = philox.stream[1];
    u32 key0 = philox.key[0], key1 = philox.key[1];
    for (int round = 0; round < 10; ++round) {
        const u64 a = (u64)0xd2511f53 * x0, b = (u64)0xcd9e8d57 * x2;
        x0 = (u32)(b >> 32) ^ x1 ^ key0;
        x1 = (u32)b;
        x2 = (u32)(a >> 32) ^ x3 ^ key1;
        x3 = (u32)a;
        key0 += 0x9e3779b9;
        key1 += 0xbb67ae85;
    }
    return Words{{x0, x1, x2, x3}};
}

// The start: of a node with a counter in memory, whose seeds never change; or as it is stored in three words, by a launch
// before.
__device__ inline Start start_at(const u64* from, const Philox& philox, u32 stored) {
    if (!stored) return Start{from[0], philox};
    const u64 key = from[1], stream = from[2];
    return Start{from[0], {{(u32)key, (u32)(key >> 32)}, {(u32)stream, (u32)(stream >> 32)}}};
}

// The bits of a seed: i32 (kind 0), u32 (kind 1), or 64 bits (kind 2).
__device__ inline u64 seed_bits(const u32* seeds, int i, u32 kind) {
    if (kind == 2) return (u64)seeds[2 * i] | (u64)seeds[2 * i + 1] << 32;
    return kind == 0 ? (u64)(i64)(i32)seeds[i] : (u64)seeds[i];
}

// Stores the start for two seeds: a block of them, so that it does not matter which of their bits differ.
KERNEL(SeedStart, const u32* seeds, u32 kind, u64* start) {
    if (first() != 0) return;
    const u64 seed = seed_bits(seeds, 0, kind), seed2 = seed_bits(seeds, 1, kind);
    const Philox philox = {{0x3ec8f720, 0x02461e29}, {(u32)seed2, (u32)(seed2 >> 32)}};
    const Words x = block(philox, seed);
    start[0] = 0;
    start[1] = (u64)x.at[0] | (u64)x.at[1] << 32;
    start[2] = (u64)x.at[2] | (u64)x.at[3] << 32;
}

// Stores the start for a key and a counter, where the algorithm is Philox (1) or any (3).
KERNEL(KeyStart, const u64* key, const u64* counter, const i32* algorithm, u64* start, u64* status) {
    if (first() != 0) return;
    if (algorithm[0] != 1 && algorithm[0] != 3) atomicMin(status, (u64)0);
    start[0] = counter[0];
    start[1] = key[0];
    start[2] = counter[1];
}

// Number of elements from a block.
const int N = sizeof(T) == 8 ? 2 : 4;
typedef Pack<T, N> Group;

// Calls f(i) for each group of elements, and stores its results.
template <class F>
__device__ inline void each_group(T* output, Index n, F f) {
    for (Index i = first(); i < n / N; i += stride()) ((Group*)output)[i] = f(i);
    if (n % N != 0 && first() == 0) {
        const Group last = f(n / N);
        for (Index i = n / N * N; i < n; ++i) output[i] = last.at[i % N];
    }
}

#ifdef T_FLOAT
// Number of bits of a mantissa, which is the number of random bits.
template <class E>
constexpr int mantissa = 23;
template <>
constexpr int mantissa<f16> = 10;
template <>
constexpr int mantissa<bf16> = 7;

// Number k of a block, in [0, 1): from the lowest bits of a word, or from 52 bits of two words.
__device__ inline f32 even(const Words& x, int k, int bits, f32) {
    return (f32)(x.at[k] & ((1u << bits) - 1)) / (f32)(1u << bits);
}
__device__ inline f64 even(const Words& x, int k, int, f64) {
    const u64 high = x.at[2 * k] & 0xfffff;
    return (f64)(high << 32 | x.at[2 * k + 1]) / (f64)((u64)1 << 52);
}

KERNEL(RandomUniform, const u64* from, T* output, Index n, Philox seeds, u32 stored) {
    const Start start = start_at(from, seeds, stored);
    each_group(output, n, [&](Index i) {
        const Words x = block(start.philox, start.first + i);
        Group group;
        for (int k = 0; k < N; ++k) group.at[k] = Narrow<T>::from(even(x, k, mantissa<T>, W(0)));
        return group;
    });
}

// The numbers of a block, in the type of the computation.
struct Normal {
    W at[N];
};

// Two normal numbers from two uniform ones, by the Box-Muller transform. The lower bound of the logarithm's argument is
// TensorFlow's, and so is the product in f64: near a multiple of pi / 2 the angle's last bit counts.
__device__ inline void pair(W u, W v, W* out) {
    const W least = W(1e-7), angle = W(6.283185307179586 * f64(v));
    const W radius = sqrt(W(-2) * log(u < least ? least : u));
    out[0] = sin(angle) * radius;
    out[1] = cos(angle) * radius;
}

__device__ inline Normal normal(const Words& x) {
    Normal all;
    const int bits = mantissa<f32>;
    for (int k = 0; k < N; k += 2) {
        pair(even(x, k, bits, W(0)), even(x, k + 1, bits, W(0)), all.at + k);
    }
    return all;
}

KERNEL(RandomStandardNormal, const u64* from, T* output, Index n, Philox seeds, u32 stored) {
    const Start start = start_at(from, seeds, stored);
    each_group(output, n, [&](Index i) {
        const Normal drawn = normal(block(start.philox, start.first + i));
        Group group;
        for (int k = 0; k < N; ++k) group.at[k] = Narrow<T>::from(drawn.at[k]);
        return group;
    });
}

// Each group has blocks of its own, and keeps the numbers between -2 and 2 until it is full.
KERNEL(TruncatedNormal, const u64* from, T* output, Index n, Philox seeds, u32 stored) {
    const Start start = start_at(from, seeds, stored);
    const int blocks = 64 * N;
    each_group(output, n, [&](Index i) {
        Group group;
        u64 at = start.first + (u64)i * blocks;
        for (int filled = 0; filled < N; ++at) {
            const Normal drawn = normal(block(start.philox, at));
            for (int k = 0; k < N; ++k) {
                if (fabs(drawn.at[k]) < W(2) && filled < N) {
                    group.at[filled++] = Narrow<T>::from(drawn.at[k]);
                }
            }
        }
        return group;
    });
}
#else
// Integer k of a block.
__device__ inline u64 integer(const Words& x, int k) {
    return N == 2 ? (u64)x.at[2 * k] | (u64)x.at[2 * k + 1] << 32 : (u64)x.at[k];
}

// Integers from low up to, but not including, high.
KERNEL(RandomUniformInt, const T* low, const T* high, const u64* from, T* output, Index n,
       Philox seeds, u32 stored, u64* status) {
    const Start start = start_at(from, seeds, stored);
    const T least = low[0];
    if (least >= high[0]) {
        if (first() == 0) atomicMin(status, (u64)0);
        return;
    }
    const Wrap range = (Wrap)high[0] - (Wrap)least;
    each_group(output, n, [&](Index i) {
        const Words x = block(start.philox, start.first + i);
        Group group;
        for (int k = 0; k < N; ++k) {
            group.at[k] = (T)((Wrap)least + (Wrap)integer(x, k) % range);
        }
        return group;
    });
}

// Integers over the whole range of the type.
KERNEL(RandomUniformFullInt, const u64* from, T* output, Index n, Philox seeds, u32 stored) {
    const Start start = start_at(from, seeds, stored);
    each_group(output, n, [&](Index i) {
        const Words x = block(start.philox, start.first + i);
        Group group;
        for (int k = 0; k < N; ++k) group.at[k] = (T)integer(x, k);
        return group;
    });
}
#endif

// Advances the counter: the next step draws from the blocks after these.
KERNEL(Advance, u64* counter, u64 blocks) {
    if (first() == 0) counter[0] += blocks;
}
