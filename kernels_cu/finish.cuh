// What becomes of the product of two vectors: FINISH is linear, polynomial, gaussian or sigmoid. Each is given the
// product, gamma / log 2 |x - y|^2, and the parameters of the kernel; what it does not need is never computed.
// Real (float or double) is what products are in.

// 2^-x, x >= 0 but for rounding.
__device__ __forceinline__ float half_to_the(float x) { return exp2f(-fmaxf(x, 0)); }

// The same within two units of float's last place: a float of x loses the bits that x is longer than 1.
__device__ __forceinline__ float half_to_the(double x)
{
    const double round = 6755399441055744.0;   // 1.5 * 2^52: what is added to it becomes whole
    x = fmax(x, 0.0);
    if (x > 125) return 0;
    double whole = round - x;
    return exp2f((float)(round - whole - x)) * __int_as_float((__double2loint(whole) + 127) << 23);
}

template <typename Real>
__device__ __forceinline__ float linear(Real product, Real, double, double, int)
{
    return (float)product;
}

template <typename Real>
__device__ __forceinline__ float polynomial(Real product, Real, double gamma, double coef0, int degree)
{
    Real base = (Real)gamma * product + (Real)coef0, power = 1;
    for (; degree; degree >>= 1, base *= base)
        if (degree & 1) power *= base;
    return (float)power;
}

template <typename Real, typename Distance>
__device__ __forceinline__ float gaussian(Real, Distance distance, double, double, int)
{
    return half_to_the(distance);
}

template <typename Real>
__device__ __forceinline__ float sigmoid(Real product, Real, double gamma, double coef0, int)
{
    return tanhf((float)((Real)gamma * product + (Real)coef0));
}
