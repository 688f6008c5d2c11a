"""``dead_ends``: incidents of a few kinds keep coming back, and most of the plausible fixes fail.

The trap: a fix that has failed must not be tried again. The check counts such repetitions over the whole run.
"""

from __future__ import annotations

from random import Random

from stackmem.lab.worlds.kernel import Size, Unit, WorldDraft, WorldFacts, WorldFamily, plant

REPEATS = 3

_KINDS = {
    "timeout": ("raise-timeout", "restart-pod", "pin-dns-resolver", "lower-keepalive", "disable-http2", "split-batch"),
    "duplicate": ("retry-job", "clear-cache", "idempotency-key", "lock-by-order", "dedupe-window-5m", "fence-writer"),
    "drift": ("resync-clock", "restart-node", "reseed-replica", "pause-compaction", "rotate-leader", "rebuild-index"),
    "overflow": ("grow-heap", "add-worker", "cap-page-size", "stream-export", "spill-to-disk", "drop-debug-fields"),
    "denied": ("renew-token", "re-login", "widen-role", "trust-new-ca", "map-legacy-group", "open-egress"),
    "garbled": ("re-encode", "strip-bom", "force-utf16le", "legacy-codepage-850", "bypass-proxy-gzip", "pin-schema-4"),
    "stuck": ("kick-scheduler", "delete-lease", "advance-watermark", "requeue-poison", "drain-slot-7", "reset-cursor"),
    "missing": ("rerun-import", "restore-backup", "refetch-manifest", "replay-from-kafka", "unhide-tombstone", "remap"),
}
_SITES = ("Rotterdam", "Leipzig", "Porto", "Dublin", "Gdansk", "Lyon", "Turin", "Malmo")
_SYSTEMS = ("settlement", "gateway", "partner feed", "archive", "reporting", "address service", "mailer", "scheduler")


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    facts, files, probes = WorldFacts(), {}, {}
    kinds = list(_KINDS)[: size.share(5.5, 1, len(_KINDS), of=0.4)]
    for kind in kinds:
        path = f"docs/runbooks/{kind}.md"
        files[path], probes[f"fix.{kind}"] = plant(
            rng, size, facts, f"fix.{kind}", _KINDS[kind], path, f"Runbook: incidents of the kind '{kind}'"
        )
    work: list[Unit] = []
    waiting: list[str] = []
    for unit in range(1, units + 1):
        if not waiting:  # every kind appears once before any appears again
            waiting = rng.sample(kinds, len(kinds))
        kind = waiting.pop()
        description = f"incident {4100 + unit}: {kind} in the {rng.choice(_SYSTEMS)} of {rng.choice(_SITES)}"
        work.append(Unit(description, facts.need(unit, f"fix.{kind}")))
    return WorldDraft(
        title="Work off the incident queue of the night shift",
        text=(
            "Each unit is one incident; it is closed with the fix that helps against incidents of its kind. The "
            "runbooks under `docs/runbooks/` list what colleagues have tried; only a trial tells what helps. The "
            "fix for a kind stays the same all night. Trying what has already been seen to fail costs the customers "
            f"an outage: over the whole shift at most {REPEATS} such repetitions are tolerated, else the work counts "
            "as failed."
        ),
        units=tuple(work),
        facts=facts.rows(units),
        files=files,
        probes=probes,
        repeats=REPEATS,
    )


FAMILY = WorldFamily(build, hurts=("window", "truncate", "rag"))
