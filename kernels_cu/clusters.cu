// needs: finish.cuh
// Kernel values of some vectors, the sources, with clusters of others. The derivation is in
// benchmarks/clusters.py; here only what each thread does.
//
// NUMBER (float or double): of vectors and sums. FINISH: see finish.cuh.

#ifndef FINISH
#define FINISH gaussian
#endif
#ifndef NUMBER
#define NUMBER float
#endif
#define SIZE 256                          // vectors of a cluster
#define THREADS 128                       // each has VECTORS of them
#define VECTORS (SIZE / THREADS)
#define SOURCES (128 / sizeof(NUMBER))    // of a block
#define CHUNK 32                          // features whose sources are in shared memory at a time

// Rows which[i] of a sparse matrix into columns i of matrix[feature][ld]. A warp for each.
extern "C" __global__ void spread(int64 n, const int64* which, const int64* indptr, const int* features,
                                  const double* values, int64 ld, NUMBER* matrix)
{
    int64 i = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (i >= n) return;
    for (int64 k = indptr[which[i]] + threadIdx.x % WARP; k < indptr[which[i] + 1]; k += WARP)
        matrix[features[k] * ld + i] = values[k];
}

// Entries of clustered rows into matrix[place][lane], `position` that of a row among all.
extern "C" __global__ void gather(int64 n, const int* rows, const int64* places, const double* values,
                                  const int64* position, NUMBER* matrix)
{
    EACH(k, n);
    matrix[places[k] * SIZE + position[rows[k]] % SIZE] = values[k];
}

// What `values` computes: out[i, order[j]] for source i of m and position j of n. `half`: sources are positions from
// `first` on, and each pair is written once, above the diagonal.
struct Clustered {
    const int64 *order, *starts;   // of the clusters, see Clusters
    const int* features;
    const NUMBER *dense, *sources; // [active feature][SIZE] and [feature][ld]
    const double *squares, *source_squares;
    float* out;
    int64 ld, first;
    int n, m, half, degree;
    double gamma, coef0;
};

// The SOURCES from `low` on, at CHUNK active features from `at` on, into shared memory; 0 behind the last.
__device__ __forceinline__ void stage(const Clustered& t, int64 at, int64 end, int low, NUMBER (*chunk)[SOURCES])
{
    for (int k = threadIdx.x / SOURCES; k < CHUNK; k += THREADS / SOURCES) {
        int s = threadIdx.x % SOURCES;
        chunk[k][s] = at + k < end ? t.sources[__ldg(t.features + at + k) * t.ld + low + s] : 0;
    }
}

__device__ __forceinline__ void write(const Clustered& t, int source, int position, NUMBER product)
{
    int64 j = __ldg(t.order + position), i = source;
    double squares = __ldg(t.source_squares + source) + __ldg(t.squares + j);
    float value = FINISH((double)product, 1.4426950408889634 * t.gamma * (squares - 2 * (double)product), t.gamma,
                         t.coef0, t.degree);
    if (t.half) {
        if (position <= t.first + source) return;
        i = __ldg(t.order + t.first + source);
        if (i > j) { int64 other = i; i = j; j = other; }
    }
    t.out[i * t.n + j] = value;
}

// A block computes one cluster with SOURCES sources.
extern "C" __global__ void __launch_bounds__(THREADS) values(const __grid_constant__ Clustered t)
{
    __shared__ NUMBER chunk[CHUNK][SOURCES];
    int low = blockIdx.y * SOURCES, cluster = blockIdx.x;
    if (t.half && (cluster + 1) * (int64)SIZE <= t.first + low) return;
    NUMBER sums[VECTORS][SOURCES];
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
#pragma unroll
        for (int s = 0; s < SOURCES; ++s) sums[v][s] = 0;
    int64 end = __ldg(t.starts + cluster + 1);
    for (int64 at = __ldg(t.starts + cluster); at < end; at += CHUNK) {
        __syncthreads();
        stage(t, at, end, low, chunk);
        __syncthreads();
        const NUMBER* dense = t.dense + at * SIZE + threadIdx.x;
#pragma unroll 4
        for (int k = 0; k < min((int64)CHUNK, end - at); ++k) {
            NUMBER x[VECTORS];
#pragma unroll
            for (int v = 0; v < VECTORS; ++v) x[v] = __ldg(dense + k * SIZE + v * THREADS);
#pragma unroll
            for (int s = 0; s < SOURCES; ++s)
#pragma unroll
                for (int v = 0; v < VECTORS; ++v) sums[v][s] += x[v] * chunk[k][s];
        }
    }
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
        int position = cluster * SIZE + v * THREADS + threadIdx.x;
        if (position >= t.n) continue;
#pragma unroll
        for (int s = 0; s < SOURCES; ++s)
            if (low + s < t.m) write(t, low + s, position, sums[v][s]);
    }
}
