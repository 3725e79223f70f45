"""Tests of the published files: the same bytes from two builds, a bill of materials, and working links."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from datetime import UTC, datetime
from email import message_from_string
from pathlib import Path

import pytest
import yaml

from tests.loading import load

ROOT = Path(__file__).parent.parent
release = load("release")

OWN = """\
Metadata-Version: 2.4
Name: shardlint
Version: 1.2
Summary: Finds mistakes.
License-Expression: Apache-2.0
Requires-Dist: lib_cst<2,>=1.8
Requires-Dist: click
Requires-Dist: jax>=0.5; extra == 'verify'
"""
CST = """\
Name: Lib.CST
Version: 1.9
Classifier: License :: OSI Approved :: MIT License
Requires-Dist: pyyaml; python_version < "3.13"
Requires-Dist: pyyaml-ft; python_version == "3.13"
"""
YAML = "Name: PyYAML\nVersion: 6\n"
CLICK = "Name: click\nVersion: 8\nLicense-Expression: BSD-3-Clause\n"
DAY = datetime(2026, 11, 28, tzinfo=UTC)


def test_the_changelog_dates_this_version() -> None:
    from shardlint import __version__

    release.version_day((ROOT / "CHANGELOG.md").read_text("utf-8"), __version__)


def test_the_citation_names_this_version() -> None:
    from shardlint import __version__

    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    day = release.version_day((ROOT / "CHANGELOG.md").read_text("utf-8"), __version__)
    assert (cited["version"], cited["date-released"]) == (__version__, f"{day:%Y-%m-%d}")


@pytest.mark.parametrize("text", ["## 1.2\n", "## 1.2 (soon)\n", "## 1.20 (2026-11-28)\n", ""])
def test_a_version_without_a_day_is_not_released(text: str) -> None:
    assert release.version_day("## Unreleased\n\n## 1.2 (2026-11-28)\n", "1.2") == DAY
    with pytest.raises(SystemExit, match="YEAR-MONTH-DAY"):
        release.version_day(text, "1.2")


def made() -> dict[str, object]:
    packages = map(message_from_string, (OWN, YAML, CLICK, CST))
    found: dict[str, object] = release.bill_of_materials(packages, DAY, "0" * 64)
    return found


def test_the_bill_of_materials_names_what_is_installed() -> None:
    found = made()
    assert [(one["name"], one["version"], one.get("licenses")) for one in found["components"]] == [  # type: ignore[index,attr-defined]
        ("click", "8", [{"expression": "BSD-3-Clause"}]),
        ("Lib.CST", "1.9", [{"license": {"name": "MIT License"}}]),
        ("PyYAML", "6", None),
    ]
    assert {one["ref"]: one["dependsOn"] for one in found["dependencies"]} == {  # type: ignore[index,attr-defined]
        "pkg:pypi/click@8": [],
        "pkg:pypi/lib-cst@1.9": ["pkg:pypi/pyyaml@6"],
        "pkg:pypi/pyyaml@6": [],
        "pkg:pypi/shardlint@1.2": ["pkg:pypi/click@8", "pkg:pypi/lib-cst@1.9"],
    }
    assert made() == found


def test_the_bill_of_materials_is_valid() -> None:
    validation = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema")
    validator = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    assert validator.validate_str(json.dumps(made())) is None
    assert validator.validate_str(json.dumps({**made(), "components": 3})) is not None


def test_every_package_that_is_needed_is_pinned() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    stated = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    pins = release.pinned_versions((ROOT / "scripts" / "pins.txt").read_text("utf-8"))
    assert {release.normal_name(release._NAME.match(one)[0]) for one in stated} <= pins.keys()


@pytest.mark.packaging
@pytest.mark.xdist_group("packaging")
def test_a_release_is_the_same_when_made_again(tmp_path: Path) -> None:
    pytest.importorskip("build")
    pytest.importorskip("twine")
    source, pages = "https://example.org/shardlint", "https://example.org/shardlint/v/{path}"
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "release.py", tmp_path / "out", "--source", source, "--pages", pages],
        text=True, capture_output=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tmp_path / "out").glob("*.whl")
    (archive,) = (tmp_path / "out").glob("*.tar.gz")
    (bill,) = (tmp_path / "out").glob("*.cdx.json")
    said = release.read_metadata(wheel)
    assert f"Source, {source}" in said.get_all("Project-URL", [])
    assert not [url for url in said.get_all("Project-URL", []) if "github.com" in url]
    assert "](docs/" not in said.get_payload() and "](https://example.org/shardlint/v/docs/ci.md)" in said.get_payload()
    with zipfile.ZipFile(wheel) as one, tarfile.open(archive) as two:
        assert {entry.date_time[:3] for entry in one.infolist()} == {(2026, 11, 28)}
        assert {entry.uname for entry in two.getmembers()} == {""}
    document = json.loads(bill.read_text("utf-8"))
    assert document["metadata"]["component"]["hashes"][0]["content"] == release.file_digest(wheel)
    assert {"click", "libcst", "pathspec"} < {one["name"].lower() for one in document["components"]}
