"""Forms that a model asks the user to fill in: parsing, display as text, and checking of answers.

An answer is a text, typed in the terminal or from an answers file, where a list or object becomes JSON. A form that no
answer could satisfy, such as one whose minimum is above its maximum, is rejected.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.requests import AskUser
from stackmem.languages.operations import Routine

from ..frame.bounds import TEXT_CHARS
from .reply_json import Misfit, count, json_value, member, required_member
from .session import AgentEnded

TYPES = (
    "text", "textarea", "email", "number", "currency", "date", "datetime", "time", "daterange", "slider",
    "buttongroup", "radio", "dropdown", "checkbox",
)  # fmt: skip
_CHOICES = ("buttongroup", "radio", "dropdown", "checkbox")
_NUMBERS = ("number", "currency", "slider")
_WIDTHS = ("narrow", "medium", "wide", "full", "auto")
_WORDS = ("prefix", "suffix", "placeholder")
_MAX_QUESTIONS = 100
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(:[0-5]\d)?")
_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s.]+(\.[^@\s.]+)+")
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class FormOption(Struct, frozen=True):
    value: Any
    label: str


class FormQuestion(Struct, frozen=True):
    """One question."""

    id: str
    label: str
    type: str  # one of ``TYPES``
    more: dict[str, Any] = {}  # members of the question's type, such as ``min`` and ``maxLength``
    options: tuple[FormOption, ...] = ()
    multiple: bool = False  # whether several options may be chosen
    required: bool = False
    default: Any = None
    help: str = ""


class ResponseForm(Struct, frozen=True):
    """A form."""

    questions: tuple[FormQuestion, ...]
    title: str = ""
    description: str = ""
    submit: str = "Submit"  # label of the submit button

    @property
    def says(self) -> str:
        """Message used if the response has none."""
        return self.title or self.questions[0].label

    @property
    def is_choice(self) -> bool:
        """Whether the form is a single question, without a title, that is answered by choosing a button."""
        return len(self.questions) == 1 and not self.title and self.questions[0].type in ("buttongroup", "radio")


def read_form(value: Any) -> ResponseForm:
    """Parse a form. Raise Misfit if a part does not fit."""
    location = "responseForm"
    if not isinstance(value, dict):
        raise Misfit(f"{location} must be an object")
    questions = member(value, "questions", list, location, [])
    if not 0 < len(questions) <= _MAX_QUESTIONS:
        raise Misfit(f"{location}.questions must hold 1 to {_MAX_QUESTIONS} questions")
    parsed = tuple(_question(each, f"{location}.questions[{index}]") for index, each in enumerate(questions))
    if len({question.id for question in parsed}) < len(parsed):
        raise Misfit(f"{location}.questions: two have the same id")
    return ResponseForm(
        parsed,
        member(value, "title", str, location, ""),
        member(value, "description", str, location, ""),
        member(value, "submitLabel", str, location, "Submit"),
    )


def _question(value: Any, location: str) -> FormQuestion:
    if not isinstance(value, dict):
        raise Misfit(f"{location} must be an object")
    type_ = value.get("type")
    type_ = {"type": type_} if isinstance(type_, str) else type_
    if not isinstance(type_, dict):
        raise Misfit(f"{location}.type must be an object with a type")
    kind = required_member(type_, "type", str, f"{location}.type").lower()
    if kind not in TYPES:
        raise Misfit(f"{location}.type.type must be one of {', '.join(TYPES)}, is {kind[:80]!r}")
    width = member(value, "widthHint", str, location, "auto")
    if width not in _WIDTHS:
        raise Misfit(f"{location}.widthHint must be one of {', '.join(_WIDTHS)}")
    question = FormQuestion(
        id=required_member(value, "id", str, location),
        label=required_member(value, "label", str, location),
        type=kind,
        more=_members(type_, f"{location}.type"),
        options=_options(type_, f"{location}.type") if kind in _CHOICES else (),
        multiple=kind in _CHOICES and member(type_, "multiple", bool, f"{location}.type", default=kind == "checkbox"),
        required=member(value, "required", bool, location, default=False),
        help=member(value, "helpText", str, location, ""),
    )
    return replace(question, default=_default(question, value.get("defaultValue"), location))


def _members(type_: dict[str, Any], location: str) -> dict[str, Any]:
    """Read the members of the question's type that are present."""
    more = {name: member(type_, name, str, location, "") for name in _WORDS}
    more["maxLength"] = count(type_, "maxLength", location, 0, 0, TEXT_CHARS)
    members = {name: value for name, value in more.items() if value}
    for name in ("min", "max", "step"):
        if member(type_, name, float, location, None) is not None:
            members[name] = type_[name]
    if members.get("min", -math.inf) > members.get("max", math.inf):
        raise Misfit(f"{location}.min is above max, so that no answer fits")
    if members.get("step", 1) <= 0:
        raise Misfit(f"{location}.step must be above 0")
    return members


def _default(question: FormQuestion, raw: Any, location: str) -> Any:
    """Read the value of an empty answer, which must be a valid answer itself. None without a default."""
    if raw is None or raw in ("", []):
        return None
    answer = read_answer(question, raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False))
    if answer.fault:
        raise Misfit(f"{location}.defaultValue does not fit: {answer.fault}")
    return answer.value


def _options(type_: dict[str, Any], location: str) -> tuple[FormOption, ...]:
    options = member(type_, "options", list, location, [])
    if not options:
        raise Misfit(f"{location}.options must hold at least one option")
    parsed = []
    for index, each in enumerate(options):
        option = each if isinstance(each, dict) else {"value": each, "label": each}
        if option.get("value") is None:
            raise Misfit(f"{location}.options[{index}].value is missing")
        parsed.append(FormOption(option["value"], str(option.get("label") or option["value"])))
    return tuple(parsed)


def question_text(question: FormQuestion, *, buttons: bool = False) -> str:
    """Format a question for the user. ``buttons`` lists the options on one line, like buttons."""
    lines = [question.label + (" *" if question.required else "")]
    if question.help:
        lines.append(question.help)
    if buttons:
        lines.append("  ".join(f"[{number}] {option.label}" for number, option in enumerate(question.options, 1)))
    else:
        lines += [f"  {number}. {option.label}" for number, option in enumerate(question.options, 1)]
    if not buttons or question.multiple or question.default is not None:
        lines.append(f"({_hint(question)})")
    return "\n".join(lines)


def _hint(question: FormQuestion) -> str:
    more = question.more
    text = {
        "date": "YYYY-MM-DD", "datetime": "YYYY-MM-DD HH:MM", "time": "HH:MM", "daterange": "YYYY-MM-DD to YYYY-MM-DD",
        "email": "an e-mail address", "textarea": "text", "text": "text",
    }.get(question.type, "a number")  # fmt: skip
    if question.options:
        text = "numbers or values, separated by commas" if question.multiple else "a number or a value"
    parts = [f"{more.get('prefix', '')}{text}{more.get('suffix', '')}"]
    parts += [f"{name} {more[name]}" for name in ("min", "max", "step", "maxLength") if name in more]
    if "placeholder" in more:
        parts.append(f"such as {more['placeholder']}")
    if question.default is not None:
        parts.append(f"empty: {json.dumps(question.default, ensure_ascii=False)}")
    elif not question.required:
        parts.append("may be empty")
    return "; ".join(parts)


class FormAnswer(Struct, frozen=True):
    """The value of an answer, or its fault. None without a fault means unanswered."""

    value: Any = None
    fault: str = ""


def read_answer(question: FormQuestion, text: str) -> FormAnswer:
    """Parse the answer to a question."""
    plain = text.strip()
    if plain in ("", "null", "[]"):
        if question.default is not None:
            return FormAnswer(question.default)
        return FormAnswer(fault="an answer is needed") if question.required else FormAnswer()
    match question.type:
        case kind if kind in _CHOICES:
            return _read_choice(question, plain)
        case kind if kind in _NUMBERS:
            return _number(question, plain)
        case "text" | "textarea" | "email":
            return _text(question, text.rstrip("\n"))
        case _:
            return _moment(question.type, plain)


def _text(question: FormQuestion, text: str) -> FormAnswer:
    most = question.more.get("maxLength")
    if isinstance(most, int) and len(text) > most:
        return FormAnswer(fault=f"it has {len(text):,} characters, at most {most:,}")
    if question.type == "email" and not _EMAIL.fullmatch(text.strip()):
        return FormAnswer(fault=f"{text.strip()[:80]!r} is not an e-mail address")
    return FormAnswer(text.strip() if question.type == "email" else text)


def _number(question: FormQuestion, text: str) -> FormAnswer:
    more = question.more
    bare = text.removeprefix(str(more.get("prefix", ""))).removesuffix(str(more.get("suffix", ""))).strip()
    try:
        number = float(bare.replace(",", ""))
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or "_" in bare:
        return FormAnswer(fault=f"{text[:80]!r} is not a number")
    least, most = more.get("min", -math.inf), more.get("max", math.inf)
    if not least <= number <= most:
        return FormAnswer(fault=f"it must be from {least} to {most}")
    step = more.get("step", 1 if question.type == "slider" else 0)
    start = least if math.isfinite(least) else 0
    if step and question.type == "slider" and abs((number - start) / step - round((number - start) / step)) > 1e-9:
        return FormAnswer(fault=f"it must go in steps of {step}")
    return FormAnswer(int(number) if number.is_integer() and abs(number) < 2**53 else number)


def _read_choice(question: FormQuestion, text: str) -> FormAnswer:
    words: list[Any] = [text]
    is_option = _option(question.options, text) is not None
    if text.startswith("[") and not is_option:
        items = json_value(text)
        if items is None:
            return FormAnswer(fault="it is not a list of values")
        words = items
        if not words:
            return read_answer(question, "")
        if len(words) != 1 and not question.multiple:
            return FormAnswer(fault="one value is wanted")
    elif question.multiple and not is_option:
        words = [word.strip() for word in text.split(",")]
    values = []
    for word in words:
        option = _option(question.options, word)
        if option is None:
            allowed = ", ".join(str(each.value) for each in question.options)
            return FormAnswer(fault=f"{str(word)[:80]!r} is none of: {allowed}")
        if option.value not in values:
            values.append(option.value)
    return FormAnswer(values if question.multiple else values[0])


def _option(options: tuple[FormOption, ...], word: Any) -> FormOption | None:
    """Find an option by its value, label, or displayed number."""
    text = str(word).strip().lower()
    for key in ("value", "label"):
        for option in options:
            if str(getattr(option, key)).strip().lower() == text:
                return option
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0
    return options[number - 1] if 0 < number <= len(options) else None


def _moment(kind: str, text: str) -> FormAnswer:
    match kind:
        case "date":
            fits = _is_date(text)
        case "time":
            fits = bool(_TIME.fullmatch(text))
        case "datetime":
            day, _, hour = text.replace("T", " ").partition(" ")
            fits = _is_date(day) and bool(_TIME.fullmatch(hour.strip()))
        case _:
            return _range(text)
    return FormAnswer(text) if fits else FormAnswer(fault=f"{text[:80]!r} is not a valid {kind}")


def _range(text: str) -> FormAnswer:
    days = [match[0] for match in _DATE.finditer(text)]
    if len(days) != 2 or not all(map(_is_date, days)):
        return FormAnswer(fault=f"{text[:80]!r} is not a range of two dates")
    if days[0] > days[1]:
        return FormAnswer(fault="it ends before it begins")
    return FormAnswer({"start": days[0], "end": days[1]})


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if not match:
        return False
    year, month, day = (int(part) for part in match.groups())
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS[month - 1]:
        return False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return not (month == 2 and day == 29 and not leap)


MAX_TRIES = 10


def ask_form(message: str, form: ResponseForm) -> Routine:
    """Ask the questions of a form. Returns the answers as a JSON object by question id; empty answers are null.

    An answer that is a JSON object of question ids answers the rest of the form. Questions missing from it are empty.

    Raise AgentEnded if a question had too many invalid answers.
    """
    head = [message, *(text for text in (form.title, form.description) if text and text != message)]
    values: dict[str, Any] = {}
    replies: dict[str, str] = {}
    for position, question in enumerate(form.questions):
        fault = ""
        for _ in range(MAX_TRIES):
            if question.id not in replies:
                text: str = yield AskUser("\n".join([*head, question_text(question, buttons=form.is_choice)]))
                replies = _by_id(text, form.questions[position:]) or {**replies, question.id: text}
            answer = read_answer(question, replies.pop(question.id))
            fault = answer.fault
            if not fault:
                break
            head = [f"That does not do: {fault}."]
        else:
            reason = f"the question {question.id!r} had {MAX_TRIES} answers that do not do; the last: {fault}"
            raise AgentEnded("Invalid Answer", reason)
        head = []
        values[question.id] = answer.value
    return json.dumps(values, ensure_ascii=False)


def _by_id(text: str, questions: tuple[FormQuestion, ...]) -> dict[str, str]:
    """Parse an answer that is an object of question ids. Empty for any other text."""
    if not text.lstrip().startswith("{"):
        return {}
    value = json_value(text, {})
    empty = dict.fromkeys((question.id for question in questions), "")
    if not value or not value.keys() <= empty.keys():
        return {}
    texts = {
        name: each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for name, each in value.items()
    }
    return {**empty, **texts}
