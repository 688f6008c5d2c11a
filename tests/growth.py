"""How effort grows with size, judged within one run: no test asks how fast the machine is or what else it does."""

import time
from collections.abc import Callable

TIMES = 4


def stays_linear(work: Callable[[int], object], size: int, tries: int = 6) -> bool:
    """Whether four times the size takes clearly less processor time than the sixteenfold of a square.

    Noise only ever adds, so the least of each size counts, and a ratio that is too high is tried again.
    """
    small = large = float("inf")
    for _ in range(tries):
        small = min(small, spent(lambda: work(size // TIMES)))
        large = min(large, spent(lambda: work(size)))
        if large <= 2.5 * TIMES * small:
            return True
    return False


def spent(work: Callable[[], object]) -> float:
    """The processor time of this process that it takes."""
    begun = time.process_time()
    work()
    return time.process_time() - begun
