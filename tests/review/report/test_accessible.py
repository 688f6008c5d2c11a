"""The run's page with a keyboard, a screen reader, zoom, print, forced colors, and a wheel."""

from playwright.sync_api import Page, expect

from .axe import violations

# Width and height in CSS pixels, dark mode. 640 by 400 is a window of 1280 by 800 at 200 % zoom.
WINDOWS = ((390, 844, True), (640, 400, False), (1280, 800, True), (1920, 1080, False))


def with_everything_open(page: Page) -> None:
    """Open every part of the page that is folded at the start."""
    for name in ("full", "prompt diff"):
        page.locator(".memory").get_by_role("button", name=name).press("Enter")
    page.locator("summary", has_text="Where the tokens").press("Enter")
    page.get_by_role("region", name="Frames on the stack").get_by_role("button").first.press("Enter")
    expect(page.get_by_role("group", name="Cost by frame")).to_be_visible()
    expect(page.get_by_role("region", name="Prompt diff").locator(".part").first).to_be_visible()
    page.evaluate("scrollTo(0, 0)")  # so that the page's head covers nothing


def test_no_rule_is_broken_at_any_width_with_everything_open(show, made):
    for width, height, dark in WINDOWS:
        page = show(made["invoices"], width=width, height=height, dark=dark).open("#step=20")
        with_everything_open(page)
        assert violations(page) == [], width
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_step_does_not_hide_the_lanes_when_zoomed(show, made):
    for width, height in ((390, 844), (640, 400)):
        page = show(made["invoices"], width=width, height=height).open("#step=5")
        lanes = page.get_by_role("region", name="Over the steps").bounding_box()
        panel = page.get_by_role("region", name="Selected step").bounding_box()
        assert panel["y"] >= lanes["y"] + lanes["height"]
        assert lanes["height"] > 200


def test_the_wheel_scrolls_the_page_over_every_drawing(show, made):
    page = show(made["invoices"], width=1280, height=800).open("#step=5")
    for name in ("Parts of the prompt", "Every prompt of the run", "Context of each step"):
        page.evaluate("scrollTo(0, 0)")
        drawing = page.get_by_label(name).first
        drawing.scroll_into_view_if_needed()
        before = page.evaluate("scrollY")
        drawing.hover()
        page.mouse.wheel(0, 120)
        page.wait_for_timeout(300)
        assert page.evaluate("scrollY") > before, name


def test_each_step_is_said_in_a_sentence(show, made):
    page = show(made["invoices"]).open()
    spoken = page.locator("#spoken[role=status][aria-live=polite]")
    said = set()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
        said.add(spoken.inner_text())
    assert len(said) == 5
    assert all("Prompt of" in text and "Stack: root" in text and "Heap: " in text for text in said)


def test_print_and_forced_colors_keep_the_picture(show, made):
    page = show(made["invoices"]).open("#step=20")
    with_everything_open(page)
    page.emulate_media(media="print")
    for hidden in ("play", "full", "compare with the step shown now (m)"):
        expect(page.locator(".memory").get_by_role("button", name=hidden)).to_be_hidden()
    expect(page.get_by_role("region", name="Prompt of this step")).to_be_visible()
    expect(page.get_by_role("img", name="The prompts under full as bars")).to_be_visible()
    expect(page.locator(".difference").first).to_be_visible()
    page.emulate_media(media="screen", forced_colors="active")
    assert violations(page) == []
