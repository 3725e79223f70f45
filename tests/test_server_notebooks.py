"""Notebooks in the language server, as an editor sends them: a document for each cell."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from lsprotocol import types as lsp

from tests.editor import Editor, place, run

Write = Callable[..., Path]

SETUP = """\
%matplotlib inline
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
by_rows = NamedSharding(mesh, P("data", "model"))"""
PROSE = "# What this is"
STEP = """\
@jax.jit
def step(x):
    return x + 1.0"""
CALL = "with jax.set_mesh(mesh):\n    step(jnp.ones((8, 8)))"
PLACED = STEP.replace("x + 1.0", "jax.device_put(x + 1.0, by_rows)")


class Book:
    """A notebook in an editor; the first letter of a cell's name says whether it holds code."""

    def __init__(self, editor: Editor, path: Path, **cells: str) -> None:
        self.editor, self.uri, self.version, self.names = editor, path.as_uri(), 1, list(cells)
        document = lsp.NotebookDocument(self.uri, "jupyter-notebook", 1, self._cells(cells))
        editor.client.notebook_document_did_open(
            lsp.DidOpenNotebookDocumentParams(document, self._items(cells))
        )

    def cell(self, name: str) -> str:
        return self.uri.replace("file:", "vscode-notebook-cell:") + f"#{name}"

    def _cells(self, names: Sequence[str] | dict[str, str]) -> list[lsp.NotebookCell]:
        kinds = {"c": lsp.NotebookCellKind.Code, "p": lsp.NotebookCellKind.Markup}
        return [lsp.NotebookCell(kinds[name[0]], self.cell(name)) for name in names]

    def _items(self, cells: dict[str, str]) -> list[lsp.TextDocumentItem]:
        for name, text in cells.items():
            self.editor.texts[self.cell(name)], self.editor.versions[self.cell(name)] = text, 1
        return [
            lsp.TextDocumentItem(self.cell(name), "python" if name[0] == "c" else "markdown", 1, text)
            for name, text in cells.items()
        ]

    def type(self, name: str, old: str, new: str) -> None:
        uri, text = self.cell(name), self.editor.texts[self.cell(name)]
        assert text.count(old) == 1
        at = text.index(old)
        self.editor.texts[uri] = text.replace(old, new)
        self.editor.versions[uri] += 1
        change = lsp.TextDocumentContentChangePartial(
            range=lsp.Range(place(text, at), place(text, at + len(old))), text=new
        )
        versioned = lsp.VersionedTextDocumentIdentifier(version=self.editor.versions[uri], uri=uri)
        self._did(
            lsp.NotebookDocumentCellChanges(
                text_content=[lsp.NotebookDocumentCellContentChanges(versioned, [change])]
            )
        )

    def splice(self, start: int, gone: int, **new: str) -> None:
        """Put cells in the place of others."""
        closed = [lsp.TextDocumentIdentifier(self.cell(name)) for name in self.names[start : start + gone]]
        self.names[start : start + gone] = list(new)
        array = lsp.NotebookCellArrayChange(start, gone, self._cells(new))
        structure = lsp.NotebookDocumentCellChangeStructure(array, self._items(new), closed)
        self._did(lsp.NotebookDocumentCellChanges(structure))

    def _did(self, cells: lsp.NotebookDocumentCellChanges) -> None:
        self.version += 1
        self.editor.client.notebook_document_did_change(
            lsp.DidChangeNotebookDocumentParams(
                lsp.VersionedNotebookDocumentIdentifier(self.version, self.uri),
                lsp.NotebookDocumentChangeEvent(cells=cells),
            )
        )

    def close(self) -> None:
        self.editor.client.notebook_document_did_close(
            lsp.DidCloseNotebookDocumentParams(
                lsp.NotebookDocumentIdentifier(self.uri),
                [lsp.TextDocumentIdentifier(self.cell(name)) for name in self.names],
            )
        )


def started(session: Callable[[Editor, Path], Awaitable[None]], root: Path) -> None:
    async def whole(editor: Editor) -> None:
        begun = await editor.start(root)
        assert begun.capabilities.notebook_document_sync is not None
        await session(editor, root)

    run(whole)


def test_findings_stand_in_their_cell(write: Write) -> None:
    async def session(editor: Editor, root: Path) -> None:
        book = Book(editor, root / "look.ipynb", c1=SETUP, p1=PROSE, c2=STEP, c3=CALL)
        await editor.codes(book.cell("c2"))
        book.type("c2", "x + 1.0", "jax.device_put(x + 1.0, by_rows)")
        (found,) = await editor.codes(book.cell("c2"), "SL201")
        assert (found.range.start.line, found.range.start.character, found.range.end.character) == (2, 11, 25)
        assert "traced by jax.jit at line 1 of cell 3" in found.message
        for other in ("c1", "c3"):
            await editor.codes(book.cell(other))
        assert book.cell("p1") not in editor.found
        book.type("c2", "jax.device_put(x + 1.0, by_rows)", "x + 2.0")
        await editor.codes(book.cell("c2"))
        book.type("c1", "jax.devices()", "jax.device_put(\n    jax.devices())")
        book.type("c1", 'P("data", "model")', 'P("data", "modle")')
        (found,) = await editor.codes(book.cell("c1"), "SL301")
        assert editor.texts[book.cell("c1")].split("\n")[found.range.start.line].startswith("by_rows")

    started(session, write({"pyproject.toml": ""}))


@pytest.mark.longer
def test_a_fix_and_a_comment_change_their_cell_alone(write: Write) -> None:
    async def session(editor: Editor, root: Path) -> None:
        book = Book(editor, root / "look.ipynb", c1=SETUP, p1=PROSE, c2=PLACED, c3=CALL)
        uri = book.cell("c2")
        (found,) = await editor.codes(uri, "SL201")
        fix, comment = await editor.actions(uri, found.range)
        for action, line in (
            (fix, "    return jax.lax.with_sharding_constraint(x + 1.0, by_rows)"),
            (comment, "    return jax.device_put(x + 1.0, by_rows)  # shardlint: ignore[SL201] TODO: say why"),
        ):
            resolved = await editor.client.code_action_resolve_async(action)
            assert resolved.edit is not None
            (document,) = resolved.edit.document_changes or []
            assert isinstance(document, lsp.TextDocumentEdit)
            assert (document.text_document.uri, document.text_document.version) == (uri, 1)
            (edit,) = document.edits
            assert isinstance(edit, lsp.TextEdit)
            assert (edit.range.start.line, edit.new_text) == (2, line)
        assert not await editor.actions(book.cell("c3"), lsp.Range(lsp.Position(0, 0), lsp.Position(1, 5)))

    started(session, write({"pyproject.toml": ""}))


OLD = """\
from jax.experimental.shard_map import shard_map
from jax.sharding import PartitionSpec as P"""
OLD_CALL = "make = lambda f, mesh: shard_map(f, mesh=mesh, in_specs=P(), out_specs=P(), check_rep=False)"


@pytest.mark.longer
@pytest.mark.parametrize("kind", ["notebook.source.fixAll", "source.fixAll"])
def test_all_safe_fixes_of_a_notebook_are_made_when_it_is_saved(write: Write, kind: str) -> None:
    async def session(editor: Editor, root: Path) -> None:
        book = Book(editor, root / "look.ipynb", c1="width = 3", p1=PROSE, c2=OLD, c3=OLD_CALL)
        await editor.until(book.cell("c2"), lambda found: len(found) == 1)
        start = lsp.Position(0, 0)
        (action,) = await editor.actions(book.cell("c1"), lsp.Range(start, start), only=[kind])
        assert action.kind == f"{kind}.shardlint"
        resolved = await editor.client.code_action_resolve_async(action)
        assert resolved.edit is not None
        changed = {one.text_document.uri for one in resolved.edit.document_changes or []}  # type: ignore[union-attr]
        assert changed == {book.cell("c2"), book.cell("c3")}
        assert not await editor.actions(book.cell("c1"), lsp.Range(start, start), only=["notebook.other"])

    started(session, write({"pyproject.toml": ""}))


@pytest.mark.longer
def test_hover_and_lens_know_the_other_cells(write: Write) -> None:
    async def session(editor: Editor, root: Path) -> None:
        book = Book(editor, root / "look.ipynb", c1=SETUP, p1=PROSE, c2=PLACED, c3=CALL)
        uri = book.cell("c2")
        await editor.codes(uri, "SL201")
        told = await editor.hover(uri, lsp.Position(2, 20))
        assert "SL201 device-put-in-jit" in told and "data=4 model=2" in told.replace(",", "")
        for name, lenses in (("c1", 0), ("c2", 1), ("c3", 0)):
            identifier = lsp.TextDocumentIdentifier(book.cell(name))
            lens = await editor.client.text_document_code_lens_async(lsp.CodeLensParams(identifier))
            assert len(lens or []) == lenses, name
            for one in lens or []:
                assert one.command is not None
                assert one.command.title.startswith("traced by jax.jit") and one.range.start.line in (0, 1)

    started(session, write({"pyproject.toml": ""}))


def test_cells_come_go_and_move(write: Write) -> None:
    async def session(editor: Editor, root: Path) -> None:
        book = Book(editor, root / "look.ipynb", c1=SETUP, c2=STEP, c3=CALL)
        await editor.codes(book.cell("c2"))
        book.splice(1, 1, p1=PROSE, c4="%%time\n" + PLACED)
        (found,) = await editor.codes(book.cell("c4"), "SL201")
        assert (found.range.start.line, found.range.start.character) == (3, 11)
        book.splice(0, 0, c5="width = 3\n\n\n")
        (found,) = await editor.codes(book.cell("c4"), "SL201")
        assert found.range.start.line == 3
        book.splice(3, 1)  # the step is gone
        assert await editor.until(book.cell("c4"), lambda found: not found) == []
        book.splice(3, 0, c6=PLACED)
        await editor.codes(book.cell("c6"), "SL201")
        book.close()
        assert await editor.until(book.cell("c6"), lambda found: not found) == []

    started(session, write({"pyproject.toml": ""}))


@pytest.mark.longer
def test_a_broken_cell_is_said_to_be_broken(write: Write) -> None:
    async def session(editor: Editor, root: Path) -> None:
        book = Book(editor, root / "look.ipynb", c1=SETUP, c2=PLACED, c3=CALL)
        await editor.codes(book.cell("c2"), "SL201")
        book.type("c3", "with jax", "with with jax")
        (broken,) = await editor.codes(book.cell("c3"), "SL001")
        assert broken.range.start.line == 0 and "The cell is skipped" in broken.message
        (fresh,) = await editor.codes(book.cell("c2"), "SL201")  # the other cells are checked all the same
        assert "As it was before" not in fresh.message
        book.type("c3", "with with jax", "with jax")
        await editor.codes(book.cell("c3"))
        (found,) = await editor.until(book.cell("c2"), lambda found: "As it was" not in found[0].message)
        assert found.code == "SL201"

    started(session, write({"pyproject.toml": ""}))


@pytest.mark.longer
@pytest.mark.parametrize("texts", [{}, {"c1": ""}, {"p1": PROSE}, {"c1": "x = 1\n# %% cell 3\ny = 2", "c2": "z"}])
def test_odd_notebooks_are_no_trouble(write: Write, texts: dict[str, str]) -> None:
    async def session(editor: Editor, root: Path) -> None:
        book = Book(editor, root / "look.ipynb", **texts)
        other = editor.open(root / "train.py")
        await editor.codes(other, "SL201")
        for name in texts:
            await editor.hover(book.cell(name), lsp.Position(9, 9))
            await editor.actions(book.cell(name), lsp.Range(lsp.Position(0, 0), lsp.Position(9, 9)))
        book.splice(0, len(texts), c8=SETUP, c9=PLACED)
        await editor.codes(book.cell("c9"), "SL201")
        assert not editor.logged, editor.logged

    train = SETUP.partition("\n")[2] + "\n\n\n" + PLACED + "\n"
    started(session, write({"pyproject.toml": "", "train.py": train}))


@pytest.mark.longer
def test_a_notebook_and_a_module_that_are_not_saved_know_each_other(write: Write) -> None:
    async def session(editor: Editor, root: Path) -> None:
        helpers = editor.open(root / "helpers.py")
        await editor.codes(helpers)
        step = "from helpers import put\n" + STEP.replace("x + 1.0", "put(x, by_rows)")
        book = Book(editor, root / "look.ipynb", c1=SETUP, c2=step, c3=CALL)
        await editor.codes(helpers, "SL201")
        book.type("c2", "@jax.jit\n", "")
        await editor.codes(helpers)

    helpers = "import jax\n\n\ndef put(x, sharding):\n    return jax.device_put(x, sharding)\n"
    started(session, write({"pyproject.toml": "", "helpers.py": helpers}))


@pytest.mark.longer
def test_a_cell_that_looks_like_two_is_not_taken_apart(write: Write) -> None:
    async def session(editor: Editor, root: Path) -> None:
        book = Book(editor, root / "look.ipynb", c1="x = 1\n# %% cell 3\ny = 2", c2=SETUP, c3=PLACED, c4=CALL)
        uri = book.cell("c3")
        (found,) = await editor.codes(uri, "SL201")
        assert (found.range.start.line, found.range.start.character) == (2, 11)
        for action in await editor.actions(uri, found.range):
            resolved = await editor.client.code_action_resolve_async(action)
            assert not resolved.edit or not resolved.edit.document_changes
        assert len(editor.told) == 2, editor.told
        assert all(one.startswith("Not changed: ") for one in editor.told), editor.told

    started(session, write({"pyproject.toml": ""}))
