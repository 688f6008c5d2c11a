"""Check how effort grows with size within one run, so that no test depends on the machine's speed or load."""

import gc
import os
import time
from collections.abc import Callable

TIMES = 4
NEVER = float("inf")


def stays_linear(work: Callable[[int], object], size: int, tries: int = 8) -> bool:
    """Return whether fourfold input takes clearly less than the sixteenfold processor time of a quadratic algorithm.

    Noise only adds time, so the minimum of each size counts, and too high a ratio is measured again after a pause. The
    time without the kernel's share may decide too, if the clock's steps of 0.01 s are fine enough: short work finds its
    pages in memory while long work must request them, which is expensive when memory is scarce.
    """
    small, large = [NEVER, NEVER], [NEVER, NEVER]
    for number in range(tries):
        time.sleep(0.05 * 2**number if number > 1 else 0)
        small = list(map(min, small, both_clocks(lambda: work(size // TIMES))))
        large = list(map(min, large, both_clocks(lambda: work(size))))
        if large[0] <= 2.5 * TIMES * small[0] or (small[1] >= 0.03 and large[1] <= 2.5 * TIMES * small[1]):
            return True
    return False


def spent(work: Callable[[], object]) -> float:
    """Return the processor time of this process for the work, in seconds."""
    return both_clocks(work)[0]


def both_clocks(work: Callable[[], object]) -> tuple[float, float]:
    """Return this process's processor time in seconds: in total, and without the kernel's share.

    Garbage collection is off meanwhile, because its cost depends on what earlier tests left behind.
    """
    gc.disable()
    try:
        begun, began = time.process_time(), os.times().user
        work()
        return time.process_time() - begun, os.times().user - began
    finally:
        gc.enable()
