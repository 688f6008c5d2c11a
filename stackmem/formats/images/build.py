"""Builds an image from a Dockerfile. Each step that changes files is a layer, cached by its inputs.

Rule 1: Unsupported steps are detected before the first step runs.
Rule 2: RUN uses the same sandbox as commands, with its own root and the network that the user permits.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path, PurePosixPath

from msgspec import Struct, structs

from stackmem.core.errors import UsageError
from stackmem.core.text import tail
from stackmem.foreign.tree import drop_privileges
from stackmem.workspace.clip import clean
from stackmem.workspace.command import run
from stackmem.workspace.egress.network_list import NetworkList
from stackmem.workspace.image import Image, ImageConfig
from stackmem.workspace.isolation.launch import Seat
from stackmem.workspace.overlay.view import folder_view
from stackmem.workspace.profile import Profile
from stackmem.workspace.python import Toolchain

from .bases import base_of_engine, build_with_engine, engine
from .copying import copy_in, copy_out, ignored_by, in_context, open_folder, unpacked, written
from .recipe import RecipeStep, arguments, bases_of, filled_in, needs_engine, pairs, read_recipe, unquoted, why_not
from .root import ImageRoot, passing_root, shell_of, user_of
from .rooted import Rooted
from .store import ImageStore, text_digest, tree_digest

_APT = "APT_CONFIG"
_APT_CONFIG = 'APT::Sandbox::User "root";\n'
"""The sandbox has only one user, so apt cannot switch to another one for downloads."""
_TRUST = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS")
_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
"""The certificates that this machine trusts, including any TLS-inspecting proxy in front of its registries."""
_SHOWN_CHARS = 3_000


class BuildFailed(UsageError):  # noqa: N818 - named like the errors in stackmem.core.errors
    """A step is not supported or failed."""


class BuildRules(Struct, frozen=True):
    """How steps are run."""

    profile: Profile  # limits and network; ``command_seconds`` is the time limit of one step
    network_list: NetworkList | None = None
    args: Mapping[str, str] = {}  # build arguments that override those of the Dockerfile
    tell: Callable[[str], object] = str  # called with one line for each step


class ImageSource(Struct, frozen=True):
    """Source of an image."""

    context: Path  # the folder that COPY copies from
    recipe: Path | None = None  # the Dockerfile; None to use a base unchanged
    base: str = ""  # the name of that base
    # workdir, env: override the recipe if given
    workdir: str = ""
    env: Mapping[str, str] = {}

    def steps(self) -> tuple[RecipeStep, ...]:
        return read_recipe(self.recipe) if self.recipe is not None else (RecipeStep("FROM", (self.base,)),)


class _Stage(Struct):
    """A root being built: its layers, topmost first, their cache key, and the settings for the next step."""

    layers: tuple[str, ...]
    digest: str
    config: ImageConfig
    args: dict[str, str]

    @property
    def variables(self) -> dict[str, str]:
        return {**self.args, **self.config.env}


def why_not_built(store: ImageStore, source: ImageSource) -> list[str]:
    """Return messages about known obstacles to building the image here."""
    try:
        steps = source.steps()
    except UsageError as error:
        return [str(error)]
    if reason := needs_engine(steps):
        return [] if engine() else [reason]
    obstacles = [f"line {step.line}: {reason}" for step in steps if (reason := why_not(step))]
    missing = [] if engine() else [name for name in bases_of(steps) if store.base(name) is None]
    return obstacles + [no_base(store, name) for name in missing]


def no_base(store: ImageStore, name: str) -> str:
    plain, at, pin = name.partition("@")
    if not at:
        return f"the base {name} is missing; add it with --base {name}=ROOT.tar"
    stored = store.base(plain)
    pins = ", ".join(stored.pins) or "no known digest" if stored is not None else ""
    other = f" (the stored base {plain} has {pins})" if pins else ""
    return (
        f"the base {plain} with the digest {pin}{other} is missing; "
        f"add its docker save archive with --base {name}=SAVED.tar"
    )


def source_digest(store: ImageStore, source: ImageSource) -> str:
    """Return the digest under which the image is stored. It changes with the bases and all files."""
    steps = source.steps()
    bases = [base.digest if (base := store.base(name)) else "missing" for name in bases_of(steps)]
    env = [word for pair in sorted(source.env.items()) for word in pair]
    files = tree_digest(source.context) if source.context.is_dir() else ""
    recipe = source.recipe.name if source.recipe else source.base
    return text_digest("image-1", recipe, source.workdir, files, *bases, *env)


def build_image(store: ImageStore, source: ImageSource, rules: BuildRules) -> Image:
    """Build the image of a source, reusing existing layers.

    Raise BuildFailed if a base is missing, or a step is not possible or failed. Raise WorkspaceError if no sandbox is
    available for its steps.
    """
    for name in bases_of(source.steps()):
        if store.base(name) is None:
            base_of_engine(store, name)
    hindrances = why_not_built(store, source)
    hindrances += [no_base(store, name) for name in bases_of(source.steps()) if store.base(name) is None and engine()]
    if hindrances:
        raise BuildFailed("; ".join(hindrances))
    with store.locked():
        digest = source_digest(store, source)
        if (cached := store.image(digest)) is not None:
            return cached
        try:
            if needs_engine(source.steps()) and source.recipe is not None:
                rules.tell(f"{engine()} builds {source.recipe.name}, with its own network")
                base = build_with_engine(store, source.recipe, source.context, rules.args)
                source = structs.replace(source, recipe=None, base=base.name)
        except UsageError as error:
            raise BuildFailed(str(error)) from error
        image = _Build(store, source, rules).image(digest)
        store.keep_image(image)
        return image


class _Build:
    def __init__(self, store: ImageStore, source: ImageSource, rules: BuildRules) -> None:
        self._store, self._source, self._rules = store, source, rules
        self._global: dict[str, str] = {}
        self._leaves = ignored_by(source.context)
        rules_file = source.context / ".dockerignore"
        self._left_out = tree_digest(rules_file) if rules_file.is_file() else ""

    def image(self, digest: str) -> Image:
        steps = self._source.steps()
        stage: _Stage | None = None
        for step in steps:
            try:
                if step.word == "FROM":
                    stage = self._first_stage(step)
                elif stage is None:
                    self._global.update(arguments(step))
                else:
                    self._carry_out(step, stage)
            except UsageError as error:
                raise BuildFailed(f"line {step.line}: {step.text()}: {error}") from error
        assert stage is not None  # noqa: S101 - a recipe without FROM was rejected earlier
        return self._finished(stage, digest)

    def _first_stage(self, step: RecipeStep) -> _Stage:
        name = filled_in(step.values[0], self._global | dict(self._rules.args))
        self._rules.tell(f"FROM {name}")
        if (base := self._store.base(name)) is None:
            raise UsageError(no_base(self._store, name))
        if base.pins and "@" not in name and self._source.recipe is not None:
            self._rules.tell(f"{name} has the digest {base.pins[0]}; to pin it: FROM {name}@{base.pins[0]}")
        layers = tuple(dict.fromkeys((base.root, str(self._store.skeleton()))))
        return _Stage(layers, text_digest("base", base.digest), base.config, {})

    def _carry_out(self, step: RecipeStep, stage: _Stage) -> None:
        filled = [filled_in(value, stage.variables) for value in step.values]
        config = stage.config
        match step.word:
            case "ARG":
                self._argue(step, stage)
            case "ENV":
                new = {name: filled_in(value, stage.variables) for name, value in pairs(step.values)}
                stage.config = structs.replace(config, env={**config.env, **new})
            case "WORKDIR":
                workdir = os.path.normpath(PurePosixPath(config.workdir, unquoted(filled[0])))
                stage.config = structs.replace(config, workdir=workdir)
                self._layer(step, stage, (workdir,), lambda root: os.close(open_folder(root.view.fd, workdir)))
            case "USER":
                stage.config = structs.replace(config, user=filled[0])
            case "SHELL":
                stage.config = structs.replace(config, shell=step.values)
            case "RUN":
                self._rules.tell(step.text())
                self._layer(step, stage, _ran(step), lambda root: self._run(step, stage, root))
            case "COPY" | "ADD":
                self._rules.tell(step.text())
                self._copy(step, stage, filled)

    def _argue(self, step: RecipeStep, stage: _Stage) -> None:
        defaults = arguments(step)
        for value in step.values:
            name = value.partition("=")[0]
            default = filled_in(defaults[name], stage.variables) if name in defaults else self._global.get(name)
            argument = self._rules.args.get(name, default)
            if argument is not None:
                stage.args[name] = argument

    def _layer(
        self, step: RecipeStep, stage: _Stage, words: tuple[str, ...], change: Callable[[ImageRoot], object]
    ) -> None:
        """Add a layer with what ``change`` writes into the root, or the cached layer of the same change."""
        config, args = stage.config, (f"{name}={value}" for name, value in sorted(stage.args.items()))
        env = (f"{name}={value}" for name, value in sorted(config.env.items()))
        inputs = (step.word, *words, config.user, config.workdir, *config.shell, *env, *args)
        stage.digest = text_digest(
            "layer", stage.digest, *inputs, self._rules.profile.network if step.word == "RUN" else ""
        )

        def fill(folder: Path) -> None:
            network = self._rules.profile.network if step.word == "RUN" else "none"
            with passing_root(self._store, self._image(stage), network) as (root, path):
                change(root)
                root.close()
                drop_privileges(path / "upper")
                folder.rmdir()
                (path / "upper").rename(folder)

        stage.layers = (str(self._store.folder_of("layers", stage.digest, fill)), *stage.layers)

    def _copy(self, step: RecipeStep, stage: _Stage, filled: list[str]) -> None:
        *sources, target = filled
        location = os.path.normpath(PurePosixPath(stage.config.workdir, target))
        location += "/" if target.endswith(("/", "/.")) or target == "." else ""
        mode = int(step.flags["chmod"], 8) if step.flags.get("chmod", "").isdecimal() else None
        with ExitStack() as stack:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stackmem-copy-")))
            paths: list[Path] = []
            for source in sources:
                if source.startswith("<<"):
                    paths.append(written(scratch, source, step, stage.variables))
                else:
                    paths += in_context(self._source.context, source, self._leaves)
            if step.word == "ADD":
                paths = [unpacked(path, self._source.context, scratch) for path in paths]
            digest = tree_digest(*paths)

            def change(root: ImageRoot) -> None:
                copy_in(paths, root.view.fd, location, many=len(sources) > 1, mode=mode, leaves=self._leaves)

            self._layer(step, stage, (*filled, digest, str(mode), self._left_out), change)

    def _run(self, step: RecipeStep, stage: _Stage, root: ImageRoot) -> None:
        rules = self._rules
        if rules.profile.network == "list" and rules.network_list is None:
            raise UsageError("the network is a list, but no host is listed")
        with closing(folder_view(self._store.folder)) as view:
            lent = {"stackmem-apt.conf": _APT_CONFIG, **_certificates(rules.profile)}
            names = (_APT, *(_TRUST if len(lent) > 1 else ()))
            variables = dict.fromkeys(names, "/run/stackmem-ca.crt") | {_APT: "/run/stackmem-apt.conf"}
            seat = Seat(
                self._store.folder, view.fd, stage.config.workdir, rules.profile, (),
                {"DEBIAN_FRONTEND": "noninteractive", **variables, **stage.args},
                Toolchain("/usr", "/usr"), self._store.folder, binds_git=False, network_list=rules.network_list,
            )  # fmt: skip
            fd = open_folder(root.view.fd, "/run")
            for name, text in lent.items():
                _put(fd, name, text)
            ended = run(Rooted(root), seat, _line(step), rules.profile.command_seconds)
            for name in lent:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=fd)
            os.close(fd)
        if ended.exit_code != 0:
            output = tail(clean(b"".join(ended.capture.parts())), 40, _SHOWN_CHARS)
            hint = "" if rules.profile.network != "none" else " (it ran without a network; --network allows one)"
            raise UsageError(f"ended with {ended.reason or f'exit {ended.exit_code}'}{hint}\n{output}")

    def _image(self, stage: _Stage) -> Image:
        """Return the current root, for the next step."""
        uid, home = user_of(stage.layers, stage.config.user)
        return Image("", stage.layers, stage.config, "", uid, home, stage.config.shell or shell_of(stage.layers))

    def _finished(self, stage: _Stage, digest: str) -> Image:
        source = self._source
        workdir = os.path.normpath(PurePosixPath(stage.config.workdir, source.workdir or "."))
        config = structs.replace(stage.config, workdir=workdir, env={**stage.config.env, **source.env})
        stage.config = config
        files = self._files(stage, digest)
        return structs.replace(self._image(stage), digest=digest, config=config, files=str(files))

    def _files(self, stage: _Stage, digest: str) -> Path:
        """Return a copy of the working directory's content, which a run starts with."""

        def fill(folder: Path) -> None:
            if stage.config.workdir == "/":  # then a run starts in an empty folder
                return
            with passing_root(self._store, self._image(stage)) as (root, _):
                copy_out(root.view.fd, stage.config.workdir, folder)

        return self._store.folder_of("files", digest, fill)


def _certificates(profile: Profile) -> dict[str, str]:
    if profile.network == "none" or not _BUNDLE.is_file():
        return {}
    return {"stackmem-ca.crt": _BUNDLE.read_text("utf-8", "replace")}


def _put(folder: int, name: str, text: str) -> None:
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644, dir_fd=folder)
    os.write(fd, text.encode())
    os.close(fd)


def _ran(step: RecipeStep) -> tuple[str, ...]:
    return (*step.values, *(word for pair in step.texts.items() for word in pair))


def _line(step: RecipeStep) -> str:
    """Return the shell line of RUN. A here-document is its script or its input."""
    if step.listed:
        return f"exec {shlex.join(step.values)}"
    line = " ".join(step.values)
    if not step.texts:
        return line
    texts = {name: text.replace("\\$", "$").replace("\\\\", "\\") for name, text in step.texts.items()}
    name, text = next(iter(texts.items()))
    if line.strip().strip("\"'") in (f"<<{name}", f"<<-{name}"):
        return text
    return line + "\n" + "".join(f"{text}{name}\n" for name, text in texts.items())
