"""While a reply streams, text that may become a call is held back; answers appear as they arrive."""

import random

import pytest

from stackmem.core.messages import ToolCall
from stackmem.models.asked import Asked
from stackmem.models.registry import open_model
from stackmem.models.spoken import listening
from stackmem.providers.calls.held_words import HeldWords
from stackmem.providers.calls.reader import find_calls
from tests.models.test_asked import asked_of

from .chat_server import ChatServer, chunks
from .test_call_reader import ANSWERS, BROKEN, FORMS, TOOLS

CODE = """A dictionary maps keys to values:

```python
ages = {"Ann": 3, "Bob": 4}
for name, age in ages.items():
    print(f"{name} is {age}" if age < 4 else [name])
```

Read it with `ages["Ann"]`, or look at <https://docs.example> and [this list](#list).
"""


def streamed(text: str, size: int) -> str:
    held = HeldWords(TOOLS)
    return "".join(held.pass_on(text[place : place + size]) for place in range(0, len(text), size))


@pytest.mark.parametrize("size", [1, 3, 7, 10_000])
@pytest.mark.parametrize("text", [*FORMS.values(), *BROKEN.values()], ids=[*FORMS, *BROKEN])
def test_nothing_of_a_call_is_shown_while_it_streams(text: str, size: int):
    for before in ("", "I write the file now.\n\n"):
        shown = streamed(before + text, size)
        found = find_calls(before + text, TOOLS, answers=True)
        if found is None:  # a call between words is a quotation
            assert before
            continue
        assert (before + text).startswith(shown)
        assert "content" not in shown
        assert '"' not in shown
        assert len(shown.strip()) <= len(found.text) + len("Action: write_file\nAction Input:")


@pytest.mark.parametrize("size", [1, 4, 10_000])
def test_an_answer_without_calls_is_shown_while_it_streams(size: int):
    shown = streamed(CODE, size)
    assert CODE.startswith(shown)
    assert len(CODE) - len(shown) <= 10  # the last piece, which comes with the whole reply


def test_words_flow_without_delay():
    held = HeldWords(TOOLS)
    assert held.pass_on("The project ") == "The project "
    assert held.pass_on("has a < b and ") == "has a < b and "
    assert held.pass_on("reads files") == "reads files"
    assert held.pass_on(' as {"data": 1') == " as "
    assert held.pass_on("} by read_") == '{"data": 1} by '
    assert held.pass_on("file, ") == "read_file, "


@pytest.mark.parametrize("text", ANSWERS.values(), ids=ANSWERS)
def test_what_is_shown_of_an_answer_is_how_it_begins(text: str):
    assert all(text.startswith(streamed(text, size)) for size in (1, 5, 10_000))


def test_any_text_is_shown_in_its_order_and_never_twice():
    pick = random.Random(3)
    pieces = ["{", "}", "[", "]", "<", ">", "`", "```", "\n", "write_file", "write_", "(", '"', "a ", ": ", "tool_call"]
    for _ in range(500):
        text = "".join(pick.choices(pieces, k=30))
        assert text.startswith(streamed(text, pick.randrange(1, 6)))


def test_what_is_held_is_looked_at_a_few_times_only(monkeypatch: pytest.MonkeyPatch):
    looks: list[int] = []
    monkeypatch.setattr(HeldWords, "_count", lambda _: looks.append(1) or 0)
    held = HeldWords(TOOLS)
    assert "".join(held.pass_on('{"a": {}} '[number % 10]) for number in range(50_000)) == ""
    assert len(looks) < 200


def test_who_listens_to_a_served_model_hears_its_words_and_no_call():
    pieces = ["I read ", "it.\n```json\n", '{"name": "read_', 'file", "arguments": {"path": "a"}}', "\n```"]
    said = chunks(*({"content": piece} for piece in pieces))
    heard: dict[str, list[str]] = {}
    for text_calls in ("auto", "off"):
        with ChatServer(said) as server, listening(heard.setdefault(text_calls, []).append):
            asked = Asked(text_calls=text_calls)
            reply = open_model("openai/m", {}, base_url=server.url, asked=asked).reply(asked_of("any"))
        assert isinstance(reply.parts[-1], ToolCall) == (text_calls == "auto")
    assert "".join(heard["auto"]) == "I read it.\n"
    assert heard["off"] == pieces
