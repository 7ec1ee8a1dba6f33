// Edit distances of row documents (patterns, their match masks in shared memory) to column documents (texts, one a
// thread), and what is made of a distance. The recurrence and its names: textsvm/kernels/edit/kernel.py.
//
// Layout. Pattern symbol i is bit i / WORDS of word i % WORDS, so that "one symbol further down" is the next
// register: no word is shifted, but the last one, once a text symbol. A carry runs through the words of one bit
// (a segment of WORDS symbols) as c = vp & (eq | c), twice: first from c = 0, which with the AND of all vp says
// what each segment generates and propagates, then, after one 32-bit addition has carried that through the
// segments, from the right c. About 6.5 integer instructions a word and text symbol.
//
//   WORDS    words of 32 pattern symbols in registers
//   FIELDS   1, or 4: four patterns of less than 8 * WORDS symbols share each word, one a byte. The last symbol of
//            a byte belongs to no pattern; with vp = 0 and vn = 1 it stops the carry and hands hp = 1 to the next.
//   STRIPS   1: a pattern is taken in strips of 32 * WORDS symbols, with hp and hn handed to the next strip as
//            one bit each a text symbol, in `scratch`; 0: it is at most one strip.
//   WIDE     1: the symbols of texts find their masks through a map in `scratch`; 0: they are below 256, and texts
//            hold 4 times the symbol, where its mask is. Two text symbols a word, either way.
//   PACK     instead of all that, the kernel that brings texts into this form.

#ifdef PACK

// One block for 32 texts: word q of all 32 side by side, from words[group_words[g]] on. Symbols above `highest`
// become that one; each is multiplied by `factor`.
extern "C" __global__ void pack_texts(const uint16* __restrict__ codes, const int64* __restrict__ offsets,
                                      const int64* __restrict__ order, int n, const int64* __restrict__ group_words,
                                      int highest, int factor, uint32* __restrict__ words) {
  int64 first = group_words[blockIdx.x];
  int lane = threadIdx.x % WARP, position = blockIdx.x * WARP + lane;
  int64 begin = position < n ? offsets[order[position]] : 0;
  int64 end = position < n ? offsets[order[position] + 1] : 0;
  int64 count = (group_words[blockIdx.x + 1] - first) / WARP;
  for (int64 q = threadIdx.x / WARP; q < count; q += blockDim.x / WARP) {
    uint32 low = begin + 2 * q < end ? min((int)codes[begin + 2 * q], highest) : 0;
    uint32 high = begin + 2 * q + 1 < end ? min((int)codes[begin + 2 * q + 1], highest) : 0;
    words[first + q * WARP + lane] = factor * (low | high << 16);
  }
}

#else

#define THREADS 256
#define FIELD_BITS (32 / FIELDS)
#define CAPACITY (FIELD_BITS * WORDS)  // pattern symbols in registers, of each pattern
#define WALLS (FIELDS == 1 ? 0u : 0x80808080u)
#define STRIDE (WIDE ? 544 : 256)  // masks of one word; WIDE: slot 0 and one for each of 512 symbols

struct __align__(16) Masks {
  uint32 of[WORDS * STRIDE];
  uint32 valid[WORDS];
};

// Three-input logic, one instruction each; written out, the compiler splits some of them.
template <int TABLE>
__device__ __forceinline__ uint32 logic(uint32 a, uint32 b, uint32 c) {
  uint32 d;
  asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(d) : "r"(a), "r"(b), "r"(c), "n"(TABLE));
  return d;
}
#define A_AND_B_OR_C logic<0xe0>  // a & (b | c)
#define A_OR_B_AND_C logic<0xf8>  // a | (b & c)
#define A_OR_NEITHER logic<0xf1>  // a | ~(b | c)
#define ALL_THREE logic<0x80>
#define ANY_OF_THREE logic<0xfe>
#define XOR_OF_THREE logic<0x96>

struct Column {
  uint32 vp[WORDS], vn[WORDS];
};

// One text symbol. hp_queue and hn_queue hand in their top bit and take the strip's own in at the bottom.
__device__ __forceinline__ void advance(Column& s, const uint32 (&eq)[WORDS], uint32& hp_queue, uint32& hn_queue) {
  uint32 generate = s.vp[0] & eq[0], propagate = s.vp[0];
#pragma unroll
  for (int w = 1; w < WORDS; w++) generate = A_AND_B_OR_C(s.vp[w], eq[w], generate);
#pragma unroll
  for (int w = 1; w + 1 < WORDS - 1; w += 2) propagate = ALL_THREE(propagate, s.vp[w], s.vp[w + 1]);
  if (WORDS % 2 == 1) propagate &= s.vp[WORDS - 2];
  uint32 either = A_OR_B_AND_C(generate, propagate, s.vp[WORDS - 1]);
  uint32 hn_in = STRIPS ? hn_queue >> 31 : 0;
  uint32 c = XOR_OF_THREE(generate + either + hn_in, generate, either);
  uint32 first_c = c, first_d0 = 0, hp_above = 0;
#pragma unroll
  for (int w = 0; w < WORDS; w++) {
    uint32 d0 = ANY_OF_THREE(c, eq[w], s.vn[w]);
    uint32 hp = A_OR_NEITHER(s.vn[w], d0, s.vp[w]);
    uint32 c_below = A_AND_B_OR_C(s.vp[w], eq[w], c);
    if (w == 0) {
      first_d0 = d0;
    } else {
      s.vp[w] = A_OR_NEITHER(c, d0, hp_above);
      s.vn[w] = hp_above & d0;
    }
    c = c_below;
    hp_above = hp;
  }
  uint32 hp_first = STRIPS ? __funnelshift_l(hp_queue, hp_above, 1) : 2 * hp_above + 1;
  s.vp[0] = A_OR_NEITHER(first_c, first_d0, hp_first);
  s.vn[0] = hp_first & first_d0;
  s.vp[WORDS - 1] &= ~WALLS;
  s.vn[WORDS - 1] |= WALLS;
  if (STRIPS) {
    hp_queue = __funnelshift_l(hp_above, hp_queue, 1);
    hn_queue = __funnelshift_l(c, hn_queue, 1);
  }
}

// `place`: where the masks of the symbol are, in bytes, or WIDE the symbol.
__device__ __forceinline__ void advance_by(Column& s, const Masks& masks, uint32 place, const uint16* slots,
                                           uint32& hp_queue, uint32& hn_queue) {
  if (WIDE) place = slots[place];
  uint32 eq[WORDS];
#pragma unroll
  for (int w = 0; w < WORDS; w++) eq[w] = *(const uint32*)((const char*)(masks.of + w * STRIDE) + place);
  advance(s, eq, hp_queue, hn_queue);
}

__device__ __forceinline__ void restart(Column& s) {
#pragma unroll
  for (int w = 0; w < WORDS; w++) {
    s.vp[w] = w == WORDS - 1 ? ~WALLS : ~0u;
    s.vn[w] = w == WORDS - 1 ? WALLS : 0u;
  }
}

// The whole text against a pattern of one strip. `text` strides by a warp.
__device__ __forceinline__ void run_text(Column& s, const Masks& masks, const uint32* __restrict__ text, int length,
                                         const uint16* slots) {
  uint32 none = 0;
  uint32 next = length > 0 ? __ldg(text) : 0;
  for (int done = 0; done + 2 <= length; done += 2) {
    uint32 word = next;
    text += WARP;
    if (done + 2 < length) next = __ldg(text);
    advance_by(s, masks, word & 0xffff, slots, none, none);
    advance_by(s, masks, word >> 16, slots, none, none);
  }
  if (length & 1) advance_by(s, masks, next & 0xffff, slots, none, none);
}

// The whole text against one strip of a longer pattern; `queues` has hp and hn of 32 text symbols side by side.
__device__ __forceinline__ void run_text_through(Column& s, const Masks& masks, const uint32* __restrict__ text,
                                                 int length, const uint16* slots, uint32* queues, bool top) {
  uint32 next = length > 0 ? __ldg(text) : 0;
  for (int done = 0; done < length; done += 32, queues += 2 * THREADS) {
    uint32 hp_queue = top ? ~0u : queues[0], hn_queue = top ? 0u : queues[THREADS];
    int rest = min(32, length - done);
    for (int k = 0; k < rest; k += 2) {
      uint32 word = next;
      text += WARP;
      if (done + k + 2 < length) next = __ldg(text);
      advance_by(s, masks, word & 0xffff, slots, hp_queue, hn_queue);
      if (k + 1 < rest) advance_by(s, masks, word >> 16, slots, hp_queue, hn_queue);
    }
    queues[0] = hp_queue << (32 - rest);
    queues[THREADS] = hn_queue << (32 - rest);
  }
}

// Bits set in each byte.
__device__ __forceinline__ uint32 byte_popcounts(uint32 x) {
  x -= (x >> 1) & 0x55555555u;
  x = (x & 0x33333333u) + ((x >> 2) & 0x33333333u);
  return (x + (x >> 4)) & 0x0f0f0f0fu;
}

// Adds D(m, n) - D(0, n) of each pattern, or of its strip.
__device__ __forceinline__ void add_differences(const Column& s, const Masks& masks, int (&distance)[FIELDS]) {
  uint32 up = 0, down = 0;
#pragma unroll
  for (int w = 0; w < WORDS; w++) {
    uint32 valid = masks.valid[w];
    up += FIELDS == 1 ? __popc(s.vp[w] & valid) : byte_popcounts(s.vp[w] & valid);
    down += FIELDS == 1 ? __popc(s.vn[w] & valid) : byte_popcounts(s.vn[w] & valid);
  }
#pragma unroll
  for (int f = 0; f < FIELDS; f++) {
    int shift = f * FIELD_BITS % 32;
    distance[f] += FIELDS == 1 ? (int)up - (int)down : (int)(up >> shift & 255) - (int)(down >> shift & 255);
  }
}

// Masks of symbols [first, first + CAPACITY) of the patterns of a pack. Ends with a barrier.
__device__ void build_masks(Masks& masks, const uint16* __restrict__ codes, const int64* __restrict__ offsets,
                            const int* __restrict__ pack, int first, int alphabet, uint16* slots) {
  for (int k = threadIdx.x; k < WORDS * STRIDE / 4; k += THREADS) ((uint4*)masks.of)[k] = make_uint4(0, 0, 0, 0);
  if (threadIdx.x < WORDS) masks.valid[threadIdx.x] = 0;
  if (WIDE) {
    for (int k = threadIdx.x; k < alphabet; k += THREADS) slots[k] = 0;
    __syncthreads();
    // Several positions may hold the same symbol: any of them may give it its slot.
    for (int f = 0; f < FIELDS; f++) {
      if (pack[f] < 0) continue;
      int64 begin = offsets[pack[f]] + first;
      int count = (int)min((int64)CAPACITY, offsets[pack[f] + 1] - begin);
      for (int i = threadIdx.x; i < count; i += THREADS)
        if (codes[begin + i] < alphabet) slots[codes[begin + i]] = 4 * (1 + f * CAPACITY + i);
    }
  }
  __syncthreads();
  for (int f = 0; f < FIELDS; f++) {
    if (pack[f] < 0) continue;
    int64 begin = offsets[pack[f]] + first;
    int count = (int)min((int64)CAPACITY, offsets[pack[f] + 1] - begin);
    for (int i = threadIdx.x; i < count; i += THREADS) {
      uint32 bit = 1u << (f * FIELD_BITS + i / WORDS);
      uint32 code = codes[begin + i];
      atomicOr(&masks.valid[i % WORDS], bit);
      if (code < alphabet) atomicOr(&masks.of[i % WORDS * STRIDE + (WIDE ? slots[code] / 4 : code)], bit);
    }
  }
  __syncthreads();
}

// out or sums gets the distances, or what is made of them, of `packs` times FIELDS patterns and `n_texts` texts.
//
// Patterns: packs (document, or -1, in `codes`), rows (of out), places (in the order of length, descending).
// Texts, in the order of length, padded to a multiple of 32: words, group_words (where the words of each 32 texts
// begin), lengths, columns (of out, -1: padding). `texts_alphabet`: all codes of texts are below it.
// A block takes `span` packs and THREADS texts at a time, the next ones by counting up next_item.
// kind 0: distances; 1: of_distance[d]; 2: exp(-gamma d / the longer length).
// own: texts are the patterns' documents: the distance of a long one to itself is not computed.
// symmetric: moreover, only place >= that of the text is computed, and written twice.
// sums (packs / span, n_classes, n_texts): instead of out, sums of coefficient (pattern, class) times value.
struct Task {
  const uint16* codes;
  const int64* offsets;
  const int *packs, *rows, *places;
  const uint32* words;
  const int64* group_words;
  const int *lengths, *columns;
  uint32* scratch;
  int* next_item;
  const float* of_distance;
  void* out;
  const double* coefficients;
  double* sums;
  int64 scratch_words, n_columns;
  int n_packs, span, n_texts, texts_alphabet, kind, own, symmetric, n_classes;
  float gamma;
};

__device__ __forceinline__ float value_of(const Task& task, int distance, int length, int pattern_length) {
  if (task.kind == 1) return task.of_distance[distance];
  return expf(-task.gamma * (float)distance / (float)max(1, max(length, pattern_length)));
}

extern "C" __global__ void __launch_bounds__(THREADS) edit_rows(const Task task) {
  // Nothing that is read here is written here, but scratch and sums.
  const uint16* __restrict__ codes = task.codes;
  const int64* __restrict__ offsets = task.offsets;
  const uint32* __restrict__ all_words = task.words;
  const int n_packs = task.n_packs, span = task.span, n_texts = task.n_texts;
  const int texts_alphabet = task.texts_alphabet, kind = task.kind, n_classes = task.n_classes;
  const int own = task.own, symmetric = task.symmetric;
  uint32* __restrict__ scratch = task.scratch;
  const int64 scratch_words = task.scratch_words;
  __shared__ Masks masks;
  __shared__ int shared_item;
  uint32* queues = scratch + blockIdx.x * scratch_words + threadIdx.x;
  uint16* slots = (uint16*)(scratch + (blockIdx.x + 1) * scratch_words) - (texts_alphabet + 1 & ~1);
  int text_blocks = (n_texts + THREADS - 1) / THREADS;
  int chunks = (n_packs + span - 1) / span;
  while (true) {
    __syncthreads();
    if (threadIdx.x == 0) shared_item = atomicAdd(task.next_item, 1);
    __syncthreads();
    int item = shared_item;
    if (item >= chunks * text_blocks) return;
    // Long texts first, and with each text block the long patterns: what is started last should be short.
    int text = (text_blocks - 1 - item / chunks) * THREADS + threadIdx.x;
    int chunk = item % chunks;
    int length = text < n_texts ? task.lengths[text] : 0;
    int column = text < n_texts ? task.columns[text] : -1;
    const uint32* my_words = all_words + (text < n_texts ? task.group_words[text / WARP] : 0) + threadIdx.x % WARP;
    for (int p = chunk * span; p < min(n_packs, (chunk + 1) * span); p++) {
      const int* pack = task.packs + p * FIELDS;
      if (symmetric && task.places[p * FIELDS] < text - (int)threadIdx.x) continue;
      bool needed = column >= 0 && !(symmetric && task.places[p * FIELDS] < text);
      bool itself = FIELDS == 1 && own && pack[0] == column;
      int distance[FIELDS];
#pragma unroll
      for (int f = 0; f < FIELDS; f++) distance[f] = length;
      int pattern_length = STRIPS ? (int)(offsets[pack[0] + 1] - offsets[pack[0]]) : 0;
      for (int first = 0; first == 0 || first < pattern_length; first += CAPACITY) {
        __syncthreads();
        build_masks(masks, codes, offsets, pack, first, texts_alphabet, slots);
        if (!needed || itself) continue;
        Column state;
        restart(state);
        if (STRIPS)
          run_text_through(state, masks, my_words, length, slots, queues, first == 0);
        else
          run_text(state, masks, my_words, length, slots);
        add_differences(state, masks, distance);
      }
      if (!needed) continue;
      if (itself) distance[0] = 0;
#pragma unroll
      for (int f = 0; f < FIELDS; f++) {
        int row = task.rows[p * FIELDS + f];
        if (row < 0 || (symmetric && task.places[p * FIELDS + f] < text)) continue;
        int this_length = (int)(offsets[pack[f] + 1] - offsets[pack[f]]);
        float value = kind == 0 ? 0 : value_of(task, distance[f], length, this_length);
        if (task.sums) {
#pragma unroll 1
          for (int k = 0; k < n_classes; k++)
            task.sums[((int64)chunk * n_classes + k) * n_texts + text] +=
                task.coefficients[(int64)(p * FIELDS + f) * n_classes + k] * value;
          continue;
        }
        int bits = kind == 0 ? distance[f] : __float_as_int(value);
        ((int*)task.out)[row * task.n_columns + column] = bits;
        if (symmetric) ((int*)task.out)[column * task.n_columns + row] = bits;
      }
    }
  }
}

#endif
