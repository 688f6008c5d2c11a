"""How the machine's package manager settings become list entries, and the settings their programs get inside."""

import base64
import json

import pytest

from stackmem.core.errors import UsageError
from stackmem.workspace.egress.registries import machine_registries

DEFAULTS = "https://index.test/simple\nhttps://files.test\n"


def machine(pip="", npm="", apt="", defaults=DEFAULTS):
    """Programs that print this text; an empty text means that the program is missing."""

    def run(command):
        words = " ".join(command)
        if "pip config list" in words:
            return pip
        if "pip._internal" in words:
            return defaults
        return npm if command[0] == "npm" else apt

    return run


def found(environ=None, address="93.184.216.34", **said):
    return machine_registries(environ or {}, machine(**said), lambda *_: [address])


def spelled(registries):
    return [host.spelled for host in registries.hosts]


def test_a_machine_without_settings_has_the_defaults_of_its_own_programs():
    registries = found(npm='{"registry": "https://npm.test/"}', apt="http://deb.test/debian/\nhttps://more.test/x\n")
    assert spelled(registries) == [
        "index.test:443", "files.test:443", "npm.test:443", "http://deb.test:80", "more.test:443",
    ]  # fmt: skip
    assert registries.variables == {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "npm_config_registry": "https://npm.test/"}


def test_settings_of_pip_lead_pip_in_the_sandbox_and_the_variable_counts_most():
    pip = (
        "global.index-url='https://global.test/simple'\n"
        ":env:.index-url='https://own.test:8443/simple'\n"
        "global.extra-index-url='\\nhttps://more.test/simple\\nfile:///opt/wheels'\n"
        "global.find-links='/opt/wheels'\n"
    )
    registries = found(pip=pip)
    assert spelled(registries) == ["own.test:8443", "more.test:443"]
    assert registries.variables["PIP_INDEX_URL"] == "https://own.test:8443/simple"
    assert registries.variables["PIP_EXTRA_INDEX_URL"] == "https://more.test/simple"


def test_folders_that_pip_looks_into_as_well_leave_its_default_alone():
    registries = found(pip="global.extra-index-url='file:///opt/simple'\n")
    assert spelled(registries) == ["index.test:443", "files.test:443"]
    assert not any(name.startswith(("PIP_INDEX", "PIP_EXTRA")) for name in registries.variables)


def test_a_login_in_an_address_stays_outside():
    registries = found(pip="global.index-url='https://ann:s%40cret@own.test/simple'\n", defaults=DEFAULTS)
    assert spelled(registries) == ["https://own.test:443", "own.test:443"]
    login = base64.b64encode(b"ann:s@cret").decode()
    assert registries.headers == {"own.test": (("Authorization", f"Basic {login}"),)}
    assert registries.variables["PIP_INDEX_URL"] == "http://own.test/simple"
    assert registries.variables["PIP_TRUSTED_HOST"] == "own.test"
    assert "cret" not in str(registries.variables) + str(registries.hosts)


def test_scopes_of_npm_are_listed_too():
    npm = json.dumps({"registry": "https://npm.test/", "@team:registry": "https://ann:secret@team.test/npm/", "x": 1})
    registries = found(npm=npm, defaults="")
    assert spelled(registries) == ["npm.test:443", "https://team.test:443", "team.test:443"]


def test_a_registry_in_the_machines_own_network_is_pinned_to_where_it_is():
    assert spelled(found(defaults="https://index.test/simple", address="10.1.2.3")) == ["index.test:443=10.1.2.3:443"]


def test_only_certificates_that_commands_can_read_are_named_to_them():
    environ = {"PIP_CERT": "/etc/ssl/certs/ours.crt", "SSL_CERT_FILE": "/home/ann/ours.crt"}
    variables = found(environ).variables
    assert variables["PIP_CERT"] == "/etc/ssl/certs/ours.crt"
    assert "SSL_CERT_FILE" not in variables


@pytest.mark.parametrize(
    "npm", ["", "[]", "{", '{"registry": null}', '{"registry": "file:///x"}', '{"registry": "//["}']
)
def test_a_machine_that_names_none_is_told_apart(npm):
    with pytest.raises(UsageError, match="pip, npm and apt on this machine"):
        found(npm=npm, defaults="")


def test_a_registry_whose_name_leads_nowhere_stays_on_the_list():
    def nowhere(*_):
        raise OSError

    registries = machine_registries({}, machine(), nowhere)
    assert spelled(registries) == ["index.test:443", "files.test:443"]
