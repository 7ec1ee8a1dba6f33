// What solvers by working sets share: reductions of a block, who is chosen for a set, its tile of kernel values. Put
// in front of their .cu as text, after common.cuh. No result depends on the order in which threads run.

#define CHOOSERS 1024 // threads of the one block that chooses a set
#define EACH 4        // neighbours that each of them looks at between two barriers
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

__device__ __forceinline__ int warp_sum(int value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(FULL_WARP, value);
#else
  for (int step = WARP / 2; step; step /= 2) value += __shfl_xor_sync(FULL_WARP, value, step);
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

// The sum of the counts of the threads before this one; `all`: of the block.
__device__ int block_before(int count, int* all) {
  __shared__ int of_warp[CHOOSERS / WARP];
  int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, through = running_sum(count);
  __syncthreads();
  if (lane == WARP - 1) of_warp[warp] = through;
  __syncthreads();
  int sum = of_warp[lane], upto = running_sum(sum);
  *all = __shfl_sync(FULL_WARP, upto, WARP - 1);
  return __shfl_sync(FULL_WARP, upto - sum, warp) + through - count;
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

// The `wanted` largest keys above 0 are those above the result and the first `*ties` equal to it (radix select). The
// last `zeros` bits of keys are 0.
template <typename Key> __device__ uint32 threshold(Key key_of, int m, int wanted, int* ties, int zeros) {
  __shared__ int bins[256];
  __shared__ int bin, left;
  uint32 prefix = 0;
  for (int shift = 24; shift > zeros - 8; shift -= 8) {
    __syncthreads();
    if (threadIdx.x < 256) bins[threadIdx.x] = 0;
    __syncthreads();
    uint32 mask = shift == 24 ? 0 : 0xffffffffu << (shift + 8);
#pragma unroll 4
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
// key is read by another thread: key_of(k) looks at nothing but k, and is called by one thread alone.
template <typename Key>
__device__ int mark_largest(Key key_of, int m, int wanted, uint8* marks, int zeros = 0) {
  int ties, all, marked = 0, seen = 0;
  uint32 least = threshold(key_of, m, wanted, &ties, zeros);
  for (int start = 0; start < m; start += EACH * CHOOSERS) {
    int first = start + EACH * threadIdx.x, tied = 0;
    uint32 keys[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      keys[e] = first + e < m ? key_of(first + e) : 0;
      tied += keys[e] && keys[e] == least;
    }
    int rank = seen + block_before(tied, &all);
    seen += all;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      bool tie = keys[e] && keys[e] == least, yes = keys[e] > least || (tie && rank < ties);
      rank += tie;
      if (yes) marks[first + e] = 1;
      marked += yes;
    }
  }
  block_before(marked, &all);
  return all;
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

// The set: who is marked, in order; how many. Marks are taken back.
__device__ int place_members(uint8* marks, int m, int round, int* entered, int* members) {
  int placed = 0, all;
  for (int start = 0; start < m; start += EACH * CHOOSERS) {
    int first = start + EACH * threadIdx.x, count = 0;
    bool yes[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      yes[e] = first + e < m && marks[first + e];
      count += yes[e];
    }
    int place = placed + block_before(count, &all);
    placed += all;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      int k = first + e;
      if (k >= m) break;
      marks[k] = 0;
      entered[k] = !yes[e] ? -1 : entered[k] < 0 ? round : entered[k];
      if (yes[e]) members[place++] = k;
    }
  }
  return placed;
}

// ---- of any block: a row of the tile, the kernel values of a member and all `count` members, up to `width` ----

__device__ __forceinline__ void gather_row(const float* __restrict__ row, const int* __restrict__ index,
                                           const int* __restrict__ members, int count, int width,
                                           float* __restrict__ tile_row) {
  for (int c = threadIdx.x; c < width; c += blockDim.x) tile_row[c] = c < count ? row[index[members[c]]] : 0;
}
