"""Parsing programs: the notation, and the positions of faults."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.languages.playbook.errors import PlaybookError
from stackmem.languages.playbook.literals import LiteralFault, LiteralReader
from stackmem.languages.playbook.reader import read_program
from stackmem.languages.playbook.tree import Required

WHOLE = """#!/usr/bin/env -S stackmem run
---
title: x
---
<!-- a comment -->
# my agent
Describes it.

- a list
- of two

```js
code
```

```python
@playbook(public=True, triggers=["T2:EVT when it rains", "when it snows"])
async def f(a: int, b: str = "x", *, c=len) -> int:
    '''Adds.

    More.
    '''
    return 1

@playbook
def g():
    return 2

def helper(*a):
    return 3
```

## public: Welcome($p1, $q:int=3, $r: list[str] = ["a"]) -> str
What it does.

    indented

### TRIGGERS:
- T1:BGN at the start
- CND when $x is set
### Steps
- 01:QUE Greet
- PB:02:CND If so
  - 02.01:YLD user
  - EXE by its place
- RET $x
### Notes
- N1 be kind
- be brief

be quick

---

## Other words

# Second
## P
### Steps
1. EXE one
2. RET

```public.json
[{"name": "P"}]
```
"""


def test_a_whole_program_is_read():
    one, two = read_program(WHOLE).agents
    assert (one.name, two.name) == ("MyAgent", "Second")
    assert one.says == "Describes it.\n\n- a list\n- of two\n\ncode"
    f, g, welcome, other = one.playbooks
    assert [param.name for param in f.params] == ["a", "b", "c"]
    assert [param.default for param in f.params] == [Required, "x", None]
    assert (f.says, f.returns, f.public, f.line) == ("Adds.", "int", True, 18)
    assert [(each.label, each.code) for each in f.triggers] == [("T2", "EVT"), ("T2", "CND")]
    assert (g.public, g.params) == (False, ())
    assert welcome.public
    assert [(param.name, param.kind, param.default) for param in welcome.params] == [
        ("p1", "", Required), ("q", "int", 3), ("r", "list[str]", ["a"]),
    ]  # fmt: skip
    assert [(each.label, each.code, each.text) for each in welcome.triggers] == [
        ("T1", "BGN", "at the start"), ("T2", "CND", "when $x is set"),
    ]  # fmt: skip
    assert [(step.number, step.code) for step in welcome.steps] == [
        ((1,), "QUE"), ((2,), "CND"), ((2, 1), "YLD"), ((2, 2), "EXE"), ((3,), "RET"),
    ]  # fmt: skip
    assert [(note.name, note.text) for note in welcome.notes] == [
        ("N1", "be kind"),
        ("N2", "be brief"),
        ("N3", "be quick"),
    ]
    assert welcome.says == "What it does.\n\nindented"
    assert other.name == "OtherWords"
    assert two.playbooks[0].public
    assert [step.number for step in two.playbooks[0].steps] == [(1,), (2,)]
    assert welcome.steps[0].line == WHOLE.splitlines().index("- 01:QUE Greet") + 1


def test_sentences_without_codes_are_plain():
    program = read_program("# A\n## P\n### Steps\n- Greet the user\n- Say goodbye\n\nThen go.\n")
    assert program.plain
    assert program.agents[0].playbooks[0].steps == ()


@pytest.mark.parametrize(
    ("text", "title", "line"),
    [
        ("", "Missing Agent", 1),
        ("just text", "Missing Agent", 1),
        ("```python\nx\n```\n", "Missing Agent", 1),
        ("## P\n", "Missing Agent", 1),
        ("# !\n", "Missing Agent", 1),
        ("# A\ntext", "Missing Playbook", 1),
        ("# A\n## P\n# A\n## Q\n", "Duplicate Agent", 3),
        ("# A\n## P\n## P\n", "Duplicate Playbook", 3),
        ("# A\n## ()\n", "Bad Heading", 2),
        ("# A\n## P($x, $x)\n", "Bad Heading", 2),
        ("# A\n## P(5)\n", "Bad Heading", 2),
        ("# A\n## P($x $y)\n", "Bad Heading", 2),
        ("# A\n## P($x=foo)\n", "Bad Heading", 2),
        ("# A\n## P($x=$y)\n", "Bad Heading", 2),
        ("# A\n## P\n### What\n", "Unknown Section", 3),
        ("# A\n## P\n### Steps\n### Steps\n", "Duplicate Section", 4),
        ("# A\n### Steps\n", "Unknown Heading", 2),
        ("# A\n## Steps\n", "Unknown Heading", 2),
        ("# A\n## P\n#### Deep\n", "Unknown Heading", 3),
        ("# A\n## P\n### Triggers\n- T1:ODD when it rains\n", "Bad Trigger", 4),
        ("# A\n## P\n### Steps\n- 01:FOO x\n", "Unknown Code", 4),
        ("# A\n## P\n### Steps\n- 01:EXE x\n- 1:EXE y\n", "Duplicate Line", 5),
        ("# A\n## P\n### Steps\n- 1234567890:EXE x\n", "Bad Number", 4),
        ("---\na: b\n# A\n", "Open Front Matter", 1),
        ("# A\n## P\n```python\n@playbook\ndef f(:\n```\n", "Invalid Python", 5),
        ("# A\n## P\n```python\n\0\n```\n", "Invalid Python", 4),
        ("# A\n## P\n```python\n\n@playbook\ndef f(a, a):\n    pass\n```\n", "Invalid Python", 6),
        ("# A\n## P\n```python\ndef f():\n    a = 1\n    global a\n```\n", "Invalid Python", 6),
        ("# A\n## P\n```python\n@playbook\ndef f(*a): 1\n```\n", "Bad Signature", 5),
        ("# A\n## P\n```python\n@playbook(triggers=3)\ndef f(): 1\n```\n", "Bad Trigger", 5),
        ("# A\n## P\n```public.json\n[\n```\n", "Invalid JSON", 4),
        ("# A\n## P\n```public.json\n{}\n```\n", "Invalid JSON", 4),
        ('# A\n## P\n```public.json\n[{"name": "Q"}]\n```\n', "Unknown Playbook", 4),
        ("# A\n## P\n```python\n" + "x = 1\n" * 40_000 + "```\n", "Long Block", 4),
        ("x" * 5_000_001, "Long Program", 1),
        ("# A\n## P\n### Steps\n" + "".join("  " * n + "- EXE x\n" for n in range(24)), "Deep List", 23),
    ],
)
def test_a_fault_has_a_title_and_a_line(text, title, line):
    with pytest.raises(PlaybookError) as caught:
        read_program(text)
    assert (caught.value.title, caught.value.line) == (title, line)


PIECES = st.sampled_from(
    ["# A\n", "## P($x)\n", "### Steps\n", "### Notes\n", "### Triggers\n", "- 01:EXE x\n",
     "  - 01.01:QUE F($y)\n", "```\n", "```python\n", "@playbook\ndef f(a): return a\n", "---\n",
     "- T1:BGN x\n", "```public.json\n[]\n```\n", "* a\n", "\t- b\n", "<b>", "> q\n", "&#0;", "\\", "[x](y)",
     "|a|b|\n", "\x00", "é", "##\n", "#", "1. x\n", "\n"]
)  # fmt: skip


@given(st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=30).map("".join)))
def test_any_text_is_a_program_or_has_one_fault(text):
    found = None
    try:
        found = read_program(text).agents[0].line
    except PlaybookError as error:
        found = error.message and error.line
    assert found
    assert found >= 1


def test_a_call_is_read_only_where_one_stands():
    with pytest.raises(LiteralFault, match="is not a call"):
        LiteralReader("x").call()
