"""Conversion of notebook syntax that is not Python (`%matplotlib inline`, `!pip install x`) to Python on the same
lines.

A line becomes `pass  #~` and itself, so that it comes back as it was wherever a fix has moved it.
"""

from __future__ import annotations

import ast

from shardlint.source.patterns import compile_lazily

_MAYBE = compile_lazily(
    r"(?:\A|(?<=[\r\n]))(?:[ \t]*[%!?]|(?:pip3?|conda|ls|cd|cat|mkdir|cp|mv|rm|timeit)[ \t])"
    r"|\?[ \t]*(?:\Z|[\r\n])|=[ \t]*[%!]"
)
_LINE = compile_lazily(
    r"[ \t]*(?:%{1,2}[A-Za-z]|!|\?{1,2}[\w%])|[ \t]*[\w.%*]+\?{1,2}[ \t]*$"
    r"|(?:pip3?|conda|ls|cd|cat|mkdir|cp|mv|rm|timeit)[ \t]+[\w./~-]"
)
_ASSIGNED = compile_lazily(r"([ \t]*[\w.\[\]'\", \t]+=)[ \t]*((?:!(?!=)|%[A-Za-z]).*)")
_OF_A_CELL = compile_lazily(r"\s*%%(\w+)")
# Magics of a whole cell under which Python stands.
_PYTHON = ("time", "timeit", "capture", "prun", "memit", "mprun", "lprun", "debug", "python", "python3", "px", "skip")
# Magics under which something else stands, though Python may be able to parse it. Projects have magics of their own.
_OTHER = frozenset(
    "! HTML R SVG bash bigquery cmd cpp cuda cython file html javascript js julia latex markdown octave perl pypy"
    " python2 ruby script sh sql svg sx system writefile writetemplate".split()
)
_TOKEN = compile_lazily(
    r"#.*|'''|\"\"\"|\"(?:\\.|[^\"\\])*(?:\"|$)|'(?:\\.|[^'\\])*(?:'|$)|[(\[{]|[)\]}]|\\$"
)
_PUT = compile_lazily(r"(?:\A|(?<=[\r\n]))([ \t]*)pass  #~([^\r\n]*)")
_GIVEN = compile_lazily(r"= get_ipython\(\)  #~([^\r\n]*)")
_END = compile_lazily(r"\r\n|\r|\n")


def split_cell_lines(code: str) -> list[str]:
    """The lines of a cell as Python and IPython count them: a lone carriage return ends one too."""
    return _END.split(code)


def replace_lines(code: str, lines: list[str]) -> str:
    """The code with other lines in the place of its own; they end as those do."""
    ends = [*_END.findall(code), ""]
    return "".join(line + end for line, end in zip(lines, ends, strict=True))


def convert_to_python(code: str) -> str:
    """A cell's code with every line that is not Python as one that is."""
    if not _MAYBE.search(code) or _is_parsable(code):
        return code
    lines = split_cell_lines(code)
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    cell = _OF_A_CELL.match(lines[first])
    if cell is not None:
        rest = "\n".join(lines[first + 1 :])
        python = convert_to_python(rest)
        if cell[1] not in _PYTHON and (cell[1] in _OTHER or not _is_parsable(python)):
            return replace_lines(code, [f"pass  #~{line}" if line.strip() else line for line in lines])
        below = python.split("\n") if len(lines) > first + 1 else []
        return replace_lines(code, [*lines[:first], _comment_out(lines[first]), *below])
    return replace_lines(code, _python_lines(lines))


def restore_notebook_code(text: str) -> str:
    """The code as it stands in the notebook."""
    return _GIVEN.sub(r"= \1", _PUT.sub(r"\1\2", text))


def first_indentation(code: str) -> str:
    """Return the indentation of the first line of a cell. IPython removes it from all lines that begin with it."""
    first = next((line for line in split_cell_lines(code) if line.strip()), "")
    return first[: len(first) - len(first.lstrip(" \t"))]


def remove_indent(code: str, indent: str) -> str:
    """The code without it."""
    return replace_lines(code, [line.removeprefix(indent) for line in split_cell_lines(code)]) if indent else code


def restore_indent(code: str, indent: str, before: str) -> str:
    """The code with it, but for lines that had none in the code `before`."""
    if not indent:
        return code
    old, new = split_cell_lines(before), split_cell_lines(code)
    found = [indent + line if line.strip() else line for line in new]
    if not all(line.startswith(indent) for line in old if line.strip()):
        from difflib import SequenceMatcher

        without = [line.removeprefix(indent) for line in old]
        for at, other, length in SequenceMatcher(None, without, new, autojunk=False).get_matching_blocks():
            found[other : other + length] = old[at : at + length]
    return replace_lines(code, found)


def _python_lines(lines: list[str]) -> list[str]:
    found = []
    state = _Open()
    goes_on = False
    indent = ""
    for line in lines:
        assigned = _ASSIGNED.fullmatch(line) if state.is_statement_closed and not goes_on else None
        if goes_on or (state.is_statement_closed and _LINE.match(line)):
            indent = indent if goes_on else line[: len(line) - len(line.lstrip(" \t"))]
            goes_on = line.rstrip().endswith("\\")
            found.append(
                f"{indent}pass  #~{line[len(indent) :]}" if line.startswith(indent) else _comment_out(line)
            )
        elif assigned is not None and not assigned[2].endswith("\\"):
            found.append(f"{assigned[1]} get_ipython()  #~{assigned[2]}")
        else:
            state.read_line(line)
            found.append(line)
    return found


def _comment_out(line: str) -> str:
    rest = line.lstrip(" \t")
    return f"{line[: len(line) - len(rest)]}pass  #~{rest}" if rest.strip() else line


def _is_parsable(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


class _Open:
    """Open constructs at the end of a line: a string of several lines, brackets, a backslash."""

    def __init__(self) -> None:
        self.quote = ""
        self.depth = 0
        self.backslash = False

    @property
    def is_statement_closed(self) -> bool:
        """True if a statement may begin on the next line."""
        return not self.quote and not self.depth and not self.backslash

    def read_line(self, line: str) -> None:
        """Go on by one line."""
        at, self.backslash = 0, False
        while at < len(line):
            if self.quote:
                end = line.find(self.quote, at)
                if end < 0:
                    return
                at, self.quote = end + 3, ""
                continue
            match = _TOKEN.search(line, at)
            if match is None:
                return
            at = match.end()
            if match[0] in ("'''", '"""'):
                self.quote = match[0]
            elif match[0] in "([{":
                self.depth += 1
            elif match[0] in ")]}":
                self.depth = max(0, self.depth - 1)
            elif match[0] == "\\":
                self.backslash = True
