"""How a file indents its blocks, and generated code indented so."""

from __future__ import annotations

import re

from shardlint.syntax import FileFacts

UNIT = "    "
"""What generated code indents its blocks by."""


def indent_unit(file: FileFacts, lead: str = "") -> str:
    """Return the indentation of a block after `lead`: a tab after tabs, else that of the module's first block."""
    if "\t" in lead:
        return "\t"
    for outer in file.tree.body:
        for inner in getattr(outer, "body", ())[:1]:
            unit = file.source.line_text(inner.lineno)[: inner.col_offset]
            if unit and not unit.strip():
                return unit
    return UNIT


def indented_as(file: FileFacts, text: str, lead: str = "") -> str:
    """Generated lines behind `lead`, with the file's own indentation of the blocks in them."""
    unit = indent_unit(file, lead)
    blocks = re.compile(rf"^{lead}((?:{UNIT})+)", re.MULTILINE)
    return blocks.sub(lambda found: lead + unit * (len(found[1]) // len(UNIT)), text)
