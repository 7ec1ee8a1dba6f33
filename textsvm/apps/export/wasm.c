/* textsvm.wasm: textsvm.c with functions for textsvm.mjs, whose texts are UTF-16 and whose decisions are explained. */
#define WIDE 16u /* without prefetching the order of the memory is faster */
#include "textsvm.c"

/* Decode n units of UTF-16 to at most `most` code points; a lone surrogate is a code point of its own. */
static size_t decode_units(const char *units, size_t n, u32 *out, size_t most) {
    const uint16_t *s = (const uint16_t *)(const void *)units;
    size_t i = 0, k = 0;
    while (i < n) {
        u32 point = s[i++];
        if (k == most)
            return NONE;
        if ((point & 0xFC00) == 0xD800 && i < n && (s[i] & 0xFC00) == 0xDC00)
            point = 0x10000 + ((point & 0x3FF) << 10) + (s[i++] & 0x3FFu);
        out[k++] = point;
    }
    return k;
}

/* Decision values of a text for each column. */
int textsvm_decide_units(textsvm *m, const char *const *units, const size_t *n, double *decision) {
    return decide_reading(m, reading_of(units, n, decode_units), decision);
}

typedef struct {
    double *weights; /* of the machines in the decision value that is explained */
    double *sums;    /* values of the machines by a single string */
    double *shares;  /* contribution of each symbol */
    u32 *spans;      /* see struct textsvm */
    u32 *units;      /* first unit of each code point, and the end */
    double *contributions;
    double *totals; /* see textsvm_explain */
} explanation;

/* Size of the memory for textsvm_explain. */
size_t textsvm_explain_memory(size_t n_machines, size_t max_symbols) {
    return 16 * n_machines + 20 * max_symbols + 8;
}

/* Add the contribution of each occurrence of the counted strings of a table to its symbols. */
static void share_table(const textsvm *m, const term *t, const table *b, size_t n, explanation *e) {
    int shown = b->contiguous && b->p == 4 && view_of(m, t->view).tokens == TOKENS_CHARACTERS;
    for (u32 pattern = 0; pattern < b->n_patterns; pattern++) {
        const u32 *offsets = b->offsets + (size_t)pattern * b->p;
        size_t reach = reach_of(b, offsets);
        for (size_t i = 0; i + reach <= n; i++) {
            u64 key = key_at(m, offsets, b->p, i);
            u32 row;
            double amount = amount_of(m, b, slot_of(m, key)), x, value = 0;
            find_rows(b, &key, 1, &row);
            read_values(m, t, b, &amount, 1, &row, &x);
            memset(e->sums, 0, m->n_machines * sizeof *e->sums);
            add_rows(m, b, &row, &x, 1, e->sums);
            for (u32 k = 0; k < m->n_machines; k++)
                value += e->weights[k] * e->sums[k];
            for (u32 k = 0; k < b->p; k++)
                e->shares[i + offsets[k]] += value * b->values[pattern] / amount / b->p;
            e->totals[1] += shown, e->totals[2] += shown && row == b->n_strings;
        }
    }
}

/* Add the contribution of each symbol, times `scale`, to the units of the text that it comes from. */
static void spread_shares(const textsvm *m, const term *t, const reading *r, double scale, explanation *e) {
    view v = view_of(m, t->view);
    int words = v.tokens == TOKENS_WORDS || v.tokens == TOKENS_WHITESPACE, pieces = v.tokens == TOKENS_PIECES;
    for (size_t k = 0, i = 0, end; k < r->tokens; k++, i = end) {
        double share = scale * e->shares[k];
        while (words && flags_of(m, m->symbols[i]) & SPACE)
            i++;
        i = pieces ? m->piece[k] : i;
        end = pieces ? m->piece2[k] : words ? token_end(m, i, r->symbols, v.tokens == TOKENS_WORDS) : i + 1;
        for (size_t c = i; c < end; c++) {
            u32 first = e->units[e->spans[2 * c]], last = e->units[e->spans[2 * c + 1]];
            for (u32 u = first; u < last; u++)
                e->contributions[u] += share / (double)(end - i) / (last - first);
        }
    }
}

static void explain_term(textsvm *m, const term *t, const reading *r, explanation *e) {
    double squares = 0;
    size_t n = r->tokens;
    memset(e->shares, 0, n * sizeof *e->shares);
    for (u32 k = 0; k < t->n_tables; k++) {
        table b = table_of(m, t->tables + (size_t)TABLE_WORDS * k);
        look_up(m, t, &b, count_patterns(m, &b, n), NULL, &squares);
        share_table(m, t, &b, n, e);
    }
    if (squares > 0 || !t->normalised)
        spread_shares(m, t, r, t->normalised == MEAN ? t->scale / (double)n : t->normalised ? 1 / sqrt(squares) : t->scale, e);
    else {
        memset(m->term_sums, 0, m->n_machines * sizeof *m->term_sums);
        add_featureless(m, t, n, m->term_sums);
        for (u32 k = 0; k < m->n_machines; k++)
            e->totals[0] += e->weights[k] * m->term_sums[k];
    }
}

/* Weights of the machines in a decision value; of votes those in the sum of the values for its class. */
static void weigh_machines(const textsvm *m, u32 number, double *weights) {
    memset(weights, 0, m->n_machines * sizeof *weights);
    if (m->w[5] == COMBINE_DIFFERENCE)
        weights[0] = -1, weights[1] = 1;
    else if (m->w[5] == COMBINE_IDENTITY && number < m->n_machines)
        weights[number] = 1;
    else if (m->w[5] == COMBINE_OVO)
        for (u32 a = 0, k = 0; a < m->n_classes; a++)
            for (u32 b = a + 1; b < m->n_classes; b++, k++)
                weights[k] = (b == number) - (a == number);
}

/* Contributions of the units of the texts, column after column, to a decision value.
 * `totals` receives the bias, the number of substrings of 4 characters, and the number of those that the model does not know. */
int textsvm_explain(textsvm *m, const char *const *units, const size_t *n, u32 number, void *memory,
                    double *contributions, double *totals) {
    reading r = reading_of(units, n, decode_units);
    explanation e;
    int code = TEXTSVM_OK;
    u32 column = NONE;
    e.weights = memory, e.sums = e.weights + m->n_machines, e.shares = e.sums + m->n_machines;
    e.spans = (u32 *)(e.shares + m->max_symbols), e.units = e.spans + 2 * m->max_symbols;
    e.contributions = contributions, e.totals = totals;
    for (size_t k = 0, c = 0; c < textsvm_columns(m); k += n[c++])
        memset(contributions + k, 0, n[c] * sizeof *contributions);
    memset(totals, 0, 3 * sizeof *totals);
    weigh_machines(m, number, e.weights);
    for (u32 k = 0; k < m->n_machines; k++)
        totals[0] += e.weights[k] * m->biases[k];
    m->spans = e.spans;
    for (u32 i = 0; i < m->w[12] && !code; i++) {
        term t = term_of(m, i);
        code = read_symbols(m, &t, &r);
        if (!code && column != r.of.column) {
            column = r.of.column, e.units[0] = 0;
            for (u32 k = 0; k < column; k++)
                e.units[0] += (u32)n[k];
            for (size_t k = 0; k < r.points; k++)
                e.units[k + 1] = e.units[k] + (m->points[k] > 0xFFFF ? 2 : 1);
        }
        if (!code)
            explain_term(m, &t, &r, &e);
    }
    m->spans = NULL;
    return code;
}
