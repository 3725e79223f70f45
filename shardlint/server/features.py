"""The messages that the server takes, each with what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

from shardlint.server import protocol_findings
from shardlint.server.actions import KINDS, ActionUnavailable, offered_actions
from shardlint.server.editor_settings import DEFAULT, SECTION, plain_data
from shardlint.server.texts import apply_changes, make_buffer

if TYPE_CHECKING:
    from shardlint.server.app import Server

# One pattern each: not every editor reads alternatives in braces.
_WATCHED = (
    "*.py",
    "*.pyi",
    "*.ipynb",
    "*.toml",
    "*.cfg",
    "*.lock",
    "requirements*",
    ".shardlint-baseline.json",
    ".gitignore",
)


def _register_session(server: Server) -> None:
    @server.feature(lsp.INITIALIZE)
    def on_initialize(params: lsp.InitializeParams) -> None:
        server.begin_session(params)

    @server.feature(lsp.INITIALIZED)
    async def on_initialized(params: lsp.InitializedParams) -> None:
        can = server.client_capabilities.workspace
        registrations = []
        if (
            can is not None
            and can.did_change_watched_files
            and can.did_change_watched_files.dynamic_registration
        ):
            watchers = [lsp.FileSystemWatcher(f"**/{name}") for name in _WATCHED]
            watch = lsp.DidChangeWatchedFilesRegistrationOptions(watchers)
            registrations.append(
                lsp.Registration("files", lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, register_options=watch)
            )
        if (
            can is not None
            and can.did_change_configuration
            and can.did_change_configuration.dynamic_registration
        ):
            section = lsp.DidChangeConfigurationRegistrationOptions(SECTION)
            registrations.append(
                lsp.Registration("settings", lsp.WORKSPACE_DID_CHANGE_CONFIGURATION, register_options=section)
            )
        for one in registrations:
            try:
                await server.client_register_capability_async(lsp.RegistrationParams([one]))
            except JsonRpcException as error:
                server.log_message(f"the editor does not tell of {one.id}: {error}")
        if can is not None and can.configuration:
            await server.ask_wishes()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def on_configuration_changed(params: lsp.DidChangeConfigurationParams) -> None:
        can = server.client_capabilities.workspace
        if can is not None and can.configuration:
            await server.ask_wishes()
            return
        said = plain_data(params.settings)
        if isinstance(said, dict):
            server.apply_settings(DEFAULT, said.get(SECTION, said))

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    async def on_folders_changed(params: lsp.DidChangeWorkspaceFoldersParams) -> None:
        can = server.client_capabilities.workspace
        if can is not None and can.configuration:
            await server.ask_wishes()

    @server.feature(lsp.SHUTDOWN)
    def on_shutdown(params: None) -> None:
        server.worker.end_thread()


def _register_texts(server: Server) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def on_text_opened(params: lsp.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        made = make_buffer(document.uri, document.text, document.version)
        if made is not None:
            server.session.put_buffer(made)
            server.notice_disk_change()

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def on_text_changed(params: lsp.DidChangeTextDocumentParams) -> None:
        known = server.session.buffers.get(params.text_document.uri)
        if known is not None:
            text = apply_changes(known.source, params.content_changes, server.position_encoding)
            made = make_buffer(known.uri, text, params.text_document.version)
            if made is not None:
                server.session.put_buffer(made)
                server.worker.check_later(give_up=True)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def on_text_closed(params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        if uri in server.session.buffers:
            server.session.drop_buffer(uri)
            server.clear_diagnostics([uri])
            server.notice_disk_change()


def _register_notebooks(server: Server) -> None:
    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_OPEN)
    def on_notebook_opened(params: lsp.DidOpenNotebookDocumentParams) -> None:
        made = server.notebooks.open_notebook(params)
        if made is not None:
            server.session.put_buffer(made)
            server.notice_disk_change()

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def on_notebook_changed(params: lsp.DidChangeNotebookDocumentParams) -> None:
        before = server.session.buffers.get(params.notebook_document.uri)
        made = server.notebooks.change_notebook(params, server.position_encoding)
        if made is not None:
            server.session.put_buffer(made)
            server.worker.check_later(give_up=True)
            server.clear_diagnostics(
                dict(before.shown_documents if before else ()).keys() - dict(made.shown_documents).keys()
            )

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_SAVE)
    def on_notebook_saved(params: lsp.DidSaveNotebookDocumentParams) -> None:
        server.notice_disk_change()

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def on_notebook_closed(params: lsp.DidCloseNotebookDocumentParams) -> None:
        uri = params.notebook_document.uri
        server.notebooks.close_notebook(uri)
        known = server.session.buffers.get(uri)
        if known is not None:
            server.session.drop_buffer(uri)
            server.clear_diagnostics(dict(known.shown_documents))
            server.notice_disk_change()


def _register_files(server: Server) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def on_file_saved(params: lsp.DidSaveTextDocumentParams) -> None:
        server.notice_disk_change()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def on_watched_files_changed(params: lsp.DidChangeWatchedFilesParams) -> None:
        server.notice_disk_change(any(not one.uri.endswith((".py", ".pyi", ".ipynb")) for one in params.changes))


def _register_questions(server: Server) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def answer_hover(params: lsp.HoverParams) -> lsp.Hover | None:
        known = server.session.buffer_of(params.text_document.uri)
        if known is None:
            return None
        at = known.offset_at(params.text_document.uri, params.position, server.position_encoding)
        return await server.ask_worker(lambda: protocol_findings.hover_text(server.session, known, at))

    @server.feature(lsp.TEXT_DOCUMENT_CODE_LENS, lsp.CodeLensOptions())
    async def answer_lens(params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        uri = params.text_document.uri
        known = server.session.buffer_of(uri)
        if known is None:
            return []
        return await server.ask_worker(
            lambda: protocol_findings.code_lenses(server.session, known, uri, server.position_encoding)
        )

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    async def answer_hint(params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        uri = params.text_document.uri
        known = server.session.buffer_of(uri)
        if known is None or not server.session.wishes_for(known.path).layout_hints:
            return []
        found = await server.ask_worker(
            lambda: protocol_findings.inlay_hints(server.session, known, uri, server.position_encoding)
        )
        return [one for one in found if params.range.start.line <= one.position.line <= params.range.end.line]

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=KINDS, resolve_provider=True)
    )
    async def answer_actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri = params.text_document.uri
        known = server.session.buffer_of(uri)
        if known is None:
            return []
        shown = server.session.shown.get(known.uri)
        if shown is None or shown.buffer is not known:
            await server.ask_worker(server.session.check_now, alone=True)
            shown = server.session.shown.get(known.uri)
        if shown is None or shown.buffer is not known:
            return []
        start, end = (
            known.offset_at(uri, at, server.position_encoding) for at in (params.range.start, params.range.end)
        )
        only = (
            None
            if params.context.only is None
            else [getattr(one, "value", one) for one in params.context.only]
        )
        found = list(offered_actions(shown, start, end, only))
        return (
            found
            if _client_resolves_edits(server)
            else [one for one in found if await _resolve_action(server, one)]
        )

    @server.feature(lsp.CODE_ACTION_RESOLVE)
    async def resolve_action(params: lsp.CodeAction) -> lsp.CodeAction:
        if not await _resolve_action(server, params):
            params.edit = lsp.WorkspaceEdit(changes={})
        return params


async def _resolve_action(server: Server, action: lsp.CodeAction) -> bool:
    """Give an action its edit; False where there is none any more."""
    data = plain_data(action.data)
    if not isinstance(data, dict):
        return False
    try:
        texts = await server.ask_worker(lambda: server.actions.changed_texts(data), alone=True)
    except ActionUnavailable as error:
        server.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Info, f"Not changed: {error}"))
        return False
    can = server.client_capabilities.workspace
    versioned = bool(can and can.workspace_edit and can.workspace_edit.document_changes)
    action.edit = server.actions.make_workspace_edit(texts, server.position_encoding, versioned)
    return True


def _client_resolves_edits(server: Server) -> bool:
    can = server.client_capabilities.text_document
    support = can.code_action.resolve_support if can and can.code_action else None
    return support is not None and "edit" in support.properties


EACH = (_register_session, _register_texts, _register_notebooks, _register_files, _register_questions)
