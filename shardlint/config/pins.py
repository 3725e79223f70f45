"""Which releases of packages a project's own files name: lock files, requirements, and what states dependencies.

Of several files the first decides, in the order they are read here; docs/reference.md lists them. A file that cannot be
read, or is broken, tells nothing. Nothing of the project is run.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

from shardlint.config.versions import Release, compare_releases, is_release_allowed, parse_release
from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily
from shardlint.source.regular_files import LOCK_BYTES, read_json, read_text, read_toml

_REQUIREMENT = compile_lazily(
    r"^\s*(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*\(?(?P<spec>[^;#@)]*)"
)
# jax and jaxlib move together, so a pin of jaxlib tells jax where nothing else does.
_SAME = {"jaxlib": "jax"}
# Requirements in such folders are not those of the program.
_ASIDE = compile_lazily(
    r"docs?|tests?|examples?|benchmarks?|third_party|site-packages|node_modules", re.IGNORECASE
)
_TOML_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")
_YAML_LOCKS = ("pixi.lock", "conda-lock.yml")


@dataclass
class Pins:
    """Requirements on packages in a project's files, each with the name of the file."""

    exact: dict[str, tuple[Release, str]] = field(default_factory=dict)
    ranges: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Ranges such as ">=0.8,<0.9"."""

    def take_pin(self, package: str, release: Release, where: str) -> None:
        """Take an exact pin: the first file decides; of several pins in it (one a Python, say) the newest."""
        known = self.exact.get(package)
        if known is None or (known[1] == where and compare_releases(release, known[0]) > 0):
            self.exact[package] = (release, where)


def read_pins(root: Path, packages: Collection[str]) -> Pins:
    """The pins of the project at `root`, of these packages."""
    pins = Pins()
    for where, package, version in _locked_versions(root, packages):
        with contextlib.suppress(ValueError):
            pins.take_pin(package, parse_release(version), where)
    stated = list(_stated_requirements(root))
    # jaxlib last: it speaks for jax only where jax itself is not named.
    every = (*stated, *_requirements_below(root, stated))
    for where, requirement in sorted(every, key=lambda found: found[1].lstrip().startswith("jaxlib")):
        _add_requirement(pins, packages, where, requirement)
    return pins


def _add_requirement(pins: Pins, packages: Collection[str], where: str, requirement: str) -> None:
    match = _REQUIREMENT.match(requirement)
    if match is None:
        return
    package = match["name"].lower().replace("_", "-")
    spec = re.split(r"\s--|\\", match["spec"])[0].strip()  # hashes, and the backslash before them
    conda = re.match(r"=\s*(\d+(?:\.\d+)*)", spec)
    if conda is not None:  # `jax=0.4` is any 0.4, `jax=0.4.38=a_build` is that one
        spec = f"=={conda[1]}" if conda[1].count(".") > 1 else f"=={conda[1]}.*"
    if package in _SAME and package not in packages:
        package = _SAME[package]
        if package in pins.exact or package in pins.ranges:
            return
    if package not in packages:
        return
    try:
        is_release_allowed(spec, (0,))
    except ValueError:
        return  # a URL or something this does not understand
    only = re.fullmatch(r"={2,3}\s*v?(\d+(?:\.\d+)*)(?!\.?[\d*])[^\s,]*", spec)
    if only is not None:
        pins.take_pin(package, parse_release(only[1]), where)
    elif spec:
        pins.ranges.setdefault(package, (spec, where))


# lock files


def _locked_versions(root: Path, packages: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """File, package and version of what is locked."""
    for name in _TOML_LOCKS:
        table = _read_toml_or_empty(root / name)
        entries = table.get("package") or table.get("packages") or []
        for entry in entries if isinstance(entries, list) else ():
            package, version = (
                (entry.get("name"), entry.get("version")) if isinstance(entry, dict) else (None, None)
            )
            if isinstance(package, str) and isinstance(version, str) and package in packages:
                yield name, package, version
    yield from _pipfile_lock(root / "Pipfile.lock", packages)
    names = "|".join(map(re.escape, packages))
    # An archive's name holds name and version, in every form that pixi ever wrote; entries may have them apart too.
    archive = rf"/({names})-v?(\d[^-/\s]*?)(?:-[^/\s]*\.(?:conda|tar\.bz2|whl)|\.tar\.gz)\b"
    apart = rf"^\s*(?:-\s+)?name:[ \t]*['\"]?({names})['\"]?[ \t]*\n\s*version:[ \t]*['\"]?(\d[^\s'\"]*)"
    for name in _YAML_LOCKS:
        text = "\n".join(_read_lines_or_empty(root / name))
        for pattern in (archive, apart):
            yield from ((name, found[1], found[2]) for found in re.finditer(pattern, text, re.MULTILINE))


def _pipfile_lock(path: Path, packages: Collection[str]) -> Iterator[tuple[str, str, str]]:
    try:
        table = read_json(path, LOCK_BYTES)
    except (OSError, ValueError):
        return
    for section in ("default", "develop"):
        for package, entry in _dict_items(_value_at_keys(table, section)):
            version = entry.get("version") if isinstance(entry, dict) else None
            if package in packages and isinstance(version, str) and version.startswith("=="):
                yield path.name, package, version.lstrip("= ")


# what states dependencies


def _requirements_below(root: Path, stated: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Where the project's own files do not speak of jax: requirements and conda environments a folder or two below."""
    if any(re.match(r"\s*jax(lib)?\b", requirement) for _, requirement in stated):
        return
    for depth in ("", "*/", "*/*/"):
        for path in sorted(
            [
                *root.glob(f"{depth}requirements*.txt"),
                *root.glob(f"{depth}requirements*.in"),
                *root.glob(f"{depth}*environment*.y*ml"),
            ]
        ):
            where = path.relative_to(root)
            if not any(part.startswith(".") or _ASIDE.match(part) for part in where.parts):
                yield from (
                    (where.as_posix(), line.strip().removeprefix("-").strip("\"' "))
                    for line in _read_lines_or_empty(path)
                )


def _stated_requirements(root: Path) -> Iterator[tuple[str, str]]:
    """File and requirement: what the program needs, then what it is tested with, then setup scripts."""
    project, pixi, pipfile = (
        _read_toml_or_empty(root / name) for name in ("pyproject.toml", "pixi.toml", "Pipfile")
    )
    own = _value_at_keys(project, "tool", "pixi")
    yield from (
        ("pyproject.toml", line) for line in _list_strings(_value_at_keys(project, "project", "dependencies"))
    )
    yield from (
        ("pyproject.toml", line)
        for line in _table_requirements(_value_at_keys(project, "tool", "poetry", "dependencies"))
    )
    yield from (("pyproject.toml", line) for line in _pixi_requirements(own))
    for pattern in ("requirements*.txt", "requirements/*.txt", "requirements*.in", "requirements/*.in"):
        for path in sorted(root.glob(pattern)):
            yield from ((path.name, line) for line in _read_lines_or_empty(path))
    yield from (("Pipfile", line) for line in _table_requirements(pipfile.get("packages")))
    yield from (("pixi.toml", line) for line in _pixi_requirements(pixi))
    for groups in (
        _value_at_keys(project, "project", "optional-dependencies"),
        _value_at_keys(project, "dependency-groups"),
        _value_at_keys(project, "tool", "pdm", "dev-dependencies"),
    ):
        for _, group in _dict_items(groups):
            yield from (("pyproject.toml", line) for line in _list_strings(group))
    yield from (
        ("pyproject.toml", line)
        for line in _list_strings(_value_at_keys(project, "tool", "uv", "dev-dependencies"))
    )
    for _, group in _dict_items(_value_at_keys(project, "tool", "poetry", "group")):
        yield from (
            ("pyproject.toml", line) for line in _table_requirements(_value_at_keys(group, "dependencies"))
        )
    yield from (("Pipfile", line) for line in _table_requirements(pipfile.get("dev-packages")))
    for name, table in (("pyproject.toml", own), ("pixi.toml", pixi)):
        for _, feature in _dict_items(_value_at_keys(table, "feature")):
            yield from ((name, line) for line in _pixi_requirements(feature))
    yield from _setup_script_requirements(root)


def _pixi_requirements(table: object) -> Iterator[str]:
    """Yield the dependencies in a pixi table, or in a feature of one: conda's packages and Python's, for every
    platform.
    """
    for part in (table, *(target for _, target in _dict_items(_value_at_keys(table, "target")))):
        for kind in ("dependencies", "pypi-dependencies"):
            yield from _table_requirements(_value_at_keys(part, kind))


def _setup_script_requirements(root: Path) -> Iterator[tuple[str, str]]:
    for name in ("setup.cfg", "setup.py"):
        # Only the strings matter; nothing of the project is run.
        text = _fill_version_variables("\n".join(_read_lines_or_empty(root / name)))
        pattern = (
            r"""^[ \t]+(jax\b[^\n]*)$"""
            if name == "setup.cfg"
            else r"""["']((?:jax|jaxlib|equinox|flax|haliax)\b[^"']*)["']"""
        )
        yield from ((name, match[1]) for match in re.finditer(pattern, text, re.MULTILINE))


def _fill_version_variables(text: str) -> str:
    """The text of a setup script with the versions it keeps in variables filled in: f"jax=={_JAX}"."""
    values = dict(re.findall(r"""^(\w+)\s*=\s*["']([^"'\n]*)["']""", text, re.MULTILINE))
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), text)


def _table_requirements(table: object) -> Iterator[str]:
    """A table of names and ranges, as of poetry, pipenv and pixi, as requirements."""
    for name, value in _dict_items(table):
        spec = value.get("version", "") if isinstance(value, dict) else value
        if not isinstance(spec, str) or len(spec) > 200:
            continue
        if spec.startswith("^"):
            low = spec[1:]
            parts = [int(part) for part in re.findall(r"\d+", low)]
            index = next((i for i, part in enumerate(parts) if part), len(parts) - 1)
            high = [*parts[:index], parts[index] + 1] if parts else []
            spec = f">={low},<{'.'.join(map(str, high))}" if parts else ""
        elif re.fullmatch(r"~\s*\d+(\.\d+)*", spec):
            low = spec[1:].strip()
            parts = [int(part) for part in low.split(".")]
            high = [parts[0], parts[1] + 1] if len(parts) > 1 else [parts[0] + 1]
            spec = f">={low},<{'.'.join(map(str, high))}"
        elif re.fullmatch(r"\d+(\.\d+)*\.\*", spec) or re.fullmatch(r"\d+(\.\d+)*", spec):
            spec = f"=={spec}"
        yield f"{name} {'' if spec == '*' else spec}"


def _list_strings(value: object) -> Iterator[str]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, str))


def _dict_items(value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from value.items()


def _value_at_keys(table: object, *keys: str) -> object:
    value = table
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _read_toml_or_empty(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path, LOCK_BYTES)
    except (OSError, ValueError):
        return {}  # a broken file of somebody else's tells nothing; our own settings are read strictly elsewhere


def _read_lines_or_empty(path: Path) -> list[str]:
    try:
        return read_text(path, LOCK_BYTES, "replace").splitlines()
    except (OSError, ValueError):
        return []
