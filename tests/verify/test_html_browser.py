"""The HTML page in a real headless browser: it renders, sorts, filters and shows no script error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shardlint.verify.html.verify import html_report
from shardlint.verify.report import Run

from .made import MODEL, hostile, run

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = [pytest.mark.longer, pytest.mark.xdist_group("browser")]

MESHES = [
    {"data": 4, "model": 2},
    {"data": 8, "model": 1},
    {"data": 2, "model": 4},
    {"data": 64, "model": 32},
]

Open = Callable[..., Any]


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Write a run's page to a file and open it; at the end the browser must have had nothing to complain of."""
    said: list[str] = []
    asked: list[str] = []
    contexts: list[Any] = []

    def opened(what: Run, **options: Any) -> Any:
        file = tmp_path / "report.html"
        file.write_bytes(html_report(what, "1.2.3").encode())
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options}))
        page = contexts[-1].new_page()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(file.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert said == []
    assert {url.partition("#")[0] for url in asked} <= {(tmp_path / "report.html").as_uri()}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model.py"
    file.write_text(MODEL)
    return file


def column(page: Any, table: str, title: str) -> list[str]:
    """The texts of a column, as they stand."""
    return list(
        page.evaluate(
            """([table, title]) => {
                const found = document.querySelector(table);
                const heads = [...found.tHead.rows[0].cells].map((cell) => cell.innerText.trim());
                const index = heads.indexOf(title);
                return [...found.tBodies[0].rows].map((row) => row.cells[index].innerText.trim());
            }""",
            [table, title],
        )
    )


SWEEP = "#sweep ~ .scroll table"


def test_the_page_renders(show: Open, model: Path) -> None:
    page = show(run(model, MESHES))
    assert page.title() == "shardlint verify"
    assert page.locator("h1").inner_text() == "shardlint verify"
    assert column(page, SWEEP, "Mesh") == [
        "data=4 model=2",
        "data=8 model=1",
        "data=2 model=4",
        "data=64 model=32",
    ]
    # The mesh that failed is open, the others are not.
    assert page.locator("details.mesh[open]").count() == 1
    assert page.locator("details.mesh").count() == 4
    open_ = page.locator("details.mesh[open]")
    assert "expected P('data', 'model')" in open_.inner_text()
    assert open_.locator("tr.bad").count() == 2
    pictures = open_.locator("figure.layout")
    assert pictures.count() == 4
    box = pictures.first.locator("svg").last.bounding_box()
    assert box and box["width"] > 60 and box["height"] > 60
    line = open_.locator(".source tr", has_text="to the hidden size")
    assert line.locator(".moved").inner_text() == "64.0 MiB"
    heat = line.locator(".moved").evaluate("cell => getComputedStyle(cell).backgroundColor")
    assert heat not in ("rgba(0, 0, 0, 0)", "transparent")


def test_headers_sort_by_click_and_by_keyboard(show: Open, model: Path) -> None:
    page = show(run(model, MESHES))

    def click(title: str) -> list[str]:
        page.locator(f"{SWEEP} th button", has_text=title).click()
        return column(page, SWEEP, title)

    assert click("Devices") == ["2,048", "8", "8", "8"]
    assert click("Devices") == ["8", "8", "8", "2,048"]
    assert click("Mesh") == ["data=2 model=4", "data=4 model=2", "data=8 model=1", "data=64 model=32"]
    assert click("Failures") == ["2", "0", "0", "0"]
    assert click("Most copied")[0] == "16.0 MiB"
    assert set(click("compile")[:1]) == {"FAIL"}
    header = page.locator(f"{SWEEP} th", has_text="Devices")
    assert header.get_attribute("aria-sort") is None
    header.locator("button").focus()
    page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "descending"
    assert column(page, SWEEP, "Devices")[0] == "2,048"
    page.keyboard.press("Space")
    assert column(page, SWEEP, "Devices")[0] == "8"
    # Bytes are sorted as numbers, whatever their units.
    moved = "details.mesh[open] table:has(caption:text('collectives move'))"
    found = page.locator(moved).first
    assert [cell.split()[-1] for cell in found.locator("td:nth-child(8)").all_inner_texts()] == [
        "MiB",
        "MiB",
        "B",
        "B",
    ]
    found.locator("th button", has_text="Moved").click()
    assert found.locator("td:nth-child(8)").all_inner_texts() == ["4 B", "36 B", "32.0 MiB", "64.0 MiB"]


def test_links_open_what_they_lead_to(show: Open, model: Path) -> None:
    page = show(run(model, MESHES))
    page.locator(f"{SWEEP} a", has_text="data=64 model=32").click()
    mesh = page.locator("details.mesh", has_text="data=64 model=32")
    assert mesh.get_attribute("open") is not None
    source = mesh.locator("a", has_text="model.py:7").first
    target = source.get_attribute("href")
    mesh.locator("details.part", has_text="Source").last.evaluate("part => { part.open = false; }")
    source.click()
    row = page.locator(f"[id='{target[1:]}']")
    assert row.is_visible() and "einsum" in row.inner_text()
    page.get_by_role("button", name="Open all").click()
    assert page.locator("details.mesh[open]").count() == 4
    page.get_by_role("button", name="Close all").click()
    assert page.locator("details.mesh[open]").count() == 0


def test_a_long_table_can_be_filtered(show: Open, model: Path) -> None:
    page = show(run(model, MESHES[:1], leaves=30))
    box = page.locator("details.mesh[open] input.filter").first
    box.fill("w'][7]")
    rows = page.locator("details.mesh[open] table").first.locator("tbody tr")
    rows.first.wait_for(state="hidden")
    shown = rows.locator("visible=true").all_inner_texts()
    assert len(shown) == 1 and "out[0]['w'][7]" in shown[0]
    box.fill("")
    rows.first.wait_for(state="visible")
    assert rows.locator("visible=true").count() == 33


def test_nothing_a_program_says_is_run(show: Open, model: Path) -> None:
    text = "\"><img src=x onerror=window.hit=1>'</style></script><script>window.hit=1</script><svg/onload=window.hit=1>"
    page = show(hostile(text, model))
    assert page.evaluate("window.hit") is None
    assert text in page.locator("main").inner_text()


def test_the_policy_stops_what_escaping_might_miss(browser: Any, tmp_path: Path, model: Path) -> None:
    text = html_report(run(model, MESHES[:1]), "1")
    file = tmp_path / "report.html"
    file.write_text(
        text.replace("</main>", "<img src=x onerror='window.hit=1'><script>window.hit=1</script></main>")
    )
    page = browser.new_page()
    page.goto(file.as_uri())
    assert page.evaluate("window.hit") is None
    assert page.locator("th button").count() > 10  # our own script ran
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_themes(show: Open, model: Path, scheme: str) -> None:
    page = show(run(model, MESHES), color_scheme=scheme)

    def ground() -> int:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))

    dark, light = 200, 600
    assert ground() > light if scheme == "light" else ground() < dark
    page.get_by_role("button", name="Theme").click()
    assert ground() > light
    page.get_by_role("button", name="Theme").click()
    assert ground() < dark


def test_a_phone_shows_it_without_scrolling_sideways(show: Open, model: Path) -> None:
    page = show(run(model, MESHES), viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    page.get_by_role("button", name="Open all").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_it_can_be_read_without_javascript(show: Open, model: Path) -> None:
    page = show(run(model, MESHES), java_script_enabled=False)
    assert page.locator("th button").count() == 0
    page.locator("details.mesh summary code", has_text="data=8 model=1").click()
    assert page.locator("details.mesh[open]").count() == 2


def test_500_leaves_on_20_meshes_can_be_used(show: Open, model: Path) -> None:
    meshes = [{"data": 2**a, "model": 2**b} for a in range(5) for b in range(4)]
    page = show(run(model, meshes, leaves=250))
    page.set_default_timeout(10_000)
    page.locator(f"{SWEEP} th button", has_text="Devices").click()
    assert column(page, SWEEP, "Devices")[0] == "128"
    page.locator(f"{SWEEP} a", has_text="data=16 model=8").click()
    mesh = page.locator("details.mesh[open]").last
    took = mesh.locator("table").first.evaluate(
        """table => {
            const began = performance.now();
            table.tHead.rows[0].cells[0].firstChild.click();
            table.getBoundingClientRect();
            return performance.now() - began;
        }"""
    )
    assert took < 2000
