"""Donations that `filter_jit` has no mode for: each is fixed, donates what was asked for and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from shardlint.rewrite.fix import fix_files
from tests.programs import Warmed, skip_without

OPTIONS = Options(select=("SL101", "SL102"), targets={"equinox": "0.13.8", "jax": "0.12.0"})
HEAD = """\
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
rows, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
a, b, c = (jax.random.normal(jax.random.key(seed), (8, 4)) for seed in range(3))


"""
# Each gives `step`, which is called with `a, b, c` (or as `call` says), and the names of what it donates.
FORMS = {
    "decorated": """
@eqx.filter_jit(in_shardings=(whole, rows, None), out_shardings=rows, donate_argnums=(0, 2))
def step(a, b, c):
    return a * b + c

donated = "ac"
""",
    "partial": """
@functools.partial(eqx.filter_jit, donate_argnames=("b",), out_shardings=rows)
def step(a, b, *, c=0.0):
    return a * b + c

call = lambda a, b, c: step(a, b=b, c=c)
donated = "b"
""",
    "called": """
def multiply_add(a, b, c=0.0):
    return a * b + c

step = eqx.filter_jit(multiply_add, donate_argnums=0, in_shardings=(whole, rows, whole), out_shardings=rows)
donated = "a"
""",
    "own name": """
def step(a, b, c):
    return a * b + c

step = eqx.filter_jit(step, donate_argnums=(0, 1))
donated = "ab"
""",
    "bound": """
class Trainer:
    def __init__(self):
        self.step = eqx.filter_jit(self.step, donate_argnums=1)
        self.other = eqx.filter_jit(self._step, donate_argnums=(0,), out_shardings=whole)
        self.third = eqx.filter_jit(self._step, donate_argnums=(0, 2), in_shardings=(whole, rows, rows))

    def step(self, a, b, c):
        return a * b + c

    def _step(self, a, b, c):
        return a * b - c

trainer = Trainer()
step = trainer.step
donated = "b"
""",
    "method": """
class Net(eqx.Module):
    c: jax.Array

    @eqx.filter_jit(donate_argnums=(1,))
    def step(self, a, b):
        return a * b + self.c

class Other(Net):
    @eqx.filter_jit(donate_argnums=(1,))
    def step(self, a, b):
        return a - b

call = lambda a, b, c: Net.step(Other(c), a, b)
donated = "a"
""",
    "static method": """
class Steps:
    @staticmethod
    @eqx.filter_jit(donate_argnums=2)
    def step(a, b, c):
        return a * b + c

step = Steps().step
donated = "c"
""",
    "factory": """
def compiled(fn):
    return eqx.filter_jit(fn, donate_argnums=(0,))

class Module(eqx.Module):
    c: jax.Array

    def __call__(self, a, b):
        return a * b + self.c

call = lambda a, b, c: compiled(Module(c))(a, b)
donated = "a"
""",
    "loop": """
def scaled(a, b, c):
    return a * b + c

def build(functions, shardings):
    table = {}
    for name in functions:
        function, sharding = functions[name], shardings[name]
        table[name] = eqx.filter_jit(function, donate_argnums=0, out_shardings=sharding)
    return table

table = build({"rows": scaled, "whole": jnp.add}, {"rows": rows, "whole": whole})
step = table["rows"]
donated = "a"
""",
    "listed": """
step = [eqx.filter_jit(fn, donate_argnums=(0, 1)) for fn in (lambda a, b, c: a * b + c, lambda a, b, c: a)][0]
donated = "ab"
""",
    "no newline": """
donated = "a"
@eqx.filter_jit(donate_argnums=0)
def step(a, b, c):
    return a * b + c""",
}
RUN = """
import json, sys
from pathlib import Path
import jax, numpy as np

found = {}
for path in sorted(Path(sys.argv[1]).glob("*.py")):
    names = {}
    try:
        exec(compile(path.read_text(), str(path), "exec"), names)
        given = {name: jax.device_put(names[name].copy(), names["rows" if names["ASKED"] else "whole"]) for name in "abc"}
        out = names.get("call", names.get("step"))(*given.values())
        np.testing.assert_allclose(out, names["a"] * names["b"] + names["c"], atol=1e-5)
        gone = {name for name, one in given.items() if one.is_deleted()}
        # What no result is left for is kept: one buffer is reused.
        found[path.stem] = "" if gone and gone <= set(names["donated"]) else f"donated {gone}"
        if "out_shardings=rows" in names.get("ASKED", "") and out.sharding.spec != names["rows"].spec:
            found[path.stem] = str(out.sharding)
    except Exception as error:
        found[path.stem] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


def test_all_are_fixed_and_donate_what_was_asked_for(tmp_path: Path, warmed: Warmed) -> None:
    skip_without("equinox")
    for name, text in FORMS.items():
        asked = "out_shardings=rows" if "out_shardings=rows" in text or "= table" in text else ""
        (tmp_path / f"{name}.py").write_text(f"{HEAD}ASKED = {asked!r}\n{text}", "utf-8")
    (tmp_path / "setup.cfg").touch()
    files = sorted(tmp_path.glob("*.py"))
    assert {outcome.path.stem for outcome in fix_files(files, OPTIONS, unsafe=True, write=True).fixed} == set(FORMS)
    left = [(report.path.stem, finding.help) for report in check_paths(files, OPTIONS).reports for finding in report.findings]
    assert not left
    assert not any(outcome.is_changed for outcome in fix_files(files, OPTIONS, unsafe=True, write=True).fixed)
    assert not (tmp_path / "no newline.py").read_bytes().endswith(b"\n")
    ran = warmed.run("-c", RUN, tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == dict.fromkeys(FORMS, "")
