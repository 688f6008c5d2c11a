"""The sentences of the report: what was run, what it means, and what it shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite

from stackmem.lab.bench.statistics import ALPHA, AMOUNT_OF_INTEREST, SHARE_OF_INTEREST, TOO_FEW, smallest_difference

from .columns import as_text
from .figures import Line, Section, Wants, bill_name
from .results import BenchRows

SIMULATED = (
    "The model sim/bounded-reader is simulated: a fixed policy whose only memory is its prompt. It measures what a "
    "strategy keeps visible and what that costs, not intelligence. It does not write code and misreads only as its "
    "dials say. It does not show how well a real model would use a strategy's tools."
)
READING = (
    "The statistical unit is the world: its trials are averaged first. In the table of a single world the unit is the "
    "trial, and the figures apply to that world only. For comparisons with the baseline, trials are paired by task, "
    "seed, horizon and model, and the interval is widened for the number of strategies compared in the table (Holm). "
    "The verdicts better and worse require that this interval excludes zero difference, that the exact test agrees, "
    f"and that the gap is at least {AMOUNT_OF_INTEREST * 100:.0f} % of a bill or a context, or "
    f"{SHARE_OF_INTEREST * 100:.0f} points of success. Alike means that the interval excludes such a gap. Too few "
    "means that no outcome could have passed the test. Everything else is no difference shown, which does not prove "
    "that the strategies are equal. The column on these trials takes each pair of trials as a unit and tests it by the "
    "exact McNemar test: it is about the trials that ran, not about worlds in general."
)
_FIRST = ("command", "date", "version", "machine", "python")
_FACT_NAMES = ("models", "trials", "price")


def facts(results: BenchRows, wants: Wants) -> list[tuple[str, str]]:
    """Return the facts about the run as pairs of a name and a text."""
    trials = results.trials
    errors = sum(trial.failed for trial in trials)
    pairs = [
        (
            "trials",
            f"{len(trials):,}" + (f", of which {errors:,} ended with an error and do not count" if errors else ""),
        ),
        ("strategies", _counted({trial.strategy for trial in trials})),
        ("tasks", _name_list(dict.fromkeys(trial.task for trial in trials))),
        ("horizons", _name_list(f"{h:g}" for h in sorted({t.horizon for t in trials if isfinite(t.horizon)}))),
        ("seeds", _counted({trial.text("seed") for trial in trials})),
        ("models", _name_list(dict.fromkeys(trial.text("model") for trial in trials))),
        ("isolation", _name_list(dict.fromkeys(trial.text("isolation") for trial in trials))),
        ("baseline", wants.baseline),
        (
            "bill",
            f"with the simulated cache of {wants.price_of}; verdicts for cached tokens at {wants.read_multiple:g}",
        ),
    ]
    rest = [name for name in results.suite if name not in (*_FIRST, *_FACT_NAMES)]
    pairs += [(name.replace("_", " "), results.suite.get(name, "")) for name in (*_FIRST, *rest)]
    return [(name, text) for name, text in pairs if text]


def remarks(results: BenchRows, wants: Wants) -> list[str]:
    """Return the remarks that a reader needs before the figures."""
    sentences = [SIMULATED] if any(trial.text("model").startswith("sim/") for trial in results.trials) else []
    if results.trials and not any(trial.strategy == wants.baseline for trial in results.trials):
        names = sorted({trial.strategy for trial in results.trials})
        sentences.append(f"The bench lacks trials of the baseline {wants.baseline}; try --baseline {names[0]}.")
    if wants.alpha < ALPHA:
        sentences.append(
            "The bench can stop early, so the comparisons here are judged at "
            f"{wants.alpha * 100:.2g} % instead of 5 %. Between two looks, these figures are for watching only."
        )
    return [*sentences, READING]


def title(section: Section) -> str:
    """Return the title of a table."""
    return f"{section.title} · {section.model}" + (f" · noise {section.noise}" if section.noise else "")


def findings(section: Section, wants: Wants) -> list[str]:
    """Return sentences about the strategies of a table compared with the baseline."""
    lines = [line for line in section.lines if line.against]
    if not lines:
        return _alone(section.lines[0], wants) if len(section.lines) == 1 else []
    base = wants.baseline
    judged = {line.strategy: _verdict(line, "solved") for line in lines}
    fewer = [line for line in lines if judged[line.strategy] != "worse" and _gap(line) < 0]
    not_fewer = [line for line in lines if judged[line.strategy] != "worse" and line not in fewer]
    groups = [
        (f"Solved more than {base}", [name for name, verdict in judged.items() if verdict == "better"]),
        (f"Solved less than {base}", [name for name, verdict in judged.items() if verdict == "worse"]),
    ]
    for figure, says in (("bill", f"Cheaper than {base} at reads of {wants.read_multiple:g}"),
                         ("peak", f"A smaller peak context than {base}")):  # fmt: skip
        groups.append((f"{says}, and solved no fewer", _better(not_fewer, figure)))
        groups.append((f"{says}, but solved fewer (no difference shown)", _better(fewer, figure)))
    groups.append(
        (f"More expensive than {base}", [line.strategy for line in lines if _verdict(line, "bill") == "worse"])
    )
    groups += [
        (f"Solved {says} than {base} on these trials, which says nothing about other worlds", _here(lines, verdict))
        for says, verdict in (("more", "better"), ("fewer", "worse"))
    ]
    sentences = [*_turning(lines, wants), *(f"{says}: {', '.join(names)}." for says, names in groups if names)]
    idle = [line.strategy for line in lines if (share := line.figures.get("never_acted")) and share.value == 1]
    if idle:
        sentences.append(f"Never acted, so these trials do not show their differences: {', '.join(idle)}.")
    general = [comparison for line in lines for name, comparison in line.against.items() if name != "solved_here"]
    if all(comparison.verdict == TOO_FEW for comparison in general):
        sentences.append(f"There are too few units to compare {len(lines)} strategies with {base}.")
    return sentences if section.task else sentences + _power(section, wants)


def _alone(line: Line, wants: Wants) -> list[str]:
    solved, cost = line.figures["solved"], line.figures[bill_name(wants.read_multiple)]
    if solved is None or cost is None:
        return []
    share, usd = as_text(solved.value, "share"), as_text(cost.value, "usd")
    return [f"{line.strategy} solved {share} at {usd} USD per trial. A comparison needs a second strategy."]


def _turning(lines: Sequence[Line], wants: Wants) -> list[str]:
    """Report strategies whose verdict on the bill depends on the price of reads."""
    names = [bill_name(multiple) for multiple in wants.multiples]
    turned = []
    for line in lines:
        verdicts = [_verdict(line, name) for name in names]
        if len(set(verdicts)) > 1:
            each = ", ".join(f"{says} at {at:g}" for at, says in zip(wants.multiples, verdicts, strict=True))
            turned.append(f"{line.strategy} ({each})")
    return [f"The verdict on the bill depends on the price of cached reads: {'; '.join(turned)}."] if turned else []


def _better(lines: Sequence[Line], figure: str) -> list[str]:
    return [line.strategy for line in lines if _verdict(line, figure) == "better"]


def _here(lines: Sequence[Line], verdict: str) -> list[str]:
    """Return the strategies with this verdict about the paired trials, with the discordant pairs."""
    comparisons = [
        (line.strategy, line.against["solved_here"]) for line in lines if _verdict(line, "solved_here") == verdict
    ]
    return [f"{name} ({comparison.gains:,} pairs gained, {comparison.lost:,} lost)" for name, comparison in comparisons]


def _gap(line: Line) -> float:
    comparison = line.against.get("solved")
    return comparison.effect.value if comparison else 0.0


def _power(section: Section, wants: Wants) -> list[str]:
    base = next((line for line in section.lines if line.strategy == wants.baseline), None)
    solved = base.figures["solved"] if base else None
    if solved is None:
        return []
    others = len(section.lines) - 1
    least = smallest_difference(solved.count, solved.value, others, wants.alpha)
    compared = f"{solved.count} units and {others} {'comparison' if others == 1 else 'comparisons'}"
    if least is None:
        return [f"{compared} are too few to show any gap in success; the bill and the context may show one."]
    return [f"{compared} can show a gap in success of {least * 100:.0f} points or more with power 0.8."]


def _verdict(line: Line, figure: str) -> str:
    comparison = line.against.get(figure)
    return comparison.verdict if comparison else ""


def _name_list(names: Iterable[str]) -> str:
    return ", ".join(filter(None, names))


def _counted(names: Sequence[str] | set[str]) -> str:
    return str(len(names)) if names else ""
