"""Fixes generated programs that hold fixable patterns, and kills fixes that move several files together.

    python scripts/fuzz_fixes.py --programs 20000 --kills 300 --seed 1 --seconds 1500

Of each program: it parses after, a second run changes nothing, marked lines and line ends are byte for byte what they
were, and no finding of a fix that was made is left. Of each kill: every file is the old or the new one, and the next
run finishes what was begun and leaves nothing behind. Program N of a seed depends on nothing but the seed. Exit code:
0 nothing failed, 1 something did. Needs POSIX for the kills.
"""

from __future__ import annotations

import argparse
import ast
import collections
import gc
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from shardlint.rewrite.fix import FixedFile, fix_files

TARGETS = {"jax": "0.12.0", "flax": "0.12.12", "equinox": "0.13.8"}
OPTIONS = Options(targets=TARGETS)
Codes = collections.Counter[str]
_BATCH = 25
_BOM = b"\xef\xbb\xbf"
_MESH = 'MESH = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))'
_IMPORTS = (
    "import jax",
    "import jax.numpy as jnp",
    "import numpy as np",
    "import equinox as eqx",
    "from functools import partial",
    "from jax.sharding import Mesh, NamedSharding, PartitionSpec as P",
    "import os",
    "import flax.linen as nn",
    "from jax import lax",
    "from flax import nnx",
    "from jax.experimental import multihost_utils",
    "import jax.tree_util",
)
# What a fix is for: the imports of its own, and the statements. `{v}` is a name, `{n}` a number, `{s}` a spec.
_PATTERNS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    ((), ("{v} = jax.tree_map(lambda x: x + {n}, [{n}])",)),
    ((), ("{v} = jax.tree_multimap(lambda x, y: x + y, [{n}], [{n}])",)),
    (
        ("from jax.experimental.shard_map import shard_map",),
        ("{v} = shard_map(lambda x: x, mesh=MESH, in_specs={s}, out_specs={s}, check_rep=False)",),
    ),
    (
        ("from jax.experimental.shard_map import shard_map",),
        ("{v} = shard_map(lambda x: x, MESH, {s}, {s})(jnp.ones((8, 8)))",),
    ),
    ((), ("@jax.jit", "def {v}(x):", "    y = jax.device_put(x, NamedSharding(MESH, {s}))", "    return y * {n}")),
    ((), ("{v} = jax.jit(lambda x: x * {n}, in_shardings={s}, out_shardings={s})",)),
    (
        ("from jax.experimental.pjit import pjit",),
        ("{v} = pjit(lambda x: x * {n}, in_shardings={s}, out_shardings={s})",),
    ),
    ((), ("{v} = jnp.clip(jnp.ones({n}), a_min=0, a_max={n})",)),
    (
        (),
        (
            '{v} = jax.make_mesh((4, 2), ("data", "model"))',
            "lax.with_sharding_constraint(jnp.ones((8, 8)), NamedSharding({v}, {s}))",
        ),
    ),
    ((), ("@partial(eqx.filter_jit, in_shardings={s})", "def {v}(x, scale={n}):", "    return x * scale")),
    ((), ("{v} = eqx.filter_jit(lambda x: x * {n}, out_shardings=NamedSharding(MESH, {s}))",)),
    (
        (),
        ("SHARDINGS = (NamedSharding(MESH, {s}),)", "@eqx.filter_jit(in_shardings=(*SHARDINGS, {s}))",
         "def {v}(x, y):", "    return x + y"),
    ),
    (
        (),
        ("def {v}(fn, spread=True):", "    shardings = ({s}, {s}) if spread else None",
         "    return eqx.filter_jit(fn, in_shardings=shardings, out_shardings={s} if spread else None)"),
    ),
    (
        ("import functools",),
        ("def {v}(fn):", "    @functools.wraps(fn)", "    def inner(*args, **kwargs):",
         "        return fn(*args, **kwargs)",
         "    return inner", "@eqx.filter_jit(out_shardings={s})", "@{v}", "def {v}_step(x):", "    return x * {n}"),
    ),
    (
        (),
        ("for {v} in ({s}, {s}):",
         "    {v}_fn = eqx.filter_jit(jnp.tanh, in_shardings=NamedSharding(MESH, {v}), out_shardings={v})"),
    ),
    ((), ('{v} = eqx.filter_jit(jnp.sin, **{"out_shardings": {s}, "donate": "none"})',)),
    (
        (),
        ("def {v}_loss(w, x):", "    return (w * x).sum()",
         "{v} = eqx.filter_jit(eqx.filter_grad({v}_loss), in_shardings=({s}, {s}), donate='none')"),
    ),
    (
        (),
        ("@jax.jit", "def {v}(tree):",
         "    return jax.tree.map(lambda x: jax.device_put(x, NamedSharding(MESH, {s})), tree)"),
    ),
    (
        (),
        ("@eqx.filter_jit(donate_argnums=(0,), out_shardings={s})", "def {v}(state, x, *, scale={n}):",
         '    """What is kept goes first."""', "    return state + scale * x"),
    ),
    (
        (),
        ("def {v}_step(state, x, y={n}):", "    return state * x + y",
         "{v} = eqx.filter_jit({v}_step, donate_argnums=(0, 2))"),
    ),
    (
        (),
        ("{v} = [eqx.filter_jit(fn, donate_argnums=0, out_shardings={s}) for fn in (jnp.add, jnp.multiply)]",),
    ),
    (
        (),
        ("@jax.jit", "def {v}(x):", "    return lax.with_sharding_constraint(x * {n}, {s})",
         "def {v}_run(mesh, steps=({n}, {n})):", "    for step in steps:", "        # each one",
         "        out = {v}(np.ones(", "            (8, 8)", "        ))", "    return {v}(out)",
         "{v}_run(jax.make_mesh((4, 2), ('data', 'model')))"),
    ),
    (
        (),
        ("@jax.jit", "def {v}(tree):",
         "    return jax.tree.map(lax.with_sharding_constraint, tree, [{s}, {s}])", "{v}([jnp.ones((8, 8))] * 2)"),
    ),
    (
        (),
        ("def {v}_step(x, mode, y={n}):", "    return x * y if mode else x",
         "{v} = eqx.filter_jit({v}_step, in_shardings=({s},), static_argnums=(1,), out_shardings={s})"),
    ),
    (
        (),
        ("class {v}(eqx.Module):", "    rows: NamedSharding = eqx.field(static=True)", "    @eqx.filter_jit",
         "    def __call__(self, x):", "        return jax.device_put(x * {n}, self.rows)",
         "{v}(NamedSharding(MESH, {s}))(jnp.ones((8, 8)))"),
    ),
    ((), ("{v} = NamedSharding(MESH, None)",)),
    ((), ('{v} = nnx.Param(jnp.ones((8, 8)), sharding=("data", None))',)),
    ((), ("with MESH:", "    {v} = jax.jit(lambda x: x * {n})(np.ones(8))")),
    ((), ("with MESH:", "    {v} = lax.with_sharding_constraint(np.ones((8, 8)), {s})")),
    ((), ("{v} = multihost_utils.process_allgather(jnp.ones({n}))",)),
    (("from jax.interpreters import pxla",), ("{v} = pxla.thread_resources.env.physical_mesh",)),
    (
        (),
        (
            "def {v}(devices=None):",
            "    devices = devices or np.array(jax.devices())",
            '    return Mesh(devices, ("data",))',
        ),
    ),
    ((), ('{v} = jax.device_put(np.ones({n}), jax.devices("cpu")[0])',)),
    ((), ('{v} = P(("data",), None)',)),
    ((), ("{v} = jax.lib.xla_bridge.get_backend().platform",)),
)
_SPECS = ('P("data")', 'P("data", None)', 'P(None, "model")', "P()", 'P(("data", "model"))')
_WRAPS = (
    "",
    "def {f}():",
    "class {f}:",
    "if True:",
    "async def {f}():",
    "for _ in range(2):",
    "try:",
    "@kept\ndef {f}():",
)
_MARKS = (
    "# kept {n}: ünï \u2028 tab\there",
    "# kept {n}   ",
    '"""kept {n}, a "string" \'of\' its own"""',
    "KEPT_{n} = {n};  # kept {n}",
    "# fmt: off, kept {n}",
    "KEPT_{n} = [{n},  {n}, \\\n  {n}]",
    "# kept {n}, " + "long " * 30,
)


def make_program(seed: int, number: int) -> tuple[bytes, list[bytes]]:
    """The program, and the lines that no fix may touch."""
    chance = Random(f"{seed}/{number}")
    chosen = [chance.choice(_PATTERNS) for _ in range(chance.choice((1, 1, 2, 3, 5)))]
    imports = list(dict.fromkeys([*_IMPORTS, *(one for more, _ in chosen for one in more)]))
    order = chance.randrange(3)
    if order == 0:
        imports.sort(key=lambda line: line.split()[1])
    elif order == 1:
        imports.sort(key=lambda line: (line.startswith("from"), line.split()[1]))
    else:
        chance.shuffle(imports)
    lines = [*imports, "", _MESH, "", "kept = staticmethod", ""]
    marks: list[str] = []
    for index, (_, pattern) in enumerate(chosen):
        for _ in range(chance.randrange(3)):
            marks.append(chance.choice(_MARKS).format(n=len(marks)))
            lines.append(marks[-1])
        lines += _render_pattern(pattern, index, chance)
        lines += [""] * chance.randrange(3)
    text = "\n".join([*lines, ""])
    if chance.random() < 0.2:
        text = text.replace('"', "'").replace("'''", '"""')
        marks = [mark.replace('"', "'").replace("'''", '"""') for mark in marks]
    end = chance.choice(("\n", "\n", "\n", "\r\n"))
    data = text.replace("\n", end).encode()
    data = data.rstrip() if chance.random() < 0.1 else data
    return (_BOM if chance.random() < 0.05 else b"") + data, [mark.replace("\n", end).encode() for mark in marks]


def _render_pattern(pattern: Sequence[str], index: int, chance: Random) -> Iterator[str]:
    wrap = chance.choice(_WRAPS).format(f=f"around{index}")
    indent = chance.choice(("    ", "  ", "\t")) if wrap else ""
    told = {"v": f"value{index}", "n": str(chance.randint(1, 9)), "s": chance.choice(_SPECS)}
    if wrap:
        yield wrap
    for line in pattern:
        for key, value in told.items():
            line = line.replace(f"{{{key}}}", value)
        comment = "  # why it is so" if chance.random() < 0.15 and not line.startswith("@") else ""
        yield indent + _break_line(line, indent, chance) + comment
    if wrap == "try:":
        yield from ("finally:", f"{indent}pass")


def _break_line(line: str, indent: str, chance: Random) -> str:
    """The line, sometimes over two, with a comment after one of its opening brackets."""
    places = [at + 1 for at, char in enumerate(line[:-1]) if char in "([" and line[at + 1] not in ")]"]
    if not places or chance.random() > 0.2:
        return line
    at = chance.choice(places)
    comment = chance.choice(("  # ünï, (why", "", "  # fmt: skip", "  # noqa"))
    return f"{line[:at]}{comment}\n{indent}    {line[at:]}"


def explain_wrong_fix(outcome: FixedFile, marks: Sequence[bytes], before: Codes, after: Codes) -> str:
    """Return the fault of a fixed program; empty if there is none."""
    old, new = outcome.before.encode_file(), outcome.after.encode_file()
    if outcome.problem:
        return outcome.problem
    try:
        ast.parse(new)
    except SyntaxError as error:
        return f"does not parse: {error}"
    place = 0
    for mark in marks:
        place = new.find(mark, place)
        if place < 0:
            return f"lost {mark!r}"
        place += len(mark)
    crlf = b"\r\n" in old
    if crlf != (b"\r\n" in new) or (crlf and new.count(b"\n") != new.count(b"\r\n")):
        return "line ends changed"
    if old.endswith(b"\n") != new.endswith(b"\n") or old.startswith(_BOM) != new.startswith(_BOM):
        return "the end or the byte order mark changed"
    made = collections.Counter(finding.rule.code for finding in outcome.done)
    more = [code for code, count in made.items() if after[code] > max(0, before[code] - count)]
    return f"left: {more}" if more else ""


def fix_batch(seed: int, numbers: Sequence[int], folder: Path, keep: Path) -> Codes:
    """Fix some programs, each a project of its own, and look at what came of them."""
    counts: Codes = collections.Counter()
    marks = {}
    for number in numbers:
        path = folder / f"p{number}" / "program.py"
        path.parent.mkdir(parents=True)
        (path.parent / "setup.cfg").touch()
        data, marks[path] = make_program(seed, number)
        path.write_bytes(data)
    before = {
        file.path: collections.Counter(finding.rule.code for finding in file.findings)
        for file in check_paths([folder], OPTIONS).reports
    }
    first = fix_files([folder], OPTIONS, unsafe=True, write=True)
    second = fix_files([folder], OPTIONS, unsafe=True, write=False)
    after = {
        outcome.path: collections.Counter(finding.rule.code for finding in (*outcome.done, *outcome.left))
        for outcome in second.fixed
    }
    again = {outcome.path for outcome in second.fixed if outcome.is_changed}
    for outcome in first.fixed:
        counts["programs"] += 1
        counts["changed"] += outcome.is_changed
        counts["fixed"] += len(outcome.done)
        counts["left"] += len(outcome.left)
        path = outcome.path
        why = explain_wrong_fix(outcome, marks[path], before.get(path, Codes()), after.get(path, Codes()))
        why = why or ("a second run changes it" if path in again else "")
        if why:
            counts["failures"] += 1
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{path.parent.name}.py").write_bytes(outcome.before.encode_file())
            print(f"{path.parent.name}: {why}", flush=True)
    counts["programs"] += len(numbers) - len(first.fixed)
    return counts


# kills

_SHARED = "from jax.experimental.pjit import pjit\n\ndouble = pjit(lambda x: 2 * x)\n"
_USER = """\
import jax
import numpy as np
from jax.sharding import Mesh

from shared import double

mesh = Mesh(np.array(jax.devices()), ("x",))


def main():
    with mesh:
        return double(np.ones(8))
"""
_FILES = {"shared.py": _SHARED, **{f"user{number}.py": _USER for number in range(3)}}


def kill_one_fix(chance: Random, folder: Path, new: dict[str, str]) -> str:
    """Kill one fix at a moment of its own; what is wrong then, empty where nothing is."""
    for name, text in _FILES.items():
        (folder / name).write_text(text)
    at = chance.randrange(1, 3 * len(_FILES))
    pid = os.fork()
    if pid == 0:
        _die_at(at, before=chance.random() < 0.5)
        fix_files([folder], OPTIONS, unsafe=True, write=True)
        os._exit(0)
    os.waitpid(pid, 0)
    for name, text in _FILES.items():
        if (folder / name).read_text() not in (text, new[name]):
            return f"{name} is neither old nor new"
    fix_files([folder], OPTIONS, unsafe=True, write=True)
    left = sorted({path.name for path in folder.iterdir()} - {*_FILES, "setup.cfg"})
    short = sorted(name for name in _FILES if (folder / name).read_text() != new[name])
    return f"left behind: {left}" if left else f"not fixed by the next run: {short}" if short else ""


def _die_at(count: int, before: bool) -> None:
    """Have this process killed at the count-th of the calls that a write is made of."""
    calls = [0]

    def die_on_call(function: Callable[..., object]) -> Callable[..., object]:
        def call_until_death(*args: object, **kwargs: object) -> object:
            calls[0] += 1
            if calls[0] == count and before:
                os.kill(os.getpid(), signal.SIGKILL)
            result = function(*args, **kwargs)
            if calls[0] == count:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call_until_death

    for name in ("fsync", "replace", "rename", "write", "fchmod", "chmod"):
        setattr(os, name, die_on_call(getattr(os, name)))


def kill_many_fixes(seed: int, count: int, folder: Path) -> Codes:
    """Kill so many."""
    counts: Codes = collections.Counter()
    folder.mkdir()
    (folder / "setup.cfg").touch()
    for name, text in _FILES.items():
        (folder / name).write_text(text)
    fix_files([folder], OPTIONS, unsafe=True, write=True)
    new = {name: (folder / name).read_text() for name in _FILES}
    assert all(new[name] != text for name, text in _FILES.items()), "nothing moves"
    for number in range(count):
        why = kill_one_fix(Random(f"{seed}/kill/{number}"), folder, new)
        counts["kills"] += 1
        if why:
            counts["failures"] += 1
            print(f"kill {number}: {why}", flush=True)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--start", type=int, default=0, help="number of the first program")
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="end after so long and say how far it came"
    )
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="folder for what fails")
    given = parser.parse_args()
    sys.setrecursionlimit(15_000)
    scratch = Path(tempfile.mkdtemp(prefix="shardlint-fuzz-"))
    begun = time.monotonic()
    try:
        counts = kill_many_fixes(given.seed, given.kills, scratch / "kills") if given.kills else Codes()
        for first in range(given.start, given.start + given.programs, _BATCH):
            if time.monotonic() - begun > given.seconds:
                break
            numbers = range(first, min(first + _BATCH, given.start + given.programs))
            folder = scratch / "programs"
            counts += fix_batch(given.seed, numbers, folder, given.keep)
            shutil.rmtree(folder)
            gc.collect()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(
        json.dumps({"seed": given.seed, "seconds": round(time.monotonic() - begun), **dict(sorted(counts.items()))})
    )
    raise SystemExit(1 if counts["failures"] else 0)


if __name__ == "__main__":
    main()
