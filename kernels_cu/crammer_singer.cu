// needs: workingset.cuh crammer_singer.cuh
// The multiclass dual of Crammer and Singer: passes of the whole chip over all examples, between which one block solves
// a working set (crammer_singer_set.cu). The algorithm and its names: textsvm/solvers/crammer_singer.py; the rounds and
// the arrays: crammer_singer_cuda.py.
//
// A launch serves several problems of k classes side by side, each in a slot; nothing is shared but the Gram. Every
// kernel returns at once for a slot that is done, so rounds can be launched ahead. No sum depends on the order in which
// threads run.
//
//   SHARDED   defined: the tile is gathered by shards.cu

#define COARSE 12
#define NO_NUMBER 0xffffffffu

// ---- measure: a thread an example (slots: y); its violation as a key, the middle of its gradients, its part of -D and
// P - D ----

extern "C" __global__ void measure(Arrays all) {
  Arrays p = of_slot(all, blockIdx.y);
  int c = blockIdx.x * blockDim.x + threadIdx.x, own;
  if (p.state->done || c >= p.state->size) return;
  const double *__restrict__ G = p.G, *__restrict__ coef = p.coef;
  double top = -INFINITE, low = INFINITE, slope = 0, bound = p.upper[c];
  own = p.target[c];
  bool bad = false;
#pragma unroll 4
  for (int r = 0; r < p.k; r++) {
    double g = __ldg(G + r * p.stride + c), a = __ldg(coef + r * p.stride + c);
    top = fmax(top, g);
    if (a < (r == own ? bound : 0)) low = fmin(low, g);
    slope += a * g;
    bad |= !isfinite(g);
  }
  p.keys[c] = bad ? NO_NUMBER : __float_as_uint(fmaxf(__double2float_ru(top - low), 0.0f));
  p.middle[c] = low < INFINITE ? 0.5 * (top + low) : top;
  p.objective[c] = 0.5 * (slope - coef[own * p.stride + c]);
  p.gap[c] = slope + bound * (top - G[own * p.stride + c]);
}

// ---- choose: one block of CHOOSERS threads a slot ----

// A choice needs no more than the first bits of a violation; it stays above 0.
__device__ __forceinline__ uint32 coarse(uint32 key) {
  return (key + ((1u << COARSE) - 1)) & ~((1u << COARSE) - 1);
}

struct Totals {
  uint32 worst;  // key of the largest violation
  double objective, gap;
};

__device__ Totals totals_of(const Arrays& p, int m) {
  __shared__ uint32 of_warp[CHOOSERS / WARP];
  Totals all = {0, 0, 0};
#pragma unroll 4
  for (int c = threadIdx.x; c < m; c += CHOOSERS) {
    all.worst = max(all.worst, p.keys[c]);
    all.objective += p.objective[c];
    all.gap += p.gap[c];
  }
  all.worst = warp_max(all.worst);
  if (threadIdx.x % WARP == 0) of_warp[threadIdx.x / WARP] = all.worst;
  all.objective = block_sum(all.objective);
  all.gap = block_sum(all.gap);
  all.worst = warp_max(of_warp[threadIdx.x % WARP]);
  return all;
}

// Write down where the problem is; why it is done, if it is.
__device__ int64 look(State* state, const Totals& now) {
  double both = fabs(now.gap - 2 * now.objective), violation = __uint_as_float(now.worst);
  // Progress is a lower objective, or else a smaller violation than ever before.
  bool start = state->round == 0;
  bool progress = start || now.objective < state->least - 1e-14 * fabs(state->least)
                  || violation < state->least_violation;
  int64 stalls = progress ? 0 : state->stalls + 1;
  int64 why = now.worst == NO_NUMBER ? NOT_FINITE : violation <= state->tol ? CONVERGED
              : state->gap_bound >= 0 && 2 * now.gap <= 0.999999 * state->gap_bound * both ? CONVERGED
              : state->iterations >= state->bound ? AT_BOUND : stalls >= MOST_STALLS ? STALLED : RUNNING;
  __syncthreads();
  if (threadIdx.x == 0) {
    state->violation = violation;
    state->objective = now.objective;
    state->gap = now.gap;
    state->least = start ? now.objective : fmin(state->least, now.objective);
    state->least_violation = start ? violation : fmin(state->least_violation, violation);
    state->stalls = stalls;
    state->done = why;
    state->round++;
  }
  return why;
}

extern "C" __global__ void __launch_bounds__(CHOOSERS) choose(Arrays all) {
  Arrays p = of_slot(all, blockIdx.x);
  State* state = p.state;
  if (state->done) return;
  int m = (int)state->size, limit = (int)state->limit, round = (int)state->round, count = (int)state->count;
  if (look(state, totals_of(p, m))) return;
  // Who entered in the last round, half of the set at most; then the worst violators.
  int half = limit < 4 ? 0 : limit / 2;
  int staying = mark_newcomers(p.members, p.entered, count, round, half, 2 * half, p.marks);
  const uint8* marks = p.marks;
  const uint32* keys = p.keys;
  mark_largest([=](int c) { return marks[c] ? 0 : coarse(keys[c]); }, m, limit - staying, p.marks,
               COARSE);
  __syncthreads();
  count = place_members(p.marks, m, round, p.entered, p.members);
  if (threadIdx.x == 0) state->count = count;
}

// ---- gather: SET blocks a slot (y); what the set needs, a block an example ----

extern "C" __global__ void gather(Arrays all) {
  Arrays p = of_slot(all, blockIdx.y);
  if (p.state->done) return;
  int count = (int)p.state->count, at = blockIdx.x, e = at < count ? p.members[at] : -1, k = p.k;
#ifndef SHARDED
  if (e >= 0) gather_row(p.rows + p.resident[p.index[e]] * p.n, p.index, p.members, count, SET, p.tile + at * SET);
#endif
  for (int r = threadIdx.x; r - (int)threadIdx.x % WARP < k; r += blockDim.x) {
    bool here = e >= 0 && r < k;
    double a = here ? __ldg(p.coef + r * p.stride + e) : 0;
    double bound = here && __ldg(p.target + e) == r ? __ldg(p.upper + e) : 0;
    uint32 votes = __ballot_sync(FULL_WARP, here && a < bound);
    if (r < k) {
      p.set_g[r * PITCH + at] = here ? (float)(__ldg(p.G + r * p.stride + e) - __ldg(p.middle + e)) : 0;
      p.set_a[at * k + r] = a;
    }
    if (r % WARP == 0) p.set_grows[r / WARP * PITCH + at] = votes;
  }
}

// ---- put: SET blocks of a warp a slot (y); the changes, moved[place][k_padded], and the coefficients themselves ----

extern "C" __global__ void put(Arrays all) {
  Arrays p = of_slot(all, blockIdx.y);
  int at = blockIdx.x, k = p.k;
  if (p.state->done || at >= p.state->count || p.places[at] < 0) return;
  const double* __restrict__ a = p.set_a + at * k;
  int e = p.members[at], place = p.places[at], own = p.target[e];
  double others = 0, bound = p.upper[e];
  for (int r = threadIdx.x; r < k; r += WARP) others -= r == own ? 0 : a[r];
  for (int step = WARP / 2; step; step /= 2) others += __shfl_xor_sync(FULL_WARP, others, step);
  bool full = others > 0 && (others >= bound || a[own] >= bound);
  double scale = full ? bound / others : 1;
  for (int r = threadIdx.x; r < p.k_padded; r += WARP) {
    double change = 0;
    if (r < k) {
      double next = r != own ? a[r] * scale : full ? bound : others;
      change = next - p.coef[r * p.stride + e];
      p.coef[r * p.stride + e] = next;
    }
    p.moved[place * p.k_padded + r] = change;
  }
  if (threadIdx.x == 0) p.moved_slots[place] = p.resident[p.index[e]];
}

// ---- update: G += K change, in `problems` slots from number `first` on; a block 32 examples x 32 classes, each of its
// SHARES warps a share of the rows ----

#define SHARES 16
#define TILES 4         // of 8 classes, and of 8 examples
#define GROUP (8 * TILES)
#define AHEAD 2         // steps of 4 rows whose values a thread waits for together
#define ROWS (4 * SHARES)  // of a step of all warps
#define SUMS (WARP + 8)    // a row of sums, which spreads over the banks

// sum += a b of matrices spread over a warp: a, 8 x 4, is at [lane / 4][lane % 4]; b, 4 x 8, at [lane % 4][lane / 4];
// the sum, 8 x 8, at [lane / 4][2 (lane % 4)] and the place after.
__device__ __forceinline__ void multiply_add(double2& sum, double a, double b) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+d"(sum.x), "+d"(sum.y)
      : "d"(a), "d"(b));
#else
  int lane = threadIdx.x % WARP;
  for (int row = 0; row < 4; row++) {
    double change = __shfl_sync(FULL_WARP, a, (lane & ~3) + row);
    sum.x += change * __shfl_sync(FULL_WARP, b, 8 * (lane % 4) + row);
    sum.y += change * __shfl_sync(FULL_WARP, b, 8 * (lane % 4) + 4 + row);
  }
#endif
}

extern "C" __global__ void __launch_bounds__(WARP * SHARES) update(Arrays all, int first, int problems) {
  __shared__ double sums[SHARES][8][SUMS];
  __shared__ int slots[SET];
  Arrays p = of_slot(all, first + blockIdx.x % problems);
  int groups = (p.k_padded + GROUP - 1) / GROUP, block = blockIdx.x / problems, group = block % groups;
  int left = block / groups * WARP, lane = threadIdx.x % WARP, share = threadIdx.x / WARP;
  int m = (int)p.state->size, rows = (int)p.state->moved, k_padded = p.k_padded;
  if (p.state->done || left >= m) return;
  int tiles = min(TILES, k_padded / 8 - group * TILES);
  for (int r = threadIdx.x; r < rows; r += WARP * SHARES) slots[r] = p.moved_slots[r];
  __syncthreads();
  const double* __restrict__ moved = p.moved + group * GROUP + lane / 4;
  const float* column[TILES];
#pragma unroll
  for (int j = 0; j < TILES; j++) {
    int c = left + 8 * j + lane / 4;
    column[j] = p.rows + (c < m ? p.index[c] : 0);
  }
  double2 sum[TILES][TILES] = {};
  for (int start = 4 * share; start < rows; start += AHEAD * ROWS) {
    float values[AHEAD][TILES];
    double changes[AHEAD][TILES];
#pragma unroll
    for (int e = 0; e < AHEAD; e++) {
      int row = start + e * ROWS + lane % 4;
      bool here = row < rows;
      int64 at = here ? slots[row] * p.n : 0;
#pragma unroll
      for (int j = 0; j < TILES; j++) {
        values[e][j] = here ? column[j][at] : 0;
        changes[e][j] = here && j < tiles ? moved[row * k_padded + 8 * j] : 0;
      }
    }
#pragma unroll
    for (int e = 0; e < AHEAD; e++)
#pragma unroll
      for (int i = 0; i < TILES; i++)
        if (i < tiles)
#pragma unroll
          for (int j = 0; j < TILES; j++) multiply_add(sum[i][j], changes[e][i], values[e][j]);
  }
  int c = left + lane;
#pragma unroll
  for (int i = 0; i < TILES; i++) {
    if (i >= tiles) break;
    int r = group * GROUP + 8 * i + share;
    bool here = share < 8 && r < p.k && c < m;
    double before = here ? p.G[r * p.stride + c] : 0, change = 0;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < TILES; j++) *(double2*)&sums[share][lane / 4][8 * j + 2 * (lane % 4)] = sum[i][j];
    __syncthreads();
    if (!here) continue;
    for (int s = 0; s < SHARES; s++) change += sums[s][share][lane];
    p.G[r * p.stride + c] = before + change;
  }
}
