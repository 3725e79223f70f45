import { homedir } from "node:os";
import * as vscode from "vscode";
import { LanguageClient, type LanguageClientOptions, type ServerOptions } from "vscode-languageclient/node";
import { advice, type Command, expanded, RESTARTING, serverCommand } from "./command";
import { selectedPython, whenSelected } from "./python";

let client: LanguageClient | undefined;
let turn: Promise<void> = Promise.resolve();

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  context.subscriptions.push(
    vscode.commands.registerCommand("shardlint.restart", restart),
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      if (RESTARTING.some((name) => event.affectsConfiguration(name))) {
        await restart();
      }
    }),
  );
  await restart();
  const selected = await whenSelected(() => void restart());
  if (selected !== undefined) {
    context.subscriptions.push(selected);
  }
}

export async function deactivate(): Promise<void> {
  await turn;
  await stop();
}

/** One after the other, however fast settings change. */
function restart(): Promise<void> {
  turn = turn.then(stop).then(start);
  return turn;
}

async function stop(): Promise<void> {
  const last = client;
  client = undefined;
  try {
    await last?.dispose();
  } catch {
    // it never started, or is gone already
  }
}

async function start(): Promise<void> {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  const said = vscode.workspace.getConfiguration("shardlint", folder);
  if (!said.get<boolean>("enable", true)) {
    return;
  }
  const place = (path: string): string => expanded(path, folder?.fsPath, homedir());
  const settings = {
    enable: true,
    interpreter: place(said.get<string>("interpreter", "")),
    command: said.get<string[]>("command", []).map(place),
  };
  const command = serverCommand(settings, await selectedPython(folder), process.platform);
  const made = new LanguageClient("shardlint", "shardlint", run(command, folder), options());
  client = made;
  try {
    await made.start();
  } catch {
    client = undefined;
    void vscode.window.showErrorMessage(advice(command));
  }
}

function run(command: Command, folder: vscode.Uri | undefined): ServerOptions {
  return { ...command, options: folder === undefined ? {} : { cwd: folder.fsPath } };
}

function options(): LanguageClientOptions {
  return {
    documentSelector: [
      { scheme: "file", language: "python" },
      { scheme: "untitled", language: "python" },
      { notebook: { scheme: "file", notebookType: "jupyter-notebook" }, language: "python" },
    ],
    synchronize: { configurationSection: "shardlint" },
  };
}
