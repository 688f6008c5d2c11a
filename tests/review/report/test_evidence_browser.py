"""The page of a study in a real browser: the reader's own price."""

from playwright.sync_api import Browser, expect

from stackmem.lab.bench.evidence import READS, RecordingEntry, StrategyBill
from stackmem.lab.comparison.evidence import write_evidence

from .axe import violations
from .conftest import Shown


def entry(task, strategies):
    """Return an entry whose bills are tokens read at the price plus a fixed part."""
    told = {
        name: StrategyBill(tuple(round(fixed + price * read, 6) for price in READS), 1, 1, 0)
        for name, (fixed, read) in {"full": (1.0, 10.0), **strategies}.items()
    }
    return RecordingEntry(f"a/{task}", "s", "a", task, steps=20, bills=told)


def test_the_reader_sets_the_price_and_the_order_follows(browser: Browser, tmp_path):
    spread = [number % 10 / 100 for number in range(80)]
    strategies = [{"mask": (1.5 + by, 3.0), "adaptive": (1.2, 2.0 + by), "clear": (0.9, 9.0)} for by in spread]
    write_evidence([entry(f"t{number}", one) for number, one in enumerate(strategies)], tmp_path / "study.html")
    context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    shown = Shown(context.new_page(), tmp_path / "study.html")
    page = shown.open()
    plot, slider = page.locator("svg.forest"), page.get_by_label("Price of a cached token")
    status = page.locator("form.price [role=status]")
    expect(status).to_have_text("At 0.1, adaptive costs 30 % less than full.")
    bills = "Bill relative to full at cached reads of 0.1: adaptive 0.70; clear 0.90; mask 0.92; full 1.00"
    expect(plot).to_have_attribute("aria-label", bills)
    intervals = page.locator("g.entry", has_text="mask").locator(".interval")
    expect(intervals.first).not_to_have_css("display", "none")
    assert violations(page) == []
    slider.focus()
    page.keyboard.press("End")
    expect(page.locator("form.price output")).to_have_text("1")
    # mask: (1.545 + 3) / 11, exact although no bill was computed at this price
    expect(status).to_contain_text("At 1, mask costs 59 % less than full. Strategies that decide")
    expect(page.locator("g.entry", has_text="adaptive")).to_be_hidden()
    expect(intervals.first).to_have_css("display", "none")
    page.keyboard.press("Home")
    expect(page.locator("form.price output")).to_have_text("0.01")
    expect(status).to_contain_text("At 0.01, clear costs 10 % less than full.")  # (0.9 + 0.09) / 1.1
    heights = [page.locator("g.entry", has_text=name).bounding_box()["y"] for name in ("clear", "full", "mask")]
    assert heights == sorted(heights)
    assert shown.wrong == []
    context.close()
