"""Output of ``stackmem doctor`` about model servers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stackmem.cli.screen.text import readable
from stackmem.providers.running_servers import RunningServer
from stackmem.review.doctor.examination import FirstPrompt, ModelReport
from stackmem.review.doctor.probe import FormProbe


def model_lines(report: ModelReport) -> Iterator[str]:
    probes = report.probes
    yield f"{readable(report.model)} at {readable(report.address)}"
    yield f"  window:            {report.window_tokens:,} tokens ({readable(report.window_source)})"
    yield f"  native call:       {_form(probes.native, 'native call')}"
    if probes.ignores_tools:
        yield "                     the server ignores `tools`: the prompt does not get longer"
    yield f"  call in the text:  {_form(probes.text, 'call in the text')}"
    yield f"  constrained call:  {_constrained(probes.constrained)}"
    yield f"  reading:           {_speed(probes.prompt_speed)}"
    yield f"  writing:           {_speed(probes.reply_speed)}"
    cached, prompt = probes.constrained.cached_tokens, probes.constrained.prompt_tokens
    counted = f" ({cached:,} of {prompt:,} tokens)" if cached is not None and prompt else ""
    yield f"  prefix cache:      {probes.cache}{counted}"
    for first in report.first_prompts:
        yield f"  {'first prompt of ' + first.strategy + ':':<30}{_first(first)}"
    if report.use:
        yield f"  a run gets:        {report.use}"
    else:
        yield "  a run gets:        no calls; this model did not call the tool in any form, so choose another model"


def server_lines(servers: Iterable[RunningServer]) -> Iterator[str]:
    for server in servers:
        names = ", ".join(f"{server.kind}/{name}" for name in server.models) or "no models listed"
        yield f"{server.kind + ' server:':<19}{server.url}, {readable(names)}"


def _form(probe: FormProbe, expected: str) -> str:
    if probe.form == "refused":
        return f"refused: {readable(probe.detail)}"
    if probe.form == "no call":
        return f"does not work; the reply was {readable(probe.detail)!r}"
    works = "works" if probe.form == expected else f"no, but the model wrote a {probe.form}"
    return works if probe.right else f"{works}, but with the wrong arguments"


def _constrained(probe: FormProbe) -> str:
    if probe.form == "refused":
        return f"refused: {readable(probe.detail)}"
    return "works" if probe.right else "does not work: the server ignores the schema"


def _speed(tokens: float | None) -> str:
    return "not known" if tokens is None else f"{tokens:,.1f} tokens a second"


def _first(first: FirstPrompt) -> str:
    counted = "" if first.counted else " (estimated)"
    size = " at the small size" if first.small else ""
    seconds = "" if first.seconds is None else f", about {first.seconds:,.0f} s to read"
    reply = "" if first.reply_seconds is None else f", first reply after {first.reply_seconds:,.0f} s"
    return f"{first.tokens:,} tokens{counted}{size}{seconds}{reply}"
