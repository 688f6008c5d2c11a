"""Extract the replies of a model from recordings of the gateway, for the corpus of tests/providers/corpus.

    stackmem gateway --upstream http://127.0.0.1:8080 --port 8090 --runs-dir replies     # the address of the model
    python benchmarks/real_models.py --model openai/NAME --base-url http://127.0.0.1:8090/v1
    python scripts/reply_corpus.py replies --model qwen2.5-coder-1.5b >> tests/providers/corpus/replies.jsonl

A row contains the reply's text as the model wrote it, before any repair, and the names of the available tools. Its
`label` is empty: a person reads the reply and enters `call` (with the intended `name` and `arguments`), `answer` or
`unreadable`. Replies with a native call and repeated texts are left out.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stackmem.core.facts import ModelReplied
from stackmem.core.messages import Text, ToolCall
from stackmem.doors.gateway.exchanges import AnswerPassed, RequestPassed, read_exchanges
from stackmem.run.run_folder import EXCHANGES

_OWN_PATH = re.compile(r"/(?:tmp|home|root|Users|var)/(?:[^\s\"'\\]*/)?")
"""A local folder."""


def replies(exchanges: Path, model: str) -> Iterator[dict[str, Any]]:
    """Yield the replies without a native call in one recorded run."""
    tools: dict[int, list[str]] = {}
    conversations: dict[int, int] = {}
    for passed in read_exchanges(exchanges):
        match passed:
            case RequestPassed():
                conversations[passed.number] = passed.conversation
                if passed.tools:
                    tools[passed.conversation] = [tool.name for tool in passed.tools]
            case AnswerPassed(reply=ModelReplied(parts=parts, stop=stop)):
                text = "".join(part.text for part in parts if isinstance(part, Text))
                offered = tools.get(conversations.get(passed.number, -1), [])
                if text.strip() and offered and not any(isinstance(part, ToolCall) for part in parts):
                    yield row(model, text, offered, stop)


def row(model: str, text: str, tools: list[str], stop: str) -> dict[str, Any]:
    """Return a row of the corpus, without local paths."""
    return {"model": model, "tools": tools, "stop": stop, "text": _OWN_PATH.sub("/project/", text), "label": ""}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", type=Path, help="the gateway's --runs-dir")
    parser.add_argument("--model", required=True, help="the name of the model in the rows")
    given = parser.parse_args()
    seen: set[str] = set()
    for exchanges in sorted(given.runs.rglob(EXCHANGES)):
        for one in replies(exchanges, given.model):
            if one["text"] not in seen:
                seen.add(one["text"])
                print(json.dumps(one, ensure_ascii=False))
    if not seen:
        sys.exit(f"reply_corpus: no replies in {given.runs}; give the folder of the gateway's runs")


if __name__ == "__main__":
    main()
