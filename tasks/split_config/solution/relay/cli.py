"""The command line."""

import os
import sys
from pathlib import Path

from relay.jobs import run_once
from relay.settings import SettingsError, masked, read_sources, validated

USAGE = "usage: relay [--debug] [--set SECTION.KEY=VALUE]... show|check|run"


def main(arguments):
    commands, flags = [], []
    arguments = list(arguments)
    while arguments:
        argument = arguments.pop(0)
        if argument == "--set" and arguments:
            flags.append(arguments.pop(0))
        elif argument == "--debug":
            flags.append("app.debug=yes")
        else:
            commands.append(argument)
    if commands not in (["show"], ["check"], ["run"]):
        print(USAGE, file=sys.stderr)
        return 2
    raw = read_sources(flags, os.environ, Path())
    if commands == ["show"]:
        for name in sorted(raw.values):
            print(f"{name} = {masked(name, raw.values[name])}".rstrip() + f"  ({raw.sources[name]})")
        return 0
    try:
        settings = validated(raw)
    except SettingsError as error:
        print("\n".join(error.problems))
        return 1
    print("\n".join(["ok"] if commands == ["check"] else run_once(settings)))
    return 0
