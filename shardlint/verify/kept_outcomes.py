"""Cache of verification outcomes with their dependencies: an unchanged program need not run again.

What it rests on was noted by its process (`inside.reads`). Here it is written down as it is now, and compared when
the same is asked again. Nothing here imports jax.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from shardlint import __version__
from shardlint.source.regular_files import read_regular
from shardlint.verify.cache import KEY_VARIABLE, Cache
from shardlint.verify.golden import golden_path
from shardlint.verify.outcome import Job, Outcome

SCHEMA = 1
_TASKS = ("collect", "fixture", "topology")
# Of a job, what says nothing of what it does; `alone` is what another job told, on which this one rests too.
_NOT_OF_IT = ("id", "alone", "folder", "distrust", "cache", "keep")
_MOST_FILES = 20_000
_DIGESTED = 16 * 2**20
# Variables of a terminal or session, which no program of a fixture computes with.
_NOT_READ = re.compile(
    r"_|PWD|OLDPWD|SHLVL|TERM\w*|COLUMNS|LINES|COLORTERM|LS_COLORS|WINDOWID|DISPLAY|WAYLAND_DISPLAY|XAUTHORITY"
    r"|DBUS_\w+|SSH_\w+|XDG_SESSION_\w+|XDG_CACHE_HOME|TMUX\w*|STY|VSCODE_\w+|VTE_VERSION|PS1|PROMPT\w*|HIST\w+|PYTEST_\w+|SHARDLINT_\w+"
)
# Python's own date cannot be watched. So what is written so in a file of the program counts as read.
_DATES = re.compile(rb"\b(?:utc)?(?:now|today)\(")
_INSTALLED = (".dist-info", ".egg-info", ".egg-link", ".pth")


class Keeper:
    """Outcomes of jobs run by one interpreter, in the folder of a cache.

    With `fresh` nothing is recalled, but what programs tell is kept.
    """

    def __init__(self, folder: Path, python: str, fresh: bool = False, secret: str | None = None) -> None:
        self._cache = Cache(folder, secret=secret)
        self._python, self._fresh = os.path.abspath(python), fresh
        self._began = time.time()
        self._now = _Now()
        self._environment = _environment_digest()
        self._recalled: dict[str, tuple[Outcome, dict[str, Any]] | None] = {}
        self.changed: dict[str, None] = {}
        """What has changed under outcomes that were kept, in the words of a report."""
        self.not_kept: dict[str, None] = {}
        """Why outcomes cannot be kept."""

    def recall_outcome(self, job: Job) -> Outcome | None:
        """Return the cached outcome of a job, if all of its dependencies are unchanged."""
        found = self._recall_outcome(job)
        if found is None:
            return None
        outcome, _ = found
        return Outcome(job, outcome.messages, output=outcome.output, seconds=outcome.seconds, kept=outcome.kept)

    def recalled_releases(self, job: Job) -> dict[str, str]:
        """The releases that a job which is recalled ran on."""
        found = self._recall_outcome(job)
        return {} if found is None else dict(found[1].get("releases", {}))

    def _recall_outcome(self, job: Job) -> tuple[Outcome, dict[str, Any]] | None:
        if self._fresh or job.get("task") not in _TASKS:
            return None
        key = self._job_key(job)
        if key not in self._recalled:
            entry = self._cache.get_entry(key)
            why = None if entry is None else self._changed_dependency(entry["needs"])
            if why:
                self.changed[why] = None
            self._recalled[key] = None if entry is None or why else (_outcome_of_entry(entry), entry)
        return self._recalled[key]

    def keep_outcome(self, job: Job, outcome: Outcome, reads: Iterable[Any], releases: Mapping[str, str]) -> None:
        """Keep what a job came to, if its processes noted what it rests on and none of that can change unseen."""
        if job.get("task") not in _TASKS or outcome.stopped or outcome.distrust or outcome.values_of_key("error"):
            return
        all_reads = list(reads)
        if not all_reads or not all(_is_reads(one) for one in all_reads) or not _current_folder():
            return  # nothing noted, or the program removed the working directory
        needs = self._dependencies_of_job(job, all_reads)
        if isinstance(needs, str):
            self.not_kept[needs] = None
            return
        entry = {
            "when": time.strftime("%Y-%m-%d %H:%M"),
            "messages": [message for message in outcome.messages if "reads" not in message],
            "output": outcome.output,
            "seconds": outcome.seconds,
            "releases": dict(releases),
            "needs": needs,
        }
        self._cache.put_entry(self._job_key(job), entry)

    def _job_key(self, job: Job) -> str:
        of = {name: value for name, value in job.items() if name not in _NOT_OF_IT}
        if job["file"]:
            of["file"] = os.path.abspath(job["file"])
        text = json.dumps(["kept", SCHEMA, __version__, self._python, _current_folder(), of], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _dependencies_of_job(self, job: Job, all_reads: list[Mapping[str, Any]]) -> dict[str, Any] | str:
        """Return the dependencies of an outcome as they are now, or a sentence if it cannot be cached."""
        for reads in all_reads:
            for why in reads["not_kept"]:
                return _shown_path(str(why))
        joined = {
            name: sorted({str(one) for reads in all_reads for one in reads[name]})
            for name in ("files", "folders", "names", "path", "packages", "libraries")
        }
        files = [os.path.abspath(job["file"]), *joined["files"]]
        if "name" in job:
            files.append(os.path.abspath(golden_path(f"{job['file']}::{job['name']}")))
        libraries = tuple(joined["libraries"])
        own = [file for file in dict.fromkeys(files) if not file.startswith(libraries)]
        if len(files) > _MOST_FILES:
            return f"the program reads {len(files)} files"
        for file in own:
            if (why := self._explain_moving_file(file)) is not None:
                return why
        installed = [file for file in files if file.startswith(libraries)]
        installed += [os.path.realpath(self._python), os.path.join(os.path.dirname(self._python), "../pyvenv.cfg")]
        common = {
            "files": {file: self._now.stamp_of_file(file) for file in installed},
            "names": joined["names"],
            "path": {
                folder: self._now.module_files(folder, joined["names"])
                for folder in {*joined["path"], *(one for one in joined["packages"] if not one.startswith(libraries))}
            },
        }
        name = hashlib.sha256(json.dumps(common, sort_keys=True).encode()).hexdigest()
        self._cache.put_entry(name, common)
        return {
            "environment": self._environment,
            "common": name,
            "files": {file: self._now.digest_content(file) for file in own},
            "folders": {folder: self._now.list_names(folder) for folder in joined["folders"]},
        }

    def _explain_moving_file(self, file: str) -> str | None:
        """Why nothing can be said of what a file of the program's was while it ran."""
        try:
            status = os.stat(file)
        except OSError:
            return None
        if max(status.st_mtime, status.st_ctime) > self._began:
            return f"{_shown_path(file)} changed while its program ran"
        if file.endswith(".py") and status.st_size < _DIGESTED and not _is_shardlints(file):
            try:
                if _DATES.search(read_regular(file, _DIGESTED)):
                    return f"{_shown_path(file)} depends on the date"
            except OSError:
                return None
        return None

    def _changed_dependency(self, needs: Mapping[str, Any]) -> str:
        """Return the changed dependency, in words; "" if there is none."""
        if needs["environment"] != self._environment:
            return "an environment variable, the machine or its number of processors"
        for file, content in needs["files"].items():
            if self._now.digest_content(file) != content:
                return _shown_path(file)
        for folder, listing in needs["folders"].items():
            if self._now.list_names(folder) != listing:
                return f"the content of {_shown_path(folder)}"
        return self._now.describe_common_change(needs["common"], self._cache)


class _Now:
    """Files and folders as they are now, each looked at once."""

    def __init__(self) -> None:
        self._content: dict[str, Any] = {}
        self._common: dict[str, str] = {}
        self._listed: dict[str, list[str]] = {}

    def digest_content(self, file: str) -> Any:
        """Return a digest of a file, for a large one its size and time; None if there is none."""
        if file not in self._content:
            self._content[file] = self._read_digest(file)
        return self._content[file]

    def _read_digest(self, file: str) -> Any:
        stamp = self.stamp_of_file(file)
        if stamp is None or stamp[0] > _DIGESTED or not os.path.isfile(file):
            return stamp
        try:
            return hashlib.sha256(read_regular(file, _DIGESTED)).hexdigest()
        except OSError:
            return None

    def stamp_of_file(self, file: str) -> Any:
        """Size and time of a file; None where there is none."""
        try:
            status = os.stat(file)
        except (OSError, ValueError):
            return None
        return [status.st_size, status.st_mtime_ns]

    def list_names(self, folder: str) -> str:
        """The names in a folder."""
        return _digest_value(self._folder_names(folder))

    def module_files(self, folder: str, names: Iterable[str]) -> str:
        """The names in a folder under which one of these modules could be found, and what is installed there."""
        asked = names if isinstance(names, set) else set(names)
        found: list[Any] = []
        for name in self._folder_names(folder):
            if name.partition(".")[0] in asked:
                found.append(name)
            elif name.endswith(_INSTALLED):
                found.append([name, self.stamp_of_file(os.path.join(folder, name)) if name.endswith(".pth") else None])
        return _digest_value(found)

    def _folder_names(self, folder: str) -> list[str]:
        if folder not in self._listed:
            try:
                self._listed[folder] = sorted(name for name in os.listdir(folder) if name != "__pycache__")
            except OSError:
                self._listed[folder] = []
        return self._listed[folder]

    def describe_common_change(self, name: str, cache: Cache) -> str:
        """Return the change in the installed packages or in the module search path; "" if there is none."""
        if name not in self._common:
            self._common[name] = self._changed_common_file(cache.get_entry(name))
        return self._common[name]

    def _changed_common_file(self, common: Mapping[str, Any] | None) -> str:
        if common is None:
            return "the cache, which is incomplete"
        for file, stamp in common["files"].items():
            if self.stamp_of_file(file) != stamp:
                return f"{file}, or its package,"
        names = set(common["names"])
        for folder, found in common["path"].items():
            if self.module_files(folder, names) != found:
                return f"the packages installed in, or imported from, {_shown_path(folder)}"
        return ""


def _outcome_of_entry(entry: Mapping[str, Any]) -> Outcome:
    outcome = Outcome({}, list(entry["messages"]))
    outcome.output, outcome.seconds, outcome.kept = list(entry["output"]), entry["seconds"], entry["when"]
    return outcome


def _environment_digest() -> str:
    variables = {
        name: value
        for name, value in os.environ.items()
        if not _NOT_READ.fullmatch(name) and name != KEY_VARIABLE
    }
    machine = [getattr(os, "uname", lambda: ("",) * 5)()[index] for index in (0, 1, 2, 4)]
    return _digest_value([sorted(variables.items()), machine, os.cpu_count()])


def _digest_value(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def _shown_path(file: str) -> str:
    here = os.path.join(_current_folder(), "")
    return file[len(here) :] if file.startswith(here) else file


def _is_shardlints(file: str) -> bool:
    return file.startswith(os.path.join(str(Path(__file__).resolve().parent.parent), ""))


def _is_reads(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    lists = ("files", "folders", "names", "path", "packages", "libraries", "not_kept")
    return all(isinstance(value.get(name), list) for name in lists)
