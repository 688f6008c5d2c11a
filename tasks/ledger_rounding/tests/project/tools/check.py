"""Build the package into build/lib and run the tests against the build. Arguments go to pytest."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main():
    built = ROOT / "build" / "lib" / "ledger"
    shutil.rmtree(built, ignore_errors=True)
    shutil.copytree(ROOT / "src" / "ledger", built, ignore=shutil.ignore_patterns("__pycache__"))
    print("built", built.relative_to(ROOT))
    return subprocess.run([sys.executable, "-m", "pytest", *sys.argv[1:]], cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
