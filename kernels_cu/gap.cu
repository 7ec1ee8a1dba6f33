// Gap-weighted subsequences. The mathematics and the layout are at the top of textsvm/kernels/gap.py.
//
// LEVELS p - 1; COLUMNS columns a lane; BLOCK columns that share a base; REAL float or double;
// BLEND 1 if subsequences may begin at any level; MASKS 1 if matches come from a table, 0 if from comparing.

#ifndef LEVELS
#define LEVELS 4
#define COLUMNS 25
#define BLOCK 25
#define REAL float
#define BLEND 0
#define MASKS 1
#endif

#define STORED (LEVELS > 0 ? LEVELS : 1)
#define NOTHING 0x7fffffffu // a stream's word that matches nothing
#define ENDS 0x80000000u    // set in the last symbol of a document
#define LEFT 1              // what a lane has: a left neighbour of the same document,
#define LAST 2              // the document's last columns

// Powers of the decay and scaled beginnings, written before a launch.
struct Weights {
    REAL row_out[WARP], row_in[WARP];          // decay^k, decay^-k
    REAL column_out[COLUMNS], column_in[COLUMNS]; // decay^c, decay^-c, c counted within a block
    REAL begins[LEVELS + 1];
    REAL step, edge, block, wrap;              // decay^(width - 1), ^width of a lane's last block, ^BLOCK, ^period
    double out;
};
__constant__ Weights weights;

struct Task {
    int first_strip, strips;   // 32 lanes each
    int first_source, sources; // positions in the stream's order
    int64 begin, rows;         // symbols in the stream
    int64 edge, carry;         // where this task's part of `edges`, `carries` starts; -1 with one strip
};

struct Lane {
    int target; // position of the document in the targets' order, -1 for none
    int length; // columns that are used
    int64 code; // of the first column
    int delay;  // steps behind the document's first lane in this strip
    int flags;
    int unused[2];
};

// One lane's columns as a mask for each symbol: bits 0-6 of each byte, a byte for 7 columns.
extern "C" __global__ void gap_masks(const Lane* lanes, int n, const uint16* codes, int symbols, uint32* masks) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint32* mine = masks + (int64)(i / WARP) * symbols * WARP + i % WARP;
    for (int c = 0; c < lanes[i].length; c++)
        mine[codes[lanes[i].code + c] * WARP] |= 1u << (c / 7 * 8 + c % 7);
}

// What is done with the sum of a pair: 0 matrix, 1 matrix and its mirror image, 2 weighted sums, 3 the diagonal.
struct Output {
    int mode, classes;
    int64 width;                              // of the matrix
    const int *source_index, *target_index;   // position -> document
    const double *source_scale, *target_scale;
    float* matrix;
    const double* coef; // (sources, classes)
    double* sums;       // (parts, targets, classes), or (targets,) for the diagonal
    int targets, parts;
};

__device__ void put(const Output& o, int source, int target, double value, int part) {
    if (o.mode == 3) {
        if (source == target) o.sums[target] = value;
    } else if (o.mode == 2) {
        double* sum = o.sums + ((int64)part * o.targets + target) * o.classes;
        for (int k = 0; k < o.classes; k++) sum[k] += o.coef[(int64)source * o.classes + k] * value;
    } else if (o.mode == 0 || source <= target) {
        float scaled = (float)(value * o.source_scale[source] * o.target_scale[target]);
        int64 i = o.source_index[source], j = o.target_index[target];
        o.matrix[i * o.width + j] = scaled;
        if (o.mode == 1) o.matrix[j * o.width + i] = scaled;
    }
}

__device__ uint32 symbol_at(const uint32* stream, int64 row, int64 rows) {
    return (uint64)row < (uint64)rows ? stream[row] : NOTHING;
}

extern "C" __global__ void __launch_bounds__(128) gap(
    const Task* tasks, int n_tasks, const uint32* __restrict__ stream, const Lane* lanes,
    const uint32* __restrict__ masks, const uint16* __restrict__ codes, int symbols, int period,
    REAL* edges, double* carries, Output output) {
    int index = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (index >= n_tasks) return;
    Task task = tasks[index];
    const uint32* rows = stream + task.begin;

    for (int strip = 0; strip < task.strips; strip++) {
        Lane mine = lanes[(task.first_strip + strip) * WARP + lane];
        bool left = mine.flags & LEFT, last = mine.flags & LAST;
        bool reads = lane == 0 && left, writes = lane == WARP - 1 && mine.target >= 0 && !last;
        // Two turns: what this strip writes is not what it still reads.
        REAL* edge_in = edges + task.edge + (strip & 1) * task.rows * LEVELS;
        REAL* edge_out = edges + task.edge + (~strip & 1) * task.rows * LEVELS;
        double* carry_in = carries + task.carry + (strip & 1) * task.sources;
        double* carry_out = carries + task.carry + (~strip & 1) * task.sources;
#if MASKS
        const uint32* table = masks + (int64)(task.first_strip + strip) * symbols * WARP + lane;
#define MASK(symbol) (((symbol) & NOTHING) < symbols ? table[((symbol) & NOTHING) * WARP] : 0u)
#define HIT(c) (match & (1u << ((c) / 7 * 8 + (c) % 7)))
#else
        uint32 column[COLUMNS];
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) column[c] = c < mine.length ? codes[mine.code + c] : NOTHING - 1;
#define MASK(symbol) ((symbol) & NOTHING)
#define HIT(c) (match == column[c])
#endif
        REAL P[STORED][COLUMNS], corner[STORED], r[STORED], part = 0;
#pragma unroll
        for (int q = 0; q < STORED; q++) {
            corner[q] = r[q] = 0;
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) P[q][c] = 0;
        }
        double total = 0, sum = 0;
        REAL step = left && lane > 0 ? weights.step : (REAL)0;
        int source = task.first_source, phase = 0;
        int64 row = -mine.delay;
        uint32 symbol = symbol_at(rows, row, task.rows), next = symbol_at(rows, row + 1, task.rows);
        uint32 match = MASK(symbol);
        __syncwarp();

        for (int64 left_steps = task.rows + WARP - 1; left_steps > 0; left_steps--, row++) {
            uint32 later = symbol_at(rows, row + 2, task.rows), match_next = MASK(next);
            REAL row_out = weights.row_out[phase], row_in = weights.row_in[phase];
            double carry = __shfl_up_sync(FULL_WARP, sum, 1);
            REAL above[STORED];
#pragma unroll
            for (int q = 0; q < LEVELS; q++) {
                r[q] = __shfl_up_sync(FULL_WARP, r[q], 1) * step;
                if (reads && (uint64)row < (uint64)task.rows)
                    r[q] = edge_in[row * LEVELS + q] * weights.edge * row_in;
                above[q] = corner[q];
                corner[q] += r[q];
            }
            REAL found = 0;
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                if (c > 0 && c % BLOCK == 0)
#pragma unroll
                    for (int q = 0; q < LEVELS; q++) {
                        r[q] *= weights.block;
                        above[q] *= weights.block;
                    }
                bool hit = HIT(c);
                if (hit) {
                    if (LEVELS > 0) found += weights.column_out[c] * above[STORED - 1];
                    if (LEVELS == 0 || BLEND) found += weights.begins[LEVELS] * row_in;
                }
#pragma unroll
                for (int q = LEVELS - 1; q >= 0; q--) {
                    if (hit) {
                        if (q > 0) r[q] += above[q - 1];
                        if (q == 0 || BLEND) r[q] += weights.begins[q] * row_in * weights.column_in[c];
                    }
                }
#pragma unroll
                for (int q = 0; q < LEVELS; q++) {
                    above[q] = P[q][c];
                    P[q][c] += r[q];
                }
            }
            part += row_out * found;
            if (writes && (uint64)row < (uint64)task.rows)
#pragma unroll
                for (int q = 0; q < LEVELS; q++) edge_out[row * LEVELS + q] = r[q] * row_out;
            if (symbol & ENDS) {
                sum = total + part;
                if (left) sum += lane > 0 ? carry : carry_in[source - task.first_source];
                if (last) put(output, source, mine.target, sum * weights.out, index % output.parts);
                if (writes) carry_out[source - task.first_source] = sum;
                source++;
                total = part = 0;
#pragma unroll
                for (int q = 0; q < LEVELS; q++) {
                    corner[q] = 0;
#pragma unroll
                    for (int c = 0; c < COLUMNS; c++) P[q][c] = 0;
                }
            }
            if (++phase == period) {
                phase = 0;
                total += part;
                part = 0;
#pragma unroll
                for (int q = 0; q < LEVELS; q++) {
                    corner[q] *= weights.wrap;
                    r[q] *= weights.wrap;
#pragma unroll
                    for (int c = 0; c < COLUMNS; c++) P[q][c] *= weights.wrap;
                }
            }
            symbol = next;
            next = later;
            match = match_next;
        }
        __syncwarp();
    }
}
