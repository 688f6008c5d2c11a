"""Finding skills: which folders count, what is left out and why, and which limits apply."""

import os
from pathlib import Path

import pytest

from stackmem.foreign.front_matter import read_front_matter
from stackmem.workspace.project.skills import MAX_CHARS, MAX_SKILLS, find_skills

TEXT = "---\nname: {name}\ndescription: {description}\n---\n{body}\n"


def write(place: Path, name: str, description: str = "Use it.", body: str = "Do this.") -> Path:
    folder = place / name
    folder.mkdir(parents=True)
    text = TEXT.format(name=name, description=description, body=body)
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    return place


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    (place / ".git").mkdir(parents=True)
    return place


def found(project: Path, home: Path):
    return find_skills(project, {"HOME": str(home)})


@pytest.mark.parametrize("place", [".stackmem", ".claude", ".codex", ".agents"])
def test_skills_of_the_project_and_of_the_user_are_found_in_each_place(project: Path, home: Path, place: str):
    write(project / place / "skills", "review")
    write(home / place / "skills", "deploy")
    names = {skill.name: (skill.source, skill.own) for skill in found(project, home).skills}
    assert names == {
        "deploy": (f"~/{place}/skills/deploy/SKILL.md", True),
        "review": (f"{place}/skills/review/SKILL.md", False),
    }


def test_a_skill_of_a_folder_above_in_the_work_tree_is_found_and_one_outside_is_not(project: Path, home: Path):
    write(project / ".claude/skills", "inside")
    write(project.parent / ".claude/skills", "outside")
    (project / "deep").mkdir()
    (skill,) = found(project / "deep", home).skills
    assert skill.source == ".claude/skills/inside/SKILL.md"


def test_the_content_names_the_other_files_and_says_that_it_grants_nothing(project: Path, home: Path):
    folder = write(project / ".claude/skills", "pdf", body="Read forms.md.\x1b[31m")
    (folder / "scripts").mkdir()
    (folder / "scripts/run.py").write_text("1", encoding="utf-8")
    (folder / "secret").symlink_to("/etc/passwd")
    (skill,) = found(project, home).skills
    assert "It grants nothing" in skill.content
    assert skill.content.endswith("in .claude/skills/pdf (in the workspace): scripts/run.py")
    assert "\x1b" not in skill.content


def test_equal_names_are_named_and_the_users_own_skill_wins(project: Path, home: Path):
    write(project / ".claude/skills", "deploy", "Theirs.")
    write(home / ".claude/skills", "deploy", "Mine.")
    result = found(project, home)
    assert [skill.description for skill in result.skills] == ["Mine."]
    assert "~/.claude/skills/deploy/SKILL.md has the same name" in " ".join(result.notes)


def test_the_same_folder_under_two_names_is_one_skill_without_a_note(project: Path, home: Path):
    write(project / ".agents/skills", "review")
    (project / ".claude").symlink_to(".agents")
    result = found(project, home)
    assert len(result.skills) == 1
    assert len(result.notes) == 1  # only the one that names the project's skills


def test_links_out_of_the_project_are_named_and_not_read(project: Path, home: Path, tmp_path: Path):
    outside = write(tmp_path / "outside", "leak", body="hers")
    places = project / ".claude/skills"
    places.mkdir(parents=True)
    (places / "leak").symlink_to(outside)
    (places / "file").mkdir()
    (places / "file/SKILL.md").symlink_to("/etc/hostname")
    result = found(project, home)
    assert result.skills == ()
    assert len([note for note in result.notes if "link out of the project" in note]) == 2


def test_a_place_that_is_a_link_out_of_the_project_is_not_read(project: Path, home: Path, tmp_path: Path):
    write(tmp_path / "outside/skills", "leak")
    (project / ".claude").symlink_to(tmp_path / "outside")
    assert found(project, home).skills == ()


def test_the_users_own_folder_may_be_a_link(project: Path, home: Path, tmp_path: Path):
    write(tmp_path / "dotfiles/skills", "mine")
    (home / ".claude").symlink_to(tmp_path / "dotfiles")
    assert [skill.name for skill in found(project, home).skills] == ["mine"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no front matter", "no front matter"),
        ("---\nname: x\ndescription: y\n", "has no end"),
        ("---\nname: x\n---\nbody", "no description"),
        ("---\nname: ../up\ndescription: y\n---\n", "not a valid name"),
        ("---\n- a\n- b\n---\n", "not a YAML mapping"),
        ("---\n" + "[" * 3_000 + "\n---\n", "not a YAML mapping"),
        ("---\na: &a [*a]\nb: *c\n---\n", "no description"),
        ("---\nx: " + "y" * 20_000 + "\n---\n", "20,003 characters"),
    ],
)
def test_broken_front_matter_is_named_and_never_fatal(project: Path, home: Path, text: str, why: str):
    folder = project / ".claude/skills/bad"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    result = found(project, home)
    assert result.skills == ()
    assert why in " ".join(result.notes)


def test_a_pipe_binary_and_a_nameless_folder_are_named(project: Path, home: Path):
    place = project / ".claude/skills"
    for name in ("pipe", "binary", "new\nline"):
        (place / name).mkdir(parents=True)
    os.mkfifo(place / "pipe/SKILL.md")
    (place / "binary/SKILL.md").write_bytes(bytes(range(256)) * 10)
    (place / "new\nline/SKILL.md").write_text(TEXT.format(name="a", description="b", body=""), encoding="utf-8")
    result = found(project, home)
    assert result.skills == ()
    assert len(result.notes) == 3


def test_a_huge_skill_is_cut_and_says_so(project: Path, home: Path):
    write(project / ".claude/skills", "huge", body="x" * (3 << 20))
    (skill,) = found(project, home).skills
    assert MAX_CHARS < len(skill.content) < MAX_CHARS + 500
    assert f"these are the first {MAX_CHARS:,}" in skill.content
    assert skill.digest == ""  # never STALE, because only its start was read


def test_there_is_a_limit_on_skills_descriptions_and_notes(project: Path, home: Path):
    for number in range(MAX_SKILLS + 30):
        write(project / ".claude/skills", f"s{number:03}", description="long " * 200)
    result = found(project, home)
    assert len(result.skills) == MAX_SKILLS
    assert max(len(skill.description) for skill in result.skills) <= 125
    assert result.notes[-1] == "10 more skills are not offered"


def test_a_description_with_a_colon_is_read_although_it_is_not_yaml():
    matter = read_front_matter("---\nname: a\ndescription: Use when: always\n---\nBody")
    assert matter.values == {"name": "a", "description": "Use when: always"}
    assert (matter.body, matter.fault) == ("Body", "")


def test_windows_line_ends_and_a_byte_order_mark_are_accepted():
    matter = read_front_matter("\ufeff---\r\nname: a\r\ndescription: >\r\n  two\r\n  lines\r\n---\r\nBody")
    assert matter.values == {"name": "a", "description": "two lines"}
    assert matter.body == "Body"
