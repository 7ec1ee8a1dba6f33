// The multiclass dual of Crammer and Singer: working sets of examples, solved by one block, between passes of the whole
// chip over all examples. The algorithm and its names: textsvm/solvers/crammer_singer.py; the rounds and the arrays:
// crammer_singer_cuda.py.
//
//   SET        examples of a working set, 4 * THREADS
//   PER_LANE   classes are at most 32 * PER_LANE: a warp holds those of one example
//   ON_CHIP    1: the set's gradients are in shared memory, (k + 1) * STRIDE floats; 0: in `set_g`, through the L1
//
// Every kernel returns at once when state[DONE] is set, so rounds can be launched ahead. No sum depends on the order
// in which threads run.

#define THREADS (SET / 4)
#define WARPS (THREADS / WARP)
#define STRIDE (SET + 4)  // between classes: a column of classes is then spread over the banks
#define CHOOSERS 1024
#define COARSE 12
#define TAU 1e-12f
#define SWEEP 0.3f
#define INFINITE __longlong_as_double(0x7ff0000000000000LL)
#define INFINITE_F __int_as_float(0x7f800000)
#define NO_NUMBER 0xffffffffu
#define MOST_STALLS 10  // rounds without progress

enum { DONE, ROUND, ITERATIONS, COUNT, MOVED, STALLS };          // int64 state[]
enum { VIOLATION, OBJECTIVE, GAP, LEAST_VIOLATION, LEAST };      // double figures[]
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

__device__ __forceinline__ float unordered(uint32 key) {
  return __uint_as_float(key & 0x80000000 ? key ^ 0x80000000 : ~key);
}

// ---- measure: a thread an example; its violation as a key, the middle of its gradients, its part of -D and P - D ----

extern "C" __global__ void measure(int m, int k, const double* __restrict__ G, const double* __restrict__ coef,
                                   const double* __restrict__ upper, const int* __restrict__ target, uint32* keys,
                                   double* middle, double* objective, double* gap, const int64* state) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (state[DONE] || c >= m) return;
  double top = -INFINITE, low = INFINITE, slope = 0, bound = upper[c];
  int own = target[c];
  bool bad = false;
#pragma unroll 4
  for (int r = 0; r < k; r++) {
    double g = G[(int64)r * m + c], a = coef[(int64)r * m + c];
    top = fmax(top, g);
    if (a < (r == own ? bound : 0)) low = fmin(low, g);
    slope += a * g;
    bad |= !isfinite(g);
  }
  keys[c] = bad ? NO_NUMBER : __float_as_uint(fmaxf(__double2float_ru(top - low), 0.0f));
  middle[c] = low < INFINITE ? 0.5 * (top + low) : top;
  objective[c] = 0.5 * (slope - coef[(int64)own * m + c]);
  gap[c] = slope + bound * (top - G[(int64)own * m + c]);
}

// ---- choose: one block of CHOOSERS threads ----

// A choice needs no more than the first bits of a violation; it stays above 0.
__device__ __forceinline__ uint32 key_of(uint32 key) { return (key + ((1u << COARSE) - 1)) >> COARSE; }

// How many threads before this one say yes; `all`: how many in the block.
__device__ int block_rank(bool yes, int* all) {
  __shared__ int of_warp[CHOOSERS / WARP];
  __syncthreads();
  uint32 votes = __ballot_sync(FULL_WARP, yes);
  int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  if (lane == 0) of_warp[warp] = __popc(votes);
  __syncthreads();
  int before = 0, total = 0;
  for (int w = 0; w < CHOOSERS / WARP; w++) {
    before += w < warp ? of_warp[w] : 0;
    total += of_warp[w];
  }
  *all = total;
  return before + __popc(votes & ((1u << lane) - 1));
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

__device__ int block_count(int count) {
  __shared__ int of_warp[CHOOSERS / WARP];
  __syncthreads();
  for (int step = WARP / 2; step; step /= 2) count += __shfl_xor_sync(FULL_WARP, count, step);
  if (threadIdx.x % WARP == 0) of_warp[threadIdx.x / WARP] = count;
  __syncthreads();
  count = of_warp[threadIdx.x % WARP];
  for (int step = WARP / 2; step; step /= 2) count += __shfl_xor_sync(FULL_WARP, count, step);
  return count;
}

extern "C" __global__ void __launch_bounds__(CHOOSERS)
choose(int m, int limit, double tol, double gap_bound, int64 bound, const uint32* __restrict__ keys,
       const double* __restrict__ objective, const double* __restrict__ gap, int* entered, uint8* marks, int* members,
       int64* state, double* figures) {
  if (state[DONE]) return;
  uint32 worst = 0;
  double objectives = 0, gaps = 0;
  for (int c = threadIdx.x; c < m; c += CHOOSERS) {
    worst = max(worst, keys[c]);
    objectives += objective[c];
    gaps += gap[c];
  }
  __shared__ uint32 of_warp[CHOOSERS / WARP];
  worst = warp_max(worst);
  if (threadIdx.x % WARP == 0) of_warp[threadIdx.x / WARP] = worst;
  objectives = block_sum(objectives);
  gaps = block_sum(gaps);
  worst = warp_max(of_warp[threadIdx.x % WARP]);
  double both = fabs(gaps - 2 * objectives);
  // Progress is a lower objective, or else a smaller violation than ever before.
  double violation = __uint_as_float(worst);
  bool start = state[ROUND] == 0, progress = start || objectives < figures[LEAST] - 1e-14 * fabs(figures[LEAST])
                                             || violation < figures[LEAST_VIOLATION];
  int64 stalls = progress ? 0 : state[STALLS] + 1;
  int64 why = worst == NO_NUMBER ? NOT_FINITE : violation <= tol ? CONVERGED
              : gap_bound >= 0 && 2 * gaps <= 0.999999 * gap_bound * both ? CONVERGED
              : state[ITERATIONS] >= bound ? AT_BOUND : stalls >= MOST_STALLS ? STALLED : RUNNING;
  int round = (int)state[ROUND], count = (int)state[COUNT];
  __syncthreads();
  if (threadIdx.x == 0) {
    figures[VIOLATION] = violation;
    figures[OBJECTIVE] = objectives;
    figures[GAP] = gaps;
    figures[LEAST] = start ? objectives : fmin(figures[LEAST], objectives);
    figures[LEAST_VIOLATION] = start ? violation : fmin(figures[LEAST_VIOLATION], violation);
    state[STALLS] = stalls;
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
    stays = stays && p / 2 < half;
    if (stays) marks[members[p]] = 1;
    kept += __syncthreads_count(stays);
  }
  // Then the worst violators: the first bits of the key of the last of them, one by one.
  int wanted = limit - kept;
  uint32 least = 0;
  for (int bit = 30 - COARSE; bit >= 0; bit--) {
    uint32 trial = least | 1u << bit;
    if (trial > key_of(worst)) continue;
    int enough = 0;
#pragma unroll 4
    for (int c = threadIdx.x; c < m; c += CHOOSERS) enough += !marks[c] && key_of(keys[c]) >= trial;
    if (block_count(enough) >= wanted) least = trial;
  }
  int above = 0;
  for (int c = threadIdx.x; c < m; c += CHOOSERS) above += !marks[c] && key_of(keys[c]) > least;
  int ties = wanted - block_count(above), seen = 0, placed = 0, all;
  for (int start = 0; start < m; start += CHOOSERS) {
    int c = start + threadIdx.x;
    bool stays = c < m && marks[c], tie = c < m && !stays && least && key_of(keys[c]) == least;
    int rank = seen + block_rank(tie, &all);
    seen += all;
    bool yes = stays || (c < m && key_of(keys[c]) > least) || (tie && rank < ties);
    int place = placed + block_rank(yes, &all);
    placed += all;
    if (c < m) {
      marks[c] = 0;
      entered[c] = !yes ? -1 : entered[c] < 0 ? round : entered[c];
    }
    if (yes) members[place] = c;
  }
  if (threadIdx.x == 0) state[COUNT] = placed;
}

// ---- gather: SET blocks; what the set needs, a block an example ----

extern "C" __global__ void gather(int m, int k, const float* __restrict__ buffer, int64 n,
                                  const int* __restrict__ slots, const int* __restrict__ index,
                                  const int* __restrict__ members, const double* __restrict__ G,
                                  const double* __restrict__ coef, const double* __restrict__ upper,
                                  const int* __restrict__ target, const double* __restrict__ middle,
                                  const int64* __restrict__ state, float* __restrict__ tile, float* __restrict__ set_g,
                                  uint32* __restrict__ grows, double* __restrict__ set_a) {
  if (state[DONE]) return;
  int count = (int)state[COUNT], at = blockIdx.x, e = at < count ? members[at] : -1;
  if (e >= 0) {
    const float* row = buffer + slots[index[e]] * n;
    for (int c = threadIdx.x; c < SET; c += blockDim.x) tile[at * SET + c] = c < count ? row[index[members[c]]] : 0;
  }
  for (int r = threadIdx.x; r - (int)threadIdx.x % WARP < k; r += blockDim.x) {
    bool here = e >= 0 && r < k;
    double a = here ? coef[(int64)r * m + e] : 0, bound = here && target[e] == r ? upper[e] : 0;
    uint32 votes = __ballot_sync(FULL_WARP, here && a < bound);
    if (r < k) {
      set_g[r * STRIDE + at] = here ? (float)(G[(int64)r * m + e] - middle[e]) : 0;
      set_a[at * k + r] = a;
    }
    if (r % WARP == 0) grows[r / WARP * STRIDE + at] = votes;
  }
}

// ---- solve_set: one block of THREADS threads ----

__device__ __forceinline__ float4 plus(float4 a, float by, float4 b) {
  return {a.x + by * b.x, a.y + by * b.y, a.z + by * b.z, a.w + by * b.w};
}

// The sum over a warp of values that only lanes below 2 * half hold; right in those lanes.
template <typename T> __device__ __forceinline__ T lanes_sum(T value, int half) {
  for (int step = half; step; step /= 2) value += __shfl_xor_sync(FULL_WARP, value, step);
  return value;
}

struct Shared {
  double upper[SET];
  int4 change_class[8 * PER_LANE + 1];  // what the step changes, in fours: class and by how much
  float4 change[8 * PER_LANE + 1];
  float diag[SET];
  int own[SET], todo[SET];
  int changes, of_warp[WARPS];
  uint32 widest[WARPS];
  uint8 changed[SET];
};

// The step of example `at`, by one warp: new coefficients, and in `set` the list of what has changed. Arrays over a
// lane's classes r = lane + 32 q: a the coefficients. Their sum is 0 to float32; `put` makes it 0 to float64.
__device__ __forceinline__ void step_of(Shared& set, int at, int k, int half, float least, float relaxation,
                                        const float* g_of, uint32* grows, double* set_a, const double* a) {
  int lane = threadIdx.x % WARP, own = set.own[at];
  double bound = set.upper[at];
  float wish[PER_LANE], room[PER_LANE], sum = 0, top = -INFINITE_F, low = INFINITE_F;
  float by = relaxation / fmaxf(set.diag[at], TAU);
#pragma unroll
  for (int q = 0; q < PER_LANE; q++) {
    int r = lane + WARP * q;
    float g = r < k ? g_of[r * STRIDE + at] : 0;
    room[q] = r < k ? (float)((r == own ? bound : 0.0) - a[q]) : 0;
    wish[q] = r < k ? -by * g : 0;
    sum += wish[q];
    if (r < k) top = fmaxf(top, g);
    if (r < k && room[q] > 0) low = fminf(low, g);
  }
  top = unordered(warp_max(ordered(top)));
  low = -unordered(warp_max(ordered(-low)));
  if (lane == 0) set.changes = 0;
  if (!(top - low > least)) return;

  // The shift where the changes min(room, wish + shift) sum to 0: Newton's method, the sum being concave in it. It
  // begins at 0, near which it is, or at minus infinity; after one step it comes from the left, and classes only leave.
  float shift = 0, all = sum;
  int free = 0;
  for (int pass = 0;; pass++) {
    int count = 0;
    sum = 0;
#pragma unroll
    for (int q = 0; q < PER_LANE; q++) {
      bool below = wish[q] + shift < room[q] && lane + WARP * q < k;
      count += __popc(__ballot_sync(FULL_WARP, below && lane < 2 * half));
      sum += below ? wish[q] : room[q];
    }
    if (pass == 0 && count == 0) count = k, sum = all;
    if (count == 0 || count == free || (pass > 1 && count > free)) break;
    free = count;
    shift = -lanes_sum(sum, half) / count;
  }
  double next[PER_LANE];
  bool full = false, some = false;
#pragma unroll
  for (int q = 0; q < PER_LANE; q++) {
    int r = lane + WARP * q;
    bool below = wish[q] + shift < room[q];
    double limit = r == own ? bound : 0;
    next[q] = below && r < k ? fmin(a[q] + (double)(wish[q] + shift), limit) : limit;
    full |= r == own && !below;
    some |= next[q] < 0 && r != own;
  }
  full = __any_sync(FULL_WARP, full && lane < 2 * half);
  if (full && !__any_sync(FULL_WARP, some && lane < 2 * half)) {
    // The shift was lost in rounding: all to the other class with the largest gradient.
    float worst = INFINITE_F;
    int which = k;
#pragma unroll
    for (int q = 0; q < PER_LANE; q++) {
      int r = lane + WARP * q;
      if (r < k && r != own && wish[q] < worst) worst = wish[q], which = r;
    }
    bool mine = ordered(-worst) == warp_max(ordered(-worst));
    which = (int)~warp_max(mine ? ~(uint32)which : 0);
#pragma unroll
    for (int q = 0; q < PER_LANE; q++)
      if (lane + WARP * q == which) next[q] = -bound;
  }
  int changes = 0;
  float* change_of = (float*)set.change;
  int* class_of = (int*)set.change_class;
#pragma unroll
  for (int q = 0; q < PER_LANE; q++) {
    int r = lane + WARP * q;
    double change = r < k ? next[q] - a[q] : 0;
    uint32 votes = __ballot_sync(FULL_WARP, change != 0);
    uint32 growing = __ballot_sync(FULL_WARP, r < k && next[q] < (r == own ? bound : 0.0));
    if (change != 0) {
      int place = changes + __popc(votes & ((1u << lane) - 1));
      class_of[place] = r;
      change_of[place] = (float)change;
      set_a[at * k + r] = next[q];
    }
    if (lane == 0 && WARP * q < k) grows[q * STRIDE + at] = growing;
    changes += __popc(votes);
  }
  if (lane < 3) class_of[changes + lane] = k, change_of[changes + lane] = 0;  // up to a four
  if (lane == 0) {
    set.changes = changes;
    if (changes) set.changed[at] = 1;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
solve_set(int k, double tol, double share, float relaxation, int most, int64 bound, int whole,
          const int* __restrict__ members, const double* __restrict__ upper, const int* __restrict__ target,
          const float* __restrict__ tile, float* set_g, uint32* set_grows, double* set_a, int* places, int64* state,
          const double* __restrict__ figures) {
  __shared__ Shared set;
  if (state[DONE]) return;
  int thread = threadIdx.x, lane = thread % WARP, warp = thread / WARP, words = (k + WARP - 1) / WARP;
  int count = (int)state[COUNT], half = 1;
  while (2 * half < k && 2 * half < WARP) half *= 2;
#if ON_CHIP
  extern __shared__ float4 chip[];
  float* g_of = (float*)chip;
  uint32* grows = (uint32*)(g_of + (k + 1) * STRIDE);
  for (int p = thread; p < k * (STRIDE / 4); p += THREADS) chip[p] = ((const float4*)set_g)[p];
  for (int p = thread; p < words * STRIDE; p += THREADS) grows[p] = set_grows[p];
#else
  float* g_of = set_g;
  uint32* grows = set_grows;
#endif
  for (int at = thread; at < SET; at += THREADS) {
    int e = at < count ? members[at] : -1;
    set.upper[at] = e < 0 ? 0 : upper[e];
    set.own[at] = e < 0 ? 0 : target[e];
    set.diag[at] = e < 0 ? 0 : tile[at * SET + at];
    set.changed[at] = 0;
  }
  __syncthreads();
  float4* mine = (float4*)g_of + thread;  // examples 4 thread .. 4 thread + 3
  const uint4* mine_grow = (const uint4*)grows + thread;
  const float4* rows = (const float4*)tile + thread;
  float enough = whole ? (float)(0.99 * tol) : (float)fmax(0.99 * tol, share * figures[VIOLATION]);
  int64 left = bound - state[ITERATIONS];
  int limit = left < most ? (int)left : most, done = 0;
  for (bool moved = true; moved && done < limit;) {
    // The violations of all, and who is above half of the worst.
    float4 top = {-INFINITE_F, -INFINITE_F, -INFINITE_F, -INFINITE_F};
    float4 low = {INFINITE_F, INFINITE_F, INFINITE_F, INFINITE_F};
    for (int word = 0; word < words; word++) {
      uint4 bits = mine_grow[word * (STRIDE / 4)];
      for (int r = WARP * word; r < k && r < WARP * (word + 1); r++) {
        float4 g = mine[r * (STRIDE / 4)];
        top.x = fmaxf(top.x, g.x), top.y = fmaxf(top.y, g.y), top.z = fmaxf(top.z, g.z), top.w = fmaxf(top.w, g.w);
        if (bits.x & 1) low.x = fminf(low.x, g.x);
        if (bits.y & 1) low.y = fminf(low.y, g.y);
        if (bits.z & 1) low.z = fminf(low.z, g.z);
        if (bits.w & 1) low.w = fminf(low.w, g.w);
        bits.x >>= 1, bits.y >>= 1, bits.z >>= 1, bits.w >>= 1;
      }
    }
    float wide[4] = {fmaxf(top.x - low.x, 0.0f), fmaxf(top.y - low.y, 0.0f), fmaxf(top.z - low.z, 0.0f),
                     fmaxf(top.w - low.w, 0.0f)};
    float widest = fmaxf(fmaxf(wide[0], wide[1]), fmaxf(wide[2], wide[3]));
    uint32 key = warp_max(__float_as_uint(widest));
    if (lane == 0) set.widest[warp] = key;
    __syncthreads();
    widest = __uint_as_float(warp_max(lane < WARPS ? set.widest[lane] : 0));
    if (!(widest > enough)) break;
    float least = fmaxf(enough, SWEEP * widest);
    int own_count = 0;
    for (int e = 0; e < 4; e++) own_count += wide[e] > least;
    int through = own_count;
    for (int step = 1; step < WARP; step *= 2) {
      int other = __shfl_up_sync(FULL_WARP, through, step);
      if (lane >= step) through += other;
    }
    if (lane == WARP - 1) set.of_warp[warp] = through;
    __syncthreads();
    int place = through - own_count, todo = 0;
    for (int w = 0; w < WARPS; w++) {
      place += w < warp ? set.of_warp[w] : 0;
      todo += set.of_warp[w];
    }
    for (int e = 0; e < 4; e++)
      if (wide[e] > least) set.todo[place++] = 4 * thread + e;
    __syncthreads();

    moved = false;
    double a[PER_LANE] = {}, a_next[PER_LANE] = {};
    int at = set.todo[0];
    float4 row = rows[at * (SET / 4)], row_next = row;
    if (warp == 0)
      for (int q = 0; q < PER_LANE; q++) a[q] = lane + WARP * q < k ? set_a[at * k + lane + WARP * q] : 0;
    for (int t = 0; t < todo && done < limit; t++) {
      int next = set.todo[t + 1 < todo ? t + 1 : t];
      row_next = rows[next * (SET / 4)];
      if (warp == 0) {
        for (int q = 0; q < PER_LANE; q++) a_next[q] = lane + WARP * q < k ? set_a[next * k + lane + WARP * q] : 0;
        step_of(set, at, k, half, least, done < SET ? 1.0f : relaxation, g_of, grows, set_a, a);
      }
      __syncthreads();
      int changes = set.changes;
      for (int p = 0; 4 * p < changes; p++) {  // row k takes what fills the last four up
        int4 r = set.change_class[p];
        float4 by = set.change[p];
        float4 *g0 = mine + r.x * (STRIDE / 4), *g1 = mine + r.y * (STRIDE / 4), *g2 = mine + r.z * (STRIDE / 4),
               *g3 = mine + r.w * (STRIDE / 4);
        float4 now0 = *g0, now1 = *g1, now2 = *g2, now3 = *g3;
        *g0 = plus(now0, by.x, row), *g1 = plus(now1, by.y, row), *g2 = plus(now2, by.z, row);
        *g3 = plus(now3, by.w, row);
      }
      moved |= changes > 0;
      done += changes > 0;
      at = next;
      row = row_next;
      for (int q = 0; q < PER_LANE; q++) a[q] = a_next[q];
      __syncthreads();
    }
  }

  // Where the changes of each example go, in the order of the set.
  __syncthreads();
  if (warp == 0) {
    int placed = 0;
    for (int start = 0; start < SET; start += WARP) {
      bool yes = set.changed[start + lane];
      uint32 votes = __ballot_sync(FULL_WARP, yes);
      places[start + lane] = yes ? placed + __popc(votes & ((1u << lane) - 1)) : -1;
      placed += __popc(votes);
    }
    if (lane == 0) {
      state[MOVED] = placed;
      state[ITERATIONS] += done;
    }
  }
}

// ---- put: SET blocks of a warp; the changes, moved[place][k_padded], and the coefficients themselves ----

extern "C" __global__ void put(int m, int k, int k_padded, const int* __restrict__ slots, const int* __restrict__ index,
                               const int* __restrict__ members, const int* __restrict__ places,
                               const double* __restrict__ upper, const int* __restrict__ target,
                               const double* __restrict__ set_a, const int64* __restrict__ state,
                               double* __restrict__ coef, double* __restrict__ moved, int* __restrict__ moved_slots) {
  int at = blockIdx.x;
  if (state[DONE] || at >= state[COUNT] || places[at] < 0) return;
  int e = members[at], place = places[at], own = target[e];
  double others = 0, bound = upper[e];
  for (int r = threadIdx.x; r < k; r += WARP) others -= r == own ? 0 : set_a[at * k + r];
  others = lanes_sum(others, WARP / 2);
  bool full = others > 0 && (others >= bound || set_a[at * k + own] >= bound);
  double scale = full ? bound / others : 1;
  for (int r = threadIdx.x; r < k_padded; r += WARP) {
    double change = 0;
    if (r < k) {
      double next = r != own ? set_a[at * k + r] * scale : full ? bound : others;
      change = next - coef[(int64)r * m + e];
      coef[(int64)r * m + e] = next;
    }
    moved[place * k_padded + r] = change;
  }
  if (threadIdx.x == 0) moved_slots[place] = slots[index[e]];
}

// ---- update: G += K change; a block 32 examples x 8 classes, each of its SHARES warps a share of the rows ----

#define SHARES 16
#define CLASSES 8

extern "C" __global__ void __launch_bounds__(WARP * SHARES)
update(int m, int k, int k_padded, const float* __restrict__ buffer, int64 n, const int* __restrict__ index,
       const double* __restrict__ moved, const int* __restrict__ moved_slots, const int64* __restrict__ state,
       double* __restrict__ G) {
  __shared__ double sums[CLASSES][SHARES / 2][WARP];
  if (state[DONE]) return;
  int groups = k_padded / CLASSES, group = blockIdx.x % groups, left = blockIdx.x / groups * WARP;
  int lane = threadIdx.x % WARP, share = threadIdx.x / WARP, c = left + lane, rows = (int)state[MOVED];
  const float* column = buffer + (c < m ? index[c] : 0);
  double sum[CLASSES] = {0, 0, 0, 0, 0, 0, 0, 0};
#pragma unroll 4
  for (int r = share; r < rows; r += SHARES) {
    double value = column[moved_slots[r] * n];
    const double2* change = (const double2*)(moved + (int64)r * k_padded + group * CLASSES);
#pragma unroll
    for (int p = 0; p < CLASSES / 2; p++) {
      double2 pair = change[p];
      sum[2 * p] += pair.x * value;
      sum[2 * p + 1] += pair.y * value;
    }
  }
  for (int part = 1; part >= 0; part--) {  // the upper half of the shares, then the lower half, which adds it
    if (share / (SHARES / 2) == part)
#pragma unroll
      for (int p = 0; p < CLASSES; p++) {
        double* place = &sums[p][share % (SHARES / 2)][lane];
        *place = part ? sum[p] : *place + sum[p];
      }
    __syncthreads();
  }
  int r = group * CLASSES + share;
  if (share < CLASSES && r < k && c < m) {
    double all = 0;
    for (int s = 0; s < SHARES / 2; s++) all += sums[share][s][lane];
    G[(int64)r * m + c] += all;
  }
}
