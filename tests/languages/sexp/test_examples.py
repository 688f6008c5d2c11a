"""Runs each workflow of examples/sexp offline with its script; each one lints clean and can be replayed."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.stage import ROOT

EXAMPLES = ROOT / "examples" / "sexp"
SAYS = {
    "repair-loop": ["Tests pass after 2 rounds: Words are joined with one dash.", '+    return "-".join(title.lower()'],
    "count-words": ["notes/b-build.txt | 28 | Flaky test gets its clock", "notes/a-list.txt | 4 | short", "total 57"],
    "review-vote": ["reject - Callers that check a length now read one too far.", "approved"],
}  # fmt: skip
FLAGS = {"count-words": ["--input", "most:=10"]}


def run(stage, name: str, place: Path, *more: str):
    return stage.call("run", place, "--model", f"script:{place / 'script.yaml'}", *FLAGS.get(name, []), *more)


def test_every_example_is_known():
    assert sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir()) == sorted(SAYS)


@pytest.mark.parametrize("name", sorted(SAYS))
def test_an_example_runs_by_its_script_and_is_replayed(name, stage, tmp_path):
    place = shutil.copytree(EXAMPLES / name, tmp_path / name)
    ran = run(stage, name, place)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    patch = stage.only_run() / "changes.patch"
    shown = ran.stdout + (patch.read_text("utf-8") if patch.exists() else "")
    assert [text for text in SAYS[name] if text not in shown] == []
    replayed = stage.call("replay", stage.only_run())
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def test_the_examples_have_no_errors(stage):
    ran = stage.call("lint", *sorted(EXAMPLES.rglob("*.sexp")))
    assert ran.returncode == 0, ran.stdout
    assert {line.split()[2] for line in ran.stdout.splitlines()} <= {"sexp/unbound"}


def test_a_module_that_is_whole_is_left_alone(stage, tmp_path):
    place = shutil.copytree(EXAMPLES / "repair-loop", tmp_path / "repair-loop")
    (place / "slug.py").write_text("def slug(title):\n    return '-'.join(title.lower().split())\n", encoding="utf-8")
    ran = run(stage, "repair-loop", place)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[:2] == ["Nothing to repair.", "0"]


def test_an_outline_performs_nothing_and_names_the_input(stage, tmp_path):
    place = shutil.copytree(EXAMPLES / "count-words", tmp_path / "count-words")
    ran = stage.call("run", place, "--dry-run")
    assert ran.returncode == 0
    assert ran.stdout.splitlines()[-1] == "needs the input most"
    assert stage.call("run", place, "--input", "least=3").returncode == 2


def test_context_is_found_in_files_that_are_not_ignored(stage, tmp_path):
    place = tmp_path / "here"
    (place / "deep").mkdir(parents=True)
    for name, text in {
        "main.sexp": '(list (get_context (query "Zebra stripes"))'
        ' (get_context (query "zebra") (matching_strategy "metadata"))'
        ' (get_context (query "?!")) (get_context (query (string-append "xylo" "phone"))))',
        "deep/often.txt": "zebra stripes zebra stripes",
        "deep/once.txt": "one zebra among many other words that are not looked for at all",
        "zebra_notes.md": "nothing of interest",
        "secret.txt": "zebra stripes",
        ".gitignore": "secret.txt\n",
        "long.txt": "zebra " * 50_000,
    }.items():
        (place / name).write_text(text, encoding="utf-8")
    (place / "bytes.bin").write_bytes(b"zebra\0stripes")
    ran = stage.call("run", place, "--json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    content, metadata, empty, none = json.loads(ran.stdout.splitlines()[-1])["value"]
    assert content[0] == "deep/often.txt"
    assert sorted(content) == ["deep/often.txt", "deep/once.txt", "main.sexp"]
    assert metadata == ["zebra_notes.md"]
    assert empty == none == []
    assert stage.call("replay", stage.only_run()).returncode == 0


def talk(stage, typed: str, *words: object) -> list[str]:
    """Return the lines that a session prints for typed input."""
    session = stage.start("repl", *words, "--quiet", stdin=subprocess.PIPE)
    out, err = session.communicate(typed, timeout=100)
    assert session.returncode == 0, err
    return out.splitlines()


def test_a_session_is_a_run_that_is_replayed(stage, tmp_path):
    typed = "(define (double x)\n  (* 2 x))\n(double 21)\n(foo)\n(double it)\n"
    lines = talk(stage, typed, "--workspace", tmp_path)
    assert lines[:3] == ["double", "42", "Unbound symbol or unrecognized operator: foo"]
    assert lines[-1] == "84"
    assert stage.call("replay", stage.only_run()).returncode == 0


def test_a_session_begins_with_a_file_its_libraries_and_variables(stage, tmp_path):
    (tmp_path / "start.sexp").write_text("(bind three 3)", encoding="utf-8")
    (tmp_path / "lib.sexp").write_text("(define (triple x) (* 3 x))", encoding="utf-8")
    words = (tmp_path / "start.sexp", "--lib", tmp_path / "lib.sexp", "--input", "n:=5")
    elsewhere = tmp_path / "elsewhere.d"
    elsewhere.mkdir()
    (elsewhere / "here.sexp").write_text("(define here 9)", encoding="utf-8")
    words = (*words, "--workspace", elsewhere)
    far = tmp_path / "far"
    far.mkdir()
    (far / "far.sexp").write_text("(bind distance 7)", encoding="utf-8")
    words = (*words, "--lib", far / "far.sexp")
    assert talk(stage, "(list distance)\n", *words) == ["(7)"]
    assert talk(stage, '(load "here.sexp")\n(list here three)\n', *words) == ["here", "(9 3)"]
    assert talk(stage, "(list three (triple n))\n(exit)\n(never)\n", *words) == ["(3 15)"]


def test_bytes_that_are_no_text_are_typed_as_replacements_and_nothing_is_lost(stage, tmp_path):
    typed = tmp_path / "typed"
    typed.write_bytes(b'"\xff\xed\xa0\x80 \xc3\xa9"\n(+ 1 1)\n')
    for handling in ("strict", "surrogateescape"):  # Python uses the first if a locale is set, otherwise the second
        environment = {"PYTHONIOENCODING": f"utf-8:{handling}"}
        with typed.open("rb") as stdin:
            words = ("--quiet", "--workspace", tmp_path / handling)
            (tmp_path / handling).mkdir()
            session = stage.start("repl", *words, stdin=stdin, env=environment)
            out, err = session.communicate(timeout=100)
        assert (session.returncode, out.splitlines()) == (0, ['"\ufffd\ufffd\ufffd\ufffd é"', "2"]), err
    for run in stage.runs.iterdir():
        assert stage.call("replay", run).returncode == 0


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_session_with_a_stream_that_is_closed_ends_without_a_traceback(closed, stage, tmp_path):
    words = ("repl", "--quiet", "--workspace", tmp_path)
    session = stage.start(*words, stdin=subprocess.PIPE, preexec_fn=lambda: os.close(closed))
    out, err = session.communicate("(+ 1 1)\n" if closed else None, timeout=100)
    assert "Traceback" not in err
    assert session.returncode == 0, err  # a closed standard input counts as empty
    assert out == ("2\n" if closed == 2 else "")


def test_the_screen_shows_each_reply_in_the_block_that_it_belongs_to(stage, tmp_path):
    typed = '(output_format ((schema "{\\"required\\": [\\"n\\"]}")))'
    place = tmp_path / "here"
    place.mkdir()
    (place / "main.sexp").write_text(
        f'(defatom agent (params) (instructions "work") {typed})\n'
        f'(defatom judge (params) (instructions "judge") (subtype "evaluator") {typed})\n'
        '(system_write_file (file_path "new.txt") (content "a"))\n(agent)\n(judge)\n(agent)\n',
        encoding="utf-8",
    )
    pop = "  - {call: pop_frame, args: {result: '{\"n\": 1}'}}\n"
    (place / "script.yaml").write_text(
        "replies:\n  - {call: pop_frame, args: {result: '{}'}}\n" + pop
        + "  - text: '{}'\n  - {text: '{\"n\": 2}', expect: {contains: '{\"required\":[\"n\"]}'}}\n" + pop,
        encoding="utf-8",
    )  # fmt: skip
    ran = stage.call("run", place, "--model", f"script:{place / 'script.yaml'}")
    assert ran.returncode == 0, ran.stderr
    lines = [" ".join(line.split()) for line in ran.stderr.splitlines() if line.strip()]
    begun = next(number for number, line in enumerate(lines) if line.startswith("main.sexp:"))
    assert [re.sub(r"(pop_frame \{\}).*", r"\1", line) for line in lines][begun:-1] == [
        "main.sexp:3:1 system_write_file", "main.sexp:3:1 done",
        "main.sexp:4:1 agent", "-> frame-1", "R0 work", "1 refused pop_frame {}", '2 pop_frame {"n": 1}', '{"n": 1}',
        "main.sexp:4:1 done", "main.sexp:5:1 judge", "refused judge: $.n is missing", '{"n": 2}', "main.sexp:5:1 done",
        "main.sexp:6:1 agent", "-> frame-3", "R0 work", '5 pop_frame {"n": 1}', '{"n": 1}', "main.sexp:6:1 done",
    ]  # fmt: skip
