// So much of cuBLASLt as Thalweg calls, for all float dtypes: matrices lie column by column, as it says of
// them, and a product is computed as its documentation says.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>

#include "elements.h"
#include "stream.h"

enum Status { SUCCESS = 0, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15, UNKNOWN = 4711 };

// Attributes by number, as in cublasLt.h.
enum { TRANSPOSE_A = 3, TRANSPOSE_B = 4 };
enum { BATCHES = 5, STEP = 6 };
enum { MOST_WORKSPACE = 1, REDUCTION_SCHEMES = 3, FIRST_ALIGNMENT = 5, LAST_ALIGNMENT = 8 };
// Sums in the dtype of the output, or in place.
enum { INEXACT_SCHEMES = 1 | 4 };
enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14 };
enum { COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_32F_FAST_TF32 = 77 };

struct Layout {
    int dtype;
    uint64_t rows, columns;
    int64_t ld;
    int32_t batches = 1;
    int64_t step = 0;
};

struct Operation {
    int compute, scale;
    int32_t transpose_a = 0, transpose_b = 0;
};

struct Preference {
    size_t workspace = 0;
    // Default alignment that the library assumes for addresses.
    uint32_t alignment = 256;
    uint32_t schemes = 7;
};

struct Algorithm {
    uint64_t data[8];
};

struct Found {
    Algorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

template <class T>
static T element(const void* at, const Layout& l, int batch, uint64_t row, uint64_t column) {
    return ((const T*)at)[batch * l.step + row + column * l.ld];
}

template <class T>
static int multiply(const Operation& o, const void* a, const Layout& la, const void* b,
                    const Layout& lb, void* d, const Layout& ld) {
    const uint64_t depth = o.transpose_a ? la.rows : la.columns;
    for (int batch = 0; batch < ld.batches; ++batch) {
        for (uint64_t row = 0; row < ld.rows; ++row) {
            for (uint64_t column = 0; column < ld.columns; ++column) {
                // As it is computed in, halves in f32.
                double sum = 0;
                for (uint64_t i = 0; i < depth; ++i) {
                    sum += (double)(o.transpose_a ? element<T>(a, la, batch, i, row)
                                                  : element<T>(a, la, batch, row, i)) *
                           (double)(o.transpose_b ? element<T>(b, lb, batch, column, i)
                                                  : element<T>(b, lb, batch, i, column));
                }
                ((T*)d)[batch * ld.step + row + column * ld.ld] = (T)sum;
            }
        }
    }
    return SUCCESS;
}

extern "C" {
size_t cublasLtGetVersion() { return 130400; }

int cublasLtCreate(void** handle) {
    *handle = new int(0);
    return SUCCESS;
}

int cublasLtDestroy(void* handle) {
    delete (int*)handle;
    return SUCCESS;
}

int cublasLtMatrixLayoutCreate(Layout** layout, int dtype, uint64_t rows, uint64_t columns,
                               int64_t ld) {
    if (ld < (int64_t)rows) return INVALID_VALUE;
    *layout = new Layout{dtype, rows, columns, ld};
    return SUCCESS;
}

int cublasLtMatrixLayoutSetAttribute(Layout* layout, int attribute, const void* value, size_t size) {
    if (attribute == BATCHES && size == 4) {
        memcpy(&layout->batches, value, size);
    } else if (attribute == STEP && size == 8) {
        memcpy(&layout->step, value, size);
    } else {
        return INVALID_VALUE;
    }
    return SUCCESS;
}

int cublasLtMatrixLayoutDestroy(Layout* layout) {
    delete layout;
    return SUCCESS;
}

int cublasLtMatmulDescCreate(Operation** operation, int compute, int scale) {
    *operation = new Operation{compute, scale};
    return SUCCESS;
}

int cublasLtMatmulDescSetAttribute(Operation* operation, int attribute, const void* value,
                                   size_t size) {
    if (size != 4) return INVALID_VALUE;
    if (attribute == TRANSPOSE_A) {
        memcpy(&operation->transpose_a, value, size);
    } else if (attribute == TRANSPOSE_B) {
        memcpy(&operation->transpose_b, value, size);
    } else {
        return INVALID_VALUE;
    }
    return SUCCESS;
}

int cublasLtMatmulDescDestroy(Operation* operation) {
    delete operation;
    return SUCCESS;
}

int cublasLtMatmulPreferenceCreate(Preference** preference) {
    *preference = new Preference();
    return SUCCESS;
}

int cublasLtMatmulPreferenceSetAttribute(Preference* preference, int attribute, const void* value,
                                         size_t size) {
    if (attribute == MOST_WORKSPACE && size == 8) {
        memcpy(&preference->workspace, value, size);
    } else if (attribute == REDUCTION_SCHEMES && size == 4) {
        memcpy(&preference->schemes, value, size);
    } else if (attribute >= FIRST_ALIGNMENT && attribute <= LAST_ALIGNMENT && size == 4) {
        memcpy(&preference->alignment, value, size);
    } else {
        return INVALID_VALUE;
    }
    return SUCCESS;
}

int cublasLtMatmulPreferenceDestroy(Preference* preference) {
    delete preference;
    return SUCCESS;
}

int cublasLtMatmulAlgoGetHeuristic(void*, Operation* o, Layout* a, Layout* b, Layout* c, Layout* d,
                                   Preference* preference, int most, Found* found, int* count) {
    // TF32 is for f32 alone. Here it is computed exactly, which it may be.
    const bool as_f32 = o->compute == COMPUTE_32F ||
                        (o->compute == COMPUTE_32F_FAST_TF32 && d->dtype == R_32F);
    const bool singles = d->dtype != R_64F && as_f32 && o->scale == R_32F;
    const bool doubles = d->dtype == R_64F && o->compute == COMPUTE_64F && o->scale == R_64F;
    *count = 0;
    if (getenv("FAKE_CUBLASLT_FINDS_NOTHING")) return SUCCESS;
    if (getenv("FAKE_CUBLASLT_IS_NEWER")) return UNKNOWN;
    if (preference->schemes & INEXACT_SCHEMES) return INVALID_VALUE;
    if (!singles && !doubles) return NOT_SUPPORTED;
    const uint64_t rows = o->transpose_a ? a->columns : a->rows;
    const uint64_t depth = o->transpose_a ? a->rows : a->columns;
    const uint64_t columns = o->transpose_b ? b->rows : b->columns;
    const bool fits = rows == d->rows && columns == d->columns &&
                      depth == (o->transpose_b ? b->columns : b->rows) && c->rows == d->rows;
    if (!fits) return INVALID_VALUE;
    // One that cannot be used, with a status that no list has; one that fails when it runs; one that computes.
    for (int i = 0; i < 3 && i < most; ++i) {
        found[i] = Found();
        found[i].state = i == 0 ? UNKNOWN : SUCCESS;
        found[i].algorithm.data[0] = preference->alignment;
        found[i].algorithm.data[1] = i == 1 && most > 2;
        found[i].workspace = preference->workspace < 1000 ? 0 : 1000;
        *count = i + 1;
    }
    return SUCCESS;
}

int cublasLtMatmul(void*, Operation* operation, const void* alpha, const void* a, Layout* la,
                   const void* b, Layout* lb, const void* beta, const void*, Layout*, void* d,
                   Layout* ld, const Algorithm* algorithm, void* workspace, size_t bytes,
                   void* stream) {
    if (algorithm->data[1]) return EXECUTION_FAILED;
    const bool doubles = ld->dtype == R_64F;
    const double one = doubles ? *(double*)alpha : *(float*)alpha;
    const double zero = doubles ? *(double*)beta : *(float*)beta;
    // As its algorithms for Hopper: all is asked for that they were told of, and 256 bytes of the
    // workspace.
    const uintptr_t all = (uintptr_t)a | (uintptr_t)b | (uintptr_t)d;
    if (one != 1 || zero != 0 || all % algorithm->data[0]) return INVALID_VALUE;
    if (algorithm->data[0] < 256 || (bytes && (uintptr_t)workspace % 256)) return INVALID_VALUE;
    const Operation o = *operation;
    const Layout x = *la, y = *lb, z = *ld;
    return hand_to(stream, [=] {
        // It works in its workspace as it likes.
        if (bytes) memset(workspace, 0xee, bytes);
        switch (z.dtype) {
            case R_64F: return multiply<double>(o, a, x, b, y, d, z);
            case R_16F: return multiply<_Float16>(o, a, x, b, y, d, z);
            case R_16BF: return multiply<Bf16>(o, a, x, b, y, d, z);
            default: return multiply<float>(o, a, x, b, y, d, z);
        }
    });
}
}
