"""The command line (spec.md, section 9)."""

import json
import sys

from parcels.export import summary, to_csv
from parcels.merge import merge
from parcels.normalize import MappingError, normalize


def main(arguments):
    as_summary = "--summary" in arguments
    paths = [argument for argument in arguments if argument != "--summary"]
    if len(paths) != 1 or paths[0].startswith("-") or arguments.count("--summary") > 1:
        print("usage: parcels [--summary] FILE", file=sys.stderr)
        return 2
    try:
        with open(paths[0], encoding="utf-8") as file:
            lines = file.read().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        print(f"{paths[0]} cannot be read: {error}", file=sys.stderr)
        return 2
    parcels, unused = [], 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            parcels.append(normalize(*_report(line)))
        except MappingError as error:
            unused += 1
            print(f"line {number}: {error}", file=sys.stderr)
        except ValueError:
            unused += 1
            print(f"line {number}: not a report", file=sys.stderr)
    merged = merge(parcels)
    if as_summary:
        print(json.dumps(summary(merged)))
    else:
        sys.stdout.write(to_csv(merged))
    return 1 if unused else 0


def _report(line):
    report = json.loads(line)
    if not isinstance(report, dict) or not isinstance(report.get("provider"), str) or "record" not in report:
        raise ValueError("not a report")
    return report["provider"], report["record"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
