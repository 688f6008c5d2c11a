"""Uses the package from within, in a process of its own; prints what it found as one JSON object."""

import contextlib
import dataclasses
import importlib
import json
import os
import sys
from pathlib import Path

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what the package prints is no answer
WORKSPACE = Path(sys.argv[1])
sys.path.insert(0, sys.argv[1])
found = {}

read = []


def watch(event, arguments):
    """Audit hook: files that are opened while the package is imported, other than its own code."""
    if watching and event == "open" and isinstance(arguments[0], str) and not arguments[0].endswith((".py", ".pyc")):
        read.append(arguments[0])


class WatchedEnvironment(type(os.environ)):
    def __getitem__(self, key):
        if watching and str(key).startswith("RELAY"):
            read.append(f"environment: {key}")
        return super().__getitem__(key)


import configparser  # noqa: E402, F401 - imported before watching, so that only relay's own reading is seen
import glob  # noqa: E402, F401

watching = True
sys.addaudithook(watch)
os.environ.__class__ = WatchedEnvironment
for path in sorted((WORKSPACE / "relay").rglob("*.py")):
    if path.name != "__main__.py":
        importlib.import_module(".".join(path.relative_to(WORKSPACE).with_suffix("").parts).removesuffix(".__init__"))
watching = False
found["read at import"] = read

from relay.jobs import run_once  # noqa: E402
from relay.settings import Settings, SettingsError, load_settings, model  # noqa: E402

empty = Path("empty")
empty.mkdir()
flags = [
    "store.path= s.json",
    "store.keep=4",
    "store.keep=5",
    "fetch.keywords=A, B c,",
    "fetch.min_score=1",
    "app.debug=on",
]
settings = load_settings(flags, {"RELAY_FETCH_INBOX": "in", "RELAY_NOTIFY_TOKEN": "s3cret-token", "HOME": "/"}, empty)
values = {"debug": settings.debug}
for part in ("store", "fetch", "notify"):
    values |= {
        f"{part}.{one.name}": getattr(getattr(settings, part), one.name)
        for one in dataclasses.fields(getattr(settings, part))
    }
found["values"] = {name: [value, type(value).__name__] for name, value in values.items()}
names = ["Settings", "StoreSettings", "FetchSettings", "NotifySettings"]
found["fields"] = {name: [one.name for one in dataclasses.fields(getattr(model, name))] for name in names}
found["frozen"] = [
    name for name in names if getattr(model, name).__dataclass_params__.frozen and Settings is model.Settings
]
found["token in a repr"] = "s3cret" in repr(settings) or "s3cret" in repr(settings.notify)
found["empty environment"] = load_settings((), {}, empty).store.keep
try:
    load_settings(["a", "b.c=d", "notify.format=json"], {"RELAY_STORE_KEEP": "x"}, Path.cwd())
except SettingsError as error:
    found["problems"] = list(error.problems)
    found["error"] = [type(error.problems).__name__, isinstance(error, ValueError)]

item = {"id": "a", "title": "Alpha", "score": 1}
other = {"id": "b", "title": "Beta", "score": 2}
runs = []
for name, items in (("one", [item, other]), ("two", [item, other])):
    Path(name, "in").mkdir(parents=True)
    Path(name, "in", "feed.json").write_text(json.dumps(items))
Path("one", "in", "bad.json").write_text("{")


def of(name, *more):
    places = [f"store.path={name}/s.json", f"fetch.inbox={name}/in", f"notify.outbox={name}/o.txt"]
    return load_settings([*places, *more], {}, empty)


one = of("one", "app.debug=yes")
two = of("two", "fetch.min_score=2", "notify.format=json", "notify.token=t")
with contextlib.suppress(Exception):
    runs += [list(run_once(settings)) for settings in (one, two, one)]
found["runs"] = runs
found["outboxes"] = [
    Path(name, "o.txt").read_text() if Path(name, "o.txt").exists() else None for name in ("one", "two")
]
answers.write(json.dumps(found))
answers.close()
