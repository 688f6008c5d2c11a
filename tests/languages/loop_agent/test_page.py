"""Checks the loop agent's page: its examples run and print what the page says."""

import re
from pathlib import Path

from stackmem.languages.loop_agent.forms import TYPES
from stackmem.languages.loop_agent.prompt import prompt_params
from stackmem.languages.loop_agent.reader import ACTION_KEYS, AGENT_KEYS, EXPIRY_KEYS, LIMIT_KEYS, SUB_AGENT_KEYS
from tests.docs.test_pages import DOCS, environ, shell
from tests.house.test_docs import FENCE, read

PAGE = read(DOCS / "programs" / "loop.md")


def test_the_first_agent_does_what_the_page_says(tmp_path, home):
    blocks = [block["body"] for block in FENCE.finditer(PAGE)]
    for body in blocks:
        named = re.match(r"# ([\w.-]+)\n", body)
        if named:
            text = body if named[1].endswith(".yaml") else body[named.end() :]
            (tmp_path / named[1]).write_text(text, encoding="utf-8")
    shown = next(body for body in blocks if body.startswith("$ "))
    for number, (command, printed) in enumerate(re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", shown, re.M)):
        place = Path(home) / str(number)
        place.mkdir()
        ran = shell(command, tmp_path, environ(place))
        assert (ran.returncode, ran.stdout) == (0, printed), ran.stderr


def test_every_key_type_and_flag_is_named():
    words = set(re.findall(r"`([\w-]+)`", PAGE))
    keys = {*AGENT_KEYS, *ACTION_KEYS, *SUB_AGENT_KEYS, *LIMIT_KEYS, *EXPIRY_KEYS, *TYPES}
    params = prompt_params({})
    assert sorted({*keys, *params.types, *params.flags} - words - {"crushActionResults"}) == []
