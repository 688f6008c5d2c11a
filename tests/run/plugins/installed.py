"""A separate environment for plug-ins, and the plug-in shown in docs/extending.md."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.house.sources import ROOT

PAGE = ROOT / "docs" / "extending.md"


def shown() -> str:
    """Return the plug-in on the page, which provides one part of each kind."""
    return PAGE.read_text("utf-8").split("# stackmem_acme/__init__.py\n")[1].split("```")[0]


class Installed:
    """A separate environment with stackmem and any other packages in it."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "venv", symlinks=True)
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        library = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
        self.packages = folder / "venv" / library
        others = sysconfig.get_path("purelib")
        (self.packages / "stackmem-of-the-tests.pth").write_text(f"{ROOT}\n{others}\n", "utf-8")

    def put(self, name: str, module: str, *, at: Path | None = None, points: str = "") -> None:
        package = (at or self.packages) / f"{name}_package"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(module, "utf-8")
        (package / "prompt.md").write_text("Be brief.\n", "utf-8")
        facts = package.with_name(f"{name}-1.0.dist-info")
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "utf-8")
        text = points or f"{name} = {name}_package:plugin"
        (facts / "entry_points.txt").write_text(f"[stackmem.plugins]\n{text}\n", "utf-8")

    def run(self, *words: str, cwd: Path | None = None, module: str = "stackmem") -> subprocess.CompletedProcess[str]:
        command = [str(self.python), "-m", module, *words]
        return subprocess.run(command, cwd=cwd or self.folder, capture_output=True, text=True, check=False)
