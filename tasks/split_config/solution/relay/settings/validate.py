"""What is a good value: texts become settings, or the sentences that say why not."""

from relay.settings.model import FetchSettings, NotifySettings, Settings, StoreSettings

_TRUE = ("yes", "true", "on", "1")
_FALSE = ("no", "false", "off", "0")


class SettingsError(ValueError):
    def __init__(self, problems):
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


def validated(raw):
    """The Settings that the raw texts stand for."""
    texts = {name: value.strip() for name, value in raw.values.items()}
    keep, keep_problems = _number(raw, "store.keep", int, 1, 10000)
    max_items, max_problems = _number(raw, "fetch.max_items", int, 1, 1000)
    min_score, min_problems = _number(raw, "fetch.min_score", float, 0, 1e9)
    form = texts["notify.format"].lower()

    problems = [raw.file_problem] if raw.file_problem else []
    if texts["app.debug"].lower() not in _TRUE + _FALSE:
        problems.append(f"app.debug: {raw.values['app.debug']!r} is neither yes nor no ({raw.sources['app.debug']})")
    problems += _empty(raw, texts, "store.path") + keep_problems
    problems += _empty(raw, texts, "fetch.inbox") + max_problems + min_problems
    problems += _empty(raw, texts, "notify.outbox")
    if form not in ("text", "json"):
        written, source = raw.values["notify.format"], raw.sources["notify.format"]
        problems.append(f"notify.format: {written!r} is not text or json ({source})")
    if form == "json" and not texts["notify.token"]:
        problems.append("notify.token: required for format json")
    if texts["notify.outbox"] and texts["notify.outbox"] == texts["store.path"]:
        problems.append("notify.outbox: same file as store.path")
    problems += [f"{name}: unknown setting ({source})" for name, source in raw.unknown]
    if problems:
        raise SettingsError(problems)

    words = (word.strip().lower() for word in raw.values["fetch.keywords"].split(","))
    return Settings(
        debug=texts["app.debug"].lower() in _TRUE,
        store=StoreSettings(texts["store.path"], keep),
        fetch=FetchSettings(texts["fetch.inbox"], max_items, tuple(word for word in words if word), min_score),
        notify=NotifySettings(texts["notify.outbox"], form, texts["notify.token"]),
    )


def _empty(raw, texts, name):
    return [] if texts[name] else [f"{name}: empty ({raw.sources[name]})"]


def _number(raw, name, kind, low, high):
    text, source = raw.values[name].strip(), raw.sources[name]
    try:
        number = kind(text)
    except ValueError:
        word = "whole number" if kind is int else "number"
        return None, [f"{name}: {raw.values[name]!r} is no {word} ({source})"]
    if not low <= number <= high:
        return None, [f"{name}: {text} is not between {low} and {high:g} ({source})"]
    return number, []
