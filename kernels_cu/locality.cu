// needs: positions.cuh
// Windows of matches of pairs of texts; textsvm/kernels/positions/locality.py has the mathematics and its names.
//
// table    c^d1 of every c, (side + 1)^2 + 1 of them
// side     l, at most 15: matches on either side of a position are bits of one word
// unit     what the sum is divided by
// outer    d2

#define MOST_POWERS 257

__device__ __forceinline__ uint32 matches(const uint32* __restrict__ x, const uint32* __restrict__ y, int word) {
  uint32 differ = 0;
#pragma unroll
  for (int p = 0; p < PLANES; p++)
    differ |= __ldg(x + (word + 1) * PLANES + p) ^ __ldg(y + (word * PLANES + p) * WARP);
  return ~differ;
}

// The sum of c^d1 over the n positions that both have.
__device__ double sum_windows(const uint32* __restrict__ x, const uint32* __restrict__ y, int n, int side,
                              const double* powers) {
  if (n <= 0) return 0;
  uint32 before = 0, here = matches(x, y, 0), near = (2u << side) - 1;
  int count = __popc(here & near);
  for (int q = 0; q < side; q++) count += (side - q) * (here >> q & 1);
  double total = 0;
  for (int word = 0; 32 * word < n; word++) {
    uint32 after = 32 * (word + 1) < n ? matches(x, y, word + 1) : 0;
    for (int b = 0; b < min(32, n - 32 * word); b++) {
      total += powers[count];
      count += __popc(__funnelshift_rc(here, after, b + 1) & near);
      count -= __popc(__funnelshift_l(before, here, 31 - b) >> (31 - side));
    }
    before = here;
    here = after;
  }
  return total;
}

extern "C" __global__ void __launch_bounds__(256) position_pairs(const Task task) {
  __shared__ double powers[MOST_POWERS];
  for (int c = threadIdx.x; c <= (task.side + 1) * (task.side + 1); c += blockDim.x) powers[c] = task.table[c];
  __syncthreads();
  int row, column;
  if (!find_pair(task, row, column)) return;
  int n = min(task.row_lengths[row], task.column_lengths[column]);
  double sum = sum_windows(row_planes(task, row), column_planes(task, column), n, task.side, powers) / task.unit;
  double value = sum;
  for (int k = 1; k < task.outer; k++) value *= sum;
  write_value(task, row, column, value);
}
