"""Which releases a project runs on: pins of every kind, what is installed, what is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from shardlint.config.targets import KNOWN, BadTarget, find_targets, parse_targets
from shardlint.config.versions import compare_releases, format_release, is_release_allowed, parse_release

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)


def target(root: Path, package: str = "jax") -> tuple[str, str]:
    found = find_targets(root, {}, {}, "pyproject.toml").found[package]
    return format_release(found.release), found.source


NEWEST = (KNOWN["jax"][-1], "assumed: no file pins it")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (
            "requirements.txt",
            "numpy==1.0\n# jax==0.4.38\n\n-r other.txt\n--index-url x\njaxtyping==0.2\nequinox\njax\n",
        ),
        ("requirements.txt", "jax @ git+https://example.org/jax@main\n./jax-0.4.38.whl\n"),
        ("requirements.txt", "jax<<0.4\n"),
        ("requirements.txt", b"\xff\xfejax==0.4.38"),
        ("pyproject.toml", "not toml = = 1"),
        ("pyproject.toml", "[project]\ndependencies = 'jax==0.4.38'\n"),
        ("pyproject.toml", "[tool]\npoetry = 1\n[project]\nname = 'jax'\n"),
        ("uv.lock", "[[package]]\nname = 'numpy'\nversion = '1.0'\n"),
        ("uv.lock", "[[package]]\nname = 'jax'\n"),
        ("uv.lock", "package = 'jax'\n"),
        ("uv.lock", "[[package]]\nname = ['jax']\nversion = '1'\n"),
        ("uv.lock", "[[package]]\nname = {a = 1}\nversion = '1'\n"),
        ("uv.lock", "package = ['jax']\n"),
        ("poetry.lock", "<<<<<<< HEAD"),
        ("setup.py", "import jax.numpy\nname = 'jaxlint==0.4.38'\nextras = ['jax']\n"),
        ("setup.cfg", "[metadata]\nname = jax-tools\n"),
        ("jax.txt", "jax==0.4.38"),
        ("Pipfile.lock", "not json"),
        ("Pipfile.lock", '["jax"]'),
        ("Pipfile.lock", '{"default": {"jax": "==0.4.38", "jaxtyping": {"version": "==0.2"}}}'),
        ("Pipfile.lock", '{"default": {"jax": {"git": "https://example.org/jax", "ref": "main"}}}'),
        ("Pipfile", "[packages]\njax = '*'\n"),
        ("pixi.toml", "[dependencies]\njax = '*'\n[workspace]\nname = 'jax'\n"),
        ("pixi.lock", "packages:\n- conda: https://example.org/noarch/jaxtyping-0.2.36-pyh_0.conda\n"),
        ("pixi.lock", "packages:\n- kind: conda\n  name: jaxtyping\n  version: 0.2.36\n"),
        ("requirements.in", "jax\n"),
    ],
)
def test_what_tells_nothing(write: Write, file: str, text: str | bytes) -> None:
    assert target(write({file: text})) == NEWEST


@pytest.mark.parametrize(
    ("file", "text", "release", "source"),
    [
        ("requirements.txt", "jax==0.4.38", "0.4.38", "pinned in requirements.txt"),
        ("requirements.txt", "jax == 0.4.38  # why", "0.4.38", "pinned in requirements.txt"),
        (
            "requirements.txt",
            "JAX[cuda12] === 0.4.38 ; python_version > '3.9'",
            "0.4.38",
            "pinned in requirements.txt",
        ),
        (
            "requirements.txt",
            "jax[cuda12]==0.4.38 \\\n    --hash=sha256:00\n",
            "0.4.38",
            "pinned in requirements.txt",
        ),
        ("requirements.txt", "jax==0.4.38 --hash=sha256:00", "0.4.38", "pinned in requirements.txt"),
        ("requirements.txt", "jax==0.5.0rc1", "0.5.0", "pinned in requirements.txt"),
        ("requirements.txt", "jax==0.4.38.dev20250101+abc", "0.4.38", "pinned in requirements.txt"),
        ("requirements.txt", "jaxlib==0.4.38", "0.4.38", "pinned in requirements.txt"),
        ("requirements.txt", "jaxlib==0.4.36\njax==0.4.38", "0.4.38", "pinned in requirements.txt"),
        (
            "requirements.txt",
            "jax==0.4.30; python_version<'3.10'\njax==0.8.0; python_version>='3.10'",
            "0.8.0",
            "pinned in requirements.txt",
        ),
        (
            "requirements.txt",
            "jax>=0.4.30,<0.5",
            "0.4.38",
            "newest that >=0.4.30,<0.5 in requirements.txt allows",
        ),
        (
            "requirements.txt",
            "jax (>=0.4.30,<0.5)",
            "0.4.38",
            "newest that >=0.4.30,<0.5 in requirements.txt allows",
        ),
        ("requirements.txt", "jax~=0.4.30", "0.4.38", "newest that ~=0.4.30 in requirements.txt allows"),
        ("requirements.txt", "jax==0.4.*", "0.4.38", "newest that ==0.4.* in requirements.txt allows"),
        (
            "requirements.txt",
            "jax>=0.4.*",
            KNOWN["jax"][-1],
            "newest that >=0.4.* in requirements.txt allows",
        ),
        (
            "requirements.txt",
            "jax!=0.12.0,<=0.12.0",
            "0.11.2",
            "newest that !=0.12.0,<=0.12.0 in requirements.txt allows",
        ),
        ("requirements.txt", "jax>=0.4", KNOWN["jax"][-1], "newest that >=0.4 in requirements.txt allows"),
        ("requirements.txt", "jax>=99.1", "99.1", ">=99.1 in requirements.txt"),
        ("requirements.txt", "jax<0.2", "0.2", "<0.2 in requirements.txt"),
        ("requirements-dev.txt", "jax==0.4.38", "0.4.38", "pinned in requirements-dev.txt"),
        (
            "environment.yml",
            "dependencies:\n  - pip:\n    - jax==0.4.38\n",
            "0.4.38",
            "pinned in environment.yml",
        ),
        ("environment.yml", "dependencies:\n  - jax=0.4.38\n", "0.4.38", "pinned in environment.yml"),
        ("environment.yml", "dependencies:\n  - jax=0.4.38=py_1\n", "0.4.38", "pinned in environment.yml"),
        (
            "conda/environment.yaml",
            "- jax=0.4\n",
            "0.4.38",
            "newest that ==0.4.* in conda/environment.yaml allows",
        ),
        ("requirements/base.txt", "jax==0.4.38", "0.4.38", "pinned in base.txt"),
        ("pyproject.toml", "[project]\ndependencies = ['jax==0.4.38']", "0.4.38", "pinned in pyproject.toml"),
        (
            "pyproject.toml",
            "[project.optional-dependencies]\ngpu = ['jax[cuda]==0.4.38']",
            "0.4.38",
            "pinned in pyproject.toml",
        ),
        (
            "pyproject.toml",
            "[dependency-groups]\ndev = ['jax==0.4.38', {include-group = 'x'}]",
            "0.4.38",
            "pinned in pyproject.toml",
        ),
        (
            "pyproject.toml",
            "[tool.poetry.dependencies]\njax = '0.4.38'",
            "0.4.38",
            "pinned in pyproject.toml",
        ),
        (
            "pyproject.toml",
            "[tool.poetry.dependencies]\njax = '^0.4.30'",
            "0.4.38",
            "newest that >=0.4.30,<0.5 in pyproject.toml allows",
        ),
        (
            "pyproject.toml",
            "[tool.poetry.dependencies]\njax = '~0.4.30'",
            "0.4.38",
            "newest that >=0.4.30,<0.5 in pyproject.toml allows",
        ),
        (
            "pyproject.toml",
            "[tool.poetry.dependencies]\njax = '0.4.*'",
            "0.4.38",
            "newest that ==0.4.* in pyproject.toml allows",
        ),
        (
            "pyproject.toml",
            "[tool.poetry.dependencies]\njax = {version = '^0.8', extras = ['cuda']}",
            "0.8.3",
            "newest that >=0.8,<0.9 in pyproject.toml allows",
        ),
        (
            "pyproject.toml",
            "[tool.poetry.group.dev.dependencies]\njax = '0.4.38'",
            "0.4.38",
            "pinned in pyproject.toml",
        ),
        (
            "setup.cfg",
            "[options]\ninstall_requires =\n    numpy\n    jax==0.4.38\n",
            "0.4.38",
            "pinned in setup.cfg",
        ),
        ("setup.py", "setup(install_requires=['numpy', \"jax==0.4.38\"])", "0.4.38", "pinned in setup.py"),
        ("uv.lock", "[[package]]\nname = 'jax'\nversion = '0.4.38'\n", "0.4.38", "pinned in uv.lock"),
        (
            "uv.lock",
            "[[package]]\nname = 'jax'\nversion = '0.4.30'\n[[package]]\nname = 'jax'\nversion = '0.8.0'\n",
            "0.8.0",
            "pinned in uv.lock",
        ),
        ("poetry.lock", "[[package]]\nname = 'jax'\nversion = '0.4.38'\n", "0.4.38", "pinned in poetry.lock"),
        ("pdm.lock", "[[package]]\nname = 'jax'\nversion = '0.4.38'\n", "0.4.38", "pinned in pdm.lock"),
        (
            "pylock.toml",
            "[[packages]]\nname = 'jax'\nversion = '0.4.38'\n",
            "0.4.38",
            "pinned in pylock.toml",
        ),
        (
            "Pipfile.lock",
            '{"_meta": {}, "default": {"jax": {"hashes": [], "version": "==0.4.38"}}, "develop": {}}',
            "0.4.38",
            "pinned in Pipfile.lock",
        ),
        (
            "Pipfile.lock",
            '{"develop": {"jax": {"version": "==0.4.38"}}}',
            "0.4.38",
            "pinned in Pipfile.lock",
        ),
        ("Pipfile", "[packages]\njax = '==0.4.38'\n", "0.4.38", "pinned in Pipfile"),
        ("Pipfile", "[packages]\njax = {version = '<0.5'}\n", "0.4.38", "newest that <0.5 in Pipfile allows"),
        ("pixi.toml", "[dependencies]\njax = '==0.4.38'\n", "0.4.38", "pinned in pixi.toml"),
        (
            "pixi.toml",
            "[pypi-dependencies]\njax = {version = '>=0.4.30,<0.5', extras = ['cuda']}\n",
            "0.4.38",
            "newest that >=0.4.30,<0.5 in pixi.toml allows",
        ),
        (
            "pixi.toml",
            "[target.linux-64.dependencies]\njax = '0.4.*'\n",
            "0.4.38",
            "newest that ==0.4.* in pixi.toml allows",
        ),
        ("pixi.toml", "[feature.gpu.dependencies]\njax = '0.4.38'\n", "0.4.38", "pinned in pixi.toml"),
        (
            "pyproject.toml",
            "[tool.pixi.dependencies]\njax = '0.4.38'\n",
            "0.4.38",
            "pinned in pyproject.toml",
        ),
        (
            "pyproject.toml",
            "[tool.pdm.dev-dependencies]\ndev = ['jax==0.4.38']\n",
            "0.4.38",
            "pinned in pyproject.toml",
        ),
        (
            "pixi.lock",
            "version: 6\npackages:\n- conda: https://example.org/noarch/jax-0.4.38-pyhd8ed1ab_0.conda\n  md5: 0\n",
            "0.4.38",
            "pinned in pixi.lock",
        ),
        (
            "pixi.lock",
            "- pypi: https://example.org/ab/jax-0.4.38-py3-none-any.whl\n  name: jax\n  version: 0.4.38\n",
            "0.4.38",
            "pinned in pixi.lock",
        ),
        (
            "pixi.lock",
            "- pypi: https://example.org/ab/jax-0.4.38.tar.gz#sha256=0\n",
            "0.4.38",
            "pinned in pixi.lock",
        ),
        (
            "pixi.lock",
            "- kind: conda\n  name: jax\n  version: 0.4.38\n  build: pyh_0\n",
            "0.4.38",
            "pinned in pixi.lock",
        ),
        (
            "conda-lock.yml",
            "package:\n- name: jax\n  version: 0.4.38\n  manager: conda\n",
            "0.4.38",
            "pinned in conda-lock.yml",
        ),
        ("requirements.in", "jax==0.4.38\n", "0.4.38", "pinned in requirements.in"),
        ("requirements.in", "jax<0.5\n", "0.4.38", "newest that <0.5 in requirements.in allows"),
        ("requirements/base.in", "jax==0.4.38\n", "0.4.38", "pinned in base.in"),
        ("gpu/requirements.in", "jax==0.4.38\n", "0.4.38", "pinned in gpu/requirements.in"),
    ],
)
def test_a_pin(write: Write, file: str, text: str, release: str, source: str) -> None:
    assert target(write({file: text})) == (release, source)


@pytest.mark.parametrize(
    ("caret", "spec"),
    [
        ("^1.2.3", ">=1.2.3,<2"),
        ("^0.2.3", ">=0.2.3,<0.3"),
        ("^0.0.3", ">=0.0.3,<0.0.4"),
        ("^0", ">=0,<1"),
        ("^1", ">=1,<2"),
        ("^0.0", ">=0.0,<0.1"),
        ("~1.2.3", ">=1.2.3,<1.3"),
        ("~1.2", ">=1.2,<1.3"),
        ("~1", ">=1,<2"),
        ("*", ""),
        ("latest", None),
    ],
)
def test_carets_and_tildes_of_poetry(write: Write, caret: str, spec: str | None) -> None:
    root = write({"pyproject.toml": f"[tool.poetry.dependencies]\njax = '{caret}'\n"})
    found = target(root)
    if not spec:
        assert found == NEWEST
    else:
        assert spec in found[1]


def test_a_lock_file_wins_over_a_range_and_a_range_over_nothing(write: Write) -> None:
    root = write({"pyproject.toml": "[project]\ndependencies = ['jax>=0.4', 'equinox<0.12']\n"})
    assert target(root)[0] == KNOWN["jax"][-1]
    assert target(root, "equinox")[0] == "0.11.12"
    write({"uv.lock": "[[package]]\nname = 'jax'\nversion = '0.6.2'\n"})
    assert target(root) == ("0.6.2", "pinned in uv.lock")


def test_the_project_s_requirements_win_over_its_extras(write: Write) -> None:
    root = write(
        {
            "pyproject.toml": "[project]\ndependencies = ['jax==0.6.2']\n"
            "[project.optional-dependencies]\nold = ['jax==0.4.38']\n"
        }
    )
    assert target(root)[0] == "0.6.2"


def _environment(folder: Path, *names: str) -> Path:
    packages = folder / "lib" / "python3.12" / "site-packages"
    for name in names:
        (packages / name).mkdir(parents=True)
    return packages


def test_what_is_installed_tells_where_the_pins_allow_it(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write({"requirements.txt": "jax>=0.4\nequinox>=0.12\n"})
    _environment(
        root / ".venv", "jax-0.6.2.dist-info", "equinox-0.11.11.dist-info", "flax-x.dist-info", "jaxlib"
    )
    assert target(root) == ("0.6.2", "installed in .venv")
    assert target(root, "equinox")[0] == KNOWN["equinox"][-1], "the pins do not allow what is installed"
    assert target(root, "flax")[0] == KNOWN["flax"][-1]


def test_the_active_environment_counts_outside_of_a_project_without_its_own(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, active = write({}), tmp_path / "active"
    _environment(active, "jax-0.7.0.dist-info")
    monkeypatch.setenv("VIRTUAL_ENV", str(active))
    assert target(root) == ("0.7.0", f"installed in the active environment {active}")
    _environment(root / ".venv", "jax-0.6.2.dist-info")
    assert target(root) == ("0.6.2", "installed in .venv")


def test_the_environment_of_shardlint_outside_of_the_project_tells_nothing(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write({})
    _environment(tmp_path / "tool", "jax-0.7.1.dist-info")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "tool"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "tool" / "lib" / "python3.12" / "site-packages")])
    assert target(root) == NEWEST


@pytest.mark.parametrize("told", ["VIRTUAL_ENV", "CONDA_PREFIX", "prefix"])
def test_the_active_environment_counts_where_it_lies_in_the_project(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    root = write({})
    _environment(root / "envs" / "gpu", "jax-0.7.0.dist-info")
    (tmp_path / "link").symlink_to(root / "envs" / "gpu")
    assert target(root) == NEWEST
    if told == "prefix":
        monkeypatch.setattr(sys, "prefix", str(tmp_path / "link"))
    else:
        monkeypatch.setenv(told, str(tmp_path / "link"))
    assert target(root) == ("0.7.0", "installed in envs/gpu")
    _environment(root / "venv", "jax-0.6.2.dist-info")
    assert target(root) == ("0.6.2", "installed in venv"), "the project's usual one comes first"


def test_a_home_folder_that_is_a_project_does_not_own_the_tools_in_it(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write({})
    _environment(root / ".local" / "tools" / "shardlint", "jax-0.7.0.dist-info")
    monkeypatch.setattr(sys, "prefix", str(root / ".local" / "tools" / "shardlint"))
    monkeypatch.setenv("HOME", str(root))
    assert target(root) == NEWEST


def test_the_compiled_requirements_win_over_what_they_are_compiled_from(write: Write) -> None:
    assert target(write({"requirements.in": "jax<0.5\n", "requirements.txt": "jax==0.4.35\n"}))[0] == "0.4.35"


def test_an_exact_pin_wins_over_what_is_installed(write: Write) -> None:
    root = write({"requirements.txt": "jax==0.4.38\n"})
    _environment(root / ".venv", "jax-0.6.2.dist-info")
    assert target(root) == ("0.4.38", "pinned in requirements.txt")


def test_what_is_asked_for_wins(write: Write) -> None:
    root = write({"uv.lock": "[[package]]\nname = 'jax'\nversion = '0.6.2'\n"})
    found = find_targets(root, {"jax": "0.8"}, {"jax": "0.7", "flax": "0.10"}, "pyproject.toml").found
    assert (format_release(found["jax"].release), found["jax"].source) == ("0.8", "--target")
    assert (format_release(found["flax"].release), found["flax"].source) == ("0.10", "targets in pyproject.toml")


def test_what_the_project_pins_is_known_whatever_is_asked_for(write: Write) -> None:
    root = write({"requirements.txt": "jax==0.4.30\nflax>=0.8\n"})
    found = find_targets(root, {"jax": "0.12"}, {}, "pyproject.toml").found
    assert (format_release(found["jax"].release), found["jax"].pinned) == ("0.12", parse_release("0.4.30"))
    assert found["flax"].pinned is None and found["equinox"].pinned is None


@pytest.mark.parametrize("option", ["jax", "jax=", "jax=latest", "=0.8", "", "torch=2.0", "jax<0.5"])
def test_bad_targets_say_what_to_write(option: str) -> None:
    with pytest.raises(BadTarget) as error:
        parse_targets([option])
    assert repr(option) in str(error.value)


@pytest.mark.parametrize(
    ("option", "known"),
    [
        ("jax=99", "jax 0.3 to 0.12"),
        ("jax=0.2", "jax 0.3 to 0.12"),
        ("jax=0.13.1", "jax 0.3 to 0.12"),
        ("jax=1", "jax 0.3 to 0.12"),
        ("flax=0.5.3", "flax 0.6 to 0.12"),
        ("haliax=2.0", "haliax 1.1 to 1.4"),
    ],
)
def test_targets_of_which_nothing_is_known_are_refused_with_the_range(option: str, known: str) -> None:
    with pytest.raises(BadTarget) as error:
        parse_targets([option])
    assert str(error.value) == f"target {option!r}: this shardlint knows {known}"


@pytest.mark.parametrize("option", ["jax=0.12.0.1", "jax=0.12.9", "jax=0.3", "jax=0.3.1", "equinox=0.10"])
def test_every_release_of_a_known_series_is_taken(option: str) -> None:
    package, _, version = option.partition("=")
    assert parse_targets([option]) == {package: version}


@pytest.mark.parametrize("option", ["jax=0.8", "jax==0.8", " JAX = 0.8 ", "jax=v0.8"])
def test_targets_are_read_kindly(option: str) -> None:
    assert parse_release(parse_targets([option])["jax"]) == (0, 8)


# versions


@pytest.mark.parametrize(
    ("spec", "inside", "outside"),
    [
        ("", "0.1", None),
        (">=0.8", "0.8", "0.7.9"),
        (">=0.8", "0.8.0", "0.7"),
        (">0.8", "0.8.1", "0.8.0"),
        ("<0.8", "0.7.2", "0.8"),
        ("<=0.8", "0.8", "0.8.1"),
        ("==0.8", "0.8.0", "0.8.1"),
        ("==0.8.*", "0.8.3", "0.9"),
        ("!=0.8.*", "0.9", "0.8.3"),
        ("!=0.8", "0.8.1", "0.8.0"),
        ("~=0.8.1", "0.8.3", "0.9"),
        ("~=0.8.1", "0.8.1", "0.8.0"),
        ("~=0.8", "0.12", "1.0"),
        (">=0.4,<0.5", "0.4.38", "0.5"),
        (" >= 0.4 , < 0.5 ,", "0.4.38", "0.5.0"),
        ("===0.8", "0.8", "0.9"),
        (">=0.4.*", "0.4.1", "0.3"),
        ("==v0.8", "0.8", "0.9"),
    ],
)
def test_ranges(spec: str, inside: str, outside: str | None) -> None:
    assert is_release_allowed(spec, parse_release(inside))
    assert outside is None or not is_release_allowed(spec, parse_release(outside))


@pytest.mark.parametrize("spec", ["0.8", "=0.8", ">=x", "~0.8", "latest", ">="])
def test_what_is_no_range(spec: str) -> None:
    with pytest.raises(ValueError, match="is not a version clause"):
        is_release_allowed(spec, (0, 8))


_releases = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(tuple)


@given(_releases, _releases)
@settings(derandomize=True, deadline=None, max_examples=150)
def test_ranges_agree_with_packaging(one: tuple[int, ...], two: tuple[int, ...]) -> None:
    version, bound = format_release(one), format_release(two)
    for operator in ("==", "!=", ">=", "<=", "<", ">", *(("~=",) if len(two) > 1 else ())):
        theirs = SpecifierSet(f"{operator}{bound}").contains(version)
        assert is_release_allowed(f"{operator}{bound}", one) == theirs, (version, operator, bound)
    assert is_release_allowed(f"=={bound}.*", one) == SpecifierSet(f"=={bound}.*").contains(version)
    assert compare_releases(one, two) == -compare_releases(two, one)
