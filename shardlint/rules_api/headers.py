"""The first lines of a program of a proof: for which releases, with which options and settings it is checked."""

from __future__ import annotations

from shardlint.source.lazy import dataclass
from shardlint.source.patterns import compile_lazily

HEADER = compile_lazily(r"#[ \t]*(targets|options|settings):[ \t]*(.*?)[ \t]*(?:\n|\Z)")


@dataclass(frozen=True)
class Header:
    """Directives in the first lines of a program. `settings` are lines of a shardlint.toml; `text` is the program
    without them.
    """

    targets: tuple[str, ...]
    options: tuple[str, ...]
    settings: tuple[str, ...]
    text: str

    @property
    def settings_as_toml(self) -> str:
        """The settings as a file; empty where there are none."""
        return "".join(f"{line}\n" for line in self.settings)


def parse_header(text: str) -> Header:
    """The header of a program."""
    said: dict[str, list[str]] = {"targets": [], "options": [], "settings": []}
    at = 0
    while (found := HEADER.match(text, at)) is not None:
        whole = found[1] == "settings"
        said[found[1]] += [found[2]] if whole else [one.strip() for one in found[2].split(",") if one.strip()]
        at = found.end()
    return Header(tuple(said["targets"]), tuple(said["options"]), tuple(said["settings"]), text[at:])
