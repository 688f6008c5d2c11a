import errno
import os
import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.foreign.beneath import open_by_kernel, open_by_walk, opener_for
from tests.workspace.people import for_everyone
from tests.workspace.scenes import OPENERS, each_opener

HERE, OUT, GONE, LOOP, FILE, LONG = "here", errno.EXDEV, errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENAMETOOLONG

# A chain of 18: the kernel may walk a path twice and counts the links of both walks towards its limit of 40.
CASES = {
    "file": HERE, ".": HERE, "./file": HERE, "d": HERE, "d/": HERE, "d//inner": HERE, "d/./inner": HERE,
    "d/../file": HERE, "d/..": HERE, "d/deep/../../file": HERE, "d/../d/../d/inner": HERE,
    "..": OUT, "../": OUT, "../file": OUT, "d/../..": OUT, "d/../../file": OUT, "../root/file": OUT, "/": OUT,
    "/etc/passwd": OUT, "../" * 30: OUT,
    "gone": GONE, "gone/..": GONE, "d/gone/x": GONE, "": GONE, "~": GONE, "$HOME": GONE, "*": GONE, "%2e%2e/file": GONE,
    "file/": FILE, "file/x": FILE, "file/..": FILE, "file/.": FILE,
    "to_file": HERE, "to_dir": HERE, "to_dir/": HERE, "to_dir/inner": HERE, "to_dir/../file": HERE,
    "to_here/file": HERE, "d/up_and_back": HERE, "to_file/": FILE, "to_file/..": FILE, "d/to_slash": HERE,
    "to_out": OUT, "to_out/": OUT, "to_out/file": OUT, "to_etc": OUT, "to_etc/passwd": OUT, "to_self": OUT,
    "d/to_above": OUT, "d/to_above/root/file": OUT, "to_nowhere": GONE, "to_out_nowhere": OUT, "to_zero": OUT,
    "loop": LOOP, "loop/x": LOOP, "ring_a": LOOP, "chain18": HERE, "chain40": LOOP,
    "n" * 255: GONE, "n" * 256: LONG, "x/" * 2047 + "y": GONE, "x/" * 2048: LONG, "./" * 2047: HERE,
    "bad\0file": errno.EINVAL,
}  # fmt: skip

LINKS = {
    "to_file": "file", "to_dir": "d", "to_here": ".", "d/up_and_back": "../d/inner", "d/to_slash": "deep/",
    "to_out": "../outside", "to_etc": "/etc", "d/to_above": "../..", "to_nowhere": "nowhere",
    "to_out_nowhere": "../nowhere", "to_zero": "/dev/zero", "loop": "loop", "ring_a": "ring_b",
    "ring_b": "ring_a", "chain0": "file",
}  # fmt: skip


def build(place):
    root = place / "root"
    (root / "d" / "deep").mkdir(parents=True)
    (place / "outside").mkdir()
    for name in ("root/file", "root/d/inner", "outside/file"):
        (place / name).write_text(name)
    for name, target in LINKS.items():
        (root / name).symlink_to(target)
    (root / "to_self").symlink_to(root)  # absolute, therefore outside
    for number in range(1, 41):
        (root / f"chain{number}").symlink_to(f"chain{number - 1}")
    return os.open(root, os.O_PATH | os.O_DIRECTORY)


def what_comes(opener, root, path, flags=os.O_RDONLY):
    """Return ``here`` with the identity of the opened file, or the error number."""
    try:
        fd = opener(root, path.encode(), flags)
    except OSError as error:
        return error.errno
    status = os.fstat(fd)
    os.close(fd)
    return HERE, status.st_ino


@each_opener
@for_everyone
def test_each_path_leads_where_it_should(place, opener):
    root = build(place)
    found = {path: what_comes(opener, root, path) for path in CASES}
    assert {path: came if isinstance(came, int) else came[0] for path, came in found.items()} == CASES


@pytest.mark.skipif(bool(OPENERS[0].marks[0].args[0]), reason="openat2 is refused here")
@for_everyone
def test_both_openers_open_the_same_thing_with_every_set_of_flags(place):
    root = build(place)
    for flags in (os.O_RDONLY, os.O_PATH, os.O_PATH | os.O_DIRECTORY, os.O_PATH | os.O_NOFOLLOW, os.O_NOFOLLOW):
        for path in CASES:
            both = [what_comes(opener, root, path, flags) for opener in (open_by_kernel, open_by_walk)]
            assert both[0] == both[1], (path, flags)


@pytest.mark.skipif(bool(OPENERS[0].marks[0].args[0]), reason="openat2 is refused here")
def test_both_openers_agree_on_any_path_put_together_from_hostile_parts(tmp_path):
    root = build(tmp_path)
    parts = st.sampled_from(
        ["", ".", "..", "d", "deep", "file", "inner", "gone", *(name.split("/")[-1] for name in LINKS)]
    )

    @given(st.lists(parts, max_size=8).map("/".join))
    def agree(path):
        assert what_comes(open_by_kernel, root, path) == what_comes(open_by_walk, root, path)

    agree()


@each_opener
@for_everyone
def test_a_directory_that_may_not_be_searched_is_refused_as_the_kernel_refuses_it(place, opener):
    root = build(place)
    (place / "root" / "d").chmod(0o600)
    wanted = HERE if os.geteuid() == 0 else errno.EACCES
    for path in ("d/inner", "d/..", "d/.", "d/deep/.."):
        came = what_comes(opener, root, path)
        assert (came if isinstance(came, int) else came[0]) == wanted, path


@each_opener
def test_no_descriptor_is_left_open_and_none_is_inherited(tmp_path, opener):
    root = build(tmp_path)
    before = os.listdir("/proc/self/fd")
    for path in CASES:
        what_comes(opener, root, path)
    assert os.listdir("/proc/self/fd") == before
    fd = opener(root, b"d/../file", os.O_RDONLY)
    assert not os.get_inheritable(fd)
    os.close(fd)


@for_everyone
def test_the_walk_gives_an_error_where_a_path_has_more_levels_than_descriptors(place):
    root = build(place)
    deep = root
    for _ in range(600):
        os.mkdir("a", dir_fd=deep)
        below = os.open("a", os.O_PATH, dir_fd=deep)
        if deep != root:
            os.close(deep)
        deep = below
    os.close(deep)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 100, limits[1]))
    try:
        assert what_comes(open_by_walk, root, "a/" * 600) == errno.EMFILE
        assert len(os.listdir("/proc/self/fd")) == used
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_the_kernels_way_is_taken_where_it_is_to_be_had_and_the_walk_elsewhere(tmp_path):
    root = build(tmp_path)
    assert opener_for(root) in {open_by_kernel, open_by_walk}
    os.close(root)
    assert opener_for(root) is open_by_walk  # any error of openat2, including a refusal by a filter
