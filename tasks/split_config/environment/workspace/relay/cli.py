"""The command line."""

import sys

from relay import config

USAGE = "usage: relay [--debug] [--set SECTION.KEY=VALUE]... show|check|run"


def main(arguments):
    commands = []
    arguments = list(arguments)
    while arguments:
        argument = arguments.pop(0)
        if argument == "--set" and arguments:
            config.override(arguments.pop(0))
        elif argument == "--debug":
            config.override("app.debug=yes")
        else:
            commands.append(argument)
    if commands not in (["show"], ["check"], ["run"]):
        print(USAGE, file=sys.stderr)
        return 2
    if commands == ["show"]:
        for name in sorted(config.values):
            print(f"{name} = {config.masked(name)}".rstrip() + f"  ({config.sources[name]})")
        return 0
    problems = config.check()
    for problem in problems:
        print(problem)
    if problems:
        return 1
    if commands == ["check"]:
        print("ok")
        return 0
    from relay.jobs import run_once

    run_once()
    return 0
