"""Cost of an edit in an editor: a real client types into files of one large project, and waits for the findings.

`typing_edits.py FOLDER [FILES]`: FOLDER is one project (with one pyproject.toml, at its top) of some thousand files,
of which FILES (40) that name jax are drawn, always the same. Printed are seconds of the clock from the edit to the
findings of the new text, the processor time of the server, and how long it waited for a processor, which on a machine
in use is most of the first. Linux only.
"""

from __future__ import annotations

import ast
import asyncio
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.editor import Editor

_EDITS = 9
_SEED = 3


def _draw_statements(root: Path, count: int) -> Iterator[tuple[Path, list[str], int, int]]:
    """Files, their lines, and where a statement of a function begins: its line and its indent."""
    naming = [path for path in sorted(root.rglob("*.py")) if path.is_file() and b"jax" in path.read_bytes()]
    random.Random(_SEED).shuffle(naming)
    for path in naming:
        text = path.read_text("utf-8", "replace")
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        if not functions:
            continue
        first = random.Random(str(path.relative_to(root))).choice(functions).body[0]
        lines = text.split("\n")
        if not lines[first.lineno - 1][: first.col_offset].strip():
            yield path, lines, first.lineno - 1, first.col_offset
            count -= 1
        if not count:
            return


def _cpu_and_wait_seconds(process: int) -> tuple[float, float]:
    """Seconds on a processor, and waiting for one, of all threads of a process."""
    ran = waited = 0
    for thread in Path(f"/proc/{process}/task").iterdir():
        first, second, _ = (thread / "schedstat").read_text().split()
        ran, waited = ran + int(first), waited + int(second)
    return ran / 1e9, waited / 1e9


async def measure_typing(root: Path, count: int) -> dict[str, list[float]]:
    """The times of all edits, by what they are."""
    editor = Editor()
    await editor.start(root)
    process = editor.client._server.pid  # type: ignore[union-attr]
    found: dict[str, list[float]] = {"clock": [], "processor": [], "waiting": []}
    for path, lines, at, indent in _draw_statements(root, count):
        uri = editor.open(path, "\n".join(lines))
        await editor.until(uri, lambda _: True)
        for number in range(_EDITS):
            await asyncio.sleep(0.05)
            editor.found.pop(uri, None)
            ran, waited = _cpu_and_wait_seconds(process)
            began = time.perf_counter()
            editor.rewrite(uri, "\n".join([*lines[:at], " " * indent + f"edited = {number}", *lines[at:]]))
            await editor.until(uri, lambda _: True)
            found["clock"].append(time.perf_counter() - began)
            after = _cpu_and_wait_seconds(process)
            found["processor"].append(after[0] - ran)
            found["waiting"].append(after[1] - waited)
        last = sorted(found["clock"][-_EDITS:])[_EDITS // 2]
        spent = sorted(found["processor"][-_EDITS:])[_EDITS // 2]
        told = f"{last * 1000:.0f} ms, {spent * 1000:.0f} of a processor"
        print(f"{path.relative_to(root)}: {len(lines)} lines, {told}", flush=True)
        editor.close(uri)
    await editor.stop()
    return found


def main() -> None:
    """Measure and print."""
    root, count = Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 40
    for name, times in asyncio.run(measure_typing(root, count)).items():
        times.sort()
        shown = [f"{times[min(len(times) - 1, int(part * len(times)))] * 1000:.0f}" for part in (0.5, 0.9, 0.95)]
        print(f"{name}: {len(times)} edits, half below {shown[0]} ms, nine of ten {shown[1]}, 19 of 20 {shown[2]}")


if __name__ == "__main__":
    main()
