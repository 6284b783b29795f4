// The map and the why-pane in a notebook (anywidget): the kernel answers what a server would.

import { effect } from "@preact/signals";
import { render as draw } from "preact";
import { Inspector } from "./Inspector";
import { MapPanel } from "./MapView";
import { askWhy, begin, setTransport } from "./net";
import { apply } from "./palette";
import { keepPlaying } from "./playing";
import { Scrubber } from "./TimePanel";
import { Press, togglePlay } from "./TopBar";
import { attempt, isPlaying, problem, records, seenTheme, shown, stepDecision } from "./view";
import { say } from "./words";

interface Model {
  get(name: string): unknown;
  send(content: unknown): void;
  on(name: string, heard: (content: { id: number; status: number; type: string }, buffers: DataView[]) => void): void;
}

function Widget() {
  if (!shown.value) return <p role="status">{problem.value || say("loading")}</p>;
  return (
    <main class="views widget">
      <div class="maps">
        <MapPanel />
      </div>
      <div class="side">
        <Inspector />
      </div>
      <section class="panel timePanel steps" aria-label={say("time")}>
        <Press label="go.previous" sign="back" act={() => stepDecision(-1)} />
        <Press
          label={isPlaying.value ? "go.pause" : "go.play"}
          sign={isPlaying.value ? "pause" : "play"}
          act={togglePlay}
        />
        <Press label="go.next" sign="on" act={() => stepDecision(1)} />
        <Scrubber />
      </section>
    </main>
  );
}

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const root = el.attachShadow({ mode: "open" }),
    style = document.createElement("style"),
    app = document.createElement("div");
  style.textContent = model.get("style_text") as string;
  app.style.height = `${model.get("height")}px`;
  root.append(style, app);
  let last = 0;
  const waiting = new Map<number, (answer: Response) => void>();
  model.on("msg:custom", ({ id, status, type }, buffers) => {
    const body = buffers[0]
      ? buffers[0].buffer.slice(buffers[0].byteOffset, buffers[0].byteOffset + buffers[0].byteLength)
      : new ArrayBuffer(0);
    waiting.get(id)?.(new Response(body as ArrayBuffer, { status, headers: { "Content-Type": type } }));
    waiting.delete(id);
  });
  setTransport(
    (path) =>
      new Promise((resolve) => {
        waiting.set(++last, resolve);
        model.send({ id: last, path });
      }),
  );
  effect(() => apply(seenTheme.value, app));
  draw(<Widget />, app);
  keepPlaying();
  begin().then(
    () =>
      effect(() => {
        void [attempt.value, records.value];
        void askWhy();
      }),
    (error: Error) => (problem.value = error.message),
  );
  return () => draw(null, app);
}

export default { render };
