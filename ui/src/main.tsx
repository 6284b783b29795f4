// The page: five views of one record at one instant.
import { effect } from "@preact/signals";
import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./app.css";
import { keepAddress, readAddress } from "./address";
import { askSecond, SecondMap } from "./ComparePanel";
import { Finder, KeysCard } from "./Finder";
import { Guide, guideOn, pointOn } from "./Guide";
import { HeadlineBar } from "./Headline";
import { Inspector } from "./Inspector";
import { MapPanel } from "./MapView";
import { askWhy, begin, returned } from "./net";
import { apply } from "./palette";
import { keepPlaying } from "./playing";
import { QueuePanel, waiting } from "./QueuePanel";
import { TimePanel } from "./TimePanel";
import { TopBar, togglePlay } from "./TopBar";
import {
  attempt,
  cursor,
  dialog,
  goTo,
  goToEnd,
  isCompared,
  isGuided,
  isInstant,
  narrowView,
  node,
  onceWhole,
  pod,
  problem,
  question,
  range,
  records,
  seenTheme,
  selectNode,
  selectPod,
  shown,
  stepDecision,
  tab,
} from "./view";
import { withdraw } from "./WhatIf";
import { language, say } from "./words";

function Page() {
  if (!shown.value)
    return (
      <main class="begin">
        <p role="status">{problem.value === "lost" ? say("server.lost") : problem.value || say("loading")}</p>
      </main>
    );
  const views = (["map", "why", "queue", "time"] as const).filter((view) => view !== "time" || !isInstant());
  return (
    <>
      <TopBar />
      <HeadlineBar />
      <nav class="tabs" aria-label={say("views")}>
        {views.map((view) => (
          <button
            type="button"
            key={view}
            aria-pressed={narrowView.value === view}
            onClick={() => (narrowView.value = view)}
          >
            {say(`view.${view}`)}
          </button>
        ))}
      </nav>
      <main class="views" data-view={narrowView.value}>
        <div class="maps">
          <MapPanel />
          {isCompared() && <SecondMap />}
          <Guide />
        </div>
        <div class="side">
          <Inspector />
          {!isCompared() && <QueuePanel />}
        </div>
        {!isInstant() && <TimePanel />}
      </main>
      <Finder />
      <KeysCard />
    </>
  );
}

// ---- keyboard ------------------------------------------------------------------------------------------------------

/** Close what is on top of the rest: a dialog, an answer, a tab, a selection. */
function closeTop(): void {
  if (dialog.value) dialog.value = "";
  else if (isGuided.value) isGuided.value = false;
  else if (question.value) withdraw();
  else if (["change", "save", "course"].includes(tab.value)) tab.value = node.value >= 0 ? "node" : "why";
  else if (node.value >= 0) selectNode(-1);
  else if (pod.value >= 0) pod.value = -1;
  else range.value = null;
}

/** To the next or the previous highlight. */
function highlight(direction: 1 | -1): void {
  const all = shown.value!.highlights.value;
  const to =
    direction > 0 ? all.find((each) => each.cursor > cursor.value) : all.findLast((each) => each.cursor < cursor.value);
  if (to) goTo(to.cursor);
}

function onKey(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    if (shown.value) dialog.value = "find";
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || !shown.value) return;
  if (event.key === "Escape") {
    if (target.matches("input, textarea") && !dialog.value) target.blur();
    else closeTop();
    return;
  }
  if (dialog.value || target.closest("input, textarea, select")) return;
  const isButton = target.closest("button") !== null;
  const acts: Record<string, () => void> = {
    "/": () => (dialog.value = "find"),
    "?": () => (dialog.value = "keys"),
    j: () => walk(1),
    k: () => walk(-1),
    l: () => highlight(1),
    h: () => highlight(-1),
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
    selectPod(pods[(at + direction + pods.length + (at < 0 && direction < 0 ? 1 : 0)) % pods.length]);
  });

keepPlaying();
addEventListener("keydown", onKey);
addEventListener("hashchange", readAddress);
readAddress();
effect(() => apply(seenTheme.value, document.documentElement));
effect(() => {
  document.documentElement.lang = language.value;
});
render(<Page />, document.getElementById("app")!);
begin().then(
  () => {
    if (isCompared() && tab.value === "why") tab.value = "compare";
    keepAddress();
    effect(() => {
      void [attempt.value, records.value, returned.value];
      void askWhy();
      void askSecond();
    });
  },
  (error: Error) => {
    problem.value ||= error.message;
  },
);
