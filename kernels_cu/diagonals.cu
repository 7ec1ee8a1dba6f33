// needs: positions.cuh
// Sums over diagonals of pairs of texts; textsvm/kernels/positions/diagonals.py has the mathematics and its names.
//
// table, shifts    delta of each shift, and their number
// first, length    k from first to d

// T of one shift: x of n symbols, y of m.
__device__ int64 diagonal(const Task& task, const uint32* __restrict__ x, int n, const uint32* __restrict__ y, int m,
                          int shift) {
  int word = max(0, -shift) / 32, stop = (min(m, n - shift) + 31) >> 5;
  if (word >= stop) return 0;
  int at = 32 * word + shift + 32;
  uint32 here[PLANES], before = 0;
  x += at / 32 * PLANES;
  y += word * PLANES * WARP;
#pragma unroll
  for (int p = 0; p < PLANES; p++) here[p] = __ldg(x + p);
  int64 total = 0;
  for (; word < stop; word++, y += PLANES * WARP) {
    uint32 differ = 0;
    x += PLANES;
#pragma unroll
    for (int p = 0; p < PLANES; p++) {
      uint32 next = __ldg(x + p);
      differ |= __funnelshift_r(here[p], next, at % 32) ^ __ldg(y + p * WARP);
      here[p] = next;
    }
    uint32 match = ~differ, left = match;
    int sum = 0;
    for (int k = 1; left; k++) {
      if (k >= task.first) sum += (task.length - k + 1) * __popc(left);
      if (k == task.length) break;
      left &= __funnelshift_l(before, match, k);
    }
    total += sum;
    before = match;
  }
  return total;
}

extern "C" __global__ void __launch_bounds__(256) position_pairs(const Task task) {
  int row, column;
  if (!find_pair(task, row, column)) return;
  const uint32 *x = row_planes(task, row), *y = column_planes(task, column);
  int n = task.row_lengths[row], m = task.column_lengths[column];
  double value = 0;
  for (int s = 0; s < min(task.shifts, max(n, m)); s++) {
    int64 total = diagonal(task, x, n, y, m, s);
    if (s > 0) total += diagonal(task, x, n, y, m, -s);
    // Rounded twice, as on the CPU.
    value = __dadd_rn(value, __dmul_rn(__ldg(task.table + s), (double)total));
  }
  write_value(task, row, column, value);
}
