"""Fixtures in the settings: read, never run; what is wrong in them is named with what to write."""

from __future__ import annotations

import dataclasses
import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from shardlint.cli.verify import verify
from shardlint.config.folders import find_settings
from shardlint.config.settings import BadSettings
from shardlint.verify import Fixture, P, arg
from shardlint.verify.cannot_run import CannotRun
from shardlint.verify.fixture_files import fixture_files
from shardlint.verify.settings_fixtures import ARG_KEYS, KEYS, has_fixtures, json_schema, read_fixtures
from tests.programs import skip_without
from tests.schemas import jsonschema

FULL = """\
[[tool.shardlint.verify]]
name = "step"
fn = "proj.train:step"
meshes = [{data = 4, model = 2}, "all:8"]
args = [
    {source = "proj.train:init", specs = "proj.shard:specs"},
    {source = "proj.train:state", specs = {"**/w1" = "P('data', ('x', 'y'))", "**" = "P()"}},
    {shape = [16, 512], dtype = "int32", spec = "P('data')", below = 50_000},
]
out = {"0/**/w1" = "P('data', 'model')"}
gradients = {"0/**/w1" = "P('data')"}
replicated_bytes_max = "1MiB"
donate = [0]
forbid = ["all_gather over model", "all_to_all"]
budget = {"all_gather" = "64MiB", "all_reduce over data" = 4096}
memory_max = "15GiB"
hbm_max = "15GiB"
reference = "single_device"
context = "with"
axis_types = "auto"
execute = true
processes = 2
topology = ["v5e:4x4"]

[[tool.shardlint.verify]]
name = "small-step"
fn = "proj.train:small"
meshes = [{data = 2}]
out = {"" = "P()"}
"""

TRAIN = """\
import jax


@jax.jit
def double(x):
    return x * 2
"""

ONE = """\
[[tool.shardlint.verify]]
name = "double"
fn = "proj.train:double"
meshes = [{data = 4}, {data = 3}]
args = [{shape = [8], spec = "P('data')"}]
out = {"" = "P('data')"}

[[tool.shardlint.verify]]
name = "other"
fn = "proj.train:double"
meshes = [{data = 2}]
args = [{shape = [8], spec = "P('data')"}]
out = {"" = "P()"}
"""

CODE = """\
from shardlint.verify import Fixture, P, arg

coded = Fixture(
    fn="proj.train:double", meshes=[{"data": 2}], args=[arg(shape=(8,), spec=P("data"))], out={"": P("data")}
)
"""

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(text: str) -> Path:
        path = tmp_path / "pyproject.toml"
        path.write_text(text, "utf-8")
        return path

    return put


def test_everything_that_can_be_declared(write: Write) -> None:
    path = write(FULL)
    assert has_fixtures(path)
    found = read_fixtures(path)
    assert list(found) == ["step", "small-step"]
    assert found["step"] == Fixture(
        fn="proj.train:step",
        meshes=[{"data": 4, "model": 2}, "all:8"],
        args=[
            arg("proj.train:init", specs="proj.shard:specs"),
            arg("proj.train:state", specs={"**/w1": P("data", ("x", "y")), "**": P()}),
            arg(shape=(16, 512), dtype="int32", spec=P("data"), below=50_000),
        ],
        out={"0/**/w1": P("data", "model")},
        gradients={"0/**/w1": P("data")},
        replicated_bytes_max="1MiB",
        donate=[0],
        forbid=["all_gather over model", "all_to_all"],
        budget={"all_gather": "64MiB", "all_reduce over data": 4096},
        memory_max="15GiB",
        hbm_max="15GiB",
        reference="single_device",
        context="with",
        axis_types="auto",
        processes=2,
        topology=["v5e:4x4"],
    )


def test_every_parameter_has_its_key() -> None:
    assert set(KEYS) == {field.name for field in dataclasses.fields(Fixture)} | {"name"}
    assert set(ARG_KEYS) == set(arg.__kwdefaults__) | {"source"}
    (table,) = tomllib.loads(FULL)["tool"]["shardlint"]["verify"][:1]
    assert set(table) == set(KEYS), "FULL shows every key"


STEP = {"name": '"s"', "fn": '"a:b"', "meshes": "[{data = 2}]"}
WRONG = [
    ({"fn": "3"}, 'fn is 3; write a reference such as "proj.train:step"'),
    ({"fn": '"train.step"'}, "fn is 'train.step'; write a reference such as \"proj.train:step\""),
    ({"fn": '"__import__(\'os\'):x"'}, "; write a reference such as"),
    ({"name": '"a b"'}, 'name is \'a b\'; write a name of letters, digits, ".", "_" and "-"'),
    ({"meshes": "[{data = 0}]"}, 'meshes[0]."data" is 0; write a size of 1 or more'),
    ({"meshes": "[{data = true}]"}, 'meshes[0]."data" is True; write a size of 1 or more'),
    ({"meshes": '["data=4"]'}, "meshes[0] is 'data=4'; write sizes such as {data = 4, model = 2}"),
    ({"meshes": "[{}]"}, "meshes[0] is {}; write sizes such as {data = 4, model = 2}"),
    ({"meshes": "{data = 2}"}, 'meshes is {\'data\': 2}; write a list such as [{data = 4, model = 2}, "all:8"]'),
    ({"mesh": "[{data = 2}]"}, "mesh is not a key; write meshes"),
    ({"memory-max": '"1GiB"'}, "memory-max is not a key; write memory_max"),
    ({"zzz": "1"}, "zzz is not a key; known are name, fn, meshes, args"),
    ({"args": "[{}]"}, "args[0] is {}; write either source or shape in it"),
    ({"args": '[{shape = [2], source = "a:b"}]'}, "write either source or shape in it"),
    ({"args": "[{shape = [2], spec = \"P()\", specs = {}}]"}, "write either spec (for all arrays) or specs"),
    ({"args": "[{shape = [2, 'x']}]"}, "args[0].shape[1] is 'x'; write a size of 0 or more"),
    ({"args": '[{shape = [2], dtype = "floot32"}]'}, "args[0].dtype is 'floot32'; write a dtype such as"),
    ({"args": '[{shape = [2], spec = "data"}]'}, "args[0].spec is 'data'; write a spec such as \"P('data', None)\""),
    ({"args": '[{shape = [2], spec = ["data"]}]'}, "args[0].spec is ['data']; write a spec such as"),
    ({"args": '[{shape = [2], spec = "P(open(\'x\'))"}]'}, "; write a spec such as"),
    ({"args": '[{shape = [2], shard = "P()"}]'}, "args[0].shard is not a key; write shape"),
    ({"args": '[{source = "a:b", specs = {"w" = "x"}}]'}, 'args[0].specs."w" is \'x\'; write a spec such as'),
    ({"out": "{\"w\" = 3}"}, 'out."w" is 3; write a spec such as'),
    ({"out": '"P()"'}, "out is 'P()'; write a table such as"),
    ({"budget": '{"all_gather" = "much"}'}, 'budget."all_gather" is \'much\'; write bytes such as 4096'),
    ({"memory_max": "-1"}, "memory_max is -1; write bytes such as"),
    ({"memory_max": "1.5"}, "memory_max is 1.5; write bytes such as"),
    ({"donate": '["x"]'}, "donate[0] is 'x'; write the index of an argument, starting at 0"),
    ({"donate": "[3]"}, "donate names argument 3, but there are 0 args"),
    ({"context": '"within"'}, 'context is \'within\'; write "set_mesh" or "with" or "none"'),
    ({"execute": "1"}, "execute is 1; write true or false"),
    ({"processes": "1"}, "processes is 1; write a number of 2 or more"),
    ({"topology": '"v5e:4x4"'}, "topology is 'v5e:4x4'; write a list such as [\"v5e:4x4\"]"),
    ({"topology": '["v1:4"]'}, "v1:4"),
    ({"forbid": '["all_gathering"]'}, "all_gathering"),
    ({"reference": '"none"'}, 'reference is \'none\'; write "single_device" or a reference such as'),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_what_is_wrong_is_named(write: Write, change: dict[str, str], message: str) -> None:
    lines = [f"{key} = {value}" for key, value in (STEP | change).items()]
    path = write("\n".join(["[[tool.shardlint.verify]]", *lines]))
    with pytest.raises(BadSettings) as caught:
        read_fixtures(path)
    name = "a b" if "name" in change else "s"
    assert str(caught.value).startswith(f"{path}: tool.shardlint.verify[0] ({name}): ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[tool.shardlint.verify]]\nname = 's'", "[0] (s): has no fn; write fn = a reference such as"),
        ("[[tool.shardlint.verify]]\nfn = 'a:b'", "[0]: has no name; write name = a name of letters"),
        ("[tool.shardlint.verify]\nname = 's'", "write tables that begin with [[tool.shardlint.verify]]"),
        ("[tool.shardlint]\nverify = ['x']", "[0]: is 'x'; write a table that begins with"),
        ("[tool.shardlint]\nverify = 'x'", "is 'x'; write tables that begin with"),
        ("[[tool.shardlint.verify]\n", "not valid TOML"),
        (FULL + FULL.partition("\n\n")[0], "[2] (step): name is 'step', which another fixture has; write another name"),
    ],
)
def test_tables_that_cannot_be_read(write: Write, text: str, message: str) -> None:
    path = write(text)
    with pytest.raises(BadSettings) as caught:
        read_fixtures(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_a_file_of_its_own_has_shorter_names(tmp_path: Path) -> None:
    path = tmp_path / "shardlint.toml"
    path.write_text('[[verify]]\nname = "s"\nfn = "a"\n')
    with pytest.raises(BadSettings, match=r"shardlint\.toml: verify\[0\] \(s\): fn is 'a'; write"):
        read_fixtures(path)
    path.write_text("pedantic = true\n")
    assert not has_fixtures(path)
    assert find_settings(tmp_path).pedantic


def test_the_schema_says_the_same(write: Write) -> None:
    schema = json_schema()
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    validator.validate(tomllib.loads(FULL)["tool"]["shardlint"]["verify"])
    # Some things only code can tell: whether text is a spec of names, a size, an index, a topology.
    beyond = ("P(", "topology = [", "forbid", "donate = [3]", "v1:4")
    for change, _ in WRONG:
        lines = "\n".join(f"{key} = {value}" for key, value in (STEP | change).items())
        if not any(sign in lines for sign in beyond) and change.get("budget") != '{"all_gather" = "much"}':
            assert not validator.is_valid([tomllib.loads(lines)]), lines
    # The file people's editors read has it.
    settings = json.loads((Path(__file__).parents[2] / "docs" / "settings.schema.json").read_text("utf-8"))
    assert settings["properties"]["verify"]["items"] == json.loads(json.dumps(schema["items"]))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    (tmp_path / "proj").mkdir()
    (tmp_path / "proj" / "train.py").write_text(TRAIN)
    (tmp_path / "proj" / "fx.py").write_text(CODE)
    (tmp_path / "pyproject.toml").write_text(ONE)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(verify, [*arguments, "--output-format", "json"])


@pytest.mark.longer
def test_they_run_beside_those_in_code(run: Callable[..., Result], tmp_path: Path) -> None:
    skip_without("jax")
    result = run()
    assert result.exit_code == 1, result.output
    of = [(one["fixture"], one["level"], one["status"]) for one in json.loads(result.stdout)["results"]]
    assert of == [
        ("pyproject.toml::double", "compile", "pass"),
        ("pyproject.toml::double", "execute", "pass"),
        ("pyproject.toml::double", "compile", "skip"),
        ("pyproject.toml::double", "execute", "skip"),
        ("pyproject.toml::other", "compile", "fail"),
        ("pyproject.toml::other", "execute", "fail"),
        ("proj/fx.py::coded", "compile", "pass"),
        ("proj/fx.py::coded", "execute", "pass"),
    ]
    one = run("pyproject.toml::double", "--mesh", "data=2", "--level", "compile")
    assert one.exit_code == 0, one.output
    (found,) = json.loads(one.stdout)["results"]
    assert found["rerun"] == "shardlint verify pyproject.toml::double --mesh data=2 --level compile"


def test_which_settings_count(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(fixture_files(["."])) == [Path("pyproject.toml"), Path("proj/fx.py")]
    assert list(fixture_files(["proj"])) == [Path("proj/fx.py")], "only settings at the top of a folder given"
    monkeypatch.chdir(tmp_path / "proj")
    assert list(fixture_files([])) == [tmp_path / "pyproject.toml", Path("fx.py")], (
        "those that govern this folder"
    )
    (tmp_path / "pyproject.toml").write_text("[tool.shardlint]\npedantic = true\n")
    assert list(fixture_files([])) == [Path("fx.py")]
    (tmp_path / "pyproject.toml").write_text(ONE.replace("proj.train:double", "double"))
    with pytest.raises(BadSettings, match=r"\(double\): fn is 'double'"):
        fixture_files([])
    (tmp_path / "proj" / "fx.py").unlink()
    (tmp_path / "pyproject.toml").unlink()
    with pytest.raises(CannotRun, match=r"mentions shardlint\.verify, and the settings declare none"):
        fixture_files([])


def test_reading_them_imports_no_jax() -> None:
    import subprocess

    code = "import sys, shardlint.verify.settings_fixtures, shardlint.verify.fixture_files; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=300).returncode == 0
