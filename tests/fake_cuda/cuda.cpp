// A driver of CUDA whose card is this processor: so much of the driver's interface as Thalweg calls.
// Machine code is the path of a library of emulated kernels, which the NVRTC beside this makes.
//
// Commands of a stream run when a caller waits for the stream or queries it, and no earlier. Commands of a second
// stream run as late as possible: where a stream waits for it. So a read of a result without a wait, or a write to an
// argument, changes the results.
//
// FAKE_CUDA_VERSION, FAKE_CUDA_CARDS and FAKE_CUDA_BYTES set the version of the driver, and the number and memory of the
// cards; FAKE_CUDA_FAILS names a function that fails, and FAKE_CUDA_CODE its code. FAKE_CUDA_HANGS lets the first stream hang;
// the numbers of the children that it starts before are written to the file that it names.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

enum Result {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    NOT_FOUND = 500,
    NOT_READY = 600,
    LAUNCH_FAILED = 719,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALID = 901,
    CAPTURE_UNJOINED = 904,
};

typedef unsigned long long Address;
typedef std::vector<std::function<int()>> Commands;

struct Stream {
    Commands waiting;
    Commands captured;
    bool captures = false;
    // The stream that this one follows, and whose capture it has joined.
    Stream* origin = nullptr;
    // Commands that no wait has run yet.
    Commands aside;
    // Commands in progress after a query.
    std::thread runner;
    std::atomic<bool> done{false};
    int result = 0;
};

struct Event {
    Stream* stream = nullptr;
};

struct Function {
    int (*launch)(unsigned, unsigned, void**, unsigned);
    unsigned (*size)(unsigned);
};

static std::mutex lock;
static std::set<Stream*> streams;
static std::map<Address, size_t> memory;
static size_t used = 0;
// By block of memory: the context that it was taken in.
static std::map<Address, void*> owner;
// The contexts that reach another one's memory, and which.
static std::set<std::pair<void*, void*>> reached;
static thread_local void* current = nullptr;
static int contexts[16];

// Never returns; starts a child first, whose number it adds to a file.
[[noreturn]] static void hang(const char* children) {
    const pid_t child = fork();
    if (child == 0) {
        execlp("sleep", "sleep", "1000", (char*)nullptr);
        _exit(1);
    }
    if (FILE* file = fopen(children, "a")) {
        fprintf(file, "%d\n", child);
        fclose(file);
    }
    for (;;) pause();
}

static long number(const char* variable, long otherwise) {
    const char* text = getenv(variable);
    return text ? atol(text) : otherwise;
}

static bool fails(const char* function) {
    const char* name = getenv("FAKE_CUDA_FAILS");
    return name && !strcmp(name, function);
}

// Every function that needs a context says so, as the driver does.
#define ENTER(function)                             \
    if (fails(function)) return (int)number("FAKE_CUDA_CODE", LAUNCH_FAILED); \
    if (!current) return INVALID_CONTEXT;           \
    std::lock_guard<std::mutex> guard(lock)

static void* owner_of(Address address) {
    auto after = owner.upper_bound(address);
    return after == owner.begin() ? nullptr : std::prev(after)->second;
}

static int hand(Stream* stream, std::function<int()> command) {
    if (!stream) return INVALID_VALUE;
    if (stream->origin) {
        stream->aside.push_back(std::move(command));
        return SUCCESS;
    }
    (stream->captures ? stream->captured : stream->waiting).push_back(std::move(command));
    return SUCCESS;
}

static int run(Commands commands) {
    for (auto& command : commands) {
        if (int error = command()) return error;
    }
    return SUCCESS;
}

// Ends the commands that a query has begun.
static int end_query(Stream* stream) {
    stream->runner.join();
    return stream->result;
}

#ifndef WITHOUT_FUNCTIONS
// For the other fake libraries: submits their work to a stream.
// The stream that this thread captures. Meanwhile the thread may take and give no memory, and load no modules.
static thread_local Stream* capturing = nullptr;
#define REFUSED_IN_CAPTURE \
    if (capturing) return CAPTURE_UNSUPPORTED;

extern "C" int fake_cuda_hand(Stream* stream, std::function<int()>* command) {
    std::lock_guard<std::mutex> guard(lock);
    return hand(stream, *command);
}

extern "C" {
int cuInit(unsigned) { return number("FAKE_CUDA_CARDS", 1) > 0 ? SUCCESS : NO_DEVICE; }

int cuDriverGetVersion(int* version) {
    *version = number("FAKE_CUDA_VERSION", 13000);
    return SUCCESS;
}

int cuDeviceGetCount(int* count) {
    *count = number("FAKE_CUDA_CARDS", 1);
    return SUCCESS;
}

int cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return ordinal < number("FAKE_CUDA_CARDS", 1) ? SUCCESS : INVALID_DEVICE;
}

int cuDeviceGetName(char* name, int length, int) {
    snprintf(name, length, "Fake card");
    return SUCCESS;
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
    // The compute capability's major and minor number.
    *value = attribute == 75 ? 9 : 0;
    return SUCCESS;
}

int cuDeviceTotalMem_v2(size_t* bytes, int) {
    *bytes = number("FAKE_CUDA_BYTES", 1l << 40);
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
    if (fails("cuDevicePrimaryCtxRetain")) return OUT_OF_MEMORY;
    *context = &contexts[device];
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }

int cuCtxSetCurrent(void* context) {
    current = context;
    return SUCCESS;
}

int cuCtxGetCurrent(void** context) {
    *context = current;
    return SUCCESS;
}

int cuDeviceCanAccessPeer(int* can, int device, int peer) {
    *can = device != peer;
    return SUCCESS;
}

int cuCtxEnablePeerAccess(void* peer, unsigned flags) {
    ENTER("cuCtxEnablePeerAccess");
    if (flags || !reached.insert({current, peer}).second) return INVALID_VALUE;
    return SUCCESS;
}

int cuMemGetInfo_v2(size_t* free, size_t* total) {
    ENTER("cuMemGetInfo_v2");
    *total = number("FAKE_CUDA_BYTES", 1l << 40);
    *free = *total - used;
    return SUCCESS;
}

int cuStreamCreate(Stream** stream, unsigned) {
    ENTER("cuStreamCreate");
    if (getenv("FAKE_CUDA_DIES")) abort();
    if (const char* children = getenv("FAKE_CUDA_HANGS")) hang(children);
    *stream = new Stream();
    streams.insert(*stream);
    return SUCCESS;
}

int cuStreamDestroy_v2(Stream* stream) {
    ENTER("cuStreamDestroy_v2");
    streams.erase(stream);
    for (Stream* other : streams) {
        if (other->origin == stream) other->origin = nullptr;
    }
    if (stream->runner.joinable()) stream->runner.join();
    delete stream;
    return SUCCESS;
}

int cuStreamSynchronize(Stream* stream) {
    std::unique_lock<std::mutex> guard(lock);
    if (fails("cuStreamSynchronize")) return LAUNCH_FAILED;
    if (!current) return INVALID_CONTEXT;
    if (stream->captures) return CAPTURE_INVALID;
    Commands commands;
    commands.swap(stream->waiting);
    // Commands without a wait run at the end.
    for (auto& command : stream->aside) commands.push_back(command);
    stream->aside.clear();
    guard.unlock();
    // Other threads may call the driver while this one waits.
    if (stream->runner.joinable()) {
        if (int error = end_query(stream)) return error;
    }
    return run(std::move(commands));
}

int cuStreamQuery(Stream* stream) {
    ENTER("cuStreamQuery");
    if (stream->captures) return CAPTURE_INVALID;
    if (!stream->runner.joinable()) {
        if (stream->waiting.empty()) return SUCCESS;
        Commands commands;
        commands.swap(stream->waiting);
        stream->done = false;
        stream->runner = std::thread([stream, commands, context = current] {
            current = context;
            stream->result = run(commands);
            stream->done = true;
        });
    }
    if (!stream->done) return NOT_READY;
    int result = end_query(stream);
    if (result) return result;
    return stream->waiting.empty() ? SUCCESS : NOT_READY;
}

int cuEventCreate(Event** event, unsigned) {
    ENTER("cuEventCreate");
    *event = new Event();
    return SUCCESS;
}

int cuEventDestroy_v2(Event* event) {
    ENTER("cuEventDestroy_v2");
    delete event;
    return SUCCESS;
}

int cuEventRecord(Event* event, Stream* stream) {
    ENTER("cuEventRecord");
    event->stream = stream;
    return SUCCESS;
}

int cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
    ENTER("cuStreamWaitEvent");
    Stream* other = event->stream;
    if (!other || other == stream) return SUCCESS;
    if (other->origin == stream) {
        // Deferred commands run here.
        for (auto& command : other->aside) hand(stream, std::move(command));
        other->aside.clear();
        return SUCCESS;
    }
    // All later commands of this stream come after the other stream's earlier commands.
    if (stream->origin && stream->origin != other && !stream->aside.empty()) return INVALID_VALUE;
    stream->origin = other;
    return SUCCESS;
}

int cuMemAlloc_v2(Address* address, size_t bytes) {
    ENTER("cuMemAlloc_v2");
    REFUSED_IN_CAPTURE
    if (bytes == 0) return INVALID_VALUE;
    if (used + bytes > (size_t)number("FAKE_CUDA_BYTES", 1l << 40)) return OUT_OF_MEMORY;
    void* block = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!block) return OUT_OF_MEMORY;
    memset(block, 0xa5, bytes);
    used += bytes;
    memory[(Address)block] = bytes;
    owner[(Address)block] = current;
    *address = (Address)block;
    return SUCCESS;
}

int cuMemFree_v2(Address address) {
    ENTER("cuMemFree_v2");
    REFUSED_IN_CAPTURE
    auto found = memory.find(address);
    if (found == memory.end()) return INVALID_VALUE;
    used -= found->second;
    memory.erase(found);
    owner.erase(address);
    free((void*)address);
    return SUCCESS;
}

int cuMemHostAlloc(void** block, size_t bytes, unsigned) {
    ENTER("cuMemHostAlloc");
    REFUSED_IN_CAPTURE
    *block = aligned_alloc(64, (bytes + 63) / 64 * 64);
    return *block ? SUCCESS : OUT_OF_MEMORY;
}

int cuMemFreeHost(void* block) {
    ENTER("cuMemFreeHost");
    REFUSED_IN_CAPTURE
    free(block);
    return SUCCESS;
}

int cuModuleLoadData(void** module, const void* image) {
    ENTER("cuModuleLoadData");
    REFUSED_IN_CAPTURE
    *module = dlopen((const char*)image, RTLD_NOW | RTLD_LOCAL);
    return *module ? SUCCESS : INVALID_VALUE;
}

int cuModuleUnload(void* module) {
    ENTER("cuModuleUnload");
    REFUSED_IN_CAPTURE
    return dlclose(module) ? INVALID_VALUE : SUCCESS;
}

int cuModuleGetFunction(Function** function, void* module, const char* name) {
    ENTER("cuModuleGetFunction");
    const std::string launch = std::string("launch_") + name, size = std::string("size_") + name;
    Function found;
    *(void**)&found.launch = dlsym(module, launch.c_str());
    *(void**)&found.size = dlsym(module, size.c_str());
    if (!found.launch || !found.size) return NOT_FOUND;
    *function = new Function(found);
    return SUCCESS;
}

int cuLaunchKernel(Function* function, unsigned x, unsigned y, unsigned z, unsigned threads,
                   unsigned threads_y, unsigned threads_z, unsigned shared, Stream* stream,
                   void** arguments, void** extra) {
    ENTER("cuLaunchKernel");
    const bool flat = y == 1 && z == 1 && threads_y == 1 && threads_z == 1;
    if (!flat || x == 0 || threads == 0 || threads > 1024 || shared || extra) return INVALID_VALUE;
    std::vector<std::vector<char>> values;
    for (unsigned i = 0; unsigned size = function->size(i); ++i) {
        values.emplace_back((char*)arguments[i], (char*)arguments[i] + size);
    }
    return hand(stream, [=]() mutable {
        std::vector<void*> pointers;
        for (auto& value : values) pointers.push_back(value.data());
        return function->launch(x, threads, pointers.data(), 0) ? LAUNCH_FAILED : SUCCESS;
    });
}

static int copy(void* to, const void* from, size_t bytes, Stream* stream) {
    return hand(stream, [=] {
        memcpy(to, from, bytes);
        return SUCCESS;
    });
}

int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, Stream* stream) {
    ENTER("cuMemcpyHtoDAsync_v2");
    return copy((void*)to, from, bytes, stream);
}

int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, Stream* stream) {
    ENTER("cuMemcpyDtoHAsync_v2");
    return copy(to, (void*)from, bytes, stream);
}

int cuMemcpyAsync(Address to, Address from, size_t bytes, Stream* stream) {
    ENTER("cuMemcpyAsync");
    // Real cards would copy through the host: slower, and not seen in a test.
    void *source = owner_of(from), *target = owner_of(to);
    if (source != target && !reached.count({current, source == current ? target : source})) {
        return INVALID_CONTEXT;
    }
    return copy((void*)to, (void*)from, bytes, stream);
}

int cuMemsetD8Async(Address to, unsigned char byte, size_t bytes, Stream* stream) {
    ENTER("cuMemsetD8Async");
    return hand(stream, [=] {
        memset((void*)to, byte, bytes);
        return SUCCESS;
    });
}

int cuStreamBeginCapture_v2(Stream* stream, int) {
    ENTER("cuStreamBeginCapture_v2");
    if (stream->captures) return CAPTURE_INVALID;
    stream->captures = true;
    capturing = stream;
    return SUCCESS;
}

int cuStreamEndCapture(Stream* stream, Commands** graph) {
    ENTER("cuStreamEndCapture");
    if (!stream->captures) return CAPTURE_INVALID;
    stream->captures = false;
    capturing = nullptr;
    for (Stream* other : streams) {
        if (other->origin == stream && !other->aside.empty()) return CAPTURE_UNJOINED;
    }
    *graph = new Commands();
    (*graph)->swap(stream->captured);
    return SUCCESS;
}

int cuGraphInstantiateWithFlags(Commands** executable, Commands* graph, unsigned long long) {
    ENTER("cuGraphInstantiateWithFlags");
    *executable = new Commands(*graph);
    return SUCCESS;
}

int cuGraphDestroy(Commands* graph) {
    ENTER("cuGraphDestroy");
    delete graph;
    return SUCCESS;
}

int cuGraphExecDestroy(Commands* executable) {
    ENTER("cuGraphExecDestroy");
    delete executable;
    return SUCCESS;
}

int cuGraphLaunch(Commands* executable, Stream* stream) {
    ENTER("cuGraphLaunch");
    for (auto& command : *executable) hand(stream, command);
    return SUCCESS;
}
}
#endif
