"""Edits such as people make, drawn by chance: of a statement, a constant, a name, a decorator, a file, a pin."""

from __future__ import annotations

import ast
import random
import re
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path

_WORDS = ("mesh", "shard", "Partition", "jit", "device", "donate", "axis")
_PINS = ("0.4.30", "0.5.3", "0.6.2", "0.7.0")
_LIBRARIES = "import jax\nfrom jax.sharding import Mesh, PartitionSpec as P\n"

Edit = Callable[[Path, str, random.Random], str | None]
"""The text of a file after the edit; None where it cannot be made there."""


def edit_folder(folder: Path, chance: random.Random) -> str:
    """Edit something in a folder; says what."""
    files = sorted(path for path in folder.rglob("*.py") if path.is_file() and not path.is_symlink())
    while True:
        kind = chance.choice(_ALL)
        if kind in ("a file goes", "a file comes", "a pin"):
            return f"{kind}: {_of_files(folder, files, kind, chance)}"
        path = chance.choice(files)
        try:
            text = path.read_text("utf-8")
        except (UnicodeDecodeError, OSError):
            continue
        after = _EDITS[kind](path, text, chance)
        if after is not None and after != text:
            path.write_text(after, "utf-8")
            return f"{kind}: {path.relative_to(folder)}"


def _of_files(folder: Path, files: list[Path], kind: str, chance: random.Random) -> str:
    if kind == "a pin":
        pins = folder / chance.choice(("requirements.txt", "setup.py", "pyproject.toml"))
        pin = f"jax=={chance.choice(_PINS)}"
        said = {
            "requirements.txt": f"{pin}\n",
            "setup.py": f"from setuptools import setup\nsetup(name='x', install_requires=['{pin}'])\n",
            "pyproject.toml": f'[project]\nname = "x"\nversion = "1"\ndependencies = ["{pin}"]\n',
        }
        pins.write_text(said[pins.name])
        return f"{pins.name} {pin}"
    path = chance.choice(files)
    if kind == "a file goes" and len(files) > 3:
        path.unlink()
        return str(path.relative_to(folder))
    to = path.with_name(f"{path.stem}_{chance.randrange(1000)}.py")
    shutil.copyfile(path, to)
    return str(to.relative_to(folder))


def _insert_line(text: str, at: int, new: str) -> str:
    lines = text.split("\n")
    return "\n".join([*lines[:at], new, *lines[at:]])


def _parse_functions(text: str) -> list[ast.FunctionDef]:
    try:
        return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    except (SyntaxError, ValueError):
        return []


def _choose_function(text: str, chance: random.Random) -> ast.FunctionDef | None:
    found = [node for node in _parse_functions(text) if node.body[0].lineno > node.lineno]
    telling = [
        node for node in found if any(word in str(ast.get_source_segment(text, node)) for word in _WORDS)
    ]
    return chance.choice(telling or found) if found else None


def _insert_statement(path: Path, text: str, chance: random.Random) -> str | None:
    function = _choose_function(text, chance)
    if function is None:
        return None
    first = chance.choice(function.body)
    said = chance.choice(
        ("edited_value = 0", "print('here')", "import os", "jax.set_mesh(None)", "x = 1", "# nothing")
    )
    line = min([first.lineno, *(one.lineno for one in getattr(first, "decorator_list", ()))])
    return _insert_line(text, line - 1, " " * first.col_offset + said)


def _delete_statement(path: Path, text: str, chance: random.Random) -> str | None:
    function = _choose_function(text, chance)
    if function is None or len(function.body) < 2:
        return None
    one = chance.choice(function.body)
    lines = text.split("\n")
    first = min([one.lineno, *(it.lineno for it in getattr(one, "decorator_list", ()))])
    return "\n".join([*lines[: first - 1], *lines[one.end_lineno or first :]])


def _add_jit_decorator(path: Path, text: str, chance: random.Random) -> str | None:
    function = _choose_function(text, chance)
    if function is None:
        return None
    said = chance.choice(
        ("@jax.jit", "@jax.jit(donate_argnums=0)", "@functools.partial(jax.jit, static_argnums=0)")
    )
    line = min([function.lineno, *(one.lineno for one in function.decorator_list)])
    return _insert_line(text, line - 1, " " * function.col_offset + said)


def _change_constant(path: Path, text: str, chance: random.Random) -> str | None:
    found = list(re.finditer(r"(?<=[\[(, =])\d+(?=[\]), \n])", text))
    if not found:
        return None
    one = chance.choice(found)
    return text[: one.start()] + str(chance.randrange(9)) + text[one.end() :]


def _change_axis_name(path: Path, text: str, chance: random.Random) -> str | None:
    found = list(re.finditer(r"""(?<=["'])(data|model|batch|fsdp|tensor|x|y|dp|mp|tp|stage)(?=["'])""", text))
    if not found:
        return None
    one = chance.choice(found)
    return text[: one.start()] + chance.choice(("data", "model", "other")) + text[one.end() :]


def _rename_function(path: Path, text: str, chance: random.Random) -> str | None:
    function = _choose_function(text, chance)
    if function is None:
        return None
    name = function.name
    return re.sub(
        rf"\bdef {name}\b" if chance.random() < 0.5 else rf"\b{name}\b", lambda m: f"{m[0]}_again", text
    )


def _insert_mesh_expression(path: Path, text: str, chance: random.Random) -> str | None:
    if not re.search(r"\b(Mesh|make_mesh|PartitionSpec)\b", text):
        return None
    said = chance.choice(
        ('P("data")', 'Mesh(jax.devices(), ("data",))', 'jax.make_mesh((2, 4), ("data", "model"))')
    )
    return re.sub(r"\b(P|PartitionSpec|Mesh|make_mesh)\([^()]*\)", lambda _: said, text, count=1)


def _add_imports(path: Path, text: str, chance: random.Random) -> str | None:
    return _LIBRARIES + text if "from __future__" not in text else None


def _truncate_text(path: Path, text: str, chance: random.Random) -> str | None:
    return text[: chance.randrange(len(text))] if len(text) > 100 and chance.random() < 0.2 else None


def _insert_comment(path: Path, text: str, chance: random.Random) -> str | None:
    return (
        _insert_line(text, chance.randrange(text.count("\n") + 1), "# a comment")
        if '"""' not in text
        else f"\n{text}"
    )


def _shadow_name(path: Path, text: str, chance: random.Random) -> str | None:
    function = _choose_function(text, chance)
    others = [node.name for node in _parse_functions(text)]
    if function is None:
        return None
    first = function.body[0]
    name = chance.choice((*others, "mesh", "jax", "P"))
    said = chance.choice((f"{name} = None", f"global {name}", f"return {name}(0)", f"{name}(mesh)"))
    return (
        _insert_line(text, first.lineno - 1, " " * first.col_offset + said)
        if not function.decorator_list
        else None
    )


def _copy_function(path: Path, text: str, chance: random.Random) -> str | None:
    """With a copy of a function of some file before another one, or at the end of the file."""
    other = chance.choice(sorted(path.parent.glob("*.py"))).read_text("utf-8", "replace")
    copied, following = _choose_function(other, chance), chance.choice([None, *_parse_functions(text)])
    if copied is None:
        return None
    body = textwrap.dedent("\n".join(other.split("\n")[copied.lineno - 1 : copied.end_lineno]))
    name = chance.choice((copied.name, f"{copied.name}_again", f"{copied.name}_new"))
    whole = re.sub(rf"\b{copied.name}\b", name, body, count=1)
    if following is None or following.col_offset or following.decorator_list:
        return f"{text}\n\n{whole}\n"
    return _insert_line(text, following.lineno - 1, f"{whole}\n\n")


def _left_out(path: Path, text: str, chance: random.Random) -> str | None:
    """Without one of the functions, or with it at the end."""
    found = [node for node in _parse_functions(text) if not node.col_offset and not node.decorator_list]
    if not found:
        return None
    lines, node = text.split("\n"), chance.choice(found)
    first, last = node.lineno - 1, node.end_lineno
    return "\n".join([*lines[:first], *lines[last:], *chance.choice(([], lines[first:last]))])


_EDITS: dict[str, Edit] = {
    "a statement": _insert_statement,
    "a statement goes": _delete_statement,
    "a jit": _add_jit_decorator,
    "a constant": _change_constant,
    "an axis": _change_axis_name,
    "a name": _rename_function,
    "a mesh": _insert_mesh_expression,
    "an import": _add_imports,
    "broken": _truncate_text,
    "a comment": _insert_comment,
    "a name of its own": _shadow_name,
    "a function comes": _copy_function,
    "a function goes": _left_out,
}
_ALL = (
    *_EDITS,
    "a statement",
    "a statement goes",
    "an axis",
    "a constant",
    "a function comes",
    "a file goes",
    "a file comes",
    "a pin",
)
