"""Sessions of Claude Code, made by hand: the visible turns are short, and usage contains prompt and tools as well."""

import json
from datetime import UTC, datetime, timedelta

START = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
HIDDEN = 41_000
"""Tokens of the prompt and tools, which sessions do not contain."""


class ClaudeSession:
    """Writes lines with growing usage, as the provider counts them."""

    def __init__(self, name="s1", hidden=HIDDEN, life="5m", model="claude-sonnet-4-5", chars_per_token=3.0, warm=0):
        self.name, self.life, self.model, self._per_token = name, life, model, chars_per_token
        self._hidden, self._tokens, self._cached, self._replies = hidden, hidden, warm, 0
        self.at, self.lines = START, []

    def wait(self, seconds):
        self.at += timedelta(seconds=seconds)
        return self

    def user(self, text, **more):
        self._line("user", {"role": "user", "content": text}, **more)
        self._tokens += self._count(text)
        return self

    def step(self, command, output, thought=""):
        """A reply with one call, and its result."""
        call_id = f"toolu_{self.name}_{self._replies}"
        blocks = [{"type": "thinking", "thinking": thought, "signature": "x"}] if thought else []
        blocks.append({"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": command}})
        self._reply(blocks, command + thought, "tool_use")
        self.wait(2)
        answer = {"type": "tool_result", "tool_use_id": call_id, "content": output}
        self._line("user", {"role": "user", "content": [answer]})
        self._tokens += self._count(output)
        return self

    def end(self, text="Done."):
        self._reply([{"type": "text", "text": text}], text, "end_turn")
        return self

    def compact(self, summary):
        """A compaction that happened: its mark, and the summary that begins the rest."""
        self._line("system", None, subtype="compact_boundary", content="Conversation compacted")
        self._tokens, self._cached = self._hidden, 0
        return self.user(summary, isCompactSummary=True)

    def text(self):
        return "\n".join(map(json.dumps, self.lines)) + "\n"

    def _reply(self, blocks, text, stop):
        self.wait(6)
        self._replies += 1
        output, written = self._count(text), self._tokens - self._cached
        usage = {
            "input_tokens": 0, "output_tokens": output, "cache_read_input_tokens": self._cached,
            "cache_creation_input_tokens": written,
            "cache_creation": {f"ephemeral_{self.life}_input_tokens": written},
        }  # fmt: skip
        message = {"id": f"msg_{self.name}_{self._replies}", "role": "assistant", "model": self.model,
                   "content": blocks, "stop_reason": stop, "usage": usage}  # fmt: skip
        self._cached = self._tokens
        self._tokens += output
        self._line("assistant", message)

    def _line(self, kind, message, **more):
        stamp = self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        parent = self.lines[-1]["uuid"] if self.lines else None
        own = f"{self.name}-{len(self.lines)}"
        line = {"type": kind, "uuid": own, "parentUuid": parent, "sessionId": self.name, "timestamp": stamp}
        self.lines.append({**line, **({"message": message} if message else {}), **more})

    def _count(self, text):
        return round(len(text) / self._per_token)


def working(name="s1", steps=12, size=2_000, pause=0, **more):
    """A session that reads files and uses what it read much later; ``pause`` seconds before every fourth step."""
    session = ClaudeSession(name, **more).user("Mend the totals.")
    for number in range(steps):
        if pause and number % 4 == 3:
            session.wait(pause)
        seen = f"see src/part_{number:03}.py\n" + f"line {number} of the file\n" * (size // 22)
        session.step(f"cat src/part_{max(0, number - 11):03}.py" if number else "ls src", seen)
    return session.end()
