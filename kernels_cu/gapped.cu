// Windows of documents under a mask -> keys. The derivation is in textsvm/kernels/mers/windows.py; here only what each
// thread does.

// The key of each of n windows: its id, then the symbols at the kept places; -1 where the id is, or a symbol
// from n_symbols on is among them. A key is below 2^63.
extern "C" __global__ void masked_keys(int64 n, const int* codes, const int64* starts, const int* kept, int n_kept,
                                       const int64* ids, int64 n_symbols, int64* keys)
{
    EACH(w, n);
    int64 key = ids[w];
    for (int k = 0; k < n_kept && key >= 0; ++k) {
        int code = codes[starts[w] + kept[k]];
        key = code < n_symbols ? key * n_symbols + code : -1;
    }
    keys[w] = key;
}
