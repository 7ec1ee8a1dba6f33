// needs: workingset.cuh smo.cuh
// Working sets of duals, each solved by one block, between passes of the whole chip over all variables. The algorithm:
// textsvm/solvers/smo_cuda.py; who is in a set: smo_choose.cu.
//
//   SET       variables of a working set
//   THREADS   SET / THREADS is a multiple of 4

#define PER_THREAD (SET / THREADS)
#define WARPS (THREADS / WARP)
#define GROUPS (PER_THREAD / 4)

// ---- gather: some blocks a slot (y); tile[r][c] = K(member r, member c) ----

extern "C" __global__ void gather(Arrays all) {
  Arrays p = of_slot(all, blockIdx.y);
  if (p.state->done || p.state->paused) return;
  int count = (int)p.state->count;
  for (int r = blockIdx.x; r < count; r += gridDim.x)
    gather_row(p.rows + p.resident[p.index[p.members[r]]] * p.n, p.index, p.members, count, SET, p.tile + r * SET);
}

// ---- solve_set: one block of THREADS threads a slot ----

#define PART(row, e) ((e) % 4 == 0 ? row[(e) / 4].x : (e) % 4 == 1 ? row[(e) / 4].y \
                      : (e) % 4 == 2 ? row[(e) / 4].z : row[(e) / 4].w)

// A thread's variables: e = 4 g + c is number 4 (g THREADS + thread) + c of the set.
#define AT(e) (4 * ((e) / 4 * THREADS + thread) + (e) % 4)
#define THREAD_OF(at) ((at) / 4 % THREADS)
#define BIT_OF(at) (1u << ((at) / 4 / THREADS * 4 + (at) % 4))

// A key holds the number of its variable in its last bits: the maximum of keys says both. What that takes from the
// value, 2^-13 of it, matters little to a choice.
#define AT_BITS (SET - 1)
static_assert((SET & AT_BITS) == 0, "SET is a power of two");

__device__ __forceinline__ float narrow(double value) {  // one instruction; (float) would flush denormals itself
  float result;
  asm("cvt.rn.f32.f64 %0, %1;" : "=f"(result) : "d"(value));
  return result;
}

struct Shared {  // one address that stays in a register
  double coef[SET], low[SET], high[SET];
  float2 best_j[WARPS];
  float diag[SET], best_i[WARPS];
  uint32 keys_i[WARPS], keys_j[WARPS], widths[WARPS];
};

struct Own {  // a thread's variables, in registers
  float f[PER_THREAD], diag[PER_THREAD];
  uint32 up, down;  // bit e: the variable can grow, can shrink
};

struct Pair {
  int i, j;                          // members that the last step moved
  double coef_i, coef_j;             // what it made of them
  float4 row_i[GROUPS], row_j[GROUPS];  // this thread's part of their rows
};

struct Limits {
  float enough, relaxation;  // violation of the set to reach; steps after the first SET, in units of the best
  int before, most;          // pairs of this set before this launch, and in it at most
};

// The largest key of the block, through one word a warp; `best` of the warp that has it is written beside it.
template <typename T>
__device__ __forceinline__ uint32 largest(uint32 key, T mine, uint32* keys, T* best, int lane, int warp) {
  uint32 top = warp_max(key);
  if (lane == 0) keys[warp] = top;
  if (key && key == top) best[warp] = mine;
  __syncthreads();
  return warp_max(lane < WARPS ? keys[lane] : 0);
}

// f: responses less those halfway between first and last, where those of free variables are going.
__device__ __forceinline__ void load_set(Shared& set, Own& own, const Arrays& p, int count, int thread) {
  const double *__restrict__ F = p.F, *__restrict__ coef = p.coef, *__restrict__ low = p.low,
               *__restrict__ high = p.high;
  double middle = 0.5 * (p.state->first + p.state->last);
  own.up = own.down = 0;
#pragma unroll
  for (int e = 0; e < PER_THREAD; e++) {
    int at = AT(e), k = at < count ? p.members[at] : 0;
    own.f[e] = narrow(F[k] + middle);
    set.coef[at] = at < count ? coef[k] : 0;
    set.low[at] = at < count ? low[k] : 0;
    set.high[at] = at < count ? high[k] : 0;
    set.diag[at] = own.diag[e] = at < count ? p.diag[p.index[k]] : 0;
    own.up |= (uint32)(set.coef[at] < set.high[at]) << e;
    own.down |= (uint32)(set.coef[at] > set.low[at]) << e;
  }
}

// i: the largest -f that can grow; its key, 0 if none can.
__device__ __forceinline__ uint32 find_first(Shared& set, const Own& own, int thread) {
  uint32 key = 0;
  float mine = 0;
#pragma unroll
  for (int e = 0; e < PER_THREAD; e++) {
    uint32 now = (ordered(-own.f[e]) & ~AT_BITS) | AT(e);
    now = own.up >> e & 1 ? now : 0;
    mine = now > key ? own.f[e] : mine;
    key = max(key, now);
  }
  return largest(key, mine, set.keys_i, set.best_i, thread % WARP, thread / WARP);
}

// j: the largest (f_j - f_i)^2 / curvature of those that can shrink; its key, and this thread's widest gap.
__device__ __forceinline__ uint32 find_second(Shared& set, const Own& own, const float4* row_i, float f_i, float diag_i,
                                              int thread, float* widest) {
  uint32 key = 0;
  float2 pair = {0, 0};  // step and gap
  *widest = 0;
#pragma unroll
  for (int e = 0; e < PER_THREAD; e++) {
    float gap = fmaxf(own.f[e] - f_i, 0.0f);
    gap = own.down >> e & 1 ? gap : 0;
    float curvature = fmaxf(diag_i + own.diag[e] - 2 * PART(row_i, e), TAU);
    float step = __fdividef(gap, curvature);
    uint32 now = (__float_as_uint(step * gap) & ~AT_BITS) | AT(e);
    *widest = fmaxf(*widest, gap);
    pair.x = now > key ? step : pair.x;
    pair.y = now > key ? gap : pair.y;
    key = max(key, now);
  }
  return largest(key, pair, set.keys_j, set.best_j, thread % WARP, thread / WARP);
}

// Move a pair by `wish` or to the nearest bound, alike in every thread: its coefficients are left in `pair`, responses
// and bounds of this thread's variables follow. The step; *moved is false if float64 cannot tell.
__device__ __forceinline__ double move_pair(const Shared& set, Own& own, Pair& pair, float wish, int thread,
                                            bool* moved) {
  double old_i = set.coef[pair.i], old_j = set.coef[pair.j];
  double room_i = set.high[pair.i] - old_i, room_j = old_j - set.low[pair.j];
  float by = fminf(wish, fminf(narrow(room_i), narrow(room_j)));
#pragma unroll
  for (int e = 0; e < PER_THREAD; e++) own.f[e] += by * (PART(pair.row_i, e) - PART(pair.row_j, e));
  double step = wish, room = room_i < room_j ? room_i : room_j;
  step = step < room ? step : room;
  pair.coef_i = step >= room_i ? set.high[pair.i] : old_i + step;
  pair.coef_j = step >= room_j ? set.low[pair.j] : old_j - step;
  if (thread == THREAD_OF(pair.i)) {
    own.up = pair.coef_i < set.high[pair.i] ? own.up | BIT_OF(pair.i) : own.up & ~BIT_OF(pair.i);
    own.down |= BIT_OF(pair.i);
  }
  if (thread == THREAD_OF(pair.j)) {
    own.down = pair.coef_j > set.low[pair.j] ? own.down | BIT_OF(pair.j) : own.down & ~BIT_OF(pair.j);
    own.up |= BIT_OF(pair.j);
  }
  *moved = pair.coef_i != old_i || pair.coef_j != old_j;
  return step;
}

// Optimise pairs of the set within the limits. How many; `decrease`: at most 5 times what the objective fell by.
__device__ __forceinline__ int optimise(Shared& set, Own& own, const float4* rows, const Limits& limits, int thread,
                                        double* decrease) {
  int lane = thread % WARP, warp = thread / WARP, done = 0;
  Pair pair;
  pair.i = pair.j = -1;
  pair.coef_i = pair.coef_j = 0;
  for (;;) {
    uint32 top = find_first(set, own, thread);
    // Between two barriers where nobody reads them: what the last step made of its pair.
    if (thread == 0 && done) set.coef[pair.i] = pair.coef_i, set.coef[pair.j] = pair.coef_j;
    if (!top || done == limits.most) break;
    pair.i = top & AT_BITS;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) pair.row_i[g] = __ldg(rows + pair.i * (SET / 4) + g * THREADS);
    float f_i = set.best_i[THREAD_OF(pair.i) / WARP], diag_i = set.diag[pair.i], widest;
    top = find_second(set, own, pair.row_i, f_i, diag_i, thread, &widest);
    if (top <= AT_BITS) break;
    pair.j = top & AT_BITS;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) pair.row_j[g] = __ldg(rows + pair.j * (SET / 4) + g * THREADS);
    float2 best = set.best_j[THREAD_OF(pair.j) / WARP];  // step and gap
    float wish = limits.before + done < SET ? best.x : limits.relaxation * best.x;
    if (best.y <= limits.enough) {  // then the widest gap may be no wider
      uint32 width = warp_max(__float_as_uint(widest));
      if (lane == 0) set.widths[warp] = width;
      __syncthreads();
      if (__uint_as_float(warp_max(lane < WARPS ? set.widths[lane] : 0)) <= limits.enough) break;
    }
    bool moved;
    double step = move_pair(set, own, pair, wish, thread, &moved);
    if (!moved) break;
    *decrease += step * (double)best.y;
    done++;
  }
  return done;
}

struct Changes {
  double of[SET];
  int before[SET / WARP + 1];  // changes before each 32 members, and of all
};

// New coefficients go back to where they came from; what has changed, and how many do before each 32 members.
__device__ __forceinline__ void write_back(const Shared& set, Changes& changes, const Arrays& p, int count,
                                           int thread) {
  for (int at = thread; at < SET; at += THREADS) {
    changes.of[at] = 0;
    if (at < count) {
      changes.of[at] = set.coef[at] - p.coef[p.members[at]];
      p.coef[p.members[at]] = set.coef[at];
    }
  }
  __syncthreads();
  for (int chunk = thread / WARP; chunk < SET / WARP; chunk += WARPS) {
    uint32 votes = __ballot_sync(FULL_WARP, changes.of[chunk * WARP + thread % WARP] != 0);
    if (thread % WARP == 0) changes.before[chunk + 1] = __popc(votes);
  }
  __syncthreads();
  if (thread == 0) {
    changes.before[0] = 0;
    for (int chunk = 0; chunk < SET / WARP; chunk++) changes.before[chunk + 1] += changes.before[chunk];
  }
}

// The changes that are not 0, and where their rows are, in the order of the set.
__device__ __forceinline__ void list_changes(const Changes& changes, const Arrays& p, int thread) {
  int lane = thread % WARP;
  for (int chunk = thread / WARP; chunk < SET / WARP; chunk += WARPS) {
    int at = chunk * WARP + lane;
    uint32 votes = __ballot_sync(FULL_WARP, changes.of[at] != 0);
    if (changes.of[at] != 0) {
      int place = changes.before[chunk] + __popc(votes & ((1u << lane) - 1));
      p.moved[place] = changes.of[at];
      p.moved_slots[place] = p.resident[p.index[p.members[at]]];
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) solve_set(Arrays all) {
  __shared__ Shared set;
  __shared__ Changes changes;
  Arrays p = of_slot(all, blockIdx.x);
  State* state = p.state;
  if (state->done) return;
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));  // in a register: threadIdx.x is read anew, and slowly
  int count = (int)state->count;
  Own own;
  load_set(set, own, p, count, thread);
  double decrease = 0, tol = 0.99 * state->tol, wide = state->first - state->last;
  int64 left = state->bound - state->iterations;
  Limits limits = {state->limit == state->size ? (float)tol : (float)fmax(tol, p.share * wide), p.relaxation,
                   (int)state->paused, left < p.burst ? (int)left : p.burst};
  int done = optimise(set, own, (const float4*)p.tile + thread, limits, thread, &decrease);
  __syncthreads();
  write_back(set, changes, p, count, thread);
  if (thread == 0) {
    done += limits.before;
    bool idle = done == limits.before || decrease <= 1e-15 * state->decrease;
    state->moved = changes.before[SET / WARP];
    state->iterations += done - limits.before;
    state->paused = done - limits.before == p.burst && done < p.most ? done : 0;
    state->stalls = idle ? state->stalls + 1 : 0;
    state->decrease += decrease;
  }
  __syncthreads();
  list_changes(changes, p, thread);
}

// ---- update: F += K change, of all variables of `problems` slots from number `first` on; blocks of 32 variables x
// SHARES warps, each a share of the rows. The slots' blocks for the same variables run at the same time: problems that
// share rows find them in the L2. ----

#define SHARES 16

extern "C" __global__ void __launch_bounds__(WARP * SHARES) update(Arrays all, int first, int problems) {
  __shared__ double sums[SHARES][WARP];
  Arrays p = of_slot(all, first + blockIdx.x % problems);
  int lane = threadIdx.x % WARP, share = threadIdx.x / WARP, k = blockIdx.x / problems * WARP + lane;
  int m = (int)p.state->size, rows = (int)p.state->moved;
  if (p.state->done || k - lane >= m) return;
  const double* __restrict__ moved = p.moved;
  const int* __restrict__ moved_slots = p.moved_slots;
  const float* __restrict__ column = p.rows + (k < m ? p.index[k] : 0);
  int64 n = p.n;
  double sum = 0;
#pragma unroll 8
  for (int r = share; r < rows; r += SHARES) sum += moved[r] * (double)column[moved_slots[r] * n];
  sums[share][lane] = sum;
  __syncthreads();
  if (share == 0 && k < m) {
    for (int s = 1; s < SHARES; s++) sum += sums[s][lane];
    p.F[k] += sum;
  }
}
