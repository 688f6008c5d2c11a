"""Compiling, linting, outlines and announcements."""

import pytest

from stackmem.core.requests import LoadSource
from stackmem.languages.language import read_with
from stackmem.languages.operations import Source
from stackmem.languages.playbook.compiler import compiled_path, digest_of, header
from stackmem.languages.playbook.language import LANGUAGE

from .stage import launch, one, run

PLAIN = "# A\n## Greet($name)\n### Steps\n- Say hello to $name\n- Return\n"
CODED = "# A\n## Greet($name)\n### Steps\n- 01:QUE Say(hello to $name)\n- 02:RET\n"
GREETS = '`Step["Greet:01"]` `Say("Hello")`\n`Step["Greet:02"]` `Return[$name]`'


def test_plain_sentences_are_compiled_by_the_model_once():
    play = run(PLAIN, f"```md\n{CODED}```", GREETS, inputs={"name": "Ada"})
    assert play.value == "Ada"
    assert play.said == ["Hello"]
    assert play.asked[0].messages[0].parts[0].text == PLAIN
    kept = {"main.pbasm": header(PLAIN) + CODED}
    again = run(PLAIN, GREETS, inputs={"name": "Ada"}, sources=kept)
    assert (again.value, len(again.asked)) == ("Ada", 1)
    stale = run(PLAIN, CODED, GREETS, inputs={"name": "Ada"}, sources={"main.pbasm": header("other") + CODED})
    assert len(stale.asked) == 2


def test_compiling_gives_the_text_and_runs_nothing():
    play = run(PLAIN, CODED, compile=True)
    assert play.value == header(PLAIN) + CODED
    assert digest_of(PLAIN) in play.value
    assert run(CODED, compile=True).value == CODED


def test_an_answer_that_is_no_coded_program_is_asked_for_again_and_bounded():
    play = run(PLAIN, "Sure!", PLAIN, CODED, compile=True)
    assert play.value.endswith(CODED)
    assert "Missing H1 header" in play.asked[1].messages[0].parts[0].text
    assert "have no codes" in play.asked[2].messages[0].parts[0].text
    assert "3 answers were not coded programs" in run(PLAIN, "a", "b", "c", inputs={"name": "x"}).report


@pytest.mark.parametrize(
    ("path", "kept"), [("/a/b.pb", "b.pbasm"), ("x.playbook.md", "x.pbasm"), ("y.txt", "y.txt.pbasm")]
)
def test_the_compiled_form_lies_beside_the_program(path, kept):
    assert compiled_path(path) == kept


def lint(text: str) -> list[tuple[int, str]]:
    found = read_with(LANGUAGE.lint("main.pb", text), lambda _: Source(""))
    return [(each.line, f"{each.severity} {each.code.removeprefix('playbook/')}") for each in found]


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        (("- 01:QUE Say(hi)", "- 02:RET"), []),
        (("- 01:QUE Nope()", "- 02:YLD call", "- 03:RET"), [(4, "error unknown-playbook")]),
        (("- 01:QUE $r = F(1)", "- 02:YLD call", "- 03:RET $r"), []),
        (("- 01:QUE F(1, 2)", "- 02:YLD call"), [(4, "error argument-mismatch")]),
        (("- 01:QUE F(y=2)", "- 02:YLD call"), [(4, "error argument-mismatch")]),
        (("- 01:QUE F(the user's number)", "- 02:YLD call"), []),
        (("- 01:QUE F(1)", "- 02:EXE x"), [(4, "warning queue-without-yield")]),
        (("- 01:QUE F(1)",), [(4, "warning queue-without-yield")]),
        (("- 01:EXE x", "- 02:JMP 07", "- 03:RET"), [(5, "error unknown-line"), (6, "warning unreachable-line")]),
        (("- 01:CHK N1", "- 02:RET"), [(4, "error unknown-note")]),
        (("- 01:RET", "- 02:EXE x"), [(5, "warning unreachable-line")]),
        (("- 01:RET $zzz",), [(4, "warning unknown-variable")]),
        (("- 01:CND For each $item in $list", "  - 01.01:QUE Say($item)", "- 02:RET"), []),
        (("- 01:FOO",), [(4, "error unknown-code")]),
    ],
)
def test_the_linter_finds(steps, found):
    assert lint(one(*steps, more="## F($x)\n### Steps\n- 01:RET $x")) == found


def test_a_whole_program_lints_clean():
    steps = "- 01:QUE $r = f($p)\n- 02:YLD call\n- 03:CHK N1\n- 04:RET $r\n### Notes\n- N1 x\n"
    text = f"# A\n```python\n@playbook\ndef f(a): return a\n```\n## P($p)\n### Steps\n{steps}"
    assert lint(text) == []


def test_blocks_that_are_python_each_and_not_together_are_a_finding():
    text = "# A\n```python\nx = 1\n```\n```python\nglobal x\n```\n## P\n### Steps\n- 01:RET"
    assert lint(text) == [(6, "error invalid-python")]


def outline(text: str, sources: dict[str, str] | None = None, **options) -> list[str]:
    kept = sources or {}

    def load(asked: LoadSource) -> Source:
        return Source(asked.path, kept.get(asked.path, ""), failed="" if asked.path in kept else "No such file")

    return list(read_with(LANGUAGE.outline(launch(text, **options)), load))


def test_the_outline_names_what_starts_and_every_line():
    book = "## public: P\n### Triggers\n- T1:BGN first\n### Steps\n- 01:CND If\n  - 01.01:RET\n"
    text = f"# A\n```python\n@playbook\ndef f(a): return a\n```\n{book}"
    assert outline(text) == [
        "starts with: A.P",
        "A:",
        "  f($a) (Python)",
        "  P() (public)",
        "    T1:BGN first",
        "    01:CND If",
        "      01.01:RET",
    ]


def test_the_outline_of_a_plain_program_says_whether_it_is_compiled():
    assert outline(PLAIN, inputs={"name": "x"})[1] == "to be compiled by the model before it starts: Greet (steps)"
    compiled = outline(PLAIN, {"main.pbasm": header(PLAIN) + CODED}, inputs={"name": "x"})
    assert "    01:QUE Say(hello to $name)" in compiled
    assert outline(PLAIN, compile=True)[0] == "to be compiled by the model before it starts: Greet (steps)"


def test_a_person_reads_frames_lines_values_and_what_went_wrong(tmp_path):
    from stackmem.core.program_facts import UserAnswered

    text = "# A\n```python\n@playbook\ndef f(a): return a\n```\n## P\n### Steps\n- 01:QUE\n- 02:YLD user\n- 03:RET\n"
    play = run(
        text,
        '`Step["P:01"]` `$r = f("abc")` `Nope()`\nyld call',
        '`Step["P:01"]` `$r = f("abc")`\nyld call',
        '`Step["P:02"]` yld user',
        '`Step["P:03"]` `Return[$r]`',
        user=("hi",),
        folder=tmp_path,
    )
    announce = LANGUAGE.announcer()
    lines = [line for each in play.done.happened for line in announce(each)]
    assert lines == [
        "▶ P: P()",
        "  P:01 QUE",
        "    what? unknown playbook Nope; known: f, P, Say, SaveArtifact, LoadArtifact, SendMessage, "
        "WaitForMessage (at 'Nope()')",
        "  P:01 QUE",
        "  ▶ f: f($a)",
        "      runs Python",
        "  ◀ returned",
        "    $r (text, 3)",
        "  P:02 YLD user",
        "  P:03 RET",
        '◀ P() returned "abc".',
    ]
    assert announce(UserAnswered("hi")) == ("  the user said 'hi'",)
