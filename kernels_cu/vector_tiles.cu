// needs: finish.cuh vectors.cuh
// Many rows of kernel values of dense vectors, by tiles on tensor cores.

// HIGH: rows of a tile, 64 or 128. STAGES: steps of digits in shared memory, all but one of them fetched ahead.
#define PARTS (HIGH / 32)                        // of 16 rows that a warp has: HIGH is two warps
#define WIDE 128                                 // columns of a tile: four warps
#define STEP 64                                  // features fetched at a time
#define STAGE ((HIGH + WIDE) * DIGITS * STEP)    // bytes
#define FETCHES ((HIGH + WIDE) / 64)             // vectors that a thread fetches from
#define ROW (WIDE + 4)                           // floats from row to row of a finished tile, neither way in conflict

// 16 bytes of feature chunk `chunk` (0..3) of vector `row` of a plane: any 8 neighbouring rows are in all banks.
__device__ __forceinline__ uint32 place(int row, int chunk)
{
    return row * STEP + ((chunk ^ ((row >> 1) & 3)) << 4);
}

__device__ __forceinline__ void fetch16(uint32 to, const int8* from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
#else
    int4 v = __ldg((const int4*)from);
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w));
#endif
}

__device__ __forceinline__ void commit()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}

// Wait until all but the last STAGES - 2 fetches have arrived; without stages ahead, all.
__device__ __forceinline__ void arrived()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES > 1 ? STAGES - 2 : 0));
#endif
}

__device__ __forceinline__ void matrices(int (&to)[4], uint32 from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}

// c += a b^T, 16 rows and 8 columns, 32 features.
__device__ __forceinline__ void multiply(int (&c)[4], const int (&a)[4], int b0, int b1)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
#pragma unroll
    for (int part = 0; part < 4; ++part)
        asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+r"(c[part % 2 * 2]), "+r"(c[part % 2 * 2 + 1]) : "r"(a[part]), "r"(part < 2 ? b0 : b1));
#endif
}

// c += a b^T for four neighbours of 8 columns; b has the digit's fragments of all four.
__device__ __forceinline__ void multiply4(int (&c)[4][4], const int (&a)[4], const int (&b)[2][4])
{
#pragma unroll
    for (int part = 0; part < 4; ++part)
        multiply(c[part], a, b[part / 2][part % 2 * 2], b[part / 2][part % 2 * 2 + 1]);
}

__device__ __forceinline__ void set(int (&c)[4][4], int value)
{
#pragma unroll
    for (int k = 0; k < 16; ++k) c[k / 4][k % 4] = value;
}

__device__ __forceinline__ void add_rounded(int (&c)[4][4], const int (&low)[4][4])
{
#pragma unroll
    for (int k = 0; k < 16; ++k) c[k / 4][k % 4] += low[k / 4][k % 4] >> 8;
}

typedef int Sums[SUMS][PARTS][4][4];             // what a thread keeps: by sum, 16 rows, 8 columns

// Add a slab of `half` (0 or 1) of a stage to a warp's sums.
__device__ __forceinline__ void add_products(Sums& sums, uint32 stage, int half, int row, int column)
{
    int lane = threadIdx.x % WARP, a[DIGITS][4], b[DIGITS][2][4];
    uint32 columns = stage + DIGITS * HIGH * STEP;
#pragma unroll
    for (int digit = 0; digit < DIGITS; ++digit)
#pragma unroll
        for (int part = 0; part < 2; ++part)     // the two halves of a slab of 8 columns, then of 8 more
            matrices(b[digit][part], columns + digit * WIDE * STEP +
                     place(column + part * 16 + lane / 16 * 8 + lane % 8, half * 2 + lane / 8 % 2));
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
#pragma unroll
        for (int digit = 0; digit < DIGITS; ++digit)
            matrices(a[digit], stage + digit * HIGH * STEP + place(row + part * 16 + lane % 16, half * 2 + lane / 16));
        multiply4(sums[0][part], a[0], b[0]);
#if SUMS > 1
        int low[4][4];
        set(low, MIDDLE);
        int (&third)[4][4] = SUMS == 2 ? low : sums[SUMS - 1][part];
        multiply4(sums[1][part], a[0], b[1]);
        multiply4(third, a[1], b[1]);
        multiply4(sums[1][part], a[1], b[0]);
        multiply4(third, a[0], b[2]);
#if SUMS == 3
        multiply4(low, a[1], b[2]);
        multiply4(low, a[2], b[1]);
#endif
        multiply4(third, a[2], b[0]);
        add_rounded(sums[SUMS - 1][part], low);
#endif
    }
}

// Where a tile's rows and columns begin, from the number of its block; false if it is not to be computed. Tiles of
// `group` rows follow each other column by column: they share what they read.
__device__ __forceinline__ bool find_tile(const Work& w, int& top, int& left)
{
    int number = w.first + blockIdx.x, wide = (w.n + WIDE - 1) / WIDE, begin = 0, from = 0;
    for (;; begin += w.group) {
        from = w.half ? begin * HIGH / WIDE : 0;
        int size = w.group * (wide - from);
        if (number < size) break;
        number -= size;
    }
    top = (begin + number % w.group) * HIGH;
    left = (from + number / w.group) * WIDE;
    return top < w.m && !(w.half && left + WIDE <= top);
}

// The sums of a tile, over all features.
__device__ __forceinline__ void sum_tile(const Work& w, int top, int left, Sums& sums)
{
    uint32 base = (uint32)__cvta_generic_to_shared(memory);
    int width = w.slabs * SLAB, chunk = threadIdx.x % 4, steps = (w.slabs + 1) / 2, warp = threadIdx.x / WARP;
    const int8* from[FETCHES];
#pragma unroll
    for (int k = 0; k < FETCHES; ++k) {
        int at = k * 64 + threadIdx.x / 4;
        bool is_row = k < HIGH / 64;
        int64 i = is_row ? min(top + at, w.m - 1) : min(left + at - HIGH, w.n - 1);
        if (is_row && w.which) i = __ldg(w.which + i);
        from[k] = (is_row ? w.rows : w.columns) + i * width * DIGITS + chunk * 16;
    }
    auto fetch = [&](int step) {
        if (step < steps && step * STEP + chunk * 16 < width) {
            uint32 to = base + step % STAGES * STAGE;
#pragma unroll
            for (int k = 0; k < FETCHES; ++k) {
                bool is_row = k < HIGH / 64;
                uint32 plane = to + (is_row ? 0 : DIGITS * HIGH * STEP), high = is_row ? HIGH : WIDE;
                int at = k * 64 + threadIdx.x / 4 - (is_row ? 0 : HIGH);
#pragma unroll
                for (int digit = 0; digit < DIGITS; ++digit)
                    fetch16(plane + digit * high * STEP + place(at, chunk), from[k] + digit * width + step * STEP);
            }
        }
        commit();
    };
#pragma unroll
    for (int step = 0; step < STAGES - 1; ++step) fetch(step);
    for (int step = 0; step < steps; ++step) {
        arrived();
        __syncthreads();
        fetch(step + STAGES - 1);
        if (STAGES == 1) {                       // small GPUs
            arrived();
            __syncthreads();
        }
        uint32 stage = base + step % STAGES * STAGE;
        add_products(sums, stage, 0, warp / 4 * 16 * PARTS, warp % 4 * 32);
        if (step * 2 + 1 < w.slabs) add_products(sums, stage, 1, warp / 4 * 16 * PARTS, warp % 4 * 32);
    }
    __syncthreads();
}

// Where a thread's k-th value of a tile is, from its first one.
__device__ __forceinline__ constexpr int row_of(int k) { return k / 16 * 16 + k % 4 / 2 * 8; }
__device__ __forceinline__ constexpr int column_of(int k) { return k / 4 % 4 * 8 + k % 2; }

// Finished values, as bits in place of the first sums: of rows `row` (+ 8, ...) and columns `column` (+ 1, 8, 9, ...).
__device__ __forceinline__ void finish_tile(const Work& w, int row, int column, Sums& sums)
{
    Whole squares[8];
    Real units[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        int j = min(column + k / 2 * 8 + k % 2, w.n - 1);
        squares[k] = (Whole)__ldg(w.squares + j), units[k] = (Real)__ldg(w.units + j);
    }
#pragma unroll
    for (int r = 0; r < 2 * PARTS; ++r) {
        int64 i = min(row + r * 8, w.m - 1);
        if (w.which) i = __ldg(w.which + i);
        Whole square = (Whole)__ldg(w.row_squares + i);
        Real unit = (Real)__ldg(w.row_units + i);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            int part = r / 2, eight = k / 2, at = r % 2 * 2 + k % 2, &first = sums[0][part][eight][at];
            Whole product = whole(first, sums[SUMS > 1][part][eight][at], sums[SUMS - 1][part][eight][at]);
            first = __float_as_int(value_of(w, product, square, squares[k], unit * units[k]));
        }
    }
}

// Write a tile through shared memory, so that a warp writes neighbours: `high` rows of `wide` values from (i, j) on,
// within m rows and n columns.
__device__ __forceinline__ void write_tile(const Work& w, int i, int j, int high, int wide, int row, int m)
{
    const float* tile = (const float*)memory;
    __syncthreads();
#pragma unroll 8
    for (int at = threadIdx.x; at < high * wide; at += 256) {
        int r = at / wide, k = at % wide;
        if (i + r < m && j + k < w.n) __stcs(w.out + (int64)(i + r) * w.n + j + k, tile[r * row + k]);
    }
    __syncthreads();
}

// HIGH x WIDE values a block; of half a square, what mirrors them too.
extern "C" __global__ void __launch_bounds__(256, SUMS == 1 ? 2 : 1) tiles(const __grid_constant__ Work w)
{
    int *tile = (int*)memory, top, left, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    if (!find_tile(w, top, left)) return;
    int row = warp / 4 * 16 * PARTS + lane / 4, column = warp % 4 * 32 + lane % 4 * 2;
    Sums sums = {};
    sum_tile(w, top, left, sums);
    finish_tile(w, top + row, left + column, sums);
    const int* values = &sums[0][0][0][0];
#pragma unroll
    for (int k = 0; k < PARTS * 16; ++k) tile[(row + row_of(k)) * ROW + column + column_of(k)] = values[k];
    write_tile(w, top, left, HIGH, WIDE, ROW, w.m);
    if (!w.half) return;
#pragma unroll
    for (int k = 0; k < PARTS * 16; ++k) tile[(column + column_of(k)) * (HIGH + 4) + row + row_of(k)] = values[k];
    write_tile(w, left, top, WIDE, HIGH, HIGH + 4, w.n);
}
