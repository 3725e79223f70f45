"""The site of the documentation: it builds without a dead link, asks no other host, and can be read on a telephone."""

from __future__ import annotations

import functools
import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.loading import load

pytest.importorskip("mkdocs")
site = load("docs_site")
pytestmark = [pytest.mark.longer, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site.build_site(tmp_path_factory.mktemp("site"))


def test_the_site_has_every_page(built: Path) -> None:
    for page in ("index", "docs/tutorial", "docs/rules", "docs/rules/SL201", "docs/decisions/index", "evaluation/index"):
        assert (built / f"{page}.html").is_file(), page
    rules = {path.stem for path in (site.ROOT / "docs" / "rules").glob("*.md")}
    assert {path.stem for path in (built / "docs" / "rules").glob("*.html")} == rules


def test_nothing_is_fetched_from_other_hosts(built: Path) -> None:
    fetched = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*\"")
    pages = list(built.rglob("*.html"))
    assert len(pages) > 100
    assert [(page.name, found) for page in pages for found in fetched.findall(page.read_text("utf-8"))] == []


def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md"):
        (tmp_path / name).write_text("# x\n[gone](docs/gone.md)\n", "utf-8")
    (tmp_path / "docs").mkdir()
    with pytest.raises(FileNotFoundError, match=r"links to docs/gone\.md"):
        site.build_site(tmp_path / "out", tmp_path)


@pytest.fixture
def address(built: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(built)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("width", [1280, 390])
def test_in_a_browser(browser: Any, address: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    for name in ("index", "docs/tutorial", "docs/rules", "docs/rules/SL201", "docs/index"):
        page.goto(f"{address}/{name}.html")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    page.goto(f"{address}/index.html")
    before = page.evaluate("document.body.dataset.mdColorScheme")
    page.locator("label[for^=__palette]:visible").first.click()
    assert page.evaluate("document.body.dataset.mdColorScheme") != before
    if width < 600:
        page.locator("label[for=__search]:visible").first.click()
    # What is written all at once while the index is read is lost by the theme: wait, and type as people do.
    page.get_by_text("Type to start searching").wait_for(state="attached", timeout=120_000)
    page.locator("input.md-search__input").press_sequentially("device-put-in-jit")
    page.locator(".md-search-result__link[href*='SL201']").first.wait_for(timeout=120_000)
    assert errors == []
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
    page.close()
