// Builds the page into src/mooring/show/page: one script, one style sheet, one document.

import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "..", "src", "mooring", "show", "page");
const LIMIT = 120 * 1024; // gzipped, all of it
const LINKED = [11]; // chapters after the lessons

mkdirSync(out, { recursive: true });
for (const [from, to] of [
  ["main.tsx", "app.js"],
  ["widget.tsx", "widget.js"],
])
  await build({
    entryPoints: [join(here, "src", from)],
    outfile: join(out, to),
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "eof",
    logLevel: "warning",
  });
for (const name of ["index.html", "icon.svg"]) copyFileSync(join(here, "src", name), join(out, name));
// The chapters of the course that the steps of a decision lead to, in each language.
const lessons = join(here, "..", "src", "mooring", "learn"),
  stages = readdirSync(lessons).filter((name) => /^stage\d/.test(name));
for (const language of ["en", "ja", "zh"]) {
  const suffix = language === "en" ? "" : `.${language}`,
    folder = join(lessons, "chapters", language),
    course = {};
  for (const stage of stages) course[stage[5]] = readFileSync(join(lessons, stage, `README${suffix}.md`), "utf8");
  for (const name of readdirSync(folder))
    if (LINKED.includes(Number.parseInt(name, 10)))
      course[Number.parseInt(name, 10)] = readFileSync(join(folder, name), "utf8");
  writeFileSync(join(out, `course-${language}.json`), JSON.stringify(course));
}
// Their licences go wherever their code goes.
const bundled = ["preact", "@preact/signals", "@preact/signals-core", "uplot", "@tanstack/virtual-core"].map((name) => {
  const folder = join(here, "node_modules", name),
    { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const text = join(folder, "LICENSE");
  return `${name} ${version} (${license})\n\n${existsSync(text) ? readFileSync(text, "utf8") : ""}`;
});
writeFileSync(join(out, "licenses.txt"), bundled.join("\n\n----\n\n"));
const size = ["app.js", "app.css", "index.html"].reduce(
  (sum, name) => sum + gzipSync(readFileSync(join(out, name))).length,
  0,
);
if (size > LIMIT) {
  console.error(`the page has ${size} bytes gzipped; at most ${LIMIT} are allowed`);
  process.exit(1);
}
console.log(`the page: ${(size / 1024).toFixed(1)} KiB gzipped`);
