"""The memory picture: cells of the prompt, stack, heap, film strip, and the life of what is selected."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from .axe import violations
from .runs import long_run


def open_at(show, run: Path, step: int, **window: int) -> Page:
    return show(run, **window).open(f"#step={step}")


def life(page: Page) -> list[str]:
    return page.get_by_role("list", name="Its life").locator("button").all_inner_texts()


def test_it_shows_the_stack_the_prompt_and_the_heap_of_a_step(show, made):
    page = open_at(show, made["invoices"], 16)
    stack = page.get_by_role("region", name="Frames on the stack").get_by_role("button")
    expect(stack).to_have_count(2)
    expect(stack.first).to_contain_text("totals")
    expect(stack.last).to_contain_text("waits for totals")
    expect(page.get_by_role("region", name="Prompt of this step")).to_contain_text("6,979 tokens · 71 % from the cache")
    heap = page.get_by_role("region", name="Heap at this step")
    expect(heap.get_by_role("button", name="rounding")).to_contain_text("STALE")
    expect(page.locator("#spoken")).to_contain_text("Stack: root, totals. Heap: 2 chunks, 1 STALE.")


def test_each_cell_is_the_color_of_a_kind_and_as_large_as_its_share(show, made):
    page = open_at(show, made["invoices"], 16)
    shares = page.evaluate("""() => {
        const picture = document.querySelector('.field canvas');
        const [context, ratio] = [picture.getContext('2d'), devicePixelRatio];
        const found = {};
        for (const name of ['tools', 'system', 'results', 'failures']) {
            const probe = document.createElement('i');
            probe.style.color = `var(--kind-${name})`;
            document.body.append(probe);
            found[name] = getComputedStyle(probe).color;
        }
        const many = {};
        const { data } = context.getImageData(0, 0, picture.width, picture.height);
        for (let y = 8; y < picture.height / ratio; y += 17) for (let x = 8; x < picture.width / ratio - 8; x += 17) {
            const at = 4 * (Math.round(y * ratio) * picture.width + Math.round(x * ratio));
            const [red, green, blue, alpha] = data.slice(at, at + 4);
            const told = alpha === 255 ? `rgb(${red}, ${green}, ${blue})` : alpha ? 'pale' : 'empty';
            const name = Object.keys(found).find((one) => found[one] === told) ?? told;
            many[name] = (many[name] ?? 0) + 1;
        }
        return many;
    }""")
    assert shares["results"] > shares["system"] > 10
    assert shares["tools"] > 10
    assert 40 < shares["pale"] < 70  # 29 % of 175 cells were paid in full


def test_a_chunk_is_followed_from_its_allocation_to_its_end(show, made):
    page = open_at(show, made["invoices"], 16)
    after = page.get_by_role("button", name="next change")
    expect(after).to_be_disabled()
    page.get_by_role("region", name="Heap at this step").get_by_role("button", name="rounding").press("Enter")
    lived = life(page)
    assert [line for line in lived if "stored" in line] == ["step 12 stored"]
    assert lived[-1] == "step 37 freed"
    expect(page.locator(".selection")).to_contain_text("float 0.35 is not 35/100")
    after.press("Enter")
    expect(page.locator(".memory h2")).to_contain_text("step 37 of")
    page.keyboard.press("c")  # back to its last change: events in between are passed over
    expect(page.locator(".memory h2")).to_contain_text("step 12 of")
    expect(page.get_by_role("button", name="run back to its last change")).to_be_disabled()
    for number in (14, 16):
        page.keyboard.press("]")
        expect(page.locator(".memory h2")).to_contain_text(f"step {number} of")
    page.keyboard.press("[")
    expect(page.locator(".memory h2")).to_contain_text("step 14 of")


def test_a_cell_is_reached_by_keyboard_and_its_text_followed(show, made):
    page = open_at(show, made["invoices"], 16)
    cells = page.get_by_role("slider", name="Parts of the prompt")
    cells.focus()
    page.keyboard.press("End")
    assert "result" in cells.get_attribute("aria-valuetext")
    page.keyboard.press("Enter")
    expect(page.locator(".selection")).to_be_visible()
    expect(page.locator(".memory h2")).to_contain_text("step 16 of")
    assert life(page)[0].startswith("step 15 found in a result") or life(page)[0].startswith("step ")
    page.get_by_role("searchbox", name="Follow a text").fill("rounded once, at the end")
    page.keyboard.press("Enter")
    lived = life(page)
    assert "step 2 found in a result" in lived
    assert "step 3 stored as spec" in lived
    assert "step 20 read from the heap: spec" in lived
    assert "step 5 out of sight: the waiting frame root has it" in lived


def test_a_file_is_followed_from_change_to_change(show, made):
    page = open_at(show, made["invoices"], 14)
    page.get_by_role("button", name="follow this file").first.press("Enter")
    assert [line.split(",")[0] for line in life(page)] == ["step 6 new", "step 14 changed", "step 23 changed"]


def test_a_register_and_a_result_are_followed_from_the_step(show, made):
    page = open_at(show, made["invoices"], 16)
    page.get_by_role("region", name="Registers").get_by_role("button", name="R0 intent").press("Enter")
    lived = life(page)
    assert lived[1:3] == ["step 5 set by the push of frame totals", "step 9 set by the push of frame rounding"]
    expect(page.locator(".selection pre")).to_contain_text("Write invoices/totals.py per heap 'spec'")
    page.get_by_role("button", name="run back to its last change").press("Enter")
    expect(page.locator(".memory h2")).to_contain_text("step 14 of")
    page.keyboard.press("c")
    expect(page.locator(".memory h2")).to_contain_text("step 9 of")
    expect(page.locator(".selection h3")).to_have_text("Register R0 intent")
    expect(page.locator(".selection pre")).not_to_contain_text("Write invoices/totals.py")  # that of the step shown
    page.get_by_role("button", name="follow this result").press("Enter")
    lived = life(page)
    assert lived[0] == "step 6 used in write_file"
    assert {"step 9 out of sight: the waiting frame totals has it", "step 9 looked up again"} <= set(lived)
    assert "step 19 lost: out of the prompt and not on the heap" in lived


def test_marked_text_is_followed_by_a_key(show, made):
    page = open_at(show, made["invoices"], 2)
    page.evaluate("""() => {
        const text = document.querySelector('[aria-label="Events"] pre').firstChild;
        const at = text.data.indexOf('never float');
        getSelection().setBaseAndExtent(text, at, text, at + 11);
    }""")
    page.keyboard.press("f")
    expect(page.locator(".selection h3")).to_have_text("Text “never float”")
    assert life(page)[0] == "step 2 found in a result"


def test_the_film_strip_the_slider_and_play_choose_the_step(show, made):
    page = open_at(show, made["invoices"], 1)
    title = page.locator(".memory h2")
    bars = page.get_by_role("img", name="Every prompt of the run").bounding_box()
    page.mouse.click(bars["x"] + bars["width"] * 29.5 / 39, bars["y"] + 40)
    expect(title).to_contain_text("step 30 of 39")
    slider = page.get_by_role("slider", name="Step", exact=True)
    slider.fill("38")
    expect(title).to_contain_text("step 38 of 39")
    page.get_by_role("button", name="play").click()
    expect(title).to_contain_text("step 39 of 39")
    expect(page.get_by_role("button", name="▶ play")).to_be_visible()  # it stops at the end


def test_two_runs_have_their_prompts_on_one_scale(show, made):
    page = show(made["invoices"], made["hostile"]).open()
    bars = page.get_by_role("img", name="Every prompt of the run")
    expect(bars).to_have_count(2)
    expect(bars.last).to_have_attribute("aria-label", re.compile("9 steps, the largest with 100 tokens"))


def test_it_has_no_accessibility_faults_at_any_width(show, made):
    for name, width, dark in (("invoices", 390, True), ("hostile", 1280, False)):
        page = show(made[name], width=width, height=800, dark=dark).open("#step=5")
        page.get_by_role("region", name="Frames on the stack").get_by_role("button").first.press("Enter")
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_page_of_thousands_of_prompts_draws_one_bar_per_pixel_pair(show, tmp_path):
    page = show(long_run(tmp_path / "long", 3_000)).open("#step=2900")
    expect(page.locator(".memory h2")).to_contain_text("step 2,900 of 3,000")
    page.get_by_role("region", name="Heap at this step").get_by_role("button").first.press("Enter")
    assert life(page)


def test_it_says_where_the_tokens_went(show, made):
    page = show(made["invoices"]).open()
    page.locator("summary", has_text="Where the tokens").press("Enter")
    kinds = page.get_by_role("table", name="Tokens by kind").locator("tbody tr")
    expect(kinds.first).to_be_visible()
    cells = [kinds.locator(f"td:nth-of-type({column})").all_inner_texts() for column in (2, 4, 3)]
    assert all(98 <= sum(int(cell.split()[0]) for cell in column) <= 102 for column in cells[:2])
    assert sum(float(cell.removeprefix("$")) for cell in cells[2]) == pytest.approx(0.1384, abs=0.0004)
    frames = page.get_by_role("table", name="Tokens by frame").locator("tbody tr")
    assert frames.first.locator("td").all_inner_texts()[:4] == ["30.8k", "132k", "$0.0404", "$0.14"]
    expect(page.locator(".source")).to_contain_text("Costs are recorded.")
    boxes = page.get_by_role("group", name="Cost by frame").get_by_role("button")
    assert boxes.all_inner_texts() == [
        "root $0.14",
        "totals $0.0628",
        "rounding $0.0168",
        "refunds $0.0183",
        "docs $0.0169",
    ]
    root, totals, rounding = (boxes.nth(number).bounding_box() for number in range(3))
    assert totals["width"] == pytest.approx(root["width"] * 0.0628 / 0.1384, rel=0.02)
    assert rounding["y"] > totals["y"] > root["y"]
    boxes.nth(3).press("Enter")
    expect(page.locator(".memory h2")).to_contain_text("step 20 of")


def test_the_cost_of_a_run_without_a_price_is_labeled_as_simulated(show, made):
    page = show(made["hostile"]).open()
    page.locator("summary", has_text="Where the tokens").press("Enter")
    expect(page.locator(".source")).to_contain_text("costs are simulated, in input tokens")


def test_another_strategy_has_a_strip_on_the_same_scale_and_a_sentence(show, made):
    page = show(made["invoices"]).open()
    other = page.get_by_role("group", name="Compare with")
    other.get_by_role("button", name="full").press("Enter")
    expect(page.get_by_role("img", name="The prompts under full as bars")).to_be_visible()
    difference = page.locator(".difference")
    expect(difference).to_contain_text("With full, the same 39 steps would send 288k tokens instead of 129k")
    first = difference.inner_text()
    page.get_by_role("slider", name="price of a cached token").fill("1")
    expect(difference).not_to_have_text(first)
    page.get_by_role("slider", name="pauses that outlast the cache").fill("7")
    expect(page.locator(".other output").nth(2)).to_have_text("at every step")
    other.get_by_role("button", name="adaptive").press("Enter")
    expect(difference).to_contain_text("With adaptive, the same 39 steps")
    expect(page.locator(".other-body")).to_contain_text("simulated in this page")
    page.keyboard.press("End")
    expect(page.locator(".memory h2")).to_contain_text("step 39 of")
    other.get_by_role("button", name="nothing").press("Enter")
    expect(difference).to_be_hidden()


def test_prompts_of_two_steps_are_compared_by_keyboard(show, made):
    page = open_at(show, made["invoices"], 17)
    diff = page.get_by_role("region", name="Prompt diff")
    page.keyboard.press("m")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("d")
    expect(diff.get_by_role("heading")).to_have_text("Prompt of step 20 compared with step 17")
    expect(diff.locator(".difference")).to_have_text(
        "12 parts in both (8,142 characters), 16 only in step 17 (17,435), 1 changed. The first 12 parts are equal."
    )
    expect(diff.locator(".diff-removed")).to_have_count(16)
    diff.locator(".diff-changed summary").press("Enter")
    expect(diff.locator(".line.added").first).to_contain_text("FRAME 'refunds'")
    expect(diff.locator(".line.removed").first).to_contain_text("FRAME 'totals'")
    diff.get_by_role("spinbutton", name="Step to compare with").fill("20")
    page.keyboard.press("Enter")
    expect(diff.locator(".difference")).to_have_text("Both prompts are equal: 13 parts.")
    diff.get_by_role("button", name="with the last prompt").press("Enter")
    expect(diff.get_by_role("heading")).to_have_text("Prompt of step 20 compared with step 19")
    diff.get_by_role("button", name="Close the prompt diff").press("Enter")
    expect(diff).to_be_hidden()


def test_prompts_of_two_runs_are_compared_step_by_step(show, made):
    page = show(made["invoices"], made["system"]).open("#step=5")
    page.keyboard.press("d")
    diff = page.get_by_role("region", name="Prompt diff")
    expect(diff.get_by_role("heading")).to_have_text("Prompt of A step 5 compared with B step 5")
    expect(diff.locator(".diff-changed")).not_to_have_count(0)
    page.keyboard.press("b")
    expect(diff.get_by_role("heading")).to_have_text("Prompt of B step 5 compared with A step 5")
    page.get_by_role("combobox", name="Run to compare with").select_option("1")
    expect(diff.locator(".difference")).to_contain_text("Both prompts are equal")


def test_a_printed_page_has_the_picture_and_no_controls(show, made):
    page = open_at(show, made["invoices"], 16)
    page.emulate_media(media="print")
    expect(page.get_by_role("region", name="Prompt of this step")).to_be_visible()
    expect(page.get_by_role("button", name="play")).to_be_hidden()
    page.emulate_media(media="screen", forced_colors="active")
    tone = "getComputedStyle(document.querySelector('.legend .kind-results')).color"
    forced = page.evaluate(tone)
    page.emulate_media(forced_colors="none")
    assert page.evaluate(tone) == forced  # the legend keeps the colors of the cells
