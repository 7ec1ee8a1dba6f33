// Problems whose Gram is in shards of columns, one a card: what the first card, which has all else, and a card that has
// columns tell each other, by reading and writing each other's memory. The rounds and the arrays:
// textsvm/solvers/shards_cuda.py.
//
//   SET   variables or examples of a working set
//
// A launch serves several problems side by side, each in a slot. Kernels return at once for a slot that is done.

// What all states begin with: done, round, iterations, count, moved.
enum { WORD_DONE = 0, WORD_COUNT = 3, WORD_MOVED = 4 };

struct Part {  // shards_cuda.PART
  const float* values;  // columns first .. first + width - 1 of the Gram, all its rows
  const int* index;     // row of the Gram of each variable
  const int* own;       // variables whose columns are here, in order
  double* F;            // their responses
  int64* state;
  double* moved;  // what the last round has moved, and the rows of it
  int* moved_slots;
  const int* members;  // the first card's: the set, its tile, all responses, states, what has moved
  float* tile;
  double* all_F;
  const int64* all_state;
  const double* all_moved;
  const int* all_moved_slots;
  int64 first, width, stride;
  int words, size, paused;   // of a state: how many, which is its size, which says that its set stays
  int planes, moved_planes;  // responses of a variable; numbers that a change of it takes
};

// ---- gather: blocks (x) of a slot (y); of the tile, the columns that are here ----

extern "C" __global__ void gather(Part p) {
  __shared__ int rows[SET];
  int64 slot = blockIdx.y;
  const int64* state = p.all_state + slot * p.words;
  if (state[WORD_DONE] || state[p.paused]) return;
  int count = (int)state[WORD_COUNT], first = (int)p.first, width = (int)p.width;
  const int *members = p.members + slot * SET, *index = p.index + slot * p.stride;
  for (int c = threadIdx.x; c < SET; c += blockDim.x) rows[c] = c < count ? index[members[c]] : -1;
  __syncthreads();
  for (int r = blockIdx.x; r < count; r += gridDim.x) {
    const float* __restrict__ row = p.values + rows[r] * p.width;
    float* __restrict__ tile_row = p.tile + (slot * SET + r) * SET;
#pragma unroll 4
    for (int c = threadIdx.x; c < SET; c += blockDim.x) {
      int column = rows[c] - first;
      if (column >= 0 && column < width) tile_row[c] = row[column];
      else if (first == 0 && c >= count) tile_row[c] = 0;
    }
  }
}

// ---- fetch: blocks (y) of the slots from number `first` on (x); what has moved ----

extern "C" __global__ void fetch(Part p, int first) {
  int64 slot = first + blockIdx.x;
  const int64* from = p.all_state + slot * p.words;
  int64* state = p.state + slot * p.words;
  int64 done = from[WORD_DONE], moved = from[WORD_MOVED];
  int start = blockIdx.y * blockDim.x + threadIdx.x, step = gridDim.y * blockDim.x;
  if (start == 0) state[WORD_DONE] = done, state[WORD_MOVED] = moved;
  if (done) return;
  for (int64 r = start; r < moved; r += step) p.moved_slots[slot * SET + r] = p.all_moved_slots[slot * SET + r];
  int64 before = slot * SET * p.moved_planes;
  for (int64 r = start; r < moved * p.moved_planes; r += step) p.moved[before + r] = p.all_moved[before + r];
}

// ---- exchange: a thread a variable that is here, of each slot (y); its responses, from or to the first card ----

extern "C" __global__ void exchange(Part p, int first, int out) {
  int64 slot = first + blockIdx.y, k = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  const int64* state = p.state + slot * p.words;
  if (k >= state[p.size] || (out && state[WORD_DONE])) return;
  int64 before = slot * p.planes * p.stride, all = before + p.own[slot * p.stride + k];
  for (int plane = 0; plane < p.planes; plane++, before += p.stride, all += p.stride) {
    if (out) p.all_F[all] = p.F[before + k];
    else p.F[before + k] = p.all_F[all];
  }
}
