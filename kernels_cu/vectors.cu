// needs: finish.cuh vectors.cuh
// Dense vectors as digits, their products with themselves, and a few rows of kernel values. A thread has a slab of
// both vectors of a product.

#define FEW 8                                    // rows at most

// Digits of round((x - centre) / unit). Flags: that had to round; it is no such number. A thread a digit place.
template <typename Real>
__device__ __forceinline__ void encode(int64 n, int d, int width, const Real* x, const double* centre,
                                       const double* units, int8* digits, int* flags)
{
    EACH(at, n);
    int64 row = at / width;
    int k = (int)(at % width);
    int8* to = digits + row * width * DIGITS + k;
    double exact = k < d ? ((double)x[row * d + k] - centre[k]) / units[row] : 0;
    double nearest = rint(exact), most = SUMS == 1 ? 127 : MOST_NUMBER, least = SUMS == 1 ? -128 : -most;
    if (nearest != exact) flags[0] = 1;
    if (!(nearest >= least && nearest <= most)) flags[1] = 1;
    int number = (int)fmin(fmax(nearest, least), most);
#pragma unroll
    for (int digit = DIGITS - 1; digit >= 0; --digit) {
        int8 low = (int8)number;
        to[digit * width] = low;
        number = (number - low) >> 8;
    }
}

#define ENCODE(name, Real)                                                                                \
    extern "C" __global__ void name(int64 n, int d, int width, const Real* x, const double* centre,       \
                                    const double* units, int8* digits, int* flags)                        \
    {                                                                                                     \
        encode(n, d, width, x, centre, units, digits, flags);                                             \
    }
ENCODE(encode_float, float)
ENCODE(encode_double, double)

__device__ __forceinline__ void load_slab(int (&words)[DIGITS][8], const int8* vector, int width, int slab)
{
#pragma unroll
    for (int digit = 0; digit < DIGITS; ++digit) {
        const int4* from = (const int4*)(vector + digit * width + slab * SLAB);
        int4 low = __ldg(from), high = __ldg(from + 1);
        words[digit][0] = low.x, words[digit][1] = low.y, words[digit][2] = low.z, words[digit][3] = low.w;
        words[digit][4] = high.x, words[digit][5] = high.y, words[digit][6] = high.z, words[digit][7] = high.w;
    }
}

__device__ __forceinline__ int dot(int sum, const int (&a)[8], const int (&b)[8])
{
#pragma unroll
    for (int k = 0; k < 8; ++k) sum = __dp4a(a[k], b[k], sum);
    return sum;
}

__device__ __forceinline__ void add_slab(int (&sums)[3], const int (&a)[DIGITS][8], const int (&b)[DIGITS][8])
{
    sums[0] = dot(sums[0], a[0], b[0]);
#if SUMS > 1
    sums[1] = dot(dot(sums[1], a[0], b[1]), a[1], b[0]);
#endif
#if SUMS == 2
    sums[1] += dot(dot(dot(MIDDLE, a[0], b[2]), a[1], b[1]), a[2], b[0]) >> 8;
#elif SUMS == 3
    sums[2] = dot(dot(dot(sums[2], a[0], b[2]), a[1], b[1]), a[2], b[0]);
    sums[2] += dot(dot(MIDDLE, a[1], b[2]), a[2], b[1]) >> 8;
#endif
}

// The sum of a value over `lanes` neighbouring threads, a power of 2.
__device__ __forceinline__ int over_lanes(int sum, int lanes)
{
    for (int step = lanes / 2; step; step /= 2) sum += __shfl_xor_sync(FULL_WARP, sum, step);
    return sum;
}

// The product of each vector with itself; a warp a vector, n threads.
extern "C" __global__ void self_products(int64 n, int slabs, const int8* digits, double* squares)
{
    EACH(at, n);
    int64 row = at / WARP;
    int lane = threadIdx.x % WARP, sums[3] = {0, 0, 0}, words[DIGITS][8];
    for (int slab = lane; slab < slabs; slab += WARP) {
        load_slab(words, digits + row * slabs * SLAB * DIGITS, slabs * SLAB, slab);
        add_slab(sums, words, words);
    }
#pragma unroll
    for (int s = 0; s < SUMS; ++s) sums[s] = over_lanes(sums[s], WARP);
    if (!lane) squares[row] = whole(sums[0], sums[1], sums[2]);
}

// Up to ROWS rows, w.m: columns are read once, `lanes` threads (a power of 2) a column, rows from shared memory, where
// halves of neighbouring slabs are neighbours.
template <int ROWS>
__device__ __forceinline__ void some_rows(const Work& w, int lanes)
{
    int halves = w.slabs * 2, width = w.slabs * SLAB;
    for (int at = threadIdx.x; at < w.m * DIGITS * halves; at += blockDim.x) {
        int vector = at / halves, half = at % halves, i = vector / DIGITS, digit = vector % DIGITS;
        int64 row = w.which ? __ldg(w.which + i) : i;
        const int4* from = (const int4*)(w.rows + (row * DIGITS + digit) * width);
        memory[vector * halves + (half & 1) * w.slabs + half / 2] = __ldg(from + half);
    }
    __syncthreads();
    int lane = threadIdx.x % lanes, step = gridDim.x * (blockDim.x / lanes);
    // All threads of a warp go round as often: they add their sums up together.
    for (int base = blockIdx.x * (blockDim.x / lanes); base < w.n; base += step) {
        int j = base + threadIdx.x / lanes, at = min(j, w.n - 1), sums[ROWS][3] = {}, mine[DIGITS][8], other[DIGITS][8];
        for (int slab = lane; slab < w.slabs; slab += lanes) {
            load_slab(mine, w.columns + (int64)at * width * DIGITS, width, slab);
#pragma unroll
            for (int i = 0; i < ROWS; ++i) {
                if (i >= w.m) break;
#pragma unroll
                for (int digit = 0; digit < DIGITS; ++digit) {
                    const int4* from = memory + (i * DIGITS + digit) * halves + slab;
                    int4 low = from[0], high = from[w.slabs];
                    other[digit][0] = low.x, other[digit][1] = low.y, other[digit][2] = low.z, other[digit][3] = low.w;
                    other[digit][4] = high.x, other[digit][5] = high.y, other[digit][6] = high.z, other[digit][7] = high.w;
                }
                add_slab(sums[i], other, mine);
            }
        }
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            if (i >= w.m) break;
#pragma unroll
            for (int s = 0; s < SUMS; ++s) sums[i][s] = over_lanes(sums[i][s], lanes);
            if (lane || j >= w.n) continue;
            int64 row = w.which ? __ldg(w.which + i) : i;
            Whole product = whole(sums[i][0], sums[i][1], sums[i][2]), square = (Whole)w.row_squares[row];
            Real unit = (Real)w.row_units[row] * (Real)w.units[j];
            w.out[(int64)i * w.n + j] = value_of(w, product, square, (Whole)w.squares[j], unit);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) few(const __grid_constant__ Work w, int lanes)
{
    some_rows<FEW>(w, lanes);
}

// One row needs half the registers: twice as many threads wait for memory.
extern "C" __global__ void __launch_bounds__(256) one(const __grid_constant__ Work w, int lanes)
{
    some_rows<1>(w, lanes);
}
