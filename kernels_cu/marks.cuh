// Rank of element i among the marked ones, or -1. A word of `marks`: 32 mark bits, and above them the number of marked
// elements before.
__device__ __forceinline__ int marked_number(const uint64* marks, int i)
{
    uint64 word = __ldg(marks + (i >> 5));
    uint32 bits = (uint32)word, bit = 1u << (i & 31);
    return bits & bit ? (int)(word >> 32) + __popc(bits & (bit - 1)) : -1;
}
