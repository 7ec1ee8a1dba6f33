// Pairs of documents as planes of bits (textsvm/kernels/positions/diagonals.py says which), and where their values go. A block
// takes one row document, each thread a column document; 32 of these lie side by side.
//
//   PLANES   bits of a code

// rows            word w + 1 of plane p of the document at position r: rows[row_firsts[r] + (w + 1) * PLANES + p], with
//                 words of zeros before and behind
// columns         word w of plane p of column 32 g + l: columns[group_firsts[g] + (w * PLANES + p) * 32 + l], ones behind
// row_index, column_index    which document is at a position; documents are in order of length
// table, unit, shifts, first, length, side, outer    see diagonals.cu and locality.cu
// symmetric       rows are columns: a pair is computed once, and written twice
struct Task {
  const uint32 *rows, *columns;
  const int64 *row_firsts, *group_firsts;
  const int *row_lengths, *column_lengths, *row_index, *column_index;
  const double *row_scale, *column_scale, *table;
  float* out;
  double unit;
  int64 width;
  int first_row, n_columns, symmetric, shifts, first, length, side, outer;
};

__device__ __forceinline__ const uint32* row_planes(const Task& task, int row) {
  return task.rows + task.row_firsts[row];
}

__device__ __forceinline__ const uint32* column_planes(const Task& task, int column) {
  return task.columns + task.group_firsts[column / WARP] + column % WARP;
}

// Whether this thread has a pair, at these positions.
__device__ __forceinline__ bool find_pair(const Task& task, int& row, int& column) {
  row = task.first_row + blockIdx.y;
  column = blockIdx.x * blockDim.x + threadIdx.x;
  return column < task.n_columns && !(task.symmetric && column < row);
}

__device__ __forceinline__ void write_value(const Task& task, int row, int column, double sum) {
  float value = (float)(sum * (task.row_scale[row] * task.column_scale[column]));
  int i = task.row_index[row], j = task.column_index[column];
  task.out[i * task.width + j] = value;
  if (task.symmetric) task.out[j * task.width + i] = value;
}
