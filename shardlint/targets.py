"""Which releases the checked project runs on, and how we know.

In order: `--target`, the settings, exact pins (lock files, then requirements and pyproject), the installed
environment where the pins allow it, the newest release the pins allow, the newest release there is.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardlint.environments import site_packages
from shardlint.versions import Release, allows, compare, parse, show

# Releases known when this shardlint was released: the newest of each minor series, newest last, and those where an
# API that rules speak of came or went. A range in a project's pins is taken to mean the newest of these it allows.
KNOWN: dict[str, tuple[str, ...]] = {
    "jax": tuple(
        "0.3.25 0.4.1 0.4.6 0.4.7 0.4.10 0.4.13 0.4.14 0.4.16 0.4.20 0.4.23 0.4.24 0.4.26 0.4.28 0.4.30 0.4.31 0.4.34"
        " 0.4.35 0.4.36 0.4.38 0.5.0 0.5.2 0.5.3 0.6.0 0.6.1 0.6.2 0.7.0 0.7.1 0.7.2 0.8.0 0.8.1 0.8.2 0.8.3 0.9.0"
        " 0.9.2 0.10.0 0.10.1 0.10.2 0.11.0 0.11.2 0.12.0".split()
    ),
    "equinox": tuple("0.9.2 0.10.11 0.11.5 0.11.8 0.11.11 0.11.12 0.12.2 0.13.0 0.13.1 0.13.8".split()),
    "flax": tuple("0.6.11 0.7.5 0.8.5 0.9.0 0.10.7 0.11.2 0.12.1 0.12.2 0.12.3 0.12.6 0.12.12".split()),
    "haliax": ("1.1", "1.2", "1.3", "1.4"),  # 1.4 has development releases only; jax from 0.4.31 needs them
    "optax": ("0.1.9", "0.2.8"),
    "einshard": ("0.1.1", "0.2.0"),
}
PACKAGES = tuple(KNOWN)

_REQUIREMENT = re.compile(
    r"^\s*(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*\(?(?P<spec>[^;#@)]*)"
)
# jax and jaxlib move together, so a pin of jaxlib tells jax where nothing else does.
_SAME = {"jaxlib": "jax"}
# Requirements in such folders are not those of the program.
_PINS_BYTES = 64_000_000
_ASIDE = re.compile(
    r"docs?|tests?|examples?|benchmarks?|third_party|site-packages|node_modules", re.IGNORECASE
)


class BadTarget(Exception):
    """A target that is not PACKAGE=VERSION with a package shardlint knows."""


@dataclass(frozen=True)
class Target:
    """A package's release, and where it was found, for people: "pinned in uv.lock".

    `pinned` is the release that the project itself pins exactly, also where `--target` or the settings say another:
    what its code was written for.
    """

    release: Release
    source: str
    pinned: Release | None = None


@dataclass(frozen=True)
class Targets:
    """The releases of a run."""

    found: Mapping[str, Target]

    def release(self, package: str) -> Release:
        """The release of a package. Raises `KeyError` for a package shardlint knows nothing of."""
        return self.found[package].release

    def allows(self, package: str, specifier: str) -> bool:
        """Whether the release is in a range such as ">=0.8,<0.9"."""
        return allows(specifier, self.release(package))

    def shown(self) -> dict[str, str]:
        """Package to version, as text."""
        return {package: show(target.release) for package, target in self.found.items()}


def parse_targets(options: Iterable[str]) -> dict[str, str]:
    """`["jax=0.12"]` as a table. Raises `BadTarget` with what to write instead."""
    found = {}
    for option in options:
        package, equals, version = option.partition("=")
        package, version = package.strip().lower(), version.lstrip("=").strip()
        if not equals or package not in KNOWN:
            raise BadTarget(
                f"{option!r} is not a target; write PACKAGE=VERSION with one of {', '.join(PACKAGES)}"
            )
        try:
            parse(version)
        except ValueError as error:
            raise BadTarget(f"target {option!r}: {error}") from None
        found[package] = version
    return found


def find_targets(
    root: Path, given: Mapping[str, str], settings: Mapping[str, str], settings_name: str
) -> Targets:
    """The targets of the project at `root`; `given` are from the command line."""
    exact, ranges = _pins(root)
    installed = _installed(root)
    found: dict[str, Target] = {}
    for package in PACKAGES:
        if package in given:
            found[package] = Target(parse(given[package]), "--target", _exactly(exact, package))
        elif package in settings:
            source = f"targets in {settings_name}"
            found[package] = Target(parse(settings[package]), source, _exactly(exact, package))
        else:
            found[package] = _from_project(package, exact, ranges, installed)
    return Targets(found)


def _exactly(exact: Mapping[str, tuple[Release, str]], package: str) -> Release | None:
    return exact[package][0] if package in exact else None


def _from_project(
    package: str,
    exact: dict[str, tuple[Release, str]],
    ranges: dict[str, tuple[str, str]],
    installed: dict[str, tuple[Release, str]],
) -> Target:
    if package in exact:
        release, where = exact[package]
        return Target(release, f"pinned in {where}", release)
    spec, where = ranges.get(package, ("", ""))
    if package in installed and allows(spec, installed[package][0]):
        release, place = installed[package]
        return Target(release, f"installed in {place}")
    releases = [parse(version) for version in KNOWN[package]]
    allowed = [release for release in releases if allows(spec, release)]
    if spec and allowed:
        return Target(allowed[-1], f"newest that {spec} in {where} allows")
    if spec:
        return Target(_nearest(spec, releases), f"{spec} in {where}")
    return Target(releases[-1], "newest release known to this shardlint")


def _nearest(spec: str, releases: list[Release]) -> Release:
    """The bound of a range that holds none of the known releases (`<0.3`, `>=0.13`)."""
    bounds = [parse(clause.strip().lstrip("<>=!~")) for clause in spec.split(",") if clause.strip()]
    newest = releases[-1]
    for bound in bounds:
        if compare(bound, newest) > 0 and allows(spec, bound):
            return bound
    return min(bounds, default=newest)


# pins


def _pins(root: Path) -> tuple[dict[str, tuple[Release, str]], dict[str, tuple[str, str]]]:
    exact: dict[str, tuple[Release, str]] = {}
    ranges: dict[str, tuple[str, str]] = {}
    for name in ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml"):
        for package, version in _locked(root / name):
            _pin(exact, package, version, name)
    stated = _requirements(root)
    # jaxlib last: it speaks for jax only where jax itself is not named.
    every = (*stated, *_elsewhere(root, stated))
    for where, requirement in sorted(every, key=lambda found: found[1].lstrip().startswith("jaxlib")):
        match = _REQUIREMENT.match(requirement)
        if match is None:
            continue
        package = match["name"].lower().replace("_", "-")
        spec = re.split(r"\s--|\\", match["spec"])[0].strip()  # hashes, and the backslash before them
        conda = re.match(r"=\s*(\d+(?:\.\d+)*)", spec)
        if conda is not None:  # `jax=0.4` is any 0.4, `jax=0.4.38=a_build` is that one
            spec = f"=={conda[1]}" if conda[1].count(".") > 1 else f"=={conda[1]}.*"
        if package in _SAME and package not in KNOWN:
            package = _SAME[package]
            if any(package in table for table in (exact, ranges)):
                continue
        if package not in KNOWN:
            continue
        try:
            allows(spec, (0,))
        except ValueError:
            continue  # a URL or something this does not understand
        only = re.fullmatch(r"={2,3}\s*v?(\d+(?:\.\d+)*)(?!\.?[\d*])[^\s,]*", spec)
        if only is not None:
            _pin(exact, package, parse(only[1]), where)
        elif spec:
            ranges.setdefault(package, (spec, where))
    return exact, ranges


def _pin(exact: dict[str, tuple[Release, str]], package: str, release: Release, where: str) -> None:
    """The first file that pins a package decides; of several pins in it (one a Python, say) the newest."""
    known = exact.get(package)
    if known is None or (known[1] == where and compare(release, known[0]) > 0):
        exact[package] = (release, where)


def _locked(path: Path) -> Iterator[tuple[str, Release]]:
    table = _toml(path)
    entries = table.get("package") or table.get("packages") or []
    if not isinstance(entries, list):
        return
    for entry in entries:
        name, version = (entry.get("name"), entry.get("version")) if isinstance(entry, dict) else (None, None)
        if isinstance(name, str) and isinstance(version, str) and name in KNOWN:
            with contextlib.suppress(ValueError):
                yield name, parse(version)


def _requirements(root: Path) -> list[tuple[str, str]]:
    """Requirement strings of a project and the file each is in."""
    return list(_stated(root))


def _elsewhere(root: Path, stated: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Where the project's own files do not speak of jax: requirements and conda environments a folder or two below."""
    if any(re.match(r"\s*jax(lib)?\b", requirement) for _, requirement in stated):
        return
    for depth in ("", "*/", "*/*/"):
        for path in sorted(
            [*root.glob(f"{depth}requirements*.txt"), *root.glob(f"{depth}*environment*.y*ml")]
        ):
            where = path.relative_to(root)
            if not any(part.startswith(".") or _ASIDE.match(part) for part in where.parts):
                yield from (
                    (where.as_posix(), line.strip().removeprefix("-").strip("\"' ")) for line in _lines(path)
                )


def _stated(root: Path) -> Iterator[tuple[str, str]]:
    files = sorted(root.glob("requirements*.txt")) + sorted((root / "requirements").glob("*.txt"))
    project = _toml(root / "pyproject.toml")
    yield from (("pyproject.toml", line) for line in _strings(_at(project, "project", "dependencies")))
    yield from (("pyproject.toml", line) for line in _poetry(_at(project, "tool", "poetry", "dependencies")))
    poetry = _at(project, "tool", "poetry", "group")
    for part in poetry.values() if isinstance(poetry, dict) else ():
        yield from (
            ("pyproject.toml", line)
            for line in _poetry(part.get("dependencies") if isinstance(part, dict) else None)
        )
    for path in files:
        yield from ((path.name, line) for line in _lines(path))
    for groups in (_at(project, "project", "optional-dependencies"), _at(project, "dependency-groups")):
        if isinstance(groups, dict):
            for group in groups.values():
                yield from (("pyproject.toml", line) for line in _strings(group))
    for name in ("setup.cfg", "setup.py"):
        # Only the strings matter; nothing of the project is run.
        text = _filled("\n".join(_lines(root / name)))
        pattern = (
            r"""^[ \t]+(jax\b[^\n]*)$"""
            if name == "setup.cfg"
            else r"""["']((?:jax|jaxlib|equinox|flax|haliax)\b[^"']*)["']"""
        )
        yield from ((name, match[1]) for match in re.finditer(pattern, text, re.MULTILINE))


def _filled(text: str) -> str:
    """The text of a setup script with the versions it keeps in variables filled in: f"jax=={_JAX}"."""
    values = dict(re.findall(r"""^(\w+)\s*=\s*["']([^"'\n]*)["']""", text, re.MULTILINE))
    return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), text)


def _poetry(table: object) -> Iterator[str]:
    if not isinstance(table, dict):
        return
    for name, value in table.items():
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


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, str))


def _at(table: dict[str, Any], *keys: str) -> object:
    value: object = table
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(path, "strict"))
    except (OSError, ValueError, RecursionError):
        return {}  # a broken file of somebody else's tells nothing; our own settings are read strictly elsewhere


def _lines(path: Path) -> list[str]:
    try:
        return _text(path, "replace").splitlines()
    except (OSError, ValueError):
        return []


def _text(path: Path, errors: str) -> str:
    """A project's file, if it is one and of a size people write: a link in a checkout may lead to /dev/zero."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > _PINS_BYTES:
        raise ValueError("not a file of pins")
    return path.read_text("utf-8", errors)


# what is installed


def _installed(root: Path) -> dict[str, tuple[Release, str]]:
    """Releases in the project's own environment, else in the one this runs in, by the names of dist-info folders."""
    found: dict[str, tuple[Release, str]] = {}
    for folder, name in site_packages(str(root)):
        try:
            entries = os.listdir(folder)
        except OSError:
            continue
        for entry in entries:
            if not entry.endswith(".dist-info"):
                continue
            package, _, version = entry[: -len(".dist-info")].partition("-")
            if package.lower() in KNOWN and package.lower() not in found:
                try:
                    found[package.lower()] = (parse(version), name)
                except ValueError:
                    continue
    return found
