"""A stale document is noticed (`make test` asks scripts/docs.py), the schema accepts what the settings accept, links lead somewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from shardlint.config.settings import BadSettings, read_settings
from shardlint.rules_api import registry
from shardlint.rules_api.registry import proof_folders
from shardlint.testing import check_text
from tests.loading import load
from tests.schemas import jsonschema

ROOT = Path(__file__).parent.parent
docs = load("docs")
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "evaluation").rglob("*.md"),
        *(ROOT / "fixtures").rglob("README.md"),
    ]
)
FULL = """
select = ["SL2", "silent"]
ignore = ["SL203"]
certainty = "possible"
pedantic = true
exclude = ["vendored/"]
jit-decorators = ["proj.utils.traced"]
mesh-makers = {"proj.mesh.make" = ["data"]}
axis-names = ["data", "model"]
banned-calls = {"jax.device_put" = "use proj.place", "jax.experimental.*" = "ask first"}
targets = {jax = "0.8", equinox = "0.13.8"}
per-file-ignores = {"tests/*" = ["SL2"]}
extend = "base.toml"
extend-select = ["SL654"]
baseline = "ci/known.json"
"""


@pytest.mark.longer
def test_a_stale_page_and_a_page_without_rule_are_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tutorial = (docs.DOCS / "tutorial.md").read_text("utf-8")
    monkeypatch.setattr(docs, "DOCS", tmp_path)
    (tmp_path / "tutorial.md").write_text(tutorial, "utf-8")
    (tmp_path / "rules").mkdir()
    orphan = tmp_path / "rules" / "SL999.md"
    orphan.write_text("# SL999", "utf-8")
    for path, write in docs.generated_documents().items():
        if tmp_path in path.parents:
            path.parent.mkdir(exist_ok=True)
            path.write_text(write(), "utf-8")
    page = tmp_path / "rules" / "SL201.md"
    page.write_text(page.read_text("utf-8") + "\n", "utf-8")
    assert {path: text is None for path, text in docs.stale_documents().items() if tmp_path in path.parents} == {
        orphan: True,
        page: False,
    }


@pytest.mark.parametrize("code", ["SL002", "SL201", "SL508"])
def test_the_command_shows_the_page_of_the_docs(code: str) -> None:
    command = [sys.executable, "-m", "shardlint", "rule", code]
    done = subprocess.run(command, capture_output=True, timeout=60, check=True)
    assert done.stdout.decode().strip() == (ROOT / "docs" / "rules" / f"{code}.md").read_text("utf-8").strip()


def test_the_matrix_has_every_proof_and_no_failure() -> None:
    rows = re.findall(
        r"^\| \[(SL\d+)\]\S+ \|(.*)\|$", (ROOT / "evaluation" / "matrix.md").read_text("utf-8"), re.MULTILINE
    )
    assert [code for code, _ in rows] == list(proof_folders()), "run `make matrix`"
    assert {cell.strip() for _, cells in rows for cell in cells.split("|")} <= {"holds", "-", ""}
    assert not [code for code, cells in rows if "holds" not in cells]


def test_a_failure_shows_in_the_matrix() -> None:
    matrix = load("matrix")
    statuses = {"SL201": ("pass", "fail", "skip"), "SL203": ("skip", "pass"), "SL301": ("skip",)}
    results = [{"target": code, "status": status} for code, each in statuses.items() for status in each]
    releases = {"jax": "0.8.3", "equinox": "0.13.8", "python": "3.11.7"}
    page = matrix.matrix_table([(matrix.RELEASES[0], {"results": results, "releases": releases})])
    assert page.splitlines()[-3:] == [
        "| [SL201](../docs/rules/SL201.md) | FAILS |",
        "| [SL203](../docs/rules/SL203.md) | holds |",
        "| [SL301](../docs/rules/SL301.md) | - |",
    ]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    prose = re.sub(r"```.*?```", "", document.read_text("utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", prose):
        assert (document.parent / target).exists(), f"{document.name} links to {target}, which is not there"


def test_a_block_that_is_not_there_is_noticed() -> None:
    assert docs.replace_block(
        "<!-- a: written by scripts/docs.py -->old<!-- end of a -->.", "a", "new"
    ).endswith("\n\nnew\n\n<!-- end of a -->.")
    with pytest.raises(ValueError, match="no block b"):
        docs.replace_block("<!-- a: written by scripts/docs.py -->old<!-- end of a -->", "b", "new")


def test_the_schema_accepts_what_the_settings_accept(tmp_path: Path) -> None:
    schema = json.loads(docs.settings_schema())
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    path = tmp_path / "shardlint.toml"
    path.write_text(FULL, "utf-8")
    (tmp_path / "base.toml").touch()
    settings = read_settings(path)
    table = tomllib.loads(FULL)
    validator.validate(table)
    assert {*table, "verify"} == set(schema["properties"]), "FULL shows every setting"
    assert settings.targets == table["targets"]


@pytest.mark.parametrize(
    "line",
    [
        "select = 'SL2'",
        "pedantic = 1",
        "certainty = 'sure'",
        "certainty = 1",
        "exclude = [1]",
        "targets = {torch = '2'}",
        "per-file-ignores = []",
        "color = true",
    ],
)
def test_the_schema_refuses_what_the_settings_refuse(tmp_path: Path, line: str) -> None:
    path = tmp_path / "shardlint.toml"
    path.write_text(line, "utf-8")
    with pytest.raises(BadSettings):
        read_settings(path)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(line), json.loads(docs.settings_schema()))


@pytest.mark.usefixtures("pack")
def test_the_rule_that_the_page_on_rules_writes_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    import shardlint_testpack

    page = (ROOT / "docs" / "writing-rules.md").read_text("utf-8")
    block = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert block is not None
    made: dict[str, object] = {"__name__": "shardlint_testpack"}
    exec(block[1].replace("SL299", "XT998"), made)  # a code of this project is not a pack's to claim
    monkeypatch.setattr(shardlint_testpack, "ScalarDonated", made["ScalarDonated"], raising=False)
    monkeypatch.setitem(shardlint_testpack.RULES, "XT998", "shardlint_testpack:ScalarDonated")
    registry.forget_packs()
    program = "import jax\n\nn = 3\nput = jax.device_put\ny = put(n)  # XT998\nz = jax.device_put(y)\n"
    check_text("XT998", program)
