// So much of cuDNN's graph API as Thalweg calls: convolutions of all float dtypes and in both
// layouts, as its documentation says. It answers codes that older lists do not have, and its
// heuristics offer engines that must not be taken before one that may.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "elements.h"
#include "stream.h"

enum Status {
    SUCCESS = 0,
    BAD_PARAM = 2000,
    NOT_FINALIZED = 2004,
    MISALIGNED = 2003,
    SHAPE_MISMATCH = 2008,
    NOT_SUPPORTED_SHAPE = 3002,
    NOT_SUPPORTED_NEWER = 3999,
    INTERNAL = 4001,
    EXECUTION_FAILED = 5000,
};

// Descriptors and attributes by number, as in cudnn_graph.h.
enum Kind {
    CONVOLUTION = 1,
    ENGINE = 2,
    ENGINE_CONFIG = 3,
    HEURISTIC = 4,
    PLAN = 5,
    FORWARD = 10,
    BACKWARD_FILTER = 11,
    BACKWARD_DATA = 12,
    GRAPH = 15,
    PACK = 16,
    TENSOR = 17,
    CARD = 38,
};
enum Type { HANDLE = 0, INT64 = 3, DOUBLE = 5, POINTER = 6, DESCRIPTOR = 15 };
enum Attribute {
    COMPUTE = 100,
    DILATIONS = 102,
    STRIDES = 103,
    AFTER = 104,
    BEFORE = 105,
    HEURISTIC_GRAPH = 201,
    HEURISTIC_RESULTS = 202,
    CONFIG_ENGINE = 300,
    PLAN_CONFIG = 401,
    PLAN_WORKSPACE = 402,
    OPERATIONS = 801,
    TENSOR_DTYPE = 901,
    TENSOR_DIMS = 902,
    TENSOR_STRIDES = 903,
    TENSOR_NUMBER = 906,
    PACK_NUMBERS = 1000,
    PACK_POINTERS = 1001,
    PACK_WORKSPACE = 1003,
    ENGINE_NUMBER = 1301,
    CARD_JSON = 2702,
    ENGINE_NOTES = 1303,
};
enum Dtype { F32 = 0, F64 = 1, F16 = 2, BF16 = 9 };
enum Note { TENSOR_CORE = 0, NONDETERMINISTIC = 4, WINOGRAD = 5 };

struct Handle {
    void* stream = nullptr;
};

// A descriptor; those that it refers to are kept as they were when they were set.
struct Descriptor {
    int kind;
    bool final = false;
    std::map<int, std::vector<uint8_t>> values;
    std::map<int, std::vector<Descriptor>> refers;

    template <class T>
    std::vector<T> all(int attribute) const {
        const std::vector<uint8_t>& bytes = values.at(attribute);
        std::vector<T> list(bytes.size() / sizeof(T));
        memcpy(list.data(), bytes.data(), bytes.size());
        return list;
    }
    template <class T>
    T one(int attribute) const {
        return all<T>(attribute).at(0);
    }
    const Descriptor& to(int attribute) const { return refers.at(attribute).at(0); }
};

// An engine: its notes, its workspace in bytes, the status of making a plan with it and of running it, and the
// microseconds that it takes at least.
struct Engine {
    std::vector<int> notes;
    int64_t workspace;
    int status;
    int run_status = SUCCESS;
    int time = 0;
};
static const std::vector<Engine> ENGINES = {
    {{NONDETERMINISTIC}, 0, SUCCESS},
    {{TENSOR_CORE}, 700, SUCCESS, SUCCESS, 2000},
    {{}, 0, NOT_SUPPORTED_SHAPE},
    {{}, 0, NOT_SUPPORTED_NEWER},
    {{}, 0, INTERNAL},
    {{}, (int64_t)1 << 40, SUCCESS},
    {{}, 0, SUCCESS, EXECUTION_FAILED},
    {{WINOGRAD}, 500, SUCCESS, SUCCESS, 1000},
    {{TENSOR_CORE}, 300, SUCCESS},
};

static size_t size_of(int type) {
    const bool eight = type == HANDLE || type == INT64 || type == DOUBLE || type == POINTER;
    return type == 24 ? 1 : eight ? 8 : 4;
}

static double load(int dtype, const void* at, size_t i) {
    if (dtype == F32) return ((const float*)at)[i];
    if (dtype == F64) return ((const double*)at)[i];
    if (dtype == F16) return (float)((const _Float16*)at)[i];
    return ((const Bf16*)at)[i];
}

static void store(int dtype, void* at, size_t i, double value) {
    if (dtype == F32) {
        ((float*)at)[i] = value;
    } else if (dtype == F64) {
        ((double*)at)[i] = value;
    } else if (dtype == F16) {
        ((_Float16*)at)[i] = (_Float16)value;
    } else {
        ((Bf16*)at)[i] = Bf16(value);
    }
}

// A convolution as it is computed: images, filter and output are tensors 0 to 2.
struct Work {
    int kind, dtype, compute;
    // Each tensor's number in variant packs, and its descriptor.
    int64_t numbers[3];
    std::vector<int64_t> dims[3], steps[3], before, after, stride, dilation;
};

static Work work_of(const Descriptor& o) {
    // Images, filter, output, convolution.
    const int forward[4] = {704, 703, 705, 702}, data[4] = {710, 709, 711, 708};
    const int filter[4] = {716, 715, 717, 714};
    const int* names = o.kind == FORWARD ? forward : o.kind == BACKWARD_DATA ? data : filter;
    Work w;
    w.kind = o.kind;
    for (int i = 0; i < 3; ++i) {
        const Descriptor& tensor = o.to(names[i]);
        w.dtype = tensor.one<int32_t>(TENSOR_DTYPE);
        w.numbers[i] = tensor.one<int64_t>(TENSOR_NUMBER);
        w.dims[i] = tensor.all<int64_t>(TENSOR_DIMS);
        w.steps[i] = tensor.all<int64_t>(TENSOR_STRIDES);
    }
    const Descriptor& c = o.to(names[3]);
    w.compute = c.one<int32_t>(COMPUTE);
    w.before = c.all<int64_t>(BEFORE);
    w.after = c.all<int64_t>(AFTER);
    w.stride = c.all<int64_t>(STRIDES);
    w.dilation = c.all<int64_t>(DILATIONS);
    return w;
}

static bool fits(const Work& w) {
    const auto& x = w.dims[0];
    const auto& f = w.dims[1];
    const auto& y = w.dims[2];
    bool fits = x[0] == y[0] && x[1] == f[1] && y[1] == f[0];
    for (int i = 0; i < 2; ++i) {
        const int64_t window = (f[2 + i] - 1) * w.dilation[i] + 1;
        const int64_t places = x[2 + i] + w.before[i] + w.after[i] - window;
        fits = fits && places >= 0 && y[2 + i] == places / w.stride[i] + 1;
    }
    return fits && w.compute == (w.dtype == F64 ? F64 : F32);
}

static size_t at(const std::vector<int64_t>& steps, int64_t a, int64_t b, int64_t c, int64_t d) {
    return a * steps[0] + b * steps[1] + c * steps[2] + d * steps[3];
}

static int convolve(const Work& w, void* const tensors[3]) {
    const int result = w.kind == FORWARD ? 2 : w.kind == BACKWARD_DATA ? 0 : 1;
    const int one = result == 0 ? 1 : 0, other = result == 2 ? 1 : 2;
    size_t elements = 1;
    for (int64_t dim : w.dims[result]) elements *= dim;
    std::vector<double> sums(elements, 0.0);
    const auto& x = w.dims[0];
    const auto& f = w.dims[1];
    const auto& y = w.dims[2];
    for (int64_t n = 0; n < y[0]; ++n)
        for (int64_t k = 0; k < y[1]; ++k)
            for (int64_t p = 0; p < y[2]; ++p)
                for (int64_t q = 0; q < y[3]; ++q)
                    for (int64_t i = 0; i < f[1]; ++i)
                        for (int64_t r = 0; r < f[2]; ++r)
                            for (int64_t s = 0; s < f[3]; ++s) {
                                const int64_t h = p * w.stride[0] - w.before[0] + r * w.dilation[0];
                                const int64_t v = q * w.stride[1] - w.before[1] + s * w.dilation[1];
                                if (h < 0 || v < 0 || h >= x[2] || v >= x[3]) continue;
                                const size_t places[3] = {at(w.steps[0], n, i, h, v),
                                                          at(w.steps[1], k, i, r, s),
                                                          at(w.steps[2], n, k, p, q)};
                                sums[places[result]] +=
                                    load(w.dtype, tensors[one], places[one]) *
                                    load(w.dtype, tensors[other], places[other]);
                            }
    for (size_t i = 0; i < elements; ++i) store(w.dtype, tensors[result], i, sums[i]);
    return SUCCESS;
}

static thread_local std::string failed;

// Plans that live. They go before the handle that they were made with.
static std::atomic<int> plans{0};

static int fail(int status, const char* why) {
    failed = why;
    return status;
}

extern "C" {
int cudnnCreate(Handle** handle) {
    if (getenv("FAKE_CUDNN_FAILS")) return fail(1001, "the fake was told to fail");
    *handle = new Handle();
    return SUCCESS;
}

int cudnnDestroy(Handle* handle) {
    if (plans > 0) abort();
    delete handle;
    return SUCCESS;
}

int cudnnSetStream(Handle* handle, void* stream) {
    handle->stream = stream;
    return SUCCESS;
}

void cudnnGetLastErrorString(char* text, size_t size) { snprintf(text, size, "%s", failed.c_str()); }

int cudnnBackendCreateDescriptor(int kind, Descriptor** descriptor) {
    *descriptor = new Descriptor{kind};
    plans += kind == PLAN;
    return SUCCESS;
}

int cudnnBackendDestroyDescriptor(Descriptor* descriptor) {
    plans -= descriptor->kind == PLAN;
    delete descriptor;
    return SUCCESS;
}

int cudnnBackendSetAttribute(Descriptor* d, int attribute, int type, int64_t count,
                             const void* values) {
    if (d->final) return fail(BAD_PARAM, "it is finalized");
    if (type == DESCRIPTOR) {
        for (int64_t i = 0; i < count; ++i) {
            const Descriptor* to = ((Descriptor* const*)values)[i];
            if (!to->final && to->kind != ENGINE_CONFIG) return fail(NOT_FINALIZED, "it refers to");
            d->refers[attribute].push_back(*to);
        }
        return SUCCESS;
    }
    const uint8_t* bytes = (const uint8_t*)values;
    d->values[attribute].assign(bytes, bytes + count * size_of(type));
    return SUCCESS;
}

size_t cudnnGetVersion() { return 92600; }

int cudnnBackendFinalize(Descriptor* d) {
    if (d->final) return fail(BAD_PARAM, "it is finalized");
    if (d->kind == GRAPH && !fits(work_of(d->to(OPERATIONS)))) {
        return fail(SHAPE_MISMATCH, "the output has another shape");
    }
    if (d->kind == PLAN) {
        const int64_t engine = d->to(PLAN_CONFIG).one<int64_t>(ENGINE_NUMBER);
        if (ENGINES[engine].status) return fail(ENGINES[engine].status, "this engine does not");
        // As on a card: no engine computes the gradient of images in f32 with uneven zeros.
        const Work w = work_of(d->to(PLAN_CONFIG).to(HEURISTIC_GRAPH).to(OPERATIONS));
        if (w.kind == BACKWARD_DATA && w.dtype == F32 && w.before != w.after) {
            return fail(NOT_SUPPORTED_SHAPE, "uneven zeros");
        }
    }
    d->final = true;
    return SUCCESS;
}

int cudnnBackendGetAttribute(Descriptor* d, int attribute, int, int64_t most, int64_t* count,
                             void* values) {
    if (d->kind == HEURISTIC && attribute == HEURISTIC_RESULTS) {
        *count = ENGINES.size();
        for (int64_t i = 0; i < most && i < *count; ++i) {
            Descriptor* config = ((Descriptor**)values)[i];
            config->refers[HEURISTIC_GRAPH] = d->refers[HEURISTIC_GRAPH];
            config->values[ENGINE_NUMBER].resize(8);
            memcpy(config->values[ENGINE_NUMBER].data(), &i, 8);
        }
    } else if (d->kind == CARD && attribute == CARD_JSON && d->final) {
        static const char json[] = "{\"name\": \"the processor\", \"ccVersion\": 900}";
        *count = sizeof json;
        memcpy(values, json, std::min<int64_t>(most, sizeof json));
    } else if (d->kind == ENGINE_CONFIG && attribute == CONFIG_ENGINE && most >= 1) {
        *count = 1;
        ((Descriptor**)values)[0]->values[ENGINE_NUMBER] = d->values[ENGINE_NUMBER];
    } else if (d->kind == ENGINE && attribute == ENGINE_NUMBER && most >= 1) {
        *count = 1;
        *(int64_t*)values = d->one<int64_t>(ENGINE_NUMBER);
    } else if (d->kind == ENGINE && attribute == ENGINE_NOTES) {
        const std::vector<int>& notes = ENGINES[d->one<int64_t>(ENGINE_NUMBER)].notes;
        *count = notes.size();
        for (int64_t i = 0; i < most && i < *count; ++i) ((int32_t*)values)[i] = notes[i];
    } else if (d->kind == PLAN && attribute == PLAN_WORKSPACE && d->final && most >= 1) {
        *count = 1;
        const int64_t engine = d->to(PLAN_CONFIG).one<int64_t>(ENGINE_NUMBER);
        *(int64_t*)values = ENGINES[engine].workspace;
    } else {
        return fail(BAD_PARAM, "it has no such attribute");
    }
    return SUCCESS;
}

int cudnnBackendExecute(Handle* handle, Descriptor* plan, Descriptor* pack) {
    if (!plan->final || !pack->final) return fail(NOT_FINALIZED, "a plan and what it runs on");
    const Descriptor& config = plan->to(PLAN_CONFIG);
    const Engine& engine = ENGINES[config.one<int64_t>(ENGINE_NUMBER)];
    const Work w = work_of(config.to(HEURISTIC_GRAPH).to(OPERATIONS));
    // One with TENSOR_CORE may be taken where TF32 is allowed: the plan's text says which one was.
    for (int note : engine.notes) {
        if (note == NONDETERMINISTIC) {
            return fail(BAD_PARAM, "this engine must not be taken");
        }
    }
    const auto numbers = pack->all<int64_t>(PACK_NUMBERS);
    const auto pointers = pack->all<void*>(PACK_POINTERS);
    void* const space = pack->one<void*>(PACK_WORKSPACE);
    if (engine.workspace && (uintptr_t)space % 256) return fail(MISALIGNED, "the workspace");
    std::vector<void*> tensors(3, nullptr);
    for (size_t i = 0; i < numbers.size(); ++i) {
        if ((uintptr_t)pointers[i] % 256) return fail(MISALIGNED, "a tensor");
        for (int t = 0; t < 3; ++t) {
            if (w.numbers[t] == numbers[i]) tensors[t] = pointers[i];
        }
    }
    for (void* tensor : tensors) {
        if (!tensor) return fail(BAD_PARAM, "a tensor has no address");
    }
    if (engine.run_status) return fail(engine.run_status, "this engine does not run");
    const int64_t bytes = engine.workspace;
    const bool others = getenv("FAKE_CUDNN_OTHERS_ARE_FAST");
    const int time = others ? (engine.time ? 0 : 5000) : engine.time;
    return hand_to(handle->stream, [=] {
        // It works in its workspace as it likes.
        if (bytes) memset(space, 0xee, bytes);
        if (time) usleep(time);
        return convolve(w, tensors.data());
    });
}
}
