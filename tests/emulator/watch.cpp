// Watches the memory accesses of emulated kernels: the functions that code of -fsanitize=thread,bounds calls, with a shadow
// of the memory. It finds accesses out of bounds and out of alignment, reads of memory that nobody has written, and
// races between threads of a block, between two barriers, and between blocks of a launch.
//
// Each byte has a cell. Time is counted in phases: a phase is the part of a block between two barriers. An access of a
// phase of its own block that has ended comes before; one of another block of the launch may come at any time.
#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <dlfcn.h>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transfers.h"

namespace {

typedef uint32_t Phase;
const uint16_t SEVERAL = 0xffff;

// The last accesses of a byte. Phase 0 is before all launches.
struct Cell {
    Phase written = 0;
    Phase read = 0;
    // The first phase of a launch that read it.
    Phase first_read = 0;
    uint16_t writer = 0;
    uint16_t reader = 0;
};

struct Region {
    std::string name;
    uintptr_t begin, end;
    // Reads need a write since this phase.
    Phase unwritten_before;
    // Each block has memory of its own.
    bool shared;
};

const uintptr_t PAGE = 4096;
struct Page {
    Cell cells[PAGE];
};

bool watching = false;
// Of the system's thread: another one may load or unload a library of kernels meanwhile, whose constructors are
// instrumented too.
__attribute__((tls_model("initial-exec"))) thread_local bool in_kernel = false;
Phase phase = 0, of_block = 0, of_launch = 0;
unsigned thread_index = 0, block_index = 0;
// The stack of the running thread, and the function that ends it.
uintptr_t stack_begin = 0, stack_end = 0;
void (*end_thread)() = nullptr;
std::vector<Region> regions;
Region shared_memory;
// The emulator's memory.
uintptr_t own_begin = 0, own_end = 0;
std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages;
uintptr_t last_page_number = 0;
Page* last_page = nullptr;
size_t last_region = 0;
std::vector<std::string> findings;
// The count of transfers, if they are counted.
std::unique_ptr<TransferCount> transfers;
std::vector<void*> places;

Cell& cell(uintptr_t address) {
    const uintptr_t number = address / PAGE;
    if (!last_page || number != last_page_number) {
        std::unique_ptr<Page>& page = pages[number];
        if (!page) page.reset(new Page);
        last_page = page.get();
        last_page_number = number;
    }
    return last_page->cells[address % PAGE];
}

// Keeps one finding for each instruction.
void report(void* place, const char* format, ...) {
    if (findings.size() >= 8 || std::find(places.begin(), places.end(), place) != places.end()) return;
    places.push_back(place);
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    Dl_info library{};
    dladdr(place, &library);
    char line[512];
    const uintptr_t at = (uintptr_t)place - (uintptr_t)library.dli_fbase - 1;
    snprintf(line, sizeof line, "thread %u of block %u %s\t%s\t%lx", thread_index, block_index, text,
             library.dli_fname ? library.dli_fname : "", (unsigned long)at);
    findings.push_back(line);
}

const Region* region_of(uintptr_t begin, uintptr_t end) {
    auto holds = [&](const Region& r) { return r.begin <= begin && end <= r.end; };
    if (last_region < regions.size() && holds(regions[last_region])) return &regions[last_region];
    for (size_t i = 0; i < regions.size(); ++i) {
        if (holds(regions[i])) {
            last_region = i;
            return &regions[i];
        }
    }
    return holds(shared_memory) ? &shared_memory : nullptr;
}

void read(Cell& c, const Region& r, uintptr_t at, void* place) {
    const unsigned long offset = at - r.begin;
    const Phase needed = r.shared ? of_block : r.unwritten_before;
    if (c.written < needed) {
        report(place, "reads byte %lu of %s, which nobody has written", offset, r.name.c_str());
    }
    if (c.written == phase && c.writer != thread_index) {
        report(place, "reads byte %lu of %s, which thread %u writes without a barrier between", offset,
               r.name.c_str(), c.writer);
    }
    if (!r.shared && c.written >= of_launch && c.written < of_block) {
        report(place, "reads byte %lu of %s, which another block writes", offset, r.name.c_str());
    }
    c.reader = c.read == phase && c.reader != thread_index ? SEVERAL : thread_index;
    c.read = phase;
    if (c.first_read < of_launch) c.first_read = phase;
}

void write(Cell& c, const Region& r, uintptr_t at, void* place) {
    const unsigned long offset = at - r.begin;
    if (c.written == phase && c.writer != thread_index) {
        report(place, "writes byte %lu of %s, which thread %u writes without a barrier between", offset,
               r.name.c_str(), c.writer);
    }
    if (c.read == phase && c.reader != thread_index) {
        report(place, "writes byte %lu of %s, which another thread reads without a barrier between", offset,
               r.name.c_str());
    }
    const bool by_other = c.written >= of_launch && c.written < of_block;
    const bool read_by_other = c.first_read >= of_launch && c.first_read < of_block;
    if (!r.shared && (by_other || read_by_other)) {
        report(place, "writes byte %lu of %s, which another block %s", offset, r.name.c_str(),
               by_other ? "writes" : "reads");
    }
    c.written = phase;
    c.writer = thread_index;
}

// Ends the running thread, whose next access would be one of memory that is not its own.
void stop() {
    in_kernel = false;
    end_thread();
}

void access(void* pointer, size_t bytes, size_t alignment, bool writes, void* place) {
    const uintptr_t begin = (uintptr_t)pointer, end = begin + bytes;
    if (!in_kernel || !watching || (begin >= stack_begin && end <= stack_end)) return;
    if (own_begin <= begin && end <= own_end) return;
    if (begin % alignment != 0) {
        report(place, "accesses %zu bytes at an address that is no multiple of %zu", bytes, alignment);
        stop();
    }
    const Region* region = region_of(begin, end);
    if (!region) {
        report(place, "%s %zu bytes out of bounds", writes ? "writes" : "reads", bytes);
        stop();
    }
    if (transfers) transfers->add(place, thread_index, region->shared, begin, bytes);
    for (uintptr_t at = begin; at < end; ++at) {
        (writes ? write : read)(cell(at), *region, at, place);
    }
}

}  // namespace

// The emulator's calls.
extern "C" {
// Begins a launch of a library: its static memory, which is what a block's threads share, but for the emulator's own.
void watch_launch(void* begin, void* end, void* own, size_t own_bytes) {
    of_launch = phase + 1;
    shared_memory = {"shared memory", (uintptr_t)begin, (uintptr_t)end, 0, true};
    own_begin = (uintptr_t)own;
    own_end = own_begin + own_bytes;
}
void watch_block(unsigned index) {
    block_index = index;
    of_block = phase + 1;
}
void watch_phase() {
    ++phase;
    if (transfers) transfers->flush();
}
// Watches the accesses of a thread until `watch_pause`. `end` ends it.
void watch_thread(unsigned index, void* stack, size_t bytes, void (*end)()) {
    end_thread = end;
    in_kernel = true;
    thread_index = index;
    stack_begin = (uintptr_t)stack;
    stack_end = stack_begin + bytes;
}
void watch_pause() { in_kernel = false; }
// An atomic access, which is taken to conflict with no other.
void watch_atomic(void* pointer, size_t bytes) {
    const uintptr_t begin = (uintptr_t)pointer;
    if (watching && !region_of(begin, begin + bytes)) {
        report(__builtin_return_address(0), "updates %zu bytes out of bounds", bytes);
    }
}

// The tests' calls.
void watch_begin(bool counts) {
    transfers.reset(counts ? new TransferCount : nullptr);
    // Bounds the memory of the shadow, which is 16 times that of the accesses.
    if (pages.size() > 4096) pages.clear();
    last_page = nullptr;
    regions.clear();
    findings.clear();
    places.clear();
    watching = true;
}
void watch_region(const char* name, void* begin, size_t bytes, bool written) {
    regions.push_back({name, (uintptr_t)begin, (uintptr_t)begin + bytes, written ? 0 : phase + 1, false});
}
// The requests, transfers and least transfers of global memory, and then of shared memory.
void watch_transfers(uint64_t* to) {
    if (!transfers) return;
    transfers->flush();
    for (const Transfers& t : {transfers->global, transfers->shared}) {
        *to++ = t.requests;
        *to++ = t.transfers;
        *to++ = t.least;
    }
}
// Ends watching; calls back with each finding: text, library, and the instruction's offset, separated by tabs.
void watch_end(void (*each)(const char*, void*), void* argument) {
    watching = false;
    for (const std::string& finding : findings) each(finding.c_str(), argument);
}

// The compiler's calls.
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
#define ACCESSES(BYTES)                                                                                        \
    void __tsan_read##BYTES(void* p) { access(p, BYTES, BYTES, false, __builtin_return_address(0)); }            \
    void __tsan_write##BYTES(void* p) { access(p, BYTES, BYTES, true, __builtin_return_address(0)); }            \
    void __tsan_unaligned_read##BYTES(void* p) { access(p, BYTES, 1, false, __builtin_return_address(0)); }      \
    void __tsan_unaligned_write##BYTES(void* p) { access(p, BYTES, 1, true, __builtin_return_address(0)); }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
// An index of an array, before it is used.
void __ubsan_handle_out_of_bounds(void*, void*) {
    if (!in_kernel || !watching) return;
    report(__builtin_return_address(0), "accesses an array beyond its end");
    stop();
}
void __tsan_read_range(void* p, size_t bytes) { access(p, bytes, 1, false, __builtin_return_address(0)); }
void __tsan_write_range(void* p, size_t bytes) { access(p, bytes, 1, true, __builtin_return_address(0)); }
}
