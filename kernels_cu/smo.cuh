// What the kernels of duals by working sets take, put in front of smo.cu and smo_choose.cu as text. The algorithm, its
// names and the arrays: textsvm/solvers/smo_cuda.py.
//
//   SET   variables of a working set, a power of two
//
// A launch serves several problems side by side, each in a slot: its arrays of variables start at slot * stride, those
// of its working set at slot * SET, and nothing is shared but the Gram. Every kernel returns at once for a slot that is
// done, so rounds can be launched ahead. No sum depends on the order in which threads run.

#define BINS 4096  // of violations, by the first bits of a float that is not negative
#define STRETCHES 128  // of variables, each looked at by one block, at most

struct State {  // of a slot; smo_cuda.STATE
  int64 done, round, iterations, count, moved, stalls;
  int64 paused;  // pairs optimised so far of a set that is to be gone on with, else 0
  int64 size, limit, bound;
  double first, last, decrease, tol;
};

struct Arrays {  // what all kernels take; smo_cuda.ARRAYS
  const float* rows;  // resident rows of the Gram, n values each, and where each row is
  const int* resident;
  const float* diag;
  const double* low;
  const double* high;
  const int* index;
  double* F;
  double* coef;
  int* entered;
  uint8* marks;
  uint32* keys;
  double* extremes;
  int* bins;
  int* found;
  int* candidates;
  int* listed;
  int* members;
  float* tile;
  double* moved;
  int* moved_slots;
  State* state;
  int64 n, stride, stretch;  // variables of a stretch
  double share;
  float relaxation;
  int stretches, burst, most;
};

// The arrays of one slot.
__device__ __forceinline__ Arrays of_slot(Arrays all, int64 slot) {
  all.low += slot * all.stride, all.high += slot * all.stride, all.index += slot * all.stride;
  all.F += slot * all.stride, all.coef += slot * all.stride, all.entered += slot * all.stride;
  all.marks += slot * all.stride, all.keys += slot * all.stride, all.members += slot * SET;
  all.candidates += slot * all.stride, all.listed += slot * all.stride, all.found += slot * STRETCHES;
  all.extremes += slot * 3 * STRETCHES, all.bins += slot * 2 * BINS;
  all.tile += slot * SET * SET, all.moved += slot * SET, all.moved_slots += slot * SET, all.state += slot;
  return all;
}
