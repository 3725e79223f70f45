"""Fixtures without code: the `[[tool.shardlint.verify]]` tables of the settings. Read, never run.

Keys have the names of `Fixture`'s and `arg`'s own parameters. Specs are text, `"P('data', None)"`, and
functions are references, `"module:attribute"`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardlint.config.settings import BadSettings
from shardlint.source.regular_files import read_toml
from shardlint.verify.fixture import (
    AUTO,
    CONTEXTS,
    EXPLICIT,
    SINGLE_DEVICE,
    Argument,
    Fixture,
    arg,
    parse_bytes,
)
from shardlint.verify.spec import P
from shardlint.verify.values import (
    Read,
    Wrong,
    integer_reader,
    list_of,
    read_boolean,
    read_key,
    table_of,
    text_reader,
)

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class _Key:
    """A key of a table: what it is for, what to write, its JSON schema, and how its value is read.

    `read` raises `ValueError` or `TypeError` for a value that is not what `write` says, and `Wrong` where it knows
    better which part is not.
    """

    about: str
    write: str
    schema: Schema
    read: Read


def _check_keys(value: Any, keys: Mapping[str, _Key]) -> dict[str, Any]:
    """The values of a table that may have these keys only."""
    if not isinstance(value, dict):
        raise ValueError
    for name in value:
        if name not in keys:
            near = difflib.get_close_matches(name.replace("-", "_"), keys, n=1)
            known = f"write {near[0]}" if near else f"known are {', '.join(keys)}"
            raise Wrong(f".{name}", f"is not a key; {known}")
    return {name: read_key(f".{name}", one, keys[name].read, keys[name].write) for name, one in value.items()}


def _parse_spec(value: Any) -> P:
    return P.parse_spec(text_reader("")(value))


def _parse_specs(value: Any) -> dict[str, P] | str:
    found: dict[str, P] | str
    found = text_reader(_REFERENCE)(value) if isinstance(value, str) else table_of(_parse_spec, _A_SPEC)(value)
    return found


def _parse_size(value: Any) -> int | str:
    size: int | str = value if isinstance(value, str) else integer_reader(0)(value)
    parse_bytes(size)
    return size


def _parse_mesh(value: Any) -> dict[str, int] | str:
    found: dict[str, int] | str
    found = (
        text_reader(_MESH)(value)
        if isinstance(value, str)
        else table_of(integer_reader(1), "a size of 1 or more")(value)
    )
    if not found:
        raise ValueError
    return found


def _parse_argument(value: Any) -> Argument:
    values = _check_keys(value, ARG_KEYS)
    if ("source" in values) == ("shape" in values):
        raise Wrong("", f"is {value!r}; write either source or shape in it")
    if "spec" in values and "specs" in values:
        raise Wrong("", f"is {value!r}; write either spec (for all arrays) or specs (one by one) in it")
    return arg(**values)


_REFERENCE = r"^[\w.]+:[\w.]+$"
_NAME = r"^[\w.-]+$"
_MESH = r"^all:[1-9]\d*$"
_DTYPE = r"^(bool|u?int(2|4|8|16|32|64)|bfloat16|float(16|32|64)|float[468]_\w+|complex(64|128))$"

_A_SPEC = "a spec such as \"P('data', None)\""
_A_SIZE = 'bytes such as 4096, "64MiB" or "1.5GB"'
_A_MESH = 'sizes such as {data = 4, model = 2}, or "all:8"'
_A_REFERENCE = 'a reference such as "proj.train:step"'
_AN_ARG = 'a table such as {shape = [16, 512], dtype = "int32", spec = "P(\'data\')"}'
_GLOBS = "a table such as {\"0/**/w1\" = \"P('data', 'model')\"}"


def _string_schema(pattern: str) -> Schema:
    return {"type": "string", "pattern": pattern}


def _number_schema(least: int) -> Schema:
    return {"type": "integer", "minimum": least}


def _array_schema(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def _object_schema(values: Schema, **more: Any) -> Schema:
    return {"type": "object", "additionalProperties": values, **more}


def _either_schema(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


_SPECS_SCHEMA = _object_schema(_string_schema(r"^\s*(P|PartitionSpec)\s*\("))
_SIZE_SCHEMA = _either_schema(_number_schema(0), _string_schema(r"^\s*\d+(\.\d+)?\s*[a-zA-Z]*\s*$"))


def _text_key(about: str, write: str, pattern: str) -> _Key:
    return _Key(about, write, _string_schema(pattern), text_reader(pattern))


def _specs_key(about: str) -> _Key:
    return _Key(about, _GLOBS, _SPECS_SCHEMA, table_of(_parse_spec, _A_SPEC))


def _size_key(about: str) -> _Key:
    return _Key(about, _A_SIZE, _SIZE_SCHEMA, _parse_size)


def _strings_key(about: str, write: str) -> _Key:
    return _Key(
        about, f"a list such as {write}", _array_schema({"type": "string"}), list_of(text_reader(""), "a string")
    )


def _choice_key(about: str, choices: tuple[str, ...]) -> _Key:
    write = " or ".join(f'"{choice}"' for choice in choices)
    return _Key(about, write, {"enum": list(choices)}, text_reader(f"^({'|'.join(choices)})$"))


ARG_KEYS: dict[str, _Key] = {
    "source": _text_key("A function that makes the argument.", _A_REFERENCE, _REFERENCE),
    "shape": _Key(
        "The shape of an array argument.",
        "sizes such as [16, 512]",
        _array_schema(_number_schema(0)),
        list_of(integer_reader(0), "a size of 0 or more"),
    ),
    "dtype": _text_key("Its dtype. Default: float32.", 'a dtype such as "float32" or "int32"', _DTYPE),
    "below": _Key(
        "Integers are filled with 0 up to this number, exclusive. Default: 2.",
        "a number of 1 or more",
        _number_schema(1),
        integer_reader(1),
    ),
    "spec": _Key(
        "The spec of every array in the argument.",
        _A_SPEC,
        _SPECS_SCHEMA["additionalProperties"],
        _parse_spec,
    ),
    "specs": _Key(
        "The specs of its arrays: from path globs to specs, or a function that makes them.",
        f'{_GLOBS}, or a reference such as "proj.shard:specs"',
        _either_schema(_string_schema(_REFERENCE), _SPECS_SCHEMA),
        _parse_specs,
    ),
}

KEYS: dict[str, _Key] = {
    "name": _text_key(
        "Its name in reports and on the command line.", 'a name of letters, digits, ".", "_" and "-"', _NAME
    ),
    "fn": _text_key("The function under test.", _A_REFERENCE, _REFERENCE),
    "meshes": _Key(
        "Axis sizes in order, or all:N for all shapes with N devices over the axes that the specs name.",
        'a list such as [{data = 4, model = 2}, "all:8"]',
        _array_schema(
            _either_schema(_object_schema(_number_schema(1), minProperties=1), _string_schema(_MESH)),
            minItems=1,
        ),
        list_of(_parse_mesh, _A_MESH),
    ),
    "args": _Key(
        "The function's arguments.",
        f"a list, each {_AN_ARG}",
        _array_schema(
            {
                "type": "object",
                "properties": {
                    name: {"description": key.about, **key.schema} for name, key in ARG_KEYS.items()
                },
                "additionalProperties": False,
                "oneOf": [{"required": ["source"]}, {"required": ["shape"]}],
                "not": {"required": ["spec", "specs"]},
            }
        ),
        list_of(_parse_argument, _AN_ARG),
    ),
    "out": _specs_key("The specs of outputs, by path glob."),
    "gradients": _specs_key("The specs of gradients, by path glob."),
    "replicated_bytes_max": _size_key("The largest output that may be replicated, if out does not name it."),
    "donate": _Key(
        "Indexes of arguments whose buffers must all be reused.",
        "a list of indexes such as [0]",
        _array_schema(_number_schema(0)),
        list_of(integer_reader(0), "the index of an argument, starting at 0"),
    ),
    "forbid": _strings_key("Collectives that must not occur.", '["all_gather over model", "all_to_all"]'),
    "budget": _Key(
        "The most bytes that collectives may move in one call.",
        'a table such as {"all_gather over data" = "64MiB"}',
        _object_schema(_SIZE_SCHEMA),
        table_of(_parse_size, _A_SIZE),
    ),
    "memory_max": _size_key("The most memory per device, as compiled for simulated devices."),
    "hbm_max": _size_key("The most memory per device, as compiled for each topology."),
    "reference": _text_key(
        "The reference for the numbers: single_device, or another function.",
        f'"{SINGLE_DEVICE}" or {_A_REFERENCE}',
        f"^{SINGLE_DEVICE}$|{_REFERENCE}",
    ),
    "context": _choice_key("The mesh context of the call.", CONTEXTS),
    "axis_types": _choice_key("The type of the mesh axes.", (AUTO, EXPLICIT)),
    "execute": _Key(
        "false if the program is too large to run here.", "true or false", {"type": "boolean"}, read_boolean
    ),
    "processes": _Key(
        "Also run it as this many jax.distributed processes.",
        "a number of 2 or more",
        _number_schema(2),
        integer_reader(2),
    ),
    "topology": _strings_key("Also compile it for these topologies, without the hardware.", '["v5e:4x4"]'),
}
_NEEDED = ("name", "fn", "meshes")


def has_fixtures(path: Path) -> bool:
    """Return whether a settings file declares fixtures. Raises `BadSettings` for broken TOML."""
    return bool(_verify_tables(path))


def read_fixtures(path: Path) -> dict[str, Fixture]:
    """The fixtures a settings file declares, by name, in order.

    Raises `BadSettings`, which names the file, the table (counted from 0), the key, what was seen and what to write.
    """
    place = "tool.shardlint.verify" if path.name == "pyproject.toml" else "verify"
    tables = _verify_tables(path)
    if not isinstance(tables, list):
        raise BadSettings(f"{path}: {place} is {tables!r}; write tables that begin with [[{place}]]")
    found: dict[str, Fixture] = {}
    for index, table in enumerate(tables):
        name = table.get("name") if isinstance(table, dict) else None
        here = f"{path}: {place}[{index}]" + (f" ({name})" if isinstance(name, str) else "")
        try:
            name, fixture = read_key("", table, _parse_fixture, f"a table that begins with [[{place}]]")
        except Wrong as wrong:
            raise BadSettings(f"{here}: {f'{wrong.key} {wrong.text}'.lstrip('. ')}") from None
        if name in found:
            raise BadSettings(f"{here}: name is {name!r}, which another fixture has; write another name")
        found[name] = fixture
    return found


def _parse_fixture(table: Any) -> tuple[str, Fixture]:
    values = _check_keys(table, KEYS)
    for key in _NEEDED:
        if key not in values:
            raise Wrong("", f"has no {key}; write {key} = {KEYS[key].write}")
    name = values.pop("name")
    try:
        return name, Fixture(**values)
    except (TypeError, ValueError) as error:  # what only `Fixture` can tell; its messages say which field
        raise Wrong("", str(error)) from None


def _verify_tables(path: Path) -> Any:
    try:
        table: Any = read_toml(path)
    except ValueError as error:
        raise BadSettings(f"{path}: not valid TOML: {error}") from None
    except OSError as error:
        raise BadSettings(f"{path}: cannot be read: {error.strerror}") from None
    for key in ("tool", "shardlint", "verify") if path.name == "pyproject.toml" else ("verify",):
        table = table.get(key, {}) if isinstance(table, dict) else {}
    return table or []


def json_schema() -> dict[str, Any]:
    """The JSON schema of the `verify` setting."""
    return {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {name: {"description": key.about, **key.schema} for name, key in KEYS.items()},
            "required": list(_NEEDED),
            "additionalProperties": False,
        },
    }
