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
