"""Asks a person to fill in a form, question by question."""

from __future__ import annotations

import json
from typing import Any

from stackmem.languages.effects import AskUser

from .forms import Form, Question, answered, shown
from .session import Doing, Ended

MOST_TRIES = 10


def ask_form(message: str, form: Form) -> Doing:
    """The answers as JSON, question's id to value; what was left empty is null.

    An answer that is an object of questions' ids answers all that is left of the form: what it leaves out is empty.

    Raises:
        Ended: A question was not answered as it must be.

    """
    head = [message, *(text for text in (form.title, form.description) if text and text != message)]
    found: dict[str, Any] = {}
    given: dict[str, str] = {}
    for place, question in enumerate(form.questions):
        fault = ""
        for _ in range(MOST_TRIES):
            if question.id not in given:
                text: str = yield AskUser("\n".join([*head, shown(question, buttons=form.is_choice)]))
                given = _by_id(text, form.questions[place:]) or {**given, question.id: text}
            answer = answered(question, given.pop(question.id))
            fault = answer.fault
            if not fault:
                break
            head = [f"That does not do: {fault}."]
        else:
            told = f"the question {question.id!r} had {MOST_TRIES} answers that do not do; the last: {fault}"
            raise Ended("Invalid Answer", told)
        head = []
        found[question.id] = answer.value
    return json.dumps(found, ensure_ascii=False)


def _by_id(text: str, questions: tuple[Question, ...]) -> dict[str, str]:
    """The answer to each question in an object of some questions' ids; empty where the text is anything else."""
    if not text.lstrip().startswith("{"):
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    left = dict.fromkeys((question.id for question in questions), "")
    if not value or not value.keys() <= left.keys():
        return {}
    texts = {
        name: each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for name, each in value.items()
    }
    return {**left, **texts}
