// Put in front of every .cu as text (an #include would escape CuPy's disk cache).

typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned long long uint64;
typedef long long int64;

#define WARP 32
#define FULL_WARP 0xffffffffu
