"""Advice for the user who runs the server, added to the server's own error message."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from stackmem.core.facts import ModelFailed

_LOADING = re.compile(r"loading (the )?model|model is (still )?(being )?load(ing|ed)|not (yet )?ready", re.IGNORECASE)
_NO_MODEL = re.compile(
    r"model\b.{0,200}?(not found|does not exist|is not (found|available|loaded|served))|"
    r"(no such|unknown|invalid|unsupported) model|model_not_found|no models? (is |are )?loaded",
    re.IGNORECASE | re.DOTALL,
)
_NO_TOOLS = re.compile(
    r"(do(es)?n.?o?t support|not support(ed|ing)?|requires?|unsupported|unrecognized|unknown|unexpected|extra)"
    r".{0,60}\b(tools?|tool_choice|function.?call(s|ing)?|--jinja|auto-tool-choice)\b|"
    r"\b(tools?|tool_choice|function.?call(s|ing)?)\b.{0,60}"
    r"(not support|unsupported|requires?|not permitted|not allowed|unrecognized|not enabled)",
    re.IGNORECASE | re.DOTALL,
)
_NAMES_SHOWN = 8
RETRY_LATER = "wait until it is ready"


def is_loading(status: int, text: str) -> bool:
    """Return whether an answer means that the server is still loading its model."""
    return status == 503 and _LOADING.search(text) is not None


def has_no_model(status: int, text: str) -> bool:
    """Return whether an answer means that the server does not serve this model."""
    return status in {400, 404, 422, 500} and _NO_MODEL.search(text) is not None


def takes_no_tools(status: int, text: str) -> bool:
    """Return whether an answer refuses a request because it contains tools."""
    return status in {400, 404, 422, 500, 501} and _NO_TOOLS.search(text) is not None


def advised(failure: ModelFailed, address: str, status: int, text: str, served: Callable[[], Iterable[str]]) -> str:
    """Return the failure's detail, with advice if there is any."""
    if is_loading(status, text):
        return f"{address} is still loading its model; {RETRY_LATER} ({failure.detail})"
    if takes_no_tools(status, text):
        return f"{failure.detail}; leave out --text-calls off, so that the tools can be described in the prompt"
    if has_no_model(status, text):
        names = sorted(served())
        listed = ", ".join(names[:_NAMES_SHOWN]) + (
            f" and {len(names) - _NAMES_SHOWN} more" if names[_NAMES_SHOWN:] else ""
        )
        way_out = f"it serves {listed}; name one of them with --model" if names else "load it there first"
        return f"{failure.detail}; {way_out}"
    return failure.detail
