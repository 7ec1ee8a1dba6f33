// What the kernels of Crammer and Singer's machine take, put in front of crammer_singer.cu and crammer_singer_set.cu as
// text. The arrays: textsvm/solvers/crammer_singer_cuda.py.
//
//   SET   examples of a working set

#define PITCH (SET + 4)  // between classes of the set's gradients: a column of classes is spread over the banks

struct State {  // of a slot; crammer_singer_cuda.STATE
  int64 done, round, iterations, count, moved, stalls, size, limit, bound;
  double violation, objective, gap, least_violation, least, tol, gap_bound;
};

struct Arrays {  // what all kernels take; crammer_singer_cuda.ARRAYS
  const float* rows;  // resident rows of the Gram, n values each, and where each row is
  const int* resident;
  const int* index;
  const int* target;
  const double* upper;
  double* G;
  double* coef;
  uint32* keys;
  double* middle;
  double* objective;
  double* gap;
  int* entered;
  uint8* marks;
  int* members;
  int* places;
  float* tile;
  float* set_g;
  uint32* set_grows;
  double* set_a;
  double* moved;
  int* moved_slots;
  State* state;
  int64 n, stride;  // values of a row; from class to class of G and coef, and from slot to slot of the others
  double share;
  float relaxation;
  int k, k_padded, most;
};

// The arrays of one slot.
__device__ __forceinline__ Arrays of_slot(Arrays all, int64 slot) {
  int64 k = all.k, words = (k + WARP - 1) / WARP;
  all.index += slot * all.stride, all.target += slot * all.stride, all.upper += slot * all.stride;
  all.G += slot * k * all.stride, all.coef += slot * k * all.stride;
  all.keys += slot * all.stride, all.middle += slot * all.stride, all.objective += slot * all.stride;
  all.gap += slot * all.stride, all.entered += slot * all.stride, all.marks += slot * all.stride;
  all.members += slot * SET, all.places += slot * SET, all.moved_slots += slot * SET, all.tile += slot * SET * SET;
  all.set_g += slot * (k + 1) * PITCH, all.set_grows += slot * words * PITCH, all.set_a += slot * SET * k;
  all.moved += slot * SET * all.k_padded, all.state += slot;
  return all;
}
