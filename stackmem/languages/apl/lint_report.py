"""The linter's findings in the layout that APL's own tools print."""

from __future__ import annotations

from stackmem.languages.language import Finding


def lint_report(path: str, findings: tuple[Finding, ...]) -> str:
    """Errors, then warnings; empty where nothing was found: success says nothing."""
    if not findings:
        return ""
    lines = ["APL VALIDATION REPORT", "", f"File: {path}", ""]
    for each in sorted(findings, key=lambda each: each.severity != "error"):
        lines += [f"*   [{each.severity.upper()}] Line {each.line}: {each.title}", f"    *   Message: {each.message}"]
        lines += [f"    *   Suggestion: {each.suggestion}"] if each.suggestion else []
        lines.append("")
    return "\n".join([*lines, _footer(findings)])


def _footer(findings: tuple[Finding, ...]) -> str:
    errors = sum(each.severity == "error" for each in findings)
    warnings = len(findings) - errors
    counts = [_count(errors, "error")] if errors or not warnings else []
    counts += [_count(warnings, "warning")] if warnings else []
    return f"Validation {'Failed' if errors else 'Finished'}: {', '.join(counts)}."


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
