// needs: marks.cuh
// Products with a packed copy of some rows. The derivation is in textsvm/linalg/packed_cuda.py; here only what each
// thread does.
//
// An entry is a number in the lower half of a word and its value, a float16, in the upper half. The block has the
// numbers that entries refer to in shared memory: `table`.

#define THREADS 1024
#define AHEAD 16  // entries that a thread requests at once
#define FEW 4     // threads per list of a rare feature
#define ROUND 8   // entries of a list that a thread requests at once when lists are packed

extern __shared__ float table[];

struct PackedRows {
    const int64 *begin, *rare_begin;  // entries of each row: of the `common` first features, and of others
    const uint32* entries;
    const uint64* rare;               // a feature in the lower half, a float in the upper half
    const float* dense;               // (n_features,)
    const double *shift, *factor;     // (1,) and (n,)
    double* out;                      // factor * (scale * row . dense + shift), (n,)
    float* rounded;                   // the same
    const int* open;                  // 0: there is nothing to do
    int64 n;
    double scale;
    int common;
};

struct PackedLists {
    const int* feature;               // of each piece of a list of CudaLists
    const int64 *first, *to;          // first piece of each list; entries of each slab and piece, (slabs + 1, pieces)
    const uint32* entries;
    const float* dense;               // (n,)
    const double* unit;               // of the sums, (1,)
    uint64* sums;                     // (n_features,), fixed point
    const int* open;
    int64 n, pieces;
    double scale;
    int slabs, size, common;          // slabs of `size` rows
};

__device__ __forceinline__ float value_of(uint32 entry)
{
    float value;
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high;}" : "=f"(value) : "r"(entry));
    return value;
}

__device__ __forceinline__ uint32 half_of(float value)
{
    uint16 half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}

// The sum of every `step`-th of the next `left` entries times the table.
__device__ __forceinline__ float sum_of(const uint32* entries, int left, int step)
{
    float sum = 0;
    for (; left > 0; left -= AHEAD * step, entries += AHEAD * step) {
        uint32 some[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) some[i] = i * step < left ? __ldg(entries + i * step) : 0;
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) sum += value_of(some[i]) * table[some[i] & 0xffff];
    }
    return sum;
}

// The sum of every WARP-th of the next `left` entries times `dense`.
__device__ __forceinline__ float sum_of_rare(const uint64* rare, int left, const float* dense)
{
    float sum = 0;
    for (; left > 0; left -= AHEAD / 2 * WARP, rare += AHEAD / 2 * WARP) {
        uint64 some[AHEAD / 2];
#pragma unroll
        for (int i = 0; i < AHEAD / 2; ++i) some[i] = i * WARP < left ? __ldg(rare + i * WARP) : 0;
#pragma unroll
        for (int i = 0; i < AHEAD / 2; ++i)
            sum += __uint_as_float((uint32)(some[i] >> 32)) * __ldg(dense + (uint32)some[i]);
    }
    return sum;
}

__device__ __forceinline__ void fill_table(const float* from, int size)
{
    for (int k = threadIdx.x; k < size; k += THREADS) table[k] = __ldg(from + k);
    __syncthreads();
}

// A warp a row.
extern "C" __global__ void __launch_bounds__(THREADS, 1) packed_pass(const __grid_constant__ PackedRows t)
{
    if (!*t.open) return;
    fill_table(t.dense, t.common);
    int lane = threadIdx.x % WARP;
    int64 step = (int64)gridDim.x * (THREADS / WARP), row = blockIdx.x + (int64)gridDim.x * (threadIdx.x / WARP);
    for (; row < t.n; row += step) {
        int64 begin = __ldg(t.begin + row), rare = __ldg(t.rare_begin + row);
        int left = (int)(__ldg(t.begin + row + 1) - begin), left_rare = (int)(__ldg(t.rare_begin + row + 1) - rare);
        double whole = sum_of_rare(t.rare + rare + lane, left_rare - lane, t.dense);
        whole += sum_of(t.entries + begin + lane, left - lane, WARP);
        for (int other = WARP / 2; other; other /= 2) whole += __shfl_xor_sync(FULL_WARP, whole, other);
        if (!lane) {
            double value = (whole * t.scale + *t.shift) * t.factor[row];
            t.out[row] = value;
            t.rounded[row] = (float)value;
        }
    }
}

// Add the entries of a slab in the pieces first..last, `step` threads a piece.
__device__ __forceinline__ void add_pieces(const PackedLists& t, int slab, int64 first, int64 last, int step)
{
    int64 groups = (int64)(gridDim.x / t.slabs) * (THREADS / step);
    int64 group = (int64)(blockIdx.x / t.slabs) * (THREADS / step) + threadIdx.x / step;
    int lane = threadIdx.x % step;
    double unit = *t.unit * t.scale;
    const int64* to = t.to + slab * t.pieces;
    for (int64 some = first; some < last; some += groups) {  // the same number of times in all threads
        int64 piece = some + group;
        int64 begin = piece < last ? __ldg(to + piece) : 0;
        int left = piece < last ? (int)(__ldg(to + t.pieces + piece) - begin) : 0;
        int64 sum = __double2ll_rn(sum_of(t.entries + begin + lane, left - lane, step) * unit);
        for (int other = step / 2; other; other /= 2) sum += __shfl_xor_sync(FULL_WARP, sum, other);
        if (!lane && sum) atomicAdd(t.sums + __ldg(t.feature + piece), (uint64)sum);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) packed_sums(const __grid_constant__ PackedLists t)
{
    if (!*t.open) return;
    int slab = blockIdx.x % t.slabs;
    int64 begin = (int64)slab * t.size, common = __ldg(t.first + t.common);
    fill_table(t.dense + begin, (int)min((int64)t.size, t.n - begin));
    add_pieces(t, slab, 0, common, WARP);
    add_pieces(t, slab, common, t.pieces, FEW);
}

// Count the entries of common features of each row, a warp a row.
extern "C" __global__ void count_common(int64 n, int common, const int64* index, const int64* indptr,
                                        const int* features, int64* numbers)
{
    int64 i = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (i >= n) return;
    int number = 0;
    int64 end = indptr[index[i] + 1];
#pragma unroll 8
    for (int64 k = indptr[index[i]] + threadIdx.x % WARP; k < end; k += WARP) number += __ldg(features + k) < common;
    for (int step = WARP / 2; step; step /= 2) number += __shfl_xor_sync(FULL_WARP, number, step);
    if (threadIdx.x % WARP == 0) numbers[i] = number;
}

// Pack the rows, a warp a row; values are divided by a scale.
extern "C" __global__ void pack_rows(int64 n, int common, float per_scale, const int64* index, const int64* indptr,
                                     const int* features, const float* values, const int64* begin,
                                     const int64* rare_begin, uint32* entries, uint64* rare)
{
    int64 i = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (i >= n) return;
    int lane = threadIdx.x % WARP;
    int64 end = indptr[index[i] + 1], at = begin[i], rare_at = rare_begin[i];
#pragma unroll 4
    for (int64 first = indptr[index[i]]; first < end; first += WARP) {
        bool is_entry = first + lane < end;
        int feature = is_entry ? __ldg(features + first + lane) : 0;
        uint32 half = half_of(is_entry ? __ldg(values + first + lane) * per_scale : 0), before = (1u << lane) - 1;
        uint32 of_common = __ballot_sync(FULL_WARP, is_entry && feature < common);
        uint32 of_rare = __ballot_sync(FULL_WARP, is_entry && feature >= common);
        if (of_common >> lane & 1) entries[at + __popc(of_common & before)] = half << 16 | feature;
        if (of_rare >> lane & 1)
            rare[rare_at + __popc(of_rare & before)] =
                (uint64)__float_as_uint(value_of(half << 16)) << 32 | (uint32)feature;
        at += __popc(of_common);
        rare_at += __popc(of_rare);
    }
}

// The entries of marked rows in the lists of CudaLists, packed, a warp a piece. They stay in the place of the piece, from
// its beginning on, so that they need not be counted before; as rows ascend, so do slabs, which begin at to[slab, piece].
extern "C" __global__ void pack_lists(int64 n, const int64* begin, const int* rows, const float* values,
                                      const uint64* marks, int slabs, int size, float per_scale, int64* to,
                                      uint32* entries)
{
    int64 piece = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (piece >= n) return;
    int64 at = begin[piece], end = begin[piece + 1];
    int lane = threadIdx.x % WARP, slab = 0;
    if (!lane) to[piece] = at;
    for (int64 k = at + lane; __any_sync(FULL_WARP, k < end); k += ROUND * WARP) {
        int row[ROUND];
        float value[ROUND];
#pragma unroll
        for (int i = 0; i < ROUND; ++i) row[i] = k + i * WARP < end ? __ldg(rows + k + i * WARP) : -1;
#pragma unroll
        for (int i = 0; i < ROUND; ++i) value[i] = k + i * WARP < end ? __ldg(values + k + i * WARP) : 0;
#pragma unroll
        for (int i = 0; i < ROUND; ++i) row[i] = row[i] >= 0 ? marked_number(marks, row[i]) : -1;
#pragma unroll
        for (int i = 0; i < ROUND; ++i) {
            uint32 kept = __ballot_sync(FULL_WARP, row[i] >= 0);
            while (slab + 1 < slabs) {
                uint32 before = __ballot_sync(FULL_WARP, row[i] >= 0 && row[i] < (slab + 1) * size);
                if (before == kept) break;
                ++slab;
                if (!lane) to[slab * n + piece] = at + __popc(before);
            }
            if (row[i] >= 0)
                entries[at + __popc(kept & ((1u << lane) - 1))] = half_of(value[i] * per_scale) << 16 | row[i] % size;
            at += __popc(kept);
        }
    }
    for (slab += 1 + lane; slab <= slabs; slab += WARP) to[slab * n + piece] = at;
}

// Without lists: how many entries of these rows each slab of each piece has, a warp a row. A piece is found by its first
// row, which is a number of X, not of the packed rows.
extern "C" __global__ void count_pieces(int64 n, const int64* index, const int64* indptr, const int* features,
                                        const int64* first_pieces, const int* first_rows, int slabs, int size,
                                        int* numbers)
{
    int64 i = ((int64)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (i >= n) return;
    int64 row = index[i], end = indptr[row + 1];
    for (int64 k = indptr[row] + threadIdx.x % WARP; k < end; k += WARP) {
        int feature = __ldg(features + k);
        int64 low = __ldg(first_pieces + feature), high = __ldg(first_pieces + feature + 1) - 1;
        while (low < high) {
            int64 middle = (low + high + 1) / 2;
            if (__ldg(first_rows + middle) <= row) low = middle; else high = middle - 1;
        }
        atomicAdd(numbers + low * slabs + i / size, 1);
    }
}

// Entries of sorted_parts of rows_cuda.py, packed, in their place.
extern "C" __global__ void place_packed(int64 n, const uint64* keys, const int64* begins, const int64* cursor,
                                        const int* owner, const float* values, int size, float per_scale,
                                        uint32* entries)
{
    EACH(k, n);
    uint64 feature = keys[k] >> 32, source = keys[k] & 0xffffffffu;
    entries[cursor[feature] + k - begins[feature]] = half_of(values[source] * per_scale) << 16 | owner[source] % size;
}
