// Gap-weighted subsequences. The mathematics: textsvm/kernels/gap/recurrence.py; without decays of rows, and the
// layout: gap/cuda.py.
//
// LEVELS p - 1; COLUMNS of a lane; REAL float or double; BLEND 1 if subsequences may begin at any level; MASKS 1
// if matches are looked up, 0 if they are compared; BLOCKS of 128 threads that a multiprocessor must have registers
// for, SEVERAL_BLOCKS in gap_several; TOGETHER rows of an unrolled loop; SHARED lengths beside p, the next smaller
// ones, that are summed too; CODE the type of codes; SHARDS 1 if the matrix is in shards.

#ifndef LEVELS
#define LEVELS 4
#define COLUMNS 25
#define REAL float
#define BLEND 0
#define MASKS 1
#define BLOCKS 3
#define SEVERAL_BLOCKS 3
#define TOGETHER 4
#endif
#ifndef SHARED
#define SHARED 0
#endif
#ifndef CODE
#define CODE uint16
#endif
#ifndef SHARDS
#define SHARDS 0
#endif
#define LENGTHS (1 + SHARED)
#define LEAST (LEVELS - SHARED) // the level that the smallest of them reads

#define WORDS (MASKS ? (COLUMNS + 27) / 28 : 1)
#define PERIOD 64 // most rows between scalings
#define STORED (LEVELS > 0 ? LEVELS : 1)
#define PER_LOAD (16 / (int)sizeof(REAL))
#define PADDED ((STORED + PER_LOAD - 1) / PER_LOAD * PER_LOAD)

// What a lane has:
#define LEFT 1 // a left neighbour of the same document
#define LAST 2 // the document's last columns

// Powers of the decay and the scaled level weights; set before a launch.
struct Weights {
    REAL rows[PERIOD][2]; // decay^k; decay^-k, without BLEND times the only level weight
    REAL edges[PERIOD];   // decay^(1 - k)
    REAL levels[LEVELS + 1];
    REAL decay, inverse, wrap; // decay, decay^-1, decay^period
    double out[LENGTHS];       // factors from the scaled sums to those of the recurrence
};

struct Task {
    int first_strip, strips;   // of 32 lanes
    int first_source, sources; // positions in the stream's order
    int64 begin;               // first symbol in the stream
    int rows;                  // symbols
    int part;                  // which partial sums this task adds to
};

struct Lane {
    int target; // position of the document in the targets' order, -1 for none
    int length; // columns that are used
    int64 code; // of the first column
    int delay;  // steps behind the document's first lane in this strip
    int flags;
};

struct alignas(16) Edge {
    REAL left[PADDED];
};

// sum += x * y, or sum += x, where a and b say so (HIT): predicated instructions that overwrite the sum in place. Left
// to itself, the compiler may keep both the old and the new sum and select, which costs a third of the speed.
#if MASKS
#define WHERE "{.reg .pred p; setp.ne.u32 p, %2, %3; @p "
#else
#define WHERE "{.reg .pred p; setp.eq.u32 p, %2, %3; @p "
#endif
__device__ __forceinline__ void add_where(uint32 a, uint32 b, float& sum, float x) {
    asm(WHERE "add.ftz.f32 %0, %0, %1;}" : "+f"(sum) : "f"(x), "r"(a), "r"(b));
}
__device__ __forceinline__ void add_where(uint32 a, uint32 b, float& sum, float x, float y) {
    asm(WHERE "fma.rn.ftz.f32 %0, %1, %4, %0;}" : "+f"(sum) : "f"(x), "r"(a), "r"(b), "f"(y));
}
// A predicated addition of doubles would be an addition and two selections: they multiply by 0 where nothing matches.
__device__ __forceinline__ void add_where(uint32 a, uint32 b, double& sum, double x, double y) {
    sum = fma((MASKS ? a != b : a == b) ? y : 0, x, sum);
}
__device__ __forceinline__ void add_where(uint32 a, uint32 b, double& sum, double x) { add_where(a, b, sum, x, 1); }

// Sum of REALs over rows. With TWO_FLOATS, for cards with few float64 units, it is high + low: TwoSum (Knuth) adds what
// rounding takes from `high` to `low`, which is good for about 48 bits.
#ifdef TWO_FLOATS
struct Sum {
    float high, low;
};
__device__ __forceinline__ void add(Sum& sum, float x) {
    float high = __fadd_rn(sum.high, x), part = __fsub_rn(high, sum.high);
    float lost = __fadd_rn(__fsub_rn(sum.high, __fsub_rn(high, part)), __fsub_rn(x, part));
    sum.high = high, sum.low = __fadd_rn(sum.low, lost);
}
__device__ __forceinline__ double value_of(const Sum& sum) { return (double)sum.high + sum.low; }
#else
typedef double Sum;
__device__ __forceinline__ void add(Sum& sum, REAL x) { sum += (double)x; }
__device__ __forceinline__ double value_of(Sum sum) { return sum; }
#endif

// Destinations of the sum of a pair.
#define MATRIX 0
#define MIRRORED 1 // of every pair once, written twice
#define WEIGHTED 2 // sums over the sources
#define DIAGONAL 3
#define FORWARD 4  // pairs whose source comes first, into rows of sources
#define TURNED 5   // the same pairs, into rows of targets
struct Output {
    int mode, classes;
    int64 width;                            // of the matrix
    const int *source_index, *target_index; // position -> document
    const double *source_scale, *target_scale;
    const int *source_place, *target_place; // FORWARD, TURNED: position -> place in the order of all documents
    double smallest;                        // smaller values are 0
    float* matrix;
    const double* coef; // (sources, classes)
    double* sums;       // (parts, targets, classes), or (LENGTHS, targets) of the diagonal
    int64 targets;
    // Of several kernels that are sums of the lengths; sources and targets are then the same.
    int64 kernels;
    const double* mix;      // (kernels, LENGTHS)
    float* const* matrices; // (kernels,)
    const double* scales;   // (kernels, targets)
    // With SHARDS the matrix is in shards of columns on several cards: where they are, their first columns and the end.
    float* const* shards;
    const int64* firsts;
};

extern "C" {
__constant__ Weights weights;
__constant__ Output output;
}

#if SHARED
// The diagonal, or every pair once, written twice.
__device__ void put(int source, int target, const double* values, int part) {
    const Output& o = output;
    if (o.mode == DIAGONAL) {
        for (int w = 0; source == target && w < LENGTHS; w++) o.sums[w * o.targets + target] = values[w];
    } else if (source <= target) {
        int64 i = o.source_index[source], j = o.target_index[target];
        for (int k = 0; k < o.kernels; k++) {
            double value = 0;
#pragma unroll
            for (int w = 0; w < LENGTHS; w++) value += o.mix[k * LENGTHS + w] * values[w];
            const double* scale = o.scales + k * o.targets;
            o.matrices[k][i * o.width + j] = o.matrices[k][j * o.width + i] = value * scale[source] * scale[target];
        }
    }
}
#else
#if SHARDS
__device__ void put_in_shard(int64 i, int64 j, float value) {
    const int64* first = output.firsts;
    int s = 0;
    while (j >= first[s + 1]) s++;
    output.shards[s][i * (first[s + 1] - first[s]) + j - first[s]] = value;
}
#endif

__device__ void put(int source, int target, const double* values, int part) {
    const Output& o = output;
    const double value = *values;
    if (o.mode == DIAGONAL) {
        if (source == target) o.sums[target] = value;
    } else if (o.mode == WEIGHTED) {
        double* sum = o.sums + (part * o.targets + target) * o.classes;
        for (int k = 0; k < o.classes; k++) sum[k] += o.coef[(int64)source * o.classes + k] * value;
    } else if (o.mode == MATRIX || (o.mode == MIRRORED ? source <= target
                                                       : o.source_place[source] <= o.target_place[target])) {
        double exact = value * o.source_scale[source] * o.target_scale[target];
        float scaled = exact < o.smallest ? 0 : (float)exact;
        int64 i = o.source_index[source], j = o.target_index[target];
#if SHARDS
        put_in_shard(i, j, scaled);
        put_in_shard(j, i, scaled);
#else
        if (o.mode != TURNED) o.matrix[i * o.width + j] = scaled;
        if (o.mode == MIRRORED || o.mode == TURNED) o.matrix[j * o.width + i] = scaled;
#endif
    }
}
#endif

// One lane's columns as masks for each symbol: bits 0-6 of each byte, a byte for 7 columns, `words` words.
extern "C" __global__ void gap_masks(const Lane* lanes, int n, const CODE* codes, int symbols, int words,
                                     uint32* masks) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint32* mine = masks + (int64)(i / WARP) * symbols * words * WARP + i % WARP;
    for (int c = 0; c < lanes[i].length; c++) {
        const int code = codes[lanes[i].code + c];
        if (code < symbols - 1) mine[(code * words + c / 28) * WARP] |= 1u << (c % 28 / 7 * 8 + c % 7);
    }
}

// Documents one after the other, a block each; a symbol that no target has becomes `nothing`, the last one.
extern "C" __global__ void gap_stream(const CODE* codes, const int64* from, const int64* to, int nothing,
                                      uint32* stream) {
    const int64 start = to[blockIdx.x], length = to[blockIdx.x + 1] - start;
    for (int64 i = threadIdx.x; i < length; i += blockDim.x)
        stream[start + i] = min((int)codes[from[blockIdx.x] + i], nothing);
}

// In a register from here on: through a shuffle, the compiler cannot compute or load it again where it is used.
template <class T> __device__ __forceinline__ T kept(T x) { return __shfl_sync(FULL_WARP, x, threadIdx.x % WARP); }

__device__ __forceinline__ int least_of_warp(int x) {
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(FULL_WARP, x);
#else
    for (int i = WARP / 2; i > 0; i /= 2) x = min(x, __shfl_xor_sync(FULL_WARP, x, i));
    return x;
#endif
}

// What a row's symbol matches: masks of the lane's columns, or the symbol beside those of the columns.
#if MASKS
#define MATCHES const uint32 (&match)[WORDS]
#define HITS match
#define HIT(c) match[(c) / 28] & (1u << ((c) % 28 / 7 * 8 + (c) % 7)), 0
#else
#define MATCHES const uint32 (&match)[WORDS], const uint32 (&column)[COLUMNS]
#define HITS match, column
#define HIT(c) match[0], column[c]
#endif

// What begins in a row at level q.
#define BEGINS(q) (BLEND ? weights.levels[q] * row_in : row_in)

// One row of the recurrence over a lane's columns: C are the sums over each column, of the rows above; `left` are those
// over all columns to the left, with decays. They come in from the lane to the left and are multiplied by `scale`.
// `found` is what ends in the row. The highest level first: each reads what the row above left in the level below.
__device__ __forceinline__ void next_row(REAL (&C)[STORED][COLUMNS], REAL (&left)[STORED], REAL (&found)[LENGTHS],
                                         MATCHES, REAL decay, REAL scale, REAL decay_scale, REAL row_in) {
#pragma unroll
    for (int w = 0; w < LENGTHS; w++) found[w] = 0;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
#pragma unroll
        for (int q = LEVELS; q >= 0; q--) {
            if (q < LEVELS) left[q] = left[q] * (c == 0 ? decay_scale : decay) + C[q][c];
            REAL& sum = q < LEVELS ? C[q][c] : found[SHARED];
            if (q > 0 && c == 0) add_where(HIT(c), sum, left[q - 1], scale);
            if (q > 0 && c > 0) add_where(HIT(c), sum, left[q - 1]);
            if (q == 0 || BLEND) add_where(HIT(c), sum, BEGINS(q));
            if (q >= LEAST && q < LEVELS) {
                REAL& shorter = found[q - LEAST];
                if (q > 0 && c == 0) add_where(HIT(c), shorter, left[q - 1], scale);
                if (q > 0 && c > 0) add_where(HIT(c), shorter, left[q - 1]);
                if (q == 0) add_where(HIT(c), shorter, BEGINS(0));
            }
        }
    }
}

// The sources of a task against the 32 lanes of one of its (one or SEVERAL) strips. A lane hands on the sum over its
// and all columns to the left. Sums of rows are added in float64: through thousands of rows and lanes, floats would
// gather errors, and where a float32 sum is interrupted would depend on the pairs beside it. Products with a decay that
// is a power of two are exact; a value is then independent of the pairs beside it.
template <bool SEVERAL>
__device__ __forceinline__ void compare(
    const Task task, int strip, const uint32* __restrict__ stream, const int64* __restrict__ starts, const Lane* lanes,
    const uint32* __restrict__ masks, const CODE* __restrict__ codes, int symbols, int period, Edge* edges,
    uint32 edges_at, double* carries, int64 most_sources) {
    const int lane = threadIdx.x % WARP;
    const Lane mine = lanes[(task.first_strip + strip) * WARP + lane];
    const bool first = !(mine.flags & LEFT), last = mine.flags & LAST;
    const bool reads = SEVERAL && lane == 0 && !first;
    const bool writes = SEVERAL && lane == WARP - 1 && mine.target >= 0 && !last;
    // What a strip writes is not what it still reads: they take turns.
    // WARP rows before and after are there too, so that a lane may go past the end.
    const Edge* edge_in = edges + edges_at + 2 * WARP + (strip & 1);
    Edge* edge_out = edges + edges_at + 2 * WARP + (~strip & 1) - 2 * mine.delay;
    const double* carry_in = carries + (strip & 1) * most_sources - task.first_source * LENGTHS;
    double* carry_out = carries + (~strip & 1) * most_sources - task.first_source * LENGTHS;
#if MASKS
    const char* table =
        (const char*)kept((int64)(masks + (int64)(task.first_strip + strip) * symbols * WORDS * WARP + lane));
#define MATCH(symbol, w) __ldg((const uint32*)(table + (uint64)(symbol) * (WORDS * WARP * 4)) + (w) * WARP)
#else
    uint32 column[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        column[c] = c < mine.length ? codes[mine.code + c] : ~0u;
        if (column[c] >= symbols - 1) column[c] = ~0u;
    }
#define MATCH(symbol, w) (symbol)
#endif
    REAL C[STORED][COLUMNS], left[STORED];
    double sum[LENGTHS] = {};
    Sum total[LENGTHS] = {};
#pragma unroll
    for (int q = 0; q < STORED; q++) left[q] = 0;
#pragma unroll
    for (int q = 0; q < STORED; q++)
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) C[q][c] = 0;
    // Rows of the lane to the left are a step older.
    const REAL decay = kept(weights.decay), scale = kept(first ? (REAL)0 : weights.inverse);
    const REAL decay_scale = kept(first ? (REAL)0 : (REAL)1);
    // A lane first processes `delay` symbols before its task; C is cleared afterwards.
    int source = task.first_source - (mine.delay > 0), phase = 0;
    const int end = task.first_source + task.sources;
    int remaining = mine.delay > 0 ? mine.delay : (int)(starts[source + 1] - starts[source]);
    const uint32* ahead = stream + task.begin - mine.delay;
    uint32 symbol = __ldg(ahead + 1);
    uint32 match[WORDS], match_next[WORDS];
#pragma unroll
    for (int w = 0; w < WORDS; w++) match[w] = MATCH(__ldg(ahead), w);
    ahead = (const uint32*)kept((int64)(ahead + 2));
    Edge edge;
    if (reads) edge = *edge_in;

    for (int steps = task.rows + WARP - 1; steps > 0;) {
        // Up to the next row that ends a source for a lane, or a period.
        const int rows = min(min(least_of_warp(remaining), period - phase), steps);
        steps -= rows;
        remaining -= rows;
        constexpr int together = TOGETHER;
#pragma unroll together
        for (int i = 0; i < rows; i++) {
#pragma unroll
            for (int w = 0; w < WORDS; w++) match_next[w] = MATCH(symbol, w);
            symbol = __ldg(ahead++);
            const REAL row_out = weights.rows[phase][0], row_in = weights.rows[phase][1];
#pragma unroll
            for (int q = 0; q < LEVELS; q++) left[q] = __shfl_up_sync(FULL_WARP, left[q], 1);
            if (reads) {
#pragma unroll
                for (int q = 0; q < LEVELS; q++) left[q] = edge.left[q] * weights.edges[phase];
                edge = *(edge_in += 2);
            }
            REAL found[LENGTHS];
            next_row(C, left, found, HITS, decay, scale, decay_scale, row_in);
#pragma unroll
            for (int w = 0; w < LENGTHS; w++) add(total[w], row_out * found[w]);
            if (writes) {
                Edge out;
#pragma unroll
                for (int q = 0; q < PADDED; q++) out.left[q] = q < LEVELS ? left[q] * row_out : (REAL)0;
                *edge_out = out;
                edge_out += 2;
            }
            phase++;
#pragma unroll
            for (int w = 0; w < WORDS; w++) match[w] = match_next[w];
        }
        double carry[LENGTHS];
#pragma unroll
        for (int w = 0; w < LENGTHS; w++) carry[w] = __shfl_up_sync(FULL_WARP, sum[w], 1);
        if (remaining == 0) {
            if (source >= task.first_source && source < end) {
                double values[LENGTHS];
#pragma unroll
                for (int w = 0; w < LENGTHS; w++) {
                    double value = value_of(total[w]);
                    if (!first) value += reads ? carry_in[source * LENGTHS + w] : carry[w];
                    sum[w] = value;
                    if (writes) carry_out[source * LENGTHS + w] = value;
                    values[w] = value * weights.out[w];
                }
                if (last) put(source, mine.target, values, task.part);
            }
            source++;
            remaining = source < end ? (int)(starts[source + 1] - starts[source]) : 0x7fffffff;
#pragma unroll
            for (int w = 0; w < LENGTHS; w++) total[w] = Sum();
#pragma unroll
            for (int q = 0; q < LEVELS; q++)
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) C[q][c] = 0;
        }
        if (phase == period) {
            phase = 0;
#pragma unroll
            for (int q = 0; q < LEVELS; q++) {
                left[q] *= weights.wrap;
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) C[q][c] *= weights.wrap;
            }
        }
    }
    __syncwarp();
}

// Warps take tasks in turn.
__device__ __forceinline__ int take(int* taken) {
    return __shfl_sync(FULL_WARP, threadIdx.x % WARP == 0 ? atomicAdd(taken, 1) : 0, 0);
}

// Tasks of a single strip.
extern "C" __global__ void __launch_bounds__(128, BLOCKS) gap(
    const Task* tasks, int n_tasks, int* taken, const uint32* __restrict__ stream, const int64* __restrict__ starts,
    const Lane* lanes, const uint32* __restrict__ masks, const CODE* __restrict__ codes, int symbols, int period) {
    for (int index; (index = take(taken)) < n_tasks;)
        compare<false>(tasks[index], 0, stream, starts, lanes, masks, codes, symbols, period, nullptr, 0, nullptr, 0);
}

// Tasks of several strips. Each warp has 2 * `most_rows` of the `edges` and 2 * `most_sources` of the `carries`,
// LENGTHS a source, which pass values from strip to strip.
extern "C" __global__ void __launch_bounds__(128, SEVERAL_BLOCKS) gap_several(
    const Task* tasks, int n_tasks, int* taken, const uint32* __restrict__ stream, const int64* __restrict__ starts,
    const Lane* lanes, const uint32* __restrict__ masks, const CODE* __restrict__ codes, int symbols, int period,
    Edge* edges, int most_rows, double* carries, int64 most_sources) {
    const int warp = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    for (int index; (index = take(taken)) < n_tasks;)
        for (int strip = 0; strip < tasks[index].strips; strip++)
            compare<true>(tasks[index], strip, stream, starts, lanes, masks, codes, symbols, period, edges,
                          2u * warp * most_rows, carries + 2 * warp * most_sources, most_sources);
}
