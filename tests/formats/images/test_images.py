"""Images built from a Dockerfile, cached by their inputs, as root and as an ordinary user."""

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.formats.images.bases import add_base
from stackmem.formats.images.build import BuildFailed, BuildRules, ImageSource, build_image, why_not_built
from stackmem.formats.images.copying import written
from stackmem.formats.images.recipe import RecipeStep, filled_in, read_recipe
from stackmem.formats.images.store import ImageStore, base_name
from stackmem.workspace.profile import Profile
from tests.stage import with_bubblewrap
from tests.workspace.people import for_everyone
from tests.workspace.roots import small_base


def made(place: Path, recipe: str, files: dict[str, str] | None = None, **more):
    """Build the image of a Dockerfile over the small base; ``files`` has its content below /app."""
    context = place / "context"
    context.mkdir(exist_ok=True)
    for name, text in (files or {}).items():
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        (context / name).write_text(text)
    (context / "Dockerfile").write_text(recipe)
    store = ImageStore(place / "store")
    if store.base("small") is None:
        add_base(store, f"small={small_base(place / 'base')}")
    rules = BuildRules(Profile(command_seconds=60), **more)
    return build_image(store, ImageSource(context, context / "Dockerfile"), rules)


def text(image, name: str) -> str:
    return (Path(image.files) / name).read_text()


@with_bubblewrap
@for_everyone
def test_steps_are_carried_out_in_their_order_with_variables_and_users(place):
    recipe = """ARG BASE=small
FROM ${BASE} AS first
ARG GREETING=hi
ENV WHO=you BOTH="$GREETING $GREETING"
WORKDIR /usr/src/app
COPY . .
COPY --chmod=755 <<EOT run.sh
echo $WHO
EOT
RUN ./run.sh > said && echo "$BOTH" > both && chown dev said && id -u > root
USER dev
HEALTHCHECK CMD false
CMD ["run"]
RUN id -u > user; echo $HOME > home
"""
    image = made(place, recipe, {"a.txt": "a", "left/out": "x", ".dockerignore": "left\n"})
    assert (image.config.workdir, image.uid, image.home) == ("/usr/src/app", 1001, "/home/dev")
    found = {name: text(image, name) for name in ("a.txt", "said", "both", "root", "user", "home")}
    assert found == {
        "a.txt": "a", "said": "you\n", "both": "hi hi\n", "root": "0\n",
        "user": "1001\n", "home": "/home/dev\n",
    }  # fmt: skip
    assert not (Path(image.files) / "left").exists()


@with_bubblewrap
@for_everyone
def test_layers_are_kept_and_made_anew_only_from_the_step_that_changed(place):
    recipe = "FROM small\nWORKDIR /app\nRUN echo $RANDOM > once\nCOPY a .\nRUN cat a >> once\n"
    first = made(place, recipe, {"a": "1\n"})
    assert made(place, recipe, {"a": "1\n"}) == first
    second = made(place, recipe, {"a": "2\n"})
    assert text(second, "once").split()[0] == text(first, "once").split()[0]
    assert text(second, "once").split()[1] == "2"


@with_bubblewrap
@for_everyone
def test_a_step_that_fails_says_what_it_printed_and_leaves_no_image(place):
    with pytest.raises(BuildFailed, match=r"line 2: RUN echo help.*exit 3.*ran without a network(.|\n)*help"):
        made(place, "FROM small\nRUN echo help; exit 3\n")
    assert not list((place / "store").glob("images/*")) + list((place / "store").glob("*/.making-*"))


@with_bubblewrap
@for_everyone
def test_what_is_copied_goes_where_a_link_of_the_image_leads_inside_the_image(place):
    victim = place / "victim"
    victim.mkdir()
    for link in (str(victim), f"../../../..{victim}"):
        with pytest.raises(BuildFailed, match="is a broken link"):
            made(place, f"FROM small\nRUN ln -s {link} /out\nCOPY a /out/a\n", {"a": "1"})
    assert os.listdir(victim) == []
    inside = f"RUN mkdir -p {victim} && ln -s ../../../..{victim} /out\nCOPY a /out/a\nWORKDIR {victim}\n"
    assert text(made(place, f"FROM small\n{inside}"), "a") == "1"
    assert os.listdir(victim) == []


@for_everyone
def test_an_archive_whose_members_lead_out_is_refused(place):
    layer(place, "root.tar", {"bin/x": "1", "../evil": "1"})
    with pytest.raises(WorkspaceError, match="cannot be unpacked"):
        add_base(ImageStore(place / "store"), f"small={place / 'root.tar'}")
    assert not (place / "store" / "bases" / "evil").exists()


@with_bubblewrap
@for_everyone
def test_a_working_directory_behind_a_link_is_refused(place):
    with pytest.raises(UsageError, match="behind a link"):
        made(place, "FROM small\nRUN mkdir /real && ln -s /real /app\nWORKDIR /app\n")


@pytest.mark.parametrize(
    ("recipe", "why"),
    [
        ("FROM other\n", "the base other is missing"),
        ("FROM small\nADD https://example.org/x /x\n", "line 2: ADD cannot download"),
        ("FROM small\nRUN --mount=type=secret,id=k true\n", "line 2: RUN --mount=type=secret"),
        ("FROM small\nFLY away\n", "line 2: FLY is not a known instruction"),
        ("RUN true\n", "has no FROM"),
        ("FROM small\nCOPY gone .\n", "gone is not in"),
        ("FROM small\nCOPY ../../etc/passwd .\n", "is not in"),
        ("FROM small\nUSER nobody-there\nRUN true\n", "USER nobody-there is not in"),
        ("", "no instructions"),
        ("FROM small\nRUN true\x00\n", "is not a Dockerfile"),
    ],
)
def test_unbuildable_recipes_print_one_sentence(tmp_path, recipe, why):
    with pytest.raises((UsageError, WorkspaceError), match=why):
        made(tmp_path, recipe)


@pytest.mark.parametrize("name", ["../../x", "/x", "..", ".", "", "a/b", "gone"])
def test_a_here_document_whose_name_is_a_path_is_refused(tmp_path, name):
    (tmp_path / "x").write_text("mine")
    scratch = tmp_path / "a" / "b"
    scratch.mkdir(parents=True)
    name = f"{tmp_path}/x" if name == "/x" else name
    texts = {} if name == "gone" else {name: "theirs"}
    with pytest.raises(UsageError, match="not a here-document with a plain name"):
        written(scratch, f"<<{name}", RecipeStep("COPY", (), texts=texts), {})
    assert (tmp_path / "x").read_text() == "mine"
    assert list(scratch.iterdir()) == []


def test_a_here_document_that_the_parser_took_for_none_writes_nothing(tmp_path):
    (tmp_path / "x").write_text("mine")
    with pytest.raises((UsageError, WorkspaceError)):
        made(tmp_path, f"FROM small\nCOPY <<{tmp_path}/x /y\n")
    assert (tmp_path / "x").read_text() == "mine"


def test_obstacles_are_found_before_anything_runs(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM python:3.12\nRUN --security=insecure true\n")
    said = why_not_built(ImageStore(tmp_path / "store"), ImageSource(tmp_path, tmp_path / "Dockerfile"))
    assert said == [
        "line 2: RUN --security=insecure needs privileges that the sandbox does not have",
        "the base python:3.12 is missing; add it with --base python:3.12=ROOT.tar",
    ]


@pytest.mark.parametrize("last", ["FROM small\n", "COPY --from=first /a /b\n", "COPY --from=other /a /b\n"])
def test_a_build_in_several_stages_is_refused_without_an_engine(tmp_path, monkeypatch, last):
    monkeypatch.setattr("stackmem.formats.images.build.engine", lambda: "")
    with pytest.raises(BuildFailed, match=r"line 2: a build in several stages needs podman or docker; install one"):
        made(tmp_path, f"FROM small AS first\n{last}")


def layer(place: Path, name: str, members: dict[str, str]) -> None:
    with tarfile.open(place / name, "w") as archive:
        for path, content in members.items():
            info = tarfile.TarInfo(path)
            info.size, info.mode, info.uid = len(content), 0o444, 12345
            archive.addfile(info, io.BytesIO(content.encode()))


@for_everyone
def test_an_archive_of_docker_save_is_unpacked_with_what_its_layers_take_away(place):
    layer(place, "1.tar", {"bin/x": "1", "gone/a": "1", "gone/b": "1", "all/c": "1", "dev/null": "1"})
    layer(place, "2.tar", {"gone/.wh.a": "", "all/.wh..wh..opq": "", "all/d": "2", ".wh.link": ""})
    told = {"config": {"Env": ["A=b"], "WorkingDir": "/srv", "User": "7", "Cmd": ["run"]}}
    (place / "c.json").write_text(json.dumps(told))
    (place / "manifest.json").write_text(json.dumps([{"Config": "c.json", "Layers": ["1.tar", "2.tar"]}]))
    with tarfile.open(place / "saved.tar", "w") as archive:
        for name in ("c.json", "manifest.json", "1.tar", "2.tar"):
            archive.add(place / name, name)
    base = add_base(ImageStore(place / "store"), f"library/saved:1={place / 'saved.tar'}")
    assert (base.name, base.config.workdir, base.config.env) == ("saved:1", "/srv", {"A": "b"})
    root = Path(base.root)
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()) == [
        "all/d", "bin/x", "gone/b"
    ]  # fmt: skip
    assert (root / "bin" / "x").stat().st_mode & 0o600 == 0o600


@pytest.mark.parametrize("given", ["small", "=x", "small=", "scratch=/tmp", "small=/nowhere/at/all"])
def test_a_base_that_is_none_is_refused(tmp_path, given):
    with pytest.raises(UsageError):
        add_base(ImageStore(tmp_path / "store"), given)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="contains neither"):
        add_base(ImageStore(tmp_path / "store"), f"small={tmp_path / 'empty'}")
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(UsageError, match="not a readable archive"):
        add_base(ImageStore(tmp_path / "store"), f"small={tmp_path / 'text'}")


@pytest.mark.parametrize(
    ("named", "name"),
    [
        ("debian", "debian:latest"),
        ("registry.example/library/debian:12", "debian:12"),
        ("registry.example/a/b", "registry.example/a/b:latest"),
        ("localhost:5000/a", "localhost:5000/a:latest"),
        ("registry.example/library/debian@sha256:ab12", "debian:latest@sha256:ab12"),
    ],
)
def test_a_base_has_one_name_however_it_is_spelled(named, name):
    assert base_name(named) == name


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("$A ${A} ${B:-x} ${A:+y} ${B:+z}", "1 1 x y "),
        ("\\$A \\\\ ${E:-d} ${E-d}", "$A \\\\ d "),
        ("$9 $ a$", "$9 $ a$"),
    ],
)
def test_variables_are_filled_in_as_docker_does(written, value):
    assert filled_in(written, {"A": "1", "E": ""}) == value


def test_a_quoted_here_document_keeps_its_dollars(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM small\nCOPY <<'E' <<F /x/\n$A\nE\n$A\nF\n")
    texts = read_recipe(tmp_path / "Dockerfile")[1].texts
    assert [filled_in(each, {"A": "1"}) for each in texts.values()] == ["$A\n", "1\n"]
