
#include <thread>
#include <vector>
#include <barrier>
#include <cmath>
#include <cstring>
#include <cstdio>
#include <cstdlib>
#include <algorithm>
#include <memory>
#define __device__
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__
using std::min; using std::max;
struct D3{int x,y,z;};
static thread_local D3 threadIdx, blockIdx; static D3 blockDim, gridDim;
struct alignas(16) int4{int x,y,z,w;};
static int4 memory_store[20000];
static std::barrier<>* block_barrier; static std::barrier<>* warp_barrier[8];
static void* exchange[8][32]; static int exchange_i[8][32][8];
inline void __syncthreads(){block_barrier->arrive_and_wait();}
inline void warp_sync(){warp_barrier[threadIdx.x/32]->arrive_and_wait();}
template<class T> T __ldg(const T*p){return *p;}
inline void __stcs(float*p,float v){*p=v;}
inline int __dp4a(int a,int b,int c){for(int k=0;k<4;++k)c+=(int)(signed char)(a>>(8*k))*(int)(signed char)(b>>(8*k));return c;}
inline int __float_as_int(float f){int i;memcpy(&i,&f,4);return i;}
inline int __shfl_xor_sync(unsigned,int v,int m){int w=threadIdx.x/32,l=threadIdx.x%32;exchange_i[w][l][0]=v;warp_sync();int r=exchange_i[w][l^m][0];warp_sync();return r;}
inline unsigned long __cvta_generic_to_shared(const void*p){return (const char*)p-(const char*)memory_store;}
// Put in front of every .cu as text (an #include would escape CuPy's disk cache).

typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned long long uint64;
typedef long long int64;

#define WARP 32
#define FULL_WARP 0xffffffffu

// One thread for each of n elements, i the thread's.
#define EACH(i, n)                                            \
    int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;   \
    if (i >= (n)) return
// Values of kernels of vectors, from products of whole numbers. The derivation is in textsvm/features/vectors_cuda.py.
//
// SUMS: sums kept of a product, 1 (one digit), 2 (three digits, six products), 3 (three digits, eight products).
// FINISH: what becomes of a product: linear, polynomial, gaussian or sigmoid.

#ifndef SUMS
#define SUMS 1
#endif
#ifndef FINISH
#define FINISH gaussian
#endif
#define DIGITS (SUMS == 1 ? 1 : 3)
#define SLAB 32                                  // features of an instruction; sums are rounded once a slab
#define MIDDLE 128                               // half of 256, so that a shift rounds to the nearest
#define MOST_NUMBER 8355711                      // 127 in each of three digits

typedef signed char int8;
#define memory memory_store

// What is computed: out[i, j] = FINISH(<row which[i] of `rows`, column j>), m rows and n columns, row-major.
struct Work {
    const int8 *rows, *columns;                  // digits, (number, DIGITS, 32 * slabs), the highest first
    const int64* which;                          // or null: row i
    const double *row_squares, *squares;         // products of each with itself
    const double *row_units, *units;             // of the numbers of each
    float* out;
    double gamma, coef0;
    int degree, m, n, slabs;
    int group, first, half;                      // of tiles: rows in a group, number of the first, half of a square
};

// A product of two vectors' numbers, exact, and a real number. Those of one digit are below 2^31, and so is the
// distance of two such vectors, whatever its parts are.
#if SUMS == 1
typedef int Whole;
typedef float Real;
#else
typedef double Whole;
typedef double Real;
#endif

// Kernel values, from the product, those of each vector with itself, and the unit of all three.
__device__ __forceinline__ float linear(const Work& w, Whole product, Whole s, Whole t, Real unit)
{
    return (float)(product * unit);
}

__device__ __forceinline__ float polynomial(const Work& w, Whole product, Whole s, Whole t, Real unit)
{
    Real base = (Real)w.gamma * (product * unit) + (Real)w.coef0, value = 1;
    for (int left = w.degree; left; left >>= 1, base *= base)
        if (left & 1) value *= base;
    return (float)value;
}

__device__ __forceinline__ float gaussian(const Work& w, Whole product, Whole s, Whole t, Real unit)
{
    return exp2f(fminf((float)((2 * product - (s + t)) * unit), 0));   // units have the root of gamma / log 2
}

__device__ __forceinline__ float sigmoid(const Work& w, Whole product, Whole s, Whole t, Real unit)
{
    return tanhf((float)((Real)w.gamma * (product * unit) + (Real)w.coef0));
}

// The whole product, from its sums.
__device__ __forceinline__ Whole whole(int high, int middle, int low)
{
    if (SUMS == 1) return high;
    Whole sum = 256 * (Whole)high + middle;
    return SUMS == 2 ? sum : 256 * sum + low;
}
// needs: vectors.cuh
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

// Up to FEW rows: columns are read once, `lanes` threads (a power of 2) a column, rows from shared memory, where
// halves of neighbouring slabs are neighbours.
extern "C" __global__ void __launch_bounds__(256) few(const __grid_constant__ Work w, int lanes)
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
        int j = base + threadIdx.x / lanes, at = min(j, w.n - 1), sums[FEW][3] = {}, mine[DIGITS][8], other[DIGITS][8];
        for (int slab = lane; slab < w.slabs; slab += lanes) {
            load_slab(mine, w.columns + (int64)at * width * DIGITS, width, slab);
#pragma unroll
            for (int i = 0; i < FEW; ++i) {
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
        for (int i = 0; i < FEW; ++i) {
            if (i >= w.m) break;
#pragma unroll
            for (int s = 0; s < SUMS; ++s) sums[i][s] = over_lanes(sums[i][s], lanes);
            if (lane || j >= w.n) continue;
            int64 row = w.which ? __ldg(w.which + i) : i;
            Whole product = whole(sums[i][0], sums[i][1], sums[i][2]), square = (Whole)w.row_squares[row];
            Real unit = (Real)w.row_units[row] * (Real)w.units[j];
            w.out[(int64)i * w.n + j] = FINISH(w, product, square, (Whole)w.squares[j], unit);
        }
    }
}
// needs: vectors.cuh
// Many rows of kernel values of dense vectors, by tiles on tensor cores.

#define PARTS (SUMS == 3 ? 2 : 4)                // of 16 rows that a warp has
#define HIGH (32 * PARTS)                        // rows of a tile: two warps
#define WIDE 128                                 // columns of a tile: four warps
#define STEP 64                                  // features fetched at a time
#define STAGES (SUMS == 1 ? 4 : 3)
#define STAGE ((HIGH + WIDE) * DIGITS * STEP)    // bytes
#define FETCHES ((HIGH + WIDE) / 64)             // vectors that a thread fetches from
#define ROW (WIDE + 4)                           // floats from row to row of a finished tile, neither way in conflict

// 16 bytes of feature chunk `chunk` (0..3) of vector `row` of a plane: any 8 neighbouring rows are in all banks.
__device__ __forceinline__ uint32 place(int row, int chunk)
{
    return row * STEP + ((chunk ^ ((row >> 1) & 3)) << 4);
}



// Wait until all but the last STAGES - 2 fetches have arrived.



inline void fetch16(uint32 to,const int8*from){memcpy((char*)memory_store+to,from,16);}
inline void commit(){} inline void arrived(){}
inline void matrices(int(&to)[4],uint32 from){int w=threadIdx.x/32,l=threadIdx.x%32;exchange_i[w][l][1]=from;warp_sync();
 for(int m=0;m<4;++m) memcpy(&to[m],(char*)memory_store+exchange_i[w][m*8+l/4][1]+(l%4)*4,4); warp_sync();}
inline void multiply(int(&c)[4],const int(&a)[4],int b0,int b1){int w=threadIdx.x/32,l=threadIdx.x%32;
 int*e=exchange_i[w][l]; for(int k=0;k<4;++k)e[k]=a[k]; e[4]=b0;e[5]=b1; warp_sync();
 for(int k=0;k<4;++k){int r=l/4+(k/2)*8,col=l%4*2+k%2; int s=c[k];
  for(int q=0;q<32;++q){ int*ea=exchange_i[w][(r%8)*4+(q%16)/4]; int ra=ea[(q/16)*2+(r>=8)]; int*eb=exchange_i[w][col*4+(q%16)/4]; int rb=eb[4+q/16];
   s+=(int)(signed char)(ra>>(8*(q%4)))*(int)(signed char)(rb>>(8*(q%4))); } c[k]=s;} warp_sync();}
// c += a b^T, 16 rows and 8 columns, 32 features.

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
            first = __float_as_int(FINISH(w, product, square, squares[k], unit * units[k]));
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

template<class F> void launch(int blocks,int threads,F f){blockDim={threads,1,1};gridDim={blocks,1,1};
 for(int b=0;b<blocks;++b){ std::barrier<> bb(threads); block_barrier=&bb; std::vector<std::unique_ptr<std::barrier<>>> ws; for(int i=0;i<8;++i){ws.emplace_back(new std::barrier<>(32));warp_barrier[i]=ws[i].get();}
  memset((void*)memory_store,0x7b,sizeof memory_store);
  std::vector<std::thread> ts; for(int t=0;t<threads;++t) ts.emplace_back([&,t]{threadIdx={t,0,0};blockIdx={b,0,0};f();bb.arrive_and_drop();warp_barrier[t/32]->arrive_and_drop();}); for(auto&t:ts)t.join(); } }
int main(int argc,char**argv){ int m=atoi(argv[1]),n=atoi(argv[2]),d=atoi(argv[3]),half=atoi(argv[4]),usefew=atoi(argv[5]); srand(1);
 int slabs=(d+31)/32,width=slabs*32; std::vector<double> x(n*d),c(d),u(n,SUMS==1?1.0:1.0/(1<<20));
 for(auto&v:x) v= SUMS==1? rand()%256-128 : (rand()/(double)RAND_MAX-.5)*12;
 for(int k=0;k<d;++k) c[k]=SUMS==1?0:.01*k;
 std::vector<int8> g((size_t)n*width*DIGITS); int flags[2]={0,0}; std::vector<double> sq(n);
 launch((n*width+63)/64,64,[&]{encode_double(n*width,d,width,x.data(),c.data(),u.data(),g.data(),flags);});
 launch((n*32+255)/256,256,[&]{ if((int64)blockIdx.x*256+threadIdx.x/32*32<n*32) self_products(n*32,slabs,g.data(),sq.data());});
 double factor=SUMS==1?1:SUMS==2?4096:256; double gamma=SUMS==1?1e-4/d:0.2/d; std::vector<double> un(n); for(int i=0;i<n;++i)un[i]=u[i]*factor*std::sqrt(gamma/std::log(2.));
 std::vector<int64> which(m); for(int i=0;i<m;++i) which[i]=half?i:(i*7+3)%n;
 std::vector<float> out((size_t)m*n,-7);
 Work w; w.rows=w.columns=g.data(); w.which=half?nullptr:which.data(); w.row_squares=w.squares=sq.data(); w.row_units=w.units=un.data(); w.out=out.data(); w.gamma=gamma;w.coef0=0;w.degree=0;w.m=m;w.n=n;w.slabs=slabs;w.first=0;w.half=half;
 w.group=min(1024/HIGH,(m+HIGH-1)/HIGH);
 if(usefew){ int lanes=1; while(lanes<slabs&&lanes<32)lanes*=2; launch(3,256,[&]{few(w,lanes);}); }
 else { int total=0; for(int b=0;b<(m+HIGH-1)/HIGH;b+=w.group) total+=w.group*((n+127)/128-(half?b*HIGH/128:0)); launch(total,256,[&]{tiles(w);}); }
 double worst=0; int wi=0,wj=0; for(int i=0;i<m;++i)for(int j=0;j<n;++j){int r=half?i:which[i]; double s=0; for(int k=0;k<d;++k){double t=x[r*d+k]-x[j*d+k];s+=t*t;} double e=std::abs(std::exp(-gamma*s)-out[(size_t)i*n+j]); if(!(e<=worst)){worst=e;wi=i;wj=j;}}
 printf("SUMS %d m %d n %d d %d half %d few %d flags %d %d worst %.3g at %d %d value %g K01 %g\n",SUMS,m,n,d,half,usefew,flags[0],flags[1],worst,wi,wj,out[(size_t)wi*n+wj],out[1]); }
