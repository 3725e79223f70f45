"""The server itself: what messages it takes, and what it does with them."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types as lsp
from pygls import uris
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol.language_server import LanguageServerProtocol, lsp_method

from shardlint import __version__
from shardlint.server import protocol_findings
from shardlint.server.actions import Actions
from shardlint.server.editor_settings import DEFAULT, SECTION, plain_data
from shardlint.server.notebooks import Open
from shardlint.server.session import Session, ShownDiagnostics, Wishes
from shardlint.server.texts import Buffer, Encoding
from shardlint.server.worker import Worker

Answer = TypeVar("Answer")
# All cells, so that they are counted as people count them.
_NOTEBOOKS = lsp.NotebookDocumentSyncOptions(
    [lsp.NotebookDocumentFilterWithNotebook(lsp.NotebookDocumentFilterNotebookType("jupyter-notebook"))], True
)


class _Protocol(LanguageServerProtocol):
    """Without pygls' own copy of the texts, which takes a form feed for a line's end and changes what it is given."""

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(
        self, params: lsp.DidChangeTextDocumentParams
    ) -> Generator[Any, None, None]:
        """Hand on what was typed."""
        yield self.fm.features[lsp.TEXT_DOCUMENT_DID_CHANGE], (params,), None

    @lsp_method(lsp.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def lsp_notebook_document__did_change(
        self, params: lsp.DidChangeNotebookDocumentParams
    ) -> Generator[Any, None, None]:
        """Hand on what was done to a notebook."""
        yield self.fm.features[lsp.NOTEBOOK_DOCUMENT_DID_CHANGE], (params,), None


class Server(LanguageServer):
    """One editor's server."""

    def __init__(self) -> None:
        super().__init__(
            "shardlint", __version__, protocol_cls=_Protocol, notebook_document_sync=_NOTEBOOKS
        )
        self.session = Session(self._show_diagnostics, self.log_message)
        self.worker = Worker(self.session.check_open_documents, self._report_failed_check, self._look_at_disk)
        self.session.pause = self.worker.run_waiting_jobs
        self.actions = Actions(self.session)
        self.notebooks = Open()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def position_encoding(self) -> Encoding:
        """How the editor counts characters."""
        return self.workspace.position_encoding or lsp.PositionEncodingKind.Utf16

    def begin_session(self, params: lsp.InitializeParams) -> None:
        """The editor says who it is, and may say what it wants."""
        self._loop = asyncio.get_running_loop()
        said = plain_data(params.initialization_options)
        if isinstance(said, dict):
            self.apply_settings(DEFAULT, said.get("settings", said.get(SECTION, said)))

    def apply_settings(self, folder: Path, said: Any) -> None:
        """Take settings of the editor for a folder."""
        wishes, wrong = Wishes.parse_wishes(said)
        for one in wrong:
            self.log_message(f"the editor's setting shardlint.{one}")
        if self.session.wishes.get(folder) != wishes:
            self.session.wishes[folder] = wishes
            self.worker.check_later(give_up=True)

    async def ask_wishes(self) -> None:
        """Ask the editor for its settings, for each folder."""
        folders = list(self.workspace.folders.values())
        scopes = [None, *(folder.uri for folder in folders)]
        items = [lsp.ConfigurationItem(scope, SECTION) for scope in scopes]
        try:
            found = await self.workspace_configuration_async(lsp.ConfigurationParams(items))
        except JsonRpcException as error:
            self.log_message(f"the editor does not tell its settings: {error}")
            return
        for scope, said in zip(scopes, found, strict=False):
            name = uris.to_fs_path(scope) if scope is not None else None
            if said is not None:
                self.apply_settings(DEFAULT if name is None else Path(name).resolve(), plain_data(said))

    async def ask_worker(self, answer: Callable[[], Answer], alone: bool = False) -> Answer:
        """Have the worker answer."""
        return await asyncio.wrap_future(self.worker.run_job(answer, alone))

    def notice_disk_change(self, forget: bool = False) -> None:
        """Something changed on the disk."""
        self.session.look = True
        if forget:
            self.worker.run_job(self.session.forget_all, alone=True)
        self.worker.check_later(give_up=forget)

    def _look_at_disk(self) -> None:
        """Nobody types: a good time to look at the disk."""
        if self.session.is_disk_state_old():
            self.session.look = True
            self.worker.check_later(give_up=False)

    def _show_diagnostics(self, shown: ShownDiagnostics) -> None:
        found = protocol_findings.editor_diagnostics(shown, self.position_encoding)
        self._call_in_loop(self._publish_diagnostics, shown.buffer, found)

    def _publish_diagnostics(self, shown: Buffer, marks: protocol_findings.Marks) -> None:
        known = self.session.buffers.get(shown.uri)
        there = {uri for uri, _ in known.shown_documents} if known is not None else set()
        for uri, version in shown.shown_documents:
            if uri in there:
                params = lsp.PublishDiagnosticsParams(uri, marks.get(uri, []), version)
                self.text_document_publish_diagnostics(params)

    def clear_diagnostics(self, uris: Iterable[str]) -> None:
        """Documents are gone: nothing is found in them."""
        for uri in uris:
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    def log_message(self, message: str) -> None:
        """Tell people what went wrong."""
        self._call_in_loop(self.window_log_message, lsp.LogMessageParams(lsp.MessageType.Warning, message))

    def _report_failed_check(self, error: Exception) -> None:
        """A check failed as a whole: say so, and begin the next one with nothing."""
        text = "".join(traceback.format_exception(error))
        self.log_message(f"shardlint itself failed, please report it: {text}")
        self.session.forget_all()

    def _call_in_loop(self, call: Callable[..., None], *arguments: Any) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *arguments)
