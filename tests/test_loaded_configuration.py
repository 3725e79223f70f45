"""Tests of values read from a YAML or TOML file, which count if the file is readable and unambiguous."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shardlint.config.certainty import Certainty
from shardlint.engine.cache import project_cache
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from shardlint.facts.name_lists import _lists_in_configs
from shardlint.model.mesh import configuration
from shardlint.model.mesh.configuration import Configurations
from tests.conftest import Write

Start = Callable[..., subprocess.CompletedProcess[bytes]]

MODEL = """
    import os
    from pathlib import Path

    import jax
    import jax.numpy as jnp
    import numpy as np
    import yaml
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    HERE = Path(__file__).resolve().parent
    cfg = yaml.safe_load({read})
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "tensor"))
    cache = jax.device_put(np.zeros((cfg["heads"], 16)), NamedSharding(mesh, P("tensor")))
    known = jax.device_put(np.zeros((6, 16)), NamedSharding(mesh, P("tensor")))
    """
OPEN = 'open("configs/model.yml")'
OPTIONS = Options(certainty=Certainty.POSSIBLE, select=("SL216",))


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SHARDLINT_CACHE_DIR", str(tmp_path / "memory"))
    monkeypatch.setattr(project_cache, "_TICK", -10_000_000_000)
    yield


def found(root: Path, cached: bool = False) -> list[str]:
    """The sizes that findings name, but that of `known`."""
    report = check_paths([root], OPTIONS, cached=cached)
    messages = [one.message for file in report.reports for one in file.findings]
    sizes = re.findall(r"has size (\d+),", " ".join(messages))
    assert "6" in sizes, "what does not rest on the file is found"
    return sorted(set(sizes) - {"6"})


def write_model(write: Write, data: str | None, read: str = OPEN) -> Path:
    files = {"model.py": MODEL.format(read=read), "setup.cfg": ""}
    return write(files if data is None else {**files, "configs/model.yml": data})


def test_a_remembered_answer_rests_on_the_file(write: Write) -> None:
    root = write_model(write, "heads: 2\n")
    path = root / "configs" / "model.yml"
    for text, sizes in (
        ("heads: 2\n", ["2"]),
        ("heads: 8\n", []),
        ("heads: 3\n", ["3"]),
        ("heads: 3\n", ["3"]),
        (None, []),
        ("heads: 2\n", ["2"]),
    ):
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
        assert found(root, cached=True) == found(root) == sizes


@pytest.mark.parametrize(
    "read",
    [
        OPEN,
        'Path("configs/model.yml").read_text()',
        'HERE / "configs" / "model.yml"',
        '(HERE.parent / "configs/model.yml").open()',
        'open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "configs", "model.yml")).read()',
        'open(Path("configs", "model.yml"))',
    ],
)
def test_ways_to_name_the_file(write: Write, read: str) -> None:
    assert found(write_model(write, "heads: 2\n", read)) == ["2"]


@pytest.mark.parametrize(
    "read",
    [
        'open(os.environ["CONFIG"])',
        'open("/srv/configs/model.yml")',
        'open("other/model.yml")',
        'Path(os.environ["RUN"]) / "model.yml"',
        'open(os.path.join(os.environ["RUN"], "model.yml"))',
        "text",
    ],
)
def test_a_path_that_may_be_another_tells_nothing(write: Write, read: str) -> None:
    assert found(write_model(write, "heads: 2\n", read)) == []


def test_which_of_two_files_is_not_guessed(write: Write) -> None:
    files = {"model.py": MODEL.format(read='open("model.yml")'), "setup.cfg": ""}
    assert found(write({**files, "a/model.yml": "heads: 2\n", "b/model.yml": "heads: 2\n"})) == []


def test_a_file_that_git_ignores_is_not_read(write: Write) -> None:
    root = write_model(write, "heads: 2\n")
    (root / ".gitignore").write_text("configs/\n")
    assert found(root) == [], "the cache does not look at it"


_MERGED = "".join(f"m{n}: &m{n}\n  <<: [{', '.join([f'*m{n - 1}'] * 9)}]\n" for n in range(1, 9))


@pytest.mark.parametrize(
    "data",
    [
        None,
        "",
        "heads",
        "- heads: 2\n",
        "heads: [2\n",
        "heads: !!python/name:os.system 2\n",
        "heads: !size 2\n",
        "heads: 2\nother: !!int ''\n",
        "heads: 2\nother: !!bool maybe\n",
        "heads: 2\nother: !!timestamp never\n",
        "heads: 2\nother: 2020-13-45\n",
        "heads: 2\nother: 0x_\n",
        f"heads: {'9' * 5000}\n",
        "heads: 2\n--- \nheads: 2\n",
        "heads: 2\n\x07",
        f"heads: {'[' * 1000}2{']' * 1000}\n",
        f"heads: 2\nm0: &m0 {{a: 1}}\n{_MERGED}",
        "heads: &a [*a]\n",
        f"heads: 2\n# {'-' * 200_000}\n",
    ],
)
def test_what_cannot_be_read_tells_nothing(write: Write, data: str | None) -> None:
    assert found(write_model(write, data)) == []


def test_brackets_without_end_end_nothing(write: Write, start: Start) -> None:
    root = write_model(write, f"heads: {'[' * 90_000}\n")
    done = start("check", "--select=SL216", "--output-format=concise", ".", cwd=root)
    assert (done.returncode, done.stderr) == (1, b"")
    assert done.stdout.count(b"SL216") == 1


@pytest.mark.skipif(os.name != "posix", reason="POSIX files")
def test_what_is_no_file_is_not_read(write: Write) -> None:
    root = write_model(write, None)
    (root / "configs").mkdir()
    (root / "configs" / "model.yml").symlink_to("/dev/zero")
    assert found(root) == []
    (root / "configs" / "model.yml").unlink()
    os.mkfifo(root / "configs" / "model.yml")
    assert found(root) == []


# files that are made to take long


def test_nested_blocks_of_a_key_are_parsed_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[int] = []
    real = configuration.load_plain_yaml

    def counted(text: str) -> object:
        parsed.append(len(text))
        return real(text)

    monkeypatch.setattr(configuration, "load_plain_yaml", counted)
    for ending in ("|", "", ">-", "&a"):
        path = tmp_path / f"{len(parsed)}.yaml"
        path.write_text("".join(f"{' ' * depth}mesh_axes: {ending}\n" for depth in range(400)))
        files = Configurations((path,))
        assert len(files.find_entries("mesh_axes")) == 400
        assert sum(parsed) <= 9 * path.stat().st_size
        files.find_entries("mesh_axes")
        assert sum(parsed) <= 9 * path.stat().st_size
        parsed.clear()


def test_a_key_in_a_block_of_the_same_key_is_an_entry(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("mesh_axes:\n  mesh_axes: [data]\nother: 1\n")
    assert [one.value for one in Configurations((path,)).find_entries("mesh_axes")] == [{"mesh_axes": ["data"]}, ["data"]]


def test_lists_that_are_left_open_are_passed_by(write: Write) -> None:
    root = write({"a.yaml": "axes: [\n" * 50_000 + "axes:\n" * 50_000 + "axes: [data, null]\naxes:\n  - model\n  - ~\n"})
    assert [one.items for one in _lists_in_configs(root, "axes")] == [("data", None), ("model", None)]
