"""Made-up benches: rows as a bench leaves them, covering every part of a report."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stackmem.lab.bench.results import write_results

WORLDS = (
    "env_trap", "spec_map", "dead_ends", "moving_target", "deep_deps", "log_haystack", "conflict", "ledger",
)  # fmt: skip
# Name to: growth of the peak, chance of success at horizon 60, loss of it per doubling, cost factor, share of reads.
SHAPES: dict[str, tuple[float, float, float, float, float]] = {
    "full": (1.0, 0.99, 0.00, 1.0, 0.97),
    "window": (0.05, 0.55, 0.12, 0.5, 0.40),
    "truncate": (0.1, 0.60, 0.10, 0.8, 0.30),
    "mask": (0.5, 0.85, 0.05, 0.9, 0.55),
    "clear": (0.4, 0.80, 0.05, 0.7, 0.75),
    "boundary": (0.6, 0.90, 0.03, 0.6, 0.90),
    "summary": (0.2, 0.80, 0.06, 0.6, 0.85),
    "rolling_summary": (0.05, 0.70, 0.08, 0.9, 0.35),
    "structured_summary": (0.1, 0.75, 0.06, 0.7, 0.60),
    "hierarchical": (0.15, 0.75, 0.07, 0.8, 0.50),
    "rag": (0.1, 0.65, 0.08, 0.7, 0.30),
    "notes": (0.9, 0.95, 0.01, 1.2, 0.80),
    "memory_dir": (0.8, 0.95, 0.01, 1.1, 0.95),
    "expandable": (0.5, 0.92, 0.02, 0.8, 0.85),
    "isolated": (0.1, 0.60, 0.10, 0.6, 0.80),
    "fold": (0.3, 0.90, 0.02, 0.6, 0.93),
    "stack": (0.1, 0.70, 0.08, 0.5, 0.90),
    "heap": (0.9, 0.99, 0.00, 1.0, 0.96),
    "stackheap": (0.04, 0.99, 0.00, 0.4, 0.92),
    "stackheap_fork": (0.3, 0.98, 0.01, 0.5, 0.94),
    "stackheap_lossless": (0.05, 0.99, 0.00, 0.42, 0.92),
}
SUITE = {
    "command": "stackmem bench zoo.toml -o DIR", "version": "0.4.0", "date": "2026-11-20", "machine": "2 cores, x86_64",
}  # fmt: skip


def row(strategy: str = "full", task: str = "env_trap", seed: int = 1, **more: Any) -> dict[str, Any]:
    """Return one trial; ``more`` overrides its fields."""
    made = {
        "task": task, "family": task, "horizon": 60, "noise": 1.0, "seed": seed, "model": "sim/bounded-reader",
        "strategy": strategy, "spelled": strategy, "isolation": "memory", "outcome": "solved", "ending": "popped",
        "solved": 1, "error": "", "steps": 64, "model_calls": 64, "peak_context_tokens": 40_000,
        "mean_context_tokens": 21_000.5, "rediscoveries": 0, "repeated_looks": 1, "rereads": 0, "found_again": 0,
        "memory_call_share": 0.1, "bill_uncached": 1_000, "bill_read": 900_000, "bill_write_5m": 40_000,
        "bill_write_1h": 0, "bill_output": 5_000, "bill_usd": 0.24, "cache_read_share": 0.95, "wall_seconds": 0.4,
        **more,
    }  # fmt: skip
    name = f"{made['task']}-{made['horizon']}-s{made['seed']}-{made['strategy']}-{made['model']}"
    name = "".join(char if char.isalnum() or char == "-" else "-" for char in name)
    return {"id": name, "run": f"runs/{name}/run-1", **made}


def zoo(
    horizons: Sequence[int] = (10, 60, 300),
    seeds: int = 3,
    worlds: Sequence[str] = WORLDS,
    strategies: Sequence[str] = tuple(SHAPES),
) -> list[dict[str, Any]]:
    """Return every strategy on every world, as a bench of the zoo would leave it; deterministic."""
    dice = random.Random(4)
    return [
        _made(dice, strategy, task, horizon, seed)
        for horizon in horizons
        for task in worlds
        for seed in range(1, seeds + 1)
        for strategy in strategies
    ]


def _made(dice: random.Random, strategy: str, task: str, horizon: int, seed: int) -> dict[str, Any]:
    growth, chance, loss, dear, reads = SHAPES[strategy]
    doublings = max(0.0, (horizon / 60) ** 0.5 - 1)
    solved = dice.random() < chance - loss * doublings
    again = 0 if loss == 0 else round(dice.random() * horizon * loss)
    steps = round(horizon * 1.05) + again + (0 if solved else round(horizon * dice.random()))
    peak = round((9_000 + 600 * 60 ** (1 - growth) * steps**growth) * dice.uniform(0.9, 1.1))
    prompt = round(steps * (peak * 0.55 if growth > 0.3 else peak * 0.7))
    lost = dice.randint(5, max(6, steps)) if loss and dice.random() < loss * 8 else None
    return row(
        strategy, task, seed, horizon=horizon, outcome="solved" if solved else "unsolved", solved=int(solved),
        ending="popped" if solved else "limit:steps", steps=steps, model_calls=steps, peak_context_tokens=peak,
        mean_context_tokens=prompt / steps, repeated_looks=again, rereads=again // 2, first_loss_step=lost,
        rediscoveries=again // 3 if strategy in ("stack", "isolated") else 0, bill_uncached=round(prompt * 0.002),
        bill_read=round(prompt * reads), bill_write_5m=round(prompt * (0.998 - reads) * dear),
        bill_output=steps * 80, cache_read_share=reads,
    )  # fmt: skip


def bench(folder: Path, rows: Sequence[Mapping[str, Any]], suite: Mapping[str, str] = SUITE) -> Path:
    """Create the folder of a bench with these rows."""
    folder.mkdir(parents=True, exist_ok=True)
    write_results(folder, [dict(one) for one in rows], suite)
    return folder
