"""Reading the proof of a rule, `proof.toml`, and joining what its two programs showed.

docs/verify-reference.md describes the format.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardlint.verify.report import FAIL, PASS, SKIP, Failure, Result
from shardlint.verify.spec import P

SHOWS = ("raises", "warns", "sharding", "numbers", "donation")
ONE_DEVICE = "one device"

_TOP = {"devices", "fn", "args", "reference", "tolerance", "donate", "bad", "good"}
_ENTRY = {"when", "out"}
_BAD = _ENTRY | {"shows", "error", "message"}


class BadProof(Exception):
    """A proof.toml that cannot be what its author meant; the message names the key."""


@dataclass(frozen=True)
class Entry:
    """One `[[bad]]` or `[[good]]` table."""

    when: Mapping[str, str]
    out: Mapping[str, str]
    shows: str = ""
    error: str | None = None
    message: str | None = None

    def applies_to_releases(self, releases: Mapping[str, str]) -> bool:
        """Return whether the entry applies to the installed releases. A missing package matches nothing."""
        from packaging.specifiers import SpecifierSet

        return all(
            package in releases and SpecifierSet(wanted).contains(releases[package], prereleases=True)
            for package, wanted in self.when.items()
        )

    def describe_releases(self) -> str:
        """Its releases in words: `equinox >=0.13.1`."""
        return ", ".join(f"{package} {wanted}" for package, wanted in self.when.items())


@dataclass(frozen=True)
class ProofFolder:
    """The proof of one rule: its folder and what proof.toml says."""

    code: str
    folder: Path
    bad: Sequence[Entry]
    good: Sequence[Entry]
    devices: int = 8
    fn: str = "main"
    args: str | None = None
    reference: str | None = None
    tolerance: float | None = None
    donate: Sequence[int] = ()

    def make_job(
        self, role: str, bad: Entry, entry: Entry, numbers: Path, levels: Sequence[str]
    ) -> dict[str, Any]:
        """The job that runs one of its programs; see `inside.proofs.Program`."""
        program = {
            "code": self.code,
            "role": role,
            "file": str(self.folder / f"{role}.py"),
            "fn": self.fn,
            "args": self.args,
            "reference": self.reference,
            "shows": bad.shows,
            "error": bad.error,
            "message": bad.message,
            "donate": list(self.donate),
            "out": dict(entry.out),
            "tolerance": self.tolerance,
            "numbers": str(numbers),
        }
        return {"task": "proof", "devices": self.devices, "program": program, "levels": list(levels)}


def read_proof(code: str, folder: Path) -> ProofFolder:
    """Read and check `folder/proof.toml`.

    Raises `BadProof` for anything it should not say, and `OSError` when it, bad.py or good.py is not there.
    """
    file = folder / "proof.toml"
    try:
        data = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadProof(f"{file}: {error}") from error
    for name in ("bad.py", "good.py"):
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder / name}: no such file")
    try:
        _check_known_keys(data, _TOP, "")
        bad = [_read_entry(table, _BAD, "bad") for table in _tables_named(data, "bad")]
        good = [_read_entry(table, _ENTRY, "good") for table in _tables_named(data, "good")]
        shown = {entry.shows for entry in bad}
        if "donation" in shown and not data.get("args"):
            raise BadProof("shows = 'donation' needs args, the arguments that are donated")
        for entry in bad:
            for other in good:
                if entry.shows == "sharding" and (not other.out or other.out == entry.out):
                    raise BadProof("good needs an `out` that differs from the wrong one of bad")
        donate = _typed_value(data, "donate", list, [0] if "donation" in shown else [])
        if not all(isinstance(index, int) for index in donate):
            raise BadProof(f"donate must list indexes of arguments, such as [0], not {donate!r}")
        return ProofFolder(
            code,
            folder,
            bad,
            good,
            _typed_value(data, "devices", int, 8),
            _typed_value(data, "fn", str, "main"),
            _typed_value(data, "args", str, None),
            _typed_value(data, "reference", str, None),
            _typed_value(data, "tolerance", float, None),
            tuple(donate),
        )
    except (BadProof, ValueError) as error:
        raise BadProof(f"{file}: {error}") from error


def _tables_named(data: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    value = data.get(name)
    tables = [value] if isinstance(value, dict) else value
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise BadProof(f"it needs a [{name}] table, or several [[{name}]]")
    return tables


def _read_entry(table: dict[str, Any], keys: set[str], name: str) -> Entry:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    _check_known_keys(table, keys, f" in [[{name}]]")
    when, out = _typed_value(table, "when", dict, {}), _typed_value(table, "out", dict, {})
    for package, wanted in when.items():
        try:
            SpecifierSet(wanted)
        except InvalidSpecifier:
            raise BadProof(
                f"when: {package} = {wanted!r} is not a version specifier such as '>=0.13.1'"
            ) from None
    for spec in out.values():
        if spec != ONE_DEVICE:
            P.parse_spec(spec)
    if name == "good":
        return Entry(when, out)
    shows = table.get("shows")
    if shows not in SHOWS:
        raise BadProof(f"shows must be one of {', '.join(SHOWS)}, not {shows!r}")
    if shows in ("raises", "warns") and "error" not in table:
        raise BadProof(f"shows = {shows!r} needs error, the class")
    if shows == "sharding" and not out:
        raise BadProof("shows = 'sharding' needs out, the wrong placement")
    if shows != "sharding" and out:
        raise BadProof(f"shows = {shows!r} does not use out")
    try:
        re.compile(table.get("message", ""))
    except re.error as error:
        raise BadProof(f"message is not a regular expression: {error}") from None
    return Entry(when, out, shows, table.get("error"), table.get("message"))


def _check_known_keys(table: Mapping[str, Any], keys: set[str], where: str) -> None:
    for key in table:
        if key not in keys:
            raise BadProof(f"unknown key {key!r}{where}; known are {', '.join(sorted(keys))}")


def _typed_value(data: Mapping[str, Any], key: str, kind: type, default: Any) -> Any:
    value = data.get(key, default)
    if value is not None and not isinstance(value, kind):
        raise BadProof(f"{key} must be of type {kind.__name__}, not {value!r}")
    return value


def join_results(code: str, level: str, bad: Result, good: Result) -> Result:
    """Return the result of a proof at one level. It passes if both programs behaved as declared, and is skipped if
    either could not tell.
    """
    both = (bad, good)
    status = PASS if all(one.status == PASS for one in both) else SKIP
    if any(one.status == FAIL for one in both):
        status = FAIL
    reasons = [one.reason for one in both if one.status == SKIP]
    return Result(
        code,
        level,
        status,
        reason=reasons[0] if status == SKIP else "",
        checked=good.checked + (1 if bad.status == PASS else 0),
        failures=[*bad.failures, *good.failures],
        notes=[*bad.notes, *good.notes],
        output=[*bad.output, *good.output],
        seconds=bad.seconds + good.seconds,
    )


def broken_proof(code: str, message: str) -> Result:
    """The result of a proof that cannot be read."""
    return Result(code, "", FAIL, failures=[Failure("fixture", message)])
