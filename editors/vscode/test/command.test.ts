import assert from "node:assert/strict";
import { test } from "node:test";
import { advice, expanded, serverCommand } from "../src/command";

const NONE = { enable: true, interpreter: "", command: [] as string[] };

test("the selected Python runs the server", () => {
  assert.deepEqual(serverCommand(NONE, "/venv/bin/python", "linux"), {
    command: "/venv/bin/python",
    args: ["-m", "shardlint", "server"],
  });
});

test("without one it is the Python of the path", () => {
  assert.equal(serverCommand(NONE, undefined, "linux").command, "python3");
  assert.equal(serverCommand(NONE, undefined, "win32").command, "python");
});

test("a setting wins over the selected one, and a command over both", () => {
  const named = { ...NONE, interpreter: " /other/python " };
  assert.equal(serverCommand(named, "/venv/bin/python", "linux").command, "/other/python");
  const whole = { ...named, command: ["uvx", "--from", "shardlint[server]", "shardlint", "server"] };
  assert.deepEqual(serverCommand(whole, "/venv/bin/python", "linux"), {
    command: "uvx",
    args: ["--from", "shardlint[server]", "shardlint", "server"],
  });
  assert.equal(serverCommand({ ...NONE, command: [""] }, undefined, "linux").command, "python3");
});

test("paths may name the folder and the home", () => {
  assert.equal(expanded("${workspaceFolder}/.venv/bin/python", "/project", "/home/me"), "/project/.venv/bin/python");
  assert.equal(expanded("~/python", undefined, "/home/me"), "/home/me/python");
  assert.equal(expanded("/a~b", "/project", "/home/me"), "/a~b");
});

test("where it does not start people are told what to do", () => {
  assert.match(advice(serverCommand(NONE, "/v/python", "linux")), /"\/v\/python" -m pip install "shardlint\[server\]"/);
  assert.match(advice({ command: "uvx", args: ["shardlint"] }), /uvx shardlint/);
});
