"""Write a changelog from the notes in changes/."""

from collections import Counter

import stackmem

ENTRY = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["added", "fixed", "removed"]},
        "line": {"type": "string", "maxLength": 100},
    },
    "required": ["kind", "line"],
}


@stackmem.step
def summarize(name: str) -> dict:
    """Turn one note into one line of the changelog."""
    note = stackmem.read_file(f"changes/{name}")
    return stackmem.ask(f"Summarize this note for the users of a library:\n\n{note}", schema=ENTRY)


@stackmem.step
def main(version: str, most: int = 10) -> dict:
    """Write CHANGELOG.md from the notes in changes/."""
    entries = [summarize(name) for name in stackmem.list_files("changes")[:most]]
    kinds = Counter(entry["kind"] for entry in entries)
    lines = [f"## {version}", *sorted(f"- {entry['kind']}: {entry['line']}" for entry in entries)]
    stackmem.write_file("CHANGELOG.md", "\n".join(lines) + "\n")
    words = stackmem.shell("wc -w < CHANGELOG.md", check=True).stdout.strip()
    if stackmem.ask_user(f"CHANGELOG.md has {words} words. Keep it?", ["yes", "no"]) != "yes":
        stackmem.shell("rm CHANGELOG.md")
        return {"written": False}
    print(f"wrote {len(entries)} entries")
    return {"written": True, "kinds": dict(kinds)}
