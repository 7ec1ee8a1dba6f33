// Gap-weighted subsequences. The mathematics: textsvm/kernels/gap/recurrence.py; without decays, and the layout: gap/cuda.py.
//
// LEVELS p - 1; COLUMNS of a lane; BLOCK columns that share a base; REAL float or double; BLEND 1 if
// subsequences may begin at any level; MASKS 1 if matches are looked up, 0 if they are compared; BLOCKS of 128
// threads that a multiprocessor must have registers for; TOGETHER steps of a loop; SHARED lengths beside p, the
// next smaller ones, that are summed too; CODE the type of codes; SHARDS 1 if the matrix is in shards.

#ifndef LEVELS
#define LEVELS 4
#define COLUMNS 25
#define BLOCK 25
#define REAL float
#define BLEND 0
#define MASKS 1
#define BLOCKS 3
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
#define STORED (LEVELS > 0 ? LEVELS : 1)
#define PER_LOAD (16 / (int)sizeof(REAL))
#define PADDED ((STORED + PER_LOAD - 1) / PER_LOAD * PER_LOAD)

// A word of the stream: the symbol's number * 128, and
#define ENDS 1u // in the last symbol of a document
// What a lane has:
#define LEFT 1 // a left neighbour of the same document
#define LAST 2 // the document's last columns

// Powers of the decay and the scaled level weights; set before a launch.
struct Weights {
    REAL rows[WARP][2];                       // decay^k, decay^-k
    REAL column_out[BLOCK], column_in[BLOCK]; // decay^c, decay^-c, c counted within a block
    REAL levels[LEVELS + 1];
    REAL step, edge, block, wrap; // decay^(width - 1) and ^width of a lane's last block, ^BLOCK, ^period
    double out[LENGTHS];          // what makes a sum of these the sum of the recurrence
};

struct Task {
    int first_strip, strips;   // of 32 lanes
    int first_source, sources; // positions in the stream's order
    int64 begin;               // first word in the stream
    int rows;                  // words
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
    REAL r[PADDED];
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
__device__ __forceinline__ void add_where(uint32 a, uint32 b, double& sum, double x) {
    asm(WHERE "add.f64 %0, %0, %1;}" : "+d"(sum) : "d"(x), "r"(a), "r"(b));
}
__device__ __forceinline__ void add_where(uint32 a, uint32 b, double& sum, double x, double y) {
    asm(WHERE "fma.rn.f64 %0, %1, %4, %0;}" : "+d"(sum) : "d"(x), "r"(a), "r"(b), "d"(y));
}

// What becomes of the sum of a pair.
#define MATRIX 0
#define MIRRORED 1 // of every pair once, written twice
#define WEIGHTED 2 // sums over the sources
#define DIAGONAL 3
#define FORWARD 4  // of pairs whose source comes first: rows of sources,
#define TURNED 5   // or of targets
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
        stream[start + i] = min((int)codes[from[blockIdx.x] + i], nothing) * 128u + (i == length - 1 ? ENDS : 0);
}

// In a register from here on: through a shuffle, the compiler cannot compute or load it again where it is used.
template <class T> __device__ __forceinline__ T kept(T x) { return __shfl_sync(FULL_WARP, x, threadIdx.x % WARP); }

// P as the next column sees it, which has another base where a block ends.
#define ABOVE(q, c) ((c) % BLOCK == BLOCK - 1 ? P[q][c] * weights.block : P[q][c])

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

// One row of the recurrence over a lane's columns: r from the left, `before` of the row above; `found` is what ends in it.
// The highest level first: each reads what the row above left in the level below.
__device__ __forceinline__ void next_row(REAL (&P)[STORED][COLUMNS], REAL (&r)[STORED], REAL (&before)[STORED + 1],
                                         REAL (&found)[LENGTHS], MATCHES, const REAL (&column_in)[BLOCK],
                                         const REAL (&column_out)[BLOCK], REAL row_in) {
#pragma unroll
    for (int w = 0; w < LENGTHS; w++) found[w] = 0;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        if (LEVELS > 0) add_where(HIT(c), found[SHARED], before[STORED - 1], column_out[c % BLOCK]);
        if (LEVELS == 0 || BLEND) add_where(HIT(c), found[SHARED], weights.levels[LEVELS] * row_in);
        if (LEVELS > 0) before[STORED - 1] = ABOVE(STORED - 1, c);
    }
#pragma unroll
    for (int q = LEVELS - 1; q >= 0; q--) {
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            if (c > 0 && c % BLOCK == 0) r[q] *= weights.block;
            if (q > 0) add_where(HIT(c), r[q], before[q - 1]);
            if (q == 0 || BLEND) add_where(HIT(c), r[q], weights.levels[q] * row_in, column_in[c % BLOCK]);
            if (q > 0 && q >= LEAST) add_where(HIT(c), found[q - LEAST], before[q - 1], column_out[c % BLOCK]);
            if (q == 0 && LEAST == 0) add_where(HIT(c), found[0], weights.levels[0] * row_in);
            if (q > 0) before[q - 1] = ABOVE(q - 1, c);
            P[q][c] += r[q];
        }
    }
}

// P and its corner times a factor; 0 is no factor but clears them.
template <bool CLEAR>
__device__ __forceinline__ void scale(REAL (&P)[STORED][COLUMNS], REAL (&corner)[STORED], REAL factor) {
#pragma unroll
    for (int q = 0; q < LEVELS; q++) {
        corner[q] = CLEAR ? (REAL)0 : corner[q] * factor;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) P[q][c] = CLEAR ? (REAL)0 : P[q][c] * factor;
    }
}

// The sources of a task against the 32 lanes of one of its (one or SEVERAL) strips. A lane hands on the sum over its
// and all columns to the left: through thousands of lanes, floats would gather errors. A value does not depend on
// the pairs beside it if the decay is a power of two, times which numbers are exact: partial sums end after the same
// rows of each source.
template <bool SEVERAL>
__device__ __forceinline__ void compare(
    const Task task, int strip, const uint32* __restrict__ stream, const Lane* lanes,
    const uint32* __restrict__ masks, const CODE* __restrict__ codes, int symbols, int period,
    const Weights* columns, Edge* edges, uint32 edges_at, double* carries, int64 most_sources) {
    const int lane = threadIdx.x % WARP;
    const Lane mine = lanes[(task.first_strip + strip) * WARP + lane];
    const bool left = mine.flags & LEFT, last = mine.flags & LAST;
    const bool reads = SEVERAL && lane == 0 && left;
    const bool writes = SEVERAL && lane == WARP - 1 && mine.target >= 0 && !last;
    // What a strip writes is not what it still reads: they take turns.
    // WARP rows before and after are there too, so that a lane may go past the end.
    const uint32 edge_in = kept(edges_at + 2 * WARP + (strip & 1)), edge_out = edge_in ^ 1;
    const double* carry_in = carries + (strip & 1) * most_sources - task.first_source * LENGTHS;
    double* carry_out = carries + (~strip & 1) * most_sources - task.first_source * LENGTHS;
    const uint32* word_at = stream + task.begin;
    const uint32 nothing = (symbols - 1) * 128u;
#if MASKS
    const char* table =
        (const char*)kept((int64)(masks + (int64)(task.first_strip + strip) * symbols * WORDS * WARP + lane));
#define MATCH(word, w) __ldg((const uint32*)(table + ((word) & ~127u) * WORDS) + (w) * WARP)
#else
    uint32 column[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        column[c] = c < mine.length ? codes[mine.code + c] : ~0u;
        if (column[c] >= symbols - 1) column[c] = ~0u;
    }
#define MATCH(word, w) ((word) / 128)
#endif
    REAL P[STORED][COLUMNS], corner[STORED], r[STORED], part[LENGTHS];
    double sum[LENGTHS], total[LENGTHS];
#pragma unroll
    for (int w = 0; w < LENGTHS; w++) part[w] = sum[w] = total[w] = 0;
#pragma unroll
    for (int q = 0; q < STORED; q++) r[q] = corner[q] = 0;
    scale<true>(P, corner, 0);
    const REAL step = kept(left && lane > 0 ? weights.step : (REAL)0);
    // `columns` is the address of `weights`: by way of constant memory, each use would be an instruction more.
    REAL column_in[BLOCK], column_out[BLOCK];
#pragma unroll
    for (int c = 0; c < BLOCK; c++) column_in[c] = columns->column_in[c], column_out[c] = columns->column_out[c];
    int source = task.first_source, phase = 0, summed = -mine.delay; // rows of this source in `part`, modulo WARP
    unsigned row = -mine.delay;
    const unsigned rows = task.rows;
    uint32 word = row < rows ? word_at[row] : nothing, next = row + 1 < rows ? word_at[row + 1] : nothing;
    uint32 match[WORDS], match_next[WORDS];
#pragma unroll
    for (int w = 0; w < WORDS; w++) match[w] = MATCH(word, w);
    const uint32* ahead = (const uint32*)kept((int64)(word_at + 2 - mine.delay));
    Edge edge;
    if (reads) edge = edges[edge_in];

    constexpr int together = TOGETHER;
#pragma unroll together
    for (int steps = task.rows + WARP - 1; steps > 0; steps--) {
#pragma unroll
        for (int w = 0; w < WORDS; w++) match_next[w] = MATCH(next, w);
        uint32 later = nothing;
        if (row + 2 < rows) later = __ldg(ahead);
        ahead++;
        const REAL row_out = weights.rows[phase][0], row_in = weights.rows[phase][1];
        double carry[LENGTHS];
#pragma unroll
        for (int w = 0; w < LENGTHS; w++) carry[w] = __shfl_up_sync(FULL_WARP, sum[w], 1);
        REAL before[STORED + 1];
#pragma unroll
        for (int q = 0; q < LEVELS; q++) r[q] = __shfl_up_sync(FULL_WARP, r[q], 1) * step;
        if (reads) {
#pragma unroll
            for (int q = 0; q < LEVELS; q++) r[q] = edge.r[q] * (weights.edge * row_in);
            edge = edges[edge_in + 2 * (row + 1)];
        }
#pragma unroll
        for (int q = 0; q < LEVELS; q++) {
            before[q] = corner[q];
            corner[q] += r[q];
        }
        REAL found[LENGTHS];
        next_row(P, r, before, found, HITS, column_in, column_out, row_in);
#pragma unroll
        for (int w = 0; w < LENGTHS; w++) part[w] += row_out * found[w];
        if (writes) {
            Edge out;
#pragma unroll
            for (int q = 0; q < PADDED; q++) out.r[q] = q < LEVELS ? r[q] * row_out : (REAL)0;
            edges[edge_out + 2 * row] = out;
        }
        if (word & ENDS) {
            double values[LENGTHS];
#pragma unroll
            for (int w = 0; w < LENGTHS; w++) {
                double value = total[w] + part[w];
                if (left) value += reads ? carry_in[source * LENGTHS + w] : carry[w];
                sum[w] = value;
                if (writes) carry_out[source * LENGTHS + w] = value;
                values[w] = value * weights.out[w];
                total[w] = part[w] = 0;
            }
            if (last) put(source, mine.target, values, task.part);
            source++;
            summed = -1;
            scale<true>(P, corner, 0);
        }
        if (++summed == WARP) {
            summed = 0;
#pragma unroll
            for (int w = 0; w < LENGTHS; w++) {
                total[w] += part[w];
                part[w] = 0;
            }
        }
        if (++phase == period) {
            phase = 0;
            scale<false>(P, corner, weights.wrap);
#pragma unroll
            for (int q = 0; q < LEVELS; q++) r[q] *= weights.wrap;
        }
        row++;
        word = next;
        next = later;
#pragma unroll
        for (int w = 0; w < WORDS; w++) match[w] = match_next[w];
    }
    __syncwarp();
}

// Warps take tasks in turn.
__device__ __forceinline__ int take(int* taken) {
    return __shfl_sync(FULL_WARP, threadIdx.x % WARP == 0 ? atomicAdd(taken, 1) : 0, 0);
}

// Packs of one strip,
extern "C" __global__ void __launch_bounds__(128, BLOCKS) gap(
    const Task* tasks, int n_tasks, int* taken, const uint32* __restrict__ stream, const Lane* lanes,
    const uint32* __restrict__ masks, const CODE* __restrict__ codes, int symbols, int period,
    const Weights* columns) {
    for (int index; (index = take(taken)) < n_tasks;)
        compare<false>(tasks[index], 0, stream, lanes, masks, codes, symbols, period, columns, nullptr, 0, nullptr, 0);
}

// and of several. Each warp has 2 * `most_rows` of the `edges` and 2 * `most_sources` of the `carries`, LENGTHS a source.
extern "C" __global__ void __launch_bounds__(128, BLOCKS) gap_several(
    const Task* tasks, int n_tasks, int* taken, const uint32* __restrict__ stream, const Lane* lanes,
    const uint32* __restrict__ masks, const CODE* __restrict__ codes, int symbols, int period,
    const Weights* columns, Edge* edges, int most_rows, double* carries, int64 most_sources) {
    const int warp = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    for (int index; (index = take(taken)) < n_tasks;)
        for (int strip = 0; strip < tasks[index].strips; strip++)
            compare<true>(tasks[index], strip, stream, lanes, masks, codes, symbols, period, columns, edges,
                          2 * warp * most_rows, carries + 2 * warp * most_sources, most_sources);
}
