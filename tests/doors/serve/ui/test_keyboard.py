"""Every action of every page by keyboard only; these tests never use a pointer."""

import json
import shutil

import pytest
from playwright.sync_api import Locator, Page, expect

from stackmem.core.messages import Usage
from stackmem.run.result import RunResult, write_result
from tests.review.report.bench_rows import bench, zoo
from tests.stage import Stage

MAX_STOPS = 250
STOP = "button[tabindex='0']"  # frames and chunks are one stop each; arrow keys reach the rest
# The focused element is marked, visible, and not covered by anything.
SEEN = """() => {
  const node = document.activeElement, style = getComputedStyle(node), box = node.getBoundingClientRect();
  const inside = (from, to, most) => (Math.max(from, 0) + Math.min(to, most)) / 2;
  const [x, y] = [inside(box.left, box.right, innerWidth), inside(box.top, box.bottom, innerHeight)];
  const above = document.elementFromPoint(x, y);
  const marked = node.matches(':focus-visible') && style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
  const covered = above === null || !(node.contains(above) || above.contains(node));
  const name = node.getAttribute('aria-label') ?? node.textContent.slice(0, 60);
  const by = above?.outerHTML.slice(0, 80);
  return (marked ? '' : `${name} is not marked. `) + (covered ? `${name} is covered by ${by}` : '');
}"""


class Keys:
    """A user's keyboard."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def write(self, text: str) -> None:
        self.press("Control+A")
        if text:
            self.page.keyboard.type(text)
        else:
            self.press("Delete")

    def to(self, wanted: Locator, tab: str = "Tab") -> Locator:
        """Press Tab until the first matching element has the focus."""
        expect(wanted.first).to_be_attached()
        node = wanted.first.element_handle()  # checking at every stop takes longer than the stops themselves
        for _ in range(MAX_STOPS):
            if not node.evaluate("node => node.isConnected"):
                node = wanted.first.element_handle()
            if node.evaluate("node => node === document.activeElement"):
                assert self.page.evaluate(SEEN) == ""
                return wanted.first
            self.press(tab)
        raise AssertionError(f"{wanted} is not reached in {MAX_STOPS} stops")

    def button(self, name: str, *keys: str, exact: bool = False) -> Locator:
        """Focus a button and press it."""
        found = self.to(self.page.get_by_role("button", name=name, exact=exact))
        self.press(*(keys or ("Enter",)))
        return found

    def link(self, name: str) -> None:
        self.to(self.page.get_by_role("link", name=name, exact=True))
        self.press("Enter")

    def unfold(self, text: str) -> Locator:
        found = self.to(self.page.locator("summary", has_text=text))
        self.press("Enter")
        return found


@pytest.fixture(scope="module")
def address(made, tmp_path_factory):
    """Address of a server with two finished runs and a bench, which these tests do not change."""
    runs = tmp_path_factory.mktemp("shown")
    for name, cost in (("invoices", 0.14), ("system", 0.21)):
        shutil.copytree(made[name], runs / name)
        usage = Usage(uncached=900, cache_read=120_000, output=3_000)
        write_result(
            RunResult(
                name, str(runs / name), name, "m", "stackheap", "popped", "solved" if name == "system" else "unsolved",
                39, 4, usage, cost, 532.0, "bubblewrap", "Done.", "/workspace",
            ),
            runs / name / "result.json",
        )  # fmt: skip
    trials = zoo((20, 200), 2, ("env_trap", "ledger"), ("full", "rag", "stackheap"))
    trial = next(one["run"] for one in trials if one["strategy"] == "full")
    shutil.copytree(made["empty"], bench(runs / "several", trials) / trial)
    (runs / "several" / "ledger.jsonl").write_text("".join(json.dumps(one) + "\n" for one in trials))
    process = Stage(tmp_path_factory.mktemp("stage")).start("ui", runs)
    yield process.stdout.readline().strip()
    process.kill()
    process.communicate()


@pytest.fixture
def keys(address, visit):
    """Return the keyboard, focused on the list of runs and the bench."""
    page = visit(address)
    expect(page.locator("tbody tr")).to_have_count(2)
    return Keys(page)


def test_the_list_is_searched_filtered_and_sorted(keys):
    page, rows = keys.page, keys.page.locator("tbody tr")
    keys.press("/")
    keys.write("SYST")
    expect(rows).to_have_count(1)
    keys.write("")
    expect(rows).to_have_count(2)
    keys.to(page.get_by_role("textbox", name="Filter"))
    keys.write("cost_usd>")
    expect(page.get_by_text("cost_usd>", exact=False)).to_be_visible()  # an incomplete filter has no effect
    expect(rows).to_have_count(2)
    keys.write("cost_usd>0.2")
    expect(rows).to_have_count(1)
    keys.write("")
    expect(rows).to_have_count(2)
    chip = keys.button("solved 1", exact=True)
    expect(rows).to_have_count(1)
    keys.press("Space")  # it still has the focus
    expect(rows).to_have_count(2)
    expect(chip).to_have_attribute("aria-pressed", "false")
    keys.button("Cost")
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Cost ↓")
    keys.press("Enter")
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("Cost ↑")
    expect(rows.first).to_contain_text("invoices")


def test_the_list_leads_everywhere(keys):
    page = keys.page
    shade = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(shade)
    keys.button("Switch between light and dark")
    assert page.evaluate(shade) != light
    keys.link("several")
    expect(page.get_by_role("heading", name="Strategies side by side")).to_be_visible()
    keys.link("stackmem")
    expect(page.locator("tbody tr")).to_have_count(2)
    keys.link("invoices")
    expect(page.locator(".where h2")).to_have_text("Step 1")
    keys.link("stackmem")
    expect(page.locator("tbody tr")).to_have_count(2)


def test_runs_are_picked_and_compared(keys):
    page = keys.page
    for name in ("Select invoices", "Select system"):
        keys.to(page.get_by_role("checkbox", name=name))
        keys.press("Space")
    keys.button("Compare 2 runs")
    expect(page.locator(".board")).to_have_count(2)
    keys.press("b")
    expect(page.locator(".where h2")).to_have_text("B · Step 1")
    keys.to(page.get_by_role("group", name="Frames").nth(1).locator(STOP))
    keys.press("ArrowDown", "Enter")
    expect(page.locator(".where h2")).to_have_text("B · Step 5")
    keys.button("largest context")
    expect(page.locator(".where h2")).to_contain_text("A · Step")
    switches = page.get_by_role("button", name="with full history")
    keys.to(switches)
    keys.press("Enter")
    expect(page.locator(".switch[aria-pressed=true]")).to_have_count(2)


def test_old_runs_are_pruned_and_the_keyboard_comes_back(keys):
    page = keys.page
    keys.button("Prune old runs")
    dialog = page.get_by_role("dialog", name="Prune")
    keys.to(dialog.get_by_role("textbox", name="Older than"))
    keys.write("3000d")
    expect(dialog.locator("code")).to_contain_text("--older-than=3000d")
    box = keys.to(dialog.get_by_role("checkbox", name="Only say what would go"))
    keys.press("Space")
    expect(dialog.locator("code")).not_to_contain_text("--dry-run")
    keys.press("Space")
    expect(box).to_be_checked()
    expect(dialog.locator("code")).to_contain_text("--dry-run")
    keys.button("Copy command")
    keys.button("Prune", exact=True)
    expect(dialog.locator(".output")).to_contain_text("[exit 0]")
    keys.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Prune old runs")).to_be_focused()


def test_a_long_list_loads_more_at_the_keyboard_focus(serve, visit, tmp_path):
    for number in range(230):
        (tmp_path / "many" / f"20260101T000{number:03d}Z-task-full-{number:06x}").mkdir(parents=True)
    keys = Keys(visit(serve(tmp_path / "many")[0]))
    rows = keys.page.locator("tbody tr")
    expect(rows).to_have_count(200)
    keys.to(keys.page.get_by_role("button", name="Show 30 more"), "Shift+Tab")
    keys.press("Enter")
    expect(rows).to_have_count(230)
    expect(rows.nth(200).get_by_role("checkbox")).to_be_focused()


def test_all_actions_of_a_run_work(keys, tmp_path):
    page = keys.page
    keys.link("system")
    expect(page.locator(".where h2")).to_have_text("Step 1")
    for action, field, value, shown in (
        ("Resume", "Steps", "+20", "--max-steps=+20"), ("Fork", "After step", "7", "--at=7"),
        ("Export", "File", str(tmp_path / "out.json"), "--format=chrome"),
    ):  # fmt: skip
        keys.button(action, exact=True)
        dialog = page.get_by_role("dialog", name=action)
        if action == "Export":
            keys.to(dialog.get_by_role("combobox", name="Format"))
            keys.press("ArrowDown")
        keys.to(dialog.get_by_role("textbox", name=field))
        keys.write(value)
        expect(dialog.locator("code")).to_contain_text(shown)
        if action == "Export":
            keys.to(dialog.get_by_role("button", name="Export"))
            keys.press("Enter")
            expect(dialog.locator(".output")).to_contain_text("[exit 0]")
        keys.to(dialog.get_by_role("button", name="Close"))
        keys.press("Enter")
        expect(page.get_by_role("button", name=action, exact=True)).to_be_focused()
    assert (tmp_path / "out.json").is_file()
    keys.button("Remove", exact=True)
    dialog = page.get_by_role("dialog", name="Remove")
    expect(dialog.locator("code")).to_contain_text("stackmem runs rm")
    keys.press("Escape")
    expect(dialog).to_have_count(0)


def test_the_steps_and_lanes_of_a_run(keys):
    page, step = keys.page, keys.page.locator(".where h2")
    keys.link("invoices")
    expect(step).to_have_text("Step 1")
    keys.press("ArrowRight", "End", "ArrowLeft", "Home", "Shift+ArrowRight")
    expect(step).to_have_text("Step 5")
    keys.press("/")
    keys.write("round_half_even")
    expect(page.locator("#found li").first).to_contain_text("step 6")
    keys.press("ArrowDown", "Enter")
    expect(step).to_have_text("Step 6")
    keys.button("1 provider failure")
    expect(step).to_have_text("Step 10")
    keys.unfold("Result")
    expect(page.locator(".words[open]")).to_have_count(1)
    keys.button("cost", exact=True)
    expect(page.get_by_role("button", name="cost", exact=True)).to_have_attribute("aria-pressed", "true")
    whole = page.get_by_role("button", name="whole run")
    keys.press("+", "+", "-")
    expect(whole).to_be_enabled()
    keys.to(whole)
    keys.press("Enter")
    expect(whole).to_be_disabled()
    switch = keys.button("with full history")
    expect(switch).to_have_attribute("aria-pressed", "true")
    keys.press("Space")
    expect(switch).to_have_attribute("aria-pressed", "false")
    keys.to(page.get_by_role("group", name="Frames").locator(STOP))
    keys.press("ArrowDown", "Enter")
    expect(step).to_have_text("Step 5")
    expect(whole).to_be_enabled()
    keys.press("Escape")
    keys.to(page.get_by_role("group", name="Chunks").locator(STOP))
    keys.press("ArrowDown", "Enter")
    expect(step).to_have_text("Step 12")


def test_the_panel_of_a_step_keeps_the_keyboard_from_step_to_step(keys):
    page, step = keys.page, keys.page.locator(".where h2")
    keys.link("invoices")
    keys.button("Next step")
    keys.press("Enter", "Enter")
    expect(step).to_have_text("Step 4")
    expect(page.get_by_role("button", name="Next step")).to_be_focused()
    keys.button("Previous step")
    expect(step).to_have_text("Step 3")
    page.evaluate("location.hash = '#step=14'")
    expect(step).to_have_text("Step 14")
    keys.to(page.get_by_role("navigation").get_by_role("button", name="totals"))
    keys.press("Enter")
    expect(page.get_by_role("button", name="whole run")).to_be_enabled()
    parts = page.get_by_role("region", name="Prompt as sent")
    keys.to(parts.locator("summary", has_text="system prompt"))
    keys.press("Enter")
    expect(parts.locator("details[open]")).to_have_count(1)
    keys.to(page.get_by_role("region", name="Files changed").locator("summary"))
    keys.press("Enter")
    expect(page.get_by_role("region", name="Files changed").locator("details[open]")).to_have_count(0)
    keys.to(page.get_by_role("region", name="Heap after this step").locator("summary", has_text="spec"))
    keys.press("Enter")
    expect(page.get_by_role("region", name="Heap after this step")).to_contain_text("source")


def test_the_report_of_a_bench(keys):
    page = keys.page
    keys.link("several")
    keys.link("Overall")
    table = page.get_by_role("region", name="All tasks")
    group = page.get_by_role("group", name="Columns of All tasks").first
    keys.to(group.get_by_role("button", name="Context"))
    expect(table.get_by_role("button", name="cached")).to_be_visible()
    keys.press("Space")
    expect(table.get_by_role("button", name="cached")).to_be_hidden()
    expect(table.get_by_role("button", name="peak")).to_be_visible()  # it shows the most and is always present
    head = keys.to(table.get_by_role("button", name="solved"))
    expect(page.get_by_role("tooltip")).to_have_text("share of trials whose checks passed")
    keys.press("Escape")
    expect(page.get_by_role("tooltip")).to_be_hidden()
    keys.press("Enter")
    expect(table.locator("th[aria-sort]")).to_have_text("solved")
    expect(head).to_be_focused()
    keys.to(page.locator("details.set summary"))
    keys.press("Enter")
    expect(page.locator("details.set[open]")).to_have_count(1)
    keys.to(page.locator(".wide a.strategy", has_text="full"))
    keys.press("Enter")
    expect(page.locator("details.trials[open]")).to_have_count(1)
    keys.button("Light or dark")
    expect(page.locator("html[data-theme]")).to_be_attached()
    copy = keys.button("Copy the command")
    expect(copy).to_have_text("copied")
    keys.to(page.locator("details.trials[open] td:last-child a"))
    keys.press("Enter")
    expect(page.locator(".inspector")).to_contain_text("This run has no steps")


@pytest.mark.parametrize("width", [390, pytest.param(1280, marks=pytest.mark.campaign)])
def test_the_focused_element_is_visible(keys, width):
    page = keys.page
    page.set_viewport_size({"width": width, "height": 900})
    for address in ("", "run?id=0/invoices", "bench/1/"):
        page.goto(page.url.split("run?")[0].split("lab/bench/")[0] + address)
        page.wait_for_selector("html[data-ready]", state="attached")
        stops = set()
        for _ in range(45):
            keys.press("Tab")
            if page.evaluate("document.activeElement === document.body"):
                break
            stops.add(page.evaluate("document.activeElement.outerHTML.slice(0, 200)"))
            assert page.evaluate(SEEN) == "", address
        assert len(stops) > 10
