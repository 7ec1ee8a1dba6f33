// Working sets of duals, each solved by one block, between passes of the whole chip over all variables. The algorithm,
// its names and the arrays: textsvm/solvers/smo_cuda.py.
//
//   THREADS, PER_THREAD   a working set has SET = THREADS * PER_THREAD variables; PER_THREAD is a multiple of 4
//
// A launch serves several problems side by side, each in a slot: its arrays of variables start at slot * stride, those
// of its working set at slot * SET, and nothing is shared but the Gram. Every kernel returns at once for a slot whose
// state[DONE] is set, so rounds can be launched ahead. No sum depends on the order in which threads run.

#define SET (THREADS * PER_THREAD)
#define WARPS (THREADS / WARP)
#define GROUPS (PER_THREAD / 4)
#define CHOOSERS 1024
#define TAU 1e-12f
#define INFINITE __longlong_as_double(0x7ff0000000000000LL)

// int64 state[]; PAUSED: pairs optimised so far of a set that is to be gone on with, else 0
enum { DONE, ROUND, ITERATIONS, COUNT, MOVED, STALLS, PAUSED, SIZE, LIMIT, BOUND, STATES };
enum { FIRST, LAST, DECREASE, TOL, FIGURES };                    // double figures[]
enum { RUNNING, CONVERGED, AT_BOUND, STALLED, NOT_FINITE };      // values of state[DONE]

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

// ---- choose: one block of CHOOSERS threads a slot ----

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

// How many threads before this one say yes; `all`: how many in the block.
__device__ int block_rank(bool yes, int* all) {
  __shared__ int of_warp[CHOOSERS / WARP];
  __syncthreads();
  uint32 votes = __ballot_sync(FULL_WARP, yes);
  int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  if (lane == 0) of_warp[warp] = __popc(votes);
  __syncthreads();
  int count = of_warp[lane], before = count;
  for (int step = 1; step < WARP; step *= 2) {
    int other = __shfl_up_sync(FULL_WARP, before, step);
    if (lane >= step) before += other;
  }
  *all = __shfl_sync(FULL_WARP, before, WARP - 1);
  return __shfl_sync(FULL_WARP, before - count, warp) + __popc(votes & ((1u << lane) - 1));
}

// The `wanted` largest keys above 0 are those above the result and the first `*ties` equal to it (radix select).
__device__ uint32 threshold(const uint32* keys, int m, int wanted, int* ties) {
  __shared__ int bins[256];
  __shared__ uint32 shared_prefix;
  __shared__ int shared_wanted;
  uint32 prefix = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    __syncthreads();
    if (threadIdx.x < 256) bins[threadIdx.x] = 0;
    __syncthreads();
    uint32 mask = shift == 24 ? 0 : 0xffffffffu << (shift + 8);
    for (int k = threadIdx.x; k < m; k += CHOOSERS)
      if (keys[k] && (keys[k] & mask) == prefix) atomicAdd(&bins[keys[k] >> shift & 255], 1);
    __syncthreads();
    if (threadIdx.x < WARP) {  // lane l holds the 8 bins from 255 - 8 l down
      int lane = threadIdx.x, sum = 0;
      for (int b = 0; b < 8; b++) sum += bins[255 - 8 * lane - b];
      int through = sum;
      for (int step = 1; step < WARP; step *= 2) {
        int other = __shfl_up_sync(FULL_WARP, through, step);
        if (lane >= step) through += other;
      }
      uint32 enough = __ballot_sync(FULL_WARP, through >= wanted);
      if (!enough && lane == 0) shared_wanted = -1;
      if (enough && lane == __ffs(enough) - 1) {
        int left = wanted - (through - sum), bin = 255 - 8 * lane;
        while (bins[bin] < left) left -= bins[bin--];
        shared_wanted = left;
        shared_prefix = prefix | (uint32)bin << shift;
      }
    }
    __syncthreads();
    if (shared_wanted < 0) {  // fewer than wanted: all that are above 0
      *ties = 0;
      return 0;
    }
    wanted = shared_wanted;
    prefix = shared_prefix;
  }
  *ties = wanted;
  return prefix;
}

// Mark the `wanted` largest keys, ties in order of their index; returns how many there were.
__device__ int mark_largest(const uint32* keys, int m, int wanted, uint8* marks) {
  int ties, all, marked = 0, seen = 0;
  uint32 least = threshold(keys, m, wanted, &ties);
  for (int start = 0; start < m; start += CHOOSERS) {
    int k = start + threadIdx.x;
    uint32 key = k < m ? keys[k] : 0;
    bool tie = key && key == least;
    int rank = seen + block_rank(tie, &all);
    seen += all;
    bool yes = key > least || (tie && rank < ties);
    if (yes) marks[k] = 1;
    marked += __syncthreads_count(yes);
  }
  return marked;
}

extern "C" __global__ void __launch_bounds__(CHOOSERS)
choose(int64 stride, const double* __restrict__ F, const double* __restrict__ coef, const double* __restrict__ low,
       const double* __restrict__ high, int* entered, uint8* marks, uint32* keys, int* members, int64* state,
       double* figures) {
  int64 slot = blockIdx.x;
  state += slot * STATES;
  if (state[DONE] || state[PAUSED]) return;
  F += slot * stride, coef += slot * stride, low += slot * stride, high += slot * stride;
  entered += slot * stride, marks += slot * stride, keys += slot * stride;
  members += slot * SET, figures += slot * FIGURES;
  int m = (int)state[SIZE], limit = (int)state[LIMIT];
  double first = -INFINITE, last = -INFINITE;
  bool bad = false;
  for (int k = threadIdx.x; k < m; k += CHOOSERS) {
    if (coef[k] < high[k]) first = fmax(first, -F[k]);
    if (coef[k] > low[k]) last = fmax(last, F[k]);
    bad |= !isfinite(F[k]);
  }
  first = block_max(first);
  last = -block_max(last);
  bad = __syncthreads_or(bad);
  int64 why = bad ? NOT_FINITE : first - last <= figures[TOL] ? CONVERGED : state[ITERATIONS] >= state[BOUND] ? AT_BOUND
              : state[STALLS] >= 8 ? STALLED : RUNNING;
  int round = (int)state[ROUND], count = (int)state[COUNT];
  __syncthreads();
  if (threadIdx.x == 0) {
    figures[FIRST] = first;
    figures[LAST] = last;
    state[DONE] = why;
    state[ROUND] = round + 1;
  }
  if (why) return;

  // Who entered in the last round stays for this one, every other one of them if they are more than half.
  int half = limit < 4 ? 0 : limit / 2, newcomers = 0, kept = 0;
  for (int p = threadIdx.x; p - (int)threadIdx.x < count; p += CHOOSERS)
    newcomers += __syncthreads_count(p < count && entered[members[p]] == round - 1);
  for (int p = threadIdx.x; p - (int)threadIdx.x < count; p += CHOOSERS) {
    bool stays = half && p < count && entered[members[p]] == round - 1 && (newcomers <= half || p % 2 == 0);
    if (stays) marks[members[p]] = 1;
    kept += __syncthreads_count(stays);
  }
  // Then the worst violators on either side.
  for (int k = threadIdx.x; k < m; k += CHOOSERS) {
    double by = -F[k] - last;
    keys[k] = !marks[k] && coef[k] < high[k] && by > 0 ? __float_as_uint((float)by) : 0;
  }
  __syncthreads();
  kept += mark_largest(keys, m, (limit - kept + 1) / 2, marks);
  __syncthreads();
  for (int k = threadIdx.x; k < m; k += CHOOSERS) {
    double by = first + F[k];
    keys[k] = !marks[k] && coef[k] > low[k] && by > 0 ? __float_as_uint((float)by) : 0;
  }
  __syncthreads();
  mark_largest(keys, m, limit - kept, marks);
  __syncthreads();

  int placed = 0, all;
  for (int start = 0; start < m; start += CHOOSERS) {
    int k = start + threadIdx.x;
    bool yes = k < m && marks[k];
    int place = placed + block_rank(yes, &all);
    placed += all;
    if (k < m) {
      marks[k] = 0;
      entered[k] = !yes ? -1 : entered[k] < 0 ? round : entered[k];
    }
    if (yes) members[place] = k;
  }
  if (threadIdx.x == 0) state[COUNT] = placed;
}

// ---- gather: some blocks a slot (y); tile[r][c] = K(member r, member c) ----

extern "C" __global__ void gather(int64 stride, const float* __restrict__ buffer, int64 n,
                                  const int* __restrict__ slots, const int* __restrict__ index,
                                  const int* __restrict__ members, const int64* __restrict__ state,
                                  float* __restrict__ tile) {
  int64 slot = blockIdx.y;
  state += slot * STATES;
  if (state[DONE] || state[PAUSED]) return;
  index += slot * stride, members += slot * SET, tile += slot * SET * SET;
  int count = (int)state[COUNT];
  for (int r = blockIdx.x; r < count; r += gridDim.x) {
    const float* row = buffer + slots[index[members[r]]] * n;
    for (int c = threadIdx.x; c < SET; c += blockDim.x) tile[r * SET + c] = c < count ? row[index[members[c]]] : 0;
  }
}

// ---- solve_set: one block of THREADS threads a slot ----

#define PART(row, e) ((e) % 4 == 0 ? row[(e) / 4].x : (e) % 4 == 1 ? row[(e) / 4].y \
                      : (e) % 4 == 2 ? row[(e) / 4].z : row[(e) / 4].w)

// A key holds the number of its variable in its last bits: the maximum of keys says both. What that takes from the
// value, 2^-13 of it, matters little to a choice.
#define AT_BITS (SET - 1)
static_assert((SET & AT_BITS) == 0, "SET is a power of two");

__device__ __forceinline__ float narrow(double value) {  // one instruction; (float) would flush denormals itself
  float result;
  asm("cvt.rn.f32.f64 %0, %1;" : "=f"(result) : "d"(value));
  return result;
}

// The largest key of the block, through one word a warp; `best` of the warp that has it is written beside it.
#define LARGEST(top, key, mine, keys, best)        \
  top = warp_max(key);                             \
  if (lane == 0) keys[warp] = top;                 \
  if (key && key == top) best[warp] = mine;        \
  __syncthreads();                                 \
  top = warp_max(lane < WARPS ? keys[lane] : 0);

struct Shared {  // one address that stays in a register
  double coef[SET], low[SET], high[SET];
  float2 best_j[WARPS];
  float diag[SET], best_i[WARPS];
  uint32 keys_i[WARPS], keys_j[WARPS], widths[WARPS];
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
solve_set(int64 stride, double share, float relaxation, int burst, int most, const int* __restrict__ slots,
          const int* __restrict__ index, const int* __restrict__ members, const float* __restrict__ diag,
          const double* __restrict__ all_low, const double* __restrict__ all_high, const double* __restrict__ all_F,
          const float* __restrict__ tile, double* all_coef, double* moved, int* moved_slots, int64* state,
          double* figures) {
  __shared__ Shared set;
  int64 slot = blockIdx.x;
  state += slot * STATES;
  if (state[DONE]) return;
  index += slot * stride, all_low += slot * stride, all_high += slot * stride, all_F += slot * stride;
  all_coef += slot * stride, members += slot * SET, tile += slot * SET * SET, moved += slot * SET;
  moved_slots += slot * SET, figures += slot * FIGURES;
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));  // in a register: threadIdx.x is read anew, and slowly
  int count = (int)state[COUNT], lane = thread % WARP, warp = thread / WARP;
  // This thread's variables: e = 4 g + c is number 4 (g THREADS + thread) + c of the set.
#define AT(e) (4 * ((e) / 4 * THREADS + thread) + (e) % 4)
#define THREAD_OF(at) ((at) / 4 % THREADS)
#define BIT_OF(at) (1u << ((at) / 4 / THREADS * 4 + (at) % 4))
  // f: responses less those halfway between FIRST and LAST, where those of free variables are going.
  double middle = 0.5 * (figures[FIRST] + figures[LAST]);
  float f[PER_THREAD], own_diag[PER_THREAD];
  uint32 up = 0, down = 0;  // bit e: the variable can grow, can shrink
#pragma unroll
  for (int e = 0; e < PER_THREAD; e++) {
    int at = AT(e), k = at < count ? members[at] : 0;
    f[e] = narrow(all_F[k] + middle);
    set.coef[at] = at < count ? all_coef[k] : 0;
    set.low[at] = at < count ? all_low[k] : 0;
    set.high[at] = at < count ? all_high[k] : 0;
    set.diag[at] = own_diag[e] = at < count ? diag[index[k]] : 0;
    up |= (uint32)(set.coef[at] < set.high[at]) << e;
    down |= (uint32)(set.coef[at] > set.low[at]) << e;
  }
  double decrease = 0, coef_i = 0, coef_j = 0;
  double wide = figures[FIRST] - figures[LAST];
  double tol = 0.99 * figures[TOL];
  float enough = state[LIMIT] == state[SIZE] ? (float)tol : (float)fmax(tol, share * wide);
  int64 left = state[BOUND] - state[ITERATIONS];
  int before = (int)state[PAUSED], done = 0, limit = left < burst ? (int)left : burst, at_i = -1, at_j = -1;
  const float4* rows = (const float4*)tile + thread;
  for (;;) {
    // i: the largest -f that can grow.
    uint32 key = 0;
    float mine = 0;
#pragma unroll
    for (int e = 0; e < PER_THREAD; e++) {
      uint32 now = (ordered(-f[e]) & ~AT_BITS) | AT(e);
      now = up >> e & 1 ? now : 0;
      mine = now > key ? f[e] : mine;
      key = max(key, now);
    }
    uint32 top;
    LARGEST(top, key, mine, set.keys_i, set.best_i)
    // Between two barriers where nobody reads them: what the last step made of its pair.
    if (thread == 0 && done) set.coef[at_i] = coef_i, set.coef[at_j] = coef_j;
    if (!top || done == limit) break;
    at_i = top & AT_BITS;
    float4 row_i[GROUPS], row_j[GROUPS];
#pragma unroll
    for (int g = 0; g < GROUPS; g++) row_i[g] = rows[at_i * (SET / 4) + g * THREADS];
    float f_i = set.best_i[THREAD_OF(at_i) / WARP], diag_i = set.diag[at_i];

    // j: the largest (f_j - f_i)^2 / curvature of those that can shrink.
    float widest = 0;
    float2 pair = {0, 0};
    key = 0;
#pragma unroll
    for (int e = 0; e < PER_THREAD; e++) {
      float gap = fmaxf(f[e] - f_i, 0.0f);
      gap = down >> e & 1 ? gap : 0;
      float curvature = fmaxf(diag_i + own_diag[e] - 2 * PART(row_i, e), TAU);
      float step = __fdividef(gap, curvature);
      uint32 now = (__float_as_uint(step * gap) & ~AT_BITS) | AT(e);
      widest = fmaxf(widest, gap);
      pair.x = now > key ? step : pair.x;
      pair.y = now > key ? gap : pair.y;
      key = max(key, now);
    }
    LARGEST(top, key, pair, set.keys_j, set.best_j)
    if (top <= AT_BITS) break;
    at_j = top & AT_BITS;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) row_j[g] = rows[at_j * (SET / 4) + g * THREADS];
    pair = set.best_j[THREAD_OF(at_j) / WARP];
    float wish = before + done < SET ? pair.x : relaxation * pair.x;
    if (pair.y <= enough) {  // then the widest gap may be no wider
      uint32 width = warp_max(__float_as_uint(widest));
      if (lane == 0) set.widths[warp] = width;
      __syncthreads();
      if (__uint_as_float(warp_max(lane < WARPS ? set.widths[lane] : 0)) <= enough) break;
    }

    // The step, alike in every thread.
    double old_i = set.coef[at_i], old_j = set.coef[at_j], room_i = set.high[at_i] - old_i, room_j = old_j - set.low[at_j];
    float by = fminf(wish, fminf(narrow(room_i), narrow(room_j)));
#pragma unroll
    for (int e = 0; e < PER_THREAD; e++) f[e] += by * (PART(row_i, e) - PART(row_j, e));
    double step = wish, room = room_i < room_j ? room_i : room_j;
    step = step < room ? step : room;
    coef_i = step >= room_i ? set.high[at_i] : old_i + step;
    coef_j = step >= room_j ? set.low[at_j] : old_j - step;
    if (thread == THREAD_OF(at_i)) {
      up = coef_i < set.high[at_i] ? up | BIT_OF(at_i) : up & ~BIT_OF(at_i);
      down |= BIT_OF(at_i);
    }
    if (thread == THREAD_OF(at_j)) {
      down = coef_j > set.low[at_j] ? down | BIT_OF(at_j) : down & ~BIT_OF(at_j);
      up |= BIT_OF(at_j);
    }
    if (coef_i == old_i && coef_j == old_j) break;  // below float64
    decrease += step * (double)pair.y;  // at most 5 times what it is
    done++;
  }

  // What has changed, in the order of the set.
  __shared__ int of_chunk[SET / WARP + 1];
  __shared__ double change[SET];
  __syncthreads();
  for (int at = threadIdx.x; at < SET; at += THREADS) {
    change[at] = 0;
    if (at < count) {
      change[at] = set.coef[at] - all_coef[members[at]];
      all_coef[members[at]] = set.coef[at];
    }
  }
  __syncthreads();
  for (int chunk = warp; chunk < SET / WARP; chunk += WARPS) {
    uint32 votes = __ballot_sync(FULL_WARP, change[chunk * WARP + lane] != 0);
    if (lane == 0) of_chunk[chunk + 1] = __popc(votes);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    of_chunk[0] = 0;
    for (int chunk = 0; chunk < SET / WARP; chunk++) of_chunk[chunk + 1] += of_chunk[chunk];
    state[MOVED] = of_chunk[SET / WARP];
    state[ITERATIONS] += done;
    state[PAUSED] = done == burst && before + done < most ? before + done : 0;
    bool idle = !done || decrease <= 1e-15 * figures[DECREASE];
    state[STALLS] = idle ? state[STALLS] + 1 : 0;
    figures[DECREASE] += decrease;
  }
  __syncthreads();
  for (int chunk = warp; chunk < SET / WARP; chunk += WARPS) {
    int at = chunk * WARP + lane;
    uint32 votes = __ballot_sync(FULL_WARP, change[at] != 0);
    if (change[at] != 0) {
      int place = of_chunk[chunk] + __popc(votes & ((1u << lane) - 1));
      moved[place] = change[at];
      moved_slots[place] = slots[index[members[at]]];
    }
  }
}

// ---- update: F += K change, of all variables of all slots; blocks of 32 variables x SHARES warps, each a share of the
// rows. The slots' blocks for the same variables run at the same time: problems that share rows find them in the L2. ----

#define SHARES 16

extern "C" __global__ void __launch_bounds__(WARP * SHARES)
update(int64 stride, int problems, const float* __restrict__ buffer, int64 n, const int* __restrict__ index,
       const double* __restrict__ moved, const int* __restrict__ moved_slots, const int64* __restrict__ state,
       double* __restrict__ F) {
  __shared__ double sums[SHARES][WARP];
  int64 slot = blockIdx.x % problems;
  state += slot * STATES;
  int lane = threadIdx.x % WARP, share = threadIdx.x / WARP, k = blockIdx.x / problems * WARP + lane;
  int m = (int)state[SIZE], rows = (int)state[MOVED];
  if (state[DONE] || k - lane >= m) return;
  moved += slot * SET, moved_slots += slot * SET;
  const float* column = buffer + (k < m ? index[slot * stride + k] : 0);
  double sum = 0;
#pragma unroll 8
  for (int r = share; r < rows; r += SHARES) sum += moved[r] * (double)column[moved_slots[r] * n];
  sums[share][lane] = sum;
  __syncthreads();
  if (share == 0 && k < m) {
    for (int s = 1; s < SHARES; s++) sum += sums[s][lane];
    F[slot * stride + k] += sum;
  }
}
