"""The files of one project as the last run left them and as they are now."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.source.code import code_of
from shardlint.source.find import survey_folder
from shardlint.source.notebook import read_program
from shardlint.source.store import digest_bytes as digest_of
from shardlint.source.tree import Stamp, Tree, make_stamp

if TYPE_CHECKING:
    from shardlint.syntax.file_edits import Edited, Text
    from shardlint.syntax.parts import Part


class Files:
    """Files by their path from the root, one outside of it by its absolute path: whether each is still the same.

    `stamps`, `digests` and `codes` are those of the last run; `codes` are digests of the code alone, which a comment
    does not change.
    """

    def __init__(self, root: str, tree: Tree) -> None:
        self.root = root
        self.tree = tree
        self.stamps: dict[str, Stamp] = {}
        self.digests: dict[str, str] = {}
        self.codes: dict[str, str] = {}
        self.touched = False
        """Whether a file was found the same by its content only: its new stamp is worth saving."""
        self.looked = False
        """Whether the whole project was looked at."""
        self.walked: dict[str, Stamp] = {}
        """Every file of the project, then."""
        self.named: dict[str, Stamp] = {}
        self._prefix = root if root.endswith(os.sep) else root + os.sep
        self._texts: dict[str, bytes | None] = {}
        self._unchanged: dict[str, bool] = {}

    def walk_project(self) -> list[str]:
        """Look at the whole project. Returns its folders."""
        files, folders = survey_folder(Path(self.root), self.tree)
        cut = len(self._prefix)
        self.looked = True
        self.walked = {path[cut:]: stamp for path, stamp in files.items() if path.startswith(self._prefix)}
        return folders

    def path_from_root(self, path: str) -> str:
        """A folder's path from the root."""
        return path[len(self._prefix) :]

    def mark_unchanged(self, name: str) -> None:
        """A file is as it was: its stamp says so."""
        self._unchanged[name] = True

    def release_text(self, name: str) -> None:
        """Do not hold a file's text any longer."""
        self._texts.pop(name, None)

    def name_from_root(self, real: str) -> str | None:
        """A file's path from the root; None of one outside of it."""
        return real[len(self._prefix) :] if real.startswith(self._prefix) else None

    def display_name(self, real: str) -> str:
        """The name of a file, which may be outside of the project: a package may begin further up."""
        return self.name_from_root(real) or real

    def absolute_path(self, name: str) -> str:
        """Where a file is."""
        return name if os.path.isabs(name) else self._prefix + name

    def is_unchanged(self, name: str) -> bool:
        """Return whether a file is unchanged since the end of the last run."""
        known = self._unchanged.get(name)
        if known is None:
            stored, stamp = self.stamps.get(name), self.current_stamp(name)
            if stored is None or stamp is None:
                known = False
            elif stored == stamp:
                known = True
            else:
                known = self.digests[name] == self.content_digest(name)
                self.touched = self.touched or (known and stored[2] >= 0)
            self._unchanged[name] = known
        return known

    def current_stamp(self, name: str) -> Stamp | None:
        """The stamp of a file as this run first saw it."""
        if name in self.walked:
            return self.walked[name]
        if name not in self.named:
            folder, _, last = self.absolute_path(name).rpartition(os.sep)
            listed = self.tree.known.get(folder)
            stamp = listed.inside.get(last) if listed is not None else None
            stamp = stamp or stamp_at(self.absolute_path(name))
            if stamp is None:
                return None
            self.named[name] = stamp
        return self.named[name]

    def file_contents(self, name: str) -> bytes | None:
        """Return the contents of a file, of a notebook its program; None if it cannot be read."""
        if name not in self._texts:
            self._texts[name] = None
            if self.current_stamp(name) is not None:
                self._texts[name] = read_program(Path(self.absolute_path(name)))
        return self._texts[name]

    def code_digests(self, name: str, parts: Iterable[Part] | None = None) -> str:
        """The digests of the code of a file's parts. `parts` are those of the file, where somebody parsed it."""
        if name in self.codes and self.is_unchanged(name):
            return self.codes[name]
        return self._code_digests(name, self._text_now(name, parts))

    def _code_digests(self, name: str, now: Text | None) -> str:
        """The digests of a text's parts; of a file that cannot be parsed, that of the whole."""
        if now is not None:
            from shardlint.syntax.file_edits import code_digests

            return " ".join(f"{part}={said}" for part, said in code_digests(now).items())
        data = self.file_contents(name)
        return digest_of(code_of(data)) if data is not None else ""

    def _text_now(self, name: str, parts: Iterable[Part] | None = None) -> Text | None:
        """Return the text of a file's parts; None if it cannot be parsed."""
        from shardlint.source.text import Source
        from shardlint.syntax.file_edits import Text
        from shardlint.syntax.parts import texts_of_parts

        data = self.file_contents(name)
        if data is None:
            return None
        try:
            source = Source(Path(name), data.decode("utf-8-sig"))
        except UnicodeDecodeError:
            return None
        return (
            Text.parse_text(source, Path(name))
            if parts is None
            else Text(source.text, texts_of_parts(source.text, parts))
        )

    def code_changes(self, name: str) -> Edited:
        """Return the changes of the code of a file since the last run."""
        from shardlint.syntax.file_edits import Edited

        known = self.codes.get(name, "")
        if name not in self.walked and self.current_stamp(name) is None:
            return Edited(None, None)
        if known and self.is_unchanged(name):
            return Edited(None, frozenset())
        now = self._text_now(name)
        code = self._code_digests(name, now)
        if known and known == code:
            return Edited(None, frozenset())
        if "=" not in known or "=" not in code:
            return Edited(None, None)
        return Edited.compare_digests(_split_by_part(known), now, _split_by_part(code))

    def content_digest(self, name: str) -> str | None:
        """The digest of what a file holds."""
        text = self._texts.get(name)
        if text is None:
            text = self.file_contents(name)
            self._texts.pop(name, None)  # of a first run these are all files there are
        return digest_of(text) if text is not None else None


def _split_by_part(code: str) -> dict[str, str]:
    return {part: said for part, _, said in (one.rpartition("=") for one in code.split(" "))}


def stamp_at(path: str) -> Stamp | None:
    """The stamp of a file; None of a pipe or device, which may have no end, or be read only once."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return make_stamp(status) if stat.S_ISREG(status.st_mode) else None
