// Strided copies of a box of elements. The type of an element is given by
// its size alone.
#include "thalweg.cuh"

const int MOST_AXES = 12;

// Lengths of the axes, outermost first, and the steps along them for reading and
// for writing; a step of 0 repeats.
struct Box {
    Index rank;
    Index len[MOST_AXES];
    i64 from[MOST_AXES];
    i64 to[MOST_AXES];
};

// Offsets at which element i of the box is read and written.
__device__ inline void locate(const Box& box, Index i, i64& from, i64& to) {
    unravel(box.rank, box.len, i, [&](int axis, Index index) {
        from += (i64)index * box.from[axis];
        to += (i64)index * box.to[axis];
    });
}

KERNEL(Move, const T* input, T* output, Index n, i64 from, i64 to, Box box) {
    for (Index i = first(); i < n; i += stride()) {
        i64 read = from, write = to;
        locate(box, i, read, write);
        output[write] = input[read];
    }
}

// The axis whose elements are adjacent for reading, the one whose elements are adjacent for writing, and the other step
// along each.
struct Tile {
    i64 reads;
    i64 writes;
    i64 to;
    i64 from;
};

// The same where neighbours are read along one axis and written along another: squares of SIDE x SIDE elements go through
// shared memory, so that both sides move whole sectors. The box has the other axes. Blocks of 256 threads.
const int SIDE = 32, ROWS = 256 / SIDE;

KERNEL(MoveTiles, const T* input, T* output, Index units, i64 from, i64 to, Tile tile, Box box) {
    // Rows are longer by a bank, so that a column lies in all banks.
    __shared__ T square[SIDE][SIDE + (sizeof(T) < 4 ? 4 / sizeof(T) : 1)];
    const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
    const i64 across = (tile.reads + SIDE - 1) / SIDE, down = (tile.writes + SIDE - 1) / SIDE;
    for (Index unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const i64 reads = unit % across * SIDE, writes = unit / across % down * SIDE;
        i64 read = from + reads + writes * tile.from, write = to + writes + reads * tile.to;
        locate(box, unit / across / down, read, write);
#pragma unroll
        for (int k = y; k < SIDE; k += ROWS) {
            if (reads + x < tile.reads && writes + k < tile.writes) {
                square[k][x] = input[read + x + k * tile.from];
            }
        }
        __syncthreads();
#pragma unroll
        for (int k = y; k < SIDE; k += ROWS) {
            if (writes + x < tile.writes && reads + k < tile.reads) {
                output[write + x + k * tile.to] = square[x][k];
            }
        }
        __syncthreads();
    }
}

KERNEL(Zero, T* output, Index n, i64 to, Box box) {
    for (Index i = first(); i < n; i += stride()) {
        i64 read = 0, write = to;
        locate(box, i, read, write);
        output[write] = T(0);
    }
}
