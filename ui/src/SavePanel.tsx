// What can be taken away: pictures of map and strips, the decisions as a table, a trace, and the page as one file.
import { signal } from "@preact/signals";
import { drawMap } from "./MapView";
import { stripsSvg } from "./TimePanel";
import { isFile, shown } from "./view";
import { say } from "./words";

const problem = signal("");

function keep(name: string, content: Blob): void {
  const link = document.createElement("a"),
    stem =
      shown
        .value!.meta.title.replace(/[^A-Za-z0-9]+/g, "-")
        .replace(/^-|-$/g, "")
        .slice(0, 60) || "mooring";
  link.href = URL.createObjectURL(content);
  link.download = `${stem}-${name}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const svg = (text: string) => new Blob([text], { type: "image/svg+xml" });

/** A picture made of points, from one made of lines. */
async function png(text: string): Promise<Blob> {
  const image = new Image(),
    ratio = 2;
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = image.width * ratio;
  canvas.height = image.height * ratio;
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob((blob) => resolve(blob!), "image/png"));
}

function attempt(act: () => void | Promise<void>): void {
  problem.value = "";
  Promise.resolve()
    .then(act)
    .catch((error: Error) => (problem.value = error.message));
}

export function SavePanel() {
  const { number } = shown.value!;
  return (
    <div class="savePanel scroll">
      <dl>
        <dt>{say("view.map")}</dt>
        <dd>
          <button type="button" onClick={() => attempt(async () => keep("map.png", await png(drawMap())))}>
            PNG
          </button>{" "}
          <button type="button" onClick={() => attempt(() => keep("map.svg", svg(drawMap())))}>
            SVG
          </button>
        </dd>
        <dt>{say("view.time")}</dt>
        <dd>
          <button type="button" onClick={() => attempt(async () => keep("time.png", await png(stripsSvg())))}>
            PNG
          </button>{" "}
          <button type="button" onClick={() => attempt(() => keep("time.svg", svg(stripsSvg())))}>
            SVG
          </button>
        </dd>
        {!isFile.value && (
          <>
            <dt>{say("strip.decisions")}</dt>
            <dd>
              <a class="button" download href={`api/decisions.csv?record=${number}`}>
                CSV
              </a>{" "}
              <a class="button" download href={`api/decisions.parquet?record=${number}`}>
                Parquet
              </a>
            </dd>
            <dt>{say("save.trace")}</dt>
            <dd>
              <a class="button" download href={`api/trace.json?record=${number}`}>
                JSON
              </a>
            </dd>
            <dt>{say("save.page")}</dt>
            <dd>
              <a class="button" download href="api/page.html">
                HTML
              </a>
            </dd>
          </>
        )}
      </dl>
      {problem.value && (
        <p role="status" class="warning">
          {problem.value}
        </p>
      )}
    </div>
  );
}
