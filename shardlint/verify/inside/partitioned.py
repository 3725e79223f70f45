"""Compiling a lowered function so that the partitioner's view of it is kept: its dumps, and what it said."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardlint.verify.inside import program_cache
from shardlint.verify.inside.captured_stderr import folder_prefix, listen_to_stderr

# What the optimised module's file is called; its header has the aliases that were decided last.
_FINAL = "after_optimizations.txt"
_LARGEST = 512 * 2**20


@dataclass
class Partitioned:
    """A compiled function and the texts around the partitioner (see `hlo.read`); "" for those there are not.

    `final` is the first line of the optimised module. `said` is what was written to standard error.
    """

    compiled: Any
    after: str = ""
    before: str = ""
    original: str = ""
    final: str = ""
    said: str = ""
    notes: list[str] = field(default_factory=list)
    cached: bool = False
    """Whether the compiler was not asked: what it answered before was kept."""


def compile_lowered(
    lowered: Any, options: Mapping[str, Any] | None = None, devices: Sequence[Any] = ()
) -> Partitioned:
    """Compile what `jax.jit(...).lower(...)` gave, or a wrapper of it (`equinox.filter_jit`, `nnx.jit`).

    `devices` are those it is for. `options` are further compiler options. Raises what compiling raises.
    A compiler that refuses to dump gives empty texts and a note.
    """
    import jax

    # A program found in the cache is not compiled, so nothing of it would be dumped.
    jax.config.update("jax_enable_compilation_cache", False)
    inner = getattr(lowered, "lowered", lowered)
    key = program_cache.key_of(inner, options, devices) if program_cache.memory.is_on() else None
    if key is not None and (known := program_cache.recall_compiled(key, inner, devices)) is not None:
        answered = Partitioned(_compile_with_answer(lowered, options, known[0]), cached=True)
        for name, kept in known[1].items():
            setattr(answered, name, kept)
        return answered
    with tempfile.TemporaryDirectory(prefix=folder_prefix()) as folder, listen_to_stderr() as heard:
        dumping = {"xla_dump_to": folder, "xla_dump_hlo_pass_re": _passes_to_dump(jax.__version__)}
        try:
            made = _compile_with_answer(lowered, {**(options or {}), **dumping, "xla_dump_hlo_as_text": True})
        except Exception as error:
            if "xla_dump" not in str(error):
                raise
            return Partitioned(
                _compile_with_answer(lowered, options), notes=["this compiler writes no dumps"]
            )
        found = Partitioned(made)
        files = sorted(Path(folder).glob("*.txt"))
        found.after = _largest_text(
            file for file in files if ".after_" in file.name and _is_after_partitioner(file.name)
        )
        found.before = _largest_text(file for file in files if file.name.endswith("spmd-partitioning.txt"))
        found.original = _largest_text(file for file in files if ".before_shardy" in file.name)
        for file in files:
            if file.name.endswith(_FINAL):
                with file.open(encoding="utf-8", errors="replace") as text:
                    found.final = text.readline()
    found.said = heard[0]
    if key is not None:
        texts = {name: getattr(found, name) for name in program_cache.TEXTS}
        program_cache.keep_compiled(key, inner, getattr(made, "compiled", made), texts, devices)
    return found


def _passes_to_dump(version: str) -> str:
    """Before which passes to dump. jax 0.8 and 0.9 are asked for one more (see `hlo.lines.renumbering`)."""
    return "spmd-partitioning|shardy-xla" if version.startswith(("0.8.", "0.9.")) else "spmd-partitioning"


def _is_after_partitioner(name: str) -> bool:
    """Return whether a dump was made after the partitioner: `.after_spmd-partitioning.`, on TPU
    `.after_tpu-spmd-partitioning.`.
    """
    return name.partition(".after_")[2].partition(".")[0].endswith("spmd-partitioning")


def _largest_text(files: Iterator[Path]) -> str:
    """The text of the largest file: small programs may have been compiled on the way."""
    sizes = {file: file.stat().st_size for file in files}
    file = max(sizes, key=lambda one: sizes[one], default=None)
    if file is None or sizes[file] > _LARGEST:
        return ""
    return file.read_text("utf-8", "replace")


def _compile_with_answer(lowered: Any, options: Mapping[str, Any] | None, answer: Any = None) -> Any:
    """Return the result of `lowered.compile()`, with `answer` in place of the compiler's."""
    inner = getattr(lowered, "lowered", None)
    if inner is None and answer is not None:
        return answer
    if options is None and answer is None:
        return lowered.compile()
    if inner is None:
        return lowered.compile(compiler_options=dict(options or {}))
    # A wrapper's own `compile` takes no options in all releases; it compiles what it holds.
    held = _Holding(inner, options, answer)
    try:
        object.__setattr__(lowered, "lowered", held)
        return lowered.compile()
    finally:
        object.__setattr__(lowered, "lowered", inner)


class _Holding:
    """A lowered function that compiles with options, or is compiled already."""

    def __init__(self, lowered: Any, options: Mapping[str, Any] | None, answer: Any) -> None:
        self._lowered, self._options, self._answer = lowered, options, answer

    def compile(self, *args: Any, **kwargs: Any) -> Any:
        if self._answer is not None:
            return self._answer
        return self._lowered.compile(compiler_options=dict(self._options or {}))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lowered, name)
