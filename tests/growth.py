"""How the work of a function grows with its input, in the time of this process's CPU, whatever else runs."""

import gc
import time


def cpu_seconds(work, runs):
    """The least of some runs, without the garbage collector, which looks at all that there is."""
    times = []
    gc.disable()
    try:
        for _ in range(runs):
            clock = time.process_time()
            work()
            times.append(time.process_time() - clock)
    finally:
        gc.enable()
    return min(times)


def assert_at_most_linear(work, n, times=8, slack=3):
    """`work(times * n)` takes no more than `slack` times what a linear function would, going by `work(n)`.

    A quadratic one takes `times` times that. What is too short to be measured counts as 2 ms; a neighbour
    that comes or goes between the two gets a second and a third chance. These take the best of two and three
    runs on the larger input, too: new pages of memory cost more than short work on them.
    """
    for repeats in (1, 2, 3):
        small = max(0.002, cpu_seconds(lambda: work(n), 3))
        large = cpu_seconds(lambda: work(times * n), repeats)
        if large < slack * times * small:
            return
    raise AssertionError(f"{small:.4f} s for {n:,}, {large:.4f} s for {times * n:,}")
