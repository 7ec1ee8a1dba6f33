// p-spectrum kernel: p-mers -> exact ids -> sparse rows of counts, and rows of the product X X'.
// The derivation is in textsvm/kernels/spectrum.py and pmers.py; here only what each thread does.
//
// KEY (uint32 or uint64): type that holds document * (number of features) + feature.
// SUM (uint32 or uint64): accumulator of one kernel value over the p-mers kept in lists. Sums of
// integers, or of fixed-point numbers with FIXED defined: they do not depend on the order of addition.

#ifndef KEY
#define KEY uint64
#endif
#ifndef SUM
#define SUM uint32
#endif
#define REST (-1)  // place of a feature kept in lists; >= 0: column of the int8 matrix, < -1: wide column

#define EACH(i, n)                                                         \
    int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;                \
    if (i >= (n)) return

// document[i] of every symbol i: the last one that starts at or before i.
extern "C" __global__ void locate(int64 n_symbols, int n, const int64* offsets, int* document)
{
    EACH(i, n_symbols);
    int low = 0, high = n;  // offsets[low] <= i < offsets[high]
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (offsets[middle] <= i) low = middle; else high = middle;
    }
    document[i] = low;
}

struct Windows {
    int64 n_symbols, size_b;
    const int64* offsets;
    const int *document, *left, *right;
    int q, b;

    __device__ bool whole(int64 i) const { return i + q <= offsets[document[i] + 1]; }
    __device__ int64 key(int64 i) const { return left[i] * size_b + right[i + q - b]; }
};

#define WINDOWS                                                                            \
    int64 n_symbols, const int64 *offsets, const int *document, int q, int b,              \
        const int *left, const int *right, int64 size_b
#define THESE Windows{n_symbols, size_b, offsets, document, left, right, q, b}

extern "C" __global__ void mark(WINDOWS, int* seen)
{
    EACH(i, n_symbols);
    Windows windows = THESE;
    if (!windows.whole(i)) return;
    int64 key = windows.key(i);
    if (!seen[key]) seen[key] = 1;  // looking first: writes to one word would queue
}

extern "C" __global__ void look_up(WINDOWS, const int* ranks, int* ids)
{
    EACH(i, n_symbols);
    Windows windows = THESE;
    ids[i] = windows.whole(i) ? ranks[windows.key(i)] - 1 : 0;
}

// (key, place) in one word, to be sorted; windows that leave their document sort behind all others.
extern "C" __global__ void window_keys(WINDOWS, int shift, uint64* keys)
{
    EACH(i, n_symbols);
    Windows windows = THESE;
    keys[i] = windows.whole(i) ? ((uint64)windows.key(i) << shift) | (shift ? (uint64)i : 0) : ~0ull;
}

extern "C" __global__ void token_keys(int64 n_symbols, const int64* offsets, const int* document, int q,
                                      const int* ids, int64 base, int64 n_features, KEY* keys)
{
    EACH(i, n_symbols);
    int d = document[i];
    keys[i] = i + q <= offsets[d + 1] ? (KEY)((KEY)d * (KEY)n_features + (KEY)(base + ids[i])) : (KEY)~(KEY)0;
}

extern "C" __global__ void first_of_run(int64 n, const KEY* keys, uint8* first)
{
    EACH(i, n);
    first[i] = i == 0 || keys[i] != keys[i - 1];
}

// One entry of X for every run of equal keys.
extern "C" __global__ void entries(int64 n, int64 n_tokens, const KEY* keys, const int64* starts,
                                   int64 n_features, int* documents, int* features, int* counts,
                                   int* df, int* highest)
{
    EACH(k, n);
    int64 start = starts[k], end = k + 1 < n ? starts[k + 1] : n_tokens;
    KEY key = keys[start];
    int u = (int)(key % (KEY)n_features), c = (int)(end - start);
    documents[k] = (int)(key / (KEY)n_features);
    features[k] = u;
    counts[k] = c;
    atomicAdd(&df[u], 1);
    if (c > 1) atomicMax(&highest[u], c);
}

// Where the rows of X start, from the document of every entry.
extern "C" __global__ void row_starts(int64 n, int n_rows, const int* documents, int64* indptr)
{
    EACH(k, n);
    int d = documents[k];
    for (int row = k ? documents[k - 1] + 1 : 0; row <= d; ++row) indptr[row] = k;
    if (k == n - 1)
        for (int row = d + 1; row <= n_rows; ++row) indptr[row] = n;
}

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

// Unary code of the counts: the h-th occurrence of p-mer u in a document is feature begin[u] + h.
extern "C" __global__ void unary(int64 n_tokens, const KEY* keys, const int64* starts, const int* run,
                                 int64 n_pmers, const int64* begin, int* documents, int* pmers,
                                 int* features, int* df)
{
    EACH(k, n_tokens);
    int u = (int)(keys[k] % (KEY)n_pmers);
    int feature = (int)(begin[u] + k - starts[run[k] - 1]);
    documents[k] = (int)(keys[k] / (KEY)n_pmers);
    pmers[k] = u;
    features[k] = feature;
    atomicAdd(&df[feature], 1);
}

// k(s, s): a warp adds the squares of a document, always in the same order; and the factor of its row.
extern "C" __global__ void squares(int n, const int64* indptr, const float* values, int normalised,
                                   double* sums, double* scale)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
    if (i >= n) return;
    double sum = 0;
    for (int64 k = indptr[i] + lane; k < indptr[i + 1]; k += WARP) sum += (double)values[k] * values[k];
    for (int step = WARP / 2; step; step /= 2) sum += __shfl_xor_sync(FULL_WARP, sum, step);
    if (lane) return;
    sums[i] = sum;
    scale[i] = !normalised ? 1 : sum > 0 ? 1 / sqrt(sum) : 0;
}

// Entries of the rows from `first` on into int8 columns: digit `digit` of their counts, base 128.
extern "C" __global__ void narrow_columns(int64 n, const int* documents, const int* features,
                                          const float* values, const int* place, int first, int digit,
                                          int64 ld, signed char* matrix)
{
    EACH(k, n);
    int column = features[k] < 0 ? REST : place[features[k]];
    if (column >= 0) matrix[(documents[k] - first) * ld + column] = ((int)values[k] >> (7 * digit)) & 127;
}

#define WIDE_COLUMNS(name, Wide)                                                                       \
    extern "C" __global__ void name(int64 n, const int* documents, const int* features,                \
                                    const float* values, const int* place, int first, int64 ld,        \
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
                                      const float* values, const int* place, int64* cursor,
                                      int* list_documents, float* list_values)
{
    EACH(k, n);
    int u = features[k];
    if (place[u] != REST) return;
    int64 at = (int64)atomicAdd((uint64*)&cursor[u], 1ull);
    list_documents[at] = documents[k];
    list_values[at] = values[k];
}

__device__ SUM product(float a, float b, float unit)
{
#ifdef FIXED
    return __float2ull_rn(a * b * unit);
#else
    return (SUM)a * (SUM)b;
#endif
}

// A block computes columns [blockIdx.y * width, ...) of one row; `half`: only columns behind the
// diagonal. The 32 lanes of a warp fetch 32 entries of the row, then walk each list together.
extern "C" __global__ void __launch_bounds__(512)
rows(int n, int width, int half, const int64* __restrict__ which, const int64* __restrict__ indptr,
     const int* __restrict__ features, const float* __restrict__ values, const int* __restrict__ place,
     const int64* __restrict__ lists, const int* __restrict__ list_documents,
     const float* __restrict__ list_values, const int* __restrict__ tile, const double* __restrict__ wide,
     int64 ld, int64 skip, float unit, const double* __restrict__ row_scale,
     const double* __restrict__ scale, const int* __restrict__ row_groups, const int* __restrict__ groups,
     float* __restrict__ out)
{
    extern __shared__ char memory[];
    SUM* sums = (SUM*)memory;
    int64 own = which[blockIdx.x];
    int low = blockIdx.y * width, high = min(n, low + width);
    int from = half ? max(low, (int)own + 1) : low;
    if (from >= high) return;
    for (int j = threadIdx.x; j < high - from; j += blockDim.x) sums[j] = 0;
    __syncthreads();
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
    int64 last = indptr[own + 1];
    for (int64 base = indptr[own] + warp * WARP; base < last; base += warps * WARP) {
        int u = base + lane < last ? features[base + lane] : -1;
        bool listed = u >= 0 && place[u] == REST;
        int64 begin = listed ? lists[u] : 0, end = listed ? lists[u + 1] : 0;
        float value = listed ? values[base + lane] : 0;
        for (uint32 left = __ballot_sync(FULL_WARP, end > begin); left; left &= left - 1) {
            int source = __ffs(left) - 1;
            float a = __shfl_sync(FULL_WARP, value, source);
            int64 stop = __shfl_sync(FULL_WARP, end, source);
            for (int64 at = __shfl_sync(FULL_WARP, begin, source) + lane; at < stop; at += WARP) {
                uint32 j = (uint32)(list_documents[at] - from);
                if (j < (uint32)(high - from)) atomicAdd(&sums[j], product(a, list_values[at], unit));
            }
        }
    }
    __syncthreads();
    double mine = row_scale[own];
    int group = row_groups[own];  // not 0: a document without features, 1 with its equals
    int64 row = blockIdx.x * ld - skip;
    float* to = out + (int64)blockIdx.x * n;
#pragma unroll 4
    for (int j = from + threadIdx.x; j < high; j += blockDim.x) {
        double total = (double)sums[j - from];
#ifdef FIXED
        total /= unit;
#endif
        if (tile) total += tile[row + j];
        if (wide) total += wide[row + j];
        to[j] = group ? (float)(group == groups[j]) : (float)(total * (mine * scale[j]));
    }
}

// The lower half from the upper one, 64 x 64 values a block, and the diagonal.
extern "C" __global__ void __launch_bounds__(512)
mirror(int n, int normalised, const double* self, float* matrix)
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
        float diagonal = normalised || row != column ? 1 : (float)self[row];
        matrix[row * n + column] = column == row ? diagonal : tile[threadIdx.x][threadIdx.y + r];
    }
}
