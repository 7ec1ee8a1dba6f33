/* textsvm: see textsvm.h. The file format and the algorithm are described in docs/export_format.md. */
#include "textsvm.h"

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifndef TEXTSVM_FREESTANDING
#include <stdlib.h>
#endif

#if defined(__GNUC__) || defined(__clang__)
#define INLINE static inline __attribute__((always_inline)) /* for constant arguments */
#define PREFETCH(p) __builtin_prefetch(p)
#else
#define INLINE static inline
#define PREFETCH(p) ((void)0)
#endif

typedef uint32_t u32;
typedef uint64_t u64;

/* ---- The file ------------------------------------------------------------------------------------- */

#define VERSION 6u  /* also read: 3 to 5, which have fewer abilities */
#define COLUMNS 38u  /* number of columns; 0 for texts, or a single column */
#define CHECKSUM 36u /* first of its two words in the header */
#define NONE 0xFFFFFFFFu
#define HEADER_WORDS 64
#define VIEW_WORDS 8
#define TERM_WORDS 16
#define TABLE_WORDS 32
#define TOKENIZER_WORDS 16
#define SCANNED 4u /* rows of a bucket that are compared at once; the file has as many spare tags */

enum { COMBINE_IDENTITY, COMBINE_DIFFERENCE, COMBINE_OVO };
enum { FORM_NONE, FORM_UNICODE, FORM_PAPER };
enum { TOKENS_CHARACTERS, TOKENS_WORDS, TOKENS_WHITESPACE, TOKENS_PIECES = 4 };
enum { COUNT_PLAIN, COUNT_PRESENCE, COUNT_LOG, COUNT_INTERSECTION };
#define MEAN 2u /* of a term that is divided by its number of symbols, instead of normalised */
#define DOUBLE 2u /* type of weights */
#define IN_ROW 5u /* type of factors that are the first element of each row; 0: all are 1 */
enum { CALIBRATION_NONE, CALIBRATION_SIGMOID, CALIBRATION_ISOTONIC };
/* Flags of code points. */
enum { SPACE = 1, PUNCT = 2, WORD = 4, JOINS = 8, CHANGES = 16, CHANGES_FOLDED = 32, IGNORED = 64, KEEPS = 128 };
#define SWALLOWS WORD           /* of a letter of a tokenizer: its image stands for a grapheme of less than 6 bytes */
#define PREPENDS CHANGES_FOLDED /* of a letter of a tokenizer: its successor is of the same grapheme */

typedef struct {
    u32 p, span, n_patterns, n_buckets, n_strings, n_repeats, times, contiguous, stride;
    u32 closed; /* contiguous, and its strings begin and end with strings of the table before, which are one shorter */
    const u32 *offsets, *starts, *repeat_starts;
    const double *values, *weights;
    const u64 *tags;
} table;

typedef struct {
    u32 keep_case, tokens, column, tokenizer;
} view;

typedef struct {
    u32 view, count, normalised, n_tables, n_featureless;
    double scale;
    const u32 *tables, *featureless;
    const double *featureless_values;
} term;

typedef struct { /* sorted keys, starts and UTF-16 data */
    const u32 *keys, *starts;
    const uint16_t *data;
    u32 n;
} mapping;

typedef struct { /* tables of code points */
    const uint16_t *stage1;
    const unsigned char *stage2, *orders;
    u32 n_stage1;
    mapping decompositions, folds;
    const u32 *pairs;
    u32 n_pairs;
} characters;

typedef struct { /* a WordPiece or Unigram tokenizer; of Unigram `states` are those of the unknown token */
    characters letters; /* their decompositions are the images that the tokenizer takes */
    table vocabulary;
    u32 most, longest; /* characters of a word that is split, of a token */
    u32 states[2], prefix; /* hashes of the prefix of the pieces inside of words, and its length */
    const double *scores; /* of each token, and of a letter that is no token; NULL for WordPiece */
    u32 strips, splits;   /* no mark ends a text; tokens end before marks */
} tokenizer;

struct textsvm {
    const u32 *w; /* the file as words */
    u64 units;    /* its size in units of 8 bytes */
    u32 n_machines, n_decisions, n_classes;
    const double *biases;
    /* Unicode */
    characters unicode;
    tokenizer pieces; /* the last one that was read, and where */
    u32 pieces_at;
    /* Working memory */
    size_t max_symbols;
    u32 *points, *symbols, *piece, *piece2, *s1, *s2, *list;
    u64 *keys, *h;
    u32 *counts;
    u32 bits;   /* of a slot of the strings that are counted */
    double *amounts, *sums, *term_sums, *scores;
    u32 *spans; /* first code point of the text, and the end, of the source of each symbol; NULL: not recorded */
    int allocated;
};

static const void *at(const textsvm *m, u32 offset) { return m->w + 2 * (size_t)offset; }

static u64 larger(u64 a, u64 b) { return a > b ? a : b; }

#define SEED1 0x9E3779B9u
#define SEED2 0x7F4A7C15u
#define STEP1 0x85EBCA6Bu
#define STEP2 0xC2B2AE35u

static u32 mix(u32 x) {
    x ^= x >> 16;
    x *= 0x85EBCA6Bu;
    x ^= x >> 13;
    x *= 0xC2B2AE35u;
    return x ^ x >> 16;
}

/* Extend the two hashes of a string by a symbol. */
INLINE void add_symbol(u32 *hashes, u32 first, u32 second) {
    hashes[0] = hashes[0] * STEP1 + first;
    hashes[1] = hashes[1] * STEP2 + second;
}

/* Extend the two hashes of a word by a character. */
INLINE void add_point(u32 *hashes, u32 point) { add_symbol(hashes, mix(point ^ SEED1), mix(point ^ SEED2)); }

/* Whether the n words of the file have the checksum in its header, which counts as 0 in it. */
static int has_checksum(const u32 *w, size_t n) {
    u32 a = 0, b = 0;
    for (size_t i = 0; i < n; i++) {
        u32 x = mix((i - CHECKSUM < 2 ? 0 : w[i]) ^ (u32)i * SEED1);
        a += x, b += x * (x | 1);
    }
    return a == w[CHECKSUM] && b == w[CHECKSUM + 1];
}

/* Whether `bytes` bytes at an offset in units of 8 bytes lie within the file. */
static int inside(const textsvm *m, u32 offset, u64 bytes) {
    return offset >= HEADER_WORDS / 2 && offset <= m->units && bytes <= 8 * (m->units - offset);
}

/* Starts of n parts of at least `least` elements, and the end; NULL if they are not within the file, or do not ascend. */
static const u32 *parts_of(const textsvm *m, u32 offset, u64 n, u32 least) {
    if (!inside(m, offset, 4 * (n + 1)))
        return NULL;
    const u32 *starts = at(m, offset);
    for (u64 i = 0; i < n; i++)
        if (starts[i + 1] < starts[i] || starts[i + 1] - starts[i] < least)
            return NULL;
    return starts;
}

static table table_of(const textsvm *m, const u32 *w) {
    table t;
    t.p = w[0], t.span = w[1], t.n_patterns = w[2], t.times = w[3], t.contiguous = w[4], t.closed = w[19];
    t.n_buckets = w[5], t.n_strings = w[6], t.weights = at(m, w[15]), t.stride = m->n_machines + (w[8] == IN_ROW);
    t.offsets = at(m, w[10]), t.values = at(m, w[11]), t.starts = at(m, w[12]), t.tags = at(m, w[13]);
    t.repeat_starts = w[17] ? at(m, w[17]) : NULL, t.n_repeats = w[18];
    return t;
}

static term term_of(const textsvm *m, u32 number) {
    const u32 *w = (const u32 *)at(m, m->w[13]) + (size_t)TERM_WORDS * number;
    term t;
    const double *numbers = at(m, w[5]);
    t.view = w[0], t.count = w[1], t.normalised = w[2], t.n_tables = w[4];
    t.scale = numbers[1];
    t.tables = at(m, w[6]), t.n_featureless = w[7], t.featureless = at(m, w[8]), t.featureless_values = at(m, w[9]);
    return t;
}

static view view_of(const textsvm *m, u32 number) {
    const u32 *w = (const u32 *)at(m, m->w[11]) + (size_t)VIEW_WORDS * number;
    return (view){w[0], w[1], w[2], w[3]};
}

static int check_table(const textsvm *m, const u32 *w) {
    u64 strings = (u64)w[6] + 1, rows = strings + w[18], stride = (u64)m->n_machines + (w[8] == IN_ROW);
    if (w[4] && (w[2] != 1 || w[1] != w[0])) /* a single pattern without gaps */
        return 0;
    if (w[0] < 1 || w[1] < w[0] || w[2] < 1 || w[5] < 1 || w[7] != 64 || (w[8] && w[8] != IN_ROW) || w[9] != DOUBLE)
        return 0;
    if (!inside(m, w[10], 4 * (u64)w[0] * w[2]) || !inside(m, w[11], 8 * (u64)w[2]))
        return 0;
    for (u64 i = 0; i < (u64)w[0] * w[2]; i++) { /* each pattern ascends: its last offset tells its reach */
        const u32 *offset = (const u32 *)at(m, w[10]) + i;
        if (*offset >= w[1] || (i % w[0] && *offset <= offset[-1]))
            return 0;
    }
    if (!inside(m, w[13], 8 * (strings + SCANNED)) || !parts_of(m, w[12], w[5], 0) ||
        ((const u32 *)at(m, w[12]))[w[5]] > w[6])
        return 0;
    if (w[17] && !inside(m, w[17], 4 * strings))
        return 0;
    return inside(m, w[15], 8 * rows * stride);
}

static int read_mapping(const textsvm *m, const u32 *w, mapping *map) {
    map->n = w[0];
    if (!w[0])
        return 1;
    map->keys = at(m, w[1]), map->starts = parts_of(m, w[2], w[0], 0), map->data = at(m, w[3]);
    return map->starts && inside(m, w[1], 4 * (u64)w[0]) && inside(m, w[3], 2 * (u64)map->starts[w[0]]);
}

static int read_characters(const textsvm *m, u32 offset, characters *c) {
    const u32 *w;
    if (!offset)
        return 1; /* no view needs the tables */
    if (!inside(m, offset, 64))
        return 0;
    w = at(m, offset);
    if (!inside(m, w[1], 2 * (u64)w[0]) || !inside(m, w[3], 128 * (u64)w[2]) || !inside(m, w[4], 128 * (u64)w[2]))
        return 0;
    c->n_stage1 = w[0], c->stage1 = at(m, w[1]), c->stage2 = at(m, w[3]), c->orders = at(m, w[4]);
    for (u32 i = 0; i < w[0]; i++)
        if (c->stage1[i] >= w[2])
            return 0;
    c->n_pairs = w[13], c->pairs = at(m, w[14]);
    return read_mapping(m, w + 5, &c->decompositions) && read_mapping(m, w + 9, &c->folds) &&
           (!w[13] || inside(m, w[14], 12 * (u64)w[13]));
}

#define MOST_WORD 256u

/* Read a tokenizer; returns 0 if it does not lie within the file. */
static int read_tokenizer(const textsvm *m, u32 offset, tokenizer *t) {
    const u32 *w;
    table *b = &t->vocabulary;
    memset(t, 0, sizeof *t);
    if (!inside(m, offset, 4 * TOKENIZER_WORDS))
        return 0;
    w = at(m, offset);
    t->most = w[1], t->longest = w[2], t->prefix = w[3], t->states[0] = w[4], t->states[1] = w[5];
    b->n_buckets = w[6], b->n_strings = w[7], b->starts = at(m, w[9]), b->tags = at(m, w[10]);
    b->weights = (const double *)b->tags, b->stride = 1; /* the rows that find_rows fetches */
    t->scores = w[11] ? at(m, w[11]) : NULL, t->strips = w[12] & 1, t->splits = w[12] & 2;
    if (t->scores)
        t->states[0] = mix(t->states[0] ^ t->prefix), t->states[1] = mix(t->states[1] + t->prefix);
    return w[0] && w[1] && w[1] <= MOST_WORD && w[2] && w[6] && w[8] == 64 &&
           inside(m, w[10], 8 * ((u64)w[7] + 1 + SCANNED)) && parts_of(m, w[9], w[6], 0) && b->starts[w[6]] <= w[7] &&
           (!w[11] || inside(m, w[11], 8 * ((u64)w[7] + 1))) && read_characters(m, w[0], &t->letters);
}

static int check_terms(const textsvm *m) {
    const u32 *w = m->w;
    tokenizer pieces;
    if (w[27] > FORM_PAPER || !inside(m, w[11], 4 * (u64)VIEW_WORDS * w[10]) || !inside(m, w[13], 4 * (u64)TERM_WORDS * w[12]))
        return 0;
    for (u32 i = 0; i < w[10]; i++)
        if (view_of(m, i).tokens > TOKENS_PIECES || view_of(m, i).tokens == TOKENS_PIECES - 1 || view_of(m, i).column >= textsvm_columns(m) ||
            (view_of(m, i).tokens == TOKENS_PIECES && !read_tokenizer(m, view_of(m, i).tokenizer, &pieces)))
            return 0;
    for (u32 i = 0; i < w[12]; i++) {
        const u32 *t = (const u32 *)at(m, w[13]) + (size_t)TERM_WORDS * i;
        if (t[0] >= w[10] || t[1] > COUNT_INTERSECTION || t[3] || !inside(m, t[5], 16) ||
            !inside(m, t[6], 4 * (u64)TABLE_WORDS * t[4]))
            return 0;
        if (t[7] && (!inside(m, t[8], 8 * (u64)t[7]) || !inside(m, t[9], 8 * (u64)t[7] * m->n_machines)))
            return 0;
        for (u32 k = 0; k < t[4]; k++)
            if (!check_table(m, (const u32 *)at(m, t[6]) + (size_t)TABLE_WORDS * k))
                return 0;
    }
    return 1;
}

static int check_outputs(const textsvm *m) {
    const u32 *w = m->w;
    u64 c = m->n_classes;
    if (w[4] > TEXTSVM_NOVELTY || w[5] > COMBINE_OVO || w[16] > CALIBRATION_ISOTONIC || w[21] > 2)
        return 0;
    if ((w[5] == COMBINE_IDENTITY && m->n_decisions != m->n_machines) ||
        (w[5] == COMBINE_DIFFERENCE && (m->n_machines != 2 || m->n_decisions != 1)) ||
        (w[5] == COMBINE_OVO && (m->n_machines != c * (c - 1) / 2 || m->n_decisions != c)))
        return 0;
    if (w[4] <= TEXTSVM_LABELS && m->n_decisions != c && !(w[4] == TEXTSVM_CLASSES && c == 2 && m->n_decisions == 1))
        return 0;
    if ((w[15] && !inside(m, w[15], 8 * (u64)m->n_decisions)) || (w[21] && !inside(m, w[22], 16)))
        return 0;
    if (w[16]) {
        const u32 *starts = parts_of(m, w[20], w[17], 1);
        if (w[17] != m->n_decisions || w[4] != TEXTSVM_CLASSES || !starts ||
            !inside(m, w[18], 8 * (u64)starts[w[17]]) || !inside(m, w[19], 8 * (u64)starts[w[17]]))
            return 0;
    }
    if (w[23]) {
        const u32 *starts = parts_of(m, w[26], c, 0);
        if (!w[16] || !inside(m, w[24], 8 * (u64)w[23]) || !inside(m, w[25], 8 * (u64)w[23]) || !starts || starts[c] > w[23])
            return 0;
    }
    if (m->n_classes) {
        const u32 *starts = parts_of(m, w[29], c, 1);
        if (!starts || !inside(m, w[30], starts[c]))
            return 0;
        for (u32 i = 0; i < m->n_classes; i++)
            if (((const char *)at(m, w[30]))[starts[i + 1] - 1])
                return 0;
    }
    return 1;
}

/* Read and check the header, but not the checksum; all later offsets are within the file. */
static int read_model(textsvm *m, const void *data, size_t bytes) {
    const u32 *w = data;
    memset(m, 0, sizeof *m);
    if (!data || (uintptr_t)data % 8 || bytes < 4 * HEADER_WORDS || memcmp(data, "TEXTSVM", 8))
        return 0;
    m->w = w, m->units = w[3];
    if (w[2] > VERSION || w[2] < VERSION - 3 || 8 * m->units > bytes || w[COLUMNS] > w[10])
        return 0;
    m->n_machines = w[6], m->n_decisions = w[7], m->n_classes = w[8];
    if (!m->n_machines || !m->n_decisions || m->n_machines > 1u << 24 || m->n_classes > 1u << 24)
        return 0;
    if (!inside(m, w[14], 8 * (u64)m->n_machines) || !inside(m, w[33], 8 * (u64)w[32]))
        return 0;
    m->biases = at(m, w[14]);
    return check_terms(m) && check_outputs(m) && read_characters(m, w[31], &m->unicode);
}

/* ---- Memory --------------------------------------------------------------------------------------- */

#define MOST_SYMBOLS ((size_t)1 << 28)
#define MOST_OCCURRENCES ((u64)1 << 29) /* of strings in a text: slots have less than 32 bits */

/* Place the working memory from `base` on; returns its size, 0 if texts may have too many strings. */
static u64 place(textsvm *m, unsigned char *base, size_t max_symbols) {
    u64 used = (sizeof *m + 15) / 16 * 16, occurrences = max_symbols, slots = 64;
    int real = 0;
    for (u32 i = 0; i < m->w[12]; i++) {
        term t = term_of(m, i);
        for (u32 k = 0; k < t.n_tables; k++) {
            table b = table_of(m, t.tables + (size_t)TABLE_WORDS * k);
            if (max_symbols && b.n_patterns > MOST_OCCURRENCES / max_symbols)
                return 0;
            occurrences = larger(occurrences, (u64)max_symbols * b.n_patterns);
            real |= b.n_patterns > 1;
        }
    }
    while (slots < 2 * occurrences + 2)
        slots *= 2;
    m->max_symbols = max_symbols;
#define ROOM(field, number) \
    (m->field = (void *)(base ? base + used : NULL), used += ((u64)(number) * sizeof *m->field + 15) / 16 * 16)
    ROOM(points, max_symbols + 8);
    ROOM(symbols, max_symbols + 8);
    ROOM(piece, max_symbols + 64);
    ROOM(piece2, max_symbols + 64);
    ROOM(s1, max_symbols + 8);
    ROOM(s2, max_symbols + 8);
    ROOM(h, max_symbols + 8);
    ROOM(list, occurrences + 8);
    ROOM(keys, slots);
    ROOM(counts, slots);
    ROOM(amounts, real ? slots : 1);
    ROOM(sums, m->n_machines);
    ROOM(term_sums, m->n_machines);
    ROOM(scores, (size_t)m->n_classes + 1);
#undef ROOM
    return used;
}

size_t textsvm_memory(const void *data, size_t bytes, size_t max_symbols) {
    textsvm m;
    u64 size = max_symbols <= MOST_SYMBOLS && read_model(&m, data, bytes) ? place(&m, NULL, max_symbols) : 0;
    return size <= SIZE_MAX / 2 ? (size_t)size : 0;
}

textsvm *textsvm_open_in(const void *data, size_t bytes, size_t max_symbols, void *memory, int *error) {
    textsvm m, *placed = memory;
    int code = max_symbols > MOST_SYMBOLS                             ? TEXTSVM_BAD_ARGUMENT
               : !read_model(&m, data, bytes)                         ? TEXTSVM_NO_MODEL
               : !memory || !textsvm_memory(data, bytes, max_symbols) ? TEXTSVM_NO_MEMORY
               : !has_checksum(m.w, 2 * (size_t)m.units)              ? TEXTSVM_NO_MODEL
                                                                      : TEXTSVM_OK;
    if (error)
        *error = code;
    if (code)
        return NULL;
    place(&m, memory, max_symbols);
    *placed = m;
    return placed;
}

#ifndef TEXTSVM_FREESTANDING
textsvm *textsvm_open(const void *data, size_t bytes, size_t max_symbols, int *error) {
    size_t size = textsvm_memory(data, bytes, max_symbols);
    void *memory = size ? calloc(1, size) : NULL;
    textsvm *m = textsvm_open_in(data, bytes, max_symbols, memory, error);
    if (m)
        m->allocated = 1;
    else
        free(memory);
    return m;
}

void textsvm_close(textsvm *m) {
    if (m && m->allocated)
        free(m);
}
#endif

/* ---- Text ----------------------------------------------------------------------------------------- */

/* Decode UTF-8 to at most `most` code points; returns their number, or NONE if there are more. */
static size_t decode(const char *utf8, size_t n, u32 *out, size_t most) {
    const unsigned char *s = (const unsigned char *)utf8;
    size_t i = 0, k = 0;
    while (i < n) {
        unsigned char b = s[i++];
        u32 point = 0xFFFD;
        if (k == most)
            return NONE;
        if (b < 0x80) {
            out[k++] = b;
            continue;
        }
        if (b >= 0xC2 && b <= 0xF4) {
            unsigned more = b < 0xE0 ? 1 : b < 0xF0 ? 2 : 3;
            unsigned char low = b == 0xE0 ? 0xA0 : b == 0xF0 ? 0x90 : 0x80;
            unsigned char high = b == 0xED ? 0x9F : b == 0xF4 ? 0x8F : 0xBF;
            u32 value = b & (0x3Fu >> more);
            while (more && i < n && s[i] >= low && s[i] <= high) {
                value = value << 6 | (s[i++] & 0x3Fu);
                low = 0x80, high = 0xBF;
                more--;
            }
            if (!more)
                point = value;
        }
        out[k++] = point;
    }
    return k;
}

/* Entry of a code point in `stage2` or `orders` of the tables. */
static u32 entry_of(const characters *c, const unsigned char *blocks, u32 point) {
    u32 block = point >> 7;
    return block < c->n_stage1 ? blocks[(size_t)c->stage1[block] * 128 + (point & 127)] : 0;
}

static u32 flags_of(const textsvm *m, u32 point) { return entry_of(&m->unicode, m->unicode.stage2, point); }

static u32 order_of(const textsvm *m, u32 point) { return entry_of(&m->unicode, m->unicode.orders, point); }

#define HANGUL 0xAC00u
#define HANGULS 11172u

/* First of n ascending rows of `width` words that is not before the row that begins with a, b. */
static u32 lower_row(const u32 *rows, u32 n, u32 width, u32 a, u32 b) {
    u32 low = 0, high = n;
    while (low < high) {
        u32 middle = low + (high - low) / 2;
        const u32 *row = rows + (size_t)width * middle;
        if (row[0] < a || (row[0] == a && width > 1 && row[1] < b))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Append the image of a code point, itself if it has none; 0 if there is no room. */
static int map_point(const mapping *map, u32 point, u32 *out, size_t *n, size_t room) {
    u32 place = lower_row(map->keys, map->n, 1, point, 0);
    if (place == map->n || map->keys[place] != point) {
        if (*n >= room)
            return 0;
        out[(*n)++] = point;
        return 1;
    }
    for (u32 i = map->starts[place]; i < map->starts[place + 1]; i++) {
        u32 unit = map->data[i];
        if ((unit & 0xFC00) == 0xD800 && i + 1 < map->starts[place + 1])
            unit = 0x10000 + ((unit & 0x3FF) << 10) + (map->data[++i] & 0x3FFu);
        if (*n >= room)
            return 0;
        out[(*n)++] = unit;
    }
    return 1;
}

/* Canonical order: sort runs of non-starters by combining class, stably. */
static void reorder(const characters *c, u32 *points, size_t n, u32 *spare) {
    for (size_t first = 0, end; first < n; first = end + 1) {
        u32 starts[257], total = 0;
        int ordered = 1;
        for (end = first; end < n && entry_of(c, c->orders, points[end]); end++)
            ordered &= end == first || entry_of(c, c->orders, points[end - 1]) <= entry_of(c, c->orders, points[end]);
        if (ordered)
            continue;
        memset(starts, 0, sizeof starts);
        for (size_t a = first; a < end; a++)
            starts[entry_of(c, c->orders, points[a])]++;
        for (u32 a = 0; a < 257; a++) {
            u32 number = starts[a];
            starts[a] = total;
            total += number;
        }
        for (size_t a = first; a < end; a++)
            spare[starts[entry_of(c, c->orders, points[a])]++] = points[a];
        memcpy(points + first, spare, (end - first) * sizeof *points);
    }
}

static u32 composed(const textsvm *m, u32 a, u32 b) {
    const u32 n = m->unicode.n_pairs, place = lower_row(m->unicode.pairs, n, 3, a, b), *pair = m->unicode.pairs + 3 * (size_t)place;
    if (a - 0x1100u < 19 && b - 0x1161u < 21)
        return HANGUL + ((a - 0x1100u) * 21 + (b - 0x1161u)) * 28;
    if (a - HANGUL < HANGULS && (a - HANGUL) % 28 == 0 && b - 0x11A8u < 27)
        return a + (b - 0x11A7u);
    return place < n && pair[0] == a && pair[1] == b ? pair[2] : 0;
}

static size_t compose(const textsvm *m, u32 *points, size_t n) {
    size_t starter = (size_t)-1, k = 0;
    u32 last = 0;
    for (size_t i = 0; i < n; i++) {
        u32 point = points[i], order = order_of(m, point), whole;
        int adjacent = starter != (size_t)-1 && starter + 1 == k;
        if (starter != (size_t)-1 && (adjacent || (last < order && last)) &&
            (whole = composed(m, points[starter], point)) != 0) {
            points[starter] = whole;
            continue;
        }
        if (!order)
            starter = k;
        last = order;
        points[k++] = point;
    }
    return k;
}

/* Images of code points, and Hangul decomposed, without the final order; returns its length, NONE for no room. */
static size_t decompose(const mapping *map, const u32 *in, size_t n, u32 *out, size_t room) {
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        u32 s = in[i] - HANGUL;
        if (s < HANGULS) {
            if (k + 3 > room)
                return NONE;
            out[k++] = 0x1100 + s / 588;
            out[k++] = 0x1161 + s % 588 / 28;
            if (s % 28)
                out[k++] = 0x11A7 + s % 28;
        } else if (!map_point(map, in[i], out, &k, room))
            return NONE;
    }
    return k;
}

/* A piece without ignorable code points; the first joiner behind a letter that keeps joiners stays. */
static size_t without_ignorable(const textsvm *m, const u32 *in, size_t n, u32 *out) {
    u32 before = 0;
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        u32 point = in[i], flags = flags_of(m, point);
        if ((flags & (IGNORED | KEEPS)) != IGNORED)
            before = order_of(m, point) ? before : flags;
        else if ((before & KEEPS) && (point == 0x180E || point - 0x200C < 2 || (point == 0x200B && (before & IGNORED))))
            before = 0;
        else
            continue;
        out[k++] = point;
    }
    return k;
}

/* NFKC of a piece of a text, then NFKC of its folded case unless `keep_case`; returns its length, NONE for
 * no room. */
static size_t normalise_piece(textsvm *m, const u32 *in, size_t n, int keep_case, u32 **out) {
    size_t room = m->max_symbols + 32, k, folded = 0;
    u32 *points = m->piece;
    n = without_ignorable(m, in, n, m->piece2);
    k = decompose(&m->unicode.decompositions, m->piece2, n, m->piece, room);
    if (k == NONE)
        return NONE;
    reorder(&m->unicode, points, k, m->piece2);
    if (!keep_case) {
        if (n > 1) { /* U+0345 folds to a letter: where it composes matters */
            size_t composed_size = compose(m, m->piece, k);
            memcpy(m->piece2, m->piece, composed_size * sizeof *m->piece);
            k = decompose(&m->unicode.decompositions, m->piece2, composed_size, m->piece, room);
            if (k == NONE)
                return NONE;
        }
        points = m->piece2;
        for (size_t i = 0; i < k; i++)
            if (!map_point(&m->unicode.folds, m->piece[i], points, &folded, room))
                return NONE;
        k = folded;
        reorder(&m->unicode, points, k, m->piece);
    }
    *out = points;
    return compose(m, points, k);
}

typedef struct {
    const textsvm *m;
    u32 *out;
    size_t n, room;
    size_t first, end; /* code points of the text whose normal form is written */
    int collapse, spaced, keep_punctuation;
} writer;

static int put(writer *to, u32 point, u32 flags) {
    if (!to->keep_punctuation && (flags & PUNCT))
        point = ' ', flags = SPACE;
    if (to->collapse && (flags & SPACE)) {
        if (to->spaced)
            return 1;
        point = ' ';
        to->spaced = 1;
    } else
        to->spaced = 0;
    if (to->n >= to->room)
        return 0;
    if (to->m->spans)
        to->m->spans[2 * to->n] = (u32)to->first, to->m->spans[2 * to->n + 1] = (u32)to->end;
    to->out[to->n++] = point;
    return 1;
}

static int put_paper(writer *to, u32 point, int keep_case) {
    int upper = point - 'A' < 26u;
    u32 flags = 0;
    if (!keep_case) {
        if (upper)
            point += 32;
        else if (point == 0x212A) /* the Kelvin sign */
            point = 'k';
        else if (point == 0x130) /* I with a dot: i and a combining dot */
            return put(to, 'i', 0) && put(to, ' ', SPACE);
    }
    if (!(point - 'a' < 26u || point - '0' < 10u || (keep_case && upper)))
        flags = SPACE;
    return put(to, point, flags);
}

/* put_unicode from `i` on as long as characters and their successors are ASCII; returns the first other one. */
static size_t put_ascii(writer *to, const u32 *in, size_t i, size_t n, const unsigned char *ascii, u32 changes) {
    const u32 spaces = to->keep_punctuation ? SPACE : SPACE | PUNCT;
    u32 *out = to->out, spaced = (u32)to->spaced;
    size_t k = to->n;
    for (; i + 1 < n && (in[i] | in[i + 1]) < 0x80 && k < to->room; i++) {
        u32 point = in[i], flags = ascii[point], changed = (flags & changes) != 0, space = (flags & spaces) != 0;
        if (changed > (point - 'A' < 26u))
            break;
        out[k] = ((point + 32 * changed) & (space - 1)) + ' ' * space; /* no branch: spaces are unpredictable */
        k += !(space & spaced), spaced = space;
    }
    to->n = k, to->spaced = (int)spaced;
    return i;
}

static int put_unicode(textsvm *m, writer *to, const u32 *in, size_t n, int keep_case) {
    u32 changes = keep_case ? CHANGES : CHANGES_FOLDED;
    const unsigned char *ascii = m->unicode.n_stage1 && !m->spans ? m->unicode.stage2 + 128 * (size_t)m->unicode.stage1[0] : NULL;
    size_t i = 0;
    while ((i = ascii ? put_ascii(to, in, i, n, ascii, changes | JOINS) : i) < n) {
        u32 point = in[i], flags = flags_of(m, point);
        size_t end = i + 1;
        to->first = i, to->end = end;
        if (!(end < n && in[end] >= 0xAD && (flags_of(m, in[end]) & JOINS)) && !(flags & (JOINS | changes))) {
            if (!put(to, point, flags))
                return 0;
        } else {
            u32 *piece;
            size_t k;
            while (end < n && (flags_of(m, in[end]) & JOINS))
                end++;
            to->end = end;
            k = normalise_piece(m, in + i, end - i, keep_case, &piece);
            if (k == NONE)
                return 0;
            for (size_t j = 0; j < k; j++)
                if (!put(to, piece[j], flags_of(m, piece[j])))
                    return 0;
        }
        i = end;
    }
    return 1;
}

/* Normal form of the code points in m->points, into m->symbols; returns its length, NONE for no room. */
static size_t normalise(textsvm *m, view v, size_t n) {
    const u32 form = m->w[27];
    writer to = {.m = m, .out = m->symbols, .room = m->max_symbols, .collapse = form != FORM_NONE};
    int done = 1;
    to.spaced = form == FORM_UNICODE;
    to.keep_punctuation = form == FORM_PAPER || (int)m->w[28];
    if (form == FORM_UNICODE)
        done = put_unicode(m, &to, m->points, n, (int)v.keep_case);
    else
        for (size_t i = 0; i < n && done; i++) {
            to.first = i, to.end = i + 1;
            done = form == FORM_PAPER ? put_paper(&to, m->points[i], (int)v.keep_case)
                                      : put(&to, m->points[i], flags_of(m, m->points[i]));
        }
    if (!done)
        return NONE;
    if (form == FORM_UNICODE && to.n && to.spaced)
        to.n--;
    return to.n > m->w[9] ? m->w[9] : to.n;
}

/* ---- Symbols -------------------------------------------------------------------------------------- */

/* End of the token at a symbol that is no space: a word, or a single other character. */
static size_t token_end(const textsvm *m, size_t i, size_t n, int single_chars) {
    u32 flags = flags_of(m, m->symbols[i]);
    if (single_chars && !(flags & WORD))
        return i + 1;
    do
        flags = ++i < n ? flags_of(m, m->symbols[i]) : SPACE;
    while (!(flags & SPACE) && (!single_chars || (flags & WORD)));
    return i;
}

/* Two hashes of each token of m->symbols, into s1 and s2; returns the number of tokens. */
static size_t hash_tokens(textsvm *m, size_t n, int single_chars) {
    size_t k = 0, i = 0;
    while (i < n) {
        u32 h[2] = {SEED1, SEED2};
        size_t first = i;
        if (flags_of(m, m->symbols[i]) & SPACE) {
            i++;
            continue;
        }
        for (size_t end = token_end(m, i, n, single_chars); i < end; i++)
            add_point(h, m->symbols[i]);
        m->s1[k] = mix(h[0] ^ (u32)(i - first)), m->s2[k++] = mix(h[1] + (u32)(i - first));
    }
    return k;
}

static size_t hash_points(const u32 *restrict symbols, size_t n, u32 *restrict s1, u32 *restrict s2) {
    for (size_t i = 0; i < n; i++)
        s1[i] = mix(symbols[i] ^ SEED1);
    for (size_t i = 0; i < n; i++)
        s2[i] = mix(symbols[i] ^ SEED2);
    return n;
}

/* Extend strings with hashes h, the first one in the high bits, by a symbol each. */
static void extend(u64 *restrict h, const u32 *restrict s1, const u32 *restrict s2, size_t n) {
    for (size_t i = 0; i < n; i++)
        h[i] = (u64)((u32)(h[i] >> 32) * STEP1 + s1[i]) << 32 | ((u32)h[i] * STEP2 + s2[i]);
}

/* ---- Features ------------------------------------------------------------------------------------- */

#define CHUNK 64 /* reads that run ahead */
#ifndef WIDE
#define WIDE NONE /* machines from which on rows are added one after the other */
#endif

/* Replace the first row of the bucket of each key by that of the key, the spare row behind the strings for unknown
 * keys. The first rows of a bucket are compared without branches, which would be unpredictable. */
static void match_tags(const table *b, const u64 *restrict keys, const u32 *restrict ends, size_t n,
                       u32 *restrict rows) {
    static const unsigned char lowest[16] = {4, 0, 1, 0, 2, 0, 1, 0, 3, 0, 1, 0, 2, 0, 1, 0};
    const u32 none = b->n_strings;
    const u64 stride = b->stride;
    for (size_t k = 0; k < n; k++) {
        u64 key = keys[k];
        u32 row = rows[k], end = ends[k], found;
        const u64 *t = b->tags + row;
        u32 same = (u32)(t[0] == key) | (u32)(t[1] == key) << 1 | (u32)(t[2] == key) << 2 | (u32)(t[3] == key) << 3;
        found = row + lowest[same];
        found = found < end ? found : none;
        if ((end - row) * !same > SCANNED) { /* one branch: known or not is unpredictable */
            for (row += SCANNED; row < end && b->tags[row] != key; row++)
                ;
            found = row < end ? row : none;
        }
        rows[k] = found;
        for (u64 i = 0; i < stride; i += 8)
            PREFETCH(b->weights + found * stride + i);
    }
}

/* Rows of some strings; the spare row behind the strings for unknown ones. */
static void find_rows(const table *b, const u64 *restrict keys, size_t n, u32 *restrict rows) {
    u32 ends[CHUNK];
    const u32 *starts = b->starts;
    for (size_t k = 0; k < n; k++) {
        rows[k] = (u32)((keys[k] >> 32) * b->n_buckets >> 32);
        PREFETCH(starts + rows[k]);
    }
    for (size_t k = 0; k < n; k++) {
        ends[k] = starts[rows[k] + 1], rows[k] = starts[rows[k]];
        PREFETCH(b->tags + rows[k]);
    }
    match_tags(b, keys, ends, n, rows);
}

/* Add x[k] times the weights of row k of `width` machines from `at` on; at most 8 sums stay in registers. */
INLINE void add_block(const textsvm *m, const table *b, size_t at, const u32 *rows, const double *x, size_t n,
                      double *all, const size_t width) {
    const size_t first = b->stride - m->n_machines + at;
    double local[8], *sums = width <= 8 ? memcpy(local, all + at, width * sizeof *all) : all + at;
    for (size_t k = 0; k < n; k++) {
        const double *row = b->weights + (size_t)rows[k] * b->stride + first;
        for (size_t i = 0; i < width; i++)
            sums[i] += x[k] * row[i];
    }
    if (width <= 8)
        memcpy(all + at, local, width * sizeof *all);
}

/* Add x[k] times the weights of row k. */
static void add_rows(const textsvm *m, const table *b, const u32 *rows, const double *x, size_t n, double *sums) {
    size_t at = 0;
    if (m->n_machines >= WIDE)
        add_block(m, b, 0, rows, x, n, sums, at = m->n_machines);
#define ADD(width) for (; m->n_machines - at >= width; at += width) add_block(m, b, at, rows, x, n, sums, width);
    ADD(8) ADD(4) ADD(2) ADD(1)
#undef ADD
}

typedef struct { /* contiguous strings of a text, a window for each; the arrays lie in m->keys */
    u32 length, counted;     /* of the strings with hashes m->h, and of those that were counted last; 0 for none */
    size_t n_repeated, skipped;
    u32 *repeated, *firsts;  /* windows with equal strings: only these can have equal longer ones; the first of the equal */
    u32 *amounts, *known;    /* occurrences, 0 for all windows but the first; 0 if the model does not know a part of the string */
} windows;

/* Values of the features of the strings in some rows, which become those of their weights; returns the sum of the squares. */
static double read_values(const textsvm *m, const term *t, const table *b, const double *amounts, size_t n, u32 *rows,
                          double *x) {
    const double *logs = at(m, m->w[33]);
    double squares = 0;
    for (size_t k = 0; k < n; k++)
        x[k] = b->stride > m->n_machines ? b->weights[(size_t)rows[k] * b->stride] : 1;
    if (t->count == COUNT_INTERSECTION)
        for (size_t k = 0; k < n; k++) {
            x[k] = (double)(float)x[k];
            squares += amounts[k] * x[k] * x[k];
            if (amounts[k] > 1 && b->repeat_starts && rows[k] < b->n_strings) {
                u32 first = b->repeat_starts[rows[k]], end = b->repeat_starts[rows[k] + 1];
                if (end > b->n_repeats)
                    end = first; /* in a damaged file */
                if (end > first) {
                    double last = (double)first + amounts[k] - 2;
                    rows[k] = b->n_strings + 1 + (last < end ? (u32)last : end - 1);
                }
            }
        }
    else {
        if (t->count == COUNT_PLAIN)
            for (size_t k = 0; k < n; k++)
                x[k] *= amounts[k];
        else if (t->count == COUNT_LOG)
            for (size_t k = 0; k < n; k++)
                x[k] *= amounts[k] < m->w[32] ? logs[(u32)amounts[k]] : 1 + log(amounts[k]);
        for (size_t k = 0; k < n; k++) {
            x[k] = (double)(float)x[k];
            squares += x[k] * x[k];
        }
    }
    return squares * b->times;
}

/* Amount of a counted string. */
static double amount_of(const textsvm *m, const table *b, u32 slot) {
    return b->n_patterns > 1 ? m->amounts[slot] : (double)m->counts[slot];
}

/* Look n counted strings up, and add their features to m->term_sums. m->list has windows, or slots if `all` is NULL. */
static void look_up(textsvm *m, const term *t, const table *b, size_t n, const windows *all, double *squares) {
    for (size_t j = 0; j < n; j += CHUNK) {
        u64 keys[CHUNK];
        u32 rows[CHUNK], *list = m->list + j;
        double amounts[CHUNK], x[CHUNK];
        size_t size = n - j < CHUNK ? n - j : CHUNK;
        for (size_t k = 0; k < size; k++) {
            keys[k] = (all ? m->h : m->keys)[list[k]];
            amounts[k] = all ? (double)all->amounts[list[k]] : amount_of(m, b, list[k]);
        }
        find_rows(b, keys, size, rows);
        for (size_t k = 0; k < size && all; k++)
            all->known[list[k]] = rows[k] < b->n_strings;
        *squares += read_values(m, t, b, amounts, size, rows, x);
        add_rows(m, b, rows, x, size, m->term_sums);
    }
}

/* Set the bytes of a table of distinct strings for this number of occurrences. */
static void clear_slots(textsvm *m, size_t occurrences, int byte) {
    m->bits = 6;
    while (((size_t)1 << m->bits) < 2 * occurrences)
        m->bits++;
    memset(m->counts, byte, ((size_t)1 << m->bits) * sizeof *m->counts);
}

/* Slot of a string, empty if it has not been counted. */
static u32 slot_of(const textsvm *m, u64 key) {
    u32 slot = (u32)(key >> 32) >> (32 - m->bits), mask = (1u << m->bits) - 1;
    while (m->counts[slot] && m->keys[slot] != key)
        slot = (slot + 1) & mask;
    return slot;
}

/* Hashes of the string of the symbols at p offsets from symbol i on. */
static u64 key_at(const textsvm *m, const u32 *offsets, u32 p, size_t i) {
    u32 h[2] = {SEED1, SEED2};
    for (u32 k = 0; k < p; k++)
        add_symbol(h, m->s1[i + offsets[k]], m->s2[i + offsets[k]]);
    return (u64)h[0] << 32 | h[1];
}

/* Number of symbols that an occurrence of a pattern takes: the whole window if the table has a single pattern. */
static size_t reach_of(const table *b, const u32 *offsets) {
    return b->n_patterns > 1 ? offsets[b->p - 1] + 1u : b->span;
}

/* Count the strings with hashes m->h of n windows; returns the number of those to look up. */
static size_t count_windows(textsvm *m, const table *b, size_t n, windows *all) {
    u32 mask, shift, *places = m->counts, *repeated = all->repeated, *firsts = all->firsts;
    u32 *restrict amounts = all->amounts, *known = all->known;
    const u64 *h = m->h;
    size_t listed = 0, more = 0, distinct = n, n_repeated = all->n_repeated;
    for (n_repeated = all->counted ? n_repeated : 0; !all->counted && n_repeated < n; n_repeated++)
        repeated[n_repeated] = (u32)n_repeated;
    while (n_repeated && repeated[n_repeated - 1] >= n)
        n_repeated--;
    clear_slots(m, n_repeated, 0xFF);
    shift = 64 - m->bits, mask = (1u << m->bits) - 1;
    for (size_t i = 0; i < n; i++)
        amounts[i] = 1;
    for (size_t k = 0; k < n_repeated; k++) {
        u32 i = repeated[k], slot = (u32)(h[i] >> shift), first;
        while (first = places[slot] < i ? places[slot] : i, h[first] != h[i]) /* one branch: empty or not is unpredictable */
            slot = (slot + 1) & mask;
        places[slot] = firsts[k] = first;
        amounts[i] = 0, amounts[first]++;
        distinct -= first != i;
    }
    for (size_t k = 0; k < n_repeated; k++) {
        repeated[more] = repeated[k];
        more += amounts[firsts[k]] > 1;
    }
    for (size_t i = 0; i <= n && (!b->closed || all->counted + 1 != b->p); i++)
        known[i] = 1;
    for (size_t i = 0; i < n; i++) {
        known[i] &= known[i + 1];
        m->list[listed] = (u32)i;
        listed += amounts[i] + known[i] > 1; /* several times, or once and perhaps known */
    }
    all->counted = b->p, all->n_repeated = more, all->skipped = distinct - listed;
    return listed;
}

/* Count the strings of all patterns in n symbols with hashes s1 and s2; returns the number of distinct ones. */
static size_t count_patterns(textsvm *m, const table *b, size_t n) {
    size_t distinct = 0;
    clear_slots(m, n * b->n_patterns, 0);
    for (u32 pattern = 0; pattern < b->n_patterns; pattern++) {
        const u32 *offsets = b->offsets + (size_t)pattern * b->p;
        size_t reach = reach_of(b, offsets);
        for (size_t i = 0; i + reach <= n; i++) {
            u64 key = key_at(m, offsets, b->p, i);
            u32 slot = slot_of(m, key);
            if (!m->counts[slot]) {
                m->keys[slot] = key;
                m->list[distinct++] = slot;
                if (b->n_patterns > 1)
                    m->amounts[slot] = 0;
            }
            m->counts[slot]++;
            if (b->n_patterns > 1)
                m->amounts[slot] += b->values[pattern];
        }
    }
    return distinct;
}

/* Add the features of a table of contiguous strings in n symbols to m->term_sums; returns the sum of the squares. */
static double add_windows(textsvm *m, const term *t, const table *b, size_t n, windows *all) {
    double squares = 0, amount = 1, x;
    u32 row = b->n_strings;
    if (n < b->span)
        return 0;
    if (b->p < all->length)
        all->length = all->counted = 0;
    for (size_t i = 0; i < n && !all->length; i++)
        m->h[i] = (u64)SEED1 << 32 | SEED2;
    for (; all->length < b->p; all->length++)
        extend(m->h, m->s1 + all->length, m->s2 + all->length, n - all->length);
    look_up(m, t, b, count_windows(m, b, n - b->span + 1, all), all, &squares);
    return squares + (double)all->skipped * read_values(m, t, b, &amount, 1, &row, &x);
}

/* Values of a text equal to a training text, if neither has any feature. */
static void add_featureless(const textsvm *m, const term *t, size_t n, double *sums) {
    u32 h[2] = {SEED1, SEED2};
    for (size_t i = 0; i < n; i++)
        add_symbol(h, m->s1[i], m->s2[i]);
    h[0] = mix(h[0] ^ (u32)n);
    for (u32 i = 0; i < t->n_featureless; i++)
        if (t->featureless[2 * (size_t)i] == h[0] && t->featureless[2 * (size_t)i + 1] == h[1])
            for (u32 k = 0; k < m->n_machines; k++)
                sums[k] += t->featureless_values[(size_t)i * m->n_machines + k];
}

/* Add the values of a term for the n symbols with hashes s1 and s2. */
static void add_term(textsvm *m, const term *t, size_t n) {
    windows all = {0, 0, 0, 0, (u32 *)m->keys, (u32 *)m->keys + n, (u32 *)m->keys + 2 * n, (u32 *)m->keys + 3 * n};
    double scale = t->scale, squares = 0;
    memset(m->term_sums, 0, m->n_machines * sizeof *m->term_sums);
    for (u32 k = 0; k < t->n_tables; k++) {
        table b = table_of(m, t->tables + (size_t)TABLE_WORDS * k);
        if (b.contiguous)
            squares += add_windows(m, t, &b, n, &all);
        else {
            all.counted = 0;
            look_up(m, t, &b, count_patterns(m, &b, n), NULL, &squares);
        }
    }
    if (t->normalised == MEAN && n)
        scale /= (double)n;
    else if (t->normalised && squares > 0)
        scale = 1 / sqrt(squares);
    else if (t->normalised) {
        memset(m->term_sums, 0, m->n_machines * sizeof *m->term_sums);
        add_featureless(m, t, n, m->term_sums);
        scale = 1;
    }
    for (u32 k = 0; k < m->n_machines; k++)
        m->sums[k] += scale * m->term_sums[k];
}

/* ---- Tokens of encoders --------------------------------------------------------------------------- */

#define MARK 0x2581u /* of Unigram, in place of spaces */

static u32 letter_flags(const tokenizer *t, u32 point) { return entry_of(&t->letters, t->letters.stage2, point); }

/* Symbol i, U+FFFD for a lone surrogate. */
static u32 letter_at(const textsvm *m, size_t i) { return m->symbols[i] >> 11 == 27 ? 0xFFFD : m->symbols[i]; }

/* End of the grapheme of symbol i if the image of the symbol stands for all of it, because it has less than 6 bytes in UTF-8;
 * else i + 1. `before` are the flags of the symbol before. */
static size_t image_end(const textsvm *m, const tokenizer *t, size_t i, size_t n, u32 before) {
    size_t end = i, bytes = 0;
    if (before & PREPENDS || !(letter_flags(t, letter_at(m, i)) & SWALLOWS))
        return i + 1;
    do {
        u32 point = letter_at(m, end++);
        bytes += 1u + (point > 0x7F) + (point > 0x7FF) + (point > 0xFFFF);
    } while (end < n && letter_flags(t, letter_at(m, end)) & JOINS);
    return bytes < 6 ? end : i + 1;
}

/* Images of the n symbols into `piece`, from its second element on, and the symbols that they come from into `piece2`;
 * returns the number of both with the first element, NONE for no room. */
static size_t read_letters(textsvm *m, const tokenizer *t, size_t n) {
    size_t k = 1, first = 1;
    u32 flags = 0;
    for (size_t i = 0, end; i < n; i = end) {
        end = image_end(m, t, i, n, flags);
        u32 point = letter_at(m, i);
        flags = letter_flags(t, point);
        size_t size = !(flags & (IGNORED | KEEPS)), room = m->max_symbols + 1 - k;
        if (flags & IGNORED) /* removed after it has stopped the canonical order */
            reorder(&t->letters, m->piece + first, k - first, m->list), first = k;
        else if (flags & CHANGES)
            size = decompose(&t->letters.decompositions, &point, 1, m->piece + k, room);
        else
            m->piece[k] = point;
        if (size > room)
            return NONE;
        for (; size; size--)
            m->piece2[k++] = (u32)i;
    }
    reorder(&t->letters, m->piece + first, k - first, m->list);
    return k;
}

/* Row of the token of `length` characters with the hashes h of their string, and its own hashes. */
static u32 token_row(const tokenizer *t, const u32 *h, u32 length, u32 *hashes) {
    u32 row;
    hashes[0] = mix(h[0] ^ length), hashes[1] = mix(h[1] + length);
    u64 key = (u64)(SEED1 * STEP1 + hashes[0]) << 32 | (SEED2 * STEP2 + hashes[1]);
    find_rows(&t->vocabulary, &key, 1, &row);
    return row;
}

/* Token k of a text, of the letters from `start` on. */
static void put_token(textsvm *m, size_t k, size_t start, size_t end, const u32 *hashes) {
    m->piece[k] = m->piece2[start], m->piece2[k] = m->piece2[end - 1] + 1;
    m->s1[k] = hashes[0], m->s2[k] = hashes[1];
}

/* Length of the longest token of the n letters at `letters`, with its hashes; 0 if there is none. */
static u32 longest_token(const tokenizer *t, const u32 *letters, size_t n, int inside, u32 *hashes) {
    u32 h[MOST_WORD + 1][2] = {{inside ? t->states[0] : SEED1, inside ? t->states[1] : SEED2}}, k;
    for (k = 0; k < n && k < t->longest; k++)
        memcpy(h[k + 1], h[k], sizeof h[k]), add_point(h[k + 1], letters[k]);
    while (k && token_row(t, h[k], k + (inside ? t->prefix : 0), hashes) == t->vocabulary.n_strings)
        k--;
    return k;
}

/* The longest tokens of each word from left to right; a word with an unknown part, or a long word, has none. */
static size_t hash_words(textsvm *m, const tokenizer *t, size_t n) {
    size_t k = 0;
    for (size_t i = 1, end; i < n; i = end) {
        u32 flags = letter_flags(t, m->piece[i]), hashes[2];
        size_t first = k, start = i, length = 1;
        for (end = i + 1; end < n && !((flags | letter_flags(t, m->piece[end])) & (SPACE | PUNCT)); end++)
            ;
        for (; !(flags & SPACE) && start < end && end - i <= t->most && length; start += length)
            if ((length = longest_token(t, m->piece + start, end - start, start > i, hashes)))
                put_token(m, k++, start, start + length, hashes);
        k = start < end ? first : k;
    }
    return k;
}

/* Put a mark before the letters and in place of spaces; returns the number of letters. */
static size_t mark_spaces(textsvm *m, const tokenizer *t, size_t n) {
    size_t k = 0;
    u32 missing = 1, spaced = 0; /* whether a mark has to precede the next letter, for a space */
    for (size_t i = 1; i < n; i++)
        if (m->piece[i] == ' ')
            missing = spaced = 1;
        else {
            if (missing)
                m->piece[k] = MARK, m->piece2[k++] = m->piece2[i];
            m->piece[k] = m->piece[i], m->piece2[k++] = m->piece2[i];
            missing = spaced = 0;
        }
    if (spaced && !t->strips)
        m->piece[k] = MARK, m->piece2[k++] = m->piece2[n - 1];
    return k;
}

/* The tokens of n letters with the largest sum of scores (Viterbi, from the end on: m->list has the end of the first token
 * of the letters from i on); the unknown token stands for neighbouring letters that are no tokens. */
static size_t hash_path(textsvm *m, const tokenizer *t, size_t n) {
    double *best = (double *)m->h;
    size_t k = 0;
    for (size_t i = n; i-- > 0;) {
        u32 h[2] = {SEED1, SEED2}, hashes[2];
        int goes_on = 1;
        for (size_t end = i + 1; goes_on && end - i <= t->longest; end++) {
            add_point(h, m->piece[end - 1]);
            u32 row = token_row(t, h, (u32)(end - i), hashes);
            int known = row < t->vocabulary.n_strings;
            goes_on = end < n && !(t->splits && m->piece[end] == MARK);
            double sum = t->scores[row] + (goes_on ? best[end] : 0);
            if (end == i + 1 || (known && sum > best[i])) {
                best[i] = sum, m->list[i] = (u32)end;
                m->s1[i] = known ? hashes[0] : t->states[0], m->s2[i] = known ? hashes[1] : t->states[1];
            }
        }
    }
    for (size_t i = 0, end; i < n; i = end) {
        u32 hashes[2] = {m->s1[i], m->s2[i]};
        int inside = k && !(t->splits && m->piece[i] == MARK), unknown = !memcmp(hashes, t->states, sizeof hashes);
        end = m->list[i];
        if (inside && unknown && m->s1[k - 1] == hashes[0] && m->s2[k - 1] == hashes[1])
            m->piece2[k - 1] = m->piece2[end - 1] + 1;
        else
            put_token(m, k++, i, end, hashes);
    }
    return k > m->max_symbols ? NONE : k;
}

/* Hashes of the tokens of m->symbols, into s1 and s2; their first symbol and the end into `piece` and `piece2`. Returns
 * the number of tokens, NONE for no room. */
static size_t hash_pieces(textsvm *m, u32 offset, size_t n) {
    const tokenizer *t = &m->pieces;
    if (m->pieces_at != offset)
        read_tokenizer(m, m->pieces_at = offset, &m->pieces);
    n = read_letters(m, t, n);
    if (n != NONE)
        n = t->scores ? hash_path(m, t, mark_spaces(m, t, n)) : hash_words(m, t, n);
    return n;
}

/* ---- Decisions ------------------------------------------------------------------------------------ */

size_t textsvm_columns(const textsvm *m) { return m->w[COLUMNS] ? m->w[COLUMNS] : 1; }
size_t textsvm_decisions(const textsvm *m) { return m->n_decisions; }
size_t textsvm_classes(const textsvm *m) { return m->n_classes; }
int textsvm_task(const textsvm *m) { return (int)m->w[4]; }

const char *textsvm_class(const textsvm *m, int number, size_t *bytes) {
    const u32 *starts = at(m, m->w[29]);
    int known = number >= 0 && (u32)number < m->n_classes;
    if (bytes)
        *bytes = known ? starts[number + 1] - starts[number] - 1 : 0;
    return known ? (const char *)at(m, m->w[30]) + starts[number] : "";
}

static void votes(const textsvm *m, const double *values, double *decision) {
    double *sums = m->scores;
    size_t k = 0;
    for (u32 a = 0; a < m->n_classes; a++)
        decision[a] = sums[a] = 0;
    for (u32 a = 0; a < m->n_classes; a++)
        for (u32 b = a + 1; b < m->n_classes; b++, k++) {
            decision[values[k] > 0 ? b : a] += 1;
            sums[b] += values[k];
            sums[a] -= values[k];
        }
    for (u32 a = 0; a < m->n_classes; a++)
        decision[a] += sums[a] / (3 * (fabs(sums[a]) + 1));
}

typedef struct { /* texts of the columns, and a column in m->points, as the terms before have read it */
    const char *const *texts;
    const size_t *sizes;
    size_t (*decode)(const char *, size_t, u32 *, size_t);
    size_t points, symbols, tokens;
    u32 hashed; /* view of the symbols whose hashes s1 and s2 hold; NONE for no view */
    int normalised;
    view of; /* its column is NONE before the first term */
} reading;

static reading reading_of(const char *const *texts, const size_t *sizes,
                          size_t (*decoder)(const char *, size_t, u32 *, size_t)) {
    return (reading){.texts = texts, .sizes = sizes, .decode = decoder, .hashed = NONE, .of = {.column = NONE}};
}

/* Symbols of the text as a term reads them into m->symbols, their hashes into s1 and s2; returns an error code. */
static int read_symbols(textsvm *m, const term *t, reading *r) {
    view v = view_of(m, t->view);
    if (v.column != r->of.column) {
        r->points = r->decode(r->texts[v.column], r->sizes[v.column], m->points, m->max_symbols);
        r->hashed = NONE, r->normalised = 0, r->of.column = v.column;
    }
    if (r->points == NONE)
        return TEXTSVM_TOO_LONG;
    if (t->view != r->hashed) {
        if (!r->normalised || v.keep_case != r->of.keep_case)
            r->symbols = normalise(m, v, r->points), r->normalised = 1;
        if (r->symbols == NONE)
            return TEXTSVM_TOO_LONG;
        r->tokens = v.tokens == TOKENS_PIECES       ? hash_pieces(m, v.tokenizer, r->symbols)
                    : v.tokens == TOKENS_CHARACTERS ? hash_points(m->symbols, r->symbols, m->s1, m->s2)
                                                    : hash_tokens(m, r->symbols, v.tokens == TOKENS_WORDS);
        if (r->tokens == NONE)
            return TEXTSVM_TOO_LONG;
        r->hashed = t->view, r->of = v;
    }
    return TEXTSVM_OK;
}

static int decide_reading(textsvm *m, reading r, double *decision) {
    for (u32 k = 0; k < m->n_machines; k++)
        m->sums[k] = 0;
    for (u32 i = 0; i < m->w[12]; i++) {
        term t = term_of(m, i);
        int code = read_symbols(m, &t, &r);
        if (code)
            return code;
        add_term(m, &t, r.tokens);
    }
    for (u32 k = 0; k < m->n_machines; k++)
        m->sums[k] += m->biases[k];
    if (m->w[5] == COMBINE_OVO)
        votes(m, m->sums, decision);
    else if (m->w[5] == COMBINE_DIFFERENCE)
        decision[0] = m->sums[1] - m->sums[0];
    else
        memcpy(decision, m->sums, m->n_decisions * sizeof *decision);
    return TEXTSVM_OK;
}

int textsvm_decide_columns(textsvm *m, const char *const *utf8, const size_t *n, double *decision) {
    return decide_reading(m, reading_of(utf8, n, decode), decision);
}

int textsvm_decide_with(textsvm *m, const char *utf8, size_t n, double *decision) {
    return textsvm_columns(m) > 1 ? TEXTSVM_BAD_ARGUMENT : textsvm_decide_columns(m, &utf8, &n, decision);
}

/* Number of n ascending values that are at most `value`. */
static size_t at_most(const double *values, size_t n, double value) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (values[middle] <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Linear interpolation as in numpy.interp. */
static double interpolate(double value, const double *x, const double *y, size_t n) {
    size_t i = at_most(x, n, value);
    if (!i)
        return y[0];
    if (i == n || x[i - 1] == value)
        return y[i - 1];
    return (y[i] - y[i - 1]) / (x[i] - x[i - 1]) * (value - x[i - 1]) + y[i - 1];
}

int textsvm_probabilities(const textsvm *m, const double *decision, double *probability) {
    const u32 *w = m->w;
    double total = 0;
    if (!w[16])
        return TEXTSVM_UNSUPPORTED;
    for (u32 k = 0; k < w[17]; k++) {
        const u32 *starts = at(m, w[20]);
        const double *a = (const double *)at(m, w[18]) + starts[k], *b = (const double *)at(m, w[19]) + starts[k];
        double p = w[16] == CALIBRATION_SIGMOID ? 1 / (1 + exp(a[0] * decision[k] + b[0]))
                                                : interpolate(decision[k], a, b, starts[k + 1] - starts[k]);
        probability[k] = p;
        total += p;
    }
    if (m->n_decisions == 1) {
        probability[1] = probability[0];
        probability[0] = 1 - probability[1];
        return TEXTSVM_OK;
    }
    for (u32 k = 0; k < m->n_classes; k++)
        probability[k] = total > 0 ? probability[k] / total : 1 / (double)m->n_classes;
    return TEXTSVM_OK;
}

static int largest(const double *values, u32 n) {
    u32 best = 0;
    for (u32 k = 1; k < n; k++)
        if (values[k] > values[best])
            best = k;
    return (int)best;
}

int textsvm_predict(textsvm *m, const double *decision) {
    const u32 *w = m->w;
    const double *bounds = w[21] ? at(m, w[22]) : NULL;
    double *p = m->scores;
    if (w[4] == TEXTSVM_LABELS || w[4] == TEXTSVM_NUMBER)
        return TEXTSVM_NO_CLASS;
    if (w[4] == TEXTSVM_NOVELTY)
        return decision[0] >= 0;
    if (textsvm_probabilities(m, decision, p))
        return m->n_decisions == 1 ? decision[0] > 0 : largest(decision, m->n_decisions);
    int best = largest(p, m->n_classes);
    if (w[21] == 1 && p[best] < bounds[0])
        return TEXTSVM_UNSURE;
    if (w[21] == 2)
        return p[1] >= bounds[1] ? 1 : p[1] > bounds[0] ? TEXTSVM_UNSURE : 0;
    return best;
}

int textsvm_labels(const textsvm *m, const double *decision, unsigned char *has) {
    const double *bounds = m->w[15] ? at(m, m->w[15]) : NULL;
    if (m->w[4] != TEXTSVM_LABELS)
        return TEXTSVM_UNSUPPORTED;
    for (u32 k = 0; k < m->n_decisions; k++)
        has[k] = decision[k] > (bounds ? bounds[k] : 0);
    return TEXTSVM_OK;
}

int textsvm_set(const textsvm *m, const double *probability, double coverage, int per_class, unsigned char *has) {
    const double *all = at(m, m->w[24]), *own = at(m, m->w[25]);
    const u32 *starts = at(m, m->w[26]);
    if (!m->w[23])
        return TEXTSVM_UNSUPPORTED;
    if (!(coverage > 0 && coverage < 1))
        return TEXTSVM_BAD_ARGUMENT;
    for (u32 k = 0; k < m->n_classes; k++) {
        const double *values = per_class ? own + starts[k] : all;
        size_t n = per_class ? starts[k + 1] - starts[k] : m->w[23];
        has[k] = (double)(1 + at_most(values, n, probability[k])) / (double)(n + 1) > 1 - coverage;
    }
    has[largest(probability, m->n_classes)] = 1;
    return TEXTSVM_OK;
}
