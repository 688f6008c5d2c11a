"""A bench's report in a real browser: opened, clicked, sorted, narrowed, printed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from stackmem.lab.comparison.write import write_report

from .bench_rows import bench, row, zoo
from .conftest import Shown

HOSTILE = '<script>alert("1")</script><img src=x onerror=alert(2)>'
SOME = ("full", "window", "mask", "rolling_summary", "rag", "memory_dir", "stack", "stackheap")
OpenReport = Callable[..., Page]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return reports by name; that of the zoo has eight strategies at two horizons on two worlds."""
    root = tmp_path_factory.mktemp("benches")
    rows = {
        "zoo": zoo((20, 200), 2, ("env_trap", "ledger"), SOME),
        "hostile": [row(name, HOSTILE, seed=n, error=HOSTILE, run=run, outcome="unsolved", solved=0)
                    for n, (name, run) in enumerate([(HOSTILE, "javascript:alert(3)"), ("full", "../../etc")])],
        "empty": [],
        "one": [row()],
        "errors": [row("full", outcome="error", error="the worker was killed", solved=None, run="")],
    }  # fmt: skip
    run = next(one["run"] for one in rows["zoo"] if one["strategy"] == "stackheap")
    (root / "zoo" / run).mkdir(parents=True)
    (root / "zoo" / run / "view.html").write_text("<title>a run</title>")
    return {name: write_report(bench(root / name, found)).path for name, found in rows.items()}


@pytest.fixture
def report(browser: Browser, reports: dict[str, Path]) -> Iterator[OpenReport]:
    """Open a report; fails the test if the page reports an error or contacts anything."""
    opened: list[Shown] = []

    def make(name: str, hash_: str = "", *, dark: bool = False, width: int = 1360) -> Page:
        scheme = "dark" if dark else "light"
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        opened.append(Shown(context.new_page(), reports[name]))
        return opened[-1].open(hash_)

    yield make
    for one in opened:
        one.page.context.close()
    assert [one.wrong for one in opened] == [[] for _ in opened]


def background(page: Page) -> list[int]:
    told = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return [int(part) for part in told.removeprefix("rgb(").removesuffix(")").split(",")]


def test_it_says_what_was_run_and_what_the_model_is(report):
    page = report("zoo")
    expect(page).to_have_title("Strategies side by side · stackmem")
    for said in ("trials 64", "env_trap, ledger", "20, 200", "not intelligence"):
        expect(page.locator("section").first).to_contain_text(said)
    for said in ("64", "2 cores, x86_64", "stackmem bench zoo.toml"):
        expect(page.locator("section").last).to_contain_text(said)
    assert page.locator("h2").all_inner_texts() == [
        "Bill against success", "All tasks and horizons", "Growth with the horizon", "When the first fact was lost",
        "By horizon", "By task", "Trials", "How it was made",
    ]  # fmt: skip


def test_every_strategy_is_a_row_and_its_numbers_lead_to_its_trials(report):
    page = report("zoo")
    table = page.get_by_role("region", name="All tasks and horizons")
    expect(table.locator("tbody tr")).to_have_count(len(SOME))
    broken = page.evaluate(
        "[...document.querySelectorAll('a[href^=\"#\"]')]"
        ".filter(a => !document.getElementById(a.getAttribute('href').slice(1))).length"
    )
    assert broken == 0
    table.locator("tbody tr", has_text="rolling_summary").locator("td a").first.click()
    trials = page.locator("details.trials[open]")
    expect(trials.locator("summary b")).to_have_text("rolling_summary")
    expect(trials.locator("tbody tr")).to_have_count(8)
    expect(trials).to_be_in_viewport()


def test_a_number_of_one_task_leads_to_the_trials_of_that_task(report):
    page = report("zoo")
    page.locator("details.set", has_text="ledger, horizon 200").locator("summary").click()
    table = page.get_by_role("region", name="ledger, horizon 200")
    table.locator("tbody tr", has_text="memory_dir").locator("td a").first.click()
    aimed = page.locator("tr.aimed td")
    assert aimed.all_inner_texts()[:3] == ["ledger", "200", "1"]
    expect(aimed.first).to_be_in_viewport()


def test_a_trial_leads_to_its_run_and_to_its_page_where_there_is_one(report, reports):
    page = report("zoo")
    links = page.locator("details.trials td:last-child a").evaluate_all("all => all.map(a => a.href)")
    assert len(links) == 64
    assert all(link.startswith(reports["zoo"].parent.as_uri() + "/runs/") for link in links)
    assert [link for link in links if link.endswith("/view.html")] == [next(one for one in links if "view" in one)]


def test_a_click_on_a_heading_sorts_by_it_and_another_one_turns_it_round(report):
    page = report("zoo")
    table = page.get_by_role("region", name="All tasks and horizons")
    button = table.get_by_role("button", name="at 0.05", exact=True)
    for kind in ("ascending", "descending"):
        button.click()
        expect(table.locator(f'th[aria-sort="{kind}"]')).to_have_text("at 0.05")
        column = table.locator("th[aria-sort]").evaluate("head => head.cellIndex")
        values = table.locator("tbody tr").evaluate_all(
            f"rows => rows.map(r => Number(r.cells[{column}].dataset.value))"
        )
        assert values == sorted(values, reverse=kind == "descending")


def test_it_is_light_or_dark_as_the_system_is_and_the_switch_turns_it_round(report):
    for dark in (False, True):
        page = report("zoo", dark=dark)
        assert (sum(background(page)) < 200) is dark
        fill = "getComputedStyle(document.querySelector('.plot .tick')).fill"
        before = page.evaluate(fill)
        page.get_by_role("button", name="Light or dark").click()
        assert (sum(background(page)) < 200) is not dark
        assert page.evaluate(fill) != before


def test_every_plot_names_its_strategies_where_they_stand(report):
    page = report("zoo")
    for plot in page.locator(".wide svg.plot").all():
        names = set(plot.locator(".name").all_text_contents())
        assert len(names) >= len(SOME), plot.get_attribute("aria-label")


def test_what_is_pointed_at_stands_out_everywhere(report):
    page = report("zoo")
    page.locator('.wide a.strategy:has-text("rag") .dot').first.hover()
    now = page.locator("tr.now th.who")
    assert set(now.all_text_contents()) == {"rag"}
    page.locator("h1").hover()
    expect(page.locator(".now")).to_have_count(0)


@pytest.mark.parametrize("width", [360, 800])
def test_on_a_small_screen_only_tables_scroll_sideways(report, width):
    page = report("zoo", width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    small = page.evaluate(
        "Math.min(...[...document.querySelectorAll('svg.plot text')].filter(t => t.getClientRects().length)"
        ".map(t => t.getBoundingClientRect().height))"
    )
    assert small > 9


def test_a_table_shows_what_tells_most_and_the_columns_that_are_chosen(report):
    for width, chosen in ((1360, ["Success", "Bill, USD", "Context"]), (390, [])):
        page = report("zoo", width=width)
        table = page.get_by_role("region", name="All tasks and horizons")
        group = page.get_by_role("group", name="Columns of All tasks and horizons")
        assert group.locator("[aria-pressed=true]").all_inner_texts() == chosen
        for name in ("solved", "at 0.05", "peak"):
            expect(table.get_by_role("button", name=name, exact=True)).to_be_visible()
        expect(table.get_by_role("button", name="steps")).to_be_hidden()
        group.get_by_role("button", name="Work").click()
        expect(table.get_by_role("button", name="steps")).to_be_visible()
        heads = table.locator("thead tr").first.locator("th:visible").evaluate_all("all => all.map(one => one.colSpan)")
        assert sum(heads) == table.locator("tbody tr").first.locator("td:visible").count() - (width > 640)
        goes_on = table.evaluate("node => node.scrollWidth > node.clientWidth")
        assert (table.get_attribute("data-more") == "right") == goes_on


def test_a_column_says_what_it_tells_where_it_is_pointed_at(report):
    page = report("zoo")
    page.get_by_role("region", name="All tasks and horizons").get_by_role("button", name="peak").hover()
    expect(page.get_by_role("tooltip")).to_have_text("the longest prompt, tokens")
    page.keyboard.press("Escape")
    expect(page.get_by_role("tooltip")).to_be_hidden()


def test_paper_has_the_tables_open_and_is_light(report):
    page = report("zoo", dark=True)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert sum(background(page)) > 700
    expect(page.locator(".top")).to_be_hidden()
    expect(page.get_by_role("region", name="ledger, horizon 200")).to_be_visible()


def test_hostile_names_are_text(report):
    page = report("hostile", dark=True)
    expect(page.locator("th.who", has_text="<script>alert").first).to_be_visible()
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 1
    page.locator("details.trials").evaluate_all("all => all.forEach(one => { one.open = true; })")
    links = page.locator("details.trials td:last-child a").evaluate_all("all => all.map(a => a.href)")
    assert [link.split(":")[0] for link in links] == ["file"]
    expect(page.locator("details.trials td:last-child").filter(has_text="../../etc")).to_have_count(1)


def test_an_address_that_names_no_place_does_no_harm(report):
    for address in ("#nowhere", "#%3Cb%3E", "#"):
        expect(report("one", address).locator("h1")).to_be_visible()


def test_small_benches_are_whole_pages(report):
    expect(report("empty")).to_have_title("Strategies side by side · stackmem")
    expect(report("empty").locator(".empty")).to_have_text("No trial has ended yet.")
    expect(report("one").locator("svg.plot")).to_have_count(2)
    errors = report("errors")
    expect(errors.locator("td.n").first).to_contain_text("+1 failed")
    expect(errors.locator("details.trials")).to_contain_text("the worker was killed")


def test_the_verdict_comes_first_and_how_it_was_made_last(report):
    page = report("zoo")
    assert page.locator(".findings li").first.bounding_box()["y"] < 300
    heads = page.locator("h1, h2").all_inner_texts()
    assert (heads[:2], heads[-1]) == (["Strategies side by side", "Bill against success"], "How it was made")
    page.get_by_role("button", name="Copy the command").focus()
