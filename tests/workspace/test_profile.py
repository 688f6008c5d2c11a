"""The sandbox profile is parsed strictly, and the checkout's file matches the package's behavior."""

from pathlib import Path

import pytest

from stackmem.core.errors import UsageError
from stackmem.workspace.profile import Mount, Profile, read_profile

CHECKED_IN = Path(__file__).parents[2] / "sandbox" / "profile.toml"


def test_the_checked_in_profile_spells_out_every_default():
    assert read_profile(CHECKED_IN) == Profile()
    text = CHECKED_IN.read_text()
    assert [name for name in Profile.__struct_fields__ if f"\n{name} = " not in text] == []


def test_a_file_overrides_single_keys(tmp_path):
    file = tmp_path / "profile.toml"
    file.write_text(
        'network = "host"\ncommand_seconds = 5\nenv = ["CI_NODE"]\n[[mounts]]\nhost = "/opt/x"\ninside = "/opt/y"\n'
    )
    expected = Profile(network="host", command_seconds=5.0, env=("CI_NODE",), mounts=(Mount("/opt/x", "/opt/y"),))
    assert read_profile(file) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("netwrok = 'none'", "netwrok"),
        ("network = 'some'", "network"),
        ("network = true", "network"),
        ("process_limit = '512'", "process_limit"),
        ("process_limit = 1.5", "process_limit"),
        ("process_limit = 0", "process_limit"),
        ("memory_mib = -1", "memory_mib"),
        ("command_seconds = nan", "command_seconds"),
        ("command_seconds = inf", "command_seconds"),
        ("env = ['OPENAI_API_KEY']", "OPENAI_API_KEY looks like a secret"),
        ("env = ['LD_PRELOAD']", "LD_PRELOAD controls"),
        ("env = 'CI'", "env"),
        ("path = ['bin']", "path"),
        ("path = ['/a:/b']", "path"),
        ("[[mounts]]\nhost = '/a'\ninside = 'b'", "inside"),
        ("[[mounts]]\nhost = '/a/../b'\ninside = '/b'", "host"),
        ("[[mounts]]\nhost = '/a'\ninside = '/b'\nwritable = true", "read-only"),
        ("[[mounts]]\nhost = '/a'", "inside"),
        ("[[mounts]]\nhost = '/a'\ninside = '/b'\nmode = 1", "mode"),
        ("mounts = {}", "mounts"),
        ("process_limit = ", "not TOML"),
        ("\xff", "not TOML"),
    ],
)
def test_a_mistake_is_named_with_its_file_and_key(tmp_path, text, said):
    file = tmp_path / "profile.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError) as caught:
        read_profile(file)
    assert str(file) in str(caught.value)
    assert said in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_missing_profile_or_a_folder_is_named(tmp_path):
    for path in (tmp_path / "missing.toml", tmp_path):
        with pytest.raises(UsageError, match="name a readable profile"):
            read_profile(path)
