"""Build of the files to publish: `release.py FOLDER [--source ADDRESS --pages ADDRESS/{path}]`.

Builds the wheel and the source archive from the files that git knows, twice, in folders of their own, compares their
bytes, writes a CycloneDX SBOM of what the wheel brings along, and has twine check the files. It publishes nothing.

`--source` replaces the public addresses in the metadata. `--pages` makes the README's links absolute, because the pages
of a package index lead nowhere else.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
import zipfile
from collections.abc import Iterable
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "scripts" / "pins.txt"
_URLS = re.compile(r"\[project\.urls\]\n(?:.+\n)+")
_LINK = re.compile(r"(\]\()(?![a-z]+:|#)([^)\s]+)\)")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA = re.compile(r";.*\bextra\b")


def version_day(changelog: str, version: str) -> datetime:
    """The day of a version, as the changelog says it. Raises SystemExit where it says none."""
    match = re.search(rf"^## {re.escape(version)} \((\d{{4}}-\d\d-\d\d)\)$", changelog, re.MULTILINE)
    if match is None:
        raise SystemExit(f"CHANGELOG.md has no line `## {version} (YEAR-MONTH-DAY)`")
    return datetime.fromisoformat(match[1]).replace(tzinfo=UTC)


def laid_out(folder: Path, source: str, pages: str) -> None:
    """Copy what git knows to a folder, with the public addresses if there are any."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    readme, project = folder / "README.md", folder / "pyproject.toml"
    if pages:
        text = readme.read_text("utf-8")
        readme.write_text(_LINK.sub(lambda link: f"{link[1]}{pages.format(path=link[2])})", text), "utf-8")
    if source:
        urls = f'[project.urls]\nSource = "{source}"\n'
        if pages:
            urls += "".join(
                f'{name} = "{pages.format(path=path)}"\n'
                for name, path in (("Documentation", "docs/index.md"), ("Changelog", "CHANGELOG.md"))
            )
        project.write_text(_URLS.sub(lambda _: urls, project.read_text("utf-8"), count=1), "utf-8")


def build_tree(tree: Path, out: Path, day: datetime) -> dict[str, str]:
    """Build a tree; what was built, by name, as SHA-256."""
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(int(day.timestamp())), "PIP_CONSTRAINT": str(PINS)}
    done = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(out), str(tree)],
        env=environ, text=True, capture_output=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    return {path.name: file_digest(path) for path in sorted(out.iterdir())}


def file_digest(path: Path) -> str:
    """A file's SHA-256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def resolve_packages(wheel: Path) -> list[Message]:
    """The metadata of a wheel, and of what pip installs with it and the pins on this Python."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
                *("--only-binary", ":all:", "--constraint", str(PINS)),
                *("--dest", folder, str(wheel)),
            ],
            text=True, capture_output=True,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        others = [path for path in sorted(Path(folder).iterdir()) if path.name != wheel.name]
        found = [read_metadata(path) for path in (wheel, *others)]
    pins = pinned_versions(PINS.read_text("utf-8"))
    for one in found[1:]:
        if pins.get(normal_name(one["Name"])) != one["Version"]:
            raise SystemExit(f"{one['Name']} {one['Version']} is not pinned in {PINS.name}")
    return found


def read_metadata(wheel: Path) -> Message:
    """Return the metadata of a wheel."""
    with zipfile.ZipFile(wheel) as file:
        (name,) = (name for name in file.namelist() if name.endswith(".dist-info/METADATA") and name.count("/") == 1)
        return message_from_bytes(file.read(name))


def pinned_versions(text: str) -> dict[str, str]:
    """Versions by name."""
    return dict(line.split("==") for line in text.split() if "==" in line)


def normal_name(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def bill_of_materials(packages: Iterable[Message], day: datetime, sha256: str) -> dict[str, Any]:
    """A CycloneDX document of packages, the first of which is the one that is published, as a file with a SHA-256."""
    own, *others = packages
    names = {normal_name(one["Name"]): _package_url(one) for one in (own, *others)}
    published = _package_component(own, "application")
    published["hashes"] = [{"alg": "SHA-256", "content": sha256}]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": day.isoformat(),
            "component": published,
            "properties": [{"name": "python", "value": f"{sys.version_info.major}.{sys.version_info.minor}"}],
        },
        "components": [_package_component(one, "library") for one in sorted(others, key=_package_url)],
        "dependencies": [
            {
                "ref": _package_url(one),
                "dependsOn": sorted(names[need] for need in _required_packages(one) & names.keys()),
            }
            for one in sorted((own, *others), key=_package_url)
        ],
    }
    said = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    schema = "http://cyclonedx.org/schema/bom-1.6.schema.json"
    return {"$schema": schema, "serialNumber": f"urn:uuid:{said}", **document}


def _package_url(one: Message) -> str:
    return f"pkg:pypi/{normal_name(one['Name'])}@{one['Version']}"


def _package_component(one: Message, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": kind,
        "bom-ref": _package_url(one),
        "name": one["Name"],
        "version": one["Version"],
        "description": one["Summary"] or "",
        "purl": _package_url(one),
    }
    names = [said.rpartition(" :: ")[2] for said in one.get_all("Classifier", []) if "OSI Approved ::" in said]
    if one["License-Expression"]:
        found["licenses"] = [{"expression": one["License-Expression"]}]
    elif names:
        found["licenses"] = [{"license": {"name": name}} for name in names]
    return found


def _required_packages(one: Message) -> set[str]:
    """Return the packages that a package may require without extras."""
    stated = (need for need in one.get_all("Requires-Dist", []) if not _EXTRA.search(need))
    return {normal_name(match[0]) for need in stated if (match := _NAME.match(need))}


def main() -> None:
    """Make everything, and say what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source", default="", help="the public address of the repository")
    parser.add_argument("--pages", default="", help="the address of a file of this version, with {path} in it")
    said = parser.parse_args()
    match = re.search(r'__version__ = "(.+)"', (ROOT / "shardlint" / "__init__.py").read_text("utf-8"))
    assert match is not None
    day = version_day((ROOT / "CHANGELOG.md").read_text("utf-8"), match[1])
    said.folder.mkdir(parents=True, exist_ok=True)
    if any(said.folder.iterdir()):
        raise SystemExit(f"{said.folder} is not empty")
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory(prefix="another") as two:
        made = []
        for top in map(Path, (one, two)):
            laid_out(top / "tree", said.source, said.pages)
            made.append(build_tree(top / "tree", top / "out", day))
        if made[0] != made[1]:
            raise SystemExit(f"two builds differ: {made[0]} and {made[1]}")
        for name in made[0]:
            shutil.copyfile(Path(one, "out", name), said.folder / name)
    (wheel,) = said.folder.glob("*.whl")
    written = said.folder / f"shardlint-{match[1]}.cdx.json"
    written.write_text(
        json.dumps(bill_of_materials(resolve_packages(wheel), day, file_digest(wheel)), indent=2) + "\n",
        "utf-8",
    )
    for path in sorted(said.folder.iterdir()):
        print(f"{file_digest(path)}  {path.name}")
    if importlib.util.find_spec("twine") is None:
        raise SystemExit("twine is not installed: the files were not checked")
    files = [str(said.folder / name) for name in made[0]]
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], check=True)
    if not said.source or not said.pages:
        print("no --source and --pages: the metadata names no address, and on an index the README's links lead nowhere")


if __name__ == "__main__":
    main()
