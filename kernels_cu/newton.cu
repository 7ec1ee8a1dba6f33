// Passes over sparse rows for solvers/newton.py. The derivation is in textsvm/features/rows_cuda.py; here only what
// each thread does.
//
// COLUMNS: of the dense matrices. GROUP: threads a row, a warp or a whole block. Positions of entries are int64.

#ifndef COLUMNS
#define COLUMNS 1
#define GROUP 32
#endif
#define BLOCK (GROUP == WARP ? 256 : GROUP)
#define KEPT 8  // entries that a thread keeps in registers between reading and adding

struct Pass {
    const int64 *index, *indptr;  // which rows, or null: all; and where the entries of each are
    const int* features;
    const float* values;
    const float* dense;           // (n_features, COLUMNS), or null: `out` is given
    const double *shift, *factor; // added to each product, (COLUMNS); its factor, (n, COLUMNS), or null
    double* out;                  // factor * (row . dense + shift), (n, COLUMNS)
    const double* unit;           // of the sums, (COLUMNS)
    uint64* sums;                 // += row * out, fixed point, (n_features, COLUMNS), or null
    int64 n;
};

__device__ __forceinline__ void add_product(double* sum, float value, const float* dense)
{
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) sum[c] += (double)value * __ldg(dense + c);
}

__device__ __forceinline__ void add_entry(uint64* sums, float value, const double* factor)
{
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c)
        if (factor[c] != 0) atomicAdd(sums + c, (uint64)__double2ll_rn(value * factor[c]));
}

// The sums of a group's threads, in every one of them, always in the same order.
__device__ __forceinline__ void sum_of_group(double* sum)
{
    __shared__ double partial[BLOCK / WARP][COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c)
        for (int step = WARP / 2; step; step /= 2) sum[c] += __shfl_xor_sync(FULL_WARP, sum[c], step);
    if (GROUP == WARP) return;
    for (int c = 0; c < COLUMNS; ++c)
        if (threadIdx.x % WARP == 0) partial[threadIdx.x / WARP][c] = sum[c];
    __syncthreads();
    for (int c = 0; c < COLUMNS; ++c) {
        sum[c] = 0;
        for (int warp = 0; warp < BLOCK / WARP; ++warp) sum[c] += partial[warp][c];
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK) pass(const __grid_constant__ Pass t)
{
    int64 row = (int64)blockIdx.x * (BLOCK / GROUP) + threadIdx.x / GROUP;
    int lane = threadIdx.x % GROUP;
    if (row >= t.n) return;
    int64 i = t.index ? __ldg(t.index + row) : row;
    int64 begin = __ldg(t.indptr + i) + lane, end = __ldg(t.indptr + i + 1);
    int feature[KEPT];
    float value[KEPT];
#pragma unroll
    for (int j = 0; j < KEPT; ++j) {
        bool inside = begin + j * GROUP < end;
        feature[j] = inside ? __ldg(t.features + begin + j * GROUP) : 0;
        value[j] = inside ? __ldg(t.values + begin + j * GROUP) : 0;
    }
    double product[COLUMNS] = {};
    if (t.dense) {
#pragma unroll
        for (int j = 0; j < KEPT; ++j)
            if (value[j] != 0) add_product(product, value[j], t.dense + (int64)feature[j] * COLUMNS);
        for (int64 k = begin + KEPT * GROUP; k < end; k += GROUP)
            add_product(product, __ldg(t.values + k), t.dense + (int64)__ldg(t.features + k) * COLUMNS);
        sum_of_group(product);
        for (int c = 0; c < COLUMNS; ++c) {
            product[c] += t.shift[c];
            if (t.factor) product[c] *= t.factor[row * COLUMNS + c];
            if (!lane) t.out[row * COLUMNS + c] = product[c];
        }
    } else {
        for (int c = 0; c < COLUMNS; ++c) product[c] = t.out[row * COLUMNS + c];
    }
    if (!t.sums) return;
    bool any = false;
    for (int c = 0; c < COLUMNS; ++c) {
        product[c] *= t.unit[c];
        any |= product[c] != 0;
    }
    if (!any) return;
#pragma unroll
    for (int j = 0; j < KEPT; ++j)
        if (value[j] != 0) add_entry(t.sums + (int64)feature[j] * COLUMNS, value[j], product);
    for (int64 k = begin + KEPT * GROUP; k < end; k += GROUP)
        add_entry(t.sums + (int64)__ldg(t.features + k) * COLUMNS, __ldg(t.values + k), product);
}

// Rows into wider ones, a warp a row: from begin[i] on, features behind `base`, values times `root`.
extern "C" __global__ void place(int64 n, int base, float root, const int64* indptr, const int* features,
                                 const float* values, const int64* begin, int* to_features, float* to_values)
{
    int64 i = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (i >= n) return;
    int64 shift = begin[i] - indptr[i];
    for (int64 k = indptr[i] + threadIdx.x % WARP; k < indptr[i + 1]; k += WARP) {
        to_features[k + shift] = features[k] + base;
        to_values[k + shift] = values[k] * root;
    }
}
