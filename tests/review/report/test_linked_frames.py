"""The pages of a run and of its parallel frames link to each other, as files and in a browser."""

import shutil
from pathlib import Path

from playwright.sync_api import expect

from stackmem.review.report.page import write_page
from tests.groups import group_script, together
from tests.run.people import Scripted, talk
from tests.stage import Stage, call, mounted, pop

from .opened import held


def played(stage: Stage) -> Path:
    """Play a conversation with two parallel frames and return its run."""
    frames = {name: [call("write_file", path=f"{name}.txt", content=name), pop(f"Did {name}.")] for name in "ab"}
    script = group_script(stage, [together("a", "b"), pop("Done.")], frames)
    return Path(talk(stage, Scripted("Do it."), script, strategy="stackheap", parallel_frames="2").run_dir)


@mounted
def test_a_run_links_to_its_frames_and_back(stage: Stage, show, tmp_path):
    run = played(stage)
    page = show(run).open()
    links = page.locator(".related").get_by_role("link")
    expect(links).to_have_text(["a", "b"])
    links.nth(1).click()
    expect(page.locator(".related")).to_have_text(f"Parallel frame-3 of {run.name} at record 5.")
    page.get_by_role("link", name=run.name).click()
    events = page.get_by_role("region", name="Events", exact=True)
    expect(events).to_contain_text("frames start in parallel: a, b")
    expect(events).to_contain_text("parallel frame b returns · popped")
    events.get_by_role("link", name="a", exact=True).first.click()
    expect(page.locator(".related")).to_contain_text("Parallel frame-2 of")
    expect(page.get_by_role("region", name="Files changed", exact=True)).to_be_visible()


@mounted
def test_by_default_each_page_is_in_the_folder_of_its_run(stage: Stage):
    run = played(stage)
    frame = stage.runs / f"{run.name}.frame-2"
    assert write_page([run], None) == run / "view.html"
    assert held((run / "view.html").read_bytes())["links"] == {
        f"{run.name}.frame-{number}": f"../{run.name}.frame-{number}/view.html" for number in (2, 3)
    }
    assert held((frame / "view.html").read_bytes())["links"] == {
        run.name: f"../{run.name}/view.html", f"{run.name}.frame-3": f"../{run.name}.frame-3/view.html",
    }  # fmt: skip
    (run / "view.html").unlink()
    write_page([frame], None)
    assert (run / "view.html").is_file()


@mounted
def test_a_frame_that_is_missing_or_broken_has_no_link_and_the_merge_shows_its_files(stage: Stage):
    run = played(stage)
    shutil.rmtree(stage.runs / f"{run.name}.frame-2")
    (stage.runs / f"{run.name}.frame-3" / "trace.jsonl").write_bytes(b"{}\n{}\n")
    shown = held(write_page([run], None).read_bytes())
    assert shown["links"] == {}
    assert sorted(change[0] for change in shown["runs"][0]["steps"][0][12]) == ["a.txt (new)", "b.txt (new)"]
