// Bundles the unit tests and runs them with Node's own test runner: node tests/run.mjs
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = mkdtempSync(join(tmpdir(), "mooring-page-"));
// What a browser has and Node.js has not, as far as modules ask for it when they are loaded.
const browser = `
globalThis.matchMedia ??= () => ({ matches: false, addEventListener() {} });
globalThis.window ??= globalThis;
globalThis.navigator ??= { languages: ["en"] };
`;
try {
  await build({
    entryPoints: readdirSync(here)
      .filter((name) => name.endsWith(".test.ts"))
      .map((name) => join(here, name)),
    outdir: out,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    format: "esm",
    platform: "node",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    banner: { js: browser },
    logLevel: "warning",
  });
  const files = readdirSync(out).map((name) => join(out, name));
  process.exitCode = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(out, { recursive: true });
}
