"""Detection of files that are not Python by their name. Files with other names may be scripts, so their contents
decide.
"""

from __future__ import annotations

from pathlib import PurePath

from shardlint.source.regular_files import read_beginning

_KINDS = {
    "it is text, not Python": ".md .markdown .rst .txt .adoc .tex .log .diff .patch",
    "it is data, not Python": ".json .jsonl .toml .yaml .yml .ini .cfg .csv .tsv .xml .lock .npy .npz .pkl .h5 .pb",
    "it is a page, not Python": ".html .htm .css",
    "it is a picture or a document, not Python": ".png .jpg .jpeg .gif .svg .ico .webp .pdf",
    "it is compiled": ".pyc .pyo .so .o .a .dll .dylib .exe .pyd",
    "it is an archive": ".zip .gz .xz .bz2 .tar .tgz .whl .egg .7z",
    "it is another language": ".c .cc .cpp .cu .cuh .h .hpp .rs .go .java .js .ts .sh .bash .rb .jl .pyx .pxd",
}
_HEADER_BYTES = 4096
_BY_SUFFIX = {suffix: kind for kind, suffixes in _KINDS.items() for suffix in suffixes.split()}


def other_kind(name: str) -> str | None:
    """Return the kind of a file that is not Python by its name, as a reason not to check it; None for any other."""
    return _BY_SUFFIX.get(PurePath(name).suffix.lower())


def is_markdown_notebook(path: str) -> bool:
    """Return whether a Markdown file says in its header that jupytext keeps it in step with a notebook."""
    try:
        return says_jupytext(read_beginning(path, _HEADER_BYTES).decode("utf-8", "replace"))
    except OSError:
        return False


def says_jupytext(text: str) -> bool:
    """Return whether the header of a Markdown text, between two lines of dashes, names jupytext."""
    first, _, rest = text.replace("\r\n", "\n").partition("\n")
    return first.rstrip() == "---" and "jupytext:" in rest.partition("\n---")[0]
