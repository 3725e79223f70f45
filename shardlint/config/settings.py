"""Settings: `[tool.shardlint]` in pyproject.toml, or shardlint.toml. Read, never run."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from shardlint.config.certainty import DEFAULT, Certainty
from shardlint.config.own_names import OwnNames
from shardlint.config.suggestions import did_you_mean
from shardlint.source.regular_files import CONFIGURATION_BYTES, parse_toml, read_regular


class BadSettings(Exception):
    """Settings that cannot be used; the message names the file, the key and what to write instead."""


@dataclass(frozen=True)
class Settings:
    """All settings, with their defaults.

    `select` and `ignore` hold codes, prefixes, names or harms. `exclude` holds patterns as in `.gitignore`, relative
    to the settings file. `certainty` is the least that is reported; `pedantic` is short for possible.
    `targets` maps a package to a release. `per_file_ignores` maps a pattern to codes.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    certainty: Certainty = DEFAULT
    pedantic: bool = False
    exclude: tuple[str, ...] = ()
    targets: dict[str, str] = field(default_factory=dict)
    per_file_ignores: dict[str, tuple[str, ...]] = field(default_factory=dict)
    jit_decorators: tuple[str, ...] = ()
    """Dotted names of the project's own functions that trace what they are given, as `jax.jit` does."""
    path: Path | None = None
    """The file these were read from."""
    extend_select: tuple[str, ...] = ()
    """Rules besides those that are selected, or on by default."""
    baseline: str = ""
    """The file of known findings, relative to the settings file."""
    mesh_makers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Dotted names of the project's own functions that return a mesh, with the names of its axes in order."""
    axis_names: tuple[str, ...] = ()
    """The names of all mesh axes of the project."""
    banned_calls: dict[str, str] = field(default_factory=dict)
    """Full names that the project does not use, with what to write instead."""
    given: bool = False
    """Whether the command line names the file: its patterns are relative to the current folder."""

    def least_certainty(self, certainty: Certainty | None) -> Certainty:
        """The least certainty to report: what the command line asks for, else these settings."""
        if certainty is not None:
            return certainty
        return Certainty.POSSIBLE if self.pedantic else self.certainty

    @property
    def settings_folder(self) -> Path:
        """The folder that patterns are relative to."""
        return Path.cwd() if self.given or self.path is None else self.path.parent

    @property
    def own_names(self) -> OwnNames:
        """Return the names of the project's own functions and axes in the settings."""
        return OwnNames(
            frozenset(self.jit_decorators), self.mesh_makers, self.axis_names, self.banned_calls
        )

    @property
    def file_name(self) -> str:
        """The settings file's name, for messages."""
        return self.path.name if self.path is not None else "the defaults"


# What each setting looks like, for whoever wrote something else.
_EXAMPLES = {
    "select": '["SL2", "silent"]',
    "ignore": '["SL214"]',
    "exclude": '["vendored/"]',
    "targets": '{jax = "0.8"}',
    "per-file-ignores": '{"tests/**" = ["SL2"]}',
    "jit-decorators": '["mylib.utils.my_jit"]',
    "mesh-makers": '{"mylib.mesh.make" = ["data", "model"]}',
    "axis-names": '["data", "fsdp", "model"]',
    "banned-calls": '{"jax.device_put" = "use mylib.place, which keeps the mesh"}',
    "extend-select": '["SL654"]',
    "extend": '"../shardlint.toml"',
    "baseline": '".shardlint-baseline.json"',
}
_OF_THE_RUN = ("path", "given")
KEYS = {f.name.replace("_", "-"): f.name for f in fields(Settings) if f.name not in _OF_THE_RUN}
"""The names of settings in files, with those of their fields."""
EXTEND = "extend"
"""The key that names another file, whose settings hold where this one says nothing."""
_DEEPEST = 10


def settings_in(folder: Path) -> Settings | None:
    """The settings that a folder itself holds, if any. Raises `BadSettings`."""
    own = folder / "shardlint.toml"
    if os.path.isfile(own):
        return read_settings(own)
    project = folder / "pyproject.toml"
    if os.path.isfile(project) and "shardlint" in _read_settings_text(project):
        table = _read_table(project)
        return None if table is None else _make_settings(project, table)
    return None


def read_settings(path: Path) -> Settings:
    """Read one settings file. Raises `BadSettings` for broken TOML, unknown keys and values of the wrong kind."""
    return _make_settings(path, _read_table(path) or {})


def given_settings(path: Path) -> Settings:
    """The settings of a file that the command line names. Raises `BadSettings`."""
    return replace(read_settings(path), given=True)


def find_setting_sources(path: Path) -> dict[str, Path]:
    """Return the file that gives each setting of a settings file: itself, or one that it extends.

    Keys are written as in the file. Raises `BadSettings`.
    """
    table = _read_table(path) or {}
    base = table.get(EXTEND)
    sources = find_setting_sources(path.parent / os.path.expanduser(base)) if base else {}
    return {**sources, **{key: path for key in table if key in KEYS}}


def _read_table(path: Path) -> dict[str, Any] | None:
    """The settings as they are written; None for a pyproject.toml without any."""
    text = _read_settings_text(path)
    if text.startswith("\ufeff"):
        raise BadSettings(
            f"{path}: not valid TOML: line 1 begins with a byte order mark; save it as UTF-8 without one"
        )
    try:
        table = parse_toml(text)
    except ValueError as error:  # also of numbers with more digits than Python reads
        raise BadSettings(f"{path}: not valid TOML: {error}") from None
    if path.name != "pyproject.toml":
        return table
    tool = table.get("tool")
    own = tool.get("shardlint") if isinstance(tool, dict) else None
    if not isinstance(own, dict | None):
        raise BadSettings(f"{path}: [tool.shardlint] is not a table")
    return own


def _make_settings(path: Path, table: dict[str, Any]) -> Settings:
    values: dict[str, Any] = {**_extended_values(path, table, ()), "path": path}
    if values.get("pedantic") and values.get("certainty", Certainty.POSSIBLE) is not Certainty.POSSIBLE:
        raise BadSettings(f"{path}: pedantic means certainty = \"possible\"; remove one of the two")
    axes = values.get("axis_names", ())
    for name, made in values.get("mesh_makers", {}).items() if axes else ():
        strange = next((axis for axis in made if axis not in axes), None)
        if strange is not None:
            said = f"mesh-makers.{name} names the axis {strange!r}, which axis-names does not contain"
            raise BadSettings(f"{path}: {said}; {did_you_mean(strange, axes)}")
    return Settings(**values)


def _extended_values(path: Path, table: dict[str, Any], below: tuple[str, ...]) -> dict[str, Any]:
    """The values of a file over those of the file it extends."""
    here = os.path.realpath(path)
    if here in below or len(below) > _DEEPEST:
        raise BadSettings(f"{path}: extend is circular, or reads too many files")
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key == EXTEND:
            if not isinstance(value, str) or not value:
                raise BadSettings(f"{path}: {key} is {value!r}; write a path such as {_EXAMPLES[EXTEND]}")
            base = path.parent / os.path.expanduser(value)
            if not os.path.isfile(base):
                raise BadSettings(f"{path}: extend names {value!r}, which does not exist")
            values = {**_extended_values(base, _read_table(base) or {}, (*below, here)), **values}
        elif key in KEYS:
            try:
                values[KEYS[key]] = _read_setting(path, key, value)
            except BadSettings as error:
                from shardlint.config.lines import with_line

                raise BadSettings(with_line(path, key, str(error))) from None
        elif key != "verify":  # fixtures, read by `shardlint verify`
            from shardlint.config.lines import with_line

            hint = did_you_mean(key.replace("_", "-"), [*KEYS, EXTEND])
            raise BadSettings(with_line(path, key, f"{path}: unknown setting {key!r}; {hint}"))
    return values


def _read_setting(path: Path, key: str, value: object) -> object:
    match key:
        case "pedantic":
            if isinstance(value, bool):
                return value
            raise BadSettings(f"{path}: {key} is {value!r}; write true or false")
        case "baseline":
            if isinstance(value, str) and value:
                return value
            raise BadSettings(f"{path}: {key} is {value!r}; write a path such as {_EXAMPLES[key]}")
        case "certainty":
            if isinstance(value, str) and value in list(Certainty):
                return Certainty(value)
            raise BadSettings(f"{path}: {key} is {value!r}; write one of {', '.join(Certainty)}")
        case "targets":
            if isinstance(value, dict):
                return _read_targets(path, value)
            raise BadSettings(f"{path}: {key} is {value!r}; write a table such as {_EXAMPLES[key]}")
        case "per-file-ignores":
            if isinstance(value, dict):
                return {
                    str(pattern): _check_strings(path, f"{key}.{pattern}", codes, '["SL2"]')
                    for pattern, codes in value.items()
                }
            raise BadSettings(f"{path}: {key} is {value!r}; write a table such as {_EXAMPLES[key]}")
        case "mesh-makers":
            if isinstance(value, dict):
                return {
                    str(name): _check_strings(path, f"{key}.{name}", axes, '["data", "model"]')
                    for name, axes in value.items()
                }
            raise BadSettings(f"{path}: {key} is {value!r}; write a table such as {_EXAMPLES[key]}")
        case "banned-calls":
            if isinstance(value, dict):
                return {
                    name: _banned_replacement(path, f"{key}.{name}", name, said)
                    for name, said in value.items()
                }
            raise BadSettings(f"{path}: {key} is {value!r}; write a table such as {_EXAMPLES[key]}")
        case "axis-names":
            axes = _check_strings(path, key, value, _EXAMPLES[key])
            if len(set(axes)) == len(axes) and all(axes):
                return axes
            raise BadSettings(f"{path}: {key} is {value!r}; write each name once, such as {_EXAMPLES[key]}")
    return _check_strings(path, key, value, _EXAMPLES[key])


def _banned_replacement(path: Path, key: str, name: str, said: object) -> str:
    """Return the replacement for a banned name."""
    parts = name.removesuffix(".*").split(".")
    if not all(part.isidentifier() for part in parts) or (len(parts) == 1 and not name.endswith(".*")):
        shown = "write a full name such as jax.device_put, or jax.experimental.* for everything in a module"
        raise BadSettings(f"{path}: {key} is not a full name; {shown}, in quotes")
    if isinstance(said, str) and said.strip():
        return said.strip()
    raise BadSettings(
        f'{path}: {key} is {said!r}; write what to use instead, as in {_EXAMPLES["banned-calls"]}'
    )


def _read_targets(path: Path, table: dict[str, Any]) -> dict[str, str]:
    from shardlint.config.targets import BadTarget, parse_targets

    for package, version in table.items():
        if not isinstance(version, str):
            raise BadSettings(
                f"{path}: targets.{package} is {version!r}; the value must be a string, as in {_EXAMPLES['targets']}"
            )
    try:
        return parse_targets(f"{package}={version}" for package, version in table.items())
    except BadTarget as error:
        raise BadSettings(f"{path}: {error}") from None


def _check_strings(path: Path, key: str, value: object, example: str) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise BadSettings(f"{path}: {key} is {value!r}; write a list of strings such as {example}")


def _read_settings_text(path: Path) -> str:
    try:
        text = read_regular(path, CONFIGURATION_BYTES).decode("utf-8")
    except OSError as error:
        raise BadSettings(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise BadSettings(
            f"{path}: not valid TOML: byte {error.start + 1} is not UTF-8; save it as UTF-8"
        ) from None
    if "\0" in text:
        raise BadSettings(f"{path}: not valid TOML: it contains NUL, as UTF-16 does; save it as UTF-8")
    return text
