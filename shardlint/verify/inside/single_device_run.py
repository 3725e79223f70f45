"""The run on one device that `reference` asks for, in a process that has one: what a program reads of its devices
(`jax.device_count()`) is then what a single device says.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shardlint.verify.fixture import EXPLICIT, SINGLE_DEVICE, Fixture
from shardlint.verify.inside import compare, devices, load, placed_arguments, tree
from shardlint.verify.inside.failures import failure_from_exception
from shardlint.verify.inside.invoke import call_function, run_in_float64

Arrays = dict[str, tuple[str, Any]]


@dataclass
class ReferenceRun:
    """Result of the reference run on one device.

    `ended` says how its process came to no answer, `raised` is what the function raised there. `unmade` says why it
    did not come so far, with the file and arguments. `digest` is that of the files in which it left its arrays.
    """

    ended: str = ""
    raised: str = ""
    unmade: str = ""
    digest: str = ""
    lowest: str = "float64"
    notes: list[str] = field(default_factory=list)
    arguments: Arrays = field(default_factory=dict)
    numbers: Arrays = field(default_factory=dict)
    returns_arrays: bool = True

    @classmethod
    def read_result(cls, said: Mapping[str, Any], folder: Path) -> ReferenceRun:
        """From the message of the process, and the folder in which it left its arrays.

        Raises `LookupError` where those are not the ones it told of.
        """
        found = cls(**said)
        if found.ended or found.raised or found.unmade:
            return found
        files = _read_files(folder)
        if _digest_files(files) != found.digest:
            raise LookupError("the files of the single-device run were changed")
        found.arguments, found.numbers = compare.decode_numbers(files[0]), compare.decode_numbers(files[1])
        return found


def run_alone(fixture: Fixture, sizes: Mapping[str, int], folder: Path) -> dict[str, Any]:
    """Make a fixture's arguments on one device, call its reference there, and leave both in `folder`.

    Returns the rest of an `ReferenceRun`. Nothing the user's code raises gets out of here.
    """
    if (count := len(jax.devices())) != 1:
        return {"unmade": f"was not possible: the program sets {count} devices"}
    mesh = devices.mesh_of(dict.fromkeys(sizes, 1), fixture.axis_types == EXPLICIT)
    try:
        function = load.resolve_reference(
            fixture.fn if fixture.reference == SINGLE_DEVICE else fixture.reference
        )
        entered, _ = devices.enter_mesh_context(fixture.context, mesh)
        with entered:
            made = placed_arguments.make_arguments(fixture, mesh)
        hosts = placed_arguments.fill_arguments(made)
    except Exception as error:
        return {"unmade": failure_from_exception(error).message}
    try:
        output, lowest, notes = run_in_float64(
            hosts,
            lambda given: call_function(function, arguments_for_one_device(given, made, mesh), mesh, fixture.context),
        )
    except Exception as error:
        return {"raised": failure_from_exception(error).message}
    files = [compare.encode_numbers(named_arrays(hosts)), compare.encode_numbers(compare.numbers_by_path(output))]
    for name, data in zip(_FILES, files, strict=True):
        (folder / name).write_bytes(data)
    arrays = bool(tree.array_leaves(output, ""))
    return {"digest": _digest_files(files), "lowest": lowest, "notes": notes, "returns_arrays": arrays}


def arguments_for_one_device(
    hosts: list[Any], host_arguments: list[placed_arguments.HostArgument], one: Any
) -> list[Any]:
    """Host copies as the arguments of a run on the mesh `one` of a single device."""
    if devices.is_explicit(one) and all(
        spec is not None for argument in host_arguments for spec in argument.specs.values()
    ):
        # Shardings are part of the types the function was written for.
        return placed_arguments.place_arrays(hosts, host_arguments, one)
    # Uncommitted, so that a function that insists on its own mesh shows itself instead of failing oddly.
    return [tree.map_arrays(tree.from_host, host) for host in hosts]


def named_arrays(hosts: list[Any]) -> Arrays:
    """The arrays of host copies, by argument and path."""
    found = {}
    for index, host in enumerate(hosts):
        for path, where, leaf in tree.flatten_tree(host):
            if isinstance(leaf, np.ndarray | tree.HostKey):
                data = leaf.data if isinstance(leaf, tree.HostKey) else leaf
                found[f"{index}/{path}"] = (f"args[{index}]{where}", data)
    return found


def copy_reference_numbers(hosts: list[Any], arguments: Arrays) -> tuple[list[Any], list[str], str]:
    """Host copies with the numbers that the run on one device was given, the names of those that differed, and the
    first that has another shape or is missing there ("" where none is).
    """
    mine = named_arrays(hosts)
    strange = [
        where
        for key, (where, data) in mine.items()
        if key not in arguments
        or arguments[key][1].shape != data.shape
        or arguments[key][1].dtype != data.dtype
    ]
    if strange or mine.keys() != arguments.keys():
        return (
            hosts,
            [],
            strange[0] if strange else next(arguments[key][0] for key in arguments.keys() - mine.keys()),
        )
    other = [where for key, (where, data) in mine.items() if data.tobytes() != arguments[key][1].tobytes()]
    given = []
    for index, host in enumerate(hosts):
        leaves, treedef = jax.tree_util.tree_flatten(host)
        paths = [path for path, _, _ in tree.flatten_tree(host)]
        put = [
            _leaf_like(leaf, arguments.get(f"{index}/{path}"))
            for path, leaf in zip(paths, leaves, strict=True)
        ]
        given.append(jax.tree_util.tree_unflatten(treedef, put))
    return given, other, ""


def _leaf_like(leaf: Any, given: tuple[str, Any] | None) -> Any:
    if given is None:
        return leaf
    return tree.HostKey(given[1], leaf.impl) if isinstance(leaf, tree.HostKey) else given[1]


@contextlib.contextmanager
def pretend_single_device() -> Iterator[None]:
    """Answer a program's questions to jax about its devices as if there were one.

    For what cannot be run in a process that has one. Only `jax.device_count()` and its like, read from `jax` when they
    are called, are answered so.
    """
    one = jax.devices()[:1]
    answers = {
        "device_count": lambda *args: 1,
        "local_device_count": lambda *args: 1,
        "devices": lambda *args: list(one),
        "local_devices": lambda *args, **keywords: list(one),
    }
    before = {name: getattr(jax, name) for name in answers}
    jax.clear_caches()  # what was traced with the other answers, and after it with these
    try:
        for name, answer in answers.items():
            setattr(jax, name, answer)
        yield
    finally:
        for name, function in before.items():
            setattr(jax, name, function)
        jax.clear_caches()


_FILES = ("arguments", "numbers")


def _read_files(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in _FILES]


def _digest_files(files: list[bytes]) -> str:
    return hashlib.sha256(b"".join(hashlib.sha256(data).digest() for data in files)).hexdigest()
