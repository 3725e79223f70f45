"""Small projects on disk, and the command line as a user runs it."""

from __future__ import annotations

import ast
import gc
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import IO, Any

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

from shardlint.config.own_names import NO_OWN_NAMES, OwnNames
from shardlint.model import Program
from shardlint.model.values import Value
from shardlint.rules_api import registry
from shardlint.source import packs
from shardlint.syntax import FileFacts
from shardlint.verify.containment import heed_signals
from tests.programs import Warmed

PACK = Path(__file__).parent / "pack"
collect_ignore = ["mistakes"]  # projects of their own, some with tests
# LLVM's optimizations are half of what compiling a program costs, and change nothing of how it is sharded.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.pop("VIRTUAL_ENV", None)  # its releases would count for projects of tests
heed_signals()  # also where `make test` runs in the background of a script: children inherit that they are ignored
# Checks make many objects that stay. At Python's own pace the collector takes a third of the time of those that run here.
gc.set_threshold(50_000, 10, 10)


LONGER = ("longer", "packaging", "precommit")
_WHOLE = re.compile(rf"^pytestmark = .*pytest\.mark\.({'|'.join(LONGER)})\b", re.MULTILINE)
_SOME = re.compile(rf"pytest\.mark\.({'|'.join(LONGER)})\b")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass by the files that scripts/test.sh chooses nothing of: each worker would import and collect them first."""
    if not collection_path.match("test_*.py"):
        return None
    chosen, longer = config.getoption("markexpr"), " or ".join(LONGER)
    if chosen == longer:
        return None if _SOME.search(collection_path.read_text("utf-8")) else True
    return True if chosen == f"not ({longer})" and _WHOLE.search(collection_path.read_text("utf-8")) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give the tests of `make test-all` more time than pyproject.toml gives the others."""
    for item in items:
        if any(item.get_closest_marker(name) for name in LONGER):
            item.add_marker(pytest.mark.timeout(1200))
    if getattr(config.option, "loadgroup", False):
        _name_groups(items)


def _name_groups(items: list[pytest.Item]) -> None:
    """End the ids of tests by their groups, as pytest-xdist does where an id is a string (before pytest 9.2)."""
    for item in items:
        group = item.get_closest_marker("xdist_group")
        if group is not None and hasattr(item, "_id"):
            item._id = type(item._id).parse(f"{item.nodeid}@{group.args[0]}")


def pytest_collection_finish() -> None:
    """Let the collector pass by what was imported and collected: all of it stays, and is hundreds of megabytes."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)  # where pytest-xdist is not loaded
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadGroupScheduling | None:
    """Give out whole functions: with thousands of tests one by one, giving out costs as much as a tenth of them."""
    return ByFunction(config, log) if config.getvalue("dist") == "loadgroup" else None


class ByFunction(LoadGroupScheduling):
    """Tests with a group go by it, the others by their function, with all its parameters."""

    def _split_scope(self, nodeid: str) -> str:
        scope = super()._split_scope(nodeid)
        return scope.partition("[")[0] if scope == nodeid else scope


@pytest.fixture(scope="session")
def warmed() -> Iterator[Warmed]:
    """Yield a runner of programs that imports jax once for all of them."""
    started = Warmed()
    yield started
    started.close()


@pytest.fixture(autouse=True, scope="session")
def _own_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give the command line a cache of its own for the session."""
    before = os.environ.get("SHARDLINT_CACHE_DIR")
    os.environ["SHARDLINT_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["SHARDLINT_CACHE_DIR"]
    else:
        os.environ["SHARDLINT_CACHE_DIR"] = before


@pytest.fixture
def pack(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The rules of tests/pack, found as any pack is, and no others: the engine is tested apart from its own rules."""
    monkeypatch.syspath_prepend(PACK)
    found = packs.entry_points
    monkeypatch.setattr(
        packs, "entry_points", lambda group: [p for p in found(group=group) if p.name == "testpack"]
    )
    registry.forget_packs()
    yield
    registry.forget_packs()


def calls_of(work: Callable[[], object]) -> int:
    """How many Python functions a piece of work calls: a measure of it that a busy machine does not change."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write files of a project, `write({"a.py": "..."})`; the project's folder is returned."""
    root = tmp_path / "project"

    def make(files: dict[str, str | bytes]) -> Path:
        root.mkdir(exist_ok=True)
        (root / "setup.cfg").touch()
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())
        return root

    return make


class Asked:
    """A project, and questions about places in it, by the text that stands there."""

    def __init__(self, root: Path, own: OwnNames = NO_OWN_NAMES) -> None:
        self.root = root
        self.program = Program(root, None, own)

    def file(self, name: str) -> FileFacts:
        facts = self.program.project.facts(self.root / name)
        assert facts is not None, f"{name} was not read"
        return facts

    def node(self, text: str, name: str = "a.py", nth: int = 0) -> tuple[FileFacts, ast.expr]:
        """The nth expression that is written so."""
        file = self.file(name)
        for scope in list(file.inner_scopes(file.module)):
            file.walk_scope(scope)
        found = [
            node for node in ast.walk(file.tree) if isinstance(node, ast.expr) and file.source_text(node) == text
        ]
        found.sort(key=lambda node: (node.lineno, node.col_offset))
        return file, found[nth]

    def value(self, text: str, name: str = "a.py", nth: int = 0) -> Value:
        return self.program.value(*self.node(text, name, nth))

    def traced(self, text: str = "here()", name: str = "a.py", nth: int = 0) -> str:
        return self.program.region(*self.node(text, name, nth)).traced

    def why(self, text: str = "here()", name: str = "a.py", nth: int = 0) -> str:
        file, node = self.node(text, name, nth)
        return self.program.region(file, node).describe(file)


@pytest.fixture
def ask(write: Write) -> Callable[..., Asked]:
    """A project from the text of a.py and of other files."""

    def make(text: str = "", files: dict[str, str] | None = None, own: OwnNames = NO_OWN_NAMES) -> Asked:
        return Asked(write({"a.py": text, **(files or {})}), own)

    return make


class Ran(SimpleNamespace):
    """Result of a run of the command line."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(
    pack: None, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Callable[..., Ran]:
    """The command line in this process, in a folder."""
    from shardlint.cli.main import main

    def call(*args: object, cwd: Path | None = None) -> Ran:
        if cwd is not None:
            monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["shardlint", *map(str, args)])
        capsysbinary.readouterr()
        code, limit = 0, sys.getrecursionlimit()
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        finally:  # what a whole process may keep changed
            gc.enable()
            sys.setrecursionlimit(limit)
        out, err = capsysbinary.readouterr()
        return Ran(code=code, out=out.decode(), err=err.decode())

    return call


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """The command line in a process of its own."""

    def call(
        *args: object,
        cwd: Path | None = None,
        input: bytes = b"",
        stdout: int | IO[bytes] = subprocess.PIPE,
        **env: str,
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "shardlint", *map(str, args)],
            cwd=cwd or tmp_path,
            input=input,
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=300,
            env={**os.environ, "PYTHONPATH": str(PACK), **env},
        )

    return call


_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# No sandbox, for in containers there is none to be had; and no calls home.
_OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
_OPTIONS += ["--disable-component-update", "--disable-sync", "--no-first-run", "--disable-quic"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The browser that SHARDLINT_TEST_BROWSER names, Playwright's own, or an installed Chromium."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        found = os.environ.get("SHARDLINT_TEST_BROWSER")
        try:
            launched = started.chromium.launch(executable_path=found, args=_OPTIONS)
        except playwright.Error as error:
            if found:
                raise
            found = next(filter(None, map(shutil.which, _NAMES)), None)
            if found is None:
                pytest.skip(
                    f"no browser: playwright install chromium, or apt-get install chromium ({error.name})"
                )
            launched = started.chromium.launch(executable_path=found, args=_OPTIONS)
        yield launched
        launched.close()
