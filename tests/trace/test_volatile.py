"""Differences in volatile parts of real tools' output do not count; all others do."""

import time

import pytest

from stackmem.core.program_facts import ToolAnswered
from stackmem.review.comparison import KINDS, FactComparison, volatile_kinds

PYTEST = """\
============================= test session starts ==============================
platform linux -- Python 3.11.9, pytest-8.3.3, pluggy-1.5.0
rootdir: /workspace
collected 2 items

test_x.py .F                                                             [100%]

E   AssertionError: <object object at {address}> != 1

test_x.py:4: AssertionError
=========================== short test summary info ============================
FAILED test_x.py::T::test_b - AssertionError: <object object at {address}> != 1
{fill} 1 failed, {passed} passed in {took} {fill}"""
UNITTEST = """\
.F
======================================================================
FAIL: test_b (test_x.T.test_b)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/tmp/{folder}/test_x.py", line 4, in test_b
    def test_b(self): self.assertEqual(object(), 1)
AssertionError: <object object at {address}> != 1

----------------------------------------------------------------------
Ran 2 tests in {took}

FAILED (failures={passed})"""
GO = """\
=== RUN   TestAdd
--- PASS: TestAdd ({took})
PASS
ok  \texample.com/adder\t{told}
{passed} of 2
panic: goroutine 7 [running]: main.f({address}, 0x3)"""
CARGO = """\
   Compiling adder v0.1.0 (/workspace)
    Finished `test` profile [unoptimized + debuginfo] target(s) in {told}
     Running unittests src/lib.rs (target/debug/deps/adder-c3bb584dd17800fd)

running {passed} test
test adds ... ok

test result: ok. {passed} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in {took}"""
NODE_TAP = """\
TAP version 13
# Subtest: adds
ok 1 - adds
  ---
  duration_ms: {took}
  ...
1..{passed}
# pass {passed}
# duration_ms {told}"""
NODE_SPEC = """\
✔ adds ({took}ms)
ℹ pass {passed}
ℹ duration_ms {told}"""
JEST = """\
PASS ./adds.test.js
  ✓ adds{took}
  ✓ adds large ones (12 ms)

Tests:       {passed} passed, 2 total
Snapshots:   0 total
Time:        {told}
Ran all test suites."""
BASH = """\
make: Entering directory '/tmp/{folder}'
bash: line 1: {pid} Segmentation fault      (core dumped) ./adds
make: *** [Makefile:2: all] Error {passed}

real\t{took}
user\t0m0.002s
sys\t0m0.000s"""
LISTING = """\
total {passed}
-rw-r--r-- 1 root root   12 {listed} adds.py
started {date} as pid {pid}, {iso}
{took} elapsed"""
SAME = {
    "pytest": (PYTEST, {"address": "0x7f23fb3a6c50", "took": "0.15s", "fill": "=" * 21},
               {"address": "0x7f6a4b5a4830", "took": "65.32s (0:01:05)", "fill": "=" * 16}, "durations addresses"),
    "unittest": (UNITTEST, {"folder": "tmpab12cd_x", "address": "0x7f23fb3a6c50", "took": "0.011s"},
                 {"folder": "tmpqwertyui", "address": "0x55d0c8a012a0", "took": "1.203s"},
                 "durations addresses temporary names"),
    "go": (GO, {"took": "0.00s", "told": "0.002s", "address": "0xc000012345"},
           {"took": "0.01s", "told": "(cached)", "address": "0xc0000a8f00"}, "durations addresses"),
    "cargo": (CARGO, {"took": "0.00s", "told": "4.56s"}, {"took": "0.21s", "told": "1m 03s"}, "durations"),
    "node": (NODE_TAP, {"took": "15.002512", "told": "766.00292"}, {"took": "9", "told": "98.2"}, "durations"),
    "node spec": (NODE_SPEC, {"took": "14.348162", "told": "702.80213"}, {"took": "4.1", "told": "70.2"}, "durations"),
    "jest": (JEST, {"took": " (3 ms)", "told": "0.532 s, estimated 1 s"}, {"took": "", "told": "1.1 s"}, "durations"),
    "make": (BASH, {"folder": "build-Xa91Zq", "pid": "    7", "took": "0m0.123s"},
             {"folder": "build-pP0aB2", "pid": "12345", "took": "1m2.500s"}, "durations temporary names process ids"),
    "listing": (LISTING, {"listed": "Nov 22 09:59", "date": "Sun Nov 22 10:04:49 UTC 2026", "pid": "12",
                          "iso": "2026-11-22T10:04:49.123Z", "took": "1h 5m"},
                {"listed": "Dec  1 17:00", "date": "Tue Dec  1 17:00:01 UTC 2026", "pid": "31337",
                 "iso": "2026-12-01T17:00:01+01:00", "took": "2m 10s"}, "durations times process ids"),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_the_same_result_of_a_tool_differs_only_in_what_is_never_the_same(name):
    form, first, second, kinds = SAME[name]
    found = volatile_kinds(form.format(passed=1, **first), form.format(passed=1, **second))
    assert found is not None
    assert " ".join(kind for kind in KINDS if kind in found) == kinds


@pytest.mark.parametrize("name", SAME)
def test_another_count_is_another_result(name):
    form, first, second, _ = SAME[name]
    assert volatile_kinds(form.format(passed=1, **first), form.format(passed=2, **second)) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("offset 0x10", "offset 0x20"),
        ("crc 0xdeadbeef", "crc 0xcafebabe"),
        ("wrote /tmp/out.txt", "wrote /tmp/result.txt"),
        ("timeout 3 s", "timeout 5 s"),
        ("version 1.2.3", "version 1.2.4"),
        ("ratio 0.15", "ratio 0.16"),
        ("line 7: error", "line 8: error"),
        ("[exit 0]", "[exit 1]"),
        ("a 0.1s\nb 0.2s", "b 0.2s\na 0.1s"),
        ("in 0.1s", "in 0.1s\n"),
        ("  indented", " indented"),
        ("13:61:00", "13:62:00"),
        ("tmpfile", "tmpdir"),
    ],
)
def test_relevant_differences_count(one, other):
    assert volatile_kinds(one, other) is None


@pytest.mark.parametrize(
    "text", ["1", "1m ", " ", "/tmp/", "(1", "Jan ", "20", "a-", "tmp", "0x0", "time ", "in    ", "ab" * 9]
)
def test_hostile_text_costs_time_in_proportion_to_its_length(text):
    def seconds(chars):
        once = text * (chars // len(text))
        begun = time.process_time()
        volatile_kinds(f"{once}a", f"{once}b")
        return time.process_time() - begun

    assert seconds(80_000) < 40 * max(seconds(8_000), 0.001)


def test_more_than_anyone_prints_is_compared_as_it_is():
    assert volatile_kinds("x" * 200_000 + " in 0.1s", "x" * 200_000 + " in 0.2s") is None


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        ({"out": ["1 passed in 0.31s", "ok"], "code": 0}, True),
        ({"out": ["1 passed in 0.15s", "no"], "code": 0}, False),
        ({"out": ["1 passed in 0.31s"], "code": 0}, False),
        ({"out": ["1 passed in 0.31s", "ok"], "code": 1}, False),
    ],
)
def test_the_texts_of_a_tools_value_are_compared_at_any_depth(tmp_path, other, equal):
    comparison = FactComparison((tmp_path, tmp_path))
    one = {"out": ["1 passed in 0.15s", "ok"], "code": 0}
    assert comparison.equal(ToolAnswered(one), ToolAnswered(other)) is equal
    assert comparison.differs_only_in == (("durations",) if equal else ())
