"""Small programs written for jax 0.4.30, carried to jax 0.12 by `fix --unsafe-fixes`, and run there."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from shardlint_rules.upgrade.name_table import read_table

from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from shardlint.rewrite.fix import fix_files
from tests.programs import Warmed, since_jax_0_12

Write = Callable[..., Path]
TARGETS = {"jax": "0.12.0", "flax": "0.12.12", "equinox": "0.13.8"}
FAMILY = ("SL307", "SL312", "SL315", "SL9")
OPTIONS = Options(targets=TARGETS)


def texts(root: Path) -> dict[str, str]:
    return {path.relative_to(root).as_posix(): path.read_text() for path in sorted(root.rglob("*.py"))}


def carried(root: Path) -> dict[str, str]:
    """The project after the fix: nothing of the family is left, and a second fix changes nothing."""
    report = fix_files([root], OPTIONS, unsafe=True, write=True)
    assert not [outcome.problem for outcome in report.fixed if outcome.problem]
    after = texts(root)
    left = [finding.rule.code for file in check_paths([root], OPTIONS).reports for finding in file.findings]
    assert not [code for code in left if code.startswith(FAMILY)], left
    assert not [finding for outcome in report.fixed for finding in outcome.left]
    fix_files([root], OPTIONS, unsafe=True, write=True)
    assert texts(root) == after, "a second fix changes it again"
    return after


def kept(root: Path) -> str:
    """Return the findings in a project that is not upgraded; nothing of it changes."""
    before = texts(root)
    fix_files([root], OPTIONS, unsafe=True, write=True)
    assert texts(root) == before
    report = check_paths([root], OPTIONS)
    return "\n".join(finding.help for file in report.reports for finding in file.findings)


STRICT = """
import runpy, warnings

warnings.filterwarnings("error", category=DeprecationWarning, module="(__main__|parts)$")
runpy.run_path("main.py", run_name="__main__")
"""


def answers(warmed: Warmed, root: Path) -> object:
    """Return the last line that the upgraded program prints. Deprecation warnings of jax are errors."""
    done = warmed.run("-c", STRICT, folder=root)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


# what moves together

TOGETHER = {
    "parts.py": """\
        import jax
        import numpy as np
        from jax.interpreters import pxla
        from jax.sharding import Mesh, PartitionSpec as P


        def make_mesh(data, model):
            return Mesh(np.array(jax.devices()).reshape(data, model), ("data", "model"))


        def constrain(x, *axes):
            current = pxla.thread_resources.env.physical_mesh
            if current.empty or not set(axes) <= set(current.axis_names):
                return x
            return jax.lax.with_sharding_constraint(x, P(*axes))
        """,
    "steps.py": """\
        from functools import partial

        from jax.experimental.pjit import pjit
        from jax.sharding import PartitionSpec as P

        from parts import constrain


        @partial(pjit, in_axis_resources=(P("data", "model"), None), out_axis_resources=(P("data", "model"), None))
        def step(w, x):
            h = constrain(x @ w, "data")
            return w - 0.1 * (x.T @ h), h


        total = pjit(lambda w: w.sum(), P("data", "model"), None)
        """,
    "main.py": """\
        import json

        import jax
        import numpy as np

        from parts import make_mesh
        from steps import step, total


        def main():
            mesh = make_mesh(4, 2)
            w = np.arange(64, dtype=np.float32).reshape(8, 8) / 64
            with mesh:
                for _ in range(2):
                    w, h = step(w, np.eye(8, dtype=np.float32))
                sum = total(w)
            print(json.dumps([str(w.sharding.spec), str(h.sharding.spec), round(float(sum), 4)]))


        main()
        """,
}


@since_jax_0_12
def test_pjit_thread_resources_and_with_mesh_move_together(write: Write, warmed: Warmed) -> None:
    root = write(TOGETHER)
    after = carried(root)
    assert answers(warmed, root) == ["P('data', 'model')", "P()", 25.515]
    everything = "".join(after.values())
    assert not re.search(r"pjit|pxla|axis_resources|with mesh:", everything)
    assert "with jax.set_mesh(mesh):" in after["main.py"]
    assert 'out_shardings=(P("data", "model"), P())' in after["steps.py"], (
        "None was replicated under `with mesh:`"
    )
    assert 'in_shardings=P("data", "model"), out_shardings=P()' in after["steps.py"]
    assert "jax.sharding.get_abstract_mesh()" in after["parts.py"]


DEFINED = """\
def defined():
    maps_env = pxla.thread_resources.env
    return maps_env.physical_mesh.devices.shape != ()


def sizes():
    mesh = pxla.thread_resources.env.physical_mesh
    return dict(zip(mesh.axis_names, mesh.devices.shape))


def make_mesh("""


@since_jax_0_12
def test_the_environment_by_a_name_and_the_shape_of_the_devices_move_too(write: Write, warmed: Warmed) -> None:
    main = TOGETHER["main.py"].replace("import make_mesh", "import defined, make_mesh, sizes")
    main = main.replace("sum = total(w)", "sum = total(w) + 100 * defined() + 1000 * sizes()['model']")
    main = main.replace("            print(", "            assert not defined() and not sizes()\n            print(")
    parts = textwrap.dedent(TOGETHER["parts.py"]).replace("def make_mesh(", DEFINED)
    root = write({**TOGETHER, "main.py": main, "parts.py": parts})
    after = carried(root)["parts.py"]
    assert answers(warmed, root) == ["P('data', 'model')", "P()", 2125.5149]
    assert "def defined():\n    return jax.sharding.get_abstract_mesh().axis_sizes != ()\n" in after
    assert "    mesh = jax.sharding.get_abstract_mesh()\n    return dict(zip(mesh.axis_names, mesh.axis_sizes))\n" in after


@since_jax_0_12
def test_half_of_it_alone_would_raise(write: Write, warmed: Warmed) -> None:
    """Why they move together: with the new context alone the old pjit finds no mesh for its specs."""
    half = {name: text.replace("with mesh:", "with jax.set_mesh(mesh):") for name, text in TOGETHER.items()}
    half["steps.py"] = half["steps.py"].replace("_axis_resources", "_shardings")
    done = warmed.run("main.py", folder=write(half))
    assert done.returncode != 0 and "requires a non-empty mesh in context" in done.stderr


@pytest.mark.parametrize("name", ["parts.py", "steps.py", "main.py"])
def test_a_part_of_it_is_not_moved_alone(write: Write, name: str) -> None:
    root = write({path: text.replace("_axis_resources", "_shardings") for path, text in TOGETHER.items()})
    before = texts(root)
    report = fix_files([root / name], OPTIONS, unsafe=True, write=True)
    assert texts(root) == before
    (outcome,) = report.fixed
    assert not outcome.done
    assert all("must change with it, but is" in one.help for one in outcome.left), outcome.left


def test_a_suppressed_part_keeps_the_others(write: Write) -> None:
    files = {path: text.replace("_axis_resources", "_shardings") for path, text in TOGETHER.items()}
    files["main.py"] = files["main.py"].replace(
        "with mesh:", "with mesh:  # shardlint: ignore[SL315] not yet"
    )
    root = write(files)
    before = texts(root)
    fix_files([root], OPTIONS, unsafe=True, write=True)
    assert texts(root) == before


def test_safe_fixes_leave_them_all(write: Write) -> None:
    root = write({"main.py": TOGETHER["main.py"], "parts.py": TOGETHER["parts.py"]})
    before = texts(root)
    fix_files([root], OPTIONS, unsafe=False, write=True)
    assert texts(root) == before


def test_a_program_on_an_older_release_is_left_alone(write: Write) -> None:
    root = write({name: text.replace("_axis_resources", "_shardings") for name, text in TOGETHER.items()})
    before = texts(root)
    fix_files([root], Options(targets={**TARGETS, "jax": "0.4.30"}), unsafe=True, write=True)
    assert texts(root) == before


OF_OLD = """\
    import json

    import jax
    import numpy as np
    from jax.sharding import PartitionSpec as P{more}

    mesh = jax.make_mesh(axis_shapes=(4, 2), axis_names=("data", "model"))


    @jax.jit
    def double(x):
        return jax.lax.with_sharding_constraint(2 * x, P("data"))


    with {enter}:
        y = double(np.ones((8, 4), np.float32))
    print(json.dumps([str(y.sharding.spec), float(y.sum())]))
    """


@since_jax_0_12
@pytest.mark.parametrize(
    ("pin", "more", "enter"), [("0.6.2", ", use_mesh", "use_mesh(mesh)"), ("0.4.38", "", "mesh")]
)
def test_the_context_and_the_axis_types(write: Write, pin: str, more: str, enter: str, warmed: Warmed) -> None:
    """The pin tells that meshes had Auto axes when it was written; the target makes Explicit ones."""
    program = OF_OLD.format(more=more, enter=enter)
    root = write({"main.py": program, "requirements.txt": f"jax=={pin}\n"})
    after = carried(root)["main.py"]
    assert answers(warmed, root) == ["P('data',)", 64.0]
    assert "with jax.set_mesh(mesh):" in after or "with set_mesh(mesh):" in after
    assert "AxisType.Auto" in after and "axis_shapes" not in after


@since_jax_0_12
def test_positional_sharding(write: Write, warmed: Warmed) -> None:
    root = write({"main.py": """\
        import json

        import jax
        import numpy as np
        from jax.experimental import mesh_utils
        from jax.sharding import PositionalSharding

        line = PositionalSharding(mesh_utils.create_device_mesh((8,)))
        grid = line.reshape(4, 2)
        x = np.arange(64.0).reshape(8, 8)


        def place(where):
            return jax.device_put(x, where)


        def told(y):
            ids = {shard.device.id: shard.data.shape for shard in y.addressable_shards}
            last = [shard.device.id for shard in y.addressable_shards if 63.0 in np.asarray(shard.data)]
            return [len(ids), ids[0], last]


        made = [place(grid), place(line.reshape(8, 1)), place(line.replicate()), place(grid.replicate(0))]
        made += [place(grid.replicate(axis=1)), place(grid.T), place(PositionalSharding(jax.devices()).reshape(1, 8))]
        made += [jax.jit(lambda y: y, out_shardings=grid)(x)]
        print(json.dumps([told(y) for y in made]))
        """})  # fmt: skip
    carried(root)
    every = list(range(8))
    # What jax 0.5.3 answers for the program as it was.
    assert answers(warmed, root) == [
        [8, [2, 4], [7]],
        [8, [1, 8], [7]],
        [8, [8, 8], every],
        [8, [8, 4], [1, 3, 5, 7]],
        [8, [2, 8], [6, 7]],
        [8, [4, 2], [7]],
        [8, [8, 1], [7]],
        [8, [2, 4], [7]],
    ]


@since_jax_0_12
def test_device_put_sharded_and_replicated(write: Write, warmed: Warmed) -> None:
    root = write({"main.py": """\
        import json

        import jax
        import jax.numpy as jnp
        from jax import device_put_replicated as replicated

        devices = jax.local_devices()
        weights = replicated({"w": jnp.arange(4.0), "b": 1.0}, devices)
        batch = jax.device_put_sharded([jnp.full((3,), index) for index in range(8)], devices)
        y = jax.pmap(lambda p, x: p["w"].sum() + p["b"] + x.sum(), axis_name="i")(weights, batch)
        placed = [[s.device.id for s in leaf.addressable_shards] for leaf in jax.tree_leaves([weights, batch])]
        print(json.dumps([y.tolist(), weights["w"].shape, weights["b"].shape, batch.shape, placed]))
        """})  # fmt: skip
    carried(root)
    every = list(range(8))
    assert answers(warmed, root) == [
        [7.0, 10.0, 13.0, 16.0, 19.0, 22.0, 25.0, 28.0],
        [8, 4],
        [8],
        [8, 3],
        [every, every, every],
    ]


@since_jax_0_12
def test_experimental_shard_map_with_check_rep_and_auto(write: Write, warmed: Warmed) -> None:
    root = write({"main.py": """\
        import json

        import jax
        import numpy as np
        from jax.experimental.shard_map import shard_map
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

        mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


        def total(x):
            return jax.lax.psum(x, "data")


        def over(given, left):
            return shard_map(total, given, P("data"), P(), check_rep=False, auto=frozenset(left))


        one = jax.jit(shard_map(total, mesh, P("data"), out_specs=P(), auto=frozenset({"model"}), check_rep=False))
        x = jax.device_put(np.ones((8, 4), np.float32), NamedSharding(mesh, P("data", "model")))
        print(json.dumps([one(x).tolist(), jax.jit(over(mesh, ["model"]))(x).tolist()]))
        """})  # fmt: skip
    after = carried(root)["main.py"]
    assert answers(warmed, root) == [[[4.0] * 4] * 2] * 2
    assert 'axis_names={"data"}' in after and "axis_names=set(given.axis_names) - frozenset(left)" in after


@since_jax_0_12
def test_names_options_and_keywords(write: Write, warmed: Warmed) -> None:
    root = write({"main.py": """\
        import json

        import jax
        import jax.numpy as jnp
        from jax.config import config
        from jax.lib import xla_bridge

        config.update("jax_array", True)
        config.update("jax_threefry_partitionable", True)


        def clipped(tree, key: jax.random.KeyArray):
            return jax.tree_map(lambda x: jnp.clip(x, a_min=0), tree)


        found = clipped({"a": jnp.array([-1.0, 2.0])}, None)
        print(json.dumps([jax.tree_leaves(found)[0].tolist(), xla_bridge.get_backend().platform]))
        """})  # fmt: skip
    carried(root)
    assert answers(warmed, root) == [[0.0, 2.0], "cpu"]


def test_a_replacement_that_is_enough_is_in_the_table() -> None:
    names = read_table().names
    missing = [
        one.name for one in names.values() if one.rename_is_enough and (one.replacement or "") not in names
    ]
    assert not missing, "a fix is made only of what the table knows to be there"


@since_jax_0_12
@pytest.mark.parametrize(
    ("imports", "call"),
    [("from jax.experimental import maps", "maps.mesh"), ("from jax.experimental.maps import mesh", "mesh")],
)
def test_the_first_of_contexts_and_hosts(write: Write, imports: str, call: str, warmed: Warmed) -> None:
    root = write({"main.py": f"""\
        import json

        import jax
        import numpy as np
        {imports}


        def main():
            with {call}(np.array(jax.devices()), ("data",)):
                x = jax.numpy.ones(8)
            print(json.dumps([jax.host_id(), jax.host_count(), x.tolist()]))


        main()
        """})  # fmt: skip
    fix_files([root], OPTIONS, unsafe=False, write=True)
    after = (root / "main.py").read_text()
    assert "maps" not in after and "host" not in after and "Mesh" in after
    done = warmed.run("main.py", folder=root)
    assert json.loads(done.stdout.splitlines()[-1]) == [0, 1, [1.0] * 8]


# what lies beside it


MANY = 70
BESIDE = {
    "nothing": {},
    "many files": {
        f"more/f{number}.py": "from jax import shard_map\n\ng = shard_map\n" for number in range(MANY)
    },
    "files that import": {
        f"f{number}.py": "from parts import make_mesh\n\n# with mesh: thread_resources\n"
        for number in range(MANY)
    },
    "comments": {
        "notes.py": "# pjit, haliax, thread_resources, stack.enter_context(mesh), import haliax\n",
        "more.py": '"""The pjit cache. import haliax; with mesh: mesh.__enter__()"""\n',
    },
}


@pytest.mark.parametrize("beside", BESIDE)
def test_what_lies_beside_it_changes_nothing(write: Write, beside: str) -> None:
    alone = carried(write(TOGETHER))
    root = write({**TOGETHER, **BESIDE[beside]})
    fix_files([root], OPTIONS, unsafe=True, write=True)
    after = texts(root)
    assert {name: after[name] for name in TOGETHER} == alone


@pytest.mark.parametrize("beside", BESIDE)
def test_a_context_alone_goes_whatever_is_beside_it(write: Write, beside: str) -> None:
    files = {
        **BESIDE[beside],
        "main.py": """\
        import jax
        import numpy as np
        from jax.sharding import Mesh

        mesh = Mesh(np.array(jax.devices()), ("data",))
        with mesh:
            print(jax.jit(lambda x: x + 1)(np.ones(8)))
        """,
        "parts.py": "make_mesh = None\n",
    }
    root = write(files)
    fix_files([root], OPTIONS, unsafe=True, write=True)
    assert "with jax.set_mesh(mesh):" in (root / "main.py").read_text()


# what jax.set_mesh would make raise

UNDER = """\
import jax
import jax.numpy as jnp
import numpy as np
from functools import partial
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
row = NamedSharding(mesh, P("data"))
loose = jnp.ones((32, 16))
"""
RAISES = {
    "made there": ("step = jax.jit(lambda x: x * 2, in_shardings=row)", "step(jnp.ones((32, 16)))"),
    "through a name": ("step = jax.jit(lambda x: x * 2, in_shardings=row)", "x = jnp.ones((32, 16)); step(x)"),
    "an operation": ("step = jax.jit(lambda x: x * 2, in_shardings=row)", "step(loose * 2)"),
    "from numpy": ("step = jax.jit(lambda x: x * 2, in_shardings=row)", "step(jnp.asarray(np.ones((32, 16))))"),
    "one of two": (
        "step = jax.jit(lambda w, x: x * 2, in_shardings=(None, row))", "step(np.ones(3), jnp.ones((32, 16)))",
    ),
    "a tree": ("step = jax.jit(lambda t: t['x'], in_shardings=row)", "step({'x': jnp.ones((32, 16))})"),
    "a tree of shardings": (
        "step = jax.jit(lambda t: t['x'], in_shardings=({'x': row},))", "step({'x': jnp.ones((32, 16))})",
    ),
    "a decorator": ("@partial(jax.jit, in_shardings=row)\ndef step(x):\n    return x * 2", "step(jnp.ones((32, 16)))"),
    "another jit": (
        "init = jax.jit(lambda: jnp.ones((32, 16)))\nstep = jax.jit(lambda x: x * 2, in_shardings=row)",
        "step(init())",
    ),
    "in a function": (
        "step = jax.jit(lambda x: x * 2, in_shardings=row)\n\n\ndef work():\n    step(jnp.ones((32, 16)))", "work()",
    ),
    "from a function": (
        "step = jax.jit(lambda x: x * 2, in_shardings=row)\n\n\ndef data():\n    return jnp.ones((32, 16))",
        "step(data())",
    ),
    "a parameter": (
        "step = jax.jit(lambda x: x * 2, in_shardings=row)\n\n\ndef work(x):\n    step(x)",
        "work(jnp.ones((32, 16)))",
    ),
    "a method": (
        "class Job:\n    def __init__(self):\n        self.step = jax.jit(lambda x: x * 2, in_shardings=row)\n\n"
        "    def work(self):\n        self.step(jnp.ones((32, 16)))",
        "Job().work()",
    ),
}  # fmt: skip
RUNS = {
    "numpy": ("step = jax.jit(lambda x: x * 2, in_shardings=row)", "step(np.ones((32, 16)))"),
    "put in place": (
        "step = jax.jit(lambda x: x * 2, in_shardings=row)", "step(jax.device_put(jnp.ones((32, 16)), row))",
    ),
    "made before": ("step = jax.jit(lambda x: x * 2, in_shardings=row)", "step(loose)"),
    "replicated": (
        "step = jax.jit(lambda x: x * 2, in_shardings=NamedSharding(mesh, P()))", "step(jnp.ones((32, 16)))",
    ),
    "no shardings": ("step = jax.jit(lambda x: x * 2)", "step(jnp.ones((32, 16)))"),
    "its own result": (
        "step = jax.jit(lambda x: x * 2, in_shardings=row, out_shardings=row)",
        "x = np.ones((32, 16))\n    for _ in range(2):\n        x = step(x)",
    ),
    "out only": (
        "init = jax.jit(lambda: jnp.ones((32, 16)), out_shardings=row)\n"
        "step = jax.jit(lambda x: x * 2, in_shardings=row)",
        "step(init())",
    ),
}  # fmt: skip


def under_a_mesh(write: Write, case: tuple[str, str]) -> Path:
    return write({"main.py": f"{UNDER}{case[0]}\n\nwith mesh:\n    {case[1]}\n"})


@pytest.mark.parametrize("case", RAISES)
def test_what_would_raise_under_set_mesh_keeps_its_mesh(write: Write, case: str) -> None:
    assert "in_shardings would reject" in kept(under_a_mesh(write, RAISES[case]))


@since_jax_0_12
@pytest.mark.parametrize("case", RAISES)
def test_it_would_raise(write: Write, case: str, warmed: Warmed) -> None:
    root = under_a_mesh(write, RAISES[case])
    text = (root / "main.py").read_text()
    (root / "main.py").write_text(f"{text}\nprint('it ran')\nwith jax.set_mesh(mesh):\n    {RAISES[case][1]}\n")
    done = warmed.run("main.py", folder=root)
    assert done.stdout == "it ran\n", done.stderr
    assert "Sharding passed to jit does not match" in done.stderr


@since_jax_0_12
@pytest.mark.parametrize("case", RUNS)
def test_what_runs_under_set_mesh_is_carried(write: Write, case: str, warmed: Warmed) -> None:
    root = under_a_mesh(write, RUNS[case])
    assert "with jax.set_mesh(mesh):" in carried(root)["main.py"]
    assert warmed.run("main.py", folder=root).returncode == 0


# what is refused, and why

USES_A_MESH = """\
    import jax
    import numpy as np
    from jax.experimental.pjit import pjit
    from jax.sharding import Mesh, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("data",))
    """


def refused(write: Write, more: str, **files: str) -> str:
    import textwrap

    text = textwrap.dedent(USES_A_MESH) + textwrap.dedent(more)
    return kept(write({"main.py": text, **{f"{name}.py": body for name, body in files.items()}}))


RUN_IT = """\

    double = pjit(lambda x: 2 * x, in_shardings=P("data"))
    with mesh:
        double(np.ones(8))
    """


def test_without_an_obstacle_it_is_carried(write: Write) -> None:
    import textwrap

    root = write({"main.py": textwrap.dedent(USES_A_MESH) + textwrap.dedent(RUN_IT)})
    assert "with jax.set_mesh(mesh):" in carried(root)["main.py"]


READ_BY_TESTS = """\
import jax
import numpy as np
from jax.interpreters import pxla
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def entered():
    return Mesh(np.array(jax.devices()), ("data",))


class TestPlaces:
    def test_rows(self):
        with entered():
            self.placed()

    def placed(self):
        mesh = pxla.thread_resources.env.physical_mesh
        assert mesh is not None
        roles = {"actor": mesh, "critic": mesh}
        x = jax.device_put(np.ones(8), NamedSharding(roles["actor"], P("data")))
        assert len(x.sharding.device_set) == 8


if __name__ == "__main__":
    TestPlaces().test_rows()
"""


@since_jax_0_12
def test_a_test_may_ask_for_the_mesh_with_its_devices(write: Write, warmed: Warmed) -> None:
    root = write({"main_test.py": READ_BY_TESTS})
    assert "mesh = jax.sharding.get_mesh()" in carried(root)["main_test.py"]
    (root / "main.py").write_text("import main_test\n\nmain_test.TestPlaces().test_rows()\n")
    assert warmed.run("main.py", folder=root).returncode == 0


@pytest.mark.parametrize(
    "given",
    [
        "flax.serialization.msgpack_restore(open('x', 'rb').read())",
        "flax.traverse_util.unflatten_dict({('a',): np.ones(8)})",
        "jax.device_get(jax.numpy.ones(8))",
        "jax.tree.unflatten(made, [np.ones(8)])",
    ],
)
def test_arrays_that_no_device_holds(write: Write, given: str) -> None:
    import textwrap

    text = textwrap.dedent(USES_A_MESH) + textwrap.dedent(RUN_IT.replace("np.ones(8)", given))
    assert "with jax.set_mesh(mesh):" in carried(write({"main.py": f"import flax\n{text}"}))["main.py"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        pytest.param(
            RUN_IT + "    fast = {'jit': pjit}\n", "passed on as a value, and some of its calls are not known",
            id="pjit as a value",
        ),
        pytest.param(
            RUN_IT + "\n\n    def run(given_mesh, f):\n        with given_mesh:\n            return f()\n",
            "`with given_mesh:`: nothing shows that it is a mesh", id="a mesh that is not known",
        ),
        pytest.param(
            RUN_IT + "\n    other = jax.make_mesh((8,), ('x',))\n"
            "\n    def run(given: Mesh, f):\n        with given:\n            return jax.jit(f)()\n",
            "shardlint does not see where `given` is made", id="a mesh of unknown axis types",
        ),
        pytest.param(
            RUN_IT + "\n    with open('x') as file, Mesh(np.array(jax.devices()), ('data',)) as entered:\n        double(np.ones(8))\n",
            "takes the mesh, and jax.set_mesh returns None", id="as",
        ),
        pytest.param(
            RUN_IT + "\n\n    @jax.jit\n    def inner(x):\n        with mesh:\n"
            "            return jax.lax.with_sharding_constraint(x, P('data'))\n",
            "runs inside jit, where jax.set_mesh raises", id="traced",
        ),
        pytest.param(
            RUN_IT + "    flat = Mesh(np.array(jax.devices()), ('all',))\n    with mesh:\n"
            "        jax.jit(jax.shard_map(lambda x: x, mesh=flat, in_specs=P('all'), out_specs=P('all')))(np.ones(8))\n",
            "shard_map over a mesh that is not the one entered", id="shard_map over another mesh",
        ),
        pytest.param(
            RUN_IT + "\n    with mesh:\n        jax.pmap(lambda x: x)(np.ones((8, 1)))\n",
            "runs pmap, which raises under jax.set_mesh", id="pmap",
        ),
        pytest.param(
            RUN_IT + "\n    from flax.jax_utils import replicate\n    with mesh:\n        made(replicate({'w': 1}))\n",
            "lays arrays out for pmap, which raises under jax.set_mesh", id="for pmap",
        ),
        pytest.param(
            RUN_IT + "\n    with jax.default_device(jax.devices()[0]), mesh:\n        double(np.ones(8))\n",
            "puts new arrays on one device; under jax.set_mesh they are", id="behind a device",
        ),
        pytest.param(
            RUN_IT + "\n    with jax.default_device(jax.devices()[0]):\n        if mesh:\n            with mesh:\n"
            "                double(np.ones(8))\n",
            "puts new arrays on one device; under jax.set_mesh they are", id="under a device",
        ),
        pytest.param(
            RUN_IT + "\n\n    def load():\n        with jax.default_device(jax.devices()[0]):\n"
            "            return jax.numpy.ones(8)\n\n\n    with mesh:\n        load()\n",
            "puts new arrays on one device; under jax.set_mesh they are", id="a device inside",
        ),
        pytest.param(
            RUN_IT + "\n    with mesh, jax.default_device(jax.devices()[0]):\n        double(np.ones(8))\n",
            "puts new arrays on one device; under jax.set_mesh they are", id="a device after the mesh",
        ),
        pytest.param(
            RUN_IT + "\n    jax.config.update('jax_default_device', jax.devices()[0])\n",
            "puts new arrays on one device; under jax.set_mesh they are", id="a configured device",
        ),
        pytest.param(
            RUN_IT + "\n\n    def run():\n        with mesh:\n            return double(np.ones(8))\n\n\n"
            "    def main():\n        with jax.default_device(jax.devices()[0]):\n            return run()\n",
            "puts new arrays on one device; under jax.set_mesh they are", id="a device of a caller",
        ),
        pytest.param(
            RUN_IT + "    x0 = jax.device_put(np.ones(8), jax.devices()[0])\n",
            "`jax.device_put(np.ones(8), jax.devices()[0])` at", id="an array on one device",
        ),
        pytest.param(
            RUN_IT + "    x0 = jax.numpy.zeros(8, device=mesh.devices.flat[0])\n",
            "commits an array to one device", id="an array made on one device",
        ),
        pytest.param(
            RUN_IT + "\n\n    def put(x, where):\n        return jax.device_put(x, where)\n\n\n    put(1, jax.devices()[0])\n",
            "commits an array to one device", id="an array on a device that callers give",
        ),
        pytest.param(
            RUN_IT + "    some = Mesh(np.array(jax.devices()[4:]), ('data',))\n"
            "    x0 = jax.device_put(np.ones(8), jax.sharding.NamedSharding(some, P('data')))\n",
            "commits an array to the devices of another mesh", id="an array on other devices",
        ),
        pytest.param(
            RUN_IT + "\n\n    async def run(ready):\n        with mesh:\n            await ready()\n            return double(np.ones(8))\n",
            "lets other coroutines run inside the block", id="await",
        ),
        pytest.param(
            RUN_IT + "\n\n    async def run(source):\n        with mesh:\n            return [double(x) async for x in source]\n",
            "lets other coroutines run inside the block", id="an async comprehension",
        ),
        pytest.param(
            "\n    double = pjit(lambda x: 2 * x, in_shardings=P('data'))\n    with mesh:\n"
            "        double(jax.numpy.ones(8))\n",
            "would be replicated, and the call with in_shardings would reject", id="a fresh array",
        ),
        pytest.param(
            "\n    double = pjit(lambda x: 2 * x, in_shardings=P('data'))\n    with mesh:\n"
            "        double(np.ones(8))\n        jax.lax.with_sharding_constraint(jax.numpy.ones(8), P('data'))\n",
            "constrains outside jit by a bare spec", id="eager constraint",
        ),
        pytest.param(
            RUN_IT + "\n\n    def enter(stack):\n        stack.enter_context(mesh)\n",
            "a mesh is or may be entered, but not by a `with` statement of its own", id="by hand",
        ),
        pytest.param(
            RUN_IT + "\n    MAIN = mesh\n\n\n    def enter(stack):\n        stack.enter_context(MAIN)\n",
            "a mesh is or may be entered", id="by hand, under another name",
        ),
        pytest.param(
            RUN_IT + "\n\n    def get() -> Mesh:\n        return made[0]\n\n\n    get().__enter__()\n",
            "a mesh is or may be entered", id="by hand, of a function",
        ),
        pytest.param(
            RUN_IT + "\n    import contextlib\n    with mesh if made else contextlib.nullcontext():\n        double(np.ones(8))\n",
            "a mesh is or may be entered", id="on one way",
        ),
        pytest.param(
            RUN_IT + "\n    import contextlib\n    MAIN = mesh\n    manager = MAIN if made else contextlib.nullcontext()\n"
            "    with manager:\n        double(np.ones(8))\n",
            "a mesh is or may be entered", id="on one way, by a name",
        ),
        pytest.param(
            "\n    double = pjit(lambda x: 2 * x, in_shardings=P('data'))\n\n\n    def add(x):\n        return jax.jit(lambda a: a + 1)(x)\n\n\n"
            "    with mesh:\n        double(add(np.ones(8)))\n        add(double(np.ones(8)))\n",
            "would be replicated, and the call with in_shardings would reject", id="a fresh array, by one of two calls",
        ),
        pytest.param(
            "\n    double = pjit(lambda x: 2 * x, in_shardings=P('data'))\n    with mesh:\n        tree = {}\n"
            "        tree['a'] = jax.numpy.ones(8)\n        double(tree)\n",
            "would be replicated, and the call with in_shardings would reject", id="a fresh array, put into a tree",
        ),
        pytest.param(
            "\n    import loaders\n    double = pjit(lambda x: 2 * x, in_shardings=P('data'))\n    with mesh:\n"
            "        double(loaders.load('x'))\n",
            "shardlint does not see where `loaders.load('x')`", id="an array of another library",
        ),
        pytest.param(
            RUN_IT + "\n    from jax.interpreters import pxla\n\n\n    def devices(x):\n"
            "        return pxla.thread_resources.env.physical_mesh.devices\n",
            "may need the devices, which an abstract mesh does not have", id="its devices",
        ),
    ],
)  # fmt: skip
def test_one_obstacle_keeps_all(write: Write, more: str, why: str) -> None:
    said = refused(write, more)
    assert "change together" in said and why in said


MAPPED = """
    flat = Mesh(np.array(jax.devices()), ("all",))


    def spread(x):
        return jax.shard_map(lambda x: x, mesh=flat, in_specs=P("all"), out_specs=P("all"))(x)
    """


def test_a_shard_map_over_another_mesh(write: Write) -> None:
    more = "\n    with mesh:\n        spread(np.ones(8))\n"
    assert "shard_map over a mesh that is not the one entered" in refused(write, RUN_IT + MAPPED + more)


def test_a_shard_map_that_a_block_of_another_file_runs(write: Write) -> None:
    more = "import numpy as np\nfrom main import mesh, spread as run_it\n\nwith mesh:\n    run_it(np.ones(8))\n"
    assert "shard_map over a mesh that is not the one entered" in refused(write, RUN_IT + MAPPED, other=more)


def test_a_name_that_another_file_takes_is_an_obstacle(write: Write) -> None:
    said = refused(write, RUN_IT, other="from main import pjit\n\nagain = pjit(len)\n")
    assert "another file imports it from this one" in said


def test_a_file_that_cannot_be_read_is_an_obstacle(write: Write) -> None:
    said = refused(write, "", other="from main import main\nwith mesh:\n    print(\n")
    assert "other.py:1: this file cannot be parsed" in said and "too large" not in said


def test_a_library_without_contexts_of_its_own(write: Write) -> None:
    said = refused(write, "\n    double = pjit(lambda x: 2 * x, in_shardings=P('data'))\n")
    assert "nothing in the program enters a mesh, so its callers decide" in said


@pytest.mark.parametrize(("flax", "moves"), [("0.8.5", False), ("0.11.1", False), ("0.11.2", True), ("0.12.1", True)])
def test_flax_before_0_11_2_reads_only_the_old_mesh(write: Write, flax: str, moves: bool) -> None:
    files = {
        **TOGETHER,
        "model.py": "import main\nimport flax.linen as nn\n\nkernel = nn.with_partitioning(None, ('data',))\n",
    }
    root = write(files)
    older = Options(targets={**TARGETS, "flax": flax})
    before = texts(root)
    fix_files([root], older, unsafe=True, write=True)
    after = texts(root)
    if moves:
        assert "with jax.set_mesh(mesh):" in after["main.py"]
        return
    assert "with mesh:" in after["main.py"] and after["parts.py"] == before["parts.py"].replace("\r", "")
    told = [finding.help for file in check_paths([root], older).reports for finding in file.findings]
    assert any("flax before 0.11.2" in help for help in told)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "def build(devices):\n    return PositionalSharding(devices)\n",
            "the rank of `devices` at line 6 is not known",
        ),
        ("kinds = (PositionalSharding, int)\n", "is not called"),
        ("line = PositionalSharding(jax.devices())\nn = line.shape\n", "line 6 reads its `shape`"),
        (
            "def turn(where):\n    return where.reshape(4, 2)\n\n\ngrid = turn(PositionalSharding(jax.devices()))\n",
            "`turn` at line 9 uses methods of PositionalSharding",
        ),
        ("def grid(*shape):\n    return PositionalSharding(jax.devices()).reshape(*shape)\n", "the shape that line 6 gives it is not known"),
    ],
)
def test_positional_sharding_that_is_not_followed(write: Write, text: str, why: str) -> None:
    said = kept(write({"main.py": "import jax\nfrom jax.sharding import PositionalSharding\n\n\n" + text}))
    assert f"no automatic fix: {why}" in said or why in said


def test_a_module_keeps_the_name_it_has_at_the_place(write: Write) -> None:
    text = (
        "from jax import tree_map as tm\nimport jax\nimport jax as j\n\n\n"
        "def f(x):\n    return jax.tree_map(abs, x), tm(abs, x), j.tree_map(abs, x), jax.host_id()\n"
    )
    after = carried(write({"main.py": text}))["main.py"]
    assert "return jax.tree.map(abs, x), tm(abs, x), j.tree.map(abs, x), jax.process_index()" in after
