"""Asks a person to fill in a form, question by question."""

from __future__ import annotations

import json
from typing import Any

from ..effects import AskUser
from .forms import Form, answered, shown
from .session import Doing, Ended

MOST_TRIES = 10


def ask_form(message: str, form: Form) -> Doing:
    """The answers as JSON, question's id to value; what was left empty is null.

    Raises:
        Ended: A question was not answered as it must be.

    """
    head = [message, *(text for text in (form.title, form.description) if text and text != message)]
    found: dict[str, Any] = {}
    for question in form.questions:
        asked = "\n".join([*head, shown(question, buttons=form.is_choice)])
        head = []
        for _ in range(MOST_TRIES):
            text: str = yield AskUser(asked)
            answer = answered(question, text)
            if not answer.fault:
                break
            asked = f"That does not do: {answer.fault}.\n{shown(question, buttons=form.is_choice)}"
        else:
            told = f"the question {question.id!r} had {MOST_TRIES} answers that do not do; the last: {answer.fault}"
            raise Ended("Invalid Answer", told)
        found[question.id] = answer.value
    return json.dumps(found, ensure_ascii=False)
