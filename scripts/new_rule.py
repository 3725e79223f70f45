"""Begins a rule: `python scripts/new_rule.py SL212 in-shardings-counts-static jit`.

Writes the rule's file, its entry in the pack's table, and its proof folder. None of it passes the tests until
it is filled in: the rule raises, the page has gaps, and the proof shows nothing.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

RULE = '''"""{code}."""

from __future__ import annotations

from shardlint.rules_api.rule import Calls, Finding, Harm, Rule, detector
from shardlint.rules_api.site import Site


class {kind}(Rule):
    """TODO: one sentence that says what is wrong.

    TODO: the effect when the program runs, by release.

    ## Reports
    - proven: TODO

    ## Fix
    TODO: safe or unsafe, and why. Leave this out when there is no fix.

    ## Limits
    TODO: what is not reported.
    """

    code = "{code}"
    name = "{name}"
    harm = Harm.SILENT
    triggers = (Calls("jax.TODO"),)
    fixes = "none"

    @detector("call")
    def report_mistake(self, site: Site) -> Finding | None:
        """TODO."""
        raise NotImplementedError("{code} is not written yet")
'''

BAD = '''"""TODO: a whole program with the mistake."""


def main():
    raise NotImplementedError  # {code}
'''

GOOD = '''"""TODO: the same program without it."""


def main():
    raise NotImplementedError  # {code}
'''

QUIET = '''"""TODO: what looks like the mistake and is none. Write this file first."""

raise NotImplementedError
'''

PROOF = """# docs/verify-reference.md describes the keys.
[bad]
shows = "TODO: raises, warns, sharding, numbers or donation"

[good]
"""


def create_rule_files(root: Path, code: str, name: str, folder: str) -> list[Path]:
    """Write the files of a new rule under `root`; return them. Raises `ValueError` for what is not a rule."""
    if not re.fullmatch(r"SL[1-9]\d\d", code):
        raise ValueError(f"{code!r} is not a code such as SL212")
    if not re.fullmatch(r"[a-z]+(-[a-z0-9]+)+", name):
        raise ValueError(f"{name!r} is not a name such as device-put-in-jit")
    pack = root / "rules" / "shardlint_rules"
    if not (pack / folder / "__init__.py").is_file():
        known = ", ".join(sorted(path.parent.name for path in pack.glob("*/__init__.py")))
        raise ValueError(f"{folder!r} is not a folder of rules; there are {known}")
    module = name.replace("-", "_")
    kind = "".join(part.capitalize() for part in name.split("-"))
    table = pack / "__init__.py"
    text = table.read_text("utf-8")
    entries = re.findall(r'^    "(SL\d+)": .*\n', text, re.MULTILINE)
    if code in entries or f".{module}:" in text:
        raise ValueError(f"{code} or {name} is taken")
    entry = f'    "{code}": "shardlint_rules.{folder}.{module}:{kind}",\n'
    after = next((known for known in sorted(entries) if known > code), None)
    place = text.index(f'    "{after}"') if after else text.index("}\n", text.index("RULES = {"))
    proof = root / "fixtures" / code
    files = {
        pack / folder / f"{module}.py": RULE.format(code=code, name=name, kind=kind),
        proof / "quiet.py": QUIET,
        proof / "bad.py": BAD.format(code=code),
        proof / "good.py": GOOD.format(code=code),
        proof / "proof.toml": PROOF,
    }
    for path in files:
        if path.exists():
            raise ValueError(f"{path} is already there")
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, "utf-8")
    table.write_text(text[:place] + entry + text[place:], "utf-8")
    return [*files, table]


def main() -> int:
    """Begin the rule the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("code", help="such as SL212")
    parser.add_argument("name", help="such as in-shardings-counts-static")
    parser.add_argument("folder", help="such as jit")
    given = parser.parse_args()
    try:
        written = create_rule_files(ROOT, given.code, given.name, given.folder)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    for path in written:
        print(path.relative_to(ROOT))
    print("Write quiet.py first, then bad.py and good.py, then the rule; `make docs` writes its page.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
