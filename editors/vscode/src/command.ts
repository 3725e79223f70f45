// How the server is started. Nothing here needs the editor, so that tests run without one.

export interface Settings {
  enable: boolean;
  interpreter: string;
  command: string[];
}

export interface Command {
  command: string;
  args: string[];
}

/** What to run: the command of the settings, else `-m shardlint server` of a Python. */
export function serverCommand(settings: Settings, selected: string | undefined, platform: string): Command {
  const [own, ...rest] = settings.command.filter((part) => part !== "");
  if (own !== undefined) {
    return { command: own, args: rest };
  }
  const python = settings.interpreter.trim() || selected || (platform === "win32" ? "python" : "python3");
  return { command: python, args: ["-m", "shardlint", "server"] };
}

/** `${workspaceFolder}` and `~` in a path of the settings. */
export function expanded(path: string, folder: string | undefined, home: string): string {
  const placed = folder === undefined ? path : path.replaceAll("${workspaceFolder}", folder);
  return placed === "~" || placed.startsWith("~/") || placed.startsWith("~\\") ? home + placed.slice(1) : placed;
}

/** What to tell people where the server does not start. */
export function advice(command: Command): string {
  const python = command.args[0] === "-m" ? command.command : undefined;
  return python === undefined
    ? `shardlint did not start: ${[command.command, ...command.args].join(" ")}`
    : `shardlint did not start. Is it installed there? "${python}" -m pip install "shardlint[server]"`;
}

/** The settings of which a change means to start the server anew; the others the server asks for itself. */
export const RESTARTING = ["shardlint.enable", "shardlint.interpreter", "shardlint.command"];
