"""Ask installed releases of jax, flax, equinox, optax and haliax for the public names of their modules.

    python scripts/public_names.py ENV/bin/python ...     add what they show to the table
    python scripts/public_names.py --fresh ENV/bin/python ...     begin the table anew

Each environment is asked for whichever of the libraries it has. The table is read by SL905.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from shardlint_rules.upgrade import public_names

# Runs in the observed environment, which may be old: nothing newer than Python 3.8.
_PROBE = r"""
import contextlib, importlib, io, json, pkgutil, sys, types, warnings

warnings.simplefilter("ignore")

def public(name):
    parts = name.split(".")
    return not any(part.startswith("_") or part in ("tests", "testing", "experimental", "contrib") for part in parts)

def modules(root):
    yield root
    for found in pkgutil.walk_packages(root.__path__, root.__name__ + ".", onerror=lambda name: None):
        if public(found.name) and not found.name.rpartition(".")[2].endswith("_test"):
            try:
                yield importlib.import_module(found.name)
            except BaseException:
                yield found.name

def words(value):
    if isinstance(value, str):
        return [value] if value.isidentifier() else []
    if isinstance(value, dict):
        return [word for key in value for word in words(key)]
    if isinstance(value, (tuple, list, set, frozenset)):
        return [word for one in value for word in words(one)]
    return []

def deprecated(module):
    # Names that only `__getattr__` gives: those its code compares with, and those in the tables it looks them up in.
    getter = vars(module).get("__getattr__")
    if getter is None:
        return [], True
    found = words(vars(module).get("_deprecations"))
    for cell in getattr(getter, "__closure__", None) or ():
        found += words(cell.cell_contents)
    code = getattr(getter, "__code__", None)
    if code is not None:
        found += [word for constant in code.co_consts for word in words(constant)]
        for name in code.co_names:
            value = vars(module).get(name)
            found += words(value) if isinstance(value, (dict, tuple, list, set, frozenset)) else []
    return found, bool(found)

def plain(module, name):
    value = vars(module).get(name)
    return isinstance(value, types.FunctionType) and set(vars(value)) <= {"__wrapped__", "__module__"}

def names(root):
    found, unread = {}, []
    for module in modules(root):
        if isinstance(module, str):
            unread.append(module)
            continue
        more, known = deprecated(module)
        if not known:
            unread.append(module.__name__)
        every = {*dir(module), *more, *getattr(module, "__all__", ())}
        found[module.__name__] = [
            name + "()" * plain(module, name) for name in sorted(every) if not name.startswith("_")
        ]
    for name in [*found, *unread]:
        parent, _, last = name.rpartition(".")
        if parent in found and last not in found[parent]:
            found[parent] = [one for one in found[parent] if one != last + "()"] + [last]
    for name in unread:
        found[name] = ["*"]
    return found

answers = []
for library in ("jax", "flax", "equinox", "optax", "haliax"):
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            root = importlib.import_module(library)
        except BaseException:
            continue
        from importlib.metadata import version
        answers.append({"library": library, "version": version(library), "modules": names(root)})
print("NAMES " + json.dumps(answers))
"""


def public_names_of(interpreter: Path) -> list[public_names.ReleaseNames]:
    """Return the public names of the libraries of an environment. Raises `RuntimeError` if they cannot be listed."""
    run = subprocess.run([str(interpreter), "-c", _PROBE], capture_output=True, text=True, timeout=600)
    answer = next((line for line in run.stdout.splitlines() if line.startswith("NAMES ")), None)
    if answer is None:
        raise RuntimeError(f"{interpreter} did not answer:\n{run.stderr}")
    return [
        public_names.ReleaseNames(one["library"], one["version"], one["modules"])
        for one in json.loads(answer.removeprefix("NAMES "))
    ]


def main() -> int:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("interpreters", nargs="+", type=Path)
    parser.add_argument("--fresh", action="store_true", help="forget what the table holds")
    options = parser.parse_args()
    shown = [] if options.fresh else list(public_names.unpack_table())
    for interpreter in options.interpreters:
        for one in public_names_of(interpreter):
            shown = [old for old in shown if (old.library, old.version) != (one.library, one.version)]
            shown.append(one)
            print(f"{one.library} {one.version}: {sum(map(len, one.modules.values()))} names")
    public_names.PATH.write_text(public_names.pack_table(shown), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
