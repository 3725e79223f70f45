"""Comparison of predicted layouts with those of jax, over generated programs on three releases of jax.

`python scripts/soundness.py` takes 20,000 programs a release and writes evaluation/layouts.md. `--count 300` takes
fewer, `--only 0.8.3` one release; then nothing is written. What jax made of a batch of programs is kept under
.matrix/soundness/: a run that was stopped goes on where it was, and one after a change of shardlint asks jax nothing.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matrix

sys.path.insert(0, str(matrix.ROOT))

from shardlint.layouts.function_table import FunctionTable
from shardlint.libraries import FUNCTIONS
from shardlint.model.api import canonical_name
from tests.layouts.compare import Observer, Outcome, note, show
from tests.layouts.generated import program

PAGE = matrix.ROOT / "evaluation" / "layouts.md"
KEPT = matrix.ROOT / ".matrix" / "soundness"
OLDEST, MIDDLE, NEWEST = "0.4.38", "0.8.3", "0.12.0"
_BATCH = 250
_BATCHES_A_PROCESS = 12  # a process of jax grows by what it compiles
# The compiler of CPUs fails some programs by ending the process: nothing of them is compared.
_ENDED = {
    "arrays": {},
    "line": 1,
    "inner": 1,
    "ran": [],
    "error": "Ended",
    "said": "INTERNAL: the process has ended",
}
_FIRST_LOOK, _ERRORS = "## First look", "## Errors that are not predicted"
_LIBRARIES = ("jax.", "optax.", "numpy.")


class CountedTable(FunctionTable):
    """The table of functions, and which of them were called."""

    def __init__(self) -> None:
        super().__init__(FUNCTIONS, {})
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        """The function of a name, which counts as called."""
        found = super().get(name, default)
        if found is not None:
            self.names.add(name)
        return found


@dataclass
class Figures:
    """Results of one release."""

    release: str
    outcome: Outcome
    seconds: float
    observed: int

    def format_row(self) -> str:
        """Its row of the table."""
        one = self.outcome
        missed, known = (
            format_share(one.errors - one.predicted, one.errors),
            format_share(one.known, one.arrays),
        )
        cells = (
            self.release,
            f"{one.programs:,}",
            len(one.wrong),
            f"{one.errors:,}",
            missed,
            f"{one.arrays:,}",
            known,
        )
        return f"| {' | '.join(map(str, cells))} |"


def format_share(count: int, total: int) -> str:
    """A count and its share in percent."""
    return f"{count:,} ({100 * count / total:.1f}%)" if total else "0"


def python_of(release: str) -> Path:
    """The Python of an environment with a release; that of this process for the newest."""
    if release == NEWEST:
        return Path(sys.executable)
    return matrix.prepare_environment(
        next(one for one in matrix.RELEASES if one.jax == release and one.codes == "all")
    )


class Source:
    """Layouts that jax makes in batches of programs: read from an earlier run, or observed now."""

    def __init__(self, release: str) -> None:
        self._release = release
        self._folder = KEPT / release
        self._folder.mkdir(parents=True, exist_ok=True)
        self._observer: Observer | None = None
        self._batches = 0
        self.observed = 0

    def observe_layouts(self, first: int, texts: Sequence[str]) -> list[dict[str, Any]]:
        """Return the layouts that jax makes in the programs from a seed on."""
        digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
        path = self._folder / f"{first}.json.gz"
        if path.is_file():
            kept = json.loads(gzip.decompress(path.read_bytes()))
            if kept["digest"] == digest:
                return list(kept["seen"])
        seen = self._observe_now(texts)
        self.observed += len(texts)
        path.write_bytes(gzip.compress(json.dumps({"digest": digest, "seen": seen}).encode()))
        return seen

    def _observe_now(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """The same, of programs of which one may end the process."""
        if self._observer is None or self._batches == _BATCHES_A_PROCESS:
            self.close_process()
            self._observer, self._batches = Observer(python_of(self._release), self._folder / "compiled"), 0
        self._batches += 1
        try:
            return self._observer.observe(texts)
        except RuntimeError:
            self.close_process()
        half = len(texts) // 2
        return [*self._observe_now(texts[:half]), *self._observe_now(texts[half:])] if half else [_ENDED]

    def close_process(self) -> None:
        """End the process."""
        if self._observer is not None:
            self._observer.close()
            self._observer = None


def compare_release(release: str, first: int, count: int, called: CountedTable) -> Figures:
    """Compare so many programs on a release."""
    version = tuple(map(int, release.split(".")))
    source, outcome, seconds = Source(release), Outcome(), 0.0
    try:
        for start in range(first, first + count, _BATCH):
            texts = [program(seed, version) for seed in range(start, min(start + _BATCH, first + count))]
            began = time.monotonic()
            observed = source.observe_layouts(start, texts)
            seconds += time.monotonic() - began
            for text, seen in zip(texts, observed, strict=True):
                note(outcome, text, seen, version, called)
            print(f"{release}, {start + len(texts)}: {outcome}", file=sys.stderr, flush=True)
    finally:
        source.close_process()
    return Figures(release, outcome, seconds, source.observed)


def find_uncalled(called: CountedTable) -> dict[str, list[str]]:
    """The registered functions of jax, numpy and optax that no program called, by module."""
    found: dict[str, list[str]] = {}
    for name in sorted(set(FUNCTIONS) - called.names):
        if name.startswith(_LIBRARIES) and canonical_name(name) == name:
            module, _, member = name.rpartition(".")
            found.setdefault(module, []).append(member)
    return found


def _remove_backticks(text: str) -> str:
    return text.replace("`", "'").strip()


def read_first_look() -> list[str]:
    """The lines of the page about the first look, which are written by hand."""
    lines = PAGE.read_text("utf-8").splitlines()
    return lines[lines.index(_FIRST_LOOK) : lines.index(_ERRORS)] if _FIRST_LOOK in lines else []


def format_page(all_figures: Sequence[Figures], called: CountedTable) -> str:
    """evaluation/layouts.md."""
    lines = [
        "# Predicted layouts compared with those of jax",
        "",
        "`make soundness` generates programs, predicts their layouts and errors without jax, runs them with jax on",
        "eight simulated devices, and compares: shape, dtype, sharding, device, memory, whether an array is",
        "committed, and in `shard_map` along which axes it varies. A program binds 5 to 12 arrays, at the top level",
        "or in functions that are traced. Programs come from `tests/layouts/generated.py`, not from what people",
        "write. The figures say whether the rules of jax are right, not how often a real program meets them.",
        "",
        "An array is *known* if its shape was predicted and, on a mesh, the axes of each of its dimensions. Shardings",
        "that the compiler chooses over Auto axes are not predicted. Mistakes that raise nothing (padding, donation",
        "without use, random numbers that repeat) are not compared.",
        "",
        "| jax | programs | wrong predictions | layout errors | of them not predicted | arrays | known |",
        "|---|---|---|---|---|---|---|",
        *(one.format_row() for one in all_figures),
        "",
        *read_first_look(),
        _ERRORS,
        "",
    ]
    for one in all_figures:
        lines += [f"jax {one.release}:", ""]
        missed = one.outcome.missed.most_common(10)
        lines += [f"- {number}: `{_remove_backticks(key)}`" for key, number in missed] or ["- none"]
        lines += [""]
    lines += ["## Functions that no program calls", ""]
    lines += [f"- `{module}`: {', '.join(names)}" for module, names in find_uncalled(called).items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=20_000, help="programs a release")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", metavar="JAX", choices=(OLDEST, MIDDLE, NEWEST), help="one release of jax")
    parser.add_argument("--write", action="store_true", help="write the page with fewer programs too")
    asked = parser.parse_args()
    called = CountedTable()
    releases = [asked.only] if asked.only else [OLDEST, MIDDLE, NEWEST]
    all_figures = []
    for release in releases:
        found = compare_release(release, asked.first, asked.count, called)
        all_figures.append(found)
        print(f"jax {release}")
        show(found.outcome)
        if found.observed:
            print(f"{found.seconds / found.observed:.3f} s a program in jax")
    for module, names in find_uncalled(called).items():
        print(f"not called: {module}: {' '.join(names)}")
    if asked.write or (not asked.only and asked.count >= 20_000):
        PAGE.write_text(format_page(all_figures, called), "utf-8")
        print(f"{PAGE.relative_to(matrix.ROOT)} written")
    return 1 if any(one.outcome.wrong for one in all_figures) else 0


if __name__ == "__main__":
    sys.exit(main())
