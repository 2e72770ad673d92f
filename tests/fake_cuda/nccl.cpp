// NCCL for the driver beside this: so much of its interface as Thalweg calls. The rank at place 0 takes the values of all
// over sockets of this machine, and gives every rank the result.
//
// As with NCCL, a rank that is gone is not noticed: the others wait until they abort. A communicator that does not block
// says that it is in progress for a while.
//
// FAKE_NCCL_LOG names a file to which each collective is written, a line each: kind, number of elements, type; and each
// meeting: its identity and the name of the thread.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "elements.h"
#include "stream.h"

enum Status { SUCCESS = 0, SYSTEM = 2, ARGUMENT = 4, USAGE = 5, IN_PROGRESS = 7 };

struct Identity {
    char bytes[128];
};

struct Config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

struct Scaled {
    double factor;
    int dtype;
};

// It lives for as long as a command of it may run.
struct Meeting {
    int size = 0, place = 0;
    // By place, on the rank at place 0; the way to that rank on the others.
    std::vector<int> sockets;
    std::atomic<bool> ready{false}, aborted{false};
    std::atomic<int> status{IN_PROGRESS};
    std::thread meets;
    std::map<int, Scaled> scaled;
    int next = 100;
    // How often it was asked since the last call.
    int asked = 0;
};

struct Comm {
    std::shared_ptr<Meeting> meeting;
};

static std::mutex lock;
// By the name of a socket: the one that listens.
static std::map<std::string, int> listening;

static sockaddr_un address(const char* path) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    return to;
}

// Moves bytes; a transfer that cannot continue waits for an abort, as NCCL's kernels do.
template <typename Move>
static int all(Meeting& meeting, size_t bytes, Move move) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t moved = move(done, bytes - done);
        if (moved > 0) {
            done += moved;
            continue;
        }
        while (!meeting.aborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return 1;
    }
    return 0;
}

static int send_all(Meeting& meeting, int socket, const void* data, size_t bytes) {
    return all(meeting, bytes, [=](size_t at, size_t left) {
        return send(socket, (const char*)data + at, left, MSG_NOSIGNAL);
    });
}

static int receive_all(Meeting& meeting, int socket, void* data, size_t bytes) {
    return all(meeting, bytes,
               [=](size_t at, size_t left) { return recv(socket, (char*)data + at, left, 0); });
}

static size_t size_of(int dtype) {
    static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return dtype < 0 || dtype > 9 ? 0 : sizes[dtype];
}

// An element as a number that is wide enough for it, and back.
struct Floats {
    typedef double Wide;
    static double get(const char* p, int dtype) {
        if (dtype == 8) return *(const double*)p;
        if (dtype == 7) return *(const float*)p;
        if (dtype == 6) return *(const _Float16*)p;
        return *(const Bf16*)p;
    }
    static void put(char* p, int dtype, double value) {
        if (dtype == 8) *(double*)p = value;
        if (dtype == 7) *(float*)p = (float)value;
        if (dtype == 6) *(_Float16*)p = (_Float16)value;
        if (dtype == 9) *(Bf16*)p = Bf16(value);
    }
};

struct Integers {
    typedef __int128 Wide;
    static __int128 get(const char* p, int dtype) {
        switch (dtype) {
            case 0: return *(const int8_t*)p;
            case 1: return *(const uint8_t*)p;
            case 2: return *(const int32_t*)p;
            case 3: return *(const uint32_t*)p;
            case 4: return *(const int64_t*)p;
            default: return *(const uint64_t*)p;
        }
    }
    static void put(char* p, int dtype, __int128 value) { memcpy(p, &value, size_of(dtype)); }
};

template <typename As>
static void reduce(char* into, const char* other, size_t n, int dtype, int op) {
    const size_t size = size_of(dtype);
    for (size_t i = 0; i < n; ++i) {
        const typename As::Wide a = As::get(into + i * size, dtype);
        const typename As::Wide b = As::get(other + i * size, dtype);
        As::put(into + i * size, dtype,
                op == 1 ? a * b : op == 2 ? std::max(a, b) : op == 3 ? std::min(a, b) : a + b);
    }
}

static bool is_float(int dtype) { return dtype >= 6; }

static void multiply(char* data, size_t n, int dtype, double factor) {
    const size_t size = size_of(dtype);
    for (size_t i = 0; i < n; ++i) {
        char* at = data + i * size;
        Floats::put(at, dtype, Floats::get(at, dtype) * factor);
    }
}

// A collective that all ranks run in one order; the root's index in a broadcast, and -1 in a reduction.
struct Call {
    long root, n, dtype, op;
    bool operator==(const Call& o) const {
        return root == o.root && n == o.n && dtype == o.dtype && op == o.op;
    }
};

static int collective(Meeting& meeting, Call call, double factor, const void* from, void* to) {
    const size_t bytes = call.n * size_of(call.dtype);
    std::vector<char> own((const char*)from, (const char*)from + bytes);
    if (factor != 1) multiply(own.data(), call.n, call.dtype, factor);
    if (meeting.place != 0) {
        const int root = meeting.sockets[0];
        if (send_all(meeting, root, &call, sizeof call)) return 0;
        if (send_all(meeting, root, own.data(), bytes)) return 0;
        receive_all(meeting, root, to, bytes);
        return 0;
    }
    std::vector<char> result = own, other(bytes);
    for (int place = 1; place < meeting.size; ++place) {
        Call theirs;
        if (receive_all(meeting, meeting.sockets[place], &theirs, sizeof theirs)) return 0;
        // Ranks that call differently wait for ever, or worse.
        if (!(theirs == call)) return 1;
        if (receive_all(meeting, meeting.sockets[place], other.data(), bytes)) return 0;
        if (call.root == place) result = other;
        if (call.root >= 0) continue;
        if (is_float(call.dtype)) {
            reduce<Floats>(result.data(), other.data(), call.n, call.dtype, call.op);
        } else {
            reduce<Integers>(result.data(), other.data(), call.n, call.dtype, call.op);
        }
    }
    if (call.root < 0 && call.op == 4 && !is_float(call.dtype)) {
        const size_t size = size_of(call.dtype);
        for (long i = 0; i < call.n; ++i) {
            char* at = result.data() + i * size;
            Integers::put(at, call.dtype, Integers::get(at, call.dtype) / meeting.size);
        }
    }
    for (int place = 1; place < meeting.size; ++place) {
        if (send_all(meeting, meeting.sockets[place], result.data(), bytes)) return 0;
    }
    memcpy(to, result.data(), bytes);
    return 0;
}

static void log_line(const std::string& line) {
    const char* path = getenv("FAKE_NCCL_LOG");
    FILE* file = path ? fopen(path, "a") : nullptr;
    if (!file) return;
    fprintf(file, "%s\n", line.c_str());
    fclose(file);
}

static void log_call(const char* what, size_t n, int dtype) {
    log_line(what + (" " + std::to_string(n)) + " " + std::to_string(dtype));
}

static void log_meeting(const char* identity) {
    char thread[16] = "";
    pthread_getname_np(pthread_self(), thread, sizeof thread);
    log_line(std::string("meet ") + identity + " " + thread);
}

static void meet(std::shared_ptr<Meeting> meeting, std::string path) {
    int status = SUCCESS;
    if (meeting->place == 0) {
        int listener = -1;
        {
            std::lock_guard<std::mutex> guard(lock);
            listener = listening[path];
        }
        meeting->sockets.assign(meeting->size, -1);
        for (int i = 1; i < meeting->size && status == SUCCESS; ++i) {
            int socket = -1;
            while (!meeting->aborted && (socket = accept(listener, nullptr, nullptr)) < 0) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            int place = 0;
            if (socket < 0 || receive_all(*meeting, socket, &place, sizeof place) || place < 1 ||
                place >= meeting->size) {
                status = SYSTEM;
                break;
            }
            meeting->sockets[place] = socket;
        }
    } else {
        const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
        sockaddr_un to = address(path.c_str());
        while (!meeting->aborted && connect(socket, (sockaddr*)&to, sizeof to)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        meeting->sockets.push_back(socket);
        if (send_all(*meeting, socket, &meeting->place, sizeof meeting->place)) status = SYSTEM;
    }
    meeting->status = status;
}

// The group of this thread: its depth, and the calls that run when it ends.
static thread_local int depth = 0;
static thread_local std::vector<std::function<int()>> grouped;

// Runs a call now, or with its group.
static int start(std::function<int()> call) {
    if (!depth) return call();
    grouped.push_back(call);
    return 0;
}

static int in_progress(Comm* comm) {
    comm->meeting->asked = 0;
    return IN_PROGRESS;
}

extern "C" {
int ncclGetUniqueId(Identity* identity) {
    static std::atomic<int> count{0};
    char path[100];
    snprintf(path, sizeof path, "/tmp/fake_nccl.%d.%d", getpid(), count++);
    unlink(path);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    sockaddr_un at = address(path);
    if (bind(socket, (sockaddr*)&at, sizeof at) || listen(socket, 64)) return SYSTEM;
    std::lock_guard<std::mutex> guard(lock);
    listening[path] = socket;
    memset(identity, 0, sizeof *identity);
    memcpy(identity->bytes, path, strlen(path));
    return SUCCESS;
}

int ncclCommInitRankConfig(Comm** comm, int size, Identity identity, int place, Config* config) {
    if (config->magic != 0xcafebeef || config->size < sizeof *config || config->blocking != 0) {
        return ARGUMENT;
    }
    if (size < 1 || place < 0 || place >= size) return ARGUMENT;
    log_meeting(identity.bytes);
    auto meeting = std::make_shared<Meeting>();
    meeting->size = size;
    meeting->place = place;
    meeting->meets = std::thread(meet, meeting, std::string(identity.bytes));
    *comm = new Comm{meeting};
    return IN_PROGRESS;
}

int ncclCommGetAsyncError(Comm* comm, int* state) {
    Meeting& meeting = *comm->meeting;
    // Calls of a group have not begun: a thread that waits for them waits for ever.
    if (depth) return USAGE;
    if (meeting.ready) {
        // Now and then a call takes a moment.
        *state = meeting.asked++ < 2 ? IN_PROGRESS : SUCCESS;
        return SUCCESS;
    }
    *state = meeting.status;
    if (*state == IN_PROGRESS) return SUCCESS;
    meeting.meets.join();
    meeting.ready = true;
    return SUCCESS;
}

int ncclCommAbort(Comm* comm) {
    Meeting& meeting = *comm->meeting;
    meeting.aborted = true;
    for (int socket : meeting.sockets) {
        if (socket >= 0) shutdown(socket, SHUT_RDWR);
    }
    if (meeting.meets.joinable()) meeting.meets.join();
    delete comm;
    return SUCCESS;
}

int ncclCommFinalize(Comm* comm) { return in_progress(comm); }

int ncclCommDestroy(Comm* comm) {
    for (int socket : comm->meeting->sockets) {
        if (socket >= 0) close(socket);
    }
    delete comm;
    return SUCCESS;
}

int ncclRedOpCreatePreMulSum(int* op, const void* scalar, int dtype, int residence, Comm* comm) {
    if (residence != 1 || !is_float(dtype)) return ARGUMENT;
    Meeting& meeting = *comm->meeting;
    *op = meeting.next++;
    meeting.scaled[*op] = {Floats::get((const char*)scalar, dtype), dtype};
    return SUCCESS;
}

int ncclRedOpDestroy(int op, Comm* comm) {
    return comm->meeting->scaled.erase(op) ? SUCCESS : ARGUMENT;
}

int ncclAllReduce(const void* from, void* to, size_t n, int dtype, int op, Comm* comm,
                  void* stream) {
    auto meeting = comm->meeting;
    if (!meeting->ready || !size_of(dtype)) return USAGE;
    double factor = 1;
    if (op >= 100) {
        auto scaled = meeting->scaled.find(op);
        if (scaled == meeting->scaled.end() || scaled->second.dtype != dtype) return ARGUMENT;
        factor = scaled->second.factor;
        op = 0;
    }
    // The average of floats is a sum of values that are divided before.
    if (op == 4 && is_float(dtype)) factor = 1.0 / meeting->size;
    const Call call{-1, (long)n, dtype, op};
    log_call("all_reduce", n, dtype);
    if (start([=] {
            return hand_to(stream, [=] { return collective(*meeting, call, factor, from, to); });
        })) {
        return 1;
    }
    return in_progress(comm);
}

int ncclGroupStart() {
    ++depth;
    log_call("group", 0, 0);
    return SUCCESS;
}

int ncclGroupEnd() {
    if (!depth) return USAGE;
    if (--depth) return SUCCESS;
    std::vector<std::function<int()>> calls;
    calls.swap(grouped);
    for (auto& call : calls) {
        if (call()) return SYSTEM;
    }
    return calls.empty() ? SUCCESS : IN_PROGRESS;
}

int ncclBroadcast(const void* from, void* to, size_t n, int dtype, int root, Comm* comm,
                  void* stream) {
    auto meeting = comm->meeting;
    if (!meeting->ready || !size_of(dtype)) return USAGE;
    if (root < 0 || root >= meeting->size) return ARGUMENT;
    const Call call{root, (long)n, dtype, 0};
    log_call("broadcast", n, dtype);
    if (start([=] {
            return hand_to(stream, [=] { return collective(*meeting, call, 1, from, to); });
        })) {
        return 1;
    }
    return in_progress(comm);
}

const char* ncclGetErrorString(int status) { return status == ARGUMENT ? "invalid argument" : "an error"; }

const char* ncclGetLastError(Comm*) { return ""; }
}
