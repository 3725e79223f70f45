"""The language server as an editor sees it: a client of its own, over standard input and output."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable
from pathlib import Path

import pytest
from lsprotocol import types as lsp

from tests.editor import Editor, place, run

pytestmark = pytest.mark.longer

Write = Callable[..., Path]

MESH = """\
import jax
import numpy as np
from jax.sharding import Mesh

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
"""
TRAIN = """\
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from mesh import mesh

by_rows = NamedSharding(mesh, P("data", "model"))


@jax.jit
def step(x):
    return x + 1.0


with jax.set_mesh(mesh):
    step(jnp.ones((8, 8)))
"""
PLACED = TRAIN.replace("return x + 1.0", "return jax.device_put(x + 1.0, by_rows)")
OLD = """\
from jax.experimental.shard_map import shard_map
from jax.sharding import PartitionSpec as P


def make(f, mesh):
    return shard_map(f, mesh=mesh, in_specs=P(), out_specs=P(), check_rep=False)
"""


def test_findings_come_as_one_types_and_go_when_fixed(write: Write) -> None:
    root = write({"mesh.py": MESH, "train.py": TRAIN})

    async def session(editor: Editor) -> None:
        started = await editor.start(root)
        assert started.server_info is not None and started.server_info.name == "shardlint"
        uri = editor.open(root / "train.py")
        await editor.codes(uri)
        editor.type(uri, "x + 1.0", "jax.device_put(x + 1.0, by_rows)")
        (found,) = await editor.codes(uri, "SL201")
        assert found.severity == lsp.DiagnosticSeverity.Error and found.source == "shardlint"
        assert "`device_put` has no effect in traced code" in found.message
        assert editor.texts[uri].split("\n")[found.range.start.line].count("device_put") == 1
        editor.type(uri, "jax.device_put(x + 1.0, by_rows)", "x + 2.0")
        await editor.codes(uri)

    run(session)


def test_unsaved_text_of_one_file_counts_in_another(write: Write) -> None:
    root = write({"mesh.py": MESH, "train.py": TRAIN})

    async def session(editor: Editor) -> None:
        await editor.start(root)
        train = editor.open(root / "train.py")
        await editor.codes(train)
        mesh = editor.open(root / "mesh.py")
        await editor.codes(mesh)
        editor.type(mesh, '"model"', '"tensor"')
        (found,) = await editor.codes(train, "SL301")
        assert 'no axis "model"' in found.message
        editor.close(mesh)  # what was not saved is no more
        await editor.codes(train)

    run(session)


def test_what_changes_on_the_disk_counts(write: Write) -> None:
    root = write({"mesh.py": MESH, "train.py": TRAIN})

    async def session(editor: Editor) -> None:
        await editor.start(root)
        uri = editor.open(root / "train.py")
        await editor.codes(uri)
        (root / "mesh.py").write_text(MESH.replace('"model"', '"tensor"'))
        changed = lsp.FileEvent((root / "mesh.py").as_uri(), lsp.FileChangeType.Changed)
        editor.client.workspace_did_change_watched_files(lsp.DidChangeWatchedFilesParams([changed]))
        await editor.codes(uri, "SL301")
        (root / "shardlint.toml").write_text('ignore = ["SL301", "SL351"]\n')  # which stands behind it
        changed = lsp.FileEvent((root / "shardlint.toml").as_uri(), lsp.FileChangeType.Created)
        editor.client.workspace_did_change_watched_files(lsp.DidChangeWatchedFilesParams([changed]))
        await editor.codes(uri)

    run(session)


def test_a_module_that_was_never_saved_is_there(write: Write) -> None:
    root = write({"train.py": TRAIN})

    async def session(editor: Editor) -> None:
        await editor.start(root)
        train = editor.open(root / "train.py")
        await editor.codes(train)
        editor.open(root / "mesh.py", MESH.replace('"model"', '"tensor"'))
        await editor.codes(train, "SL301")

    run(session)


def test_broken_code_is_said_to_be_broken_and_keeps_what_was_known(write: Write) -> None:
    root = write({"mesh.py": MESH, "train.py": PLACED})

    async def session(editor: Editor) -> None:
        await editor.start(root)
        uri = editor.open(root / "train.py")
        await editor.codes(uri, "SL201")
        editor.type(uri, "with jax.set_mesh(mesh):", "\n\nwith jax.set_mesh(mesh:")
        found = await editor.codes(uri, "SL001", "SL201")
        broken = next(one for one in found if one.code == "SL001")
        assert broken.range.start.line == 16 and "Nothing in the file was checked" in broken.message
        kept = next(one for one in found if one.code == "SL201")
        assert "no longer parse" in kept.message and kept.range.start.line == 11
        assert await editor.actions(uri, kept.range) == []
        editor.type(uri, "def step(x):", "def step(x):\n    # longer")
        await editor.until(uri, lambda found: any(one.range.start.line == 12 for one in found))
        editor.type(uri, "mesh(mesh:", "mesh(mesh):")
        (found,) = await editor.codes(uri, "SL201")
        assert "no longer parse" not in found.message

    run(session)


def test_a_file_that_is_broken_from_the_start_is_not_called_clean(write: Write) -> None:
    root = write({"a.py": "import jax\ndef f(:\n"})

    async def session(editor: Editor) -> None:
        await editor.start(root, settings={"ignore": ["SL0"]})
        uri = editor.open(root / "a.py")
        (found,) = await editor.codes(uri, "SL001")
        assert found.range.start == lsp.Position(1, 6)

    run(session)


def test_a_fix_is_that_of_fix(write: Write) -> None:
    root = write({"mesh.py": MESH, "train.py": PLACED})

    async def session(editor: Editor) -> None:
        await editor.start(root)
        uri = editor.open(root / "train.py")
        (found,) = await editor.codes(uri, "SL201")
        actions = await editor.actions(uri, found.range, [lsp.CodeActionKind.QuickFix])
        assert [one.title.partition(":")[0] for one in actions] == ["SL201", "SL201"]
        assert "(unsafe: " in actions[0].title and not actions[0].is_preferred
        await editor.apply(actions[0])
        assert "return jax.lax.with_sharding_constraint(x + 1.0, by_rows)\n" in editor.texts[uri]
        await editor.codes(uri)

    run(session)


def test_a_finding_is_suppressed_as_add_suppressions_does(write: Write) -> None:
    root = write({"mesh.py": MESH, "train.py": PLACED})

    async def session(editor: Editor) -> None:
        await editor.start(root, settings={"suppressionReason": "known, see issue 12"})
        uri = editor.open(root / "train.py")
        (found,) = await editor.codes(uri, "SL201")
        actions = await editor.actions(uri, found.range)
        (suppress,) = [one for one in actions if "suppress" in one.title]
        await editor.apply(suppress)
        assert "ignore-next-line[SL201] known, see issue 12\n    return jax.device_put" in editor.texts[uri]
        await editor.codes(uri)

    run(session)


def test_all_safe_fixes_of_a_file_are_made_at_once(write: Write) -> None:
    root = write({"old.py": OLD, "pyproject.toml": "[tool.shardlint]\n"})

    async def session(editor: Editor) -> None:
        await editor.start(root)
        uri = editor.open(root / "old.py")
        await editor.until(uri, lambda found: len(found) > 0)
        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(9, 0))
        (action,) = await editor.actions(uri, whole, ["source.fixAll"])
        assert action.kind == "source.fixAll.shardlint"
        await editor.apply(action)
        assert "jax.experimental" not in editor.texts[uri]
        await editor.codes(uri)
        assert await editor.actions(uri, whole, ["source.fixAll"]) == []

    run(session)


def test_an_action_for_an_older_text_does_nothing(write: Write) -> None:
    root = write({"mesh.py": MESH, "train.py": PLACED})

    async def session(editor: Editor) -> None:
        await editor.start(root)
        uri = editor.open(root / "train.py")
        (found,) = await editor.codes(uri, "SL201")
        action = (await editor.actions(uri, found.range))[0]
        editor.type(uri, "x + 1.0, by_rows", "x + 3.0, by_rows")
        before = editor.texts[uri]
        await editor.apply(action)
        assert editor.texts[uri] == before and "changed since" in editor.told[0]

    run(session)


def test_hover_tells_what_explain_does_and_the_rule(write: Write) -> None:
    root = write({"mesh.py": MESH, "train.py": PLACED})

    async def session(editor: Editor) -> None:
        await editor.start(root)
        uri = editor.open(root / "train.py")
        await editor.codes(uri, "SL201")
        text = editor.texts[uri]
        told = await editor.hover(uri, place(text, text.index("device_put") + 2))
        assert "SL201 device-put-in-jit" in told and "traced by jax.jit at line 10" in told
        assert "set_mesh at line 15: mesh (data=4, model=2)" in told
        told = await editor.hover(uri, place(text, text.index("by_rows)") + 1))
        assert "NamedSharding(mesh (data=4, model=2) at mesh.py:5, P('data', 'model'))" in told
        assert "x + 1.0" not in told
        assert await editor.hover(uri, lsp.Position(3, 0)) == ""

    run(session)


def test_a_lens_stands_over_what_is_traced(write: Write) -> None:
    root = write({"mesh.py": MESH, "train.py": TRAIN + "\n\ndef other(x):\n    return x\n"})

    async def session(editor: Editor) -> None:
        await editor.start(root)
        uri = editor.open(root / "train.py")
        await editor.codes(uri)
        asked = lsp.CodeLensParams(lsp.TextDocumentIdentifier(uri))
        (lens,) = await editor.client.text_document_code_lens_async(asked) or []
        assert lens.command is not None and lens.command.title == "traced by jax.jit, mesh data=4 model=2"
        assert lens.range.start.line == 10

    run(session)


@pytest.mark.parametrize("shown", [True, False])
def test_layouts_stand_behind_the_lines_that_make_arrays(write: Write, shown: bool) -> None:
    text = (
        "import jax\nimport jax.numpy as jnp\nfrom jax.sharding import AxisType, NamedSharding, PartitionSpec as P\n\n"
        'mesh = jax.make_mesh((2, 4), ("a", "b"), axis_types=(AxisType.Auto, AxisType.Auto))\n'
        'x = jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, P("a")))  \n'
    )
    root = write({"train.py": text})

    async def session(editor: Editor) -> None:
        await editor.start(root, settings={"layoutHints": shown})
        uri = editor.open(root / "train.py")
        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(9, 0))
        asked = lsp.InlayHintParams(lsp.TextDocumentIdentifier(uri), whole)
        hints = await editor.client.text_document_inlay_hint_async(asked) or []
        expected = [(5, len(text.splitlines()[5].rstrip()), "x: float32[8@a, 4]")] if shown else []
        assert [(one.position.line, one.position.character, one.label) for one in hints] == expected

    run(session)


def test_each_folder_is_a_project_with_its_own_settings(write: Write) -> None:
    root = write({})
    for name in ("one", "two"):
        (root / name).mkdir()
        (root / name / "mesh.py").write_text(MESH.replace("model", "tensor") if name == "two" else MESH)
        (root / name / "train.py").write_text(PLACED)
        (root / name / "shardlint.toml").write_text('ignore = ["SL201"]\n' if name == "one" else "")

    async def session(editor: Editor) -> None:
        one, two = root / "one", root / "two"
        editor.configuration = {None: {}, two.as_uri(): {"ignore": ["SL303"]}}
        await editor.start(one, two, pull=True)
        first, second = editor.open(one / "train.py"), editor.open(two / "train.py")
        await editor.codes(first)
        await editor.codes(second, "SL201", "SL301")
        editor.configuration[two.as_uri()] = {"select": ["SL301"]}
        editor.client.workspace_did_change_configuration(lsp.DidChangeConfigurationParams(None))
        await editor.codes(second, "SL301")
        await editor.codes(first)

    run(session)


def test_settings_of_the_editor_choose(write: Write) -> None:
    root = write({"mesh.py": MESH, "train.py": PLACED})

    async def session(editor: Editor) -> None:
        await editor.start(root, settings={"shardlint": {"ignore": ["SL201"], "certainty": "sure"}})
        uri = editor.open(root / "train.py")
        await editor.codes(uri)
        assert any(
            "certainty is 'sure'; write one of proven, likely, possible" in one for one in editor.logged
        )
        changed = lsp.DidChangeConfigurationParams({"shardlint": {"select": ["SL2"]}})
        editor.client.workspace_did_change_configuration(changed)
        await editor.codes(uri, "SL201")
        changed = lsp.DidChangeConfigurationParams({"shardlint": {"select": ["SL9999"]}})
        editor.client.workspace_did_change_configuration(changed)
        (found,) = await editor.codes(uri, "settings")
        assert "SL9999" in found.message

    run(session)


def test_broken_settings_are_no_silence(write: Write) -> None:
    root = write({"mesh.py": MESH, "train.py": PLACED, "shardlint.toml": "selekt = []\n"})

    async def session(editor: Editor) -> None:
        await editor.start(root)
        uri = editor.open(root / "train.py")
        (found,) = await editor.codes(uri, "settings")
        assert "did you mean select" in found.message and found.range.start.line == 0

    run(session)


def test_what_the_settings_leave_out_or_the_baseline_knows_is_not_shown(write: Write) -> None:
    root = write({"mesh.py": MESH, "train.py": PLACED, "left/out.py": PLACED})
    (root / "shardlint.toml").write_text('exclude = ["left/"]\n')

    async def session(editor: Editor) -> None:
        await editor.start(root)
        out, uri = editor.open(root / "left" / "out.py"), editor.open(root / "train.py")
        await editor.codes(uri, "SL201")
        await editor.codes(out)

    run(session)
    from shardlint.cli.baseline import record_baselines
    from shardlint.engine.results import Options

    record_baselines([root], Options(), add=False, cached=False)

    async def again(editor: Editor) -> None:
        await editor.start(root)
        uri = editor.open(root / "train.py")
        await editor.codes(uri)
        editor.type(uri, "return jax", "x = jax.device_put(x, by_rows)\n    return jax")
        (found,) = await editor.codes(uri, "SL201")
        assert found.range.start.line == 11

    run(again)


@pytest.mark.parametrize("encoding", [None, lsp.PositionEncodingKind.Utf8])
def test_places_are_right_behind_letters_of_any_kind(
    write: Write, encoding: lsp.PositionEncodingKind | None
) -> None:
    line = "größe = 'ß𝔘\x0c\u2028'; y = jax.device_put(x + 1.0, by_rows); return y"
    root = write({"mesh.py": MESH, "train.py": PLACED})
    text = PLACED.replace("return jax.device_put(x + 1.0, by_rows)", line)

    async def session(editor: Editor) -> None:
        await editor.start(root, encodings=[encoding] if encoding else None)
        uri = editor.open(root / "train.py", text)
        (found,) = await editor.codes(uri, "SL201")
        unit, codec = (1, "utf-8") if encoding else (2, "utf-16-le")
        before = f"    {line[: line.index('jax.device_put')]}"
        assert found.range.start == lsp.Position(11, len(before.encode(codec)) // unit)
        if encoding is None:
            editor.type(uri, "x + 1.0, by_rows); return y", "x + 1.0, by_rows); return y + '𝔘'")
            editor.type(uri, "jax.device_put(x + 1.0, by_rows)", "x")
            await editor.codes(uri)
            assert "x" in await editor.hover(
                uri, place(editor.texts[uri], editor.texts[uri].index("x; return"))
            )

    run(session)


def test_files_of_windows_keep_their_line_ends(write: Write) -> None:
    root = write({"mesh.py": MESH})

    async def session(editor: Editor) -> None:
        await editor.start(root)
        uri = editor.open(root / "train.py", PLACED.replace("\n", "\r\n"))
        (found,) = await editor.codes(uri, "SL201")
        assert found.range.start.line == 11
        (action, _) = await editor.actions(uri, found.range, [lsp.CodeActionKind.QuickFix])
        await editor.apply(action)
        assert "\n" not in editor.texts[uri].replace("\r\n", "")

    run(session)


def test_a_rule_that_fails_is_logged_and_the_others_go_on(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write({"mesh.py": MESH, "train.py": PLACED})
    pack = tmp_path / "pack"
    info = pack / "failing-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: failing\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[shardlint.rules]\nfailing = failing\n")
    (pack / "failing.py").write_text(
        "PAGES = 'https://example.org/{code}.html'\n"
        "from shardlint.rules_api.rule import *\n"
        "RULES = {'ZZ101': 'failing:Failing'}\n"
        "class Failing(Rule):\n"
        "    '''Fails.'''\n"
        "    code, name, harm, triggers = 'ZZ101', 'failing', Harm.CRASH, (Calls('jax.device_put'),)\n"
        "    def check(self, site):\n"
        "        if 'fail' in site.file.source.text:\n"
        "            raise KeyError('oh')\n"
        "        yield site.finding(site.syntax, 'Found.')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(pack))

    async def session(editor: Editor) -> None:
        await editor.start(root)
        uri = editor.open(root / "train.py")
        found = await editor.codes(uri, "SL201", "ZZ101")
        assert {one.code_description and one.code_description.href for one in found} == {
            None,
            "https://example.org/ZZ101.html",
        }
        editor.type(uri, "x + 1.0", "x + fail")
        await editor.codes(uri, "SL201")
        assert any("ZZ101" in one and "KeyError" in one for one in editor.logged)

    run(session)


def test_jax_is_never_imported_and_nothing_but_messages_is_written(write: Write) -> None:
    import subprocess
    import sys

    probe = (
        "import sys, json; import shardlint.server.serve as serve; serve.make_server().worker.end_thread(); "
        "print(json.dumps([name for name in sys.modules if name.split('.')[0] in ('jax', 'jaxlib', 'numpy')]))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_it_ends_with_the_editor(write: Write) -> None:
    import subprocess
    import sys

    server = subprocess.Popen([sys.executable, "-m", "shardlint", "server"], stdin=subprocess.PIPE)
    assert server.stdin is not None
    server.stdin.close()  # the editor is gone
    assert server.wait(timeout=60) == 0


def test_many_edits_at_once_end_with_the_last(write: Write) -> None:
    root = write({"mesh.py": MESH, "train.py": TRAIN})

    async def session(editor: Editor) -> None:
        await editor.start(root)
        uri = editor.open(root / "train.py")
        for number in range(30):
            editor.type(uri, "return ", f"y{number} = {number}\n    return ")
            if number % 10 == 0:
                await editor.hover(uri, lsp.Position(11, 12))
        editor.type(uri, "return x + 1.0", "return jax.device_put(x + 1.0, by_rows)")
        (found,) = await editor.codes(uri, "SL201")
        assert found.range.start.line == 41

    run(session)


def test_the_disk_is_looked_at_when_nobody_types(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    from shardlint.server import kept_programs
    from shardlint.server.serve import make_server
    from shardlint.server.session import ShownDiagnostics

    monkeypatch.setattr(kept_programs, "_LOOK", 0.0)
    root = write({"mesh.py": MESH, "train.py": TRAIN})
    made, shown = make_server(), queue.Queue[ShownDiagnostics]()
    made.session._show = shown.put
    try:
        item = lsp.TextDocumentItem((root / "train.py").as_uri(), "python", 1, TRAIN)
        made.protocol.fm.features[lsp.TEXT_DOCUMENT_DID_OPEN](lsp.DidOpenTextDocumentParams(item))
        assert shown.get(timeout=60).findings == ()
        (root / "mesh.py").write_text(MESH.replace('"model"', '"tensor"'))
        made.worker.check_later(give_up=False)  # as for an edit: nobody says that the disk is another
        assert [one.rule.code for one in shown.get(timeout=60).findings] == ["SL301"]
    finally:
        made.worker.end_thread()
