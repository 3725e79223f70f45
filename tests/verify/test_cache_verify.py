"""Tests of the compilation cache: used only for the same program, written only whole, and always checked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from shardlint.cli import verify as command
from shardlint.source.files import cache_folder
from shardlint.verify.cache import Cache
from shardlint.verify.plan import Request, run_jobs, verify_fixtures
from shardlint.verify.report import PASS, Result, Run, result_text
from shardlint.verify.runner import Runner
from tests.programs import skip_without

skip_without("jax")

KEY = "ab" * 32


def test_an_entry_comes_back_as_it_went_in(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "made" / "of" / "need")
    assert cache.get_entry(KEY) is None
    cache.put_entry(KEY, {"a": [1, None, "x"]})
    assert cache.get_entry(KEY) == {"a": [1, None, "x"]}
    cache.put_entry(KEY, {"a": 2})
    assert cache.get_entry(KEY) == {"a": 2}
    assert [file.name for file in cache.folder.iterdir()] == [f"{KEY}.json"], "nothing half written is left"
    assert cache.get_entry("cd" * 32) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "null",
        lambda text: "[" * 100_000,
        lambda text: text.replace('"x"', '"y"'),
        lambda text: '{"value": {"a": "x"}}',
        lambda text: '{"digest": 3, "value": 4}',
        lambda text: "\x00\xff" + text,
    ],
)
def test_a_spoilt_entry_is_none(tmp_path: Path, spoil: Callable[[str], str]) -> None:
    cache = Cache(tmp_path)
    cache.put_entry(KEY, {"a": "x"})
    (file,) = tmp_path.iterdir()
    file.write_text(spoil(file.read_text("utf-8")), "utf-8")
    assert cache.get_entry(KEY) is None
    cache.put_entry(KEY, {"a": "x"})
    assert cache.get_entry(KEY) == {"a": "x"}, "and is written again"


def test_an_entry_under_another_name_is_none(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put_entry(KEY, {"a": "x"})
    (tmp_path / f"{KEY}.json").rename(tmp_path / ("cd" * 32 + ".json"))
    assert cache.get_entry("cd" * 32) is None


def test_a_huge_entry_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / f"{KEY}.json").open("wb") as file:
        file.truncate(2**36)  # a hole, that takes no space
    assert Cache(tmp_path).get_entry(KEY) is None


def test_what_was_used_least_goes(tmp_path: Path) -> None:
    cache = Cache(tmp_path, most=4000)
    keys = [f"{number:064x}" for number in range(6)]
    for age, key in enumerate(keys[:4]):
        cache.put_entry(key, {"a": "x" * 800})
        os.utime(tmp_path / f"{key}.json", (age + 1, age + 1))
    assert cache.get_entry(keys[0]) is not None  # which makes it the newest
    cache.put_entry(keys[4], {"a": "x" * 800})
    assert [key for key in keys if cache.get_entry(key)] == [keys[0], keys[2], keys[3], keys[4]]
    cache.put_entry(keys[5], {"a": "x" * 5000})
    assert cache.get_entry(keys[5]) is None, "what alone is too much is not kept"
    assert cache.get_entry(keys[0]) is not None


def test_a_folder_that_cannot_be_written_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "below")
    cache.put_entry(KEY, {"a": 1})
    assert cache.get_entry(KEY) is None


def test_runs_side_by_side(tmp_path: Path) -> None:
    """Two processes write and read the same few entries for a while; nobody ever sees a part of one."""
    code = """
    import sys
    from pathlib import Path
    from shardlint.verify.cache import Cache
    cache = Cache(Path(sys.argv[1]), most=60_000)
    for turn in range(150):
        key = f"{turn % 7:064x}"
        cache.put_entry(key, {"a": sys.argv[2] * 5_000})
        for key in (f"{number:064x}" for number in range(7)):
            value = cache.get_entry(key)
            assert value is None or value["a"] in ("1" * 5_000, "2" * 5_000)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    both = [subprocess.Popen([*command, name]) for name in "12"]
    assert [one.wait(300) for one in both] == [0, 0]
    assert not list(tmp_path.glob(".*.shardlint"))


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    if sys.platform == "linux":
        assert cache_folder("verify") == tmp_path / ".cache" / "shardlint" / "verify"
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))
        assert cache_folder("verify") == tmp_path / "c" / "shardlint" / "verify"
    assert cache_folder("verify").is_absolute()


SOURCE = """
def step(p, x):
    with jax.named_scope("step"):
        h = x @ p["w"]
    return {"w": p["w"] - 0.1 * h.sum(), "n": h.mean()}

step = jax.jit(step, donate_argnums=0)

a = Fixture(
    fn=step,
    meshes=[{"data": 4, "model": 2}],
    args=[arg(lambda: {"w": jax.ShapeDtypeStruct((16, 8), "float32")}, specs={"w": P("data", "model")}), X16],
    out={"w": P("data", "model"), "n": P()},
    donate=(0,),
    budget={"all_reduce": "1MiB"},
)
"""


@pytest.fixture
def told(runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Return the result of level compile for a file's only fixture, with a cache."""
    from tests.verify.conftest import PRELUDE

    file = tmp_path / "fx.py"
    monkeypatch.setattr(runner, "cache", str(tmp_path / "cache"))

    def tell(source: str, level: str = "compile") -> dict[str, Any]:
        file.write_text(PRELUDE + 'X16 = arg(shape=(8, 16), spec=P("data"))\n' + source)
        # Bytecode goes by size and whole seconds, in which this writes more than one file of a size.
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        results = verify_fixtures(runner, Request({file: []}, levels=[level] if level else []))
        found = asdict(results[0])
        found.pop("seconds")
        return found

    return tell


def test_the_second_run_says_the_same_from_the_cache(
    told: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    first = told(SOURCE)
    assert (first["status"], first.pop("cached")) == (PASS, False), first
    assert first["program"]["collectives"], "there is something to remember"
    (file,) = (tmp_path / "cache").iterdir()
    entry = json.loads(file.read_text("utf-8"))
    assert set(entry) == {"digest", "value"}
    second = told(SOURCE)
    assert second.pop("cached")
    assert second == first

    # An answer that is whole, and not what a compiler says, is asked for again.
    for spoil in (
        {"outputs": [{"axes": [["data", 3]], "types": [], "devices": ["cpu:0"], "spec": [], "kind": None}]},
        {"outputs": [], "memory": {"argument_size_in_bytes": "many"}},
        {"texts": {"after": "eJw="}},
    ):
        Cache(tmp_path / "cache").put_entry(file.stem, {**entry["value"], **spoil})
        again = told(SOURCE)
        assert not again.pop("cached"), spoil
        assert again == first


@pytest.mark.longer
def test_what_makes_another_program(told: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    first = told(SOURCE)
    moved = told("\n\n" + SOURCE)
    assert not moved["cached"], "its lines moved, and reports name lines"
    assert (
        moved["program"]["collectives"][0]["line"]["line"]
        == first["program"]["collectives"][0]["line"]["line"] + 2
    )
    assert told(SOURCE)["cached"]
    assert not told(SOURCE.replace('{"data": 4, "model": 2}', '{"data": 2, "model": 4}'))["cached"]
    assert not told(SOURCE.replace("donate_argnums=0", "donate_argnums=()"))["cached"]
    options = SOURCE.replace(
        "donate_argnums=0", 'donate_argnums=0, compiler_options={"xla_embed_ir_in_executable": True}'
    )
    assert not told(options)["cached"]
    assert told(options)["cached"]
    # What is declared is no part of the program: the answer is the old one, what it is held against is new.
    changed = told(
        SOURCE.replace('"n": P()', '"n": P()').replace('out={"w": P("data", "model")', 'out={"w": P("model")')
    )
    assert (changed["cached"], changed["status"]) == (True, "fail")


def test_a_program_that_calls_back_is_not_kept(told: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    source = SOURCE.replace("h = x @", "jax.debug.callback(lambda: None); h = x @")
    assert told(source)["status"] == PASS
    assert not list((tmp_path / "cache").glob("*"))


@pytest.mark.longer
def test_equinox_and_gradients(told: Callable[..., dict[str, Any]]) -> None:
    skip_without("equinox")
    source = """
    import equinox as eqx

    @eqx.filter_jit
    def step(model, x):
        return jax.tree.map(lambda leaf: leaf * x.sum() if eqx.is_array(leaf) else leaf, model)

    a = Fixture(
        fn=step,
        meshes=[{"data": 4}],
        args=[arg(lambda: eqx.nn.Linear(8, 8, key=jax.random.key(0)), specs={"weight": P("data")}), X16],
        out={"weight": P("data")},
    )
    """
    first, second = told(textwrap.dedent(source)), told(textwrap.dedent(source))
    assert (first.pop("cached"), second.pop("cached")) == (False, True)
    assert first == second
    source = """
    a = Fixture(
        fn=lambda p, x: (x @ p["w"]).sum(),
        meshes=[{"data": 4}],
        args=[arg(lambda: {"w": jnp.ones((16, 8))}, specs={"w": P("data")}), X16],
        gradients={"0/w": P("data")},
    )
    """
    first, second = told(textwrap.dedent(source)), told(textwrap.dedent(source))
    assert (first.pop("cached"), second.pop("cached")) == (False, True)
    assert first == second


def test_what_runs_ran(runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A level that runs the program never comes from the cache, and neither does the self-test."""
    monkeypatch.setattr(runner, "cache", str(tmp_path))
    from shardlint.verify.plan import check_self

    for _ in range(2):
        assert len(check_self(runner)) >= 3
    assert not list(tmp_path.iterdir())
    result = Result("fx:step", "compile", PASS, {"data": 2}, checked=2, cached=True)
    assert result_text(result) == "PASS fx:step  mesh data=2  level compile  2 checked  from cache"
    assert run_jobs(runner, [], Request()) == []


def test_the_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folders: list[str | None] = []

    def instead(request: Request, runner: Runner, *rest: Any) -> Run:
        folders.append(runner.cache)
        return Run([], {}, [], [], shard="1/1")

    monkeypatch.setattr(command, "run_request", instead)
    monkeypatch.chdir(tmp_path)
    Path("fx.py").write_text("import shardlint.verify\n")
    for options in ([], ["--no-cache"], ["--cache-dir", "here"]):
        assert CliRunner().invoke(command.verify, ["fx.py", *options]).exit_code == 0
    assert folders == [str(cache_folder("verify")), None, "here"]
