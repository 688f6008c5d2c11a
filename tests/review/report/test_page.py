"""The HTML file: self-contained, makes no requests, and escapes every text of a trace."""

import base64
import hashlib
import re
import subprocess
from pathlib import Path

import pytest

import stackmem.review.report
from stackmem.review.report.page import live_page, page
from stackmem.review.report.view import read_runs
from tests.node import node

from .runs import HOSTILE

ASSETS = Path(stackmem.review.report.__file__).parent / "assets"
MODULES = sorted(ASSETS.glob("*.js"))


def test_the_policy_allows_the_pages_own_scripts_and_styles_and_nothing_else(made):
    content = page(read_runs([made["invoices"]])).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', content)[1]
    for element in ("style", "script"):
        for attributes, body in re.findall(rf"<{element}([^>]*)>(.*?)</{element}>", content, re.S):
            if "octet-stream" not in attributes:
                digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
                assert f"'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http" not in policy


def test_the_file_names_no_address_to_load_anything_from(made):
    content = page(read_runs([made["invoices"]])).decode()
    assert re.findall(r'(?:src|href|action)\s*=\s*["\'][^"\']', content) == []
    assert re.findall(r"@import|url\(", content) == []


def test_no_text_of_a_trace_stands_in_the_file(made):
    content = page(read_runs([made["hostile"]])).decode()
    assert content.count("</script>") == 3
    assert content.count("<script") == 3
    assert [text for text in HOSTILE if text in content or "owned" in content] == []


def test_a_page_is_the_same_each_time(made):
    assert page(read_runs([made["invoices"]])) == page(read_runs([made["invoices"]]))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_makes_no_markup_of_text(path):
    source = path.read_text(encoding="utf-8")
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|XMLHttp|import\("
    assert re.findall(forbidden, source) == []


def test_the_file_asks_nobody_and_the_page_of_a_server_asks_it_alone(made):
    asks = r"fetch\(|EventSource|WebSocket|sendBeacon"
    content = page(read_runs([made["invoices"]])).decode()
    assert re.findall(asks, content) == []
    assert "connect-src" not in content
    assert {path.stem for path in MODULES if re.search(asks, path.read_text("utf-8"))} == {"commands", "index", "live"}
    assert "connect-src 'self'; img-src data:; base-uri" in live_page(b"{}", "").decode()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_stays_short_and_imports_only_what_another_exports(path):
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 400
    for names, module in re.findall(r'^import \{([^}]*)\} from "\./([a-z]+)\.js";$', source, re.M):
        exported = set(re.findall(r"^export (?:const|function|async function|class) (\w+)", read(module), re.M))
        assert {name.strip() for name in names.split(",")} - exported == set()
        for name in names.split(","):
            assert len(re.findall(rf"\b{name.strip()}\b", source)) > 1, f"{name} is imported but not used"


def read(module: str) -> str:
    return (ASSETS / f"{module}.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_is_an_es_module_that_parses(path, tmp_path):
    copy = tmp_path / f"{path.stem}.mjs"
    copy.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    checked = subprocess.run([node(), "--check", copy], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_what_is_vendored_has_its_licence():
    assert "MIT" in (ASSETS / "vendor" / "uPlot.LICENSE").read_text(encoding="utf-8")
    assert "v1.6.32" in (ASSETS / "vendor" / "uPlot.iife.min.js").read_text(encoding="utf-8")[:200]
