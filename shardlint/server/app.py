"""The server itself: what messages it takes, and what it does with them."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types as lsp
from pygls import uris
from pygls.lsp.server import LanguageServer
from pygls.protocol.language_server import LanguageServerProtocol, lsp_method

from shardlint import __version__
from shardlint.server import told
from shardlint.server.actions import KINDS, Actions, Gone, offered
from shardlint.server.session import Session, Shown, Wishes
from shardlint.server.texts import Buffer, Encoding, buffer, changed, offset
from shardlint.server.worker import Worker

Answer = TypeVar("Answer")
_WATCHED = "**/{*.py,*.pyi,*.toml,*.cfg,*.lock,requirements*.txt,requirements*.in,.shardlint-baseline.json,.gitignore}"
_SECTION = "shardlint"
_DEFAULT = Path("/")


class _Protocol(LanguageServerProtocol):
    """Without pygls' own copy of the texts, which takes a form feed for a line's end and changes what it is given."""

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(
        self, params: lsp.DidChangeTextDocumentParams
    ) -> Generator[Any, None, None]:
        """Hand on what was typed."""
        yield self.fm.features[lsp.TEXT_DOCUMENT_DID_CHANGE], (params,), None


class Server(LanguageServer):
    """One editor's server."""

    def __init__(self) -> None:
        super().__init__("shardlint", __version__, protocol_cls=_Protocol)
        self.session = Session(self._show, self._log)
        self.worker = Worker(self.session.check)
        self.session.pause = self.worker.pause
        self.actions = Actions(self.session)
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def encoding(self) -> Encoding:
        """How the editor counts characters."""
        return self.workspace.position_encoding or lsp.PositionEncodingKind.Utf16

    def begin(self, params: lsp.InitializeParams) -> None:
        """The editor says who it is, and may say what it wants."""
        self._loop = asyncio.get_running_loop()
        said = _plain(params.initialization_options)
        if isinstance(said, dict):
            self.wish(_DEFAULT, said.get("settings", said.get(_SECTION, said)))

    def wish(self, folder: Path, said: Any) -> None:
        """Take settings of the editor for a folder."""
        wishes, wrong = Wishes.of(said)
        for one in wrong:
            self._log(f"the editor's setting shardlint.{one}")
        if self.session.wishes.get(folder) != wishes:
            self.session.wishes[folder] = wishes
            self.worker.later(give_up=True)

    async def ask_wishes(self) -> None:
        """Ask the editor for its settings, for each folder."""
        folders = list(self.workspace.folders.values())
        scopes = [None, *(folder.uri for folder in folders)]
        items = [lsp.ConfigurationItem(scope, _SECTION) for scope in scopes]
        found = await self.workspace_configuration_async(lsp.ConfigurationParams(items))
        for scope, said in zip(scopes, found, strict=False):
            name = uris.to_fs_path(scope) if scope is not None else None
            if said is not None:
                self.wish(_DEFAULT if name is None else Path(name).resolve(), _plain(said))

    async def ask(self, answer: Callable[[], Answer], alone: bool = False) -> Answer:
        """Have the worker answer."""
        return await asyncio.wrap_future(self.worker.ask(answer, alone))

    def look_again(self, forget: bool = False) -> None:
        """Something changed on the disk."""
        self.session.look = True
        if forget:
            self.worker.ask(self.session.forget, alone=True)
        self.worker.later(give_up=forget)

    def _show(self, shown: Shown) -> None:
        found = told.diagnostics(shown, self.encoding)
        self._in_loop(self._publish, shown.buffer, found)

    def _publish(self, shown: Buffer, found: list[lsp.Diagnostic]) -> None:
        if shown.uri in self.session.buffers:
            params = lsp.PublishDiagnosticsParams(shown.uri, found, shown.version)
            self.text_document_publish_diagnostics(params)

    def _log(self, message: str) -> None:
        self._in_loop(self.window_log_message, lsp.LogMessageParams(lsp.MessageType.Warning, message))

    def _in_loop(self, call: Callable[..., None], *arguments: Any) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *arguments)


def serve() -> None:
    """Serve an editor over standard input and output until it says that this is enough."""
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR)
    gc.disable()  # the worker collects when nobody types
    made = server()
    try:
        made.start_io()
    finally:
        made.worker.end()


def server() -> Server:
    """A server with all it can do."""
    made = Server()
    for register in (_session, _texts, _files, _questions):
        register(made)
    return made


def _session(server: Server) -> None:
    @server.feature(lsp.INITIALIZE)
    def begin(params: lsp.InitializeParams) -> None:
        server.begin(params)

    @server.feature(lsp.INITIALIZED)
    async def begun(params: lsp.InitializedParams) -> None:
        can = server.client_capabilities.workspace
        registrations = []
        if (
            can is not None
            and can.did_change_watched_files
            and can.did_change_watched_files.dynamic_registration
        ):
            watch = lsp.DidChangeWatchedFilesRegistrationOptions([lsp.FileSystemWatcher(_WATCHED)])
            registrations.append(
                lsp.Registration("files", lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, register_options=watch)
            )
        if (
            can is not None
            and can.did_change_configuration
            and can.did_change_configuration.dynamic_registration
        ):
            section = lsp.DidChangeConfigurationRegistrationOptions(_SECTION)
            registrations.append(
                lsp.Registration("settings", lsp.WORKSPACE_DID_CHANGE_CONFIGURATION, register_options=section)
            )
        if registrations:
            await server.client_register_capability_async(lsp.RegistrationParams(registrations))
        if can is not None and can.configuration:
            await server.ask_wishes()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def configured(params: lsp.DidChangeConfigurationParams) -> None:
        can = server.client_capabilities.workspace
        if can is not None and can.configuration:
            await server.ask_wishes()
            return
        said = _plain(params.settings)
        if isinstance(said, dict):
            server.wish(_DEFAULT, said.get(_SECTION, said))

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    async def folders(params: lsp.DidChangeWorkspaceFoldersParams) -> None:
        can = server.client_capabilities.workspace
        if can is not None and can.configuration:
            await server.ask_wishes()

    @server.feature(lsp.SHUTDOWN)
    def end(params: None) -> None:
        server.worker.end()


def _texts(server: Server) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        made = buffer(document.uri, document.text, document.version)
        if made is not None:
            server.session.put(made)
            server.look_again()

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def typed(params: lsp.DidChangeTextDocumentParams) -> None:
        known = server.session.buffers.get(params.text_document.uri)
        if known is not None:
            text = changed(known.source, params.content_changes, server.encoding)
            made = buffer(known.uri, text, params.text_document.version)
            if made is not None:
                server.session.put(made)
                server.worker.later(give_up=True)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        if uri in server.session.buffers:
            server.session.drop(uri)
            server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))
            server.look_again()


def _files(server: Server) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: lsp.DidSaveTextDocumentParams) -> None:
        server.look_again()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def happened(params: lsp.DidChangeWatchedFilesParams) -> None:
        server.look_again(any(not one.uri.endswith((".py", ".pyi")) for one in params.changes))


def _questions(server: Server) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        known = server.session.buffers.get(params.text_document.uri)
        if known is None:
            return None
        return await server.ask(lambda: told.hover(server.session, known, params.position, server.encoding))

    @server.feature(lsp.TEXT_DOCUMENT_CODE_LENS, lsp.CodeLensOptions())
    async def lens(params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        known = server.session.buffers.get(params.text_document.uri)
        if known is None:
            return []
        return await server.ask(lambda: told.lenses(server.session, known, server.encoding))

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=KINDS, resolve_provider=True)
    )
    async def actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        shown = server.session.shown.get(params.text_document.uri)
        known = server.session.buffers.get(params.text_document.uri)
        if known is None:
            return []
        if shown is None or shown.buffer is not known:
            await server.ask(server.session.check_now, alone=True)
            shown = server.session.shown.get(params.text_document.uri)
        if shown is None or shown.buffer is not known:
            return []
        start, end = (
            offset(known.source, at, server.encoding) for at in (params.range.start, params.range.end)
        )
        only = (
            None
            if params.context.only is None
            else [getattr(one, "value", one) for one in params.context.only]
        )
        found = list(offered(shown, start, end, only))
        return found if _resolves(server) else [one for one in found if await _resolved(server, one)]

    @server.feature(lsp.CODE_ACTION_RESOLVE)
    async def resolve(params: lsp.CodeAction) -> lsp.CodeAction:
        if not await _resolved(server, params):
            params.edit = lsp.WorkspaceEdit(changes={})
        return params


async def _resolved(server: Server, action: lsp.CodeAction) -> bool:
    """Give an action its edit; False where there is none any more."""
    data = _plain(action.data)
    if not isinstance(data, dict):
        return False
    try:
        texts = await server.ask(lambda: server.actions.texts(data), alone=True)
    except Gone as error:
        server.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Info, f"Not changed: {error}"))
        return False
    can = server.client_capabilities.workspace
    versioned = bool(can and can.workspace_edit and can.workspace_edit.document_changes)
    action.edit = server.actions.edit(texts, server.encoding, versioned)
    return True


def _resolves(server: Server) -> bool:
    can = server.client_capabilities.text_document
    support = can.code_action.resolve_support if can and can.code_action else None
    return support is not None and "edit" in support.properties


def _plain(said: Any) -> Any:
    """What pygls made objects of, as JSON has it."""
    if hasattr(said, "_asdict"):
        said = said._asdict()
    if isinstance(said, dict):
        return {str(key): _plain(value) for key, value in said.items()}
    return [_plain(one) for one in said] if isinstance(said, list | tuple) else said
