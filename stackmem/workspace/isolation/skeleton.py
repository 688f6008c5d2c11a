"""Builds the ``/etc`` that commands see: one private folder instead of twenty mounts, without the host's users."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

# Public files that compilers, interpreters and shells need.
_COPIED = (
    "ld.so.cache", "ld.so.conf", "localtime", "timezone", "services", "protocols", "mime.types", "os-release", "shells",
    "login.defs", "magic", "bash.bashrc", "profile", "inputrc", "debian_version", "locale.alias",
)  # fmt: skip
# Link farms and certificates; mounted instead of copied, because they are large.
_MOUNTED = ("alternatives", "ssl/certs", "pki", "ca-certificates", "crypto-policies")
_WRITTEN = {
    "passwd": "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nuser:x:1000:1000:user:/tmp/home:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "hostname": "sandbox\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
    "resolv.conf": "",
    # The workspace may belong to a different user than the one inside, which git would reject.
    "gitconfig": "[safe]\n\tdirectory = *\n[user]\n\tname = user\n\temail = user@sandbox.invalid\n"
    "[init]\n\tdefaultBranch = main\n",
}


def mounted_names() -> tuple[str, ...]:
    """Return the folders under ``/etc`` that are mounted unchanged, if the host has them."""
    etc = Path("/etc")
    java = sorted(path.name for path in etc.glob("java*") if path.is_dir())
    return tuple(name for name in (*_MOUNTED, *java) if (etc / name).is_dir())


def copied_names() -> tuple[str, ...]:
    return _COPIED


def build_skeleton(*, network: bool) -> Path:
    """Create the folder; the caller must remove it.

    Args:
        network: Copy the host's resolver configuration and host table, which name resolution needs.
    """
    folder = Path(tempfile.mkdtemp(prefix="stackmem-etc-"))
    folder.chmod(0o755)
    for name in (*_COPIED, *(("resolv.conf", "hosts") if network else ())):
        source = Path("/etc") / name
        if source.is_file():
            shutil.copyfile(source, folder / name)
    for name, text in _WRITTEN.items():
        if not (folder / name).exists():
            (folder / name).write_text(text)
    for name in mounted_names():
        (folder / name).mkdir(parents=True)
    return folder
