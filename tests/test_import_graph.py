"""Which files run together, by their imports."""

from __future__ import annotations

import random

import pytest

from shardlint.source.import_graph import ANY, ImportGraph, parse_imports


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import a.b as c, d\n", {"a.b", "d"}),
        ("from a import b as c, d\n", {"a", "a.b", "a.d"}),
        ("from a import (  # (all of it)\n    b,  # not c)\n    d,\n)\n", {"a", "a.b", "a.d"}),
        ("from a \\\n    import b, \\\n    c\r\nimport d", {"a", "a.b", "a.c", "d"}),
        ("from . import b\nfrom .c import d\nfrom .. import e\nfrom .import f\n", {".", ".b", ".c", ".c.d", "..", "..e", ".f"}),
        ("from . x import y\n", {".x", ".x.y"}),
        ("from a import *\n", {"a"}),
        ("try: import a\nexcept ImportError: import b; import c\n", {"a", "b", "c"}),
        ("def f():\n\tfrom a import b\n", {"a", "a.b"}),
        ("x = important\n# import a\nreimport = 1\nfor import_ in x: pass\n", set()),
        ("import_module('a.b')\nimportlib.import_module(name='c')\n", {"a.b", ANY, "c"}),
        ("__import__(\n  \"a\"\n)\n", {"a"}),
        ("import_module(f'models.{name}')\n", {ANY, "models.*"}),
        ("import_module('models.' + name)\n", {ANY, "models.*"}),
        ("import é\n", {"é"}),
        ("", set()),
    ],
)  # fmt: skip
def test_imports(text: str, found: set[str]) -> None:
    assert set(parse_imports(text.encode())) == found


@pytest.mark.parametrize(
    "text",
    [
        # The two that take longest: they are read by the patterns of the others too.
        pytest.param("import ", marks=pytest.mark.longer),
        pytest.param("from a import (", marks=pytest.mark.longer),
        "\\\n",
        "from ",
        "import_module(",
        "; : ",
        "from .",
    ],
)
def test_odd_text_costs_its_length(text: str) -> None:
    data = b"import jax\n" + (text * 300_000).encode()  # by the square of it, it would take hours
    assert "jax" in parse_imports(data)


def together(files: dict[str, str], name: str, joined: bool = False) -> set[str]:
    graph = ImportGraph("/p", {f"/p/{path}": parse_imports(text.encode()) for path, text in files.items()})
    found = graph.paths_of_bits((graph.files_transitively_together if joined else graph.files_run_together)(f"/p/{name}"))
    return {path.removeprefix("/p/") for path in found}


@pytest.mark.parametrize(
    ("files", "apart"),
    [
        ({"a.py": "", "b.py": ""}, True),
        ({"a.py": "import jax", "b.py": "import jax", "jax/__init__.py": ""}, True),
        ({"a.py": "import types", "b.py": "from x import types", "x/types.py": ""}, True),
        ({"a.py": "import lib", "b.py": "import lib", "lib.py": ""}, True),
        ({"a.py": "from lib import f", "b.py": "", "lib.py": "import b"}, False),
        ({"a.py": "", "b.py": "", "main.py": "import a\nfrom b import f"}, False),
        ({"x/a.py": "", "x/b.py": ""}, True),
        ({"x/a.py": "", "x/b.py": "", "x/__init__.py": ""}, True),
        ({"x/a.py": "", "x/b.py": "", "x/__init__.py": "from . import b"}, False),
        ({"x/a.py": "import b", "x/b.py": ""}, False),
        ({"x/y/a.py": "from ..b import f", "x/b.py": ""}, False),
        ({"src/x/a.py": "", "src/b.py": "", "run.py": "import x.a, b"}, False),
        ({"run/a.py": "import b", "libs/deep/b.py": ""}, False),
        ({"run/a.py": "import deep.b", "libs/deep/b.py": ""}, False),
        ({"tests/test_a.py": "", "b.py": "", "conftest.py": "import b"}, False),
        ({"tests/test_a.py": "", "b.py": "", "other/conftest.py": "import b"}, True),
        ({"tests/test_a.py": "", "tests/test_b.py": "", "tests/conftest.py": "import jax"}, True),
        ({"a.py": "", "b.py": "", "tests/conftest.py": "import a, b"}, False),
        ({"a.py": "", "b.py": "import_module(sys.argv[1])"}, True),
        ({"a.py": "import b", "b.py": "", "c.py": "import_module(sys.argv[1])"}, False),
        ({"p/a.py": "", "p/b.py": "", "main.py": "import p.a\nimport_module(f'p.{name}')"}, False),
        ({"p/a.py": "", "p/b.py": "import_module(name)", "p/__init__.py": ""}, False),
        ({"a.py": "", "b.py": "import_module(WHICH['x'])\nWHICH = {'x': 'a'}"}, False),
    ],
)
def test_apart(files: dict[str, str], apart: bool) -> None:
    first, second, *_ = files
    assert first in together(files, first)
    assert (second not in together(files, first)) == apart


def test_a_file_that_imports_by_a_hidden_name_may_run_with_all() -> None:
    files = {"a.py": "", "b.py": "import_module(sys.argv[1])", "c.py": ""}
    assert together(files, "b.py") == set(files)
    assert together(files, "a.py") == {"a.py"}


def test_no_name_that_is_made_up_imports_a_notebook() -> None:
    files = {"train.py": "import_module(f'configs.{name}')", "configs/a.py": "", "configs/demo.ipynb": "import jax"}
    assert together(files, "configs/demo.ipynb") == {"configs/demo.ipynb"}
    assert "configs/a.py" in together(files, "train.py")


def test_a_library_meets_all_its_users_and_they_do_not_meet_each_other() -> None:
    files = {"a.py": "import lib", "b.py": "import lib", "lib.py": "", "c.py": ""}
    assert together(files, "lib.py") == {"a.py", "b.py", "lib.py"}
    assert together(files, "a.py") == {"a.py", "lib.py"}
    assert together(files, "a.py", joined=True) == {"a.py", "b.py", "lib.py"}
    assert together(files, "c.py", joined=True) == {"c.py"}


def test_a_file_that_is_not_of_the_project_meets_all() -> None:
    assert together({"a.py": "", "b.py": ""}, "out/c.py") == {"a.py", "b.py"}


@pytest.mark.parametrize("seed", range(20))
def test_what_is_known_of_others_changes_no_answer(seed: int) -> None:
    chance = random.Random(seed)
    files = {
        f"m{index}.py": "".join(f"import m{chance.randrange(30)}\n" for _ in range(chance.randrange(3)))
        for index in range(30)
    }
    edges = {path: {f"{name}.py" for name in parse_imports(text.encode())} for path, text in files.items()}

    def reach(start: set[str], step: dict[str, set[str]]) -> set[str]:
        found = set(start)
        while more := {other for one in found for other in step[one]} - found:
            found |= more
        return found

    above = {path: {one for one, targets in edges.items() if path in targets} for path in files}
    graph = ImportGraph("/p", {f"/p/{path}": parse_imports(text.encode()) for path, text in files.items()})
    for path in files:
        found = {one.removeprefix("/p/") for one in graph.paths_of_bits(graph.files_run_together(f"/p/{path}"))}
        assert found == reach(reach({path}, above), edges)
