"""The page in a real browser: opened, clicked, typed into, measured."""

from playwright.sync_api import Page, expect

from stackmem.core.facts import ToolReturned
from stackmem.review.report.colors import STRATEGY_HUES
from stackmem.trace.lineage import RunReader
from tests.conftest import CAMPAIGN

from . import runs
from .test_fold import fork_of

STEPS = 10_000 if CAMPAIGN else 2_000


def step(page: Page) -> str:
    return page.locator(".where h2").inner_text()


def lane(page: Page, name: str):
    return page.get_by_role("img", name=name)


def test_it_opens_at_the_first_step_with_all_its_parts_named(show, made):
    page = show(made["invoices"]).open()
    expect(page).to_have_title("invoices · stackmem")
    assert step(page) == "Step 1"
    for name in ("Frames", "Context", "Heap", "Cache", "Reply", "Events", "Files changed", "Prompt as sent"):
        expect(page.get_by_role("region", name=name, exact=True)).to_be_visible()
    for name in ("Frames of the run", "Context of each step", "Heap over the steps", "Cache:"):
        expect(lane(page, name)).to_be_visible()
    expect(page.locator(".pill")).to_have_text("solved")


def test_a_deep_link_opens_its_step_and_the_address_follows(show, made):
    page = show(made["invoices"]).open("#step=17")
    assert step(page) == "Step 17"
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**#step=18")
    page.evaluate("location.hash = '#step=3'")
    expect(page.locator(".where h2")).to_have_text("Step 3")


def test_an_address_that_names_no_step_opens_the_nearest(show, made):
    for address, expected in (("#step=9999", 39), ("#step=-4&run=7", 1), ("#step=<b>&run=x", 1), ("#", 1)):
        assert step(show(made["invoices"]).open(address)) == f"Step {expected}"


def test_arrows_go_by_step_and_with_shift_by_frame(show, made):
    page = show(made["invoices"]).open()
    for key, expected in (
        ("ArrowRight", 2), ("ArrowLeft", 1), ("ArrowLeft", 1), ("End", 39), ("ArrowRight", 39), ("Home", 1),
        ("Shift+ArrowRight", 5), ("Shift+ArrowRight", 9), ("Shift+ArrowRight", 14), ("Shift+ArrowLeft", 9),
        ("ArrowRight", 10), ("Shift+ArrowLeft", 9), ("Shift+ArrowLeft", 5),
    ):  # fmt: skip
        page.keyboard.press(key)
        assert step(page) == f"Step {expected}", key
    assert "step 5, frame totals" in page.locator("#spoken").inner_text()


def test_a_click_on_a_frame_zooms_to_it_and_escape_shows_all_again(show, made):
    page = show(made["invoices"]).open()
    box = lane(page, "Frames of the run").bounding_box()
    whole = page.get_by_role("button", name="whole run")
    expect(whole).to_be_disabled()
    totals = page.get_by_role("button", name="totals: done, steps 5 to 18")
    totals.click(position={"x": totals.bounding_box()["width"] * 12.5 / 14, "y": 12})
    assert step(page) == "Step 17"
    expect(whole).to_be_enabled()
    head = page.locator(".playhead").bounding_box()
    assert head["width"] > 2 * (box["width"] - 68) / 39  # a step is wider now
    page.keyboard.press("Escape")
    expect(whole).to_be_disabled()


def test_frames_and_chunks_are_reached_by_keyboard_and_enter_zooms(show, made):
    page = show(made["invoices"]).open()
    whole = page.get_by_role("button", name="whole run")
    page.get_by_role("button", name="root: done, steps 1 to 39").focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("button", name="totals: done, steps 5 to 18")).to_be_focused()
    page.keyboard.press("Enter")
    assert step(page) == "Step 5"
    expect(whole).to_be_enabled()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="spec: stored at step 3, still stored, 3 reads").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert step(page) == "Step 12"
    stops = page.locator(".layer button[tabindex='0']")
    expect(stops).to_have_count(2)  # one for the frames, one for the chunks


def test_the_first_lines_say_what_happened_and_lead_there(show, made):
    page = show(made["invoices"]).open()
    happened = page.get_by_role("list", name="What happened")
    assert happened.bounding_box()["y"] < 300
    broke = happened.get_by_role("button", name="2 broken cache prefixes")
    broke.press("Enter")
    assert step(page) == "Step 33"
    broke.press("Enter")
    assert step(page) == "Step 37"
    happened.get_by_role("button", name="1 frame popped by force").press("Enter")
    assert step(page) == "Step 29"


def test_the_chosen_step_is_named_on_the_first_screen(show, made):
    for width, height in ((390, 844), (1280, 900), (2560, 1200)):
        page = show(made["invoices"], width=width, height=height).open("#step=14")
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        chosen = page.get_by_role("heading", name="Memory at step 17 of 39")
        assert 0 <= chosen.bounding_box()["y"] < height - 40, width
        assert page.evaluate("scrollY") == 0


def test_the_full_history_is_drawn_when_it_is_asked_for(show, made):
    page = show(made["invoices"]).open()
    switch = page.get_by_role("button", name="with full history")
    expect(switch).to_have_attribute("aria-pressed", "false")
    before = page.locator(".chart").first.screenshot()
    switch.press("Enter")
    expect(switch).to_have_attribute("aria-pressed", "true")
    page.wait_for_timeout(100)
    assert page.locator(".chart").first.screenshot() != before


def test_a_click_on_any_lane_chooses_its_step(show, made):
    page = show(made["invoices"]).open()
    for name in ("Context of each step", "Heap over the steps", "Cache:"):
        box = lane(page, name).bounding_box()
        lane(page, name).click(position={"x": 54 + (box["width"] - 68) * 29.5 / 39, "y": box["height"] - 1})
        assert step(page) == "Step 30"
        page.keyboard.press("Home")


def test_the_width_of_a_step_can_be_its_tokens_or_its_cost(show, made):
    page = show(made["invoices"]).open("#step=33")
    widths = {}
    for mode in ("tokens", "cost", "steps"):
        button = page.get_by_role("button", name=mode, exact=True)
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")
        page.wait_for_timeout(150)
        widths[mode] = page.locator(".playhead").bounding_box()["width"]
    assert widths["cost"] > 2 * widths["steps"]  # its cache entry had expired and was written again


def test_search_finds_what_was_said_and_goes_there(show, made):
    page = show(made["invoices"]).open()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("ROUND_half_even")
    expect(page.locator("#found li").first).to_contain_text("step 6, frame totals: write_file")
    expect(page.locator("#found mark").first).to_have_text("ROUND_HALF_EVEN")
    page.keyboard.press("Enter")
    assert step(page) == "Step 6"
    expect(page.locator("#found")).to_be_hidden()
    page.get_by_role("searchbox").fill("nothing says this")
    expect(page.locator("#found")).to_have_text("0 steps")


def test_the_inspector_shows_the_step_as_it_was(show, made):
    page = show(made["invoices"]).open("#step=16")  # reads the chunk that went stale
    expect(page.get_by_role("navigation")).to_have_text("roottotals")
    expect(page.get_by_role("region", name="Events")).to_contain_text("STALE: invoices/totals.py has changed")
    heap = page.get_by_role("region", name="Heap after this step")
    expect(heap.locator("summary", has_text="rounding")).to_contain_text("stale")
    heap.locator("summary", has_text="rounding").click()
    expect(heap).to_contain_text("float 0.35 is not 35/100")
    expect(page.get_by_role("region", name="Registers")).to_contain_text("total(lines). Verify by its tests.")
    parts = page.get_by_role("region", name="Prompt as sent")
    expect(parts.locator("details.fresh")).to_have_count(2)
    parts.locator("summary", has_text="system prompt").click()
    expect(parts.locator(".body").first).to_contain_text("manage your own working memory")


def test_a_changed_file_is_shown_as_a_diff(show, made):
    page = show(made["invoices"]).open("#step=14")
    diff = page.get_by_role("region", name="Files changed")
    expect(diff).to_contain_text("invoices/totals.py")
    expect(diff.locator(".line.removed")).to_have_count(1)
    expect(diff.locator(".line.added")).to_contain_text("quantity * Decimal(price)")


def test_a_broken_prefix_says_why(show, made):
    page = show(made["invoices"]).open("#step=33")
    expect(page.locator(".inspector .warn")).to_contain_text("minutes ago, but entries expire after 5")


def test_two_runs_stand_on_one_scale_with_their_parting(show, made):
    page = show(made["invoices"], made["system"]).open("#step=5&run=2")
    assert step(page) == "B · Step 5"
    expect(page.locator(".board")).to_have_count(2)
    expect(page.locator(".summary")).to_have_count(2)
    expect(page.locator(".parted")).to_contain_text("A and B do not differ in their steps. A needs 1.02")
    expect(page.locator(".differs")).to_have_text([" · stackheap", " · stackheap:index=system"])
    page.keyboard.press("b")
    assert step(page) == "A · Step 5"
    page.wait_for_url("**#step=5&run=1")


def test_the_titles_of_two_runs_say_what_differs(show, tmp_path):
    found = [runs.showpiece(tmp_path / name, name) for name in ("stackheap", "full")]
    page = show(*found).open()
    expect(page.locator("h1 .differs")).to_have_text([" · stackheap", " · full"])
    for at, name in enumerate(("stackheap", "full")):
        mark = page.locator("h1 .strategy-mark").nth(at)
        expect(mark).to_have_class(f"strategy-mark hue-{STRATEGY_HUES[name]}")


def test_a_line_marks_where_two_runs_diverge(show, tmp_path):
    parent = runs.showpiece(tmp_path / "parent")
    (tmp_path / "child").mkdir()
    at = next(one.seq for one in RunReader(parent) if isinstance(one.event, ToolReturned) and one.seq > 40)
    page = show(parent, fork_of(parent, at, tmp_path / "child")).open()
    lines = page.locator(".parting")
    expect(lines).to_have_text(["forked after step 23"] * 2)
    one, other = (lines.nth(number).bounding_box() for number in range(2))
    assert one["x"] == other["x"]
    box = lane(page, "Frames of the run").first.bounding_box()
    assert abs(one["x"] - box["x"] - 54 - (box["width"] - 68) * 23 / 39) < 2
    expect(page.locator(".summary").nth(1)).to_contain_text(f"Forked from parent at record {at}")
    expect(page.locator(".parted")).to_contain_text("A and B part at step 24: A frame refunds: run_command")


def test_light_and_dark_follow_the_system_and_can_be_switched(show, made):
    shade = "getComputedStyle(document.body).backgroundColor"
    light, dark = show(made["invoices"]).open(), show(made["invoices"], dark=True).open()
    assert light.evaluate(shade) != dark.evaluate(shade)
    light.get_by_role("button", name="Switch between light and dark").click()
    assert light.evaluate(shade) == dark.evaluate(shade)


def test_on_a_phone_nothing_is_wider_than_the_screen(show, made):
    for name in ("invoices", "hostile"):
        page = show(made[name], width=390, height=844).open("#step=5")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        expect(page.locator(".where h2")).to_be_visible()


def test_a_run_without_steps_is_shown(show, made):
    page = show(made["empty"]).open()
    expect(page.locator(".inspector")).to_contain_text("This run has no steps")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("+")


def test_an_address_that_is_followed_at_once_after_another_is_not_written_over(show, made):
    page = show(made["invoices"]).open()
    waits = "const end = performance.now() + 200; while (performance.now() < end);"  # until the page attempts to write
    for number in (2, 3, 4):
        page.evaluate(f"location.hash = '#step={number}'")
        expect(page.locator(".where h2")).to_have_text(f"Step {number}")
        page.evaluate(f"() => {{ {waits} location.hash = '#step={number + 10}' }}")
        expect(page.locator(".where h2")).to_have_text(f"Step {number + 10}")


def test_everything_a_trace_holds_is_text(show, made):
    page = show(made["hostile"]).open()
    page.wait_for_timeout(200)
    for number in range(1, 10):
        page.evaluate(f"location.hash = '#step={number}'")
        expect(page.locator(".where h2")).to_have_text(f"Step {number}")
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert "owned" not in page.title().replace("document.title='owned'", "")
    assert page.locator("img, main script, iframe, object, b:not(.letter, .happened b)").count() == 0
    page.evaluate("location.hash = '#step=1'")
    said = page.get_by_role("region", name="Reply")
    expect(said).to_contain_text("</script><script>document.title='owned'</script><!--")
    assert {"U+202E", "U+001B", "U+0000", "U+2028", "U+FEFF"} <= set(said.locator(".hidden-char").all_inner_texts())
    assert page.evaluate("({}).toString.name") == "toString"


def test_a_line_of_a_megabyte_is_cut_until_it_is_asked_for(show, made):
    page = show(made["hostile"]).open("#step=4")
    came = page.get_by_role("region", name="Events")
    assert came.evaluate("node => node.textContent.length") < 10_000
    came.get_by_role("button", name="show all 1,100,000 characters").click()
    assert came.evaluate("node => node.textContent.length") > 1_100_000


def test_thousands_of_steps_open_and_turn_in_time_by_their_number_in_a_small_file(show, tmp_path):
    import gzip

    def millis(shown, steps):
        """Return the time until a page in the middle is shown, and for ten further steps; each the minimum of three."""
        opened, turned = [], []
        for _ in range(3):
            page = shown.open(f"#step={steps // 2}")
            opened.append(page.evaluate("performance.getEntriesByName('ready')[0].startTime"))
            started = page.evaluate("performance.now()")
            for _ in range(10):
                page.keyboard.press("ArrowRight")
            expect(page.locator(".where h2")).to_have_text(f"Step {steps // 2 + 10:,}")
            turned.append(page.evaluate("performance.now()") - started)
            page.goto("about:blank")
        return min(opened), min(turned)

    folder = runs.long_run(tmp_path / "long", STEPS)
    trace = len(gzip.compress((folder / "trace.jsonl").read_bytes(), 9))
    shown = show(folder)
    assert shown.path.stat().st_size <= 1.5 * trace + 300_000
    opened, turned = millis(shown, STEPS)
    opened_less, turned_less = millis(show(runs.long_run(tmp_path / "less", STEPS // 10)), STEPS // 10)
    assert opened < 15 * opened_less
    assert turned < 5 * turned_less
