// Passes over dense rows Z: see textsvm/linalg/dense.py. Sums are float64 and in a fixed order.
//
// VALUE: of Z, float or double. COLUMNS: of the matrix it is multiplied by.

#ifndef VALUE
#define VALUE float
#define COLUMNS 1
#endif
#define ROWS 4  // that a warp of `dense_dot` has at once: each value of `by` is read for all of them
#define WIDE 4  // features of a lane of `dense_transposed_dot`

struct Dense {
    const VALUE* values;   // (all rows, d)
    const int64* index;    // which rows, or null: all
    const double* by;      // (d, COLUMNS); (n, COLUMNS) for `dense_transposed_dot`
    double* out;           // (n, COLUMNS); (pieces, d, COLUMNS)
    int64 n, d, pieces;    // of the rows; a warp adds up the rows of one
};

__device__ __forceinline__ const VALUE* row_of(const Dense& t, int64 i)
{
    return t.values + (t.index ? __ldg(t.index + i) : i) * t.d;
}

// Z[index] @ by.
extern "C" __global__ void __launch_bounds__(256) dense_dot(const __grid_constant__ Dense t)
{
    int64 first = ((int64)blockIdx.x * 256 + threadIdx.x) / WARP * ROWS;
    int lane = threadIdx.x % WARP;
    if (first >= t.n) return;
    const VALUE* row[ROWS];
    double sum[ROWS][COLUMNS] = {};
#pragma unroll
    for (int a = 0; a < ROWS; ++a) row[a] = row_of(t, min(first + a, t.n - 1));
#pragma unroll 4
    for (int64 u = lane; u < t.d; u += WARP) {
        double value[ROWS];
#pragma unroll
        for (int a = 0; a < ROWS; ++a) value[a] = __ldg(row[a] + u);
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            double by = __ldg(t.by + u * COLUMNS + c);
#pragma unroll
            for (int a = 0; a < ROWS; ++a) sum[a][c] += value[a] * by;
        }
    }
#pragma unroll
    for (int a = 0; a < ROWS; ++a)
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            for (int step = WARP / 2; step; step /= 2) sum[a][c] += __shfl_xor_sync(FULL_WARP, sum[a][c], step);
            if (!lane && first + a < t.n) t.out[(first + a) * COLUMNS + c] = sum[a][c];
        }
}

// Z[index]' @ by, of each piece of the rows; a warp WIDE * 32 features of one piece.
extern "C" __global__ void __launch_bounds__(256) dense_transposed_dot(const __grid_constant__ Dense t)
{
    int64 warp = ((int64)blockIdx.x * 256 + threadIdx.x) / WARP, tiles = (t.d + WIDE * WARP - 1) / (WIDE * WARP);
    int64 piece = warp / tiles, feature = warp % tiles * WIDE * WARP + threadIdx.x % WARP;
    if (piece >= t.pieces) return;
    double sum[WIDE][COLUMNS] = {};
    int64 last = t.n * (piece + 1) / t.pieces;
#pragma unroll 4
    for (int64 i = t.n * piece / t.pieces; i < last; ++i) {
        const VALUE* row = row_of(t, i);
        double value[WIDE];
#pragma unroll
        for (int a = 0; a < WIDE; ++a) value[a] = feature + a * WARP < t.d ? __ldg(row + feature + a * WARP) : 0;
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            double by = __ldg(t.by + i * COLUMNS + c);
#pragma unroll
            for (int a = 0; a < WIDE; ++a) sum[a][c] += value[a] * by;
        }
    }
#pragma unroll
    for (int a = 0; a < WIDE; ++a)
        if (feature + a * WARP < t.d)
            for (int c = 0; c < COLUMNS; ++c)
                t.out[(piece * t.d + feature + a * WARP) * COLUMNS + c] = sum[a][c];
}
