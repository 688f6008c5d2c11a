"""Scripts of runs with parallel frames."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.stage import Reply, Stage, call


def together(*names: str, **more: Any) -> Reply:
    """Push these frames together. ``more`` has other fields of a frame by its name, or the chunks to store."""
    orders = [{"name": name, "objective": f"Do {name}.", "context": "None.", "return_spec": "All."} for name in names]
    for order in orders:
        order.update(more.get(order["name"], {}))
    return call("push_frames", frames=orders, **{name: value for name, value in more.items() if name == "store"})


def group_script(stage: Stage, replies: Sequence[Reply], frames: Mapping[str, Sequence[Reply]]) -> str:
    """Write a script with the replies of each frame, and return its name as a model."""
    script = Path(stage.root) / "group.yaml"
    script.write_text(json.dumps({"replies": replies, "frames": frames}), encoding="utf-8")
    return f"script:{script}"
