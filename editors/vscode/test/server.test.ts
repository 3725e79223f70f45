// The real server over pipes, as the extension starts it. Needs SHARDLINT_PYTHON, a Python with shardlint[server].

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { createMessageConnection, StreamMessageReader, StreamMessageWriter } from "vscode-jsonrpc/node";
import { serverCommand } from "../src/command";

const python = process.env.SHARDLINT_PYTHON;
const TEXT = `import jax


@jax.jit
def f(x):
    return jax.device_put(x, jax.devices()[0])
`;

test("the server starts and finds something", { skip: python === undefined, timeout: 120_000 }, async (context) => {
  const { command, args } = serverCommand({ enable: true, interpreter: python ?? "", command: [] }, undefined, "linux");
  const server = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  context.after(() => server.kill());
  const connection = createMessageConnection(new StreamMessageReader(server.stdout), new StreamMessageWriter(server.stdin));
  const found = new Promise<{ diagnostics: { code: string }[] }>((resolve) => {
    connection.onNotification("textDocument/publishDiagnostics", resolve);
  });
  connection.listen();
  await connection.sendRequest("initialize", { processId: process.pid, rootUri: null, capabilities: {} });
  await connection.sendNotification("initialized", {});
  await connection.sendNotification("textDocument/didOpen", {
    textDocument: { uri: "file:///nowhere/train.py", languageId: "python", version: 1, text: TEXT },
  });
  assert.deepEqual(
    (await found).diagnostics.map((one) => one.code),
    ["SL202"],
  );
  await connection.sendRequest("shutdown");
  await connection.sendNotification("exit");
  const code = await new Promise((resolve) => server.on("exit", resolve));
  assert.equal(code, 0);
  connection.dispose();
});
