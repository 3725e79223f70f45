"""An editor: a real client of the language server, which runs as a process of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

# A loaded machine may take its time.
PATIENCE = 60.0


class Editor:
    """Opens, types, asks. Texts and findings by path."""

    def __init__(self) -> None:
        self.client = LanguageClient("test-editor", "1")
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.found: dict[str, lsp.PublishDiagnosticsParams] = {}
        self.logged: list[str] = []
        self.told: list[str] = []
        self.configuration: dict[str | None, Any] = {}
        self._news = asyncio.Event()

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def _(params: lsp.PublishDiagnosticsParams) -> None:
            self.found[params.uri] = params
            self._news.set()

        @self.client.feature(lsp.WINDOW_LOG_MESSAGE)
        def _(params: lsp.LogMessageParams) -> None:
            self.logged.append(params.message)

        @self.client.feature(lsp.WINDOW_SHOW_MESSAGE)
        def _(params: lsp.ShowMessageParams) -> None:
            self.told.append(params.message)

        @self.client.feature(lsp.WORKSPACE_CONFIGURATION)
        def _(params: lsp.ConfigurationParams) -> list[Any]:
            return [
                self.configuration.get(item.scope_uri, self.configuration.get(None)) for item in params.items
            ]

        @self.client.feature(lsp.CLIENT_REGISTER_CAPABILITY)
        def _(params: lsp.RegistrationParams) -> None:
            return None

    async def start(
        self, *folders: Path, settings: Any = None, pull: bool = False, encodings: list[Any] | None = None
    ) -> lsp.InitializeResult:
        await self.client.start_io(sys.executable, "-m", "shardlint", "server")
        resolve = lsp.ClientCodeActionResolveOptions(["edit"])
        capabilities = lsp.ClientCapabilities(
            general=lsp.GeneralClientCapabilities(position_encodings=encodings),
            notebook_document=lsp.NotebookDocumentClientCapabilities(
                lsp.NotebookDocumentSyncClientCapabilities()
            ),
            text_document=lsp.TextDocumentClientCapabilities(
                code_action=lsp.CodeActionClientCapabilities(resolve_support=resolve)
            ),
            workspace=lsp.WorkspaceClientCapabilities(
                configuration=pull,
                workspace_edit=lsp.WorkspaceEditClientCapabilities(document_changes=True),
            ),
        )
        named = [lsp.WorkspaceFolder(folder.as_uri(), folder.name) for folder in folders]
        started = await self.client.initialize_async(
            lsp.InitializeParams(capabilities, workspace_folders=named, initialization_options=settings)
        )
        self.client.initialized(lsp.InitializedParams())
        return started

    async def stop(self) -> None:
        await asyncio.wait_for(self.client.shutdown_async(None), PATIENCE)
        self.client.exit(None)
        await asyncio.wait_for(self.client.stop(), PATIENCE)

    def open(self, path: Path, text: str | None = None) -> str:
        uri = path.as_uri()
        self.texts[uri] = path.read_text("utf-8") if text is None else text
        self.versions[uri] = 1
        item = lsp.TextDocumentItem(uri, "python", 1, self.texts[uri])
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return uri

    def close(self, uri: str) -> None:
        self.client.text_document_did_close(lsp.DidCloseTextDocumentParams(lsp.TextDocumentIdentifier(uri)))

    def type(self, uri: str, old: str, new: str) -> None:
        """Replace a text that stands once in the document, by an incremental edit as editors send it."""
        text = self.texts[uri]
        assert text.count(old) == 1
        at = text.index(old)
        change = lsp.TextDocumentContentChangePartial(
            range=lsp.Range(place(text, at), place(text, at + len(old))), text=new
        )
        self.texts[uri] = text[:at] + new + text[at + len(old) :]
        self._changed(uri, change)

    def rewrite(self, uri: str, text: str) -> None:
        self.texts[uri] = text
        self._changed(uri, lsp.TextDocumentContentChangeWholeDocument(text))

    def _changed(self, uri: str, change: Any) -> None:
        self.versions[uri] += 1
        versioned = lsp.VersionedTextDocumentIdentifier(version=self.versions[uri], uri=uri)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(versioned, [change]))

    async def until(self, uri: str, holds: Callable[[list[lsp.Diagnostic]], bool]) -> list[lsp.Diagnostic]:
        """The findings of a document, as soon as those of its text by now are as expected."""

        async def wait() -> list[lsp.Diagnostic]:
            while True:
                self._news.clear()
                params = self.found.get(uri)
                current = params is not None and params.version in (None, self.versions[uri])
                if params is not None and current and holds(list(params.diagnostics)):
                    return list(params.diagnostics)
                await self._news.wait()

        try:
            return await asyncio.wait_for(wait(), PATIENCE)
        except TimeoutError:
            raise AssertionError(f"{self.found.get(uri)} {self.logged}") from None

    async def codes(self, uri: str, *expected: str) -> list[lsp.Diagnostic]:
        """The findings, once they are of exactly these rules."""
        return await self.until(uri, lambda found: sorted(str(one.code) for one in found) == sorted(expected))

    async def actions(
        self, uri: str, where: lsp.Range, only: list[Any] | None = None
    ) -> list[lsp.CodeAction]:
        params = lsp.CodeActionParams(
            lsp.TextDocumentIdentifier(uri), where, lsp.CodeActionContext([], only=only)
        )
        found = await self.client.text_document_code_action_async(params)
        return [one for one in found or [] if isinstance(one, lsp.CodeAction)]

    async def apply(self, action: lsp.CodeAction) -> None:
        """Take an action, as an editor does: its edit is asked for, and made in the open documents."""
        resolved = await self.client.code_action_resolve_async(action)
        assert resolved.edit is not None
        for document in resolved.edit.document_changes or []:
            assert isinstance(document, lsp.TextDocumentEdit)
            uri = document.text_document.uri
            text = self.texts[uri]
            for edit in sorted(document.edits, key=lambda one: -offset(text, one.range.start)):
                assert isinstance(edit, lsp.TextEdit)
                start, end = offset(text, edit.range.start), offset(text, edit.range.end)
                text = text[:start] + edit.new_text + text[end:]
            self.rewrite(uri, text)

    async def hover(self, uri: str, at: lsp.Position) -> str:
        found = await self.client.text_document_hover_async(
            lsp.HoverParams(lsp.TextDocumentIdentifier(uri), at)
        )
        if found is None:
            return ""
        assert isinstance(found.contents, lsp.MarkupContent)
        return found.contents.value


def place(text: str, at: int) -> lsp.Position:
    """The place of a character as the protocol counts by default: lines, and UTF-16 units in them."""
    before = text[:at]
    line = before.rpartition("\n")[2]
    return lsp.Position(before.count("\n"), len(line.encode("utf-16-le")) // 2)


def offset(text: str, at: lsp.Position) -> int:
    """The character at a place."""
    lines = text.split("\n")
    line = lines[at.line].encode("utf-16-le")[: at.character * 2].decode("utf-16-le")
    return sum(len(one) + 1 for one in lines[: at.line]) + len(line)


def run(session: Callable[[Editor], Awaitable[None]]) -> None:
    """One session, which ends as an editor ends it."""

    async def whole() -> None:
        editor = Editor()
        try:
            await session(editor)
        finally:
            await editor.stop()

    asyncio.run(whole())
