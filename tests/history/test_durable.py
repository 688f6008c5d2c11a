"""Files are synced one by one on systems that cannot sync a whole file system."""

import pytest

from stackmem.history.durable import _force, make_durable


def test_files_folders_and_devices_can_be_forced(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path, "/dev/null"):
        _force(str(path))
    make_durable([str(tmp_path / "file")], tmp_path)
    assert (tmp_path / "file").read_text() == "x"


def test_a_folder_that_is_gone_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        make_durable([], tmp_path / "gone")
