"""Plays a playbook program in memory: texts are the model's replies, and a list contains the user's answers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from msgspec import Struct

from stackmem.core.requests import AskUser, InvokeTool
from stackmem.languages import playbook
from stackmem.languages.language import Launch
from stackmem.languages.operations import Complete, Completion, ToolAnswer
from stackmem.languages.playbook.language import LANGUAGE
from tests.languages.in_memory import Done, run_in_memory

PACKAGED = {
    f"stackmem:playbook/{name}": (Path(playbook.__file__).parent / name).read_text("utf-8")
    for name in ("contract.md", "compile.md")
}


class Play(Struct):
    """The outcome of a program.

    Attributes:
        asked: Every completion, in order.
        done: Value, halt, effects and notes.
    """

    done: Done
    asked: list[Complete]
    files: dict[str, str]

    @property
    def value(self) -> Any:
        assert self.done.halted is None, self.done.halted.report
        return self.done.value

    @property
    def said(self) -> list[str]:
        return self.done.said

    @property
    def report(self) -> str:
        assert self.done.halted is not None, self.done.value
        return self.done.halted.report

    def tail(self, index: int) -> str:
        """Return the part of a prompt that changes every time."""
        return self.asked[index].messages[0].parts[-1].text

    def instruction(self, index: int) -> str:
        return self.tail(index).rpartition("```\n\n")[2]

    def whole(self, index: int) -> str:
        return self.asked[index].system + "".join(part.text for part in self.asked[index].messages[0].parts)


class Desk:
    """Answers a program's operations."""

    def __init__(self, replies: Any, user: tuple[str, ...] = (), folder: Path | None = None) -> None:
        self._replies = iter(replies)
        self._user = list(user)
        self._folder = folder
        self.asked: list[Complete] = []
        self.files: dict[str, str] = {}
        self.refused: set[str] = set()

    def answer(self, effect: Any) -> Any:
        match effect:
            case Complete():
                self.asked.append(effect)
                reply = next(self._replies)
                return reply if isinstance(reply, Completion) else Completion(reply)
            case AskUser():
                return self._user.pop(0)
            case InvokeTool(tool="write_file"):
                path, text = effect.arguments["path"], effect.arguments["content"]
                if path in self.refused:
                    return ToolAnswer(None, "refused", "no room")
                self.files[path] = text
                return ToolAnswer()
            case InvokeTool(tool="read_file"):
                text = self.files.get(effect.arguments["path"])
                return ToolAnswer(None, "missing", "it does not exist") if text is None else ToolAnswer(text)
            case InvokeTool(tool="run_python"):
                return self._python(effect.arguments)
        raise AssertionError(effect)

    def _python(self, given: dict[str, Any]) -> ToolAnswer:
        """Start the function again with all answers so far, until it makes another request or ends."""
        assert self._folder is not None
        place = self._folder / given["folder"]
        place.mkdir(parents=True, exist_ok=True)
        answers = given["answers"]
        told = {"run.py": given["program"], "order.json": given["order"]}
        told |= {f"answer-{number}.json": json.dumps(answer) for number, answer in enumerate(answers)}
        for name, text in told.items():
            (place / name).write_text(text, encoding="utf-8")
        asks = place / f"ask-{len(answers)}.json"
        command = [sys.executable, str(place / "run.py"), str(place)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while process.poll() is None and not asks.exists():
            time.sleep(0.01)
        if asks.exists():
            process.kill()
            process.communicate()
            return ToolAnswer(json.loads(asks.read_text("utf-8")))
        out, err = process.communicate()
        failed = "exit" if process.returncode else ""
        value = {"stdout": out, "stderr": err, "exit_code": process.returncode}
        return ToolAnswer(value, failed, f"exit {process.returncode}" if failed else "")


def launch(text: str, **options: Any) -> Launch:
    inputs = options.pop("inputs", {})
    return Launch("/p/main.pb", text, inputs, "/p", "/p", options)


def run(
    text: str,
    *replies: Any,
    user: tuple[str, ...] = (),
    folder: Path | None = None,
    sources: dict[str, str] | None = None,
    desk: Desk | None = None,
    **options: Any,
) -> Play:
    """Play a program with these replies of the model."""
    desk = desk or Desk(replies, user, folder)
    done = run_in_memory(LANGUAGE.start(launch(text, **options)), desk.answer, {**PACKAGED, **(sources or {})})
    return Play(done, desk.asked, desk.files)


def one(*steps: str, head: str = "P()", more: str = "") -> str:
    """Return a program with one agent and one playbook of these steps."""
    return f"# A\n## {head}\n### Steps\n" + "\n".join(steps) + f"\n{more}\n"
