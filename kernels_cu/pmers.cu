// Documents -> exact ids of p-mers -> rows of counts. The derivation is in textsvm/kernels/shared/counting.py; here
// only what each thread does. Positions of symbols and of entries are int64; ids, documents and counts are int.
//
// KEY (uint32 or uint64): type that holds document * (number of p-mers) + p-mer.

#ifndef KEY
#define KEY uint64
#endif

// document[i] of every symbol i: the last one that starts at or before i.
extern "C" __global__ void locate(int64 n_symbols, int n, const int64* offsets, int* document)
{
    EACH(i, n_symbols);
    int low = 0, high = n;  // offsets[low] <= i < offsets[high]
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (offsets[middle] <= i) low = middle; else high = middle;
    }
    document[i] = low;
}

struct Windows {
    int64 n_symbols, size_b;
    const int64* offsets;
    const int *document, *left, *right;
    int q, b;

    __device__ bool whole(int64 i) const { return i + q <= offsets[document[i] + 1]; }
    __device__ int64 key(int64 i) const { return left[i] * size_b + right[i + q - b]; }
};

#define WINDOWS                                                                            \
    int64 n_symbols, const int64 *offsets, const int *document, int q, int b,              \
        const int *left, const int *right, int64 size_b
#define THESE Windows{n_symbols, size_b, offsets, document, left, right, q, b}

extern "C" __global__ void mark(WINDOWS, int* seen)
{
    EACH(i, n_symbols);
    Windows windows = THESE;
    if (!windows.whole(i)) return;
    int64 key = windows.key(i);
    if (!seen[key]) seen[key] = 1;  // looking first: writes to one word would queue
}

extern "C" __global__ void look_up(WINDOWS, const int* ranks, int* ids)
{
    EACH(i, n_symbols);
    Windows windows = THESE;
    ids[i] = windows.whole(i) ? ranks[windows.key(i)] - 1 : 0;
}

// Keys to be sorted; windows that leave their document sort behind all others.
extern "C" __global__ void window_keys(WINDOWS, uint64* keys)
{
    EACH(i, n_symbols);
    Windows windows = THESE;
    keys[i] = windows.whole(i) ? (uint64)windows.key(i) : ~0ull;
}

// Ranks of the keys among all distinct ones, which ascend.
extern "C" __global__ void search(WINDOWS, int64 n_keys, const uint64* distinct, int* ids)
{
    EACH(i, n_symbols);
    Windows windows = THESE;
    int64 low = 0, high = windows.whole(i) ? n_keys - 1 : 0;
    uint64 key = high ? (uint64)windows.key(i) : 0;
    while (low < high) {
        int64 middle = (low + high) / 2;
        if (__ldg(distinct + middle) < key) low = middle + 1; else high = middle;
    }
    ids[i] = (int)low;
}

extern "C" __global__ void token_keys(int64 n_symbols, const int64* offsets, const int* document, int q,
                                      const int* ids, int64 base, int64 n_features, KEY* keys)
{
    EACH(i, n_symbols);
    int d = document[i];
    keys[i] = i + q <= offsets[d + 1] ? (KEY)((KEY)d * (KEY)n_features + (KEY)(base + ids[i])) : (KEY)~(KEY)0;
}

extern "C" __global__ void first_of_run(int64 n, const KEY* keys, uint8* first)
{
    EACH(i, n);
    first[i] = i == 0 || keys[i] != keys[i - 1];
}

// One entry of X for every run of equal keys.
extern "C" __global__ void entries(int64 n, int64 n_tokens, const KEY* keys, const int64* starts,
                                   int64 n_features, int* documents, int* features, int* counts,
                                   int* df, int* highest)
{
    EACH(k, n);
    int64 start = starts[k], end = k + 1 < n ? starts[k + 1] : n_tokens;
    KEY key = keys[start];
    int u = (int)(key % (KEY)n_features), c = (int)(end - start);
    documents[k] = (int)(key / (KEY)n_features);
    features[k] = u;
    counts[k] = c;
    atomicAdd(&df[u], 1);
    if (c > 1) atomicMax(&highest[u], c);
}

// Where the rows of X start, from the document of every entry.
extern "C" __global__ void row_starts(int64 n, int n_rows, const int* documents, int64* indptr)
{
    EACH(k, n);
    int d = documents[k];
    for (int row = k ? documents[k - 1] + 1 : 0; row <= d; ++row) indptr[row] = k;
    if (k == n - 1)
        for (int row = d + 1; row <= n_rows; ++row) indptr[row] = n;
}
