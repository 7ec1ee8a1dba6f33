// needs: finish.cuh
// Products of sparse rows. The derivation is in textsvm/linalg/products_cuda.py; here only what
// each thread does. Positions of entries are int64; features and documents are int.
//
// SUM (uint32 or uint64): accumulator of one product over the features kept in lists. Sums of integers, or of
// fixed-point numbers with FIXED defined: they do not depend on the order of addition.
// VALUE (float of whole numbers, uint32, or double with FIXED): of the entries; FIXED keeps 50 bits and a sign.
// FINISH: see finish.cuh; without it a product is multiplied by a number of each of its two rows.

#ifndef SUM
#define SUM uint32
#endif
#ifndef VALUE
#define VALUE float
#endif
#define REST (-1)  // place of a feature kept in lists; >= 0: column of the int8 matrix, < -1: wide column

// Which features are narrow (1) and which wide (1 << 32): to be summed up, both counts in one word.
extern "C" __global__ void classify(int64 n_features, const int* df, const int* highest, float least,
                                    int whole, int64* kinds)
{
    EACH(u, n_features);
    bool frequent = df[u] > least;
    kinds[u] = !frequent ? 0 : whole && highest[u] < 128 ? 1 : 1ll << 32;
}

// The place of every feature, from the running sums of its kinds, and the length of its list.
extern "C" __global__ void place_features(int64 n_features, const int* df, const int64* sums, int* place,
                                          int64* lengths)
{
    EACH(u, n_features);
    int64 before = u ? sums[u - 1] : 0, kind = sums[u] - before;
    place[u] = kind == 1 ? (int)(uint32)before : kind ? REST - 1 - (int)(before >> 32) : REST;
    lengths[u] = kind ? 0 : df[u];
}

// The sum of a lane's values over its warp, in every lane, always in the same order.
__device__ double sum_of_warp(double sum)
{
    for (int step = WARP / 2; step; step /= 2) sum += __shfl_xor_sync(FULL_WARP, sum, step);
    return sum;
}

// |x|^2 of every row: a warp adds the squares of its entries.
extern "C" __global__ void squares(int64 n, const int64* indptr, const VALUE* values, double* sums)
{
    int64 i = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    int lane = threadIdx.x % WARP;
    if (i >= n) return;
    double sum = 0;
    for (int64 k = indptr[i] + lane; k < indptr[i + 1]; k += WARP) sum += (double)values[k] * values[k];
    sum = sum_of_warp(sum);
    if (!lane) sums[i] = sum;
}

// Rows times a dense matrix of `width` columns; a warp a row, in the order of its entries. Feature -1 is none.
extern "C" __global__ void dot(int64 n, const int64* indptr, const int* features, const VALUE* values,
                               int64 width, const double* dense, double* out)
{
    int64 i = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    int lane = threadIdx.x % WARP;
    if (i >= n) return;
    for (int64 column = 0; column < width; ++column) {
        double sum = 0;
        for (int64 k = indptr[i] + lane; k < indptr[i + 1]; k += WARP)
            if (features[k] >= 0) sum += (double)values[k] * dense[features[k] * width + column];
        sum = sum_of_warp(sum);
        if (!lane) out[i * width + column] = sum;
    }
}

// Entries of the rows from `first` on into int8 columns: digit `digit` of their counts, base 128.
extern "C" __global__ void narrow_columns(int64 n, const int* documents, const int* features,
                                          const VALUE* values, const int* place, int first, int digit,
                                          int64 ld, signed char* matrix)
{
    EACH(k, n);
    int column = features[k] < 0 ? REST : place[features[k]];
    if (column < 0) return;
    int value = (int)values[k], part = (abs(value) >> (7 * digit)) & 127;
    matrix[(documents[k] - first) * ld + column] = value < 0 ? -part : part;
}

#define WIDE_COLUMNS(name, Wide)                                                                       \
    extern "C" __global__ void name(int64 n, const int* documents, const int* features,                \
                                    const VALUE* values, const int* place, int first, int64 ld,        \
                                    Wide* matrix)                                                      \
    {                                                                                                  \
        EACH(k, n);                                                                                    \
        int column = features[k] < 0 ? REST : place[features[k]];                                      \
        if (column < REST) matrix[(documents[k] - first) * ld + (REST - 1 - column)] = values[k];      \
    }
WIDE_COLUMNS(wide_columns_double, double)
WIDE_COLUMNS(wide_columns_float, float)

// Lists of the documents that hold each feature, in any order: sums do not depend on it.
extern "C" __global__ void fill_lists(int64 n, const int* documents, const int* features,
                                      const VALUE* values, const int* place, int64* cursor,
                                      int* list_documents, VALUE* list_values)
{
    EACH(k, n);
    int u = features[k];
    if (place[u] != REST) return;
    int64 at = (int64)atomicAdd((uint64*)&cursor[u], 1ull);
    list_documents[at] = documents[k];
    list_values[at] = values[k];
}

__device__ SUM product(float a, float b, float) { return (SUM)a * (SUM)b; }

__device__ SUM product(uint32 a, uint32 b, uint32) { return (SUM)a * b; }

// What is added to 1.5 * 2^52 lies in the low bits of the sum: faster than a conversion.
__device__ SUM product(double a, double b, double unit)
{
    return __double_as_longlong(fma(a * unit, b, 6755399441055744.0)) - __double_as_longlong(6755399441055744.0);
}

// What `rows` computes: out[i, j] = finish(<row which[i], column j>, row_scale[which[i]], scale[j]), i the block's.
struct Products {
    const int64 *which, *indptr;  // the rows, and where their entries are
    const int* features;
    const VALUE* values;
    const int* place;             // of every feature, and the lists of those kept so
    const int64* lists;
    const int* list_documents;
    const VALUE* list_values;
    const int* tile;              // products of the narrow and wide columns, or null: `skip` columns are left out,
    const double* wide;           // and a row has ld values
    int64 ld, skip;
    const double *row_scale, *scale;
    float* out;
    int n, width, half;           // n columns, `width` a block; `half`: only those behind the diagonal
    float unit;                   // of fixed-point numbers
    int degree;                   // of FINISH, and its other parameters
    double gamma, coef0;
};

// The value of a product of two rows, given a number for each: |x|^2 for FINISH.
__device__ __forceinline__ float finish(const Products& t, double product, double a, double b)
{
#ifdef FINISH
    return FINISH(product, 1.4426950408889634 * t.gamma * (a + b - 2 * product), t.gamma, t.coef0, t.degree);
#else
    return (float)(product * (a * b));
#endif
}

// Add to sums[j - from], from <= j < high, what the lists give for row `own`. The 32 lanes of a warp fetch 32
// entries of the row, then walk each list together.
__device__ void add_lists(const Products& t, int64 own, int from, int high, SUM* sums)
{
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
    int64 last = __ldg(t.indptr + own + 1);
    for (int64 base = __ldg(t.indptr + own) + warp * WARP; base < last; base += warps * WARP) {
        int u = base + lane < last ? __ldg(t.features + base + lane) : -1;
        bool listed = u >= 0 && __ldg(t.place + u) == REST;
        int64 begin = listed ? __ldg(t.lists + u) : 0, end = listed ? __ldg(t.lists + u + 1) : 0;
        VALUE value = listed ? __ldg(t.values + base + lane) : 0;
        for (uint32 left = __ballot_sync(FULL_WARP, end > begin); left; left &= left - 1) {
            int source = __ffs(left) - 1;
            VALUE a = __shfl_sync(FULL_WARP, value, source);
            int64 stop = __shfl_sync(FULL_WARP, end, source);
            for (int64 at = __shfl_sync(FULL_WARP, begin, source) + lane; at < stop; at += WARP) {
                uint32 j = (uint32)(__ldg(t.list_documents + at) - from);
                if (j < (uint32)(high - from)) atomicAdd(&sums[j], product(a, __ldg(t.list_values + at), (VALUE)t.unit));
            }
        }
    }
}

// The values of row `own`, from <= j < high. Which dense columns there are is known when compiled: so the loads of
// several j come together.
template <bool TILE, bool WIDE>
__device__ __forceinline__ void write_values(const Products& t, int64 own, int from, int high, const SUM* sums)
{
    double mine = __ldg(t.row_scale + own);
    int64 row = blockIdx.x * t.ld - t.skip;
    float* to = t.out + (int64)blockIdx.x * t.n;
#pragma unroll 4
    for (int j = from + threadIdx.x; j < high; j += blockDim.x) {
#ifdef FIXED
        double total = (double)(int64)sums[j - from] / t.unit;
#else
        double total = (double)sums[j - from];
#endif
        if (TILE) total += __ldg(t.tile + row + j);
        if (WIDE) total += __ldg(t.wide + row + j);
        to[j] = finish(t, total, mine, __ldg(t.scale + j));
    }
}

// A block computes columns [blockIdx.y * width, ...) of one row. Without the second bound, registers spill.
extern "C" __global__ void __launch_bounds__(512, sizeof(SUM) == 4 ? 4 : 3)
rows(const __grid_constant__ Products t)
{
    extern __shared__ char memory[];
    SUM* sums = (SUM*)memory;
    int64 own = __ldg(t.which + blockIdx.x);
    int low = blockIdx.y * t.width, high = min(t.n, low + t.width);
    int from = t.half ? max(low, (int)own + 1) : low;
    if (from >= high) return;
    for (int j = threadIdx.x; j < high - from; j += blockDim.x) sums[j] = 0;
    __syncthreads();
    add_lists(t, own, from, high, sums);
    __syncthreads();
    if (t.tile && t.wide) write_values<true, true>(t, own, from, high, sums);
    else if (t.tile) write_values<true, false>(t, own, from, high, sums);
    else if (t.wide) write_values<false, true>(t, own, from, high, sums);
    else write_values<false, false>(t, own, from, high, sums);
}

// The lower half from the upper one, 64 x 64 values a block, and the diagonal.
extern "C" __global__ void __launch_bounds__(512) mirror(int n, const float* diagonal, float* matrix)
{
    __shared__ float tile[64][65];
    if (blockIdx.y > blockIdx.x) return;
    int64 i = (int64)blockIdx.y * 64, j = (int64)blockIdx.x * 64;
#pragma unroll
    for (int r = 0; r < 64; r += 8) {
        int64 row = i + threadIdx.y + r, column = j + threadIdx.x;
        if (row < n && column < n) tile[threadIdx.y + r][threadIdx.x] = matrix[row * n + column];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 64; r += 8) {
        int64 row = j + threadIdx.y + r, column = i + threadIdx.x;
        if (row >= n || column > row) continue;
        matrix[row * n + column] = column == row ? diagonal[row] : tile[threadIdx.x][threadIdx.y + r];
    }
}
