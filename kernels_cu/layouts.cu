// Catanzaro's comparison of data layouts: Gaussian kernel values of all points with two of them, high and low; and
// his reductions to the smallest and the largest value with its place. What they show is in benchmarks/layouts.py.

// n points of d numbers, d a multiple of 4, in the layout that a kernel names. Values are exp2(scale * distance^2).
struct Points {
    const float* data;
    float *high_values, *low_values;
    float scale;
    int n, d, high, low;
};

__device__ __forceinline__ float add_square(float sum, float a, float b)
{
    float difference = a - b;
    return sum + difference * difference;
}

__device__ __forceinline__ float add_squares(float sum, float4 a, float4 b)
{
    return add_square(add_square(add_square(add_square(sum, a.x, b.x), a.y, b.y), a.z, b.z), a.w, b.w);
}

__device__ __forceinline__ void write_values(const Points& p, int64 i, float high, float low)
{
    p.high_values[i] = exp2f(p.scale * high);
    p.low_values[i] = exp2f(p.scale * low);
}

// data[i][k], a thread a point.
extern "C" __global__ void row_major(const __grid_constant__ Points p)
{
    EACH(i, p.n);
    float high = 0, low = 0;
    for (int k = 0; k < p.d; ++k) {
        float x = p.data[i * p.d + k];
        high = add_square(high, x, p.data[(int64)p.high * p.d + k]);
        low = add_square(low, x, p.data[(int64)p.low * p.d + k]);
    }
    write_values(p, i, high, low);
}

// data[k][i], a thread a point: neighbours read neighbours.
extern "C" __global__ void column_major(const __grid_constant__ Points p)
{
    EACH(i, p.n);
    float high = 0, low = 0;
#pragma unroll 4
    for (int64 k = 0; k < p.d; ++k) {
        float x = p.data[k * p.n + i];
        high = add_square(high, x, p.data[k * p.n + p.high]);
        low = add_square(low, x, p.data[k * p.n + p.low]);
    }
    write_values(p, i, high, low);
}

// data[k / 4][i][k % 4], a thread a point, four numbers a read.
extern "C" __global__ void vectorised(const __grid_constant__ Points p)
{
    EACH(i, p.n);
    const float4* data = (const float4*)p.data;
    float high = 0, low = 0;
#pragma unroll 4
    for (int64 k = 0; k < p.d / 4; ++k) {
        float4 x = data[k * p.n + i];
        high = add_squares(high, x, data[k * p.n + p.high]);
        low = add_squares(low, x, data[k * p.n + p.low]);
    }
    write_values(p, i, high, low);
}

// The same, the two points in shared memory.
extern "C" __global__ void shared_sources(const __grid_constant__ Points p)
{
    extern __shared__ float4 sources[];
    const float4* data = (const float4*)p.data;
    int fours = p.d / 4;
    for (int k = threadIdx.x; k < fours; k += blockDim.x) {
        sources[k] = data[(int64)k * p.n + p.high];
        sources[fours + k] = data[(int64)k * p.n + p.low];
    }
    __syncthreads();
    EACH(i, p.n);
    float high = 0, low = 0;
#pragma unroll 8
    for (int64 k = 0; k < fours; ++k) {
        float4 x = __ldcs(data + k * p.n + i);
        high = add_squares(high, x, sources[k]);
        low = add_squares(low, x, sources[fours + k]);
    }
    write_values(p, i, high, low);
}

// data[i][k], a warp a point, the two points in shared memory: rows as their users have them.
extern "C" __global__ void warp_rows(const __grid_constant__ Points p)
{
    extern __shared__ float4 sources[];
    const float4* data = (const float4*)p.data;
    int fours = p.d / 4, lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
    for (int k = threadIdx.x; k < fours; k += blockDim.x) {
        sources[k] = data[(int64)p.high * fours + k];
        sources[fours + k] = data[(int64)p.low * fours + k];
    }
    __syncthreads();
    for (int64 i = (int64)blockIdx.x * warps + threadIdx.x / WARP; i < p.n; i += (int64)gridDim.x * warps) {
        float high = 0, low = 0;
#pragma unroll 4
        for (int k = lane; k < fours; k += WARP) {
            float4 x = __ldcs(data + i * fours + k);
            high = add_squares(high, x, sources[k]);
            low = add_squares(low, x, sources[fours + k]);
        }
        for (int step = WARP / 2; step; step /= 2) {
            high += __shfl_xor_sync(FULL_WARP, high, step);
            low += __shfl_xor_sync(FULL_WARP, low, step);
        }
        if (!lane) write_values(p, i, high, low);
    }
}

// A value and its place; of equal values the first one is better.
template <typename Real>
struct Best {
    Real value;
    int at;
};

template <typename Real>
__device__ __forceinline__ Best<Real> better(Best<Real> a, Best<Real> b, int sign)
{
    bool other = sign * b.value < sign * a.value || (b.value == a.value && b.at < a.at);
    return {other ? b.value : a.value, other ? b.at : a.at};
}

template <typename Real>
__device__ __forceinline__ Best<Real> best_of_block(Best<Real> best, int sign)
{
    __shared__ Best<Real> bests[WARP];
    for (int step = WARP / 2; step; step /= 2) {
        Best<Real> other = {__shfl_xor_sync(FULL_WARP, best.value, step), __shfl_xor_sync(FULL_WARP, best.at, step)};
        best = better(best, other, sign);
    }
    __syncthreads();
    if (threadIdx.x % WARP == 0) bests[threadIdx.x / WARP] = best;
    __syncthreads();
    for (int warp = 0; warp < blockDim.x / WARP; ++warp) best = better(best, bests[warp], sign);
    return best;
}

// The smallest (sign 1) or the largest (-1) of n values, 16 bytes a read. Blocks leave their best in `partial`; the
// last one to be done takes the best of them all into partial[0] and counts from 0 again.
template <typename Real>
__device__ __forceinline__ void extreme(int64 n, const Real* values, int sign, Best<Real>* partial, int* done)
{
    struct alignas(16) Pack { Real of[16 / sizeof(Real)]; };
    constexpr int SIZE = 16 / sizeof(Real), AHEAD = 4;
    __shared__ bool last;
    int64 packs = n / SIZE, step = (int64)gridDim.x * blockDim.x, first = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    Best<Real> best = {values[0], 0};
    for (int64 base = first; base < packs; base += AHEAD * step) {
        Pack got[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) got[a] = ((const Pack*)values)[min(base + a * step, packs - 1)];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a)
#pragma unroll
            for (int k = 0; k < SIZE; ++k) {
                bool other = sign > 0 ? got[a].of[k] < best.value : got[a].of[k] > best.value;
                best.value = other ? got[a].of[k] : best.value;
                best.at = other ? (int)(min(base + a * step, packs - 1) * SIZE + k) : best.at;
            }
    }
    for (int64 i = packs * SIZE + first; i < n; i += step) best = better(best, Best<Real>{values[i], (int)i}, sign);
    best = best_of_block(best, sign);
    if (threadIdx.x == 0) {
        partial[1 + blockIdx.x] = best;
        __threadfence();
        last = atomicAdd(done, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    for (int block = threadIdx.x; block < gridDim.x; block += blockDim.x) {
        Best<Real> other = {__ldcg(&partial[1 + block].value), __ldcg(&partial[1 + block].at)};
        best = better(best, other, sign);
    }
    best = best_of_block(best, sign);
    if (threadIdx.x == 0) partial[0] = best, *done = 0;
}

#define EXTREME(name, Real)                                                                                  \
    extern "C" __global__ void __launch_bounds__(512) name(int64 n, const Real* values, int sign, void* partial, int* done) \
    {                                                                                                        \
        extreme<Real>(n, values, sign, (Best<Real>*)partial, done);                                          \
    }
EXTREME(extreme_float, float)
EXTREME(extreme_double, double)
