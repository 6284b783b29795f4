// The page: five views of one record at one instant.

import { effect } from "@preact/signals";
import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./app.css";
import { askSecond, ComparePanel, SecondMap } from "./ComparePanel";
import { CoursePanel } from "./CoursePanel";
import { EditPanel } from "./EditPanel";
import { Guide, guideOn, pointOn } from "./Guide";
import { MapPanel } from "./MapView";
import { NodePanel } from "./NodePanel";
import { askWhy, begin } from "./net";
import { keepPlaying } from "./playing";
import { QueuePanel, waiting } from "./QueuePanel";
import { SavePanel } from "./SavePanel";
import { TimePanel } from "./TimePanel";
import { TopBar, togglePlay } from "./TopBar";
import {
  attempt,
  goTo,
  goToEnd,
  isGuided,
  keepAddress,
  narrowView,
  node,
  onceWhole,
  pod,
  problem,
  readAddress,
  records,
  shown,
  stepDecision,
} from "./view";
import { WhatIfPanel } from "./WhatIf";
import { WhyPanel } from "./WhyPanel";
import { language, say } from "./words";

function Page() {
  if (!shown.value)
    return (
      <main class="begin">
        <p role="status">{problem.value || say("loading…")}</p>
      </main>
    );
  const views = ["map", "why", "queue", "time"] as const;
  return (
    <>
      <TopBar />
      <nav class="tabs" aria-label="views">
        {views.map((view) => (
          <button
            type="button"
            key={view}
            aria-pressed={narrowView.value === view}
            onClick={() => (narrowView.value = view)}
          >
            {say(view[0].toUpperCase() + view.slice(1))}
          </button>
        ))}
      </nav>
      <main class="views" data-view={narrowView.value} data-node={node.value >= 0 ? "" : undefined}>
        <div class="maps">
          <MapPanel />
          {records.value.length > 1 && <SecondMap />}
          <Guide />
        </div>
        <div class="side">
          <CoursePanel />
          <EditPanel />
          <SavePanel />
          <WhatIfPanel />
          <WhyPanel />
          <ComparePanel />
          <NodePanel />
          {records.value.length < 2 && <QueuePanel />}
        </div>
        <TimePanel />
      </main>
    </>
  );
}

// ---- keyboard ------------------------------------------------------------------------------------------------------

function onKey(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (target instanceof HTMLInputElement) target.blur();
    else if (node.value >= 0) node.value = -1;
    else pod.value = -1;
    return;
  }
  if (target.closest("input, textarea, select")) return;
  const isButton = target.closest("button") !== null;
  const acts: Record<string, () => void> = {
    "/": () => document.getElementById("search")?.focus(),
    j: () => walk(1),
    k: () => walk(-1),
    " ": togglePlay,
    ArrowRight: () => (isGuided.value ? guideOn(1) : stepDecision(1)),
    ArrowLeft: () => (isGuided.value ? guideOn(-1) : stepDecision(-1)),
    ".": () => pointOn(1),
    ",": () => pointOn(-1),
    Home: () => goTo(0),
    End: goToEnd,
  };
  const act = acts[event.key];
  if (!act || (isButton && event.key === " ")) return;
  event.preventDefault();
  act();
}

/** Select the next or the previous waiting pod; where none waits, walk through the decisions. */
const walk = (direction: 1 | -1) =>
  onceWhole(() => {
    const pods = waiting(shown.value!);
    if (!pods.length) return stepDecision(direction, -1);
    const at = pods.indexOf(pod.value);
    pod.value = pods[(at + direction + pods.length + (at < 0 && direction < 0 ? 1 : 0)) % pods.length];
  });

keepPlaying();
addEventListener("keydown", onKey);
addEventListener("hashchange", readAddress);
readAddress();
document.documentElement.lang = language.value;
render(<Page />, document.getElementById("app")!);
begin().then(
  () => {
    keepAddress();
    effect(() => {
      void [attempt.value, records.value];
      void askWhy();
      void askSecond();
    });
  },
  (error: Error) => (problem.value = error.message),
);
