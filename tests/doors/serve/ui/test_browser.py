"""The pages in a real browser with a server behind them."""

import os
import re
import signal
from contextlib import suppress

import pytest
from playwright.sync_api import expect

from stackmem.core.facts import ModelReplied
from tests.review.report.axe import violations
from tests.review.report.runs import long_run
from tests.review.report.test_linked_frames import played
from tests.stage import command, events, eventually, mounted, pop

WAITS = "until [ -e go ]; do sleep 0.1; done"


def test_the_list_is_searched_and_leads_to_a_run(stage, serve, visit):
    for name in ("alpha", "beta"):
        stage.solve(stage.task(pop(), name=name))
    address, _ = serve(stage.runs)
    page = visit(address)
    expect(page.get_by_role("status").first).to_have_text("2 runs")
    page.keyboard.press("/")
    page.keyboard.type("BET")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="beta").press("Enter")
    expect(page.locator(".where h2")).to_have_text("Step 1")
    page.get_by_role("link", name="stackmem").click()
    expect(page.locator("tbody tr")).to_have_count(2)


@mounted
def test_a_run_links_to_its_parallel_frames_and_back(stage, serve, visit):
    run = played(stage)
    page = visit(f"{serve(stage.runs)[0]}")
    page.locator("tbody a").filter(has_text="mine").first.click()
    page.locator(".related").get_by_role("link", name="b").click()
    expect(page.locator(".related")).to_have_text(f"Parallel frame-3 of {run.name} at record 5.")
    assert violations(page) == []
    page.get_by_role("link", name=run.name).click()
    expect(page.locator(".related")).to_have_text("Parallel frames: a, b")


def test_outcome_and_cost_read_the_same_in_the_list_and_on_the_page(stage, serve, visit):
    stage.solve(stage.task(pop()))
    page = visit(serve(stage.runs)[0])
    row = page.locator("tbody tr")
    expect(row).to_contain_text("solved")
    cost = row.locator("td").nth(7).inner_text()
    page.locator("tbody a").press("Enter")
    expect(page.locator(".pill")).to_have_text("solved")
    expect(page.locator(".tile", has_text="cost").locator("dd").first).to_have_text(cost)
    assert cost


def test_picked_runs_are_compared_by_keyboard_alone(stage, serve, visit):
    task = stage.task(pop())
    for _ in range(3):
        stage.solve(task)
    address, _ = serve(stage.runs)
    page = visit(address)
    expect(page.locator("tbody tr")).to_have_count(3)
    for box in page.get_by_role("checkbox").all():
        box.focus()
        page.keyboard.press("Space")
    page.get_by_role("button", name="Compare 3 runs").press("Enter")
    expect(page.locator(".board")).to_have_count(3)
    page.keyboard.press("b")
    page.keyboard.press("b")
    expect(page.locator(".where h2")).to_have_text("C · Step 1")


def test_a_run_is_followed_while_it_is_killed_and_resumed(stage, serve, visit):
    task = stage.task(command("echo one"), command(WAITS), command("echo three"), pop())
    first = stage.start("solve", task, "--quiet")
    eventually(lambda: stage.written() and len(events(stage.only_run(), ModelReplied)) == 2)
    address, _ = serve(stage.runs)
    page = visit(address)
    page.locator("tbody a").click()
    expect(page.locator(".pill")).to_have_text("running")
    expect(page.locator(".where h2")).to_have_text("Step 2")
    said = page.locator(".verdict strong")
    expect(said).to_have_text(re.compile(r"^Running for .* after step 2, run_command .* is under way for [\d.]+ s\.$"))
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    expect(page.locator(".pill")).to_have_text("interrupted")
    resumed = stage.start("resume", "last", "--yes", "--quiet")
    expect(page.locator(".pill")).to_have_text("running")
    workspace = stage.work / stage.only_run().name / "workspace"

    def goes_on() -> bool:
        with suppress(FileNotFoundError):
            (workspace / "go").touch()  # repeatedly, because a resumed run restores its workspace
        return len(events(stage.only_run(), ModelReplied)) > 2

    eventually(goes_on)
    expect(page.locator(".pill")).to_have_text("solved")
    expect(page.locator(".where h2")).to_have_text("Step 4")
    expect(page.locator(".where .faint")).to_have_text("of 4")
    resumed.communicate()


def test_a_command_is_shown_and_then_run_from_the_page(stage, serve, visit):
    run = stage.solve(stage.task(pop()))
    address, _ = serve(stage.runs)
    page = visit(address)
    page.locator("tbody a").click()
    page.get_by_role("button", name="Fork").click()
    dialog = page.get_by_role("dialog", name="Fork")
    expect(dialog.locator("code")).to_have_text(f"stackmem fork {run.run_dir} --at=1")
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Export").click()
    dialog = page.get_by_role("dialog", name="Export")
    dialog.get_by_label("Format").select_option("csv")
    dialog.get_by_label("File").fill(str(stage.root / "steps.csv"))
    expect(dialog.locator("code")).to_have_text(
        f"stackmem export {run.run_dir} --format=csv --out={stage.root}/steps.csv"
    )
    dialog.get_by_role("button", name="Export").click()
    expect(dialog.locator(".output")).to_contain_text("[exit 0]")
    assert (stage.root / "steps.csv").is_file()


def test_a_hostile_run_is_text_in_the_list_and_in_its_page(made, serve, visit):
    address, _ = serve(made["hostile"].parent)
    page = visit(address)
    expect(page.locator("tbody tr").first).to_be_visible()
    page.locator("tbody").get_by_role("link", name="hostile", exact=True).click()
    expect(page.locator(".where h2")).to_have_text("Step 1")
    assert page.locator("img, main script, iframe, object").count() == 0
    assert "owned" not in page.title().replace("document.title='owned'", "")


@pytest.mark.campaign
def test_a_long_run_opens_with_its_beginning_and_fills_without_a_reload(stage, serve, visit):
    long_run(stage.runs / "long", 10_000)
    address, _ = serve(stage.runs)
    page = visit(f"{address}run?id=0/long")
    page.evaluate("window.same = true")
    expect(page.locator(".pill")).to_have_text("reading")
    assert "of the trace has been read so far." in page.locator(".verdict").inner_text()
    assert violations(page) == []
    page.keyboard.press("ArrowRight")
    expect(page.locator(".pill")).to_have_text("limit:steps", timeout=200_000)
    expect(page.locator(".tiles")).to_contain_text("10,000")
    expect(page.locator(".where h2")).to_have_text("Step 2")
    assert page.evaluate("window.same")
