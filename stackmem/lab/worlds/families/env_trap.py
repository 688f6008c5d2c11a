"""``env_trap``: the obvious commands of a repository fail; trials show what works, and every phase needs it.

The trap: an agent that forgets what worked tries the same failing candidates in each phase.
"""

from __future__ import annotations

from random import Random

from stackmem.lab.worlds.kernel import Size, Unit, WorldDraft, WorldFacts, WorldFamily, plant

_ITEMS = {
    "runner": ("make-test", "pytest", "tox", "nox-s-unit", "ci/suite.sh", "bazel-test", "ctest"),
    "python": ("python3", "python3.12", "python3.9", "pypy3.10", "conda-forge/3.11", "uv-managed/3.13"),
    "database": ("sqlite", "postgres", "postgres-16-slim", "mariadb-lts", "cockroach-single", "tmpfs-postgres"),
    "locale": ("C", "C.UTF-8", "en_US.UTF-8", "de_DE.UTF-8", "tr_TR.UTF-8", "POSIX"),
    "compiler": ("gcc", "clang", "gcc-12", "clang-17", "zig-cc", "icx"),
    "browser": ("chromium", "firefox", "chromium-headless-shell", "webkit-gtk", "firefox-esr", "edge-stable"),
    "queue": ("redis", "rabbitmq", "in-process", "redis-cluster-3", "nats-jetstream", "sqs-local"),
    "mirror": ("pypi", "internal", "internal-eu", "artifactory-ro", "devpi-2", "wheelhouse"),
}
_PHASES = ("triage", "refactoring", "migration", "hardening", "packaging", "release")
_WORK = ("move", "split", "type", "cover", "deprecate", "document")
_MODULES = (
    "billing/rates", "billing/invoice", "orders/cart", "orders/returns", "auth/session", "auth/tokens", "search/index",
    "search/query", "mail/queue", "mail/render", "stock/count", "stock/reserve", "export/csv", "export/edi",
)  # fmt: skip


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    facts, files, probes = WorldFacts(), {}, {}
    items = list(_ITEMS)[: size.share(6, 1, len(_ITEMS), of=0.4)]
    for item in items:
        path = f"docs/ci/{item}.md"
        files[path], probes[f"env.{item}"] = plant(
            rng, size, facts, f"env.{item}", _ITEMS[item], path, f"Continuous integration: {item}"
        )
    phases = min(len(_PHASES), max(1, units // 8))
    work = []
    for unit in range(1, units + 1):
        phase = (unit - 1) * phases // units
        second = items[1 + (unit + phase) % (len(items) - 1)] if len(items) > 1 else "runner"
        description = f"{_PHASES[phase]}: {rng.choice(_WORK)} {rng.choice(_MODULES)} and run its tests"
        work.append(Unit(description, facts.need(unit, "env.runner", f"env.{second}")))
    return WorldDraft(
        title="Bring an inherited repository through its maintenance plan",
        text=(
            "The repository came without a working set-up. Each unit changes one module and runs its tests in the "
            "environment that really works (test runner, interpreter, database and so on). The documents under "
            "`docs/ci/` list what has been in use over the years; most of it fails today, and only trying tells. "
            "What works does not change while you work."
        ),
        units=tuple(work),
        facts=facts.rows(units),
        files=files,
        probes=probes,
    )


FAMILY = WorldFamily(build, hurts=("window", "truncate", "rag"))
