"""Shardings given to `filter_jit` in every form that people write: each is fixed, and runs as it says then."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from shardlint.rewrite.fix import fix_files
from tests.programs import Warmed

HERE = Path(__file__).parent / "data" / "filter_jit_forms"
OPTIONS = Options(select=("SL101",), targets={"equinox": "0.13.8", "jax": "0.12.0"})
FORMS = dict(
    zip(
        *[iter(re.split(r"^## (\w+)\n", (HERE / "forms.txt").read_text("utf-8"), flags=re.MULTILINE)[1:])] * 2,
        strict=True,
    )
)
RUN = """
import json, sys, jax
import numpy as np
from pathlib import Path

found = {}
for path in sorted(Path(sys.argv[1]).glob("*/prog.py")):
    names = {}
    try:
        exec(compile(path.read_text(), str(path), "exec"), names)
        out = jax.tree.leaves(names["run"]() if "run" in names else names["out"])
        asked = jax.tree.leaves(names["want"], is_leaf=lambda one: one is None or isinstance(one, jax.P))
        placed = [
            want is None
            or one.sharding.is_equivalent_to(
                jax.NamedSharding(names["mesh"], want) if isinstance(want, jax.P) else want, one.ndim
            )
            for one, want in zip(out, asked, strict=True)
        ]
        found[path.parent.name] = "" if all(placed) else str([one.sharding for one in out])
        if "reference" in names:
            for one, other in zip(out, jax.tree.leaves(names["reference"]()), strict=True):
                np.testing.assert_allclose(one, other, atol=1e-5)
    except Exception as error:
        found[path.parent.name] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


@pytest.mark.longer
def test_all_forms_are_fixed_and_run(tmp_path: Path, warmed: Warmed) -> None:
    head = (HERE / "head.txt").read_text("utf-8")
    for name, text in FORMS.items():
        path = tmp_path / name / "prog.py"
        path.parent.mkdir()
        path.write_text(head + text, "utf-8")
        (path.parent / "pyproject.toml").touch()
    report = fix_files([tmp_path], OPTIONS, unsafe=True, write=True)
    left = {outcome.path.parent.name: one.help for outcome in report.fixed for one in outcome.left}
    assert not left
    assert not check_paths([tmp_path], OPTIONS).finding_count
    done = warmed.run("-c", RUN, tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == len(FORMS) > 220
    assert not {name: what for name, what in found.items() if what}


HEAD = (HERE / "head.txt").read_text("utf-8")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("class T:\n    step = eqx.filter_jit(jnp.tanh, out_shardings=row)\n", "not a plain function"),
        (
            "def each(items):\n    return [\n        eqx.filter_jit(lambda x: (x * k, x.sum()), out_shardings=(row, None))\n"
            "        for k in items\n    ]\n",
            "does not show which value belongs to which entry of out_shardings",
        ),
        (
            "class T:\n    rows = row\n    rows = col\n\n    @eqx.filter_jit(out_shardings=rows)\n"
            "    def step(self, x):\n        return x\n",
            "is assigned in a scope that `step` cannot read",
        ),
        (
            "@eqx.filter_jit(in_shardings=(row, row, row))\ndef step(a, b):\n    return a\n",
            "in_shardings has 3 entries and `step` 2 positional parameters",
        ),
        (
            "def loss(a, b):\n    return a.sum()\n\n\nstep = eqx.filter_jit(jax.grad(loss), in_shardings=(row, row, row))\n",
            "in_shardings has 3 entries and `jax.grad(loss)` 2 positional parameters",
        ),
        (
            "class Ops:\n    jit = staticmethod(partial(eqx.filter_jit, out_shardings=row))\n",
            "wraps is not known",
        ),
        (
            "@eqx.filter_jit(out_shardings=row)\n@jax.custom_vjp\ndef step(x):\n    return x\n",
            "may change the arguments or results of `step`",
        ),
        (
            "def keep(fn):\n    held.append(fn)\n\n    def inner(*args, **kwargs):\n        return fn(*args, **kwargs)\n"
            "\n    return inner\n\n\n@eqx.filter_jit(out_shardings=row)\n@keep\ndef step(x):\n    return x\n",
            "`@keep` at line",
        ),
        (
            "def twice(fn):\n    def inner(*args, **kwargs):\n        return 2 * fn(*args, **kwargs)\n\n    return inner\n"
            "\n\n@eqx.filter_jit(out_shardings=row)\n@twice\ndef step(x):\n    return x\n",
            "may change the arguments or results of `step`",
        ),
        (
            "def first(fn):\n    def inner(*args, **kwargs):\n        return fn(args[0])\n\n    return inner\n"
            "\n\n@eqx.filter_jit(out_shardings=row)\n@first\ndef step(x):\n    return x\n",
            "may change the arguments or results of `step`",
        ),
    ],
)
def test_what_is_refused_says_why(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "x.py").write_text(HEAD + text, "utf-8")
    (tmp_path / "pyproject.toml").touch()
    (file,) = check_paths([tmp_path], OPTIONS).reports
    (finding,) = file.findings
    assert finding.fix is None
    assert why in finding.help


def test_a_name_that_is_taken_again_is_handed_over(tmp_path: Path) -> None:
    """`step = filter_jit(step, ...)`: the new function must not call itself."""
    (tmp_path / "x.py").write_text(
        HEAD + "from other import step\n\nstep = eqx.filter_jit(step, in_shardings=(row,))\n", "utf-8"
    )
    (tmp_path / "pyproject.toml").touch()
    fix_files([tmp_path], OPTIONS, unsafe=True, write=True)
    assert "step = eqx.filter_jit(eqx.Partial(sharded_step, step))" in (tmp_path / "x.py").read_text("utf-8")
