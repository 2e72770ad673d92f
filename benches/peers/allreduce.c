// All-reduce of an MPI library, measured as `thalweg bench allreduce` measures: sums of f32 in place, each behind a
// barrier, the median of a rank. Prints a line of JSON for each size, up to the number of bytes given.
//
// mpicc -O2 allreduce.c -o allreduce && mpirun -n 2 ./allreduce 67108864

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int by_time(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median_seconds(float *data, int count, int runs) {
    double times[200];
    for (int run = -3; run < runs; run++) {
        for (int i = 0; i < count; i++) data[i] = 1.0f;
        MPI_Barrier(MPI_COMM_WORLD);
        const double began = MPI_Wtime();
        MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (run >= 0) times[run] = MPI_Wtime() - began;
    }
    qsort(times, runs, sizeof(double), by_time);
    return times[runs / 2];
}

int main(int argc, char **argv) {
    int rank;
    const size_t most = argc > 1 ? strtoull(argv[1], NULL, 10) : 1 << 20;
    float *data = malloc(most);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (size_t bytes = 4; bytes <= most; bytes *= 4) {
        const int runs = bytes >= 1 << 26 ? 5 : bytes >= 1 << 20 ? 20 : 200;
        const double seconds = median_seconds(data, (int)(bytes / 4), runs);
        if (rank == 0) {
            printf("{\"bytes\": %zu, \"seconds\": %.9f}\n", bytes, seconds);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    free(data);
    return 0;
}
