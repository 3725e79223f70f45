"""Tests of settings about a project's own names: its mesh axes (SL340), and its banned names (SL005)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from lsprotocol import types as lsp

from shardlint.config.folders import find_settings
from shardlint.config.settings import BadSettings
from shardlint.engine.results import Options
from shardlint.engine.run import check_paths
from shardlint.testing import check_text
from tests.conftest import Write
from tests.editor import Editor, run

PLACE = """\
import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def place(x, mesh):
    return jax.device_put(x, NamedSharding(mesh, P("data", "modle")))
"""
AXES = 'axis-names = ["data", "model"]\n'
BANS = '[banned-calls]\n"jax.device_put" = "use acme.place, which keeps the mesh"\n'


def told(root: Path, *, cached: bool = False, **options: tuple[str, ...]) -> list[str]:
    """File, line and code of what is found of the two rules."""
    report = check_paths([root], Options(**options), cached=cached)  # type: ignore[arg-type]
    return sorted(
        f"{file.path.relative_to(root).as_posix()}:{file.source.position_of(one.start)[0]} {one.rule.code}"
        for file in report.reports
        for one in file.findings
        if one.rule.code in ("SL005", "SL340", "SL301")
    )


# where the settings may stand


@pytest.mark.parametrize("name", ["shardlint.toml", "pyproject.toml"])
def test_either_file_may_say_it_and_without_it_nothing_is_said(write: Write, name: str) -> None:
    root = write({"a.py": PLACE})
    assert told(root) == told(root, select=("SL005", "SL340")) == []
    text = AXES + BANS
    if name == "pyproject.toml":
        text = "[tool.shardlint]\n" + text.replace("[banned", "[tool.shardlint.banned")
    (root / name).write_text(text)
    assert told(root) == ["a.py:6 SL005", "a.py:6 SL340"]
    assert told(root, ignore=("SL340",)) == told(root, select=("banned-call",)) == ["a.py:6 SL005"]
    (root / name).write_text(text.replace('["data", "model"]', "[]"))
    assert told(root) == ["a.py:6 SL005"]


def test_a_file_that_extends_another_replaces_each_setting_whole(write: Write) -> None:
    root = write({"base.toml": AXES + BANS, "shardlint.toml": 'extend = "base.toml"\n', "a.py": PLACE})
    assert told(root) == ["a.py:6 SL005", "a.py:6 SL340"]
    (root / "shardlint.toml").write_text('extend = "base.toml"\naxis-names = ["data", "modle"]\n')
    assert told(root) == ["a.py:6 SL005"]
    (root / "shardlint.toml").write_text('extend = "base.toml"\nbanned-calls = {}\n')
    assert told(root) == ["a.py:6 SL340"]


def test_some_files_may_do_it(write: Write) -> None:
    ignores = '[per-file-ignores]\n"scripts/*" = ["SL340"]\n"acme/place.py" = ["banned-call"]\n'
    files = {"acme/place.py": PLACE, "scripts/place.py": PLACE, "shardlint.toml": AXES + BANS + ignores}
    assert told(write(files)) == ["acme/place.py:6 SL340", "scripts/place.py:6 SL005"]


def test_tests_may_have_axes_of_their_own_that_look_like_none_of_the_project(write: Write) -> None:
    other = PLACE.replace("modle", "rows")
    root = write({"tests/test_a.py": PLACE, "tests/test_b.py": other, "b.py": other, "shardlint.toml": AXES})
    assert told(root) == ["b.py:6 SL340", "tests/test_a.py:6 SL340"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\naxis-name = ['data']", "shardlint.toml:2: unknown setting 'axis-name'; did you mean axis-names?"),
        ("axes-names = ['data']", "unknown setting 'axes-names'; did you mean axis-names?"),
        ("pedantic = true\n[banned-call]", "toml:2: unknown setting 'banned-call'; did you mean banned-calls?"),
        ("axis-names = 'data'", 'toml:1: axis-names is \'data\'; write a list of strings such as ["data", "fsdp"'),
        ("axis-names = ['data', '']", "axis-names is ['data', '']; write each name once"),
        ("axis-names = ['data', 'data']", "write each name once"),
        ("#\n\nbanned-calls = ['jax.jit']", "toml:3: banned-calls is ['jax.jit']; write a table such as"),
        ("[banned-calls]\n'jax.jit' = 'no'\n'jax.pmap' = 3", "toml:3: banned-calls.jax.pmap is 3; write what to use"),
        ("[banned-calls]\n'jax.pmap' = ' '", "toml:2: banned-calls.jax.pmap is ' '; write what to use instead"),
        ("[banned-calls]\njax.pmap = 'no'", "banned-calls.jax is not a full name; write a full name such as jax.device_put"),
        ("[banned-calls]\n'device_put' = 'no'", "toml:2: banned-calls.device_put is not a full name"),
        ("[banned-calls]\n'jax.device_put()' = 'no'", "banned-calls.jax.device_put() is not a full name"),
        (
            "axis-names = ['data', 'model']\nmesh-makers = {'a.b' = ['modle']}",
            "mesh-makers.a.b names the axis 'modle', which axis-names does not contain; did you mean model?",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line(write: Write, text: str, says: str) -> None:
    root = write({"shardlint.toml": text})
    with pytest.raises(BadSettings) as error:
        find_settings(root)
    assert says in str(error.value)


def test_the_line_is_that_of_our_own_table(write: Write) -> None:
    text = "[tool.other]\nselect = 1\n\n[tool.shardlint]\nignore = []\nselect = 1\n"
    with pytest.raises(BadSettings, match=r"pyproject.toml:6: select is 1"):
        find_settings(write({"pyproject.toml": text}))


# what is found


def test_an_axis_is_told_with_what_was_perhaps_meant_and_a_fix(write: Write) -> None:
    root = write({"a.py": PLACE, "shardlint.toml": AXES})
    (report,) = check_paths([root], Options()).reports
    (one,) = report.findings
    assert one.label == 'did you mean "model"?'
    assert 'the shardlint setting `axis-names` does not list "modle"' in one.message and "data, model" in one.why
    assert one.fix is not None and one.fix.safety == "unsafe" and one.fix.message == 'write "model"'


def test_a_finding_of_the_mesh_itself_says_more_unless_it_is_not_wanted(write: Write) -> None:
    known = PLACE.replace("def place(x, mesh):", 'mesh = jax.make_mesh((4, 2), ("data", "model"))\ndef place(x):')
    root = write({"a.py": known, "shardlint.toml": AXES})
    assert told(root) == ["a.py:7 SL301"]
    assert told(root, select=("SL340",)) == ["a.py:7 SL340"]


def test_logical_names_in_another_file_keep_specs_quiet(write: Write) -> None:
    specs = 'from jax.sharding import PartitionSpec as P\n\nTABLE = {"w": P("data", "modle")}\n'
    use = "from specs import TABLE\n\nlogical_axis_rules = [('embed', 'model')]\n"
    root = write({"specs.py": specs, "shardlint.toml": AXES})
    assert told(root) == ["specs.py:3 SL340"]
    (root / "use.py").write_text(use)
    assert told(root) == []
    (root / "use.py").write_text(use.replace("logical_axis_rules", "logical_and"))
    assert told(root) == ["specs.py:3 SL340"]


BANNED = """\
import functools
import jax
from jax import device_put as put
from jax.experimental import mesh_utils
from acme import device_put as handed_on, renamed
from acme import other_name
from acme.old import place, Keeper
import acme.old as old

alias = jax.device_put  # SL005


def f(x, s):
    put(x, s)  # SL005
    alias(x)  # SL005
    jax.tree.map(jax.device_put, x)  # SL005
    once = functools.partial(jax.device_put, device=s)  # SL005
    once(x), other_name(x)
    handed_on(x)  # SL005
    renamed(x)  # SL005
    place(x)  # SL005
    old.place(x)  # SL005
    Keeper().keep(x)  # SL005
    mesh_utils.create_device_mesh((8,))  # SL005
    jax.experimental.mesh_utils.create_device_mesh((8,))  # SL005
    jax.experimental.pjit.with_sharding_constraint(x, s)  # SL005
    if not hasattr(x, "device_put"):
        x.device_put(s)
    return jax.device_get(x), old.kept(x), jax.experimental
"""


def test_a_ban_follows_names_through_imports_and_modules(write: Write) -> None:
    old = "import functools\n\n@functools.cache\ndef place(x): return x\ndef kept(x): return x\n"
    old += "class Keeper:\n    def keep(self, x): return x\n"
    bans = {
        "jax.device_put": "1",
        "jax.experimental.*": "2",
        "acme.old.place": "3",
        "acme.renamed": "4",
        "acme.old.Keeper.keep": "5",
        "torch.load": "6",
    }
    names = "from jax import device_put, device_put as other_name\nfrom acme._impl import hidden as renamed\n"
    root = write(
        {
            "acme/__init__.py": names,
            "acme/_impl.py": "def hidden(x): return x\n",
            "acme/old.py": old,
            "use.py": BANNED,
            "other.py": "import torch\n\n\ndef f(x, /):\n    return torch.load(x), x.load()\n",
            "shardlint.toml": "[banned-calls]\n" + "".join(f'"{name}" = "{text}"\n' for name, text in bans.items()),
        }
    )
    marked = [f"use.py:{n} SL005" for n, line in enumerate(BANNED.splitlines(), 1) if line.endswith("# SL005")]
    # The package hands on what it does not use itself; under another name it is not followed.
    handed_on = ["acme/__init__.py:1 SL005"] * 2
    assert told(root, select=("SL005",)) == sorted([*handed_on, "other.py:5 SL005", *marked])


def test_the_text_of_the_ban_is_told_and_a_comment_silences_it(write: Write) -> None:
    silent = "return jax.device_put(x, s)  # shardlint: ignore[SL005] this is the wrapper"
    text = f"import jax\n\n\ndef f(x, s):\n    jax.device_put(x)\n    {silent}\n"
    root = write({"a.py": text, "shardlint.toml": BANS})
    report = check_paths([root], Options(select=("SL005", "SL002")))
    assert [one.message for file in report.reports for one in file.findings] == [
        "This project bans jax.device_put (`banned-calls` in its settings): use acme.place, which keeps the mesh"
    ]
    (root / "shardlint.toml").write_text("")
    report = check_paths([root], Options())
    assert [one.rule.code for file in report.reports for one in file.findings if one.rule.code != "SL203"] == ["SL002"]


def test_names_of_either_branch_are_possible(write: Write) -> None:
    text = """\
        try:
            from jax import shard_map
        except ImportError:
            from jax.experimental.shard_map import shard_map

        mapped = shard_map(lambda x: x, mesh=None, in_specs=None, out_specs=None)
        """
    root = write({"a.py": text, "shardlint.toml": '[banned-calls]\n"jax.experimental.shard_map.shard_map" = "no"\n'})
    assert told(root, select=("SL005",)) == []
    report = check_paths([root], Options(select=("SL005",), certainty=find_settings(root).certainty.POSSIBLE))
    assert [one.certainty for file in report.reports for one in file.findings] == ["possible"]


def test_settings_of_a_program_with_marks() -> None:
    text = "# settings: banned-calls = { 'jax.jit' = 'use acme.jit' }\nimport jax\n\nf = jax.jit(abs)  # SL005\n"
    check_text("SL005", text)
    with pytest.raises(AssertionError):
        check_text("SL005", text.partition("\n")[2])


# runs, formats and editors


def test_what_was_kept_holds_for_its_settings_alone(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDLINT_CACHE_DIR", str(tmp_path / "memory"))
    plain = "import json\n\n\ndef load(text):\n    return json.loads(text)\n"
    root = write({"a.py": PLACE, "plain.py": plain, "shardlint.toml": AXES})
    for _ in range(2):
        assert told(root, cached=True) == ["a.py:6 SL340"]
    (root / "shardlint.toml").write_text(AXES + BANS)
    for _ in range(2):
        assert told(root, cached=True) == ["a.py:6 SL005", "a.py:6 SL340"]
    # A file that no rule is interested in without the ban.
    (root / "shardlint.toml").write_text(AXES + '[banned-calls]\n"json.loads" = "use acme.read"\n')
    for _ in range(2):
        assert told(root, cached=True) == ["a.py:6 SL340", "plain.py:5 SL005"]
    (root / "plain.py").write_text(plain + "\n\n" + plain)  # one that is known, and changes
    assert told(root, cached=True) == ["a.py:6 SL340", "plain.py:12 SL005", "plain.py:5 SL005"]
    (root / "shardlint.toml").write_text('axis-names = ["data", "modle"]\n')
    for _ in range(2):
        assert told(root, cached=True) == []


def test_the_cause_of_a_finding_may_be_in_another_file(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARDLINT_CACHE_DIR", str(tmp_path / "memory"))
    use = "from hand import put\n\n\ndef f(x):\n    return put(x)\n"
    root = write({"hand.py": "from acme import put\n", "use.py": use, "shardlint.toml": BANS.replace("device_put", "put")})
    assert told(root, cached=True) == []
    (root / "hand.py").write_text("from jax import put\n")
    assert told(root, cached=True) == ["hand.py:1 SL005", "use.py:5 SL005"]


def test_sarif_holds_them_with_their_rules(write: Write) -> None:
    root = write({"a.py": PLACE, "shardlint.toml": AXES + BANS})
    command = [sys.executable, "-m", "shardlint", "check", "--output-format", "sarif", "--no-cache", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False)
    (log,) = json.loads(done.stdout)["runs"]
    found = {one["ruleId"]: one["message"]["text"] for one in log["results"]}
    assert set(found) == {"SL005", "SL340"}
    assert "use acme.place, which keeps the mesh" in found["SL005"] and 'rite "model"' in found["SL340"]
    assert {"SL005", "SL340"} <= {rule["id"] for rule in log["tool"]["driver"]["rules"]}


def test_an_editor_is_told_when_the_settings_change(write: Write) -> None:
    root = write({"a.py": PLACE, "shardlint.toml": ""})

    def say(editor: Editor, text: str) -> None:
        (root / "shardlint.toml").write_text(text)
        changed = lsp.FileEvent((root / "shardlint.toml").as_uri(), lsp.FileChangeType.Changed)
        editor.client.workspace_did_change_watched_files(lsp.DidChangeWatchedFilesParams([changed]))

    async def session(editor: Editor) -> None:
        await editor.start(root)
        uri = editor.open(root / "a.py")
        await editor.codes(uri)
        say(editor, AXES)
        (found,) = await editor.codes(uri, "SL340")
        assert 'rite "model"' in found.message
        say(editor, AXES + BANS)
        await editor.codes(uri, "SL005", "SL340")
        editor.type(uri, '"modle"', '"model"')
        await editor.codes(uri, "SL005")
        say(editor, "axis-names = 3\n")
        (found,) = await editor.codes(uri, "settings")
        assert "shardlint.toml:1: axis-names is 3" in found.message
        say(editor, AXES)
        await editor.codes(uri)

    run(session)
