// needs: workingset.cuh crammer_singer.cuh
// A working set of examples of the multiclass dual, solved by one block a slot. The step of one example:
// textsvm/solvers/crammer_singer.py; the rounds: crammer_singer.cu.
//
//   SET        examples of a working set, 4 * THREADS
//   PER_LANE   classes are at most 32 * PER_LANE: a warp holds those of one example
//   ON_CHIP    1: the set's gradients are in shared memory, (k + 1) * PITCH floats; 0: in `set_g`, through the L1

#define THREADS (SET / 4)
#define WARPS (THREADS / WARP)
#define SWEEP 0.3f
#define INFINITE_F __int_as_float(0x7f800000)

__device__ __forceinline__ float unordered(uint32 key) {
  return __uint_as_float(key & 0x80000000 ? key ^ 0x80000000 : ~key);
}

__device__ __forceinline__ float4 plus(float4 a, float by, float4 b) {
  return {a.x + by * b.x, a.y + by * b.y, a.z + by * b.z, a.w + by * b.w};
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

struct Sets {  // gradients and coefficients of the set
  float* g;
  uint32* grows;
  double* a;
  int k, half;  // half: a power of 2; lanes below 2 * half hold classes
};

// The shift where the changes min(room, wish + shift) sum to 0: Newton's method, the sum being concave in it. It
// begins at 0, near which it is, or at minus infinity; after one step it comes from the left, and classes only leave.
__device__ __forceinline__ float shift_of(const float* wish, const float* room, float all, int k, int half) {
  int lane = threadIdx.x % WARP, free = 0;
  float shift = 0;
  for (int pass = 0;; pass++) {
    int count = 0;
    float sum = 0;
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
  return shift;
}

// The class other than `own` with the largest gradient.
__device__ __forceinline__ int worst_other(const float* wish, int own, int k) {
  int lane = threadIdx.x % WARP, which = k;
  float worst = INFINITE_F;
#pragma unroll
  for (int q = 0; q < PER_LANE; q++) {
    int r = lane + WARP * q;
    if (r < k && r != own && wish[q] < worst) worst = wish[q], which = r;
  }
  bool mine = ordered(-worst) == warp_max(ordered(-worst));
  return (int)~warp_max(mine ? ~(uint32)which : 0);
}

// Put the new coefficients of example `at` where they belong, and the list of what has changed in `set`.
__device__ __forceinline__ void record_step(Shared& set, const Sets& sets, int at, const double* a,
                                            const double* next) {
  int lane = threadIdx.x % WARP, own = set.own[at], k = sets.k, changes = 0;
  double bound = set.upper[at];
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
      sets.a[at * k + r] = next[q];
    }
    if (lane == 0 && WARP * q < k) sets.grows[q * PITCH + at] = growing;
    changes += __popc(votes);
  }
  if (lane < 3) class_of[changes + lane] = k, change_of[changes + lane] = 0;  // up to a four
  if (lane == 0) {
    set.changes = changes;
    if (changes) set.changed[at] = 1;
  }
}

// The step of example `at`, by one warp: new coefficients, and in `set` the list of what has changed. Arrays over a
// lane's classes r = lane + 32 q: a the coefficients. Their sum is 0 to float32; `put` makes it 0 to float64.
__device__ __forceinline__ void step_of(Shared& set, const Sets& sets, int at, float least, float relaxation,
                                        const double* a) {
  int lane = threadIdx.x % WARP, own = set.own[at], k = sets.k, half = sets.half;
  double bound = set.upper[at];
  float wish[PER_LANE], room[PER_LANE], sum = 0, top = -INFINITE_F, low = INFINITE_F;
  float by = relaxation / fmaxf(set.diag[at], TAU);
#pragma unroll
  for (int q = 0; q < PER_LANE; q++) {
    int r = lane + WARP * q;
    float g = r < k ? sets.g[r * PITCH + at] : 0;
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

  float shift = shift_of(wish, room, sum, k, half);
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
  if (full && !__any_sync(FULL_WARP, some && lane < 2 * half)) {  // the shift was lost in rounding
    int which = worst_other(wish, own, k);
#pragma unroll
    for (int q = 0; q < PER_LANE; q++)
      if (lane + WARP * q == which) next[q] = -bound;
  }
  record_step(set, sets, at, a, next);
}

// The set's gradients where the sweeps have them, and what else they need of each example.
__device__ __forceinline__ void load_set(Shared& set, const Sets& sets, const Arrays& p, int count) {
  int thread = threadIdx.x;
#if ON_CHIP
  for (int q = thread; q < p.k * (PITCH / 4); q += THREADS) ((float4*)sets.g)[q] = ((const float4*)p.set_g)[q];
  for (int q = thread; q < (p.k + WARP - 1) / WARP * PITCH; q += THREADS) sets.grows[q] = p.set_grows[q];
#endif
  for (int at = thread; at < SET; at += THREADS) {
    int e = at < count ? p.members[at] : -1;
    set.upper[at] = e < 0 ? 0 : p.upper[e];
    set.own[at] = e < 0 ? 0 : p.target[e];
    set.diag[at] = e < 0 ? 0 : p.tile[at * SET + at];
    set.changed[at] = 0;
  }
  __syncthreads();
}

// The violations of this thread's examples, 4 thread .. 4 thread + 3.
__device__ __forceinline__ float4 violations_of(const Sets& sets) {
  const float4* mine = (const float4*)sets.g + threadIdx.x;
  const uint4* mine_grow = (const uint4*)sets.grows + threadIdx.x;
  float4 top = {-INFINITE_F, -INFINITE_F, -INFINITE_F, -INFINITE_F};
  float4 low = {INFINITE_F, INFINITE_F, INFINITE_F, INFINITE_F};
  for (int word = 0; WARP * word < sets.k; word++) {
    uint4 bits = mine_grow[word * (PITCH / 4)];
    for (int r = WARP * word; r < sets.k && r < WARP * (word + 1); r++) {
      float4 g = mine[r * (PITCH / 4)];
      top.x = fmaxf(top.x, g.x), top.y = fmaxf(top.y, g.y), top.z = fmaxf(top.z, g.z), top.w = fmaxf(top.w, g.w);
      if (bits.x & 1) low.x = fminf(low.x, g.x);
      if (bits.y & 1) low.y = fminf(low.y, g.y);
      if (bits.z & 1) low.z = fminf(low.z, g.z);
      if (bits.w & 1) low.w = fminf(low.w, g.w);
      bits.x >>= 1, bits.y >>= 1, bits.z >>= 1, bits.w >>= 1;
    }
  }
  return {fmaxf(top.x - low.x, 0.0f), fmaxf(top.y - low.y, 0.0f), fmaxf(top.z - low.z, 0.0f),
          fmaxf(top.w - low.w, 0.0f)};
}

// List in set.todo who is above a share of the worst, in order; how many, 0 if nobody is above `enough`. `least`: what
// they are above.
__device__ __forceinline__ int list_violators(Shared& set, float4 violations, float enough, float* least) {
  int thread = threadIdx.x, lane = thread % WARP, warp = thread / WARP;
  float wide[4] = {violations.x, violations.y, violations.z, violations.w};
  float widest = fmaxf(fmaxf(wide[0], wide[1]), fmaxf(wide[2], wide[3]));
  uint32 key = warp_max(__float_as_uint(widest));
  if (lane == 0) set.widest[warp] = key;
  __syncthreads();
  widest = __uint_as_float(warp_max(lane < WARPS ? set.widest[lane] : 0));
  if (!(widest > enough)) return 0;
  *least = fmaxf(enough, SWEEP * widest);
  int own_count = 0;
  for (int e = 0; e < 4; e++) own_count += wide[e] > *least;
  int through = running_sum(own_count);
  if (lane == WARP - 1) set.of_warp[warp] = through;
  __syncthreads();
  int place = through - own_count, todo = 0;
  for (int w = 0; w < WARPS; w++) {
    place += w < warp ? set.of_warp[w] : 0;
    todo += set.of_warp[w];
  }
  for (int e = 0; e < 4; e++)
    if (wide[e] > *least) set.todo[place++] = 4 * thread + e;
  __syncthreads();
  return todo;
}

// The coefficients of example `at`, one class a lane.
__device__ __forceinline__ void read_classes(const Sets& sets, int at, double* a) {
  int lane = threadIdx.x % WARP;
  for (int q = 0; q < PER_LANE; q++) a[q] = lane + WARP * q < sets.k ? sets.a[at * sets.k + lane + WARP * q] : 0;
}

// G += change * row, for the changes of a step and this thread's four examples.
__device__ __forceinline__ void add_changes(const Shared& set, const Sets& sets, int changes, float4 row) {
  float4* mine = (float4*)sets.g + threadIdx.x;
  for (int p = 0; 4 * p < changes; p++) {  // row k takes what fills the last four up
    int4 r = set.change_class[p];
    float4 by = set.change[p];
    float4 *g0 = mine + r.x * (PITCH / 4), *g1 = mine + r.y * (PITCH / 4), *g2 = mine + r.z * (PITCH / 4),
           *g3 = mine + r.w * (PITCH / 4);
    float4 now0 = *g0, now1 = *g1, now2 = *g2, now3 = *g3;
    *g0 = plus(now0, by.x, row), *g1 = plus(now1, by.y, row), *g2 = plus(now2, by.z, row);
    *g3 = plus(now3, by.w, row);
  }
}

struct Limits {
  float enough, relaxation;  // violation of the set to reach; steps after the first SET, in units of the best
  int most;                  // steps
};

// One sweep over the `todo` examples listed; steps so far, and whether any changed something.
__device__ __forceinline__ int sweep(Shared& set, const Sets& sets, const float4* rows, int todo, float least, int done,
                                     const Limits& limits) {
  bool leads = threadIdx.x / WARP == 0;
  double a[PER_LANE] = {}, a_next[PER_LANE] = {};
  int at = set.todo[0];
  float4 row = __ldg(rows + at * (SET / 4)), row_next = row;
  if (leads) read_classes(sets, at, a);
  for (int t = 0; t < todo && done < limits.most; t++) {
    int next = set.todo[t + 1 < todo ? t + 1 : t];
    row_next = __ldg(rows + next * (SET / 4));
    if (leads) {
      read_classes(sets, next, a_next);
      step_of(set, sets, at, least, done < SET ? 1.0f : limits.relaxation, a);
    }
    __syncthreads();
    int changes = set.changes;
    add_changes(set, sets, changes, row);
    done += changes > 0;
    at = next;
    row = row_next;
    for (int q = 0; q < PER_LANE; q++) a[q] = a_next[q];
    __syncthreads();
  }
  return done;
}

// Where the changes of each example go, in the order of the set: by one warp; how many have some.
__device__ __forceinline__ int place_changes(const Shared& set, int* places) {
  int lane = threadIdx.x % WARP, placed = 0;
  for (int start = 0; start < SET; start += WARP) {
    bool yes = set.changed[start + lane];
    uint32 votes = __ballot_sync(FULL_WARP, yes);
    places[start + lane] = yes ? placed + __popc(votes & ((1u << lane) - 1)) : -1;
    placed += __popc(votes);
  }
  return placed;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) solve_set(Arrays all) {
  __shared__ Shared set;
  Arrays p = of_slot(all, blockIdx.x);
  State* state = p.state;
  if (state->done) return;
  Sets sets = {p.set_g, p.set_grows, p.set_a, p.k, 1};
  while (2 * sets.half < p.k && 2 * sets.half < WARP) sets.half *= 2;
#if ON_CHIP
  extern __shared__ float4 chip[];
  sets.g = (float*)chip;
  sets.grows = (uint32*)(sets.g + (p.k + 1) * PITCH);
#endif
  load_set(set, sets, p, (int)state->count);
  double tol = 0.99 * state->tol;
  int64 left = state->bound - state->iterations;
  Limits limits = {state->limit == state->size ? (float)tol : (float)fmax(tol, p.share * state->violation),
                   p.relaxation, left < p.most ? (int)left : p.most};
  int done = 0;
  for (int before = -1; before < done && done < limits.most;) {
    float least;
    int todo = list_violators(set, violations_of(sets), limits.enough, &least);
    if (!todo) break;
    before = done;
    done = sweep(set, sets, (const float4*)p.tile + threadIdx.x, todo, least, done, limits);
  }
  __syncthreads();
  if (threadIdx.x < WARP) {
    int placed = place_changes(set, p.places);
    if (threadIdx.x == 0) {
      state->moved = placed;
      state->iterations += done;
    }
  }
}
