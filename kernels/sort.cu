// Stable sorts of row numbers, by 4 bits at a time. The rows of an update are sorted, so that one thread takes the updates
// of a row in their order: results do not depend on the order of threads.
#include "thalweg.cuh"

// Elements that a thread takes, and the values of 4 bits.
const int ITEMS = 16;
const int DIGITS = 16;
const int BLOCK = 256;

// Lengths of the dimensions that a vector of indices goes through.
struct Lens {
    Index depth;
    Index len[MOST_DIMS];
};

// Policies for an index that is out of range: an error; an error unless it is negative; left out.
enum Policy { REFUSE, DROP_NEGATIVE, DROP };

// The row that each vector of indices names, and its position. A vector that is left out or refused gets row `rows`, which
// goes behind all others; a refused index lowers the status to its position.
KERNEL(Rows, const T* indices, u32* keys, u32* order, Index n, Lens lens, Index rows, u32 policy,
       u64* status) {
    for (Index i = first(); i < n; i += stride()) {
        Index row = 0;
        bool taken = true;
        for (Index d = 0; d < lens.depth; ++d) {
            const i64 index = (i64)indices[i * lens.depth + d];
            const bool within = index >= 0 && index < (i64)lens.len[d];
            const bool dropped = policy == DROP || (policy == DROP_NEGATIVE && index < 0);
            if (taken && !within && !dropped) atomicMin(status, (u64)(i * lens.depth + d));
            taken = taken && within;
            row = row * lens.len[d] + (within ? (Index)index : 0);
        }
        keys[i] = (u32)(taken ? row : rows);
        order[i] = (u32)i;
    }
}

// A status of no fault.
KERNEL(Accepted, u64* status) {
    if (first() == 0) *status = ~(u64)0;
}

// Counts the values of 4 bits among the keys of each thread.
__device__ inline void count_digits(const u32* keys, Index n, u32 shift, u32* counts) {
    for (int d = 0; d < DIGITS; ++d) counts[d * BLOCK + threadIdx.x] = 0;
    const Index begin = ((Index)blockIdx.x * BLOCK + threadIdx.x) * ITEMS;
    for (Index i = begin; i < begin + ITEMS && i < n; ++i) {
        ++counts[(keys[i] >> shift & 15) * BLOCK + threadIdx.x];
    }
    __syncthreads();
}

// By value and block: the number of keys.
KERNEL(SortCount, const u32* keys, u32* totals, Index n, Index blocks, u32 shift) {
    __shared__ u32 counts[DIGITS * BLOCK];
    count_digits(keys, n, shift, counts);
    if (threadIdx.x < DIGITS) {
        u32 sum = 0;
        for (int t = 0; t < BLOCK; ++t) sum += counts[threadIdx.x * BLOCK + t];
        totals[threadIdx.x * blocks + blockIdx.x] = sum;
    }
}

// Turns numbers into the sums of those before them. One block.
KERNEL(SortScan, u32* totals, Index n) {
    __shared__ u32 sums[BLOCK];
    const Index each = (n + BLOCK - 1) / BLOCK, begin = each * threadIdx.x;
    const Index end = begin + each < n ? begin + each : n;
    u32 sum = 0;
    for (Index i = begin; i < end; ++i) sum += totals[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 before = 0;
        for (int t = 0; t < BLOCK; ++t) {
            const u32 own = sums[t];
            sums[t] = before;
            before += own;
        }
    }
    __syncthreads();
    u32 before = sums[threadIdx.x];
    for (Index i = begin; i < end; ++i) {
        const u32 own = totals[i];
        totals[i] = before;
        before += own;
    }
}

// Moves each key with its position behind those with lower 4 bits, and behind equal ones before it.
KERNEL(SortMove, const u32* keys, const u32* order, const u32* totals, u32* new_keys, u32* new_order,
       Index n, Index blocks, u32 shift) {
    __shared__ u32 counts[DIGITS * BLOCK];
    count_digits(keys, n, shift, counts);
    if (threadIdx.x < DIGITS) {
        u32 at = totals[threadIdx.x * blocks + blockIdx.x];
        for (int t = 0; t < BLOCK; ++t) {
            const u32 own = counts[threadIdx.x * BLOCK + t];
            counts[threadIdx.x * BLOCK + t] = at;
            at += own;
        }
    }
    __syncthreads();
    const Index begin = ((Index)blockIdx.x * BLOCK + threadIdx.x) * ITEMS;
    for (Index i = begin; i < begin + ITEMS && i < n; ++i) {
        const u32 at = counts[(keys[i] >> shift & 15) * BLOCK + threadIdx.x]++;
        new_keys[at] = keys[i];
        new_order[at] = order[i];
    }
}
