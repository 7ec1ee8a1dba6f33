// Does a kernel compile and compute correctly here? Steps of the Collatz sequence from 1, 2, ..., n down to 1.

extern "C" __global__ void collatz_steps(int n, int* __restrict__ steps) {
  __shared__ int shared_steps[128];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int count = 0;
  for (uint64 value = i + 1; value != 1; count++) value = value & 1 ? 3 * value + 1 : value / 2;
  shared_steps[threadIdx.x] = count;
  __syncthreads();
  if (i < n) steps[i] = shared_steps[threadIdx.x];
}
