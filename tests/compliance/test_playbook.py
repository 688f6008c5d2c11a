"""Cases of the playbook output contract: every line of its worked examples, and every tolerated fault."""

import pytest

from stackmem.languages.playbook.reply import read_reply

from .playbook_stage import Case, load_cases, told

CASES = list(load_cases())


@pytest.mark.parametrize("case", [pytest.param(case, id=case.says) for case in CASES])
def test_the_reply_is_read_so(case: Case):
    reply = read_reply(case.reply)
    found = [told(item) for item in reply.items]
    assert len(found) == len(case.gives), found
    for one, wanted in zip(found, case.gives, strict=True):
        if wanted.startswith("fault "):
            assert one.startswith("fault ")
            assert wanted.removeprefix("fault ") in one, one
        else:
            assert one == wanted
    if case.ignored is not None:
        assert reply.ignored == case.ignored


def test_there_are_two_hundred_cases_and_no_two_say_the_same():
    says = [case.says for case in CASES]
    assert len(set(says)) == len(says) >= 200
