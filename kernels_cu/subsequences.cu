// Documents -> subsequences of p symbols of bounded span -> entries of X. The derivation is in
// textsvm/kernels/gap/subsequences.py; here only what each thread does. There is a word for each of n_patterns
// patterns at each of n_symbols places, that of a pattern which leaves the document NONE; words of a pattern lie
// together.

#define NONE 0x7fffffffffffffffll

// Keys continue by the symbols at the places begin..end of the patterns; -1 where they are, or NONE would be.
extern "C" __global__ void extend(int64 n, int64 n_symbols, const int* codes, const int64* offsets,
                                  const int* document, const int* patterns, int p, int begin, int end,
                                  int64 alphabet, int64* keys)
{
    EACH(t, n);
    int64 i = t % n_symbols;
    const int* pattern = patterns + t / n_symbols * p;
    int64 key = i + pattern[p - 1] < offsets[document[i] + 1] ? keys[t] : -1;
    for (int k = begin; k < end && key >= 0; ++k) key = key * alphabet + codes[i + pattern[k]];
    keys[t] = key;
}

// (document, key, gap) in one word.
extern "C" __global__ void pack(int64 n, int64 n_symbols, const int* document, const int* patterns, int p,
                                int64 bound, int64 n_gaps, int64* words)
{
    EACH(t, n);
    int64 key = words[t], gap = patterns[t / n_symbols * p + p - 1] + 1 - p;
    words[t] = key < 0 ? NONE : (document[t % n_symbols] * bound + key) * n_gaps + gap;
}

// Of sorted words, those that begin another (document, key).
extern "C" __global__ void begins_entry(int64 n, int64 n_gaps, const int64* words, uint8* first)
{
    EACH(i, n);
    first[i] = i == 0 || words[i] / n_gaps != words[i - 1] / n_gaps;
}

// One entry for every run: the sum of powers of the gaps, in the order of the CPU and rounded as there.
extern "C" __global__ void combine(int64 n, int64 n_words, const int64* words, const int64* begins, int64 n_gaps,
                                   int64 bound, const double* powers, int* documents, int64* keys, float* values)
{
    EACH(k, n);
    int64 i = begins[k], end = k + 1 < n ? begins[k + 1] : n_words, entry = words[i] / n_gaps;
    double total = 0;
    while (i < end) {
        int64 begin = i, word = words[i];
        while (i < end && words[i] == word) ++i;
        total = __dadd_rn(total, __dmul_rn((double)(i - begin), powers[word - entry * n_gaps]));
    }
    documents[k] = (int)(entry / bound);
    keys[k] = entry % bound;
    values[k] = (float)total;
}
