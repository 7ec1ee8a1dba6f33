// Gapped k-mers whose possible keys are few: a block counts what one mask keeps of the windows of one document in
// shared memory. Derivations are in textsvm/kernels/mers/gapped_cuda.py; here only what each thread does.

// Texts of few symbols. Both strands: a window of the second is read backwards, each letter c below 4 as 3 - c.
struct Texts {
    const uint8* codes;
    const uint8* counted; // whether the window that starts at a symbol counts
    const int64* offsets;
    const int* kept;      // (masks, n_kept) positions of a window
    int g, n_kept, n_symbols, n_keys, strands;
};

// What each thread has to know of the block's document.
struct Document {
    const uint8* codes;
    const uint8* counted;
    int numbers, windows; // of one strand, of all
};

__device__ __forceinline__ Document document_of(const Texts& t, int64 i)
{
    int64 first = t.offsets[i];
    int numbers = max((int)(t.offsets[i + 1] - first) - t.g + 1, 0);
    Document d = {t.codes + first, t.counted + first, numbers, numbers * t.strands};
    return d;
}

__device__ __forceinline__ int key_of(const Texts& t, const Document& d, const int* kept, int w)
{
    bool back = w >= d.numbers;
    const uint8* window = d.codes + (back ? w - d.numbers + t.g - 1 : w);
    int key = 0;
    for (int k = 0; k < t.n_kept; ++k) {
        int code = window[back ? -kept[k] : kept[k]];
        key = key * t.n_symbols + (back && code < 4 ? 3 - code : code);
    }
    return key;
}

__device__ __forceinline__ bool counts_window(const Document& d, int w)
{
    return d.counted[w >= d.numbers ? w - d.numbers : w];
}

// A row of X for each document (blockIdx.x) and mask (blockIdx.y): high + low of the weight of
// each count, ld numbers a document and n_padded of them a mask; |x|^2 of each.
extern "C" __global__ void dense_rows(Texts t, int64 ld, int n_padded, const uint16* high,
                                      const uint16* low, const double* square, uint16* out_high, uint16* out_low,
                                      double* squares)
{
    extern __shared__ uint32 counts[];
    __shared__ double sums[WARP];
    Document d = document_of(t, blockIdx.x);
    const int* kept = t.kept + (int64)blockIdx.y * t.n_kept;
    for (int u = threadIdx.x; u < n_padded; u += blockDim.x) counts[u] = 0;
    __syncthreads();
    for (int w = threadIdx.x; w < d.windows; w += blockDim.x)
        if (counts_window(d, w)) atomicAdd(&counts[key_of(t, d, kept, w)], 1u);
    __syncthreads();
    int64 row = blockIdx.x * ld + (int64)blockIdx.y * n_padded;
    double sum = 0;
    for (int u = threadIdx.x; u < n_padded; u += blockDim.x) {
        uint32 count = counts[u];
        out_high[row + u] = high[count];
        if (out_low) out_low[row + u] = low[count];
        if (count) sum += square[count];
    }
    for (int step = WARP / 2; step; step /= 2) sum += __shfl_down_sync(FULL_WARP, sum, step);
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    for (int warp = 1; warp < blockDim.x / WARP; ++warp) sum += sums[warp];
    squares[(int64)blockIdx.x * gridDim.y + blockIdx.y] = sum;
}

// The weights of all windows of a document (blockIdx.x), looked up for one machine (blockIdx.y): an occurrence
// adds what it adds to the weight of its count. Whole multiples of a unit, so that their order does not matter.
extern "C" __global__ void look_up(Texts t, int n_masks, const int* times, const double* more, const double* more_square,
                                   const double* tables, double unit, double square_unit, double* values,
                                   double* squares)
{
    extern __shared__ uint32 counts[];
    __shared__ int64 sums[2][WARP];
    Document d = document_of(t, blockIdx.x);
    uint16* keys = (uint16*)(counts + t.n_keys);
    int64 sum = 0, square = 0;
    for (int u = threadIdx.x; u < t.n_keys; u += blockDim.x) counts[u] = 0;
    __syncthreads();
    const double* table = tables + (int64)blockIdx.y * n_masks * t.n_keys;
    for (int mask = 0; mask < n_masks; ++mask, table += t.n_keys) {
        int64 of_mask = 0;
        for (int w = threadIdx.x; w < d.windows; w += blockDim.x) {
            int key = key_of(t, d, t.kept + mask * t.n_kept, w);
            keys[w] = key;
            if (!counts_window(d, w)) continue;
            uint32 before = atomicAdd(&counts[key], 1u);
            sum += __double2ll_rn(more[before] * table[key] * unit);
            of_mask += __double2ll_rn(more_square[before] * square_unit);
        }
        square += of_mask * times[mask];
        __syncthreads();
        for (int w = threadIdx.x; w < d.windows; w += blockDim.x) counts[keys[w]] = 0;
        __syncthreads();
    }
    for (int step = WARP / 2; step; step /= 2) {
        sum += __shfl_down_sync(FULL_WARP, sum, step);
        square += __shfl_down_sync(FULL_WARP, square, step);
    }
    if (threadIdx.x % WARP == 0) sums[0][threadIdx.x / WARP] = sum, sums[1][threadIdx.x / WARP] = square;
    __syncthreads();
    if (threadIdx.x) return;
    for (int warp = 1; warp < blockDim.x / WARP; ++warp) sum += sums[0][warp], square += sums[1][warp];
    values[(int64)blockIdx.x * gridDim.y + blockIdx.y] = sum / unit;
    if (!blockIdx.y) squares[blockIdx.x] = square / square_unit;
}
