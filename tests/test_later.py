"""A tree whose bodies are parsed later is the tree of the whole file, also where the text is made to mislead."""

from __future__ import annotations

import ast
import contextlib
import random
import textwrap
import warnings
from pathlib import Path

import pytest

from shardlint.check import check
from shardlint.facts import CutWrong, FileFacts, NotParsed, read_facts
from shardlint.facts.later import cuts, left_out
from shardlint.outcome import Options
from shardlint.sources.text import Source
from tests.conftest import Write

HERE = Path("here.py")
ROOT = Path(__file__).resolve().parent.parent
LONG = "\n".join(f"    number_{line} = {line} + {line}  " for line in range(12))
OWN = sorted(
    [
        *(ROOT / "shardlint").rglob("*.py"),
        *(ROOT / "fixtures").rglob("*.py"),
        *Path(__file__).parent.glob("*.py"),
    ]
)


def facts(text: str) -> FileFacts:
    return read_facts(Source(HERE, text), HERE, later=True)


def same(text: str) -> bool:
    """Whether the tree is that of the whole text, positions too."""
    return ast.dump(facts(text).tree, include_attributes=True) == ast.dump(
        ast.parse(text), include_attributes=True
    )


def test_a_long_body_is_left_out_until_somebody_looks() -> None:
    file = facts(f"import jax\n\ndef f(x):\n{LONG}\n    return jax\n\ny = f\n")
    node = file.tree.body[1]
    assert isinstance(node, ast.FunctionDef)
    assert left_out(node) is not None
    assert (node.lineno, node.end_lineno, node.end_col_offset) == (3, 16, 14), (
        "its extent is known all the same"
    )
    assert [type(found).__name__ for found in file.mentions("f")] == ["FunctionDef", "Name"]
    assert left_out(node) is not None, "its name is outside of it"
    assert [getattr(found, "lineno", 0) for found in file.mentions("jax")] == [1, 16]
    assert left_out(node) is None
    assert type(node) is ast.FunctionDef


@pytest.mark.parametrize(
    "text",
    [
        f"def f():\n{LONG}\n",
        f"async def f(x, y=lambda: 0, *z) -> None:\n{LONG}\n    await x\n",
        f"class C:\n    def f(self):\n{textwrap.indent(LONG, '    ')}\n\n    y = 1\n",
        f"class C:\n    class D:\n        async def f(self):\n{textwrap.indent(LONG, '        ')}\n    z = 1\n",
        f"def f(\n    a,  # note:\n    b={{'x': 1}},\n):\n{LONG}\n",
        f"def f(): return 1\ndef g():\n{LONG}\n",
        f"def f(): return 1\nclass C:\n    x = 1\n{LONG}\n",
        f"if x:\n    def f():\n{textwrap.indent(LONG, '    ')}\nelse:\n    pass\n",
        f"def f():\n{LONG}\n    # the end\n\n# of it\nx = 1\n",
        f"def f():\n{LONG}\n    x = 'é'\ny = 1\n",
        f"def f():\n{LONG}\n    return 1  # why\ny = 1\n",
        f'def f():\n{LONG}\n    x = """\nat the margin\n"""\ny = 1\n',
        f'def f():\n{LONG}\n    x = """\ndef g():\n    pass\n"""\n    return x\n',
        f'def f():\n{LONG}\n    # """\n\ndef g():\n    """Doc."""\n{LONG}\n',
        f"def f():\n{LONG}\n    x = (1 +\n2)\n    return x\n",
        f"def f():\n{LONG}\n    return (\n1\n)\n",
        f'"""\ndef f():\n{LONG}\n"""\ndef g():\n{LONG}\n',
        f"class C:\n    '''\n    def f():\n{textwrap.indent(LONG, '    ')}\n    '''\n    def g(self):\n{textwrap.indent(LONG, '    ')}\n",
        f"def f():\n{LONG}\n    def g():\n{textwrap.indent(LONG, '    ')}\n    return g\n",
        f"@x\ndef f():\n{LONG}\n    yield\n\n@y\n@z\ndef g():\n{LONG}\n",
        f"def f():\n{LONG}\n    return; x = 1;\ny = 1\n",
        f"def f():\n{LONG}\n    x = 1 + \\\n2\ny = 1\n",
        f"def f():\n{LONG}".replace("    ", "\t") + "\n\tx = 1\ny = 1\n",
        f"def f():\n{LONG}\nfor undef in y: pass\n",
        f"def f[T](x: T) -> T:\n{LONG}\n    return x\n" if hasattr(ast, "TypeVar") else "x = 1\n",
        f"def f():\r\n{LONG}\r\n    return 1\r\n",
        f"def f():\n{LONG}\n\f\ndef g():\n{LONG}\n",
    ],
)  # fmt: skip
def test_the_tree_is_that_of_the_whole_text(text: str) -> None:
    assert same(text)


def test_the_tree_far_down_a_file_is_that_of_the_whole_text() -> None:
    body = textwrap.indent(LONG, "    ")
    far = "x = 1\n" * 5_000
    assert same(f"{far}class C:\n    def f(self):\n{body}\n\n    def g(self):\n{body}\n\ndef h():\n{LONG}\n")


def test_the_tree_of_real_files_is_whole() -> None:
    cut = 0
    for path in OWN:
        text = path.read_text("utf-8")
        try:
            ast.parse(text)
        except SyntaxError:  # a bad example
            continue
        cut += bool(cuts(text, path, 0, len(text), 1)[1])
        assert same(text), path
    assert cut > 50


def test_the_tree_of_mangled_files_is_whole_or_is_found_out() -> None:
    chance = random.Random(7)
    for _ in range(300):
        lines = chance.choice(OWN).read_text("utf-8").splitlines(keepends=True)
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(len(lines) or 1)
            lines[at:at] = [
                chance.choice(['"""\n', "'''\n", "  # def f():\n", "def f():\n", "x = '''a\n", "(\n", ")\n"])
            ]
        text = "".join(lines)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                whole = ast.dump(ast.parse(text), include_attributes=True)
        except SyntaxError:
            continue
        with contextlib.suppress(CutWrong):  # then the whole is read
            assert ast.dump(facts(text).tree, include_attributes=True) == whole, text


def test_a_broken_body_is_found_out_when_it_is_looked_into() -> None:
    text = f"import jax\n\ndef f():\n{LONG}\n    x = = 1\n    jax\n"
    file = facts(text)
    with pytest.raises(CutWrong):
        file.mentions("jax")
    with pytest.raises(NotParsed, match="line 16"):
        read_facts(Source(HERE, text), HERE)


def test_a_check_tells_of_a_broken_body_it_needs_and_of_no_other(write: Write) -> None:
    bad = f"{LONG}\n    x = = 1\n"
    report = check(
        [
            write(
                {
                    "needed.py": f"import jax\n\ndef f(x):\n{bad}    jax.device_put(x)\n",
                    "other.py": f"import jax\n\ndef f(y):\n{bad}\n\njax.device_put(1)\n",
                }
            )
        ],
        Options(select=("SL001", "SL203")),
    )
    codes = {file.path.name: [finding.rule.code for finding in file.findings] for file in report.reports}
    assert codes == {"needed.py": ["SL001"], "other.py": ["SL203"]}


def test_a_broken_body_elsewhere_is_as_a_file_that_is_not_there(write: Write) -> None:
    root = write(
        {
            "a.py": "import jax\nfrom b import f\n\ng = jax.jit(f)\n\n\n@jax.jit\ndef h(x):\n    return f(x)\n",
            "b.py": f"import jax\n\ndef f(x):\n{LONG}\n    x = = 1\n    return jax.device_put(x)\n",
        }
    )
    report = check([root / "a.py"], Options())
    assert (report.failed, report.skipped) == (False, [])
