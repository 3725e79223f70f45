"""Which releases the checked project runs on, and how we know.

In order: `--target`, the settings, exact pins (lock files, then requirements and pyproject), what is installed in
the project's own environment where the pins allow it, the newest release the pins allow. Where nothing pins a package
its newest release known here is assumed, and that is said.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from shardlint.config.environments import site_packages
from shardlint.config.pins import Pins, read_pins
from shardlint.config.versions import (
    Release,
    compare_releases,
    format_release,
    is_release_allowed,
    parse_release,
)
from shardlint.source.lazy import dataclass

# Releases known when this shardlint was released: the newest of each minor series, newest last, and those where an
# API that rules speak of came or went. A range in a project's pins is taken to mean the newest of these it allows.
KNOWN: dict[str, tuple[str, ...]] = {
    "jax": tuple(
        "0.3.25 0.4.1 0.4.6 0.4.7 0.4.10 0.4.13"
        " 0.4.14 0.4.16 0.4.20 0.4.21 0.4.23 0.4.24 0.4.26 0.4.28 0.4.30 0.4.31 0.4.34"
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
_ASSUMED = "assumed: no file pins it"


class BadTarget(Exception):
    """A target that is not PACKAGE=VERSION with a package and a release shardlint knows."""


@dataclass(frozen=True)
class Target:
    """A package's release, and where it was found, for people: "pinned in uv.lock".

    `pinned` is the release that the project itself pins exactly, also where `--target` or the settings say another:
    what its code was written for.
    """

    release: Release
    source: str
    pinned: Release | None = None

    @property
    def is_assumed(self) -> bool:
        """True if nothing says which release it is, so that the newest known one was taken."""
        return self.source == _ASSUMED


@dataclass(frozen=True)
class Targets:
    """The releases of a run."""

    found: Mapping[str, Target]

    def release_of(self, package: str) -> Release:
        """The release of a package. Raises `KeyError` for a package shardlint knows nothing of."""
        return self.found[package].release

    def is_release_in(self, package: str, specifier: str) -> bool:
        """Return whether the release is in a range such as ">=0.8,<0.9"."""
        return is_release_allowed(specifier, self.release_of(package))

    def versions_by_package(self) -> dict[str, str]:
        """Package to version, as text."""
        return {package: format_release(target.release) for package, target in self.found.items()}

    def assumed_versions(self) -> dict[str, str]:
        """Package to version of those that are only assumed."""
        return {package: format_release(target.release) for package, target in self.found.items() if target.is_assumed}


def parse_targets(options: Iterable[str]) -> dict[str, str]:
    """`["jax=0.12"]` as a table.

    Raises `BadTarget`, which says what to write instead, also for releases outside of the series that are known: of
    those nothing was proven.
    """
    found = {}
    for option in options:
        package, equals, version = option.partition("=")
        package, version = package.strip().lower(), version.lstrip("=").strip()
        if not equals or package not in KNOWN:
            import difflib

            near = difflib.get_close_matches(package, KNOWN, n=1) if package not in KNOWN else []
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadTarget(
                f"{option!r} is not a target; write PACKAGE=VERSION with one of {', '.join(PACKAGES)}{hint}"
            )
        try:
            release = parse_release(version)
        except ValueError as error:
            raise BadTarget(f"target {option!r}: {error}") from None
        series = [parse_release(known)[:2] for known in KNOWN[package]]
        if compare_releases(release[:2], series[0]) < 0 or compare_releases(release[:2], series[-1]) > 0:
            raise BadTarget(
                f"target {option!r}: this shardlint knows {package} {format_release(series[0])} to "
                f"{format_release(series[-1])}"
            )
        found[package] = version
    return found


def find_targets(
    root: Path, given: Mapping[str, str], settings: Mapping[str, str], settings_name: str
) -> Targets:
    """The targets of the project at `root`; `given` are from the command line."""
    pins = read_pins(root, PACKAGES)
    installed = _installed_releases(root)
    found: dict[str, Target] = {}
    for package in PACKAGES:
        pinned = pins.exact[package][0] if package in pins.exact else None
        if package in given:
            found[package] = Target(parse_release(given[package]), "--target", pinned)
        elif package in settings:
            found[package] = Target(parse_release(settings[package]), f"targets in {settings_name}", pinned)
        else:
            found[package] = _target_from_project(package, pins, installed)
    return Targets(found)


def _target_from_project(package: str, pins: Pins, installed: Mapping[str, tuple[Release, str]]) -> Target:
    if package in pins.exact:
        release, where = pins.exact[package]
        return Target(release, f"pinned in {where}", release)
    spec, where = pins.ranges.get(package, ("", ""))
    if package in installed and is_release_allowed(spec, installed[package][0]):
        release, place = installed[package]
        return Target(release, f"installed in {place}")
    releases = [parse_release(version) for version in KNOWN[package]]
    allowed = [release for release in releases if is_release_allowed(spec, release)]
    if spec and allowed:
        return Target(allowed[-1], f"newest that {spec} in {where} allows")
    if spec:
        return Target(_nearest_release(spec, releases), f"{spec} in {where}")
    return Target(releases[-1], _ASSUMED)


def _nearest_release(spec: str, releases: list[Release]) -> Release:
    """The bound of a range that holds none of the known releases (`<0.3`, `>=0.13`)."""
    bounds = [parse_release(clause.strip().lstrip("<>=!~")) for clause in spec.split(",") if clause.strip()]
    newest = releases[-1]
    for bound in bounds:
        if compare_releases(bound, newest) > 0 and is_release_allowed(spec, bound):
            return bound
    return min(bounds, default=newest)


def _installed_releases(root: Path) -> dict[str, tuple[Release, str]]:
    """Releases in the project's own environment, by the names of dist-info folders."""
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
                    found[package.lower()] = (parse_release(version), name)
                except ValueError:
                    continue
    return found
