"""Fixes that would break the project on the oldest releases it allows are not made."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from shardlint.engine.results import Options
from shardlint.rewrite.fix import FixReport, fix_files

OLD = """\
import jax
from jax.experimental.shard_map import shard_map
from jax.sharding import PartitionSpec as P


def main(mesh, x):
    f = shard_map(lambda a: a, mesh=mesh, in_specs=P("data"), out_specs=P("data"), check_rep=False)
    return jax.tree_map(lambda a: a, f(x))
"""
REQUIRED = '[project]\nname = "a"\nversion = "1"\ndependencies = ["{}"]\n'


def project(folder: Path, requirement: str, text: str = OLD) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(REQUIRED.format(requirement))
    (folder / "train.py").write_text(text)
    return folder


def fixed(root: Path, **targets: str) -> tuple[str, list[str]]:
    """The text afterwards, and what is said of what is left."""
    report = fix_files([root], Options(targets=targets), unsafe=True, write=True)
    return (root / "train.py").read_text(), said(report)


def said(report: FixReport) -> list[str]:
    return [finding.help for outcome in report.fixed for finding in outcome.left]


@pytest.mark.parametrize("requirement", ["jax>=0.4.30", "jax~=0.4", "jax>0.4.37,<1", "jax>=0.3.1"])
def test_names_that_came_later_are_refused_with_the_bound(tmp_path: Path, requirement: str) -> None:
    text, left = fixed(project(tmp_path, requirement))
    assert "from jax.experimental.shard_map import shard_map" in text and "check_rep" in text
    assert ("jax.tree.map(" in text) == (requirement in ("jax>=0.4.30", "jax>0.4.37,<1"))  # it came with 0.4.25
    assert any("pyproject.toml allows 0." in one and "jax.shard_map is new in jax" in one for one in left), left


@pytest.mark.parametrize("requirement", ["jax>=0.8", "jax", "jax<0.13", "jax==0.12.0", "numpy"])
def test_what_the_oldest_release_has_is_written(tmp_path: Path, requirement: str) -> None:
    text, left = fixed(project(tmp_path, requirement))
    assert "from jax import shard_map" in text and "check_vma=False" in text and "jax.tree.map(" in text
    assert not left


@pytest.mark.parametrize("lower", ["0.4.24", "0.4.25"])
def test_names_that_no_finding_tells_are_refused(tmp_path: Path, lower: str) -> None:
    """No rule reports `jax.tree.map` on a release that does not have it: the fix says what it needs."""
    text, left = fixed(project(tmp_path, f"jax>={lower}"))
    assert ("jax.tree.map(" in text) == (lower == "0.4.25")
    assert any("allows 0.4.24, and jax.tree.map is new in jax 0.4.25" in one for one in left) == (lower == "0.4.24")


CLIP = "import jax.numpy as jnp\n\n\ndef f(x):\n    return jnp.clip(x, a_min=0, a_max=1)\n"
WITH_SPEC = (
    "import jax\nfrom jax.sharding import NamedSharding, PartitionSpec as P\n\n\n"
    "def f(mesh):\n    return NamedSharding(mesh, P('a')).with_spec(P())\n"
)
ERROR = "import jax\nfrom jax.lib import xla_client\n\nERROR = xla_client.XlaRuntimeError\n"


@pytest.mark.parametrize(
    ("text", "since", "before", "needs"),
    [
        (CLIP, "0.4.27", "0.4.26", "jax.numpy.clip(min=)"),
        (WITH_SPEC, "0.6.2", "0.6.1", "NamedSharding.update"),
        (ERROR, "0.4.34", "0.4.33", "jax.errors.JaxRuntimeError"),
    ],
)
def test_keywords_and_attributes_are_refused(tmp_path: Path, text: str, since: str, before: str, needs: str) -> None:
    kept, left = fixed(project(tmp_path / "older", f"jax>={before}", text))
    assert kept == text
    assert any(f"allows {before}, and {needs} is new in jax {since}" in one for one in left), left
    changed, left = fixed(project(tmp_path / "newer", f"jax>={since}", text))
    assert changed != text and not left


def test_what_the_oldest_release_lacks_already_is_no_worse(tmp_path: Path) -> None:
    """`jax.tree_multimap` is gone from every release that is allowed; `jax.tree_map` is not."""
    text = "import jax\n\n\ndef f(x):\n    return jax.tree_multimap(abs, jax.tree_map(abs, x))\n"
    after, _ = fixed(project(tmp_path, "jax>=0.4.13", text))
    assert "jax.tree.map(abs, jax.tree_map(abs, x))" in after


def test_a_lock_file_takes_no_release_from_others(tmp_path: Path) -> None:
    """The project runs with the locked release, but others may install any release that its requirement allows."""
    root = project(tmp_path, "jax>=0.4.30")
    (root / "uv.lock").write_text('version = 1\n[[package]]\nname = "jax"\nversion = "0.8.3"\n')
    text, left = fixed(root)
    assert "from jax.experimental.shard_map import shard_map" in text
    assert any("jax>=0.4.30 in pyproject.toml allows 0.4.30" in one for one in left), left


def test_a_bound_older_than_what_is_known_is_said(tmp_path: Path) -> None:
    _, left = fixed(project(tmp_path / "older", "jax>=0.2"))
    assert any("jax>=0.2 in pyproject.toml allows 0.3.25, the oldest release that shardlint knows, " in one for one in left)
    _, left = fixed(project(tmp_path / "known", "jax>=0.3.25"))
    assert left and not any("the oldest that" in one for one in left)


def test_only_what_breaks_is_refused_of_a_line(tmp_path: Path) -> None:
    text = (
        "import jax\nimport jax.experimental.shard_map\n\n\ndef f(mesh, s, x):\n"
        "    return jax.tree_map(abs, jax.experimental.shard_map.shard_map(abs, mesh, s, s)(x))\n"
    )
    after, left = fixed(project(tmp_path, "jax>=0.4.30", text))
    assert "return jax.tree.map(abs, jax.experimental.shard_map.shard_map(abs, mesh, s, s)(x))" in after
    assert len(left) == 1


CONTEXT = (
    "import jax\nimport numpy as np\nfrom jax.sharding import Mesh\n\n"
    'mesh = Mesh(np.array(jax.devices()), ("data",))\n\n\n'
    "def run(x):\n    with mesh:\n        return jax.jit(lambda x: x)(x)\n"
)


def test_the_bound_is_an_obstacle_of_the_move_of_a_project(tmp_path: Path) -> None:
    root = project(tmp_path, "jax>=0.4.30", CONTEXT)
    (root / "other.py").write_text(CONTEXT)
    report = fix_files([root], Options(), unsafe=True, write=True)
    left = [finding for outcome in report.fixed for finding in outcome.left if finding.rule.code == "SL315"]
    assert len(left) == 2 and not any(outcome.is_changed for outcome in report.fixed)
    for finding in left:
        assert finding.obstacles and "jax>=0.4.30 in pyproject.toml allows 0.4.30" in finding.obstacles[0]


def test_targets_of_the_settings_leave_the_bound(tmp_path: Path) -> None:
    """They say for which release fixes are made, not that the project gives up older ones."""
    root = project(tmp_path, "jax>=0.4.30")
    (root / "shardlint.toml").write_text('[targets]\njax = "0.12.0"\n')
    text, left = fixed(root)
    assert "check_rep" in text and any("allows 0.4.30" in one for one in left)


def test_upgrade_is_to_the_release_it_names(tmp_path: Path) -> None:
    """The project moves: what its requirements allowed until now does not count, but for other packages."""
    root = project(tmp_path, "jax>=0.4.30", CONTEXT)
    command = [sys.executable, "-m", "shardlint", "upgrade", "--to", "jax=0.12", "."]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert "with jax.set_mesh(mesh):" in (root / "train.py").read_text(), ran.stdout + ran.stderr


def test_a_release_that_is_asked_for_is_the_oldest(tmp_path: Path) -> None:
    text, _ = fixed(project(tmp_path, "jax>=0.4.30"), jax="0.12.0")
    assert "from jax import shard_map" in text and "check_vma=False" in text


def test_what_is_broken_there_already_may_be_fixed(tmp_path: Path) -> None:
    """A line that raises on the oldest release is no reason to leave another line, or itself, as it is."""
    text = OLD + "\n\ndef of(mesh):\n    with jax.set_mesh(mesh):\n        return jax.tree_map(abs, 1)\n"
    after, _ = fixed(project(tmp_path, "jax>=0.4.30", text))
    assert after.count("jax.tree.map(") == 2 and "check_rep" in after


def test_each_project_has_its_own_bound_in_any_order(tmp_path: Path) -> None:
    texts = []
    for turn, order in enumerate((("old", "new"), ("new", "old"))):
        root = tmp_path / str(turn)
        for name, requirement in (("old", "jax>=0.4.30"), ("new", "jax>=0.8")):
            project(root / name, requirement)
        fix_files([root / name for name in order], Options(), unsafe=True, write=True)
        texts.append([(root / name / "train.py").read_text() for name in ("old", "new")])
    assert texts[0] == texts[1]
    assert "check_rep" in texts[0][0] and "check_vma" in texts[0][1]


def test_a_mesh_context_stays_where_the_oldest_release_has_no_set_mesh(tmp_path: Path) -> None:
    text = (
        "import jax\nimport numpy as np\nfrom jax.sharding import Mesh\n\n"
        'mesh = Mesh(np.array(jax.devices()), ("data",))\nwith mesh:\n    print(jax.jit(lambda x: x)(1))\n'
    )
    after, left = fixed(project(tmp_path, "jax>=0.4.30", text))
    assert after == text
    assert any("`jax.set_mesh` came with jax" in one for one in left), left


def test_standard_input_and_diff_refuse_alike(tmp_path: Path) -> None:
    root = project(tmp_path, "jax>=0.4.30")
    command = [sys.executable, "-m", "shardlint", "fix", "--unsafe-fixes"]
    shown = subprocess.run([*command, "--diff", "."], cwd=root, capture_output=True, text=True, check=False).stdout
    assert "+    return jax.tree.map(" in shown and "check_vma" not in shown
    piped = subprocess.run(
        [*command, "-", "--stdin-filename", "train.py"],
        cwd=root, input=OLD, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "check_rep" in piped.stdout and "jax.tree.map(" in piped.stdout, piped.stderr


def test_standard_input_is_read_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "shardlint", "fix", "-"]
    for more in (["train.py"], ["--verify"], ["--interactive"]):
        ran = subprocess.run(
            [*command, *more], cwd=tmp_path, input="", capture_output=True, text=True, check=False
        )
        assert ran.returncode == 2 and "standard input" in ran.stderr, ran.stderr
    ran = subprocess.run(command, cwd=tmp_path, input="def f(:\n", capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "def f(:\n") and "cannot parse" in ran.stderr


PROOFS = Path(__file__).parent.parent / "fixtures"


def newer_syntax(text: str) -> set[str]:
    """Return the syntax in a text that Python 3.8 cannot read. (`ast.parse` with a `feature_version` lets brackets
    around contexts pass.)
    """
    found = set()
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Match | ast.TryStar):
            found.add(type(node).__name__)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            found |= {"[*a]" for one in node.slice.elts if isinstance(one, ast.Starred)}
        elif isinstance(node, ast.With | ast.AsyncWith):
            several = len(node.items) > 1 or node.items[0].optional_vars is not None
            found |= {"with ("} if several and _bracketed(tokens, node) else set()
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found |= {"@" for one in node.decorator_list if not _dotted(one.func if isinstance(one, ast.Call) else one)}
            found |= {"[T]"} if getattr(node, "type_params", None) else set()
    return found


def _bracketed(tokens: list[tokenize.TokenInfo], node: ast.With | ast.AsyncWith) -> bool:
    """Return whether one pair of brackets encloses all items between `with` and its colon."""
    behind = [one for one in tokens if one.start >= (node.lineno, node.col_offset)]
    behind = [one for one in behind if one.type == tokenize.OP or one.string.strip()]
    words = behind[1 + (isinstance(node, ast.AsyncWith)) :]
    depth = 0
    for place, one in enumerate(words):
        depth += (one.string in ("(", "[", "{")) - (one.string in (")", "]", "}"))
        if depth == 0:
            return words[0].string == "(" and words[place + 1].string == ":"
    return False


def _dotted(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("with (a as b, c):\n    pass\n", {"with ("}),
        ("with (\n    f(a),\n    c,\n):\n    pass\n", {"with ("}),
        ("with f(\n    a,\n), (c), (d):\n    pass\n", set()),
        ("with (a), (b):\n    pass\n", set()),
        ("match a:\n    case 1:\n        pass\n", {"Match"}),
        ("a[0, *b]\n", {"[*a]"}),
        ("@a.b(1)(2)\n@a.b(1)\n@c.d\ndef f(): ...\n", {"@"}),
    ],
)
def test_newer_syntax_is_seen(text: str, found: set[str]) -> None:
    assert newer_syntax(text) == found


def test_fixes_write_no_newer_syntax() -> None:
    """The fixed programs of all proofs (`good`, byte for byte) need no newer Python than the releases of their time."""
    pairs = []
    for bad in [*sorted(PROOFS.glob("*/bad*.py")), *sorted(PROOFS.glob("*/bad*/*.py"))]:
        code = bad.relative_to(PROOFS)
        good = PROOFS / Path(*(part.replace("bad", "good", 1) for part in code.parts))
        if good.is_file():
            pairs.append((bad, good))
    assert len(pairs) > 100
    found = {
        str(good): new
        for bad, good in pairs
        if (new := newer_syntax(good.read_text("utf-8")) - newer_syntax(bad.read_text("utf-8")))
    }
    assert not found


@pytest.mark.parametrize("more", ["", " as m"])
def test_contexts_of_one_with_stay_without_brackets(tmp_path: Path, more: str) -> None:
    """`with (a, b):` is syntax of Python 3.9: a line that grows too long is broken within a call."""
    several = f'with mesh, jax.named_scope("a scope with a longer name"), jax.disable_jit(False){more}:'
    after, _ = fixed(project(tmp_path, "jax>=0.8", CONTEXT.replace("with mesh:", several)))
    assert "jax.set_mesh(mesh)" in after and not newer_syntax(after)
    assert max(map(len, after.splitlines())) <= 88
