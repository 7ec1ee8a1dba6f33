// needs: marks.cuh
// Passes over sparse rows for solvers/newton.py. The derivation is in textsvm/linalg/rows_cuda.py; here only what
// each thread does.
//
// COLUMNS: of the dense matrices. GROUP: threads a row, a warp or a block. Positions of entries are int64.

#ifndef COLUMNS
#define COLUMNS 1
#define GROUP 32
#endif
#define BLOCK (GROUP == WARP ? 256 : GROUP)
#define BITS 61.0  // of a sum in fixed point
#define HOT 8192   // features that are counted in shared memory

struct Pass {
    const int64 *index, *indptr;  // which rows, or null: all; and where the entries of each are
    const int* features;
    const float* values;
    const float* dense;           // (n_features, COLUMNS)
    const double *shift, *factor; // added to each product, (COLUMNS); its factor, (n, COLUMNS), or null
    double* out;                  // factor * (row . dense + shift), (n, COLUMNS)
    float* spread;                // the same at the places of the rows, (all rows, COLUMNS), or null
    int64 n;
};

__device__ __forceinline__ void add_product(double* sum, float value, const float* dense)
{
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) sum[c] += (double)value * __ldg(dense + c);
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
    int64 i = t.index ? __ldg(t.index + row) : row, end = __ldg(t.indptr + i + 1);
    double product[COLUMNS] = {};
#pragma unroll 4
    for (int64 k = __ldg(t.indptr + i) + lane; k < end; k += GROUP)
        add_product(product, __ldg(t.values + k), t.dense + (int64)__ldg(t.features + k) * COLUMNS);
    sum_of_group(product);
    if (lane) return;
    for (int c = 0; c < COLUMNS; ++c) {
        double value = product[c] + t.shift[c];
        if (t.factor) value *= t.factor[row * COLUMNS + c];
        t.out[row * COLUMNS + c] = value;
        if (t.spread) t.spread[i * COLUMNS + c] = (float)value;
    }
}

// The entries of some rows, sorted by (feature, place among them), behind those that the lists of features have:
// where each feature's run begins,
extern "C" __global__ void run_begins(int64 n, const uint64* keys, int64* begins)
{
    EACH(k, n);
    if (!k || keys[k] >> 32 != keys[k - 1] >> 32) begins[keys[k] >> 32] = k;
}

// the entries put there,
extern "C" __global__ void place_columns(int64 n, const uint64* keys, const int64* begins, const int64* cursor,
                                         const int* owner, const float* values, int* rows, float* list_values)
{
    EACH(k, n);
    uint64 feature = keys[k] >> 32, source = keys[k] & 0xffffffffu;
    int64 at = cursor[feature] + k - begins[feature];
    rows[at] = owner[source];
    list_values[at] = values[source];
}

// or the row that comes first in each piece of a list, `list` entries long,
extern "C" __global__ void place_first_rows(int64 n, const uint64* keys, const int64* begins, const int64* cursor,
                                            const int* owner, const int64* starts, const int64* first_pieces,
                                            int64 list, int* rows)
{
    EACH(k, n);
    uint64 feature = keys[k] >> 32;
    int64 at = cursor[feature] - starts[feature] + k - begins[feature];
    if (at % list == 0) rows[first_pieces[feature] + at / list] = owner[keys[k] & 0xffffffffu];
}

// and where the next go.
extern "C" __global__ void run_ends(int64 n, const uint64* keys, const int64* begins, int64* cursor)
{
    EACH(k, n);
    uint64 feature = keys[k] >> 32;
    if (k == n - 1 || feature != keys[k + 1] >> 32) cursor[feature] += k + 1 - begins[feature];
}

struct Lists {
    const int* feature;           // of every piece of a list, and where it begins; all but the last of a list
    const int64 *begin, *starts;  // are LIST entries long. Where the lists are
    const int* rows;
    const float *values, *dense;  // (all rows, COLUMNS)
    const double* unit;           // of the sums, (COLUMNS)
    uint64* sums;                 // (n_features, COLUMNS), fixed point
    int64 n, list;
};

// Sums of list entries times the dense matrix, a warp a piece: of integers, which have no order.
extern "C" __global__ void sum_lists(const __grid_constant__ Lists t)
{
    int64 piece = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    int lane = threadIdx.x % WARP;
    if (piece >= t.n) return;
    int64 feature = __ldg(t.feature + piece), begin = __ldg(t.begin + piece);
    int64 end = min(begin + t.list, __ldg(t.starts + feature + 1));
    int64 sum[COLUMNS] = {};
    double unit[COLUMNS];
    for (int c = 0; c < COLUMNS; ++c) unit[c] = t.unit[c];
#pragma unroll 4
    for (int64 k = begin + lane; k < end; k += WARP) {
        double value = __ldg(t.values + k);
        const float* dense = t.dense + (int64)__ldg(t.rows + k) * COLUMNS;
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) sum[c] += __double2ll_rn(value * __ldg(dense + c) * unit[c]);
    }
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
        for (int step = WARP / 2; step; step /= 2) sum[c] += __shfl_xor_sync(FULL_WARP, sum[c], step);
        if (!lane && sum[c]) atomicAdd(t.sums + feature * COLUMNS + c, (uint64)sum[c]);
    }
}

// The same sums from the rows, a warp a row that counts; by atomic additions, which queue at frequent features.
extern "C" __global__ void sum_rows(int64 n, const int64* indptr, const int* features, const float* values,
                                    const float* dense, const double* unit, uint64* sums)
{
    int64 row = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (row >= n) return;
    float number[COLUMNS];
    bool counts = false;
    for (int c = 0; c < COLUMNS; ++c) counts |= (number[c] = __ldg(dense + row * COLUMNS + c)) != 0;
    if (!counts) return;
    for (int64 k = __ldg(indptr + row) + threadIdx.x % WARP, end = __ldg(indptr + row + 1); k < end; k += WARP) {
        double value = __ldg(values + k);
        uint64* to = sums + (int64)__ldg(features + k) * COLUMNS;
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            int64 product = __double2ll_rn(value * number[c] * __ldg(unit + c));
            if (product) atomicAdd(to + c, (uint64)product);
        }
    }
}

// How many entries of each piece of a list are of marked rows, a warp a piece,
extern "C" __global__ void count_kept(int64 n, int64 list, const int* feature, const int64* begin,
                                      const int64* starts, const int* rows, const uint64* marks, int64* numbers)
{
    int64 piece = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (piece >= n) return;
    int64 end = min(begin[piece] + list, starts[feature[piece] + 1]);
    int number = 0;
#pragma unroll 8
    for (int64 k = begin[piece] + threadIdx.x % WARP; k < end; k += WARP)
        number += marked_number(marks, __ldg(rows + k)) >= 0;
    for (int step = WARP / 2; step; step /= 2) number += __shfl_xor_sync(FULL_WARP, number, step);
    if (threadIdx.x % WARP == 0) numbers[piece] = number;
}

// and these entries, from to[piece] on, in their order, with new numbers of their rows if `renumber`.
extern "C" __global__ void place_kept(int64 n, int64 list, const int* feature, const int64* begin,
                                      const int64* starts, const int* rows, const uint64* marks, int renumber,
                                      const float* values, const int64* to, int* kept_rows, float* kept_values)
{
    int64 piece = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    int lane = threadIdx.x % WARP;
    if (piece >= n) return;
    int64 at = to[piece], end = min(begin[piece] + list, starts[feature[piece] + 1]);
#pragma unroll 4
    for (int64 first = begin[piece]; first < end; first += WARP) {
        int64 k = min(first + lane, end - 1);
        int row = __ldg(rows + k), number = marked_number(marks, row);
        float value = __ldg(values + k);
        bool is_kept = first + lane < end && number >= 0;
        uint32 kept = __ballot_sync(FULL_WARP, is_kept);
        int64 mine = at + __popc(kept & ((1u << lane) - 1));
        if (is_kept) {
            kept_rows[mine] = renumber ? number : row;
            kept_values[mine] = value;
        }
        at += __popc(kept);
    }
}

// Conjugate gradients for (I + X'DX, and the bias beside it) x = b, all vectors (n, COLUMNS).
struct Gradients {
    double *x, *r, *d, *curved;
    float* dense;                 // d, as passes read it
    const int64* sums;            // of X'D(Xd + constant d_bias)
    const double* bent;           // D(Xd + constant d_bias) of free rows, (rows, COLUMNS)
    double *unit, *partial;       // partial sums of blocks, (2, blocks, COLUMNS)
    double *x_bias, *r_bias, *d_bias, *rest, *size, *goal;  // (COLUMNS); rest: |r|^2
    const double *weight_bound, *bias_bound, *hold;
    int* open;                    // columns that are not done
    int64 n, rows;
    double constant;
    int blocks;
};

// Sums of a block's threads into partial[half, block]; in a fixed order.
__device__ void sum_of_block(const Gradients& t, const double* mine, int half = 0)
{
    __shared__ double partial[256 / WARP];
    for (int c = 0; c < COLUMNS; ++c) {
        double sum = mine[c];
        for (int step = WARP / 2; step; step /= 2) sum += __shfl_xor_sync(FULL_WARP, sum, step);
        if (threadIdx.x % WARP == 0) partial[threadIdx.x / WARP] = sum;
        __syncthreads();
        if (!threadIdx.x) {
            for (int warp = 1; warp < 256 / WARP; ++warp) sum += partial[warp];
            t.partial[((int64)half * t.blocks + blockIdx.x) * COLUMNS + c] = sum;
        }
        __syncthreads();
    }
}

__device__ double sum_of_partial(const Gradients& t, int c, int half = 0)
{
    const double* partial = t.partial + (int64)half * t.blocks * COLUMNS + c;
    double sum = 0;
    for (int block = threadIdx.x; block < t.blocks; block += WARP) sum += partial[(int64)block * COLUMNS];
    for (int step = WARP / 2; step; step /= 2) sum += __shfl_xor_sync(FULL_WARP, sum, step);
    return sum;
}

#define EACH_VALUE(n, k)                                                                               \
    for (int64 k = (int64)blockIdx.x * 256 + threadIdx.x; k < (n); k += (int64)gridDim.x * 256)

// curved = H d, and d . curved and the sum of `bent`; then how far to go.
extern "C" __global__ void __launch_bounds__(256) curve(const __grid_constant__ Gradients t)
{
    double mine[COLUMNS] = {}, bent[COLUMNS] = {};
    EACH_VALUE(t.n, k)
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            int64 at = k * COLUMNS + c;
            double d = t.d[at], curved = t.sums[at] / t.unit[c] + d;
            t.curved[at] = curved;
            mine[c] += d * curved;
        }
    EACH_VALUE(t.rows, k)
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) bent[c] += t.bent[k * COLUMNS + c];
    sum_of_block(t, mine);
    sum_of_block(t, bent, 1);
}

extern "C" __global__ void size_of_step(const __grid_constant__ Gradients t)
{
    for (int c = 0; c < COLUMNS; ++c) {
        double along = sum_of_partial(t, c), of_bias = sum_of_partial(t, c, 1);
        if (threadIdx.x) continue;
        double d = t.d_bias[c], curved = t.constant * of_bias + t.hold[c] * d, rest = t.rest[c];
        along += d * curved;
        double size = rest > t.goal[c] && along > 0 ? rest / along : 0;
        t.size[c] = size;
        t.x_bias[c] += size * d;
        t.r_bias[c] -= size * curved;
    }
}

extern "C" __global__ void __launch_bounds__(256) step(const __grid_constant__ Gradients t)
{
    double mine[COLUMNS] = {};
    EACH_VALUE(t.n, k)
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            int64 at = k * COLUMNS + c;
            t.x[at] += t.size[c] * t.d[at];
            double r = t.r[at] - t.size[c] * t.curved[at];
            t.r[at] = r;
            mine[c] += r * r;
        }
    sum_of_block(t, mine);
}

// The share of the old direction in the new one goes to `size`; a column that took no step is done.
extern "C" __global__ void share_of_direction(const __grid_constant__ Gradients t)
{
    int open = 0;
    for (int c = 0; c < COLUMNS; ++c) {
        double now = sum_of_partial(t, c);
        if (threadIdx.x) continue;
        now += t.r_bias[c] * t.r_bias[c];
        if (t.size[c] == 0) now = min(now, t.goal[c]);
        t.size[c] = t.rest[c] > 0 ? now / t.rest[c] : 0;
        t.rest[c] = now;
        t.d_bias[c] = t.r_bias[c] + t.size[c] * t.d_bias[c];
        open += now > t.goal[c];
    }
    if (!threadIdx.x) *t.open = open;
}

extern "C" __global__ void __launch_bounds__(256) direction(const __grid_constant__ Gradients t)
{
    double mine[COLUMNS] = {};
    EACH_VALUE(t.n, k)
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            int64 at = k * COLUMNS + c;
            double d = t.r[at] + t.size[c] * t.d[at];
            t.d[at] = d;
            t.dense[at] = (float)d;
            mine[c] += d * d;
        }
    sum_of_block(t, mine);
}

// The unit of sums of X'D(Xd): a power of two with which none can overflow.
extern "C" __global__ void unit_of_sums(const __grid_constant__ Gradients t)
{
    for (int c = 0; c < COLUMNS; ++c) {
        double length = sqrt(sum_of_partial(t, c));
        if (threadIdx.x) continue;
        double bound = t.weight_bound[c] * length + t.bias_bound[c] * fabs(t.d_bias[c]);
        t.unit[c] = exp2(floor(BITS - log2(fmax(bound, 1e-300))));
    }
}

// How many entries each feature has: the first HOT, which are the commonest, are counted in shared memory.
extern "C" __global__ void __launch_bounds__(1024) count_features(int64 n, const int* features, uint64* numbers)
{
    __shared__ uint32 hot[HOT];
    for (int u = threadIdx.x; u < HOT; u += blockDim.x) hot[u] = 0;
    __syncthreads();
    for (int64 k = (int64)blockIdx.x * blockDim.x + threadIdx.x; k < n; k += (int64)gridDim.x * blockDim.x) {
        int u = features[k];
        if (u < HOT) atomicAdd(hot + u, 1u); else atomicAdd(numbers + u, 1ull);
    }
    __syncthreads();
    for (int u = threadIdx.x; u < HOT; u += blockDim.x)
        if (hot[u]) atomicAdd(numbers + u, (uint64)hot[u]);
}

// Rows put elsewhere, a warp a row: row index[i], or i, from begin[i] on, features behind `base`, values times `root`.
extern "C" __global__ void place(int64 n, int base, float root, const int64* index, const int64* indptr,
                                 const int* features, const float* values, const int64* begin, int* to_features,
                                 float* to_values)
{
    int64 i = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (i >= n) return;
    int64 row = index ? index[i] : i, shift = begin[i] - indptr[row];
    for (int64 k = indptr[row] + threadIdx.x % WARP; k < indptr[row + 1]; k += WARP) {
        to_features[k + shift] = features[k] + base;
        to_values[k + shift] = values[k] * root;
    }
}
