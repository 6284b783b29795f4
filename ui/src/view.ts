// What is being looked at: signals that all views share, and the address bar, which holds the whole view.
import { batch, computed, effect, signal } from "@preact/signals";
import { type Columns, Kind, type Meta } from "./columns";
import { type Keyframe, State, type Strips, strips } from "./state";
import { language } from "./words";

export interface Funnel {
  plugin: string;
  code: string;
  reasons: string[];
  rows: number[];
}
export interface Best {
  node: number;
  total: number;
  shares: number[];
}
export interface Why {
  pod: string;
  schedulerName: string;
  outcome: string;
  node: number | null;
  reason: string;
  message: string;
  nodes: { all: number; evaluated: number; feasible: number };
  ties: number;
  funnel: Funnel[];
  plugins: string[];
  best: Best[];
  totals: [number[], number[]];
  nominated: string | null;
  victims: { pod: string; priority: number; breaks: string[] }[];
  suggestions: { text: string; nodes: number[] }[];
  notes: string[];
  again: string;
  problem?: string;
}

/** One record with its state at the cursor. */
export class Shown {
  state: State;
  strips = signal<Strips | null>(null);
  private scout: State; // goes through the whole record for the strips
  constructor(
    readonly number: number,
    public meta: Meta,
    readonly columns: Columns,
  ) {
    const keyframes: Keyframe[] = [];
    this.state = new State(columns, keyframes);
    this.scout = new State(columns, keyframes);
  }
  measure(): void {
    clearTimeout(this.measuring);
    this.measuring = 0;
    this.strips.value = strips(this.columns, this.scout);
    this.measured = performance.now();
  }
  /** Measure what has come, not too often: a large record takes a while. */
  measureSoon(): void {
    const rest = this.measured + (this.columns.length > 50_000 ? 3000 : 300) - performance.now();
    this.measuring ||= window.setTimeout(() => this.measure(), Math.max(0, rest));
  }
  private measured = 0;
  private measuring = 0;
}

export const records = signal<Shown[]>([]);
export const isOurs = signal(false);
export const hasStories = signal(false); // stories can be played from here
export const isSaving = signal(false); // the panel with what can be taken away
export const isFile = signal(false); // one file without a server: nobody can be asked
export const problem = signal(""); // what is wrong with the connection, if anything
export const growth = signal(0); // another number when a record has grown
export const cursor = signal(0); // so many events of the first record have happened
export const follows = signal(true); // the cursor stays at the head of a live record
export const isPlaying = signal(false);
export const speed = signal(1);
export const pod = signal<number>(-1);
export const node = signal<number>(-1);
export const grouping = signal("topology.kubernetes.io/zone");
export const resource = signal(0);
export const colouring = signal<"verdict" | "use">("verdict");
export const step = signal(-1); // of the funnel: only what happened up to it is shown on the map; -1: all
export const why = signal<Why | null>(null);
export const isAsking = signal(false);
export const hovered = signal(-1);
export const theme = signal<"" | "dark" | "light">("");
export const search = signal("");
export const isGuided = signal(false);
export const chapter = signal(0); // of the course, that is open; 0: none
export const narrowView = signal<"map" | "why" | "queue" | "time">("map");

export const settled = signal(0); // another number when the cursor has come to rest

let resting = 0;
effect(() => {
  void cursor.value;
  clearTimeout(resting);
  resting = window.setTimeout(() => settled.value++, 300);
});

export const shown = computed(() => records.value[0]);

/** The time at the cursor. */
export function timeAt(): number {
  const columns = shown.value?.columns;
  if (!columns?.length) return 0;
  return columns.events.time.data[Math.max(0, Math.min(cursor.value, columns.length) - 1)];
}

/** The attempt that is explained: the last one of the selected pod at the cursor, or of all pods. */
export const attempt = computed(() => {
  const now = shown.value;
  growth.value;
  const at = cursor.value;
  if (!now) return -1;
  if (pod.value >= 0) return lastAttempt(now.columns, at, pod.value);
  return lastAttempt(now.columns, at, -1);
});

export function lastAttempt(columns: Columns, before: number, of: number): number {
  const { kind, pod: pods } = columns.events;
  for (let event = Math.min(before, columns.length) - 1; event >= 0; event--)
    if (kind.data[event] === Kind.ATTEMPT && (of < 0 || pods.data[event] === of)) return event;
  return -1;
}

export function nextAttempt(columns: Columns, from: number, of: number): number {
  const { kind, pod: pods } = columns.events;
  for (let event = from; event < columns.length; event++)
    if (kind.data[event] === Kind.ATTEMPT && (of < 0 || pods.data[event] === of)) return event;
  return -1;
}

/** The event after an attempt, and after what followed from it at once. */
export function afterAttempt(columns: Columns, event: number): number {
  const { kind, pod: pods, time } = columns.events;
  let at = event + 1;
  while (
    at < columns.length &&
    time.data[at] === time.data[event] &&
    kind.data[at] !== Kind.ATTEMPT &&
    (pods.data[at] === pods.data[event] || kind.data[at] === Kind.EVICTED)
  )
    at++;
  return at;
}

const later: (() => void)[] = [];

/** Do it now; or when the whole record is here, while there is its last instant alone. */
export function onceWhole(act: () => void): void {
  if (shown.value?.columns.isHead) later.push(act);
  else act();
}

/** The whole record is here. */
export function doWhatWaited(): void {
  for (const act of later.splice(0)) act();
}

export function goTo(event: number): void {
  onceWhole(() => {
    const length = shown.value?.columns.length ?? 0;
    batch(() => {
      cursor.value = Math.max(0, Math.min(length, event));
      follows.value = cursor.value >= length;
      step.value = -1;
    });
  });
}

/** Go to the end, wherever it is by then. */
export const goToEnd = () => onceWhole(() => goTo(shown.value?.columns.length ?? 0));

export function goToTime(time: number): void {
  const columns = shown.value?.columns;
  if (columns) goTo(columns.eventAfter(time));
}

/** Step to the next or the previous decision, of the selected pod if there is one. */
export function stepDecision(direction: 1 | -1, ofPod?: number): void {
  onceWhole(() => toDecision(direction, ofPod ?? pod.value));
}

function toDecision(direction: 1 | -1, ofPod: number): void {
  const columns = shown.value?.columns;
  if (!columns) return;
  const now = lastAttempt(columns, cursor.value, ofPod);
  if (direction > 0) {
    const next = nextAttempt(columns, now + 1, ofPod);
    goTo(next < 0 ? columns.length : afterAttempt(columns, next));
  } else {
    const before = now < 0 ? -1 : lastAttempt(columns, now, ofPod);
    goTo(before < 0 ? 0 : afterAttempt(columns, before));
  }
}

// ---- the address bar -----------------------------------------------------------------------------------------------

let address = ""; // as it was when it was last read or written

export function readAddress(): void {
  address = location.hash;
  const values = new URLSearchParams(location.hash.slice(1)),
    now = shown.value;
  batch(() => {
    grouping.value = values.get("by") ?? grouping.value;
    theme.value = (values.get("theme") as "dark" | "light") ?? theme.value;
    if (values.get("lang")) language.value = values.get("lang") as typeof language.value;
    if (values.get("size")) resource.value = Math.max(0, now?.columns.resources.indexOf(values.get("size")!) ?? 0);
    if (values.get("colour") === "use") colouring.value = "use";
    isGuided.value ||= values.has("guide");
    chapter.value = Number(values.get("course") ?? chapter.value);
    if (!now) return;
    if (values.get("pod")) pod.value = findPod(now.columns, values.get("pod")!);
    if (values.get("node")) node.value = now.columns.nodes.indexOf(values.get("node")!);
    if (values.get("event")) goTo(Number(values.get("event")));
  });
}

export function findPod(columns: Columns, name: string): number {
  const number = columns.podNames.indexOf(name);
  return number < 0 ? -1 : columns.pods.name.data.subarray(0, columns.pods.name.length).lastIndexOf(number);
}

export function writeAddress(): void {
  const now = shown.value;
  const values = new URLSearchParams();
  if (now?.number && records.value.length === 1) values.set("record", String(now.number));
  if (now && !follows.value) values.set("event", String(cursor.value));
  if (now && pod.value >= 0) values.set("pod", now.columns.podName(pod.value));
  if (now && node.value >= 0) values.set("node", now.columns.nodes[node.value]);
  if (grouping.value !== "topology.kubernetes.io/zone") values.set("by", grouping.value);
  if (now && resource.value) values.set("size", now.columns.resources[resource.value]);
  if (colouring.value === "use") values.set("colour", "use");
  if (theme.value) values.set("theme", theme.value);
  if (isGuided.value) values.set("guide", "");
  if (chapter.value) values.set("course", String(chapter.value));
  values.set("lang", language.value);
  const text = values.toString().replaceAll("%2F", "/").replaceAll("guide=", "guide");
  if (location.hash.slice(1) === text || location.hash !== address) return; // somebody has changed it: it is read next
  try {
    history.replaceState(null, "", `#${text}`);
    address = location.hash;
  } catch {
    // a frame in a notebook has no address of its own
  }
}

let writing = 0;
export function keepAddress(): void {
  effect(() => {
    void [
      cursor.value,
      follows.value,
      pod.value,
      node.value,
      grouping.value,
      resource.value,
      colouring.value,
      theme.value,
      language.value,
      isGuided.value,
      chapter.value,
    ];
    clearTimeout(writing);
    writing = window.setTimeout(writeAddress, 250);
  });
  effect(() => {
    if (theme.value) document.documentElement.dataset.theme = theme.value;
    else delete document.documentElement.dataset.theme;
  });
}
