"""Findings of an earlier state of a project: of a revision, or of the state before an edit."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardlint.source.notebook import program_text
from shardlint.source.store import digest_bytes

if TYPE_CHECKING:
    from shardlint.engine.cache.files import Files
    from shardlint.engine.changes.revision_files import Base

_Findings = list[Any]


class Earlier:
    """The earlier state, told by how it differs from the one that the cache is about.

    It lasts until a run compares with another revision. Then it becomes the state that the last run left, if that is
    this revision, and else a state of which no findings are known yet.
    """

    def __init__(self, data: Any, files: Files) -> None:
        self._files = files
        self.is_known, self.complete = data is not None, True
        complete, digests, findings, commit = data or (True, {}, {}, "")
        self.commit = str(commit)
        """The commit that this is the state of, if a run compared with one."""
        self.complete = bool(complete)
        """Whether the findings of a file are those of now where nothing else is kept."""
        self.digests: dict[str, str | None] = {str(name): code for name, code in digests.items()}
        """Of the files that differ, what they held; None for one that was not there."""
        self.findings: dict[str, _Findings | None] = {str(name): found for name, found in findings.items()}
        """Those that may be others now, as data; None where they are not known."""
        self._replaced: dict[str, _Findings | None] = {}
        self._settled = False

    def replace_findings(self, name: str, findings: _Findings | None) -> None:
        """Note what the last run found in a file, which may be something else now. None: that is not known."""
        self._replaced.setdefault(name, findings)

    def forget_state(self) -> None:
        """Let go of the state: settings or releases are others now."""
        self.is_known = False
        self._replaced.clear()

    def settle_state(self, changed: Iterable[str], base: Base | None = None) -> bool:
        """Tell the state by how it differs from now, and make it that of a revision. Once, after all is checked.

        Returns whether it is worth saving.
        """
        if self._settled:
            return False
        self._settled = True
        before = self.is_known, self.digests, self.commit
        changed = set(changed)
        if base is None and not self.is_known:
            self._set_digests({}, True)
            self.commit = ""
            return True
        if base is not None and (changed or not self.is_known or base.base_commit != self.commit):
            self.commit = base.base_commit
            there = self._digests_of_base(base)
            names = {*self.digests, *changed, *there}
            wanted = {name: there[name] if name in there else self._digest_now(name) for name in names}
            if not self.is_known or any(self._digest_before(name) != code for name, code in wanted.items()):
                last = self._files.digests
                is_last = self.is_known and all(last.get(name) == code for name, code in wanted.items())
                self._set_digests({} if is_last else wanted, is_last)
        if self.complete:
            self.findings = {**self._replaced, **self.findings}
        digests = {name: self._digest_before(name) for name in {*self.digests, *changed}}
        self.digests = {name: code for name, code in digests.items() if code != self._digest_now(name)}
        if not self.digests:
            self._set_digests({}, True)
        return before != (True, self.digests, self.commit)

    def _set_digests(self, digests: dict[str, str | None], complete: bool) -> None:
        self.digests, self.complete, self.findings, self.is_known = digests, complete, {}, True

    def _digest_before(self, name: str) -> str | None:
        return self.digests[name] if name in self.digests else self._files.digests.get(name)

    def _digest_now(self, name: str) -> str | None:
        files = self._files
        return files.digests[name] if files.is_unchanged(name) else files.content_digest(name)

    def _digests_of_base(self, base: Base) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        for real, data in base.texts_at_base.items():
            name = self._files.name_from_root(real)
            # Of a file that is there and is none of the project's nobody asks.
            if name is not None and (name in self._files.walked or self._files.current_stamp(name) is None):
                text = program_text(Path(real), data) if data is not None else None
                found[name] = digest_bytes(text) if text is not None else None
        return found

    def encode_state(self) -> list[Any]:
        """The state, to be saved."""
        return [self.complete, self.digests, self.findings, self.commit]
