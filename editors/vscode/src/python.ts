// The Python that is selected in the Python extension, if that is there.

import * as vscode from "vscode";

interface Environments {
  getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
  resolveEnvironment(path: { path: string }): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
  onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
}

async function environments(): Promise<Environments | undefined> {
  const extension = vscode.extensions.getExtension<{ environments?: Environments }>("ms-python.python");
  try {
    return (await extension?.activate())?.environments;
  } catch {
    return undefined;
  }
}

export async function selectedPython(folder: vscode.Uri | undefined): Promise<string | undefined> {
  const known = await environments();
  const active = known?.getActiveEnvironmentPath(folder);
  if (known === undefined || active === undefined) {
    return undefined;
  }
  return (await known.resolveEnvironment(active))?.executable.uri?.fsPath;
}

export async function whenSelected(changed: () => void): Promise<vscode.Disposable | undefined> {
  return (await environments())?.onDidChangeActiveEnvironmentPath(changed);
}
