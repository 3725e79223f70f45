"""Public repositories at a commit: laid out from bare mirrors, with nothing fetched and nothing of them run."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = (".py", ".pyi", ".ipynb", ".toml", ".cfg", ".txt", ".in", ".yaml", ".yml")
"""What shardlint reads: programs, and what says which releases they run on and how they are configured."""
_LINK = b"120000"


class NotAvailable(Exception):
    """A commit that a mirror does not hold; the message says what is missing."""


@dataclass(frozen=True)
class Mirror:
    """A bare repository, MIRRORS/OWNER+NAME/repo."""

    repository: str
    git: Path

    def head_commit(self) -> str:
        """The commit that is checked out by default. Raises `NotAvailable`."""
        return self._run_git("rev-parse", "--verify", "HEAD").decode().strip()

    def lay_out(self, commit: str, folder: Path) -> int:
        """Write a commit's files that end in `SUFFIXES` below a folder; returns how many the mirror lacks.

        Raises `NotAvailable` when the commit or its tree is not there.
        """
        wanted = list(_list_wanted_files(self._run_git("ls-tree", "-r", "-z", commit)))
        return len(wanted) - sum(_write_file(folder / path, data) for path, data in self._read_blobs(wanted))

    def _read_blobs(self, wanted: list[tuple[bytes, str]]) -> Iterator[tuple[str, bytes]]:
        command = ["git", f"--git-dir={self.git}", "cat-file", "--batch"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_git_environment()
        ) as reader:
            asked, answers = reader.stdin, reader.stdout
            assert asked is not None and answers is not None

            def request_blobs() -> None:
                with asked:
                    asked.writelines(name + b"\n" for name, _ in wanted)

            threading.Thread(target=request_blobs, daemon=True).start()
            for _, path in wanted:
                header = answers.readline().split()
                if len(header) == 3:
                    yield path, answers.read(int(header[2]))
                    answers.read(1)

    def _run_git(self, *arguments: str) -> bytes:
        done = subprocess.run(
            ["git", f"--git-dir={self.git}", *arguments], capture_output=True, env=_git_environment()
        )
        if done.returncode:
            raise NotAvailable(done.stderr.decode(errors="replace").strip().splitlines()[-1])
        return done.stdout


def open_mirror(mirrors: Path, repository: str) -> Mirror:
    """The mirror of OWNER/NAME. Raises `NotAvailable`."""
    found = mirrors.resolve() / repository.replace("/", "+") / "repo"
    if not found.is_dir():
        raise NotAvailable("no mirror of the repository")
    return Mirror(repository, found)


def all_mirrors(mirrors: Path) -> list[Mirror]:
    """Every mirror in a folder, by name."""
    found = sorted(mirrors.resolve().glob("*+*/repo"))
    return [Mirror(git.parent.name.replace("+", "/", 1), git) for git in found]


def _list_wanted_files(tree: bytes) -> Iterator[tuple[bytes, str]]:
    for row in filter(None, tree.split(b"\0")):
        about, _, path = row.partition(b"\t")
        mode, kind, name = about.split()
        text = os.fsdecode(path)
        if kind == b"blob" and mode != _LINK and text.endswith(SUFFIXES):
            yield name, text


def _write_file(path: Path, data: bytes) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return True


def _git_environment() -> dict[str, str]:
    """Objects that a partial mirror lacks are missing: git must not go and get them."""
    return {**os.environ, "GIT_NO_LAZY_FETCH": "1"}
