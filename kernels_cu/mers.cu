// Distances between l-mers: how many pairs of two documents differ at d positions, d = 0 .. MOST.
//
// A block has a column document, its l-mers 64 a word, in shared memory, and rows pass by, one a warp. Of a word
// and a position p, masks[x] has the bit of every l-mer with another symbol than x there; a lane has an l-mer u
// of the row, and masks[u_p], p = 0 .. LENGTH - 1, are counted for 64 l-mers at once by carry-save adders, as
// textsvm/kernels/mers/cpu.py tells. Counts are whole numbers: values have the bits of the CPU.
//
// LENGTH: l. MOST: the greatest distance that counts.
// SYMBOLS: symbols of the columns, at most, each other symbol is number SYMBOLS; 0: any number of symbols, and
// l-mers are compared symbol by symbol, until they differ too often.

#define SLOTS (SYMBOLS + 1)

struct Task {
    const int *row_codes;
    const int64 *row_starts;
    const int64 *row_indptr;
    const int *codes;
    const int64 *starts;
    const int64 *indptr;
    const int64 *words;   // where those of a column document begin
    const uint64 *masks;  // [word][position][SLOTS]
    const uint64 *planes; // [word], the bits that are l-mers
    const double *of_distance, *row_scale, *scale;
    float *out;           // (rows, n), or
    double *own;          // of each document with itself, not scaled
    int64 n;
    int n_symbols, n_rows, first, tile, chunk, symmetric;
};

#if SYMBOLS
// Masks and planes of a word: a thread for each position and symbol of a word.
extern "C" __global__ void mer_masks(int64 n, const int64 *first_mer, const int *n_mers, const int *codes,
                                     const int64 *starts, uint64 *masks, uint64 *planes) {
    EACH(i, n);
    int64 word = i / (LENGTH * SLOTS);
    int place = i / SLOTS % LENGTH, symbol = i % SLOTS, count = n_mers[word];
    const int64 *start = starts + first_mer[word];
    uint64 mask = ~0ull;
    for (int bit = 0; bit < count; bit++)
        if (codes[start[bit] + place] == symbol) mask &= ~(1ull << bit);
    masks[i] = mask;
    if (place || symbol) return;
    uint64 plane = 0;
    for (int bit = 0; bit < count; bit++) plane |= 1ull << bit;
    planes[word] = plane;
}

struct Counter {
    uint32 ones, twos, fours, eights, over;
};

__device__ __forceinline__ uint32 add(uint32 &sum, uint32 a, uint32 b) {
    uint32 carry = (sum & a) | (sum & b) | (a & b);
    sum ^= a ^ b;
    return carry;
}

__device__ __forceinline__ void add_four(Counter &c, uint32 x0, uint32 x1, uint32 x2, uint32 x3) {
    uint32 a = add(c.ones, x0, x1), b = add(c.ones, x2, x3), carry = add(c.twos, a, b);
    if (MOST >= 4) {
        uint32 next = c.fours & carry;
        c.fours ^= carry;
        carry = next;
    }
    if (MOST >= 8) {
        uint32 next = c.eights & carry;
        c.eights ^= carry;
        carry = next;
    }
    c.over |= carry;
}

__device__ __forceinline__ uint32 at_distance(const Counter &c, int d) {
    uint32 same = ~c.over & (d & 1 ? c.ones : ~c.ones) & (d & 2 ? c.twos : ~c.twos);
    if (MOST >= 4) same &= d & 4 ? c.fours : ~c.fours;
    if (MOST >= 8) same &= d & 8 ? c.eights : ~c.eights;
    return same;
}

__device__ __forceinline__ void count_half(const Counter &c, uint32 plane, uint32 *found) {
#pragma unroll
    for (int d = 0; d <= MOST; d++) found[d] += __popc(at_distance(c, d) & plane);
}

// An l-mer, as places in the masks of the first word, with the words of a chunk.
__device__ __forceinline__ void compare(const int *at, const uint64 *masks, const uint64 *planes, int words,
                                        uint32 *found) {
#pragma unroll 2
    for (int w = 0; w < words; w++) {
        const uint64 *own = masks + w * LENGTH * SLOTS;
        Counter low = {}, high = {};
#pragma unroll
        for (int p = 0; p < LENGTH; p += 4) {
            uint2 x[4];
#pragma unroll
            for (int q = 0; q < 4; q++)
                x[q] = p + q < LENGTH ? *(const uint2 *)(own + at[p + q < LENGTH ? p + q : 0]) : uint2{0, 0};
            add_four(low, x[0].x, x[1].x, x[2].x, x[3].x);
            add_four(high, x[0].y, x[1].y, x[2].y, x[3].y);
        }
        const uint32 *plane = (const uint32 *)(planes + w);
        count_half(low, plane[0], found);
        count_half(high, plane[1], found);
    }
}
#endif

__device__ __forceinline__ uint64 warp_sum(uint64 x) {
    for (int lanes = WARP / 2; lanes; lanes /= 2) x += __shfl_xor_sync(FULL_WARP, x, lanes);
    return x;
}

// Pairs of l-mers of a row and of the column, of words first .. last of it, at every distance.
__device__ void count_pairs(const Task &task, int row, int column, const uint64 *masks, const uint64 *planes,
                            int words, uint64 *counts) {
    for (int64 mer = task.row_indptr[row] + threadIdx.x % WARP; mer < task.row_indptr[row + 1]; mer += WARP) {
        const int *u = task.row_codes + task.row_starts[mer];
        uint32 found[MOST + 1] = {};
#if SYMBOLS
        int at[LENGTH];
#pragma unroll
        for (int p = 0; p < LENGTH; p++) at[p] = p * SLOTS + (u[p] < SYMBOLS ? u[p] : SYMBOLS);
        compare(at, masks, planes, words, found);
#else
        for (int64 other = task.indptr[column]; other < task.indptr[column + 1]; other++) {
            const int *v = task.codes + task.starts[other];
            int d = 0;
            for (int p = 0; p < LENGTH && d <= MOST; p++) d += u[p] != v[p];
#pragma unroll
            for (int e = 0; e <= MOST; e++) found[e] += d == e;
        }
#endif
#pragma unroll
        for (int d = 0; d <= MOST; d++) counts[d] += found[d];
    }
}

__device__ void write_value(const Task &task, int row, int column, const uint64 *counts) {
    double value = 0;
#pragma unroll
    for (int d = 0; d <= MOST; d++) value = __dadd_rn(value, __dmul_rn(task.of_distance[d], (double)counts[d]));
    if (task.own) {
        task.own[row] = value;
        return;
    }
    float rounded = __dmul_rn(value, __dmul_rn(task.row_scale[row], task.scale[column]));
    task.out[row * task.n + column] = rounded;
    if (task.symmetric) task.out[column * task.n + row] = rounded;
}

// Block (x, y): column first + x with a tile of rows; with `own`, each document with itself.
extern "C" __global__ void mer_values(Task task) {
    extern __shared__ uint64 room[];
    int column = task.first + blockIdx.x, row = blockIdx.y * task.tile, last = min(row + task.tile, task.n_rows);
    if (task.own) row = column, last = column + 1;
    if (task.symmetric) last = min(last, column + 1);
    if (row >= last) return;
    int64 begin = task.words[column], words = task.words[column + 1] - begin;
    uint64 *masks = room, *planes = room + task.chunk * LENGTH * SLOTS;
    int warps = blockDim.x / WARP;
    for (int mine = row + threadIdx.x / WARP; mine - (int)threadIdx.x / WARP < last; mine += warps) {
        uint64 counts[MOST + 1] = {};
        for (int64 w = 0; w < max(words, (int64)1); w += task.chunk) {
            int some = min(words - w, (int64)task.chunk);
#if SYMBOLS
            if (words > task.chunk || mine < row + warps) {
                __syncthreads();
                for (int i = threadIdx.x; i < some * LENGTH * SLOTS; i += blockDim.x)
                    masks[i] = task.masks[(begin + w) * LENGTH * SLOTS + i];
                for (int i = threadIdx.x; i < some; i += blockDim.x) planes[i] = task.planes[begin + w + i];
                __syncthreads();
            }
#endif
            if (mine < last && some > 0) count_pairs(task, mine, column, masks, planes, some, counts);
#if !SYMBOLS
            break;
#endif
        }
        for (int d = 0; d <= MOST; d++) counts[d] = warp_sum(counts[d]);
        if (mine < last && threadIdx.x % WARP == 0) write_value(task, mine, column, counts);
    }
}

// Sums of the scores of the l-mers of documents, a warp for each: scores (symbols^LENGTH, machines).
extern "C" __global__ void mer_scores(int64 n, const int *codes, const int64 *starts, const int64 *indptr, int symbols, int machines, const double *scores,
                                      double *out) {
    EACH(thread, n * WARP);
    int64 row = thread / WARP;
    for (int machine = 0; machine < machines; machine++) {
        double sum = 0;
        for (int64 mer = indptr[row] + threadIdx.x % WARP; mer < indptr[row + 1]; mer += WARP) {
            int64 key = 0;
            for (int p = 0; p < LENGTH; p++) key = key * symbols + codes[starts[mer] + p];
            sum += scores[key * machines + machine];
        }
        for (int lanes = WARP / 2; lanes; lanes /= 2) sum += __shfl_xor_sync(FULL_WARP, sum, lanes);
        if (threadIdx.x % WARP == 0) out[row * machines + machine] = sum;
    }
}
