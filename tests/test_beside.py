"""Code counts together where it can run together: scripts that lie beside a file change nothing that is said of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from shardlint.config.certainty import Certainty
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from shardlint.rewrite.fix import fix_files
from tests.conftest import Write

FIXTURES = Path(__file__).parent.parent / "fixtures"
# What other files are asked about, in code of their own.
OTHER = """\
import contextlib
import importlib
import sys
import flax.linen as nn
import haliax as hax
import jax
import numpy as np
from flax import nnx
from jax.experimental.pjit import pjit as pj
from jax.interpreters import pxla
from jax.sharding import AxisType, Mesh, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
old = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
rules = [("batch", "data"), ("embed", None)]
tool = importlib.import_module(sys.argv[1])
flax.config.update("flax_always_shard_variable", False)
print(jax.memory.Space, nnx.get_named_sharding, nn.get_sharding, nn.get_partition_spec, nn.logical_to_mesh)

def begin(which):
    jax.set_mesh(which)
    nn.set_logical_axis_rules(rules)

def run(step, x):
    stack = contextlib.ExitStack()
    stack.enter_context(mesh)
    with old, nn.logical_axis_rules(rules):
        return pj(step, in_shardings=P("data"))(x), pxla.thread_resources.env.physical_mesh

def use(which):
    with jax.sharding.use_mesh(which), hax.axis_mapping({"batch": "data"}):
        return jax.pmap(lambda x: nn.with_logical_constraint(x, ("batch", None)))(jax.numpy.ones((8, 2)))
"""


def told(file: Path, *rules: str) -> list[tuple[object, ...]]:
    """Return the findings in a file, with their replacements."""
    report = check_paths([file], Options(certainty=Certainty.POSSIBLE, select=rules))
    assert not report.failed
    return [
        (found.rule.code, found.start, found.message, found.certainty, found.why, found.help, found.fix)
        for one in report.reports
        for found in one.findings
    ]


def project(folder: Path, fixture: Path, others: dict[str, str]) -> Path:
    """A project of a fixture and other files. The same folder for both: paths are in what is said."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "setup.cfg").touch()
    for name, text in others.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return shutil.copy(fixture, folder / "program.py")


@pytest.mark.longer
@pytest.mark.parametrize("rule", sorted(folder.name for folder in FIXTURES.glob("SL[1-9]*")))
def test_scripts_beside_a_file_change_nothing(tmp_path: Path, rule: str) -> None:
    others = {"other.py": OTHER, "scripts/deep/again.py": OTHER, "scripts/broken.py": OTHER + "def f(:\n"}
    for fixture in sorted((FIXTURES / rule).glob("*.py")):
        alone = told(project(tmp_path / "p", fixture, {}), rule)
        assert told(project(tmp_path / "p", fixture, others), rule) == alone, fixture.name


EXPLICIT = """\
import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Explicit,))

def on(x, mesh):
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("data")))
"""
AUTO = "import jax, numpy\nmesh = jax.sharding.Mesh(numpy.array(jax.devices()), ('data',))\n"


@pytest.mark.parametrize(
    ("others", "found"),
    [
        ({}, True),
        ({"b.py": AUTO}, True),
        ({"deep/b.py": AUTO}, True),
        ({"b.py": AUTO + "import lib\n", "lib.py": "x = 1\n"}, True),
        ({"b.py": AUTO + "import a\n"}, False),
        ({"b.py": AUTO + "from a import on\n"}, False),
        ({"b.py": AUTO, "main.py": "import a\nimport b\n"}, False),
        ({"deep/b.py": AUTO, "main.py": "import sys\nsys.path.append('deep')\nimport a, b\n"}, False),
        ({"b.py": AUTO, "tests/conftest.py": "import a, b\n"}, False),
        ({"b.py": AUTO, "main.py": "import a\nimportlib.import_module(name)\n"}, False),
    ],
)
def test_meshes_reach_a_file_through_imports(write: Write, others: dict[str, str], found: bool) -> None:
    root = write({"a.py": EXPLICIT, **others})
    assert ("SL313" in [code for code, *_ in told(root / "a.py")]) == found


def test_a_shared_library_is_told_of_its_user(write: Write) -> None:
    lib = "import jax\nfrom jax.sharding import PartitionSpec as P\n\n"
    lib += "def keep(x):\n    return jax.lax.with_sharding_constraint(x, P('data'))\n"
    bare = "import jax\nfrom lib import keep\nprint(jax.jit(keep)(jax.numpy.ones(8)))\n"
    under = "import jax\nfrom lib import keep\nmesh = jax.make_mesh((8,), ('data',))\n"
    under += "with jax.set_mesh(mesh):\n    print(jax.jit(keep)(jax.numpy.ones(8)))\n"
    said = {}
    for name, text in (("bare", bare), ("under", under)):
        root = write({"lib.py": lib, "bare.py": "", "under.py": "", f"{name}.py": text})
        said[name] = {(code, certainty) for code, _, _, certainty, *_ in told(root / "lib.py")}
    assert said["bare"] != said["under"]


def test_an_obstacle_in_one_program_blocks_no_fix_in_another(write: Write) -> None:
    good = """
        import jax
        import numpy as np
        from jax.experimental.pjit import pjit
        from jax.sharding import Mesh, PartitionSpec as P

        def run(x):
            with Mesh(np.array(jax.devices()), ("data",)):
                return pjit(lambda y: y * 2, out_shardings=P("data"))(x)
        """
    bad = good + "\n        def more(stack, mesh):\n            stack.enter_context(mesh)\n"
    options = Options(certainty=Certainty.POSSIBLE, select=("SL315", "SL902"))
    changed = {}
    for link in ("", "import good\n"):
        root = write({"good.py": good, "bad.py": bad})
        if link:
            (root / "bad.py").write_text(link + (root / "bad.py").read_text())
        fix_files([root], options, unsafe=True, write=True)
        changed[link] = ["set_mesh" in (root / name).read_text() for name in ("good.py", "bad.py")]
    assert changed == {"": [True, False], "import good\n": [False, False]}
