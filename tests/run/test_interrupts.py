"""A signal interrupts only what may be interrupted, once; the second one ends the program."""

import signal
import threading

import pytest

from stackmem.run.interrupts import Interrupts


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM])
def number(request):
    return request.param


def test_a_signal_interrupts_an_allowed_stretch(number):
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt), interrupts.allowed():
            signal.raise_signal(number)
        assert interrupts.signal == number


def test_a_signal_before_an_allowed_stretch_interrupts_it_at_its_beginning(number):
    reached = []
    with Interrupts() as interrupts:
        signal.raise_signal(number)
        reached.append("what is being written is written whole")
        with pytest.raises(KeyboardInterrupt), interrupts.allowed():
            reached.append("never")
    assert reached == ["what is being written is written whole"]


def test_the_second_signal_ends_the_program_with_its_code(number):
    codes = []
    with Interrupts(stop=codes.append) as interrupts:
        signal.raise_signal(signal.SIGINT)
        assert codes == []
        signal.raise_signal(number)
    assert codes == [128 + number]
    assert interrupts.signal in {signal.SIGINT, number}


def test_what_cleans_up_behind_an_interruption_is_not_interrupted_by_it_again():
    cleaned, codes = [], []

    def work() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGINT)
            cleaned.append("all")

    with Interrupts(stop=codes.append) as interrupts, pytest.raises(KeyboardInterrupt), interrupts.allowed():
        work()
    assert (cleaned, codes) == (["all"], [130])


def test_the_handlers_of_the_caller_come_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_outside_the_main_thread_nothing_is_taken():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with Interrupts() as interrupts, interrupts.allowed():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
