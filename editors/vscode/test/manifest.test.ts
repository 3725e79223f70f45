import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { RESTARTING } from "../src/command";

const top = join(__dirname, "..", "..");
const manifest = JSON.parse(readFileSync(join(top, "package.json"), "utf8"));
const settings: Record<string, { default: unknown; description: string }> = manifest.contributes.configuration.properties;

test("every setting that restarts the server is one of the manifest", () => {
  assert.deepEqual(
    RESTARTING.filter((name) => !(name in settings)),
    [],
  );
});

test("every setting that the extension reads is one of the manifest", () => {
  const source = readFileSync(join(top, "src", "extension.ts"), "utf8");
  const read = [...source.matchAll(/said\.get<[^>]+>\("(\w+)"/g)].map((match) => `shardlint.${match[1]}`);
  assert.equal(read.length, 3);
  assert.deepEqual(
    read.filter((name) => !(name in settings)),
    [],
  );
});

test("every setting is explained in the README", () => {
  const readme = readFileSync(join(top, "README.md"), "utf8");
  assert.deepEqual(
    Object.keys(settings).filter((name) => !readme.includes(`\`${name}\``)),
    [],
  );
});

test("the lock names no registry", () => {
  const lock = readFileSync(join(top, "package-lock.json"), "utf8");
  assert.ok(!lock.includes('"resolved"'));
});
