"""Proofs of rules: each kind of symptom passes where it shows and fails where it does not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint.cli.verify import select_proofs
from shardlint.verify.cannot_run import CannotRun
from shardlint.verify.plan import Request, verify_proofs
from shardlint.verify.proofs import BadProof, read_proof
from shardlint.verify.report import Result
from shardlint.verify.runner import Runner

PROOFS = Path(__file__).parent / "data" / "proofs"
KINDS = {
    "raises": ["execute"],
    "warns": ["execute"],
    "sharding": ["compile", "execute"],
    "numbers": ["execute"],
    "donation": ["compile", "execute"],
    "equinox_donation": ["compile", "execute"],
}

Copy = Callable[..., Path]


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """A copy of a proof with some files changed."""

    def make(kind: str, name: str = "", **changes: str) -> Path:
        folder = tmp_path / (name or kind)
        shutil.copytree(PROOFS / kind, folder)
        for file, text in changes.items():
            (folder / file.replace("_", ".")).write_text(text)
        return folder

    return make


def prove(runner: Runner, folders: dict[str, Path], level: str = "execute") -> dict[str, list[Result]]:
    found, failures = select_proofs(["all"], folders)
    assert not failures, failures
    results: dict[str, list[Result]] = {code: [] for code in folders}
    for result in verify_proofs(runner, Request(proofs=found, levels=[level] if level == "compile" else [])):
        results[result.target].append(result)
    return results


def test_every_kind_of_symptom_passes_where_it_shows(runner: Runner) -> None:
    results = prove(runner, {kind: PROOFS / kind for kind in KINDS})
    for kind, levels in KINDS.items():
        assert [(result.level, result.status) for result in results[kind]] == [
            (level, "pass") for level in levels
        ], results[kind]
        assert all(result.checked >= 2 for result in results[kind])


@pytest.mark.longer
def test_every_kind_of_symptom_fails_where_it_is_absent(runner: Runner, copy: Copy) -> None:
    folders = {}
    for kind in KINDS:
        folders[kind] = copy(kind, bad_py=(PROOFS / kind / "good.py").read_text())
    for kind, results in prove(runner, folders).items():
        assert [result.status for result in results] == ["fail"] * len(KINDS[kind]), (kind, results)
        assert all("bad.py does not show its symptom" in result.failures[0].failure_text() for result in results), (
            results
        )


@pytest.mark.longer
def test_a_good_program_that_is_bad_fails(runner: Runner, copy: Copy) -> None:
    expected = "\n\ndef expected():\n    return np.arange(16, dtype=np.float32).sum()\n"
    folders = {kind: copy(kind, good_py=(PROOFS / kind / "bad.py").read_text() + expected) for kind in KINDS}
    for kind, results in prove(runner, folders).items():
        assert [result.status for result in results] == ["fail"] * len(KINDS[kind]), (kind, results)
        messages = [failure.message for result in results for failure in result.failures]
        assert all(message.startswith("good.py") for message in messages), (kind, messages)


def test_only_one_level(runner: Runner) -> None:
    results = prove(runner, {kind: PROOFS / kind for kind in ("sharding", "numbers", "warns")}, "compile")
    assert [(result.level, result.status) for result in results["sharding"]] == [("compile", "pass")]
    assert results["numbers"][0].status == "skip"
    assert results["numbers"][0].reason == "main has no .lower: only level execute can check it"
    assert results["warns"][0].status == "skip"


def test_a_proof_for_other_releases_is_skipped_with_its_reason(runner: Runner, copy: Copy) -> None:
    old = copy(
        "warns", "old", proof_toml='[bad]\nwhen = { jax = "<0.1" }\nshows = "raises"\nerror = "E"\n[good]\n'
    )
    absent = copy(
        "warns",
        "absent",
        proof_toml='[bad]\nwhen = { nopkg = ">0" }\nshows = "raises"\nerror = "E"\n[good]\n',
    )
    results = prove(runner, {"old": old, "absent": absent})
    assert results["old"][0].status == "skip"
    assert results["old"][0].reason == "not for these releases: needs jax <0.1"
    assert results["absent"][0].reason == "not for these releases: needs nopkg >0"


def test_numbers_that_nothing_is_compared_with_prove_nothing(runner: Runner, copy: Copy) -> None:
    toml = '[bad]\nshows = "raises"\nerror = "Exception"\n[good]\nout = { "" = "P(\'data\', \'model\')" }\n'
    (result,) = prove(runner, {"raises": copy("raises", proof_toml=toml)})["raises"]
    assert result.status == "fail"
    assert "proves nothing" in result.failures[0].message


def test_programs_that_break_are_failures(runner: Runner, copy: Copy) -> None:
    hang = copy("warns", "hang", bad_py="import os\nos._exit(4)\n")
    wrong = copy("raises", "wrong", bad_py="def main():\n    raise KeyError('something else')\n")
    lost = copy("sharding", "lost", good_py="raise RuntimeError('no')\n")
    results = prove(runner, {"hang": hang, "wrong": wrong, "lost": lost})
    assert results["hang"][0].failures[0].message == "bad.py exited with code 4"
    assert "raised KeyError: 'something else'" in results["wrong"][0].failures[0].message
    assert "good.py: raised RuntimeError: no" in results["lost"][0].failures[0].message


def test_an_error_on_import_is_a_symptom_too(runner: Runner, copy: Copy) -> None:
    toml = '[bad]\nshows = "raises"\nerror = "ImportError"\nmessage = "old_name"\n[good]\n'
    folder = copy(
        "warns", bad_py="from jax import old_name\n", good_py="def main():\n    pass\n", proof_toml=toml
    )
    (result,) = prove(runner, {"warns": folder})["warns"]
    assert (result.status, result.checked) == ("pass", 2)


BAD = '[bad]\nshows = "raises"\nerror = "E"\n'


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("x = [", "proof.toml"),
        (BAD, r"needs a \[good\] table"),
        ("[good]\n", r"needs a \[bad\] table"),
        ("colour = 1\n" + BAD + "[good]\n", "unknown key 'colour'"),
        (BAD + "colour = 1\n[good]\n", r"unknown key 'colour' in \[\[bad\]\]"),
        ('[bad]\nshows = "crash"\n[good]\n', "shows must be one of"),
        ('[bad]\nshows = "raises"\n[good]\n', "needs error"),
        ('[bad]\nshows = "sharding"\n[good]\n', "needs out"),
        ('[bad]\nshows = "sharding"\nout = { "" = "P()" }\n[good]\n', "good needs an `out`"),
        (
            '[bad]\nshows = "sharding"\nout = { "" = "P()" }\n[good]\nout = { "" = "P()" }\n',
            "good needs an `out`",
        ),
        ('[bad]\nshows = "donation"\n[good]\n', "needs args"),
        (BAD + 'when = { jax = "0.4 or so" }\n[good]\n', "not a version specifier"),
        (BAD + '[good]\nout = { "" = "data" }\n', "is not a spec"),
        (BAD + 'message = "("\n[good]\n', "not a regular expression"),
        ('donate = ["x"]\n' + BAD + "[good]\n", "donate must list"),
        (BAD + 'when = "new"\n[good]\n', "when must be of type dict"),
        ('devices = "8"\n' + BAD + "[good]\n", "devices must be of type int"),
    ],
)
def test_a_wrong_proof_is_refused(copy: Copy, toml: str, message: str) -> None:
    with pytest.raises(BadProof, match=message):
        read_proof("warns", copy("warns", proof_toml=toml))


def test_codes_select_by_prefix(copy: Copy) -> None:
    folders = {
        "SL201": copy("raises", "SL201"),
        "SL202": copy("raises", "SL202"),
        "SL301": copy("raises", "SL301"),
    }
    (folders["SL301"] / "good.py").unlink()
    assert [proof.code for proof in select_proofs(["SL2"], folders)[0]] == ["SL201", "SL202"]
    found, failures = select_proofs(["all"], folders)
    assert [proof.code for proof in found] == ["SL201", "SL202"]
    assert "good.py: no such file" in failures[0].failures[0].message
    with pytest.raises(CannotRun, match="'SL9'"):
        select_proofs(["SL201", "SL9"], folders)
