// What becomes of the product of two vectors, by FINISH: LINEAR, POLYNOMIAL, GAUSSIAN or SIGMOID.

#define LINEAR 1
#define POLYNOMIAL 2
#define GAUSSIAN 3
#define SIGMOID 4

// exp(x), x <= 0, within two units of float's last place: float's own exp would lose those that x is longer than 1.
__device__ __forceinline__ float exp_of(double x)
{
    const double round = 6755399441055744.0;  // 1.5 * 2^52: what is added to it becomes whole
    double y = x * 1.4426950408889634 + round;
    int power = __double2loint(y);
    if (x < -87) return 0;
    return exp2f((float)(x * 1.4426950408889634 - (y - round))) * __int_as_float((power + 127) << 23);
}

// k(x, y) from <x, y>, |x|^2 and |y|^2.
__device__ __forceinline__ float kernel_value(double product, double a, double b, double gamma, double coef0,
                                              int degree)
{
#if FINISH == POLYNOMIAL
    double base = gamma * product + coef0, power = 1;
    for (; degree; degree >>= 1, base *= base)
        if (degree & 1) power *= base;
    return (float)power;
#elif FINISH == GAUSSIAN
    return exp_of(-gamma * fmax(a + b - 2 * product, 0.0));
#elif FINISH == SIGMOID
    return (float)tanh(gamma * product + coef0);
#else
    return (float)product;
#endif
}
