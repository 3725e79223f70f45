"""The HTML page as text: whole, escaped, and of a bearable size. A browser opens it in test_html_browser.py."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from shardlint.verify.facts import Array, Line
from shardlint.verify.html.layout import Axes, Layouts
from shardlint.verify.html.page import Cell, Column, Html, escape_html, render_element, render_table
from shardlint.verify.html.source import Costs, render_listing
from shardlint.verify.html.verify import html_report
from shardlint.verify.lines import Lines

from .made import MODEL, array, hostile, run

VOID = {"meta", "input", "br", "hr", "rect"}
MESH = {"data": 4, "model": 2}


class Page(HTMLParser):
    """A page as its tags and texts; says what is not balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model.py"
    file.write_text(MODEL)
    return file


def test_the_page_has_all_there_is(model: Path) -> None:
    text = html_report(run(model, [MESH, {"data": 8, "model": 1}]), "1.2.3")
    page = Page(text)
    said = "".join(page.text)
    assert page.wrong == [] and page.open == []
    for part in (
        "1 failed",
        "3 passed",
        "1 skipped",
        "jax 0.12.0",
        "shardlint 1.2.3",
        "data=4 model=2",
        "out[0]['w'][1] f32[1024,4096]  expected P('data', 'model')  got P()  2.0 MiB -> 16.0 MiB/device (8x)",
        "×8",
        "donated, not reused",
        "all-gather of args[0]['w'][0]",
        "96.0 MiB",  # (8 + 16) MiB, four times
        "1 of them run in loops of unknown length",
        "2 products, 1 of them without communication",
        "made whole to go from",
        'h = jnp.einsum("bsd,df->bsf", x, p["w1"])',
        "not executed",
        "SL201",
        "wrote x",
        "no memory limit",
    ):
        assert part in said, part
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {attributes["href"] for _, attributes in page.tags if "href" in attributes}
    assert all(target and target.startswith("#") and target[1:] in ids for target in targets)


def test_the_page_loads_nothing_and_runs_only_its_own(model: Path) -> None:
    text = html_report(run(model, [MESH]), "1")
    page = Page(text)
    assert "://" not in text
    assert not page.all("link") and not page.all("img") and not page.all("iframe")
    assert all("src" not in attributes and "style" not in attributes for _, attributes in page.tags)
    policy = next(meta["content"] for meta in page.all("meta") if meta.get("http-equiv"))
    for tag in ("script", "style"):
        (own,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
        assert policy and f"{tag}-src 'sha256-{digest}'" in policy
    assert policy and policy.startswith("default-src 'none'")


@pytest.mark.parametrize(
    "text",
    [
        "<script>window.hit=1</script>",
        "\"><img src=x onerror='window.hit=1'>",
        "' autofocus onfocus=window.hit=1 x='",
        "</style></script><svg/onload=window.hit=1>",
        "\x1b[31m\x00\x9b2J\u202e\udc80&lt;",
    ],
)
def test_nothing_a_program_says_becomes_markup(text: str, model: Path) -> None:
    model.write_text(f"# {text!r}\n" * 6 + f'x = "{text}"\n' if text.isprintable() else MODEL)
    plain = html_report(run(model, [MESH]), "1")
    said = html_report(hostile(text, model), "1")
    page = Page(said)
    assert page.wrong == [] and page.open == []
    assert len(page.all("script")) == len(Page(plain).all("script")) == 1
    assert not page.all("img")
    assert not any(name.startswith("on") or name == "autofocus" for _, each in page.tags for name in each)
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in Page(plain).tags}
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", said)
    said.encode()


def test_markup_is_made_of_escaped_text_only() -> None:
    assert render_element("b", "<i>", Html("<i>"), None, ["a", ["&"]]) == "<b>&lt;i&gt;<i>a&amp;</b>"
    assert (
        render_element("a", "x", href='"', class_="y", hidden=True, title=None)
        == '<a href="&quot;" class="y" hidden>x</a>'
    )
    assert escape_html("a\x1b\nb\tc") == "a\\x1b\nb   c"
    for wrong in ("script", "style"):
        with pytest.raises(ValueError, match="belong in page"):
            render_element(wrong, "x")
    with pytest.raises(ValueError, match="belong in page"):
        render_element("b", "x", onclick="x")


def test_a_row_must_fit_its_columns() -> None:
    with pytest.raises(ValueError, match="shorter"):
        render_table([Column("A"), Column("B")], [[Cell("x")]])


# --------------------------------------------------------------------------- pictures


def colours(mesh: dict[str, int], one: Array) -> dict[str, str | None]:
    """Device -> the colour it is drawn in, read from the picture's tooltips."""
    layouts = Layouts(mesh, "p")
    layouts.add_array(one)
    drawn = layouts.render_figures()
    found = re.findall(r"<rect ([^>]*)><title>([^:<]*): ([^<]*)</title>", drawn)
    return {place: (re.search(r'fill="([^"]*)"', rect) or [None, None])[1] for rect, place, _ in found}


@pytest.mark.parametrize(
    ("mesh", "axes"),
    [
        ({"data": 8}, (("data",),)),
        ({"data": 4, "model": 2}, (("data",), ("model",))),
        ({"data": 4, "model": 2}, ((), ("data",))),
        ({"data": 4, "model": 2}, (("model", "data"),)),
        ({"data": 2, "model": 4, "expert": 2}, (("expert",), (), ("data", "model"))),
        ({"data": 2, "model": 4, "expert": 2}, (("data",), ("model",), ("expert",))),
        ({"data": 2, "model": 2, "expert": 1}, ((), ("model",))),
        ({"data": 2}, ()),
    ],
)
def test_devices_of_one_colour_hold_the_same_part(mesh: dict[str, int], axes: Axes) -> None:
    one = array("out", (64,) * len(axes), axes, mesh)
    drawn = colours(mesh, one)
    real = {axis: size for axis, size in mesh.items() if size > 1}
    count = 1
    for size in real.values():
        count *= size
    assert len(drawn) == count
    used = [name for names in axes for name in names if name in real]

    def held(place: str) -> tuple[str, ...]:
        indexes = dict(pair.split("=") for pair in place.split(", "))
        return tuple(indexes[name] for name in used)

    for place, colour in drawn.items():
        for other, its in drawn.items():
            assert (colour == its) == (held(place) == held(other)), (place, other)


def test_the_slower_axis_of_one_dimension_is_its_first() -> None:
    layouts = Layouts(MESH, "p")
    layouts.add_array(array("out", (8,), (("model", "data"),), MESH))
    drawn = layouts.render_figures()
    assert "<title>data=3, model=1: part 7</title>" in drawn
    assert "<title>data=3, model=0: part 3</title>" in drawn
    assert "<title>data=0, model=1: part 4</title>" in drawn


def test_arrays_of_one_layout_share_a_picture() -> None:
    layouts = Layouts({"data": 4, "model": 2, "one": 1}, "p")
    links = [
        layouts.add_array(array(where, (64,) * len(axes), axes, layouts.mesh))
        for where, axes in [
            ("a", (("data",),)),
            ("b", (("data",), ())),
            ("c", (("data", "one"), ())),
            ("d", ()),
        ]
    ]
    assert links[0] == links[1] == links[2] != links[3]
    drawn = layouts.render_figures()
    assert drawn.count("<figure") == 2
    assert "and 2 other arrays" in drawn


def test_a_large_mesh_is_summarised() -> None:
    mesh = {"data": 64, "model": 32}
    layouts = Layouts(mesh, "p")
    layouts.add_array(array("out", (64, 64), (("data",), ("model",)), mesh))
    drawn = layouts.render_figures()
    assert drawn.count("<title>") <= 64
    assert "<title>data=63, model=31: part 63,31</title>" in drawn
    assert "dimension 0 in 64 shards over data" in drawn
    four = {"a": 2, "b": 2, "c": 2, "d": 2}
    layouts = Layouts(four, "p")
    layouts.add_array(array("out", (8, 8), (("d",), ("b",)), four))
    assert layouts.render_figures().count("<title>") == 8
    assert "the same at every c" in layouts.render_figures()
    layouts = Layouts(four, "p")
    layouts.add_array(array("out", (16,), (("a", "b", "c", "d"),), four))
    assert "drawn at d=0" in layouts.render_figures()


def test_what_no_spec_says_is_not_drawn() -> None:
    layouts = Layouts(MESH, "p")
    assert "not drawn" in layouts.add_array(Array("out", "a", "", "f32[8]", (8,), "an order no spec says", 8, 8, 1))
    elsewhere = Array("out", "a", "", "f32[8]", (8,), "P('pod')", 8, 8, 1, (("pod",),))
    assert "not drawn" in layouts.add_array(elsewhere)
    layouts.add_array(Array("out", "a", "", "f32[8]", (8,), "one device", 8, 8, 1))
    drawn = layouts.render_figures()
    assert drawn.count("<figure") == 1
    assert drawn.count(": nothing</title>") == 7


# --------------------------------------------------------------------------- sources


def test_only_python_files_that_a_line_names_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.txt").write_text("s3cret")
    (tmp_path / "large.py").write_text("# s3cret\n" + "x = 1\n" * 400_000)
    (tmp_path / "bytes.py").write_bytes(b"# s3cret \xff\xfe\n")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "other.py").write_text("s3cret")
    (tmp_path / "here.py").write_text("x = '''\nstill in\n'''\ny = (\n")
    costs = Costs()
    for name in ("secret.txt", "large.py", "bytes.py", "folder.py", "gone.py", "here.py"):
        costs.add_cost(Line(str(tmp_path / name), 1, "f"), "all-gather over data", 10)
    costs.add_cost(Line(), "elsewhere", 10)
    costs.add_cost(Line(str(tmp_path / "here.py"), 99, "f"), "all-reduce over data", 10)
    monkeypatch.chdir(tmp_path)
    drawn = render_listing(costs, Lines(tmp_path), "p")
    assert drawn is not None and "s3cret" not in drawn
    assert drawn.count("its source could not be read<") == 5
    assert '<span class="s">still in</span>' in drawn
    assert "(past the end of the file as it is now)" in drawn
    assert "here.py: 20 B moved in one call" in drawn


def test_a_listing_has_the_lines_around_and_their_heat(tmp_path: Path) -> None:
    file = tmp_path / "long.py"
    file.write_text("".join(f"x{number} = {number}\n" for number in range(1, 2001)))
    costs = Costs()
    costs.add_cost(Line(str(file), 10, "f"), "all-gather over data", 2**30)
    costs.add_cost(Line(str(file), 1000, "f"), "all-reduce over model", 2**20)
    costs.add_cost(Line(str(file), 1000, "f"), "all-reduce over model", 2**20)
    drawn = render_listing(costs, Lines(tmp_path), "p") or Html()
    rows = re.findall(r"<tr.*?</tr>", drawn)
    assert len(rows) == 2 * 7 + 2
    (hot,) = [row for row in rows if ">10<" in row]
    (warm,) = [row for row in rows if ">1000<" in row]
    assert 'class="h5"' in hot and "1.0 GiB" in hot
    assert 'class="h2"' in warm and "2.0 MiB" in warm and warm.count("all-reduce") == 1
    for number in range(20, 2000, 3):
        costs.add_cost(Line(str(file), number, "f"), "all-gather over data", 1)
    drawn = render_listing(costs, Lines(tmp_path), "p") or Html()
    assert drawn.count("<tr") <= 302 and "more lines are not shown" in drawn


def test_500_leaves_on_20_meshes_stay_small(model: Path) -> None:
    meshes = [{"data": 2**a, "model": 2**b} for a in range(5) for b in range(4)]
    text = html_report(run(model, meshes, leaves=250), "1")
    assert len(text) < 12 * 2**20
    assert text.count("<use") == 0  # small pictures of so many arrays would make a browser crawl
