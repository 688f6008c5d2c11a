"""How effort grows with size, judged within one run: no test asks how fast the machine is or what else it does."""

import gc
import os
import time
from collections.abc import Callable

TIMES = 4
NEVER = float("inf")


def stays_linear(work: Callable[[int], object], size: int, tries: int = 8) -> bool:
    """Whether four times the size takes clearly less processor time than the sixteenfold of a square.

    Noise only ever adds, so the least of each size counts, and a ratio that is too high is tried again, after a while.
    The time without the kernel's may tell, too, where its steps of 0.01 s are fine enough: a short work finds its pages
    in place and a long one must ask for them, which is dear where memory is scarce.
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
    """The processor time of this process that it takes, in seconds."""
    return both_clocks(work)[0]


def both_clocks(work: Callable[[], object]) -> tuple[float, float]:
    """The processor time of this process in seconds: all of it, and without the kernel's.

    Nothing is collected meanwhile, for that takes as long as what the tests before have left.
    """
    gc.disable()
    try:
        begun, began = time.process_time(), os.times().user
        work()
        return time.process_time() - begun, os.times().user - began
    finally:
        gc.enable()
