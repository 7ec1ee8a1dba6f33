// Documents -> planes of bits, as positions.cuh has them. A warp takes a document, 32 symbols at a time.
//
// Symbol i of the document at position d has code + 1, 0 from `known` on; bit p of it is bit i % 32 of word i / 32 of
// plane p: words[firsts[d] + (i / 32 * planes + p) * stride]. Behind the last symbol the bits are `padding`.
extern "C" __global__ void pack_planes(int n, const uint32* __restrict__ codes, const int64* __restrict__ offsets,
                                       const int* __restrict__ order, const int64* __restrict__ firsts, uint32 known,
                                       int planes, int stride, uint32 padding, uint32* __restrict__ words) {
  int position = (blockIdx.x * blockDim.x + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
  if (position >= n) return;
  int64 begin = offsets[order[position]], length = offsets[order[position] + 1] - begin;
  uint32* out = words + firsts[position];
  for (int64 i = lane; i - lane < length; i += WARP, out += planes * stride) {
    uint32 code = i < length ? codes[begin + i] : padding;
    if (i < length) code = code < known ? code + 1 : 0;
    uint32 mine = 0;
    for (int p = 0; p < planes; p++) {
      uint32 plane = __ballot_sync(FULL_WARP, code >> p & 1);
      if (lane == p) mine = plane;
    }
    if (lane < planes) out[(int64)lane * stride] = mine;
  }
}
