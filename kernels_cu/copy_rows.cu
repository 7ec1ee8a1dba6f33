// Copies rows of a matrix in page-locked main memory into rows of an array of the card. To start a copy for each row
// takes longer than the bus takes for its values.

// Blocks (y) of a row (x); places: the rows, then where they belong. A warp reads 128 bytes at a multiple of 128.
extern "C" __global__ void __launch_bounds__(256)
    copy_rows(const float* __restrict__ matrix, int64 n, const int64* __restrict__ places, float* __restrict__ out) {
  const float* row = matrix + places[blockIdx.x] * n;
  float* to = out + places[gridDim.x + blockIdx.x] * n;
  int64 start = (int64)blockIdx.y * blockDim.x + threadIdx.x - ((uint64)row >> 2) % WARP;
#pragma unroll 4
  for (int64 j = start; j < n; j += (int64)gridDim.y * blockDim.x)
    if (j >= 0) to[j] = row[j];
}
