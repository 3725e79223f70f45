"""Notebooks: the cells are one program, findings carry the cell, fixes change only the cells they are in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from shardlint.engine.explain import explain_place
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from shardlint.output import json_, text
from shardlint.rewrite.fix import fix_files
from shardlint.source.magics import convert_to_python, restore_notebook_code
from shardlint.source.notebook import read_notebook
from shardlint.source.text import Unreadable

Write = Callable[..., Path]
TARGETS = {"jax": "0.12.0", "flax": "0.12.12", "equinox": "0.13.8"}
OPTIONS = Options(targets=TARGETS)
HEAD = "%matplotlib inline\n!pip install -q \\\n    jax flax\nimport jax\nimport jax.numpy as jnp"
TREE = "# added\nfiles = !ls\ny = jax.tree_map(lambda x: x + 1, x)  # twice\nprint(y)"


def cell(source: str, kind: str = "code", **other: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True)}
    if kind == "code":
        output = {"output_type": "stream", "name": "stdout", "text": ["café\n"]}
        found |= {"execution_count": 3, "outputs": [output]}
    return {**found, **other}


def made(*cells: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    named = [{"id": f"cell-{number}", **one} for number, one in enumerate(cells)]
    language = {"language_info": {"name": "python"}, **metadata}
    return {"cells": named, "metadata": language, "nbformat": 4, "nbformat_minor": 5}


BOOK = made(
    cell("# Title\n", "markdown"), cell(HEAD), cell("%%bash\nls -l | wc\n"), cell("x = jnp.ones(3)\n"), cell(TREE)
)


def checked(path: Path) -> list[tuple[str, int | None, int, int]]:
    report = check_paths([path], OPTIONS)
    rows = json_.report_document(report)["findings"]
    return [(row["code"], row["cell"], row["line"], row["column"]) for row in rows]


def test_findings_carry_the_cell_and_the_line_in_it(write: Write) -> None:
    root = write({"book.ipynb": json.dumps(BOOK), "pyproject.toml": ""})
    assert checked(root) == checked(root / "book.ipynb") == [("SL901", 5, 3, 5)]
    report = check_paths([root], OPTIONS)
    (line, *_) = text.render_concise(report)
    assert line.startswith(f"{root / 'book.ipynb'}:cell 5:3:5: SL901 ")
    frame = "\n".join(text.full_report(report))
    assert "book.ipynb:cell 5:3:5: SL901" in frame and "    3 | y = jax.tree_map(" in frame
    (row,) = json_.report_document(report)["findings"]
    assert [(edit["cell"], edit["line"]) for edit in row["fix"]["edits"]] == [(5, 3)]
    for _ in range(2):  # the second time from what is remembered
        again = check_paths([root], OPTIONS, cached=True)
        assert json_.report_document(again)["findings"] == [row]


def test_cells_are_one_program_with_the_files_beside(write: Write) -> None:
    root = write(
        {
            "book.ipynb": json.dumps(made(cell("import jax\nfrom steps import step\n"), cell("fast = jax.jit(step)\n"))),
            "steps.py": "import jax\n\nmesh = jax.make_mesh((8,), ('x',))\n\n\ndef step(x):\n    with mesh:\n        return x\n",
            "pyproject.toml": "",
        }
    )
    (file,) = check_paths([root], Options(select=("SL315",), targets=TARGETS)).reports
    assert file.path.name == "steps.py"
    assert "inside jit" in file.findings[0].help


@pytest.mark.parametrize("indent", [1, 2, 4, None])
@pytest.mark.parametrize("ensure_ascii", [True, False])
@pytest.mark.parametrize("end", ["\n", ""])
def test_a_fix_changes_only_the_lines_it_is_about(
    write: Write, indent: int | None, ensure_ascii: bool, end: str
) -> None:
    before = json.dumps(BOOK, indent=indent, ensure_ascii=ensure_ascii) + end
    root = write({"book.ipynb": before, "pyproject.toml": ""})
    fix_files([root], OPTIONS, unsafe=True, write=True)
    after = (root / "book.ipynb").read_text("utf-8")
    assert after == before.replace("jax.tree_map", "jax.tree.map")
    nbformat.validate(nbformat.reads(after, as_version=4))
    assert not checked(root)
    assert not any(outcome.is_changed for outcome in fix_files([root], OPTIONS, unsafe=True, write=True).fixed)


def test_a_cell_that_is_indented_runs_in_ipython(write: Write) -> None:
    """IPython takes the indentation of the first line away from all of them."""
    body = "  x = jnp.ones(3)\n\n  !ls\n  for _ in range(2):\n    y = jax.tree_map(lambda x: x + 1, x)\n"
    book = made(cell(HEAD), cell(body))
    root = write({"book.ipynb": json.dumps(book, indent=1), "pyproject.toml": ""})
    assert checked(root) == [("SL901", 2, 5, 9)]
    before = (root / "book.ipynb").read_text()
    fix_files([root], OPTIONS, unsafe=True, write=True)
    assert (root / "book.ipynb").read_text() == before.replace("jax.tree_map(", "jax.tree.map(")
    assert checked(root) == []


def test_a_cell_of_which_some_lines_are_indented(write: Write) -> None:
    """IPython takes the first line's indentation away where a line begins with it, and leaves the others."""
    body = "  x = jnp.ones(3)\nfor _ in range(2):\n    y = jax.tree_map(lambda x: x + 1, x)\n  z = jax.tree_map(abs, y)\nprint(z)\n"
    book = made(cell(HEAD), cell(body), cell("w = jax.tree_map(abs, z)"))
    root = write({"book.ipynb": json.dumps(book, indent=1), "pyproject.toml": ""})
    assert checked(root) == [("SL901", 2, 3, 9), ("SL901", 2, 4, 7), ("SL901", 3, 1, 5)]
    before = (root / "book.ipynb").read_text()
    fix_files([root], OPTIONS, unsafe=True, write=True)
    assert (root / "book.ipynb").read_text() == before.replace("jax.tree_map(", "jax.tree.map(")
    assert checked(root) == []


def test_a_source_of_one_string_stays_one(write: Write) -> None:
    book = made(cell("import jax"), {**cell(""), "source": "y = jax.tree_map(abs, [1])\ny"})
    root = write({"book.ipynb": json.dumps(book, indent=1), "pyproject.toml": ""})
    fix_files([root], OPTIONS, unsafe=False, write=True)
    after = json.loads((root / "book.ipynb").read_text("utf-8"))
    assert after["cells"][1]["source"] == "y = jax.tree.map(abs, [1])\ny"


def test_new_lines_go_where_the_code_is(write: Write) -> None:
    """An import goes to the cell with the imports, and new lines are written as those beside them."""
    book = made(
        cell("!pip install jax"),
        cell("import jax\nfrom jax.experimental import PartitionSpec as P"),
        cell("spec = P('data')"),
    )
    root = write({"book.ipynb": json.dumps(book, indent=1), "pyproject.toml": ""})
    fix_files([root], OPTIONS, unsafe=True, write=True)
    after = json.loads((root / "book.ipynb").read_text("utf-8"))
    assert ["".join(one["source"]) for one in after["cells"]] == [
        "!pip install jax", "import jax\nfrom jax.sharding import PartitionSpec as P", "spec = P('data')"
    ]  # fmt: skip
    assert [one["outputs"] for one in after["cells"]] == [one["outputs"] for one in book["cells"]]


def test_suppressions_hold_in_cells(write: Write) -> None:
    line = "y = jax.tree_map(abs, [1])  # shardlint: ignore[SL901] -- old\n"
    root = write({"book.ipynb": json.dumps(made(cell("import jax"), cell(line + "y"))), "pyproject.toml": ""})
    assert not checked(root)
    idle = "x = 1  # shardlint: ignore[SL901] -- old\n"
    (root / "book.ipynb").write_text(json.dumps(made(cell("import jax"), cell(idle + "x"))), "utf-8")
    assert checked(root) == [("SL002", 2, 1, 8)]
    fix_files([root], OPTIONS, unsafe=False, write=True)
    assert json.loads((root / "book.ipynb").read_text())["cells"][1]["source"][0] == "x = 1\n"


def test_what_a_cell_shows_is_not_thrown_away(write: Write) -> None:
    code = "import jax\nfrom jax.sharding import *\nmesh = jax.make_mesh((8,), ('x',))\ns = NamedSharding(mesh, PartitionSpec('x'))"
    shown = made(cell(code), cell("jax.device_put(jax.numpy.ones(8), s)"))
    root = write({"book.ipynb": json.dumps(shown), "pyproject.toml": ""})
    assert "SL203" not in {row[0] for row in checked(root)}


def test_messages_name_lines_in_cells(write: Write) -> None:
    head = "import jax\nimport numpy as np\nfrom jax.sharding import Mesh, NamedSharding, PartitionSpec\nmesh = Mesh(np.array(jax.devices()), ('x',))"
    book = made(
        cell(head),
        cell("def f(x):\n    return jax.device_put(x, NamedSharding(mesh, PartitionSpec('x')))"),
        cell("\n\ng = jax.jit(f)\ng(np.ones(8))"),
    )
    root = write({"book.ipynb": json.dumps(book), "pyproject.toml": ""})
    messages = " ".join(
        f"{one.message} {one.why}" for file in check_paths([root], OPTIONS).reports for one in file.findings
    )
    assert "line 3 of cell 3" in messages, messages
    assert not re.search(r"line \d+(?! of cell)", messages), messages


@pytest.mark.parametrize(
    ("code", "python"),
    [
        ("%time x = 1", "pass  #~%time x = 1"),
        ("x = !ls *.py", "x = get_ipython()  #~!ls *.py"),
        ("if a:\n    !ls\nelse:\n    %cd ..", "if a:\n    pass  #~!ls\nelse:\n    pass  #~%cd .."),
        ("jax.jit?", "pass  #~jax.jit?"),
        ("?jax.jit\nx = 1", "pass  #~?jax.jit\nx = 1"),
        ("!pip install \\\n  jax\nx = 1", "pass  #~!pip install \\\npass  #~  jax\nx = 1"),
        ("pip install jax", "pass  #~pip install jax"),
        ("%%time\nx = 1\n%cd x", "pass  #~%%time\nx = 1\npass  #~%cd x"),
        ("%%writefile a.py\nimport jax\n\nx", "pass  #~%%writefile a.py\npass  #~import jax\n\npass  #~x"),
        ("x = (5\n% 3)", "x = (5\n% 3)"),
        ("!ls\nx = '''\n!not\n'''", "pass  #~!ls\nx = '''\n!not\n'''"),
        ("!ls\nx = (5\n  % 3)", "pass  #~!ls\nx = (5\n  % 3)"),
        ("x = a != b", "x = a != b"),
        ("%%bash\recho 1\n\rls", "pass  #~%%bash\rpass  #~echo 1\n\rpass  #~ls"),
        ("x = 1\r!ls\r\ny = !pwd\r", "x = 1\rpass  #~!ls\r\ny = get_ipython()  #~!pwd\r"),
        ("%%time\rx = 1\r\n%cd x", "pass  #~%%time\rx = 1\r\npass  #~%cd x"),
    ],
)
def test_what_is_not_python_keeps_its_line(code: str, python: str) -> None:
    assert convert_to_python(code) == python
    assert restore_notebook_code(python) == code


def test_what_cannot_be_checked_is_said(write: Write) -> None:
    root = write({"book.ipynb": json.dumps(made(cell("import jax"), cell("x = 1\nprint(x)s"))), "pyproject.toml": ""})
    assert checked(root) == [("SL001", 2, 2, 9)]
    (root / "book.ipynb").write_text("{")
    assert checked(root) == [("SL001", None, 1, 1)]
    (root / "book.ipynb").write_text(json.dumps(made(cell("using JAX;"), language_info={"name": "julia"})))
    assert checked(root) == []
    for broken in ("{}", "null", "[]", "3", '{"nbformat": 4}', '{"cells": {}}', '{"cells": null, "nbformat": 4}'):
        (root / "book.ipynb").write_text(broken)
        assert checked(root) == [("SL001", None, 1, 1)], broken
    (root / "book.ipynb").write_text('{"cells": []}')
    assert checked(root) == []
    old = {"worksheets": [{"cells": [{"cell_type": "code", "input": ["import jax\n", "jax.tree_map(abs, 1)"]}]}]}
    (root / "book.ipynb").write_text(json.dumps({**old, "nbformat": 3, "metadata": {}}))
    assert checked(root) == [("SL901", 1, 2, 1)]


def test_a_cell_that_cannot_be_parsed_is_left_out(write: Write) -> None:
    """The others are checked and fixed; what the cell binds is not known to them, its imports are."""
    broken = "import jax\nspec = P('nowhere'\nfor a in b\n  c = 1s  # now\n"
    book = made(
        cell("from jax.sharding import PartitionSpec as P\nspec = 1"),
        cell(broken),
        cell("y = jax.tree_map(abs, [1])\nz = jax.jit(abs, in_shardings=spec)"),
        cell("%%bash\nls"),
        cell("for one in"),
    )
    root = write({"book.ipynb": json.dumps(book, indent=1), "pyproject.toml": ""})
    assert checked(root) == [("SL001", 2, 4, 7), ("SL901", 3, 1, 5), ("SL001", 5, 1, 11)]
    (first, _, last) = (finding for file in check_paths([root], OPTIONS).reports for finding in file.findings)
    assert "cannot parse line 4 of cell 2" in first.message
    assert "cannot parse line 1 of cell 5" in last.message
    assert "skipped" in last.message
    before = (root / "book.ipynb").read_text()
    assert read_notebook(root / "book.ipynb", before.encode()).encode_file() == before.encode()
    fix_files([root], OPTIONS, unsafe=True, write=True)
    assert (root / "book.ipynb").read_text() == before.replace("jax.tree_map(", "jax.tree.map(")
    assert [row[:2] for row in checked(root)] == [("SL001", 2), ("SL001", 5)]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize(
    "broken", ["spec = P('a'{end}for a in b{end}  c = 1s", "%%bash{end}for x in $(ls); do{end}done", "  y = ({end}  z = 1{end}"]
)
def test_a_lone_carriage_return_ends_a_line(write: Write, broken: str, end: str) -> None:
    """As it does for Python and IPython: such a cell, left out or of another language, leaves the others checked."""
    book = made(cell("import jax"), cell(""), cell(f"x = 1{end}y = jax.tree_map(abs, [1]){end}"), cell("z"))
    book["cells"][1]["source"] = broken.format(end=end)
    root = write({"book.ipynb": json.dumps(book, indent=1), "pyproject.toml": ""})
    assert [row for row in checked(root) if row[0] != "SL001"] == [("SL901", 3, 2, 5)]
    before = (root / "book.ipynb").read_bytes()
    assert read_notebook(root / "book.ipynb", before).encode_file() == before
    assert "get_ipython" not in "\n".join(text.full_report(check_paths([root], OPTIONS)))
    fix_files([root], OPTIONS, unsafe=True, write=True)
    assert (root / "book.ipynb").read_bytes() == before.replace(b"jax.tree_map(", b"jax.tree.map(")


@pytest.mark.parametrize(
    ("code", "codes"),
    [
        ("%%writefile steps.py\nimport jax\n\ndef step(x):\n    return jax.tree_map(abs, x)\n", []),
        ("%%bash\nif true; then\n  ls\nfi\n", []),
        ("%%shown None\n\ny = jax.tree_map(\n    abs,\n    [1],\n)\n", ["SL901"]),
    ],
)
def test_cells_that_magics_read(write: Write, code: str, codes: list[str]) -> None:
    """Under a magic of its own a project has Python, where it can be read as such; indented lines stop nothing."""
    book = json.dumps(made(cell("import jax"), cell(code), cell("jax.tree_map(abs, 1)")))
    root = write({"book.ipynb": book, "pyproject.toml": ""})
    assert [row[0] for row in checked(root)] == [*codes, "SL901"]
    fix_files([root], OPTIONS, unsafe=True, write=True)
    after = (root / "book.ipynb").read_text()
    assert ("jax.tree_map" in after) == ("writefile" in code)
    assert json.loads(after)["cells"][1]["source"][0] == code.splitlines(keepends=True)[0]


def test_code_that_looks_like_a_kept_line_is_not_rewritten(write: Write) -> None:
    book = made(cell("import jax"), cell("pass  #~x\njax.tree_map(abs, 1)"))
    root = write({"book.ipynb": json.dumps(book), "pyproject.toml": ""})
    before = (root / "book.ipynb").read_bytes()
    fix_files([root], OPTIONS, unsafe=True, write=True)
    assert (root / "book.ipynb").read_bytes() == before


def test_explain_a_line_of_a_cell(write: Write) -> None:
    root = write({"book.ipynb": json.dumps(BOOK), "pyproject.toml": ""})
    first, *rest = explain_place(root / "book.ipynb", 3, 5)
    assert first.endswith("book.ipynb:cell 5:3: y = jax.tree_map(lambda x: x + 1, x)  # twice") and rest
    for cell_number, line in ((1, 1), (5, 9), (None, 3)):
        with pytest.raises(LookupError, match="PATH:cell N:LINE"):
            list(explain_place(root / "book.ipynb", line, cell_number))


MYST = """\
---
jupytext:
  formats: ipynb,md:myst
kernelspec:
  name: python3
---

# Title

```{code-cell} ipython3
:tags: [hide-input]

%matplotlib inline
import jax
```

```python
jax.tree_map(not, a, cell)
```

```{code-cell} ipython3
y = jax.tree_map(abs, [1])
```
"""


def test_markdown_beside_its_notebook(write: Write) -> None:
    book = json.dumps(made(cell("import jax"), cell("y = jax.tree_map(abs, [1])")))
    root = write({"book.ipynb": book, "book.md": MYST, "other.md": MYST, "README.md": "# x\n", "pyproject.toml": ""})
    assert [row[:3] for row in checked(root)] == [("SL901", 2, 1), ("SL901", 2, 1)]
    assert [row[:3] for row in checked(root / "other.md")] == [("SL901", 2, 1)]
    fix_files([root], OPTIONS, unsafe=True, write=True)
    assert (root / "book.md").read_text() == MYST.replace("y = jax.tree_map", "y = jax.tree.map")
    assert (root / "other.md").read_text() == MYST


def test_jupytext_markdown(tmp_path: Path) -> None:
    raw = "---\njupyter:\n  jupytext:\n    text_representation: {}\n---\n\n```python tags=[]\nx = 1\n```\n\n```bash\nls\n```\n"
    book = read_notebook(tmp_path / "a.md", raw.encode())
    assert book.text == "x = 1"
    assert book.with_text("x = 2\ny = 3").encode_file().decode() == raw.replace("x = 1", "x = 2\ny = 3")


def test_a_change_over_the_border_of_cells_is_not_written() -> None:
    book = read_notebook(Path("a.ipynb"), json.dumps(BOOK).encode())
    assert book.encode_file() == json.dumps(BOOK).encode()
    with pytest.raises(Unreadable, match="border"):
        book.with_text("x = 1").encode_file()


def test_a_byte_order_mark_and_crlf_stay(write: Write) -> None:
    data = b"\xef\xbb\xbf" + json.dumps(BOOK, indent=1).replace("\n", "\r\n").encode()
    root = write({"book.ipynb": data, "pyproject.toml": ""})
    fix_files([root], OPTIONS, unsafe=True, write=True)
    assert (root / "book.ipynb").read_bytes() == data.replace(b"jax.tree_map", b"jax.tree.map")
