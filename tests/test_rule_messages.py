"""Tests of single rules that a marked file cannot show: messages, harm, and folders without a project."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.config.certainty import Certainty
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from shardlint.rules_api.rule import Finding, Harm
from tests.conftest import Write

LEGACY = """\
import jax
import numpy as np
from jax.sharding import Mesh

mesh = Mesh(np.array(jax.devices()), ("data",))
other = Mesh(np.array(jax.devices()), ("model",))
same = mesh

"""


def found(root: Path, code: str, possible: bool = False, **targets: str) -> list[Finding]:
    certainty = Certainty.POSSIBLE if possible else Certainty.LIKELY
    report = check_paths([root], Options(select=(code,), certainty=certainty, targets=targets))
    return [finding for file in report.reports for finding in file.findings]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("with jax.set_mesh(mesh), mesh:\n    pass\n", 9, id="the-same-statement"),
        pytest.param("with mesh, jax.set_mesh(mesh):\n    pass\n", 9, id="behind-it"),
        pytest.param("with jax.set_mesh(same):\n    x = 1\n    with mesh:\n        pass\n", 9, id="around-it"),
        pytest.param("jax.set_mesh(mesh)\nwith mesh:\n    pass\n", 9, id="before-it"),
        pytest.param("def f(m: Mesh):\n    with jax.set_mesh(mesh=m), m:\n        pass\n", 10, id="a-parameter"),
        pytest.param("with jax.set_mesh(other), mesh:\n    pass\n", None, id="another-mesh"),
        pytest.param("with jax.set_mesh(mesh):\n    pass\nwith mesh:\n    pass\n", None, id="left-again"),
        pytest.param("def f():\n    jax.set_mesh(mesh)\nwith mesh:\n    pass\n", None, id="elsewhere"),
    ],
)
def test_a_mesh_that_is_set_already_is_not_to_be_set(write: Write, text: str, line: int | None) -> None:
    (finding,) = found(write({"a.py": LEGACY + text}), "SL315")
    if line is None:
        assert "already sets this mesh" not in finding.help
    else:
        assert finding.help.startswith("remove `")
        assert f"jax.set_mesh` at line {line} already sets this mesh" in finding.help
        assert finding.fix is None


READS = """\
def raises(v): return v.get_metadata("sharding")
def raises_too(v): return v.get_metadata()["sharding"]
def default(v): return v.get_metadata("sharding", None)
def default_too(v): return v.get_metadata().get("sharding")
"""


def test_a_read_of_a_renamed_key_raises_or_gives_the_default(write: Write) -> None:
    harms = {finding.harm: finding.message for finding in found(write({"a.py": READS}), "SL504")}
    assert [finding.harm for finding in found(write({}), "SL504")] == [Harm.CRASH] * 2 + [Harm.SILENT] * 2
    assert "this raises KeyError" in harms[Harm.CRASH]
    assert "raises" not in harms[Harm.SILENT]


def test_what_may_be_deleted_is_not_said_to_raise(write: Write) -> None:
    text = """\
    import jax
    from elsewhere import loss, log

    evaluate = jax.jit(lambda params, batch: loss(params, batch), donate_argnums=0)

    def run(params, batches):
        for batch in batches:
            log(evaluate(params, batch))
    """
    (finding,) = found(write({"a.py": text}), "SL220", possible=True)
    assert "may raise in the next iteration" in finding.message


PLACED = "import jax\nimport jax.numpy as jnp\n\nx = jax.device_put(jnp.ones(4), jax.devices()[0])\n"


@pytest.mark.parametrize(("inside", "lines"), [("jax", []), ("mine", [4])])
def test_that_jax_itself_starts_processes_says_nothing_of_its_users(write: Write, inside: str, lines: list[int]) -> None:
    root = write(
        {
            f"{inside}/__init__.py": f"from {inside} import start\n",
            f"{inside}/start.py": "import jax\n\n\ndef start():\n    jax.distributed.initialize()\n",
            "demo.py": f"import {inside}\n{PLACED}".replace("import mine\nimport jax\n", "import mine, jax\n"),
        }
    )
    report = check_paths([root / "demo.py"], Options(select=("SL808",)))
    assert [file.source.position_of(one.start)[0] for file in report.reports for one in file.findings] == lines


NO_PUBLIC_NAME = "write a public name that does the same, or pin the release of jax"


def test_a_public_name_is_named_only_where_it_is_public(write: Write) -> None:
    text = "from jax._src.mesh import thread_resources\nfrom jax._src.typing import DTypeLike\n"
    helps = [one.help for one in found(write({"x.py": text}), "SL907", possible=True)]
    assert helps == [NO_PUBLIC_NAME, "write `jax.typing.DTypeLike`"]


@pytest.mark.parametrize(
    ("name", "help"),
    [
        ("xla_bridge._plugins.add", NO_PUBLIC_NAME),
        ("config.contexts.update", NO_PUBLIC_NAME),
        ("core.Tracer.copy", "write `jax.core.Tracer`"),
        ("lax.lax.add", "write `jax.lax.add`"),
        ("mesh.get_abstract_mesh", "write `jax.get_abstract_mesh`"),
    ],
)
def test_a_public_name_is_not_that_of_a_method(write: Write, name: str, help: str) -> None:
    text = f"import jax\n\njax._src.{name}(1)\n"
    assert [one.help for one in found(write({"x.py": text}), "SL907", possible=True)] == [help]


IN_SHARD_MAP = """\
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))
rows = NamedSharding(mesh, P("data"))


@jax.jit
def f(x):
    return jax.shard_map(lambda x: jax.device_put(x, rows), mesh=mesh, in_specs=P("data"), out_specs=P("data"){})(x)
"""


@pytest.mark.parametrize(
    ("unchecked", "jax", "harm", "effect"),
    [
        ("", "0.12.0.1", Harm.CRASH, "raises ValueError"),
        ("", "0.7.2", Harm.CRASH, "raises ValueError"),
        ("", "0.7.1", Harm.SILENT, "has no effect"),
        (", check_vma=False", "0.12.0.1", Harm.SILENT, "has no effect"),
    ],
)
def test_device_put_in_a_shard_map_has_the_harm_that_is_said(
    write: Write, unchecked: str, jax: str, harm: Harm, effect: str
) -> None:
    (finding,) = found(write({"a.py": IN_SHARD_MAP.format(unchecked)}), "SL201", jax=jax)
    assert finding.harm is harm and effect in finding.message and finding.fix is None
    assert "remove the `device_put`: `in_specs` and `out_specs` of the `shard_map` at line 11" in finding.help


SUMMED = """\
import jax
import numpy as np

step = jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")


def evaluate(batch):
    loss = step(batch)
    return np.sum(loss)
"""


def test_a_sum_on_the_host_names_the_array_and_not_its_library(write: Write) -> None:
    (finding,) = found(write({"a.py": SUMMED}), "SL404")
    assert "copy of `loss` per device" in finding.message
    assert finding.help == "write `loss[0]` in place of `loss`"


SHARD = """\
import jax


def first(step, batch):
    loss = jax.pmap(step, axis_name="batch")(batch)
    return loss.addressable_data(0)
"""


@pytest.mark.parametrize(("jax", "count"), [("0.4.33", 0), ("0.4.34", 1), ("0.7.2", 1), ("0.12.0.1", 1)])
def test_a_shard_keeps_its_dimension_since_jax_0_4_34(write: Write, jax: str, count: int) -> None:
    findings = found(write({"a.py": SHARD}), "SL424", jax=jax)
    assert ["keeps the mapped dimension" in one.message for one in findings] == [True] * count


NAMES = """\
import flax.linen as nn
from flax import nnx


class Layer(nn.Module):
    @nn.compact
    def __call__(self, x):
        init = nn.with_partitioning(nn.initializers.ones_init(), ("fsdp", "tp"))
        return x * self.param("scale", init, (8,))


def bias(rngs):
    init = nnx.with_partitioning(nnx.initializers.zeros_init(), ("fsdp", "tp"))
    return nnx.Param(init(rngs.params(), (8,)))
"""


@pytest.mark.parametrize(("flax", "forms"), [("0.12.12", ["under-mesh", ""]), ("0.11.2", ["under-mesh"] * 2)])
def test_too_many_names_are_an_error_only_under_a_mesh(write: Write, flax: str, forms: list[str]) -> None:
    findings = found(write({"a.py": NAMES}), "SL303", flax=flax)
    assert [one.form for one in findings] == forms
    assert [one.certainty is Certainty.PROVEN for one in findings] == [not form for form in forms]


COMPARED = """\
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.distributed.initialize()
mesh = Mesh(np.array(jax.devices()), ("data",))


def same(x, y):
    return np.{}(x, jax.device_put(y, NamedSharding(mesh, P("data"))))
"""


@pytest.mark.parametrize(
    ("name", "harm", "effect"),
    [("allclose", Harm.CRASH, "raises RuntimeError"), ("array_equal", Harm.SILENT, "returns False")],
)
def test_a_comparison_that_catches_the_error_is_silent(write: Write, name: str, harm: Harm, effect: str) -> None:
    (finding,) = found(write({"a.py": COMPARED.format(name)}), "SL807")
    assert finding.harm is harm and f"With several processes this {effect}" in finding.message


MESHLESS = """\
import haliax as hax

x = hax.shard(hax.ones(hax.Axis("batch", 8)), {"batch": "data"})
"""


@pytest.mark.parametrize(
    ("haliax", "context"), [("1.3", "`with mesh:`"), ("1.4", "`with jax.set_mesh(mesh):`")]
)
def test_the_context_that_haliax_reads_is_named(write: Write, haliax: str, context: str) -> None:
    (finding,) = found(write({"a.py": MESHLESS}), "SL601", haliax=haliax)
    assert f"write {context} around the call" in finding.help
