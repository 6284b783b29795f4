// The address bar holds the whole view, by time and by name, so that a link shows the same on another machine.
import { batch, effect } from "@preact/signals";
import type { Columns } from "./columns";
import {
  area,
  COLOURINGS,
  camera,
  chapter,
  colouring,
  cursor,
  findPod,
  follows,
  goTo,
  grouping,
  isGuided,
  node,
  pod,
  question,
  range,
  records,
  resource,
  shown,
  step,
  TABS,
  tab,
  theme,
  timeOf,
  WHOLE,
  ZONE,
} from "./view";
import { LANGUAGES, language } from "./words";

const one = <T extends string>(value: string | null, of: readonly T[], otherwise: T): T =>
  of.includes(value as T) ? (value as T) : otherwise;
const numbers = (value: string | null) => (value ? value.split(",").map(Number).filter(Number.isFinite) : []);
const short = (value: number) => String(Math.round(value * 1e6) / 1e6);

/** Where the cursor is: the time, and of what happened at that very time how much, unless it is all of it. */
export function momentOf(columns: Columns, at: number): string {
  if (at <= 0) return "begin";
  const time = timeOf(columns, at);
  const last = columns.eventAfter(time);
  let first = at;
  while (first > 0 && columns.events.time.data[first - 1] === time) first--;
  return at >= last ? short(time) : `${short(time)},${at - first}`;
}

export function cursorOf(columns: Columns, moment: string): number {
  if (moment === "begin") return 0;
  if (moment === "end") return columns.length;
  const [time, count] = numbers(moment);
  if (time === undefined) return -1;
  if (count === undefined) return columns.eventAfter(time + 5e-7);
  return Math.min(columns.length, columns.eventAfter(time - 5e-7) + count);
}

let written = ""; // what was last written or read
let isReading = false;

/** Let the view be what the address says. */
export function readAddress(): void {
  written = location.hash;
  const values = new URLSearchParams(location.hash.slice(1));
  const columns = shown.value?.columns;
  isReading = true;
  batch(() => {
    grouping.value = values.get("by") ?? ZONE;
    area.value = one(values.get("area"), ["capacity", "equal"], "capacity");
    colouring.value = one(values.get("colour"), COLOURINGS, "verdict");
    theme.value = one(values.get("theme"), ["", "dark", "light"], "");
    language.value = one(values.get("lang"), Object.keys(LANGUAGES) as (keyof typeof LANGUAGES)[], language.value);
    isGuided.value = values.has("guide");
    chapter.value = Number(values.get("course") ?? 0);
    tab.value = one(values.get("tab"), TABS, chapter.value ? "course" : values.get("node") ? "node" : "why");
    step.value = Number(values.get("step") ?? (values.has("guide") ? step.value : -1));
    question.value = values.get("if") ?? "";
    const [scale, x, y] = numbers(values.get("zoom"));
    camera.value = y === undefined ? WHOLE : { scale, x, y };
    const [from, to] = numbers(values.get("range"));
    range.value = to === undefined ? null : [from, to];
    if (!columns) return;
    pod.value = -1;
    node.value = -1;
    resource.value = 0;
    readNames();
  });
  isReading = false;
}

/** What the address names: it can be found once the record is here. What was selected meanwhile stays. */
export function readNames(): void {
  const values = new URLSearchParams(location.hash.slice(1));
  const columns = shown.value!.columns;
  resource.value ||= Math.max(0, columns.resources.indexOf(values.get("size") ?? ""));
  if (pod.value < 0 && values.get("pod")) pod.value = findPod(columns, values.get("pod")!);
  if (node.value < 0 && values.get("node")) node.value = columns.nodes.indexOf(values.get("node")!);
  const at = values.get("event") ? Number(values.get("event")) : cursorOf(columns, values.get("t") ?? "");
  if (at >= 0) goTo(at);
}

/** Whether the address says which instant is meant. */
export const hasMoment = () => /[#&](t|event)=/.test(location.hash);

/** The view as an address. What comes first is worth a step back; the rest only says how it is looked at. */
export function addressOf(): { steps: string; whole: string } {
  const now = shown.value;
  const values = new URLSearchParams();
  if (now?.number && records.value.length === 1) values.set("record", String(now.number));
  if (now && pod.value >= 0) values.set("pod", now.columns.podName(pod.value));
  if (now && node.value >= 0) values.set("node", now.columns.nodes[node.value]);
  if (question.value) values.set("if", question.value);
  if (tab.value !== "why") values.set("tab", tab.value);
  if (grouping.value !== ZONE) values.set("by", grouping.value);
  if (now && resource.value) values.set("size", now.columns.resources[resource.value]);
  if (area.value !== "capacity") values.set("area", area.value);
  if (colouring.value !== "verdict") values.set("colour", colouring.value);
  if (isGuided.value) values.set("guide", "");
  if (chapter.value) values.set("course", String(chapter.value));
  const steps = values.toString();
  if (now && !(follows.value && now.columns.isLive)) values.set("t", momentOf(now.columns, cursor.value));
  if (step.value !== -1) values.set("step", String(step.value));
  if (range.value) values.set("range", range.value.map(short).join());
  const { scale, x, y } = camera.value;
  if (scale > 1) values.set("zoom", [scale, x, y].map((each) => each.toFixed(3)).join());
  if (theme.value) values.set("theme", theme.value);
  values.set("lang", language.value);
  const whole = values.toString().replaceAll("%2F", "/").replaceAll("%2C", ",").replaceAll("guide=", "guide");
  return { steps, whole };
}

let lastSteps: string | null = null;

function write(isStep: boolean, whole: string): void {
  if (location.hash.slice(1) === whole || location.hash !== written) return; // somebody changed it: it is read next
  try {
    if (isStep) history.pushState(null, "", `#${whole}`);
    else history.replaceState(null, "", `#${whole}`);
    written = location.hash;
  } catch {
    // a frame in a notebook has no address of its own
  }
}

let writing = 0;
let isDue = false;
/** Keep the address up to date: at once for what Back should undo, soon for what only moves. */
export function keepAddress(): void {
  effect(() => {
    const { steps } = addressOf();
    if (isReading || lastSteps === null) lastSteps = steps;
    clearTimeout(writing);
    writing = window.setTimeout(() => write(false, addressOf().whole), 250);
    if (steps === lastSteps || isDue) return;
    isDue = true;
    queueMicrotask(() => {
      isDue = false; // several signals that change together are one step
      const now = addressOf();
      if (now.steps !== lastSteps) write(true, now.whole);
      lastSteps = now.steps;
    });
  });
}
