// CUDA on a CPU, for tests: the kernels of `kernels/*.cu` as plain C++. Blocks run one after the
// other; the threads of a block are fibers, which are switched where they wait for each other, so
// that the order in which they run is this header's choice. It stands in for the few parts of CUDA
// that the kernels use.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __restrict__
// Blocks run one after the other: shared memory is static, in templates too each library's own
// (-fno-gnu-unique).
#define __shared__ static

using std::cos;
using std::exp;
using std::expm1;
using std::fabs;
using std::floor;
using std::fmod;
using std::log;
using std::log1p;
using std::pow;
using std::sin;
using std::sqrt;
using std::tanh;

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};

namespace emulator {

struct Fiber {
    void* stack_pointer = nullptr;
    std::vector<char> stack;
    bool done = false;
};

struct Machine {
    dim3 grid, block, block_index;
    unsigned thread = 0;
    void* scheduler = nullptr;
    std::vector<Fiber> fibers;
    void (*body)(void*) = nullptr;
    void* argument = nullptr;
};

inline Machine machine;

// Calls of `watch.cpp`, for kernels that are compiled with -fsanitize=thread. Accesses are watched from `watch_thread`
// to `watch_pause`.
#ifdef WATCHED
extern "C" {
void watch_launch(void* begin, void* end, void* own, size_t own_bytes);
void watch_block(unsigned index);
void watch_phase();
void watch_thread(unsigned index, void* stack, size_t bytes, void (*end)());
void watch_pause();
void watch_atomic(void* address, size_t bytes);
// The linker's names for the bounds of static memory.
extern char __bss_start[] __attribute__((visibility("hidden")));
extern char _end[] __attribute__((visibility("hidden")));
}
inline void watch_own_launch() { watch_launch(__bss_start, _end, &machine, sizeof machine); }
#else
inline void watch_own_launch() {}
inline void watch_block(unsigned) {}
inline void watch_phase() {}
inline void watch_thread(unsigned, void*, size_t, void (*)()) {}
inline void watch_pause() {}
inline void watch_atomic(void*, size_t) {}
#endif

// Saves the registers that a call keeps, and takes up those that lie at another stack.
extern "C" void emulator_switch(void** from, void* to);
__asm__(
    ".text\n"
    ".weak emulator_switch\n"
    "emulator_switch:\n"
    "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n"
    "    pushq %r13\n    pushq %r14\n    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n    popq %r14\n    popq %r13\n"
    "    popq %r12\n    popq %rbx\n    popq %rbp\n"
    "    ret\n");

inline void watch_own_thread();

inline void yield() {
    watch_pause();
    Fiber& own = machine.fibers[machine.thread];
    emulator_switch(&own.stack_pointer, machine.scheduler);
    if (!own.done) watch_own_thread();
}

// Ends the running thread.
inline void end() {
    machine.fibers[machine.thread].done = true;
    yield();
    std::abort();
}

inline void enter() {
    machine.body(machine.argument);
    end();
}

inline void watch_own_thread() {
    Fiber& own = machine.fibers[machine.thread];
    watch_thread(machine.thread, own.stack.data(), own.stack.size(), end);
}

inline void prepare(Fiber& fiber) {
    const size_t bytes = 64 << 10;
    fiber.stack.resize(bytes);
    fiber.done = false;
    auto top = (uintptr_t)(fiber.stack.data() + bytes) & ~(uintptr_t)15;
    auto* words = (void**)top;
    // A function is entered with the stack 8 below a multiple of 16.
    *--words = nullptr;
    *--words = (void*)enter;
    for (int i = 0; i < 6; ++i) *--words = nullptr;
    fiber.stack_pointer = words;
}

// Runs one block. `order` is 0 for ascending threads, 1 for descending, otherwise a seed.
inline bool run_block(unsigned threads, unsigned order) {
    std::vector<unsigned> turns(threads);
    for (unsigned i = 0; i < threads; ++i) turns[i] = order == 1 ? threads - 1 - i : i;
    unsigned long long state = order;
    for (unsigned i = threads; order > 1 && i > 1; --i) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        std::swap(turns[i - 1], turns[(state >> 33) % i]);
    }
    machine.fibers.resize(threads);
    for (Fiber& fiber : machine.fibers) prepare(fiber);
    // Each round takes every thread to its next barrier: the same one, or the kernel is wrong.
    for (;;) {
        unsigned ended = 0;
        watch_phase();
        for (unsigned t : turns) {
            Fiber& fiber = machine.fibers[t];
            if (!fiber.done) {
                machine.thread = t;
                emulator_switch(&machine.scheduler, fiber.stack_pointer);
            }
            ended += fiber.done;
        }
        if (ended == threads) return true;
        if (ended > 0) return false;  // Some wait where others have ended.
    }
}

struct ThreadIndex {
    struct X {
        operator unsigned() const { return machine.thread; }
    } x;
};
struct BlockIndex {
    struct X {
        operator unsigned() const { return machine.block_index.x; }
    } x;
};
struct BlockDim {
    struct X {
        operator unsigned() const { return machine.block.x; }
    } x;
};
struct GridDim {
    struct X {
        operator unsigned() const { return machine.grid.x; }
    } x;
};

template <class... A, size_t... I>
void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    std::tuple<std::decay_t<A>...> values{};
    (std::memcpy(&std::get<I>(values), arguments[I], sizeof(std::get<I>(values))), ...);
    watch_own_thread();
    std::apply(kernel, values);
    watch_pause();
}

template <class... A>
int launch(void (*kernel)(A...), unsigned blocks, unsigned threads, void** arguments, unsigned order) {
    struct Bound {
        void (*kernel)(A...);
        void** arguments;
    } bound{kernel, arguments};
    machine.argument = &bound;
    machine.body = [](void* b) {
        auto* bound = (Bound*)b;
        call(bound->kernel, bound->arguments, std::index_sequence_for<A...>());
    };
    machine.grid.x = blocks;
    machine.block.x = threads;
    watch_own_launch();
    for (unsigned i = 0; i < blocks; ++i) {
        machine.block_index.x = order == 1 ? blocks - 1 - i : i;
        watch_block(machine.block_index.x);
        if (!run_block(threads, order)) return 1;
    }
    return 0;
}

// The bytes of argument i of a kernel; 0 where it has no such argument.
template <class... A>
unsigned size_of_argument(void (*)(A...), unsigned i) {
    const unsigned sizes[] = {(unsigned)sizeof(A)..., 0};
    return i < sizeof...(A) ? sizes[i] : 0;
}

}  // namespace emulator

static const emulator::ThreadIndex threadIdx;
static const emulator::BlockIndex blockIdx;
static const emulator::BlockDim blockDim;
static const emulator::GridDim gridDim;

inline void __syncthreads() { emulator::yield(); }

// A thread runs until it waits: nothing comes between.
inline unsigned long long atomicMin(unsigned long long* address, unsigned long long value) {
    emulator::watch_atomic(address, sizeof *address);
    emulator::watch_pause();
    const unsigned long long old = *address;
    *address = std::min(old, value);
    emulator::watch_own_thread();
    return old;
}

// A kernel, and the function that launches it on the CPU.
#define ENTRY(name, ...)                                                                     \
    static void name(__VA_ARGS__);                                                           \
    extern "C" int launch_##name(unsigned blocks, unsigned threads, void** arguments,        \
                                 unsigned order) {                                           \
        return emulator::launch(name, blocks, threads, arguments, order);                    \
    }                                                                                        \
    extern "C" unsigned size_##name(unsigned i) { return emulator::size_of_argument(name, i); } \
    static void name(__VA_ARGS__)

inline float __uint_as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}
inline unsigned __float_as_uint(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}

inline float half_to_float(unsigned short bits) {
    _Float16 half;
    std::memcpy(&half, &bits, 2);
    return (float)half;
}
inline unsigned short float_to_half(float value) {
    _Float16 half = (_Float16)value;
    unsigned short bits;
    std::memcpy(&bits, &half, 2);
    return bits;
}
