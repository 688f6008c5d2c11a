"""Checks an agent's messages against the protocol's published schema."""

import json
from functools import cache

from jsonschema import Draft202012Validator

from tests.stage import ROOT

SCHEMA = ROOT / "node_modules" / "@agentclientprotocol" / "sdk" / "schema" / "v1" / "schema.json"

UNSTABLE = {"session/fork"}
"""Methods that the library of Python has, and the published schema does not."""


class Wire:
    """Every message that an agent sent, with its schema violations."""

    def __init__(self) -> None:
        self.sent: list[dict] = []
        self.faults: list[str] = []
        self._asked: dict[object, str] = {}

    def ask(self, message: dict) -> None:
        """Send a message as the editor."""
        if "method" in message and message.get("id") is not None:
            self._asked[message["id"]] = message["method"]

    def check(self, message: dict) -> None:
        """Check a message of the agent; adds violations to ``faults``."""
        self.sent.append(message)
        if message.get("jsonrpc") != "2.0":
            self.faults.append(f"no version: {message}")
        if "method" in message:
            self._hold("Request" if "id" in message else "Notification", message["method"], message["params"])
        elif "error" in message:
            self._hold("Error", "", message["error"])
        elif message["id"] is not None and self._asked[message["id"]] not in UNSTABLE:
            self._hold("Response", self._asked[message["id"]], message["result"])

    def _hold(self, kind: str, method: str, value: object) -> None:
        for error in _validator(kind, method).iter_errors(value):
            self.faults.append(f"{method} {kind}: {error.json_path}: {error.message}")


@cache
def _schema() -> dict:
    return json.loads(SCHEMA.read_text(encoding="utf-8"))


@cache
def _validator(kind: str, method: str) -> Draft202012Validator:
    known = _schema()["$defs"]
    names = [name for name, each in known.items() if method and each.get("x-method") == method and name.endswith(kind)]
    (name,) = names or [kind]
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": known})
