// Updates of rows by sorted row numbers: a thread takes an element of a row with all of its updates, in their order.
#include "thalweg.cuh"

typedef Element<T>::Wide W;
typedef Element<T>::Wrap Wrap;

// x is the element, and y the update.
#define COMBINE(name, type, expression)                                                             \
    KERNEL(name##Rows, T* values, const T* updates, Index n, Index one_for_all, TOUCHED) {          \
        each_run(n, TOUCHED_ARGS, [&](Index at, Index begin, Index end, Index column) {             \
            type x = (type)widen(values[at]);                                                       \
            for (Index k = begin; k < end; ++k) {                                                   \
                const type y = (type)widen(updates[one_for_all ? 0 : order[k] * inner + column]);   \
                x = expression;                                                                     \
            }                                                                                       \
            values[at] = Narrow<T>::from(x);                                                        \
        });                                                                                         \
    }

KERNEL(UpdateRows, T* values, const T* updates, Index n, Index one_for_all, TOUCHED) {
    each_run(n, TOUCHED_ARGS, [&](Index at, Index, Index end, Index column) {
        values[at] = updates[one_for_all ? 0 : order[end - 1] * inner + column];
    });
}

#ifdef T_BOOL
COMBINE(Add, W, x || y)
#else
COMBINE(Add, Wrap, x + y)
COMBINE(Sub, Wrap, x - y)
COMBINE(Mul, Wrap, x * y)
COMBINE(Min, W, y < x ? y : x)
COMBINE(Max, W, x < y ? y : x)
#ifdef T_FLOAT
COMBINE(Div, W, x / y)
#endif
#endif
