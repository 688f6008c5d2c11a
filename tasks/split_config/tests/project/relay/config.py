"""All settings. Import this module and use the names; the command line changes them with override()."""

import configparser
import os

DEFAULTS = {
    "app.debug": "no",
    "store.path": "relay.json",
    "store.keep": "100",
    "fetch.inbox": "inbox",
    "fetch.max_items": "50",
    "fetch.keywords": "",
    "fetch.min_score": "0",
    "notify.outbox": "outbox.txt",
    "notify.format": "text",
    "notify.token": "",
}

values = dict(DEFAULTS)
sources = {key: "default" for key in DEFAULTS}
unknown = []
file_problem = None

_file = os.environ.get("RELAY_CONFIG", "relay.ini")
if os.path.exists(_file):
    _parser = configparser.ConfigParser(interpolation=None)
    try:
        with open(_file, encoding="utf-8") as _open_file:
            _parser.read_file(_open_file)
    except (configparser.Error, UnicodeDecodeError):
        file_problem = f"{_file}: not a settings file"
    else:
        for _section in _parser.sections():
            for _key, _value in _parser.items(_section):
                _name = f"{_section}.{_key}"
                if _name in DEFAULTS:
                    values[_name] = _value
                    sources[_name] = "file"
                else:
                    unknown.append((_name, "file"))
elif "RELAY_CONFIG" in os.environ:
    file_problem = f"{_file}: no such file"

for _name in DEFAULTS:
    _variable = "RELAY_" + _name.replace(".", "_").upper()
    if _variable in os.environ:
        values[_name] = os.environ[_variable]
        sources[_name] = "env"

for _variable in os.environ:
    if _variable.startswith("RELAY_") and _variable != "RELAY_CONFIG":
        if _variable not in ["RELAY_" + _name.replace(".", "_").upper() for _name in DEFAULTS]:
            unknown.append((_variable, "env"))


def override(flag):
    name, equals, value = flag.partition("=")
    if not equals or name not in DEFAULTS:
        unknown.append((name, "flag"))
        return
    values[name] = value
    sources[name] = "flag"
    refresh()


def _number(name, kind, low, high):
    try:
        number = kind(values[name].strip())
    except ValueError:
        return kind(DEFAULTS[name])
    return number if low <= number <= high else kind(DEFAULTS[name])


def refresh():
    global DEBUG, STORE_PATH, STORE_KEEP, INBOX, MAX_ITEMS, KEYWORDS, MIN_SCORE, OUTBOX, FORMAT, TOKEN
    DEBUG = values["app.debug"].strip().lower() in ("yes", "true", "on", "1")
    STORE_PATH = values["store.path"].strip()
    STORE_KEEP = _number("store.keep", int, 1, 10000)
    INBOX = values["fetch.inbox"].strip()
    MAX_ITEMS = _number("fetch.max_items", int, 1, 1000)
    KEYWORDS = [word.strip().lower() for word in values["fetch.keywords"].split(",") if word.strip()]
    MIN_SCORE = _number("fetch.min_score", float, 0, 1e9)
    OUTBOX = values["notify.outbox"].strip()
    FORMAT = values["notify.format"].strip().lower()
    TOKEN = values["notify.token"].strip()


refresh()


def check():
    """The problems, in order: the file, then each setting, then what is unknown."""
    problems = [file_problem] if file_problem else []
    if values["app.debug"].strip().lower() not in ("yes", "no", "true", "false", "on", "off", "1", "0"):
        problems.append(f"app.debug: {values['app.debug']!r} is neither yes nor no ({sources['app.debug']})")
    if not STORE_PATH:
        problems.append(f"store.path: empty ({sources['store.path']})")
    problems += _check_number("store.keep", int, 1, 10000)
    if not INBOX:
        problems.append(f"fetch.inbox: empty ({sources['fetch.inbox']})")
    problems += _check_number("fetch.max_items", int, 1, 1000)
    problems += _check_number("fetch.min_score", float, 0, 1e9)
    if not OUTBOX:
        problems.append(f"notify.outbox: empty ({sources['notify.outbox']})")
    if FORMAT not in ("text", "json"):
        problems.append(f"notify.format: {values['notify.format']!r} is not text or json ({sources['notify.format']})")
    if FORMAT == "json" and not TOKEN:
        problems.append("notify.token: required for format json")
    if OUTBOX and OUTBOX == STORE_PATH:
        problems.append("notify.outbox: same file as store.path")
    for name, source in sorted(unknown):
        problems.append(f"{name}: unknown setting ({source})")
    return problems


def _check_number(name, kind, low, high):
    text = values[name].strip()
    word = "whole number" if kind is int else "number"
    try:
        number = kind(text)
    except ValueError:
        return [f"{name}: {values[name]!r} is no {word} ({sources[name]})"]
    if not low <= number <= high:
        return [f"{name}: {text} is not between {low} and {high:g} ({sources[name]})"]
    return []


def masked(name):
    value = values[name]
    if name == "notify.token" and value:
        return "*" * 8 + value[-2:] if len(value) > 8 else "*" * 8
    return value
