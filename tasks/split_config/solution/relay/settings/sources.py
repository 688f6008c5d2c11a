"""Where settings come from: defaults, the file, the environment, flags; the later one wins."""

import configparser
from dataclasses import dataclass
from types import MappingProxyType

DEFAULTS = MappingProxyType(
    {
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
)


@dataclass(frozen=True)
class Raw:
    """Texts by name, the source of each, and what could not be placed."""

    values: dict
    sources: dict
    unknown: tuple
    file_problem: str | None

    def __repr__(self):
        return f"Raw({sorted(self.values)})"


def read_sources(flags, environ, folder):
    values, sources, unknown = dict(DEFAULTS), dict.fromkeys(DEFAULTS, "default"), []

    def take(name, value, source):
        if name in DEFAULTS:
            values[name], sources[name] = value, source
        else:
            unknown.append((name, source))

    from_file, file_problem = _read_file(environ, folder)
    for name, value in from_file:
        take(name, value, "file")
    variables = {"RELAY_" + name.replace(".", "_").upper(): name for name in DEFAULTS}
    for variable in environ:
        if variable.startswith("RELAY_") and variable != "RELAY_CONFIG":
            take(variables.get(variable, variable), environ[variable], "env")
    for flag in flags:
        name, equals, value = flag.partition("=")
        if equals:
            take(name, value, "flag")
        else:
            unknown.append((name, "flag"))
    return Raw(values, sources, tuple(sorted(unknown)), file_problem)


def _read_file(environ, folder):
    name = environ.get("RELAY_CONFIG", "relay.ini")
    path = folder / name
    if not name or not path.exists():
        return [], f"{name}: no such file" if "RELAY_CONFIG" in environ else None
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with open(path, encoding="utf-8") as file:
            parser.read_file(file)
    except (configparser.Error, UnicodeDecodeError):
        return [], f"{name}: not a settings file"
    return [(f"{section}.{key}", value) for section in parser.sections() for key, value in parser.items(section)], None


def masked(name, value):
    """The value as it may be shown."""
    if name == "notify.token" and value:
        return "*" * 8 + value[-2:] if len(value) > 8 else "*" * 8
    return value
