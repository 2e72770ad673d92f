// GEMMs. Integers wrap; halves are added up as f32.
#include "thalweg.cuh"

typedef Element<T>::Wrap Wrap;

// The first bit of `transposed` is the left side's, the second the right side's. `batches` gives the
// matrices of the inputs for each matrix of the output.
KERNEL(MatMul, const T* a, const T* b, T* output, Wrap* partial, Gemm p, Walk batches,
       u32 transposed) {
    const bool by_column = transposed & 1, by_row = transposed & 2;
    each_unit(p, [&](const Unit& unit) {
        Index at_a = 0, at_b = 0;
        locate(batches, unit.batch, at_a, at_b);
        const Matrix left{a + at_a * p.rows * p.depth, p.rows, by_column ? 1 : p.depth,
                          by_column ? p.rows : 1, !by_column};
        const Matrix right{b + at_b * p.depth * p.columns, p.columns, by_row ? p.depth : 1,
                           by_row ? 1 : p.columns, by_row};
        multiply<Wrap>(p, unit, left, right, [&](Index row, Index column, Wrap sum) {
            store(p, unit, row, column, sum, output, partial);
        });
    });
}

KERNEL(Join, const Wrap* partial, T* output, Gemm p) { join(p, partial, output); }
