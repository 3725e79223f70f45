"""Queries to git that run no program configured by the repository.

The configuration of a repository names programs: hooks, filters, monitors of the file system, transports. Only commands
that read objects, references and the index are run, and files are compared here: `git diff` and `git status` run the
filters of what they compare.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from shardlint.config.settings import BadSettings
from shardlint.source.patterns import compile_lazily
from shardlint.source.regular_files import TooLarge, read_regular
from shardlint.source.text import size_limit

_OPTIONS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.untrackedCache": "false",
    "core.preloadIndex": "false",
    "core.sshCommand": "false",
    "core.gitProxy": "",
    "core.askPass": "",
    "credential.helper": "",
    "diff.external": "",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
    "protocol.allow": "never",
}
_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # stronger than what the configuration allows; older ones know no GIT_NO_LAZY_FETCH
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_PAGER": "",
    "LC_ALL": "C",
}
# What would have git run programs by itself.
_UNSET = ("GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_PROXY_COMMAND")
# A configuration that is a pipe lets git wait for ever.
_SECONDS = 60
_READ_BY_GIT = ("config", "config.worktree", "HEAD", "index", "packed-refs", "commondir")
_DATED = compile_lazily(
    r"(\d+) ([0-9a-f]+) \d\t([^\0]*)\0  ctime: (\d+):(\d+)\n  mtime: (\d+):(\d+)\n"
    r"  dev: \d+\tino: (\d+)\n  uid: \d+\tgid: \d+\n  size: (\d+)\tflags: [0-9a-f]+\n"
)
_LINK = "120000"
_MODULE = "160000"


class Blob(NamedTuple):
    """A file of a commit or of the index: its mode, and the name of what it holds."""

    mode: str
    digest: str


class Tracked(NamedTuple):
    """A file of the index as it was added, with its dates (in seconds and nanoseconds), its inode and size."""

    blob: Blob
    dates: tuple[int, ...]

    def is_as_added(self, path: Path) -> bool:
        """Return whether a file was not written since it was added. Without nanoseconds in its dates that cannot be
        determined.
        """
        try:
            status = path.lstat()
        except OSError:
            return False
        changed, written = (divmod(time, 1_000_000_000) for time in (status.st_ctime_ns, status.st_mtime_ns))
        now = (*changed, *written, status.st_ino & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF)
        return self.dates == now and written[1] != 0


def ask_git(folder: Path, *arguments: str, fails: bool = False) -> str:
    """Return the output of git; empty if it fails and may fail. Raises `BadSettings`."""
    done = run_git(folder, arguments)
    if done.returncode and not fails:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise BadSettings(f"{folder}: git cannot list the changes: {said[-1] if said else 'it failed'}")
    return "" if done.returncode else os.fsdecode(done.stdout)


def run_git(folder: Path, arguments: Sequence[str], input: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command of git that reads objects, references or the index. Raises `BadSettings` where there is no git."""
    # A hook has variables of git's around it that mean the commit being made, which is what is wanted.
    options = [word for name, value in _OPTIONS.items() for word in ("-c", f"{name}={value}")]
    environment = {name: value for name, value in os.environ.items() if name not in _UNSET}
    try:
        return subprocess.run(
            ["git", "--no-pager", "-C", str(folder), *options, *arguments],
            input=input,
            capture_output=True,
            env={**environment, **_ENVIRONMENT},
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise BadSettings(f"{folder}: git {arguments[0]} did not finish in {_SECONDS} seconds") from None
    except OSError as error:
        raise BadSettings(f"git cannot be run: {error.strerror or error}") from None


def working_tree_top(folder: Path) -> Path:
    """The top of the working tree that a folder is in. Raises `BadSettings` where it is in none."""
    for above in (Path(os.path.abspath(folder)), *Path(os.path.abspath(folder)).parents):
        strange = [above / ".git" / name for name in _READ_BY_GIT if _is_strange(above / ".git" / name)]
        if strange:
            raise BadSettings(f"{strange[0]}: it is a pipe or a device, not a file")
    top = Path(os.path.realpath(ask_git(folder, "rev-parse", "--show-toplevel").rstrip("\n")))
    if not Path(os.path.realpath(folder)).is_relative_to(top):  # core.worktree may name any folder
        raise BadSettings(f"{folder}: git reports {top} as the folder of its files, which is elsewhere")
    return top


def _is_strange(path: Path) -> bool:
    return os.path.exists(path) and not os.path.isfile(path)


def commit_of(top: Path, revision: str) -> str:
    """The commit that a revision stands for; empty where there is none."""
    asked = f"{revision}^{{commit}}"
    return ask_git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", asked, fails=True).strip()


def files_of(top: Path, commit: str, below: str) -> dict[str, Blob]:
    """The files of a commit in a folder, by their paths from the top."""
    listed = ask_git(
        top,
        "--literal-pathspecs",
        "ls-tree",
        "-r",
        "-z",
        "--full-tree",
        commit,
        "--",
        *_path_arguments(below),
    )
    return {name: Blob(about.split()[0], about.split()[2]) for about, name in _parse_rows(listed)}


def tracked_files(top: Path, below: str) -> dict[str, Tracked]:
    """The files of the index in a folder, by their paths from the top."""
    command = ("--literal-pathspecs", "ls-files", "--cached", "--stage")
    listed = ask_git(top, *command, "--debug", "-z", "--", *_path_arguments(below))
    found = {
        row[3]: Tracked(Blob(row[1], row[2]), tuple(map(int, row.group(4, 5, 6, 7, 8, 9))))
        for row in _DATED.finditer(listed)
    }
    if len(found) == listed.count("\0"):
        return found
    listed = ask_git(
        top, *command, "-z", "--", *_path_arguments(below)
    )  # another git, which tells dates otherwise
    return {name: Tracked(Blob(*about.split()[:2]), ()) for about, name in _parse_rows(listed)}


def _path_arguments(below: str) -> list[str]:
    return [] if below == "." else [below]


def _parse_rows(listed: str) -> Iterator[tuple[str, str]]:
    for row in filter(None, listed.split("\0")):
        about, _, name = row.partition("\t")
        yield about, name


def is_same(top: Path, path: Path, blob: Blob) -> bool:
    """Return whether a file of the working tree equals the committed one, whatever its line ends."""
    try:
        if blob.mode == _MODULE:
            return path.is_dir()
        if blob.mode == _LINK or path.is_symlink():
            return blob.mode == _LINK and path.is_symlink() and _is_of(blob, os.fsencode(path.readlink()))
        data = read_regular(path, size_limit(path))
    except TooLarge:  # nothing in it is checked
        return ask_git(top, "cat-file", "-s", blob.digest, fails=True).strip() == str(path.stat().st_size)
    except OSError:
        return False
    return _is_of(blob, data) or (b"\r\n" in data and _is_of(blob, data.replace(b"\r\n", b"\n")))


def _is_of(blob: Blob, data: bytes) -> bool:
    kind = hashlib.sha256 if len(blob.digest) == 64 else hashlib.sha1
    return kind(b"blob %d\0" % len(data) + data).hexdigest() == blob.digest


def contents_of(top: Path, blobs: Mapping[str, Blob], limit: int) -> Iterator[tuple[str, bytes]]:
    """Yield the contents of files of a commit, with their paths. Files larger than the limit are left out.

    Raises `BadSettings` where git would have to fetch some: a transport is a program that the repository names.
    """
    sizes = run_git(top, ("cat-file", "--batch-check"), _blob_request(blobs.values())).stdout.splitlines()
    if len(sizes) < len(blobs) or any(said.endswith(b" missing") for said in sizes):
        raise BadSettings(f"{top}: git does not have all files of the revision (a partial clone?); fetch them "
                          "first")
    small = {
        name: blob
        for (name, blob), said in zip(blobs.items(), sizes, strict=False)
        if said.split()[1:2] == [b"blob"] and int(said.split()[2]) <= limit
    }
    said = run_git(top, ("cat-file", "--batch"), _blob_request(small.values())).stdout
    at = 0
    for name in small:
        end = said.index(b"\n", at)
        size = int(said[at:end].rpartition(b" ")[2])
        yield name, said[end + 1 : end + 1 + size]
        at = end + size + 2


def _blob_request(blobs: Iterable[Blob]) -> bytes:
    return "".join(f"{blob.digest}\n" for blob in blobs).encode()
