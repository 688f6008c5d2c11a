"""A recipe's base that is pinned by digest is exactly that base, or the build is refused."""

import gzip
import hashlib
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.formats.images import bases
from stackmem.formats.images.bases import add_base, base_of_engine
from stackmem.formats.images.build import (
    BuildFailed,
    BuildRules,
    ImageSource,
    build_image,
    source_digest,
    why_not_built,
)
from stackmem.formats.images.store import ImageStore
from stackmem.workspace.image import Image
from stackmem.workspace.profile import Profile
from tests.stage import with_bubblewrap
from tests.workspace.roots import small_base

OTHER = f"sha256:{'0' * 64}"


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def packed(path: Path, root: Path) -> bytes:
    with tarfile.open(path, "w") as archive:
        archive.add(root, ".")
    return path.read_bytes()


class Saved:
    """An archive as ``docker save`` writes it, of an image for several platforms."""

    def __init__(self, place: Path, root: Path, pack: Callable[[bytes], bytes] = bytes) -> None:
        self.files: dict[str, bytes] = {}
        plain = packed(place / "layer.tar", root)
        self.layer = self._blob(pack(plain))
        self.config = self._blob(self._json({"config": {}, "rootfs": {"diff_ids": [digest(plain)]}}))
        self.manifest = self._blob(self._json({"config": {"digest": self.config}, "layers": []}))
        self.index = self._blob(self._json({"manifests": [{"digest": OTHER}, {"digest": self.manifest}]}))
        self.files["index.json"] = self._json({"manifests": [{"digest": self.index}]})
        told = [{"Config": self._name(self.config), "Layers": [self._name(self.layer)]}]
        self.files["manifest.json"] = self._json(told)

    def _json(self, value: object) -> bytes:
        return json.dumps(value).encode()

    def _name(self, of: str) -> str:
        return f"blobs/{of.replace(':', '/')}"

    def _blob(self, content: bytes) -> str:
        self.files[self._name(digest(content))] = content
        return digest(content)

    def write(self, path: Path, **changed: bytes) -> Path:
        with tarfile.open(path, "w") as archive:
            for name, content in self.files.items():
                new = changed.get(next((key for key in changed if name == self._name(getattr(self, key))), ""), content)
                file = path.parent / "file"
                file.write_bytes(new)
                archive.add(file, name)
        return path


@pytest.fixture
def root(tmp_path) -> Path:
    return small_base(tmp_path / "root")


@pytest.fixture
def store(tmp_path, monkeypatch) -> ImageStore:
    monkeypatch.setattr(bases, "engine", lambda: "")
    monkeypatch.setattr("stackmem.formats.images.build.engine", lambda: "")
    return ImageStore(tmp_path / "store")


def hindrances(store: ImageStore, place: Path, named: str) -> list[str]:
    (place / "Dockerfile").write_text(f"FROM {named}\n")
    return why_not_built(store, ImageSource(place, place / "Dockerfile"))


def test_a_kept_base_does_not_satisfy_a_digest_that_it_does_not_have(tmp_path, store, root):
    add_base(store, f"small={root}")
    said = hindrances(store, tmp_path, f"small@{OTHER}")
    assert said == [
        f"the base small with the digest {OTHER} (the stored base small has no known digest) is missing; "
        f"add its docker save archive with --base small@{OTHER}=SAVED.tar"
    ]
    (tmp_path / "context").mkdir()
    (tmp_path / "context" / "Dockerfile").write_text(f"FROM small:latest@{OTHER}\n")
    source = ImageSource(tmp_path / "context", tmp_path / "context" / "Dockerfile")
    with pytest.raises(BuildFailed, match="the base small:latest with the digest"):
        build_image(store, source, BuildRules(Profile(command_seconds=60)))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_saved_image_has_the_digests_of_its_manifests_and_of_its_configuration(tmp_path, store, root, pack):
    saved = Saved(tmp_path, root, pack)
    base = add_base(store, f"small={saved.write(tmp_path / 'saved.tar')}")
    assert base.pins == (saved.index, saved.manifest, saved.config)
    for pin in base.pins:
        assert store.base(f"library/small@{pin}") == base
        assert hindrances(store, tmp_path, f"small@{pin}") == []
    assert store.base(f"small@{OTHER}") is None
    assert store.base("small@") is None
    assert store.base(f"small:1@{saved.index}") is None


def test_a_pinned_base_stays_beside_another_one_of_its_name(tmp_path, store, root):
    saved = Saved(tmp_path, root)
    path = saved.write(tmp_path / "saved.tar")
    pinned = add_base(store, f"small@{saved.manifest}={path}")
    assert store.base("small") is None
    plain = add_base(store, f"small={root}")
    assert store.base(f"small@{saved.manifest}") == pinned != plain == store.base("small")


def test_a_base_that_is_given_for_a_digest_must_have_it(tmp_path, store, root):
    saved = Saved(tmp_path, root).write(tmp_path / "saved.tar")
    for path, why in ((root, "only docker save archives"), (saved, "it has sha256:")):
        with pytest.raises(UsageError, match=f"does not have the digest {OTHER} .{why}"):
            add_base(store, f"small@{OTHER}={path}")
    assert store.bases() == []


@pytest.mark.parametrize("part", ["layer", "manifest", "index"])
def test_an_archive_that_contradicts_its_digests_is_refused(tmp_path, store, root, part):
    saved = Saved(tmp_path, root)
    evil = tmp_path / "evil"
    (evil / "bin").mkdir(parents=True)
    changed = {
        "layer": lambda: packed(tmp_path / "evil.tar", evil),
        "manifest": lambda: json.dumps({"config": {"digest": saved.config}}).encode(),
        "index": lambda: json.dumps({"manifests": [{"digest": saved.manifest}], "more": 1}).encode(),
    }[part]()
    with pytest.raises(WorkspaceError, match="not have the digest"):
        add_base(store, f"small={saved.write(tmp_path / 'evil.tar', **{part: changed})}")
    assert store.bases() == []


@pytest.mark.parametrize("index", [b"[]", b'{"manifests": [{}]}', b'{"manifests": 1}', b"[" * 100_000, b"no JSON"])
def test_an_archive_with_an_odd_index_is_refused(tmp_path, store, root, index):
    saved = Saved(tmp_path, root)
    saved.files["index.json"] = index
    with pytest.raises(UsageError, match=r"manifest\.json that is not from docker save"):
        add_base(store, f"small={saved.write(tmp_path / 'odd.tar')}")


PODMAN = """#!/bin/sh
case "$1 $4" in
  "info "*) ;;
  "create "*) case "$2" in *@*) [ "${{2#*@}}" = {pin} ] || exit 1;; esac; echo container;;
  "inspect container") case "$3" in *Image*) echo {image};; *) echo '{{"Env": ["A=b"]}}';; esac;;
  "image --format"*) exit 2;;
  "build "*) grep -q refused "$4" && {{ echo "step 2 failed" >&2; exit 1; }}; echo sha256:{image};;
  "export "*) cp {root} "$3";;
  "image "*) echo '["registry.example/small@{pin}"]';;
esac
"""


@pytest.fixture
def podman(tmp_path, root, monkeypatch) -> str:
    """An engine that has one image; returns its digest."""
    pin, image = digest(b"manifest"), digest(b"config")
    packed(tmp_path / "root.tar", root)
    program = tmp_path / "podman"
    program.write_text(PODMAN.format(pin=pin, image=image.removeprefix("sha256:"), root=tmp_path / "root.tar"))
    program.chmod(0o755)
    monkeypatch.setattr(bases, "engine", lambda: str(program))
    monkeypatch.setattr("stackmem.formats.images.build.engine", lambda: str(program))
    return pin


def test_the_digests_that_an_engine_reports_are_kept_and_hold(tmp_path, podman):
    store = ImageStore(tmp_path / "store")
    base = base_of_engine(store, "small")
    assert base is not None
    assert (base.pins, base.config.env) == ((podman, digest(b"config")), {"A": "b"})
    assert store.base(f"small@{podman}") == base
    assert base_of_engine(store, f"small@{OTHER}") is None
    fetched = base_of_engine(store, f"small:2@{podman}")
    assert fetched is not None
    assert store.base("small:2") is None


@with_bubblewrap
def test_a_build_prints_the_digest_of_a_base_that_is_not_pinned(tmp_path, podman):
    (tmp_path / "context").mkdir()
    (tmp_path / "context" / "Dockerfile").write_text("FROM small\n")
    told: list[str] = []
    source = ImageSource(tmp_path / "context", tmp_path / "context" / "Dockerfile")
    build_image(ImageStore(tmp_path / "store"), source, BuildRules(Profile(command_seconds=60), tell=told.append))
    assert told[:2] == ["FROM small", f"small has the digest {podman}; to pin it: FROM small@{podman}"]


def staged(place: Path, store: ImageStore, more: str, told: list[str]) -> Image:
    (place / "context").mkdir()
    (place / "context" / "Dockerfile").write_text(f"FROM nowhere AS first\nFROM other\n{more}")
    source = ImageSource(place / "context", place / "context" / "Dockerfile", workdir="/work")
    assert why_not_built(store, source) == []
    image = build_image(store, source, BuildRules(Profile(command_seconds=60), tell=told.append))
    assert store.image(source_digest(store, source)) == image
    return image


@with_bubblewrap
def test_a_build_in_several_stages_is_left_to_the_engine(tmp_path, podman):
    told: list[str] = []
    image = staged(tmp_path, ImageStore(tmp_path / "store"), "COPY --from=first /a /b\n", told)
    assert (image.config.env, image.config.workdir) == ({"A": "b"}, "/work")
    assert told[0].endswith("podman builds Dockerfile, with its own network")


def test_a_build_that_the_engine_refuses_says_what_it_printed(tmp_path, podman):
    with pytest.raises(BuildFailed, match=r"podman build ended with exit 1\nstep 2 failed"):
        staged(tmp_path, ImageStore(tmp_path / "store"), "RUN refused\n", [])
