"""Runs the command line, or tests, as on a system without the parts of Python that only Linux has.

python tests/cli/other_system.py stackmem ARGUMENTS
python tests/cli/other_system.py pytest ARGUMENTS
"""

import multiprocessing.reduction  # the child processes are of Linux  # noqa: F401
import os
import signal
import sys
import sysconfig
import types

import pytest


def remove_linux() -> None:
    """Remove what only Linux has, and add the module that only a Mac has."""
    sysconfig.get_config_vars()  # reads a file that is named after the platform
    for name in ("O_PATH", "pidfd_open", "memfd_create", "MFD_CLOEXEC", "getxattr", "setxattr", "listxattr"):
        delattr(os, name)
    del signal.pidfd_send_signal
    proxies = types.ModuleType("_scproxy")
    proxies._get_proxies = proxies._get_proxy_settings = dict  # type: ignore[attr-defined]
    sys.modules["_scproxy"] = proxies


class Afterwards:
    """Changes the name of the platform after pytest and its plugins are loaded."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        sys.platform = "darwin"


if __name__ == "__main__":
    program = sys.argv.pop(1)
    if program == "pytest":
        remove_linux()
        sys.exit(pytest.main(["-p", "no:xdist", *sys.argv[1:]], plugins=[Afterwards()]))
    remove_linux()
    from stackmem.cli.main import main

    sys.platform = "darwin"
    main()
