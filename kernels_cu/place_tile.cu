// Puts a tile of a symmetric matrix, and its transpose, into shards of columns on this card and on others.
//
// A card writes into the memory of another one as into its own, 128 bytes of a warp side by side where columns are.

#define SIDE 32
#define MOST 16  // shards

// values[s]: columns first[s] to first[s + 1] of all rows, C order.
struct Shards {
  float* values[MOST];
  int64 first[MOST + 1];
};
static_assert(sizeof(Shards) == 8 * (2 * MOST + 1), "as SHARDS of textsvm/gram/cards.py");

// Column j in row 0, and the width of its shard.
__device__ __forceinline__ float* column_of(const Shards& shards, int64 j, int64* width) {
  int s = 0;
  while (j >= shards.first[s + 1]) s++;
  *width = shards.first[s + 1] - shards.first[s];
  return shards.values[s] + (j - shards.first[s]);
}

// A block for SIDE x SIDE values of tile (n_rows, n_columns), C order; rows, columns: where they belong in the matrix.
extern "C" __global__ void __launch_bounds__(256)
    place_tile(const float* __restrict__ tile, int64 n_rows, int64 n_columns, const int* __restrict__ rows,
               const int* __restrict__ columns, const __grid_constant__ Shards shards, int mirrored) {
  __shared__ float part[SIDE][SIDE + 1];
  int64 top = (int64)blockIdx.y * SIDE, left = (int64)blockIdx.x * SIDE, width;
  int64 row = top + threadIdx.x, column = left + threadIdx.x;
  if (column < n_columns) {
    float* to = column_of(shards, columns[column], &width);
    for (int k = threadIdx.y; k < SIDE && top + k < n_rows; k += blockDim.y) {
      float value = tile[(top + k) * n_columns + column];
      part[k][threadIdx.x] = value;
      to[rows[top + k] * width] = value;
    }
  }
  if (!mirrored) return;
  __syncthreads();
  if (row >= n_rows) return;
  float* to = column_of(shards, rows[row], &width);
  for (int k = threadIdx.y; k < SIDE && left + k < n_columns; k += blockDim.y)
    to[columns[left + k] * width] = part[threadIdx.x][k];
}
