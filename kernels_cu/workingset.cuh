// What solvers by working sets share: reductions of a block, who is chosen for a set, its tile of kernel values. Put
// in front of their .cu as text, after common.cuh. No result depends on the order in which threads run.

#define CHOOSERS 1024 // threads of the one block that chooses a set
#define TAU 1e-12f    // curvature in place of one that is not positive
#define INFINITE __longlong_as_double(0x7ff0000000000000LL)
#define MOST_STALLS 10 // rounds without progress

enum { RUNNING, CONVERGED, AT_BOUND, STALLED, NOT_FINITE }; // why a problem is done

__device__ __forceinline__ uint32 warp_max(uint32 value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(FULL_WARP, value);
#else
  for (int step = WARP / 2; step; step /= 2) value = max(value, __shfl_xor_sync(FULL_WARP, value, step));
  return value;
#endif
}

// The order of floats as the order of unsigned integers, above 0.
__device__ __forceinline__ uint32 ordered(float value) {
  int bits = __float_as_int(value);
  return bits ^ (bits >> 31 | 0x80000000);
}

// Over the lanes up to this one.
__device__ __forceinline__ int running_sum(int value) {
  for (int step = 1; step < WARP; step *= 2) {
    int other = __shfl_up_sync(FULL_WARP, value, step);
    if ((int)threadIdx.x % WARP >= step) value += other;
  }
  return value;
}

// ---- of a block of CHOOSERS threads ----

__device__ double block_max(double value) {
  __shared__ double of_warp[CHOOSERS / WARP];
  __syncthreads();
  for (int step = WARP / 2; step; step /= 2) value = fmax(value, __shfl_xor_sync(FULL_WARP, value, step));
  if (threadIdx.x % WARP == 0) of_warp[threadIdx.x / WARP] = value;
  __syncthreads();
  value = of_warp[threadIdx.x % WARP];
  for (int step = WARP / 2; step; step /= 2) value = fmax(value, __shfl_xor_sync(FULL_WARP, value, step));
  return value;
}

__device__ double block_sum(double value) {
  __shared__ double of_warp[CHOOSERS / WARP];
  __syncthreads();
  for (int step = WARP / 2; step; step /= 2) value += __shfl_xor_sync(FULL_WARP, value, step);
  if (threadIdx.x % WARP == 0) of_warp[threadIdx.x / WARP] = value;
  __syncthreads();
  double sum = 0;
  for (int w = 0; w < CHOOSERS / WARP; w++) sum += of_warp[w];
  return sum;
}

// How many threads before this one say yes; `all`: how many in the block.
__device__ int block_rank(bool yes, int* all) {
  __shared__ int of_warp[CHOOSERS / WARP];
  __syncthreads();
  uint32 votes = __ballot_sync(FULL_WARP, yes);
  int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  if (lane == 0) of_warp[warp] = __popc(votes);
  __syncthreads();
  int count = of_warp[lane], through = running_sum(count);
  *all = __shfl_sync(FULL_WARP, through, WARP - 1);
  return __shfl_sync(FULL_WARP, through - count, warp) + __popc(votes & ((1u << lane) - 1));
}

// In the counts of keys by 8 of their bits, which value the `wanted` largest one has; *left of them have that value or
// are wanted yet. By one warp: lane l holds the 8 bins from 255 - 8 l down. -1 for *left if there are fewer.
__device__ void find_bin(const int* bins, int wanted, int* bin_found, int* left) {
  int lane = threadIdx.x, sum = 0;
  for (int b = 0; b < 8; b++) sum += bins[255 - 8 * lane - b];
  int through = running_sum(sum);
  uint32 enough = __ballot_sync(FULL_WARP, through >= wanted);
  if (!enough && lane == 0) *left = -1;
  if (enough && lane == __ffs(enough) - 1) {
    int here = wanted - (through - sum), bin = 255 - 8 * lane;
    while (bins[bin] < here) here -= bins[bin--];
    *left = here;
    *bin_found = bin;
  }
}

// The `wanted` largest keys above 0 are those above the result and the first `*ties` equal to it (radix select).
template <typename Key> __device__ uint32 threshold(Key key_of, int m, int wanted, int* ties) {
  __shared__ int bins[256];
  __shared__ int bin, left;
  uint32 prefix = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    __syncthreads();
    if (threadIdx.x < 256) bins[threadIdx.x] = 0;
    __syncthreads();
    uint32 mask = shift == 24 ? 0 : 0xffffffffu << (shift + 8);
    for (int k = threadIdx.x; k < m; k += CHOOSERS) {
      uint32 key = key_of(k);
      if (key && (key & mask) == prefix) atomicAdd(&bins[key >> shift & 255], 1);
    }
    __syncthreads();
    if (threadIdx.x < WARP) find_bin(bins, wanted, &bin, &left);
    __syncthreads();
    if (left < 0) { // fewer than wanted: all that are above 0
      *ties = 0;
      return 0;
    }
    wanted = left;
    prefix |= (uint32)bin << shift;
  }
  *ties = wanted;
  return prefix;
}

// Mark the `wanted` largest keys, ties in order of their index; returns how many there were. Nobody may mark one whose
// key is read by another thread: key_of(k) and mark_of(k) look at nothing but k, and are called by one thread alone.
template <typename Key, typename Mark> __device__ int mark_largest(Key key_of, int m, int wanted, Mark mark_of) {
  int ties, all, marked = 0, seen = 0;
  uint32 least = threshold(key_of, m, wanted, &ties);
  for (int start = 0; start < m; start += CHOOSERS) {
    int k = start + threadIdx.x;
    uint32 key = k < m ? key_of(k) : 0;
    bool tie = key && key == least;
    int rank = seen + block_rank(tie, &all);
    seen += all;
    bool yes = key > least || (tie && rank < ties);
    if (yes) mark_of(k) = 1;
    marked += __syncthreads_count(yes);
  }
  return marked;
}

// Mark those of the `count` members, before number `end`, that entered in the last round: every other one of them if
// they are more than `half`. How many stay.
__device__ int mark_newcomers(const int* members, const int* entered, int count, int round, int half, int end,
                              uint8* marks) {
  int newcomers = 0, staying = 0;
  for (int p = threadIdx.x; p - (int)threadIdx.x < count; p += CHOOSERS)
    newcomers += __syncthreads_count(p < count && entered[members[p]] == round - 1);
  for (int p = threadIdx.x; p - (int)threadIdx.x < count; p += CHOOSERS) {
    bool stays = half && p < count && entered[members[p]] == round - 1 && (newcomers <= half || p % 2 == 0);
    stays = stays && p < end;
    if (stays) marks[members[p]] = 1;
    staying += __syncthreads_count(stays);
  }
  return staying;
}

// The set: who of the `candidates`, at(0), at(1), .., is marked, in order; how many. Marks are taken back.
template <typename At>
__device__ int place_members(uint8* marks, At at, int candidates, int round, int* entered, int* members) {
  int placed = 0, all;
  for (int start = 0; start < candidates; start += CHOOSERS) {
    int c = start + threadIdx.x, k = c < candidates ? at(c) : 0;
    bool yes = c < candidates && marks[k];
    int place = placed + block_rank(yes, &all);
    placed += all;
    if (c < candidates) {
      marks[k] = 0;
      entered[k] = !yes ? -1 : entered[k] < 0 ? round : entered[k];
    }
    if (yes) members[place] = k;
  }
  return placed;
}

// ---- of any block: a row of the tile, the kernel values of a member and all `count` members, up to `width` ----

__device__ __forceinline__ void gather_row(const float* __restrict__ row, const int* __restrict__ index,
                                           const int* __restrict__ members, int count, int width,
                                           float* __restrict__ tile_row) {
  for (int c = threadIdx.x; c < width; c += blockDim.x) tile_row[c] = c < count ? row[index[members[c]]] : 0;
}
