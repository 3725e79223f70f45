"""Where a new import is put, in which order and layout."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.engine.results import Options
from shardlint.rewrite.edits import Layer
from shardlint.rewrite.fix import fix_files
from shardlint.rules_api.import_order import add_imported_name, one_a_line, sorted_place
from shardlint.source.text import Source
from shardlint.syntax import FileFacts, read_facts

Write = Callable[..., Path]


def facts(text: str) -> FileFacts:
    return read_facts(Source(Path("x.py"), text), Path("x.py"))


def placed(text: str, statement: str = "import jax", kin: tuple[str, ...] = ("numpy",)) -> str | None:
    """A file with one more import; None where its place is not to be told."""
    file = facts(text + "\nuse()\n")
    place = sorted_place(file, statement, file.tree.body[-1], kin)
    return None if place is None else f"{text[:place]}+ {statement}\n{text[place:]}"


@pytest.mark.parametrize(
    "expected",
    [
        pytest.param("+ import jax\nimport numpy as np\n", id="one"),
        pytest.param(
            "import os\n\nimport equinox\n+ import jax\nimport jax.numpy as jnp\nfrom jax import lax\n\nfrom . import near\n",
            id="plain imports first",
        ),
        pytest.param(
            "from absl import app\nimport flax\n+ import jax\nfrom jax import lax\nimport jax.numpy as jnp\n",
            id="by module",
        ),
        pytest.param("import os\nimport sys\n+ import jax\nimport numpy\nfrom . import near\n", id="no empty lines"),
        pytest.param("import numpy\n\n# first\nimport flax  # noqa\n+ import jax\nfrom jax import lax\n", id="with its own"),
        pytest.param("import flax\n+ import jax\n# about lax\nfrom jax import lax\n", id="above a comment"),
        pytest.param("# ours\n+ import jax\nfrom jax import lax\n", id="below a heading"),
        pytest.param("import numpy as np; import os\n", id="several in a line"),
        pytest.param("import scipy\nimport numpy\nimport math\n", id="no order"),
        pytest.param("import numpy\nimport jax.numpy\n+ import jax\nfrom . import a\nimport math\n", id="no order but kin"),
        pytest.param("import os\n", id="nothing of its kind"),
        pytest.param("def f(): ...\nimport numpy\n", id="behind a function"),
        pytest.param("import numpy as np\n(\nuse)()\n+ import jax\nfrom jax import lax\n", id="not above other code"),
    ],
)  # fmt: skip
def test_an_import_comes_where_the_order_puts_it(expected: str) -> None:
    text = expected.replace("+ import jax\n", "")
    assert placed(text) == (expected if "+" in expected else None)


def test_an_import_is_not_put_behind_what_is_near() -> None:
    head, rest = "import jax\n", "from . import near\nfrom .b import f\nfrom other import g\n"
    statement = "from jax.extend import backend"
    assert placed(head + rest, statement) == f"{head}+ {statement}\n{rest}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from m import Mesh, PartitionSpec", "from m import Mesh, NamedSharding, PartitionSpec"),
        ("from m import PartitionSpec as P", "from m import NamedSharding, PartitionSpec as P"),
        ("from m import AXES, Mesh, made", "from m import AXES, Mesh, NamedSharding, made"),
        ("from m import axes, Mesh, where", "from m import axes, Mesh, NamedSharding, where"),
        ("from m import where, axes", "from m import where, axes, NamedSharding"),
        ("from m import (\n    Mesh,  # a\n    P,\n)", "from m import (\n    Mesh,  # a\n    NamedSharding,\n    P,\n)"),
        ("from m import (\n    A,\n    B,  # b\n)", "from m import (\n    A,\n    B,  # b\n    NamedSharding,\n)"),
        ("from m import (\n    A,\n    B  # b\n)", "from m import (\n    A,\n    B,  # b\n    NamedSharding\n)"),
        ("from m import (\n    A,\n    B\n)", "from m import (\n    A,\n    B,\n    NamedSharding\n)"),
        ("from m import (A,\n               B)", "from m import (A,\n               B,\n               NamedSharding)"),
    ],
)  # fmt: skip
def test_a_name_comes_where_the_order_puts_it(before: str, after: str) -> None:
    file = facts(before + "\n")
    (statement,) = file.tree.body
    assert isinstance(statement, ast.ImportFrom)
    made = Layer.sort_edits(add_imported_name(file, statement, "NamedSharding")).apply_edits(file.source.text)
    ast.parse(made)
    assert made == after + "\n"


def test_a_file_that_takes_names_one_by_one_is_known() -> None:
    file = facts("from m import A\nfrom m import B\nfrom n import C, D\nfrom o import E\n")
    assert [one_a_line(file, module) for module in "mnop"] == [True, False, False, False]
    file = facts("from m import A\nfrom n import B as C\nfrom o import E\n")
    assert all(one_a_line(file, module) for module in "mnop")


def test_a_moved_import_comes_to_its_place(write: Write) -> None:
    before = (
        "import jax\nfrom jax import lax\nfrom jax.experimental import mesh_utils\nfrom jax.experimental.shard_map import shard_map\n"
        "import jax.numpy as jnp\n\n\ndef f(x, mesh, spec):\n"
        "  return shard_map(jnp.sin, mesh=mesh, in_specs=spec, out_specs=spec)(mesh_utils and lax and x)\n"
    )
    root = write({"x.py": before})
    fix_files([root], Options(targets={"jax": "0.12.0"}), unsafe=False, write=True)
    assert (root / "x.py").read_text().splitlines()[:5] == [
        "import jax",
        "from jax import lax",
        "from jax import shard_map",
        "from jax.experimental import mesh_utils",
        "import jax.numpy as jnp",
    ]
