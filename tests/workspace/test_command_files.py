"""Files that a command may write and read: only the workspace and a private /tmp."""

import os
import shutil
import threading
from pathlib import Path

import pytest

from tests.workspace.sandboxes import (
    ALL,
    BUBBLEWRAP,
    CONFINED,
    CONTAINED,
    IMAGED,
    LAYERED,
    MOUNTED,
    SECRET,
    hostile,
    layered_too,
    outside,
    py,
    sh,
)

NEEDS_GIT = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@hostile(*layered_too(CONFINED), documented=("none",))
def test_a_command_cannot_change_read_or_link_files_outside(place, level, opened):
    there = outside(place)
    with opened(place, level) as workspace:
        done = sh(
            workspace,
            f"cd {there} || true; cat {there}/file; echo x > {there}/file; echo x > {there}/new;"
            f"truncate -s0 {there}/file;"
            f"rm -f {there}/file; mv {there}/file moved; mv {there} taken; ln {there}/file hard; mkdir {there}/d",
        )
    assert SECRET not in done.text
    assert (there / "file").read_text() == SECRET
    assert os.listdir(there) == ["file"]
    assert os.listdir(place / "ws") == []


@hostile(*layered_too(MOUNTED), documented=("namespaces", "landlock", "none"))
def test_a_command_cannot_touch_mode_times_or_attributes_outside(place, level, opened):
    there = outside(place) / "file"
    before = there.stat()
    with opened(place, level) as workspace:
        sh(workspace, f"chmod 777 {there}; touch {there}; setfattr -n user.a -v b {there}; chown 1 {there}")
    after = there.stat()
    assert (after.st_mode, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_mode,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )


@hostile(*layered_too(CONFINED), documented=("none",))
def test_system_folders_and_the_hosts_tmp_cannot_be_written(place, level, opened):
    name = f"stackmem-hostile-{os.getpid()}"
    folders = ("/etc", "/usr", "/usr/bin", "", "/tmp", "/var/tmp", "/opt", "/dev/shm")
    with opened(place, level) as workspace:
        sh(workspace, "; ".join(f"echo x > {folder}/{name}" for folder in folders))
        assert [folder for folder in folders if os.path.lexists(f"{folder}/{name}")] == []


@hostile(*layered_too(CONFINED), documented=("none",))
def test_the_hosts_users_and_keys_are_not_there(place, level, opened):
    keys = place / "home" / ".ssh"
    keys.mkdir(parents=True)
    (keys / "id_rsa").write_text(SECRET)
    with opened(place, level) as workspace:
        done = sh(
            workspace, f"cat /etc/shadow /etc/gshadow {keys}/id_rsa; cat $HOME/.ssh/* ~/.netrc; ls /root/.* /home"
        )
    assert SECRET not in done.text
    assert "root:" not in done.text
    assert done.failed


@hostile(*layered_too(MOUNTED, imaged=False), documented=("namespaces", "landlock", "none"))
def test_etc_names_no_user_of_the_host(place, level, opened):
    with opened(place, level) as workspace:
        done = sh(workspace, "cut -d: -f1 /etc/passwd; whoami; hostname; cat /etc/resolv.conf")
    assert done.text == "root\nuser\nnobody\nuser\nsandbox\n[exit 0]"


@NEEDS_GIT
@hostile(*layered_too(MOUNTED), documented=("namespaces", "landlock", "none"))
def test_no_git_hook_or_configuration_can_be_planted_in_a_repository_that_is_there(place, level, opened):
    with opened(place, level) as workspace:
        assert not sh(workspace, "git init -q . && echo a > a && git add a && git commit -qm first").failed
        config = (workspace.root / ".git/config").read_text()
        hooks = sorted(os.listdir(workspace.root / ".git/hooks"))
        sh(
            workspace,
            "mv .git g2; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; rm -rf .git/hooks; mv .git/hooks h;"
            "echo evil >> .git/config; git config core.fsmonitor evil; rm -f .git/config; mv .git/config c",
        )
        assert (workspace.root / ".git/config").read_text() == config
        assert sorted(os.listdir(workspace.root / ".git/hooks")) == hooks
        assert not sh(
            workspace, "echo b > a && git commit -qam second && git log --oneline | wc -l | grep -qx 2"
        ).failed


@hostile(*layered_too(MOUNTED), moot=("namespaces", "landlock", "none"))
def test_a_git_folder_that_is_a_link_out_of_the_sandbox_creates_nothing_on_the_host(place, level, opened):
    victim = place / "victim"
    victim.mkdir()
    for target in (f"/oldroot{victim}", f"/newroot/../oldroot{victim}", str(victim), "/proc/self/root"):
        (place / "ws").mkdir(exist_ok=True)
        (place / "ws/.git").symlink_to(target)
        with opened(place, level) as workspace:
            assert sh(workspace, "true").exit_code == 0
        assert os.listdir(victim) == []
        (place / "ws/.git").unlink()


@hostile(*layered_too(MOUNTED), moot=("namespaces", "landlock", "none"))
def test_odd_git_folders_do_not_keep_the_sandbox_from_starting(place, level, opened):
    git = place / "ws/.git"
    shapes = {
        "a file": lambda: git.write_text("gitdir: /elsewhere"),
        "empty": git.mkdir,
        "hooks missing": lambda: (git.mkdir(), (git / "config").write_text("")),
        "hooks a link": lambda: (git.mkdir(), (git / "config").write_text(""), (git / "hooks").symlink_to("/etc")),
        "config a link": lambda: (git.mkdir(), (git / "hooks").mkdir(), (git / "config").symlink_to("/etc/passwd")),
        "config a fifo": lambda: (git.mkdir(), os.mkfifo(git / "config")),
        "config a folder": lambda: (git.mkdir(), (git / "config").mkdir()),
    }
    with opened(place, level) as workspace:
        for name, make in shapes.items():
            make()
            assert sh(workspace, "echo started").text == "started\n[exit 0]", name
            shutil.rmtree(git) if git.is_dir() else git.unlink()


@hostile(*layered_too(ALL))
def test_a_run_leaves_no_ghost_files_behind(place, level, opened):
    with opened(place, level) as workspace:
        sh(workspace, "true")
        sh(workspace, "sleep 60", seconds=0.1)
        assert os.listdir(workspace.root) == []


@hostile(*layered_too(CONFINED), documented=("none",))
def test_privileges_cannot_be_gained(place, level, opened):
    with opened(place, level) as workspace:
        done = sh(
            workspace,
            "cp /usr/bin/id . && chmod 6755 id && ./id -u; id -u; su -c 'echo up'; sudo -n echo up; newuidmap 1",
        )
        mine, copied = done.text.splitlines()[:2]
        assert mine == copied
        assert "up" not in done.text.splitlines()
        if level != "bubblewrap (no /proc)":
            held = sh(workspace, "grep -E '^(CapEff|CapPrm|NoNewPrivs)' /proc/self/status").text
            own = "000000000000040a" if level == IMAGED else "0000000000000000"  # as root has over its own files
            assert held == f"CapPrm:\t{own}\nCapEff:\t{own}\nNoNewPrivs:\t1\n[exit 0]"


@hostile(*layered_too(CONFINED), documented=("none",))
def test_mounts_namespaces_and_roots_are_refused(place, level, opened):
    tries = ["mount -t tmpfs none /tmp", "mount --bind . /usr", "umount /", "unshare -Ur true", "unshare -m true",
             "chroot . /bin/true", "nsenter -t 1 -m true", "mknod dev b 254 0", "mknod dev c 1 3",
             "bwrap --ro-bind / / true"]  # fmt: skip
    with opened(place, level) as workspace:
        done = sh(workspace, "\n".join(f"{each} && echo DONE: '{each}'" for each in tries))
    assert "DONE" not in done.text


@hostile(*layered_too(CONFINED), documented=("none",))
def test_denied_system_calls_say_eperm(place, level, opened):
    program = """
import ctypes, errno, platform
libc = ctypes.CDLL(None, use_errno=True)
calls = dict(keyctl=250, add_key=248, request_key=249, bpf=321, perf_event_open=298, userfaultfd=323,
             io_uring_setup=425,
             process_vm_readv=310, open_by_handle_at=304, setns=308, unshare=272, mount=165, kexec_load=246, fsopen=430,
             init_module=175, settimeofday=164, clock_settime=227, pivot_root=155, chroot=161, reboot=169)
assert platform.machine() == "x86_64"
for name, number in calls.items():
    result = libc.syscall(number, 0, 0, 0, 0, 0, 0)
    said = (result, ctypes.get_errno())
    print(name, *said) if said != (-1, errno.EPERM) else None
result = libc.syscall(435, 0, 0)
print("clone3", ctypes.get_errno()) if ctypes.get_errno() != errno.ENOSYS else None
"""
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers are those of x86_64")
    with opened(place, level) as workspace:
        assert py(workspace, program).text == "[exit 0]"


@hostile(*layered_too(CONFINED), documented=("none",))
def test_kernel_settings_cannot_be_written_also_by_root(place, level, opened):
    files = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/irq/default_smp_affinity",
             "/proc/sys/vm/overcommit_memory")  # fmt: skip
    before = {name: Path(name).read_text() for name in files if os.access(name, os.R_OK)}
    tries = [f"echo h > {name}" for name in (*files, "/proc/sysrq-trigger", "/sys/kernel/uevent_helper")]
    tries += ["mkdir /sys/fs/cgroup/stackmem", "mkdir /sys/fs/cgroup/cpu/stackmem"]
    with opened(place, level) as workspace:
        done = sh(workspace, "\n".join(f"{each} && echo DONE: '{each}'" for each in tries))
    assert "DONE" not in done.text
    assert {name: Path(name).read_text() for name in before} == before
    assert not Path("/sys/fs/cgroup/stackmem").exists()
    assert not Path("/sys/fs/cgroup/cpu/stackmem").exists()


@hostile(*layered_too(CONFINED), documented=("none",))
def test_devices_of_the_host_cannot_be_opened(place, level, opened):
    names = ("kmsg", "mem", "port", "vda", "sda", "nvme0n1", "kvm", "fuse", "loop0", "loop-control", "net/tun")
    with opened(place, level) as workspace:
        done = sh(
            workspace, "\n".join(f"(head -c1 /dev/{name} || : > /dev/{name}) && echo DONE: {name}" for name in names)
        )
    assert "DONE" not in done.text


@hostile(*layered_too(MOUNTED, imaged=False), moot=("namespaces", "landlock", "none"))
def test_no_file_system_of_the_sandbox_but_the_sized_ones_can_be_filled(place, level, opened):
    with opened(place, level) as workspace:
        done = sh(
            workspace,
            "for d in / /dev /dev/pts /proc /run /opt /opt/stackmem /var /mnt /workspace/..;"
            "do echo x > $d/x && echo DONE $d; done",
        )
    assert "DONE" not in done.text


@hostile(*layered_too(CONTAINED), documented=("landlock", "none"))
def test_no_root_or_folder_of_a_process_leads_out(place, level, opened):
    there = outside(place)
    with opened(place, level) as workspace:
        done = sh(
            workspace,
            f"cat /proc/1/root{there}/file /proc/*/root{there}/file /proc/self/cwd/../outside/file ../outside/file",
        )
    assert SECRET not in done.text
    assert done.failed


@hostile(*layered_too(CONFINED, imaged=False), documented=("none",))
def test_commands_side_by_side_share_the_workspace_and_not_tmp(place, level, opened):
    with opened(place, level) as workspace:
        texts = {}

        def work(name: str) -> None:
            texts[name] = sh(
                workspace, f"echo {name} > $TMPDIR/mine; echo {name} > {name}; sleep 0.3; cat $TMPDIR/mine"
            ).text

        threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert texts == {"one": "one\n[exit 0]", "two": "two\n[exit 0]"}
        assert sh(workspace, "cat one two; ls -A $TMPDIR/mine").text.startswith("one\ntwo\nls: ")


@hostile(*BUBBLEWRAP, moot=("namespaces", "landlock", "none"))
def test_a_command_cannot_flip_git_under_the_mounts_of_the_next_one(place, level, opened):
    victim = place / "victim"
    victim.mkdir()
    flip = (  # for about a second
        "mkdir -p real/hooks; touch real/config; ln -s /oldroot" + str(victim) + " link; end=$((SECONDS+1));"
        "while [ $SECONDS -lt $end ]; do mv -T real .git; mv -T .git real; mv -T link .git; mv -T .git link; done"
    )
    with opened(place, level) as workspace:
        thread = threading.Thread(target=sh, args=(workspace, flip))
        thread.start()
        codes = [sh(workspace, "true").exit_code for _ in range(8)]
        thread.join()
    assert codes == [0] * 8
    assert os.listdir(victim) == []


@hostile(*layered_too(ALL))
def test_a_workspace_behind_a_swapped_link_is_still_the_folder_that_was_opened(place, level, opened):
    there = outside(place)
    with opened(place, level) as workspace:
        (place / "ws").rename(place / "moved")
        (place / "ws").symlink_to(there)
        if level in MOUNTED:
            assert sh(workspace, "echo x > written").exit_code == 0
            assert os.listdir(f"/proc/self/fd/{workspace.files.fd}") == ["written"]
            assert os.listdir(place / "moved") == ([] if level == LAYERED else ["written"])
        else:
            sh(workspace, "echo x > written")
        assert os.listdir(there) == ["file"]


@hostile(*MOUNTED)
def test_ordinary_jobs_work(place, level, opened):
    memory = (
        "from multiprocessing import shared_memory as s; m = s.SharedMemory(create=True, size=9); m.close(); m.unlink()"
    )
    jobs = [
        "python -c 'import ssl, sqlite3, ctypes, hashlib'",
        "python -m venv --without-pip v && v/bin/python -V",
        "python -c 'import multiprocessing as m; print(m.get_context(\"fork\").Pool(2).map(abs, [-1]))'",
        f"python -c '{memory}'",
        "python -c 'import asyncio; asyncio.run(asyncio.sleep(0))'",
        "date; locale; ls -la /; find /etc -type f | wc -l",
        "printf 'b\\na\\n' | sort | tr a-z A-Z | sed s/A/x/ | awk '{print $1}' | grep x",
        "echo x > packed && tar cf t.tar packed && tar tf t.tar",
        "mkfifo f; (echo x > f &) ; cat f",
        "trap 'exit 0' TERM; kill -TERM $$; sleep 5",
        "timeout 0.2 sleep 9; [ $? = 124 ]",
    ]
    if shutil.which("gcc"):
        jobs.append("echo 'int main(){return 0;}' > m.c && gcc m.c -o m && ./m")
    if shutil.which("node"):
        jobs.append('node -e \'new (require("worker_threads").Worker)("1", {eval: true})\'')
    if level == "bubblewrap":
        jobs += ["cat <(echo x)", "ps aux | grep -q ps"]
    with opened(place, level) as workspace:
        for job in jobs:
            done = sh(workspace, job)
            assert not done.failed, (job, done.text)


@hostile(LAYERED, moot=("namespaces", "landlock", "none"))
def test_a_failed_rename_of_a_lower_folder_is_explained_with_a_fix(place, level, opened):
    (place / "ws" / "d").mkdir(parents=True)
    (place / "ws" / "d" / "file").write_text("kept")
    (place / "ws" / "swap.py").write_text(
        "import ctypes, os\n"
        "ctypes.CDLL(None, use_errno=True).renameat2(-100, b'd', -100, b'e', 2)  # RENAME_EXCHANGE\n"
        "raise SystemExit(os.strerror(ctypes.get_errno()))\n"
    )
    with opened(place, level) as workspace:
        *_, told, last = sh(workspace, "mkdir e; python swap.py").text.splitlines()
        assert told == "(this folder cannot be renamed in one step; mv, or cp -r and rm -r, work)"
        assert last == "[exit 1]"
        assert sh(workspace, "rmdir e && mv d e && cat e/file && mv e d").text == "kept\n[exit 0]"
        assert sh(workspace, "echo Invalid cross-device link").text == "Invalid cross-device link\n[exit 0]"
    assert os.listdir(place / "ws" / "d") == ["file"]
