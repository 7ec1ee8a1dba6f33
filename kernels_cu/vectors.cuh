// Values of kernels of vectors, from products of whole numbers. The derivation is in textsvm/linalg/vectors_cuda.py.
//
// SUMS: sums kept of a product, 1 (one digit), 2 (three digits, six products), 3 (three digits, eight products).
// FINISH: see finish.cuh.

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
extern __shared__ int4 memory[];

// What is computed: out[i, j] = k(row which[i] of `rows`, column j), m rows and n columns, row-major.
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

// The kernel value, from the product, those of each vector with itself, and the unit of all three, which has gamma /
// log 2 in it for a Gaussian.
__device__ __forceinline__ float value_of(const Work& w, Whole product, Whole s, Whole t, Real unit)
{
    return FINISH<Real>(product * unit, (float)((s + t - 2 * product) * unit), w.gamma, w.coef0, w.degree);
}

// The whole product, from its sums.
__device__ __forceinline__ Whole whole(int high, int middle, int low)
{
    if (SUMS == 1) return high;
    Whole sum = 256 * (Whole)high + middle;
    return SUMS == 2 ? sum : 256 * sum + low;
}
