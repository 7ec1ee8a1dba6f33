// needs: workingset.cuh crammer_singer.cuh
// A working set of examples of the multiclass dual, solved by one block a slot. The step of one example:
// textsvm/solvers/crammer_singer.py; the rounds: crammer_singer.cu.
//
// Up to 32 classes, gradients are in registers of the threads that add. The list of a sweep is taken in windows of four
// examples, each held by one of four further warps. These compute the steps of their examples side by side. All take
// theirs, up to the first example that is coupled with an earlier one that steps: their kernel value is more than
// COUPLED times the smaller of their diagonal values. From that one on, the changes are added to the gradients, and
// steps are computed again, while the gradients of the set are brought up to date.
//
// Steps taken together never increase the objective, up to rounding, as RELAXATION (textsvm/solvers/solution.py) is at
// most 1.6: d_i, for curvature A_i / RELAXATION, has G_i'd_i <= -A_i / RELAXATION |d_i|^2, and the window's curvature
// sum_ij K_ij d_i'd_j is at most sum_i (A_i + sum_j |K_ij|) |d_i|^2 <= sum_i 1.25 A_i |d_i|^2 (j other than i), where
// 1.25 A_i = 2 A_i / 1.6 <= 2 A_i / RELAXATION.
//
// With more classes, gradients are in memory. The last warp computes steps, one after another; the others add those of
// a step while the next one is computed: that one reads gradients without these changes, and adds them itself.
//
//   SET        examples of a working set
//   PER_LANE   classes are at most 32 * PER_LANE: a warp holds those of one example
//   ON_CHIP    1: gradients of more than 32 classes are in shared memory, (k + 1) * PITCH floats; 0: in `set_g`,
//              through the L1. Always 1 up to 32 classes

#define IN_REGISTERS (PER_LANE == 1)
#define WINDOW (IN_REGISTERS ? 4 : 1)  // examples whose steps are computed side by side
#define EXAMPLES 4  // of a thread that adds
#define QUADS (SET / EXAMPLES)
#define ADDERS QUADS
#define THREADS (ADDERS + WINDOW * WARP)
#define SWEEP 0.7f
#define COUPLED (0.25f / (WINDOW - 1))
#if __CUDA_ARCH__ >= 800
#define STAGES 3  // windows whose rows of the tile are in shared memory: this one, the next, and the one being copied
#else
#define STAGES 2
#endif
#define INFINITE_F __int_as_float(0x7f800000)
#define UNITS ((1 << 24) / PER_LANE)  // most in the width of an example's gradients: a sum over a warp fits an int

__device__ __forceinline__ float unordered(uint32 key) {
  return __uint_as_float(key & 0x80000000 ? key ^ 0x80000000 : ~key);
}

__device__ __forceinline__ float4 plus(float4 a, float by, float4 b) {
  return {a.x + by * b.x, a.y + by * b.y, a.z + by * b.z, a.w + by * b.w};
}

struct __align__(16) Constants {  // of an example
  double upper;
  float curvature;
  int own;
};

struct Shared {
  int todo[SET + 2 * WINDOW];  // beyond the list: any examples
#if IN_REGISTERS
  float4 g[2][WINDOW][WARP / 4];   // of the examples of a window; the next one is prepared while it is in use
  float4 by[2][WINDOW][WARP / 4];  // their changes
  uint4 classes[2];                // of each example: the classes that change, a bit each
  uint32 coupled[2];               // a byte an example: the earlier ones of the window that are coupled with it
#else
  int4 change_class[8 * PER_LANE + 1];  // changed classes and their changes, four an element
  float4 change[8 * PER_LANE + 1];
  int changes;
#endif
  Constants constants[SET];
  int of_warp[ADDERS / WARP];
  uint32 widest[ADDERS / WARP];
  uint8 changed[SET];
};

struct Sets {  // gradients and coefficients of the set
  float* g;
  uint32* grows;
  double* a;
  int k;
};

struct Example {  // an example in a stepping warp; arrays over a lane's classes r = lane + 32 q
  double a[PER_LANE], bound;
  float g[PER_LANE], room[PER_LANE];  // by how much a can grow
  float curvature, inverse;
  int at, own;
};

struct Pace {  // length of a step in units of the best, and its inverse
  float length, inverse;
};

struct Limits {
  float enough;  // violation of the set to reach
  Pace relaxed;  // of steps after the first SET
  int most;      // steps
  __device__ Pace pace(int done) const { return done < SET ? Pace{1, 1} : relaxed; }
};

// Gradients in units, a power of 2: from low to top they are wishes from 0 to -width, which is between
// UNITS / 2 and UNITS. Classes below low keep their coefficients: they cannot grow, and have no reason to shrink.
struct Scale {
  float low, unit, per;  // per: of coefficients
  __device__ float wish(float g) const { return (low - g) * unit; }
  __device__ float room(float room) const { return room * per; }
};

// The shift, in units, where the changes min(room, wish + shift) sum to 0: Newton's method, the sum being concave in
// it. After one step it comes from the left, and classes only leave. It is in 0 .. width: sums are of integers.
__device__ __forceinline__ float shift_of(const Example& now, const Scale& in, float shift) {
  int free = 0;
  for (int pass = 0;; pass++) {
    int count = 0, sum = 0;
#pragma unroll
    for (int q = 0; q < PER_LANE; q++) {
      bool below = in.wish(now.g[q]) + shift < in.room(now.room[q]);
      count += __popc(__ballot_sync(FULL_WARP, below));
      sum += __float2int_rn(below ? in.wish(now.g[q]) : in.room(now.room[q]));
    }
    if (pass && ((count == 0) | (count == free) | ((pass > 1) & (count > free)))) break;
    shift = count ? fmaxf(__fdividef(-(float)warp_sum(sum), (float)count), 0.0f) : 0;
    free = count;
  }
  return shift;
}

// The class other than `own` with the largest gradient.
__device__ __forceinline__ int worst_other(const float* g, int own, int k) {
  int lane = threadIdx.x % WARP, which = k;
  float worst = -INFINITE_F;
#pragma unroll
  for (int q = 0; q < PER_LANE; q++) {
    int r = lane + WARP * q;
    if (r < k && r != own && g[q] > worst) worst = g[q], which = r;
  }
  bool mine = ordered(worst) == warp_max(ordered(worst));
  return (int)~warp_max(mine ? ~(uint32)which : 0);
}

// The step of an example: its changes, whose sum is 0 to float32 (`put` makes it 0 to float64). Bit q of the result:
// whether a lane's class number q is then at its bound.
__device__ __forceinline__ uint32 step_of(const Example& now, int k, float least, Pace pace, float* change) {
  int lane = threadIdx.x % WARP;
  float top = -INFINITE_F, low = INFINITE_F;
#pragma unroll
  for (int q = 0; q < PER_LANE; q++) {
    change[q] = 0;
    top = fmaxf(top, now.g[q]);
    if (now.room[q] > 0) low = fminf(low, now.g[q]);
  }
  top = unordered(warp_max(ordered(top)));
  low = -unordered(warp_max(ordered(-low)));
  if (!(top - low > least)) return 0;

  // The power of 2 below the width, as bits of a float.
  uint32 power = __float_as_uint(top - low) & 0x7f800000;
  float unit = __uint_as_float((254u << 23) - power) * (UNITS / 2);
  float step = __uint_as_float(power) * (2.0f / UNITS);
  Scale in = {low, unit, unit * (now.curvature * pace.inverse)};
  float by = now.inverse * pace.length;
  float shift = shift_of(now, in, 0.5f * unit * (top - low)), level = low + shift * step;
  bool full = false, some = false;
  uint32 bounded = 0;
#pragma unroll
  for (int q = 0; q < PER_LANE; q++) {
    bool own = lane + WARP * q == now.own, below = in.wish(now.g[q]) + shift < in.room(now.room[q]);
    change[q] = below ? fminf((level - now.g[q]) * by, now.room[q]) : now.room[q];
    bounded |= (uint32)!below << q;
    full |= own && !below;
    some |= !own && change[q] < now.room[q];
  }
  if (__any_sync(FULL_WARP, full) && !__any_sync(FULL_WARP, some)) {  // the shift was lost in rounding
    int which = worst_other(now.g, now.own, k);
#pragma unroll
    for (int q = 0; q < PER_LANE; q++)
      if (lane + WARP * q == which) change[q] = (float)(-now.bound - now.a[q]), bounded &= ~(1u << q);
  }
  return bounded;
}

#if !IN_REGISTERS
// List the changes for the other warps; how many.
__device__ __forceinline__ int write_changes(Shared& set, const float* change, int k) {
  int lane = threadIdx.x % WARP, changes = 0;
  float* change_of = (float*)set.change;
  int* class_of = (int*)set.change_class;
#pragma unroll
  for (int q = 0; q < PER_LANE; q++) {
    uint32 votes = __ballot_sync(FULL_WARP, change[q] != 0);
    int place = changes + __popc(votes & ((1u << lane) - 1));
    if (change[q] != 0) class_of[place] = lane + WARP * q, change_of[place] = change[q];
    changes += __popc(votes);
  }
  if (lane < 3) class_of[changes + lane] = k, change_of[changes + lane] = 0;  // up to a four
  if (lane == 0) set.changes = changes;
  return changes;
}
#endif

// Put the new coefficients of an example where they belong.
__device__ __forceinline__ void keep_step(Shared& set, const Sets& sets, const Example& now, const float* change,
                                          uint32 bounded) {
  int lane = threadIdx.x % WARP;
#pragma unroll
  for (int q = 0; q < PER_LANE; q++) {
    int r = lane + WARP * q;
    double limit = r == now.own ? now.bound : 0, next = now.a[q] + (double)change[q];
    bool below = !(bounded >> q & 1) && next < limit;
    uint32 growing = __ballot_sync(FULL_WARP, r < sets.k && below);
    if (r < sets.k) sets.a[now.at * sets.k + r] = below ? next : limit;
    if (lane == 0 && WARP * q < sets.k) sets.grows[q * PITCH + now.at] = growing;
  }
  if (lane == 0) set.changed[now.at] = 1;
}

// Copy the set's gradients, and constants of each example, to shared memory.
__device__ __forceinline__ void load_set(Shared& set, const Sets& sets, const Arrays& p, int count) {
  int thread = threadIdx.x;
#if ON_CHIP && !IN_REGISTERS
  for (int q = thread; q < p.k * (PITCH / 4); q += THREADS) ((float4*)sets.g)[q] = ((const float4*)p.set_g)[q];
#endif
#if IN_REGISTERS
  if (thread < 2 * WINDOW * WARP) ((float*)set.g)[thread] = -INFINITE_F;  // stays there beyond class k
#endif
#if ON_CHIP
  for (int q = thread; q < (p.k + WARP - 1) / WARP * PITCH; q += THREADS) sets.grows[q] = p.set_grows[q];
#endif
  for (int at = thread; at < SET + 2 * WINDOW; at += THREADS) {
    set.todo[at] = 0;
    if (at >= SET) break;
    int e = at < count ? p.members[at] : -1;
    float curvature = e < 0 ? 1 : fmaxf(p.tile[at * SET + at], TAU);
    set.constants[at] = {e < 0 ? 0 : p.upper[e], curvature, e < 0 ? 0 : p.target[e]};
    set.changed[at] = 0;
  }
  __syncthreads();
}

struct Listed {  // of a thread's examples: those in set.todo, a bit each; where they are there
  uint32 which;
  int first, end;
};

// List in set.todo the examples whose violation exceeds `least`, a share of the largest, in order. Return their number,
// 0 if the largest does not exceed `enough`. Violations of threads that do not add are 0.
__device__ __forceinline__ int list_violators(Shared& set, const float* wide, float enough, float* least,
                                              Listed* listed) {
  int thread = threadIdx.x, lane = thread % WARP, warp = thread / WARP;
  float widest = 0;
#pragma unroll
  for (int e = 0; e < EXAMPLES; e++) widest = fmaxf(widest, wide[e]);
  uint32 key = warp_max(__float_as_uint(widest));
  if (lane == 0 && thread < ADDERS) set.widest[warp] = key;
  __syncthreads();
  widest = __uint_as_float(warp_max(lane < ADDERS / WARP ? set.widest[lane] : 0));
  if (!(widest > enough)) return 0;
  *least = fmaxf(enough, SWEEP * widest);
  listed->which = 0;
#pragma unroll
  for (int e = 0; e < EXAMPLES; e++) listed->which |= (uint32)(wide[e] > *least) << e;
  int own_count = __popc(listed->which), through = running_sum(own_count);
  if (lane == WARP - 1 && thread < ADDERS) set.of_warp[warp] = through;
  __syncthreads();
  int place = through - own_count, todo = 0;
#pragma unroll
  for (int w = 0; w < ADDERS / WARP; w++) {
    place += w < warp ? set.of_warp[w] : 0;
    todo += set.of_warp[w];
  }
  listed->first = place, listed->end = place + own_count;
#pragma unroll
  for (int e = 0; e < EXAMPLES; e++)
    if (listed->which >> e & 1) set.todo[place++] = EXAMPLES * thread + e;
  __syncthreads();
  return todo;
}

// The coefficients of example `at`.
__device__ __forceinline__ void read_classes(const Sets& sets, int at, double* a) {
  int lane = threadIdx.x % WARP;
#pragma unroll
  for (int q = 0; q < PER_LANE; q++) a[q] = lane + WARP * q < sets.k ? sets.a[at * sets.k + lane + WARP * q] : 0;
}

// Values of example `at` that steps of others do not change.
__device__ __forceinline__ void read_example(const Shared& set, const Sets& sets, int at, Example& now) {
  Constants its = set.constants[at];
  now.at = at, now.own = its.own, now.bound = its.upper, now.curvature = its.curvature;
  read_classes(sets, at, now.a);
}

// What follows from these values: the inverse of the curvature, and how much the coefficients can grow.
__device__ __forceinline__ void complete(Example& now) {
  now.inverse = __fdividef(1.0f, now.curvature);
#pragma unroll
  for (int q = 0; q < PER_LANE; q++)
    now.room[q] = (float)(((int)threadIdx.x % WARP + WARP * q == now.own ? now.bound : 0.0) - now.a[q]);
}

#if IN_REGISTERS
// 16 bytes from global to shared memory. They are there after `wait_copies` and a barrier.
__device__ __forceinline__ void start_copy(float4* to, const float4* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint32)__cvta_generic_to_shared(to)), "l"(from)
               : "memory");
#else
  *to = *from;
#endif
}

__device__ __forceinline__ void wait_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Progress of a sweep, equal in all threads: it follows from `classes` and `coupled` of the window. A window takes
// a turn or more.
struct Place {
  int start, from;  // of the window in the list; the first in it that may still step
  int side, turn;   // of the arrays in twos: of this window, and of this turn
  int stage;        // of the rows of this window
  int done;         // steps
  uint32 steps;     // of the last turn, a bit an example of the window

  // Take the steps of a turn. Return whether the window is finished.
  __device__ bool next(const Shared& set, int todo, int most) {
    uint4 classes = set.classes[turn];
    uint32 coupled = set.coupled[side];
    steps = (uint32)(classes.x != 0) | (uint32)(classes.y != 0) << 1 | (uint32)(classes.z != 0) << 2
            | (uint32)(classes.w != 0) << 3;
    from = coupled & steps << 8 ? 1 : coupled & steps << 16 ? 2 : coupled & steps << 24 ? 3 : WINDOW;
    steps &= (1u << from) - 1;
    if (done > most - WINDOW)
      while (done + __popc(steps) > most) steps &= ~(0x80000000u >> __clz(steps));
    done += __popc(steps);
    turn ^= 1;
    return from >= WINDOW || start + from >= todo;
  }

  // Whether `next` was the last turn of the sweep.
  __device__ bool last(bool finished, int todo, int most) const {
    return done == most || (finished && start + WINDOW >= todo);
  }

  __device__ void advance() { start += WINDOW, from = 0, side ^= 1, stage = stage_after(); }
  __device__ int stage_after() const { return stage + 1 < STAGES ? stage + 1 : 0; }
};

// One sweep over the `todo` examples listed, by the warps that step; steps so far.
__device__ __forceinline__ int sweep_steps(Shared& set, const Sets& sets, const float*, int todo, float least, int done,
                                           const Limits& limits) {
  int lane = threadIdx.x % WARP, other = lane % WINDOW;
  int own = __shfl_sync(FULL_WARP, threadIdx.x / WARP - ADDERS / WARP, 0);  // known to be equal in a warp
  Place place = {0, 0, 0, 0, 0, done, 0};
  Example now, next;
  read_example(set, sets, set.todo[own], next);
  // Of example number `other` of this window; and kernel values of the next example and those of this window.
  float curvature = set.constants[set.todo[other]].curvature, across[WINDOW] = {};
  float change = 0;
  uint32 bounded = 0;
  bool stepped = false;
  ((float*)set.by[1][own])[lane] = 0;  // of the window before the first
  __syncthreads();
  for (;;) {
    const float* rows = sets.g + place.stage * WINDOW * SET;
    bool here = place.start + own < todo;
    float within = rows[other * SET + next.at];
    float g = ((const float*)set.g[place.side][own])[lane], by[WINDOW];  // without the changes of the window before
#pragma unroll
    for (int w = 0; w < WINDOW; w++) by[w] = ((const float*)set.by[place.side ^ 1][w])[lane];
    if (stepped) keep_step(set, sets, now, &change, bounded);
#pragma unroll
    for (int w = 0; w < WINDOW; w++) g += by[w] * across[w];
    now = next;
    now.g[0] = g;
    complete(now);
    bool apart = fabsf(within) <= COUPLED * fminf(now.curvature, curvature);
    uint32 coupled = ~__ballot_sync(FULL_WARP, apart) & ((1u << own) - 1);
    float values[WINDOW - 1];
#pragma unroll
    for (int w = 0; w < WINDOW - 1; w++) values[w] = __shfl_sync(FULL_WARP, within, w);
    if (lane == 0) ((uint8*)&set.coupled[place.side])[own] = coupled;
    read_example(set, sets, set.todo[place.start + WINDOW + own], next);
    curvature = set.constants[set.todo[place.start + WINDOW + other]].curvature;
#pragma unroll
    for (int w = 0; w < WINDOW; w++) across[w] = rows[w * SET + next.at];
    for (;;) {
      uint32 classes = 0;
      if (own >= place.from) {
        change = 0;
        if (here) bounded = step_of(now, sets.k, least, limits.pace(place.done), &change);
        ((float*)set.by[place.side][own])[lane] = change;
        classes = __ballot_sync(FULL_WARP, change != 0);
      }
      if (lane == 0) ((uint32*)&set.classes[place.turn])[own] = classes;
      __syncthreads();
      bool finished = place.next(set, todo, limits.most);
      stepped = place.steps >> own & 1;
      if (place.last(finished, todo, limits.most)) {
        if (stepped) keep_step(set, sets, now, &change, bounded);
        return place.done;
      }
      if (finished) break;
      if (stepped) keep_step(set, sets, now, &change, bounded);
      if (own < place.from) continue;
#pragma unroll
      for (int w = 0; w < WINDOW - 1; w++)
        if (place.steps >> w & 1) by[w] = ((const float*)set.by[place.side][w])[lane];
#pragma unroll
      for (int w = 0; w < WINDOW - 1; w++)
        if (place.steps >> w & 1) now.g[0] += by[w] * values[w];
    }
    place.advance();
  }
}

struct Gradients {  // of a thread's examples
  float4 g[WARP];
};

__device__ __forceinline__ Gradients gradients_of(const Arrays& p) {
  Gradients mine;
#pragma unroll
  for (int r = 0; r < WARP; r++) {
    const float4* g = (const float4*)(p.set_g + r * PITCH) + threadIdx.x;
    mine.g[r] = r < p.k ? *g : float4{-INFINITE_F, -INFINITE_F, -INFINITE_F, -INFINITE_F};
  }
  return mine;
}

// Copy the rows of the tile of a window's examples, by all warps that add.
__device__ __forceinline__ void start_rows(const Shared& set, float4* to, const float* tile, int start, int todo) {
  const int parts = ADDERS / WARP / WINDOW, size = QUADS / parts;  // of a row
  int warp = threadIdx.x / WARP, w = warp / parts, first = warp % parts * size + threadIdx.x % WARP;
  if (start + w >= todo) return;
  const float4* from = (const float4*)tile + set.todo[start + w] * QUADS + first;
  to += w * QUADS + first;
#pragma unroll
  for (int q = 0; q < size; q += WARP) start_copy(to + q, from + q);
}

__device__ __forceinline__ float part(float4 of, int at) {
  return at & 2 ? (at & 1 ? of.w : of.z) : (at & 1 ? of.y : of.x);
}

// Store the gradients of a window's examples, by the threads that have them.
__device__ __forceinline__ void write_gradients(float4 (*to)[WARP / 4], const Gradients& mine, Listed& listed,
                                                int start, int k) {
  for (; listed.first < min(listed.end, start + WINDOW); listed.first++, listed.which &= listed.which - 1) {
    int at = __ffs(listed.which) - 1;
    float4* place = to[listed.first - start];
#pragma unroll
    for (int r = 0; r < WARP; r += 4) {
      if (r % 8 == 0 && r >= k) break;
      place[r / 4] = {part(mine.g[r], at), part(mine.g[r + 1], at), part(mine.g[r + 2], at), part(mine.g[r + 3], at)};
    }
  }
}

// The same sweep, by the threads that bring the gradients up to date.
__device__ __forceinline__ int sweep_changes(Shared& set, const Sets& sets, Gradients& mine, const float* tile,
                                             int todo, int done, const Limits& limits, Listed listed) {
  float4* rows = (float4*)sets.g;
  Place place = {0, 0, 0, 0, 0, done, 0};
  for (int w = 0; w < 2; w++) {
    start_rows(set, rows + w * WINDOW * QUADS, tile, w * WINDOW, todo);
    write_gradients(set.g[w], mine, listed, w * WINDOW, sets.k);
    if (w) break;
    wait_copies();
    __syncthreads();
  }
  for (;;) {
    wait_copies();
    __syncthreads();
    const uint32* its_classes = (const uint32*)&set.classes[place.turn];
    const float4 *its_row = rows + place.stage * WINDOW * QUADS + threadIdx.x, *its_changes = set.by[place.side][0];
    bool finished = place.next(set, todo, limits.most), last = place.last(finished, todo, limits.most);
    bool more = finished && !last;
    if (more) place.advance();
    float4* after = rows + place.stage_after() * WINDOW * QUADS;
    if (more && STAGES > 2) start_rows(set, after, tile, place.start + WINDOW, todo);
    for (uint32 steps = place.steps; steps; steps &= steps - 1) {
      int w = __ffs(steps) - 1;
      uint32 classes = its_classes[w];
      float4 row = its_row[w * QUADS];
      const float4* by = its_changes + w * (WARP / 4);
#pragma unroll
      for (int r = 0; r < WARP; r += 8) {
        if (!(classes >> r & 255)) continue;
        float4 these[2] = {by[r / 4], by[r / 4 + 1]};  // a latency for both
#pragma unroll
        for (int q = 0; q < 2; q++) {
          float4* g = mine.g + r + 4 * q;
          if (classes >> (r + 4 * q) & 15) {
            g[0] = plus(g[0], these[q].x, row), g[1] = plus(g[1], these[q].y, row);
            g[2] = plus(g[2], these[q].z, row), g[3] = plus(g[3], these[q].w, row);
          }
        }
      }
    }
    if (last) return place.done;
    if (more && STAGES == 2) {  // in place of rows that others may still read
      asm volatile("bar.sync 1, %0;" ::"n"(ADDERS) : "memory");
      start_rows(set, after, tile, place.start + WINDOW, todo);
    }
    if (more) write_gradients(set.g[place.side ^ 1], mine, listed, place.start + WINDOW, sets.k);
  }
}

// The gradient of class r of this thread's examples.
__device__ __forceinline__ float4 gradient(const Sets&, const Gradients& mine, int r) { return mine.g[r]; }

#else
struct Gradients {};

__device__ __forceinline__ Gradients gradients_of(const Arrays&) { return {}; }

__device__ __forceinline__ float4 gradient(const Sets& sets, const Gradients&, int r) {
  return ((const float4*)(sets.g + r * PITCH))[threadIdx.x];
}

// The gradients of example `at`; minus infinity beyond its classes.
__device__ __forceinline__ void read_gradients(const Sets& sets, int at, float* g) {
  int lane = threadIdx.x % WARP;
#pragma unroll
  for (int q = 0; q < PER_LANE; q++)
    g[q] = lane + WARP * q < sets.k ? sets.g[(lane + WARP * q) * PITCH + at] : -INFINITE_F;
}

// G += change * row, for the changes of a step and this thread's four examples.
__device__ __forceinline__ void add_changes(const Shared& set, const Sets& sets, int changes, float4 row) {
  float4* mine = (float4*)sets.g + threadIdx.x;
  for (int p = 0; 4 * p < changes; p++) {  // changes that only fill the last four go to row k, which is not used
    int4 r = set.change_class[p];
    float4 by = set.change[p];
    float4 *g0 = mine + r.x * (PITCH / 4), *g1 = mine + r.y * (PITCH / 4), *g2 = mine + r.z * (PITCH / 4),
           *g3 = mine + r.w * (PITCH / 4);
    float4 now0 = *g0, now1 = *g1, now2 = *g2, now3 = *g3;
    *g0 = plus(now0, by.x, row), *g1 = plus(now1, by.y, row), *g2 = plus(now2, by.z, row);
    *g3 = plus(now3, by.w, row);
  }
}

// One sweep over the `todo` examples listed, by the warp that steps; steps so far.
__device__ __forceinline__ int sweep_steps(Shared& set, const Sets& sets, const float* tile, int todo, float least,
                                           int done, const Limits& limits) {
  Example now;
  double a_next[PER_LANE];
  float change[PER_LANE];
  read_example(set, sets, set.todo[0], now);
  read_gradients(sets, set.todo[0], now.g);
  complete(now);
  for (int t = 0; t < todo && done < limits.most; t++) {
    int next = set.todo[t + 1 < todo ? t + 1 : t];
    float value = __ldg(tile + now.at * SET + next);
    if (PER_LANE < 16) read_classes(sets, next, a_next);  // early, where there are registers for it
    uint32 bounded = step_of(now, sets.k, least, limits.pace(done), change);
    if (PER_LANE >= 16) read_classes(sets, next, a_next);
    __syncthreads();  // the changes of the step before are in the gradients
    read_gradients(sets, next, now.g);
    int changes = write_changes(set, change, sets.k);
    __syncthreads();  // and these are listed
    if (changes) keep_step(set, sets, now, change, bounded);
    done += changes > 0;
#pragma unroll
    for (int q = 0; q < PER_LANE; q++) now.g[q] += change[q] * value, now.a[q] = a_next[q];
    Constants its = set.constants[next];
    now.at = next, now.own = its.own, now.bound = its.upper, now.curvature = its.curvature;
    complete(now);
  }
  return done;
}

// The same sweep, by the other warps, which bring the gradients up to date.
__device__ __forceinline__ int sweep_changes(const Shared& set, const Sets& sets, Gradients&, const float* tile,
                                             int todo, int done, const Limits& limits, const Listed&) {
  const float4* rows = (const float4*)tile + threadIdx.x;
  float4 row = __ldg(rows + set.todo[0] * (SET / 4));
  for (int t = 0; t < todo && done < limits.most; t++) {
    float4 row_next = __ldg(rows + set.todo[t + 1 < todo ? t + 1 : t] * (SET / 4));
    __syncthreads();
    __syncthreads();
    int changes = set.changes;
    add_changes(set, sets, changes, row);
    done += changes > 0;
    row = row_next;
  }
  return done;
}

#endif

// The violations of this thread's examples, 4 thread .. 4 thread + 3.
__device__ __forceinline__ void violations_of(const Sets& sets, const Gradients& mine, float* wide) {
  float4 top = {-INFINITE_F, -INFINITE_F, -INFINITE_F, -INFINITE_F};
  float4 low = {INFINITE_F, INFINITE_F, INFINITE_F, INFINITE_F};
  for (int word = 0; WARP * word < sets.k; word++) {
    uint4 bits = ((const uint4*)(sets.grows + word * PITCH))[threadIdx.x];
#if IN_REGISTERS
#pragma unroll
#endif
    for (int r = WARP * word; (IN_REGISTERS || r < sets.k) && r < WARP * (word + 1); r++) {
      if (IN_REGISTERS && r % 8 == 0 && r >= sets.k) break;
      float4 g = gradient(sets, mine, r);
      top.x = fmaxf(top.x, g.x), top.y = fmaxf(top.y, g.y), top.z = fmaxf(top.z, g.z), top.w = fmaxf(top.w, g.w);
      if (bits.x >> r % WARP & 1) low.x = fminf(low.x, g.x);
      if (bits.y >> r % WARP & 1) low.y = fminf(low.y, g.y);
      if (bits.z >> r % WARP & 1) low.z = fminf(low.z, g.z);
      if (bits.w >> r % WARP & 1) low.w = fminf(low.w, g.w);
    }
    if (IN_REGISTERS) break;
  }
  wide[0] = fmaxf(top.x - low.x, 0.0f), wide[1] = fmaxf(top.y - low.y, 0.0f);
  wide[2] = fmaxf(top.z - low.z, 0.0f), wide[3] = fmaxf(top.w - low.w, 0.0f);
}

// Number the changed examples in the order of the set, by one warp. Return how many there are.
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

// Sweep until the violation is small enough or nothing changes. Return the number of steps. By the threads that add
// changes, and, below, by the warps that compute steps.
__device__ __forceinline__ int run_adders(Shared& set, const Sets& sets, const Arrays& p, const Limits& limits) {
  Gradients mine = gradients_of(p);
  int done = 0;
  for (int before = -1; before < done && done < limits.most;) {
    float least, wide[EXAMPLES];
    Listed listed;
    violations_of(sets, mine, wide);
    int todo = list_violators(set, wide, limits.enough, &least, &listed);
    if (!todo) break;
    before = done;
    done = sweep_changes(set, sets, mine, p.tile, todo, done, limits, listed);
    __syncthreads();
  }
  return done;
}

__device__ __forceinline__ int run_steppers(Shared& set, const Sets& sets, const Arrays& p, const Limits& limits) {
  int done = 0;
  for (int before = -1; before < done && done < limits.most;) {
    float least, none[EXAMPLES] = {};
    Listed listed;
    int todo = list_violators(set, none, limits.enough, &least, &listed);
    if (!todo) break;
    before = done;
    done = sweep_steps(set, sets, p.tile, todo, least, done, limits);
    __syncthreads();
  }
  return done;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) solve_set(Arrays all) {
  __shared__ Shared set;
  Arrays p = of_slot(all, blockIdx.x);
  State* state = p.state;
  if (state->done) return;
  Sets sets = {p.set_g, p.set_grows, p.set_a, p.k};
#if ON_CHIP
  extern __shared__ float4 chip[];
  sets.g = (float*)chip;  // with gradients in registers: rows of the tile, for the examples of STAGES windows
  sets.grows = (uint32*)(sets.g + (IN_REGISTERS ? STAGES * WINDOW * SET : (p.k + 1) * PITCH));
#endif
  load_set(set, sets, p, (int)state->count);
  double tol = 0.99 * state->tol;
  int64 left = state->bound - state->iterations;
  Limits limits = {state->limit == state->size ? (float)tol : (float)fmax(tol, p.share * state->violation),
                   {p.relaxation, 1 / p.relaxation}, left < p.most ? (int)left : p.most};
  int done = threadIdx.x < ADDERS ? run_adders(set, sets, p, limits) : run_steppers(set, sets, p, limits);
  if (threadIdx.x < WARP) {
    int placed = place_changes(set, p.places);
    if (threadIdx.x == 0) {
      state->moved = placed;
      state->iterations += done;
    }
  }
}
