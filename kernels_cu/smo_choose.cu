// needs: workingset.cuh smo.cuh
// Who is in the next working set of each slot: scan, count and collect look at all variables, one block of CHOOSERS
// threads a stretch of them (grid: stretches x slots); choose, one block a slot, at those that may be in it.

#define BIN_OF(key) ((key) >> 19)
static_assert(0x7f800000 >> 19 < BINS, "a violation has a bin");
// Violators of each kind that choose needs to see: as many as fit, and as many as may be in the set already.
#define ENOUGH (2 * SET)

// The variables of this block's stretch.
__device__ __forceinline__ int begin_of(const Arrays& p) { return blockIdx.x * (int)p.stretch; }
__device__ __forceinline__ int end_of(const Arrays& p) {
  return min(begin_of(p) + (int)p.stretch, (int)p.state->size);
}

// Of a stretch: the largest -F that can grow, the largest F that can shrink, whether a response is not finite.
extern "C" __global__ void __launch_bounds__(CHOOSERS) scan(Arrays all) {
  Arrays p = of_slot(all, blockIdx.y);
  if (p.state->done || p.state->paused) return;
  double up = -INFINITE, down = -INFINITE;
  bool bad = false;
  for (int k = begin_of(p) + threadIdx.x; k < end_of(p); k += CHOOSERS) {
    double f = __ldg(p.F + k), b = __ldg(p.coef + k);
    if (b < __ldg(p.high + k)) up = fmax(up, -f);
    if (b > __ldg(p.low + k)) down = fmax(down, f);
    bad |= !isfinite(f);
  }
  up = block_max(up);
  down = block_max(down);
  bad = __syncthreads_or(bad);
  double* mine = p.extremes + 3 * blockIdx.x;
  if (threadIdx.x == 0) mine[0] = up, mine[1] = down, mine[2] = bad;
}

// m(b) and M(b); true if a response is not finite. By any block.
__device__ bool extrema(const Arrays& p, double* first, double* last) {
  bool here = threadIdx.x < p.stretches;
  const double* mine = p.extremes + 3 * threadIdx.x;
  *first = block_max(here ? mine[0] : -INFINITE);
  *last = -block_max(here ? mine[1] : -INFINITE);
  return __syncthreads_or(here && mine[2] != 0);
}

// By how much a variable can grow against `bound`, M(b), or shrink against it, m(b); 0 if it is no violator.
__device__ __forceinline__ uint32 violation(const Arrays& p, int k, bool grow, double bound) {
  double f = __ldg(p.F + k), b = __ldg(p.coef + k), by = grow ? -f - bound : bound + f;
  bool can = grow ? b < __ldg(p.high + k) : b > __ldg(p.low + k);
  return can && by > 0 ? __float_as_uint((float)by) : 0;
}

// How many violators of each kind are in each bin.
extern "C" __global__ void __launch_bounds__(CHOOSERS) count(Arrays all) {
  __shared__ int bins[2][BINS];
  Arrays p = of_slot(all, blockIdx.y);
  if (p.state->done || p.state->paused || begin_of(p) >= p.state->size) return;
  double first, last;
  for (int bin = threadIdx.x; bin < 2 * BINS; bin += CHOOSERS) bins[0][bin] = 0;
  extrema(p, &first, &last);  // a barrier
  for (int k = begin_of(p) + threadIdx.x; k < end_of(p); k += CHOOSERS) {
    uint32 grow = violation(p, k, true, last), shrink = violation(p, k, false, first);
    if (grow) atomicAdd(&bins[0][BIN_OF(grow)], 1);
    if (shrink) atomicAdd(&bins[1][BIN_OF(shrink)], 1);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < 2 * BINS; bin += CHOOSERS)
    if (bins[0][bin]) atomicAdd(&p.bins[bin], bins[0][bin]);
}

// The highest bin that with those above it has `wanted` or more; 0 if there are fewer.
__device__ int bin_reaching(const int* bins, int wanted) {
  static_assert(BINS == 4 * CHOOSERS, "a thread has four bins");
  __shared__ int of_warp[CHOOSERS / WARP], reached;
  int4 own = ((const int4*)bins)[CHOOSERS - 1 - threadIdx.x];  // the highest bins first
  int sum = own.x + own.y + own.z + own.w, through = running_sum(sum), warp = threadIdx.x / WARP;
  __syncthreads();
  if (threadIdx.x == 0) reached = 0;
  if (threadIdx.x % WARP == WARP - 1) of_warp[warp] = through;
  __syncthreads();
  for (int w = 0; w < warp; w++) through += of_warp[w];
  int left = wanted - (through - sum), top = BINS - 1 - 4 * threadIdx.x;
  if (left > 0 && left <= sum)
    reached = left <= own.w ? top : left <= own.w + own.z ? top - 1 : left <= sum - own.x ? top - 2 : top - 3;
  __syncthreads();
  return reached;
}

// The variables of a stretch that may be in the set, in order: who entered in the last round, the worst violators.
extern "C" __global__ void __launch_bounds__(CHOOSERS) collect(Arrays all) {
  Arrays p = of_slot(all, blockIdx.y);
  if (p.state->done || p.state->paused) return;
  double first, last;
  extrema(p, &first, &last);
  int grows = bin_reaching(p.bins, ENOUGH), shrinks = bin_reaching(p.bins + BINS, ENOUGH);
  int before = (int)p.state->round - 1, placed = 0, now;
  for (int start = begin_of(p); start < end_of(p); start += CHOOSERS) {
    int k = start + threadIdx.x;
    bool yes = false;
    if (k < end_of(p)) {
      uint32 grow = violation(p, k, true, last), shrink = violation(p, k, false, first);
      yes = before >= 0 && p.entered[k] == before;
      yes |= (grow && BIN_OF(grow) >= grows) || (shrink && BIN_OF(shrink) >= shrinks);
    }
    int place = block_rank(yes, &now);
    if (yes) p.candidates[begin_of(p) + placed + place] = k;
    placed += now;
  }
  if (threadIdx.x == 0) p.found[blockIdx.x] = placed;
}

// All candidates, in order; how many.
__device__ int list_candidates(const Arrays& p) {
  __shared__ int before[STRETCHES + 1];
  if (threadIdx.x == 0) {
    before[0] = 0;
    for (int s = 0; s < p.stretches; s++) before[s + 1] = before[s] + p.found[s];
  }
  __syncthreads();
  for (int s = threadIdx.x / WARP; s < p.stretches; s += CHOOSERS / WARP)
    for (int c = threadIdx.x % WARP; c < before[s + 1] - before[s]; c += WARP)
      p.listed[before[s] + c] = p.candidates[s * p.stretch + c];
  __syncthreads();
  return before[p.stretches];
}

// Mark the `wanted` worst violators of a kind that are not marked yet; how many there were.
__device__ int mark_violators(const Arrays& p, int candidates, bool grow, double bound, int wanted) {
  uint32* keys = p.keys;
  uint8* marks = p.marks;
  const int* listed = p.listed;
  __syncthreads();
  for (int c = threadIdx.x; c < candidates; c += CHOOSERS)
    keys[c] = marks[listed[c]] ? 0 : violation(p, listed[c], grow, bound);
  __syncthreads();
  return mark_largest([=](int c) { return keys[c]; }, candidates, wanted,
                      [=](int c) -> uint8& { return marks[listed[c]]; });
}

extern "C" __global__ void __launch_bounds__(CHOOSERS) choose(Arrays all) {
  Arrays p = of_slot(all, blockIdx.x);
  State* state = p.state;
  if (state->done || state->paused) return;
  int limit = (int)state->limit, round = (int)state->round, count = (int)state->count;
  double first, last;
  bool bad = extrema(p, &first, &last);
  int64 why = bad ? NOT_FINITE : first - last <= state->tol ? CONVERGED : state->iterations >= state->bound ? AT_BOUND
              : state->stalls >= MOST_STALLS ? STALLED : RUNNING;
  for (int bin = threadIdx.x; bin < 2 * BINS; bin += CHOOSERS) p.bins[bin] = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    state->first = first;
    state->last = last;
    state->done = why;
    state->round = round + 1;
  }
  if (why) return;
  // Who entered in the last round, half of the set at most; then the worst violators on either side.
  int half = limit < 4 ? 0 : limit / 2, candidates = list_candidates(p);
  const int* listed = p.listed;
  int staying = mark_newcomers(p.members, p.entered, count, round, half, count, p.marks);
  staying += mark_violators(p, candidates, true, last, (limit - staying + 1) / 2);
  mark_violators(p, candidates, false, first, limit - staying);
  __syncthreads();
  for (int at = threadIdx.x; at < count; at += CHOOSERS)
    if (!p.marks[p.members[at]]) p.entered[p.members[at]] = -1;
  __syncthreads();
  count = place_members(p.marks, [=](int c) { return listed[c]; }, candidates, round, p.entered, p.members);
  if (threadIdx.x == 0) state->count = count;
}
