// What is being looked at: signals that all views share.
import { computed, effect, signal } from "@preact/signals";
import { type Columns, Kind, type Meta } from "./columns";
import type { Suggestion } from "./engine";
import type { Theme } from "./palette";
import { type Keyframe, State, type Strips, strips } from "./state";
import { afterAttempt, type Highlight, highlights } from "./story";

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
  nominatedBefore?: string | null; // an earlier attempt made room for it there
  happened?: boolean; // rather than what would happen
  victims: { pod: string; priority: number; breaks: string[] }[];
  suggestions: Suggestion[];
  notes: string[];
  again: string;
  problem?: string;
}

/** What the server measures, as the report does: shares of what all nodes have. */
export interface Measured {
  time: number[];
  cpu: number[];
  memory: number[];
}

/** One record with its state at the cursor. */
export class Shown {
  state: State;
  strips = signal<Strips | null>(null);
  measured = signal<Measured | null>(null);
  highlights = signal<Highlight[]>([]);
  reference: Float64Array[] | null = null; // by resource, by node: what is used when all is read, to sort nodes by
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
    this.highlights.value = highlights(this.columns);
    this.measuredAt = performance.now();
  }
  /** Measure what has come, not too often: a large record takes a while. */
  measureSoon(): void {
    const rest = this.measuredAt + (this.columns.length > 50_000 ? 3000 : 300) - performance.now();
    this.measuring ||= window.setTimeout(() => this.measure(), Math.max(0, rest));
  }
  private measuredAt = 0;
  private measuring = 0;
}

export const COLOURINGS = ["verdict", "use", "namespace", "owner", "priority", "age"] as const;
export type Colouring = (typeof COLOURINGS)[number];
export const TABS = ["why", "node", "whatIf", "compare", "change", "course", "save"] as const;
export type Tab = (typeof TABS)[number];
export interface Camera {
  scale: number;
  x: number;
  y: number;
}
export const WHOLE: Camera = { scale: 1, x: 0.5, y: 0.5 }; // which share of the map is in the middle
export const ZONE = "topology.kubernetes.io/zone";

export const records = signal<Shown[]>([]);
export const isOurs = signal(false);
export const hasStories = signal(false); // stories can be played from here
export const isFile = signal(false); // one file without a server: nobody can be asked
export const problem = signal(""); // what is wrong with the connection, if anything; "lost": the server is gone
export const growth = signal(0); // another number when a record has grown
export const cursor = signal(0); // so many events of the first record have happened
export const follows = signal(true); // the cursor stays at the head of a live record
export const isPlaying = signal(false);
export const speed = signal(1);
export const pod = signal<number>(-1);
export const node = signal<number>(-1);
export const grouping = signal(ZONE);
export const resource = signal(0);
export const area = signal<"capacity" | "equal">("capacity");
export const colouring = signal<Colouring>("verdict");
export const step = signal(-1); // of the funnel: only what happened up to it is shown on the map; -1: all
export const why = signal<Why | null>(null);
export const isAsking = signal(false);
export const hovered = signal(-1);
export const theme = signal<"" | Theme>("");
export const isGuided = signal(false);
export const chapter = signal(0); // of the course, that is open; 0: none
export const tab = signal<Tab>("why"); // of the inspector
export const camera = signal<Camera>(WHOLE); // of the map; two maps move together
export const question = signal(""); // a what-if, as the server understands it
export const range = signal<[number, number] | null>(null); // of time that the strips show; null: all
export const dialog = signal<"" | "find" | "keys">("");
export const narrowView = signal<"map" | "why" | "queue" | "time">("map");

const dark = matchMedia("(prefers-color-scheme: dark)");
const prefersDark = signal(dark.matches);
dark.addEventListener("change", () => (prefersDark.value = dark.matches));
/** The theme that is seen. */
export const seenTheme = computed<Theme>(() => theme.value || (prefersDark.value ? "dark" : "light"));
const still = matchMedia("(prefers-reduced-motion: reduce)");
export const isStill = () => still.matches;

export const settled = signal(0); // another number when the cursor has come to rest
let resting = 0;
effect(() => {
  void cursor.value;
  clearTimeout(resting);
  resting = window.setTimeout(() => settled.value++, 300);
});

export const shown = computed(() => records.value[0]);
export const isCompared = () => records.value.length > 1;

/** The time at an event of a record: when the last of so many happened. */
export function timeOf(columns: Columns | undefined, at: number): number {
  if (!columns?.length) return 0;
  return columns.events.time.data[Math.max(0, Math.min(at, columns.length) - 1)];
}
/** The time at the cursor. */
export const timeAt = () => timeOf(shown.value?.columns, cursor.value);

/** The attempt that is explained: the last one of the selected pod at the cursor, or of all pods. */
export const attempt = computed(() => {
  const now = shown.value;
  growth.value;
  return now ? lastAttempt(now.columns, cursor.value, pod.value) : -1;
});

const CHANGES: number[] = [Kind.NODE, Kind.NODE_GONE, Kind.ON, Kind.OFF];

/** Whether what Why explains was decided on the cluster that is shown: nothing on the map has changed since. */
export const isNow = computed(() => {
  const columns = shown.value?.columns;
  if (!columns || attempt.value < 0 || columns.isHead) return true;
  for (let at = afterAttempt(columns, attempt.value); at < cursor.value; at++)
    if (CHANGES.includes(columns.events.kind.data[at])) return false;
  return true;
});

/** Go to the decision that Why explains. */
export const goToAttempt = () => {
  const columns = shown.value?.columns;
  if (columns && attempt.value >= 0) goTo(afterAttempt(columns, attempt.value));
};

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

const later: (() => void)[] = [];

/** Do it now; or when the whole record is here, while there is its last instant alone. */
export function onceWhole(act: () => void): void {
  if (shown.value?.columns.isHead) later.push(act);
  else act();
}

/** The whole record is here; true if somebody wanted something meanwhile. */
export function doWhatWaited(): boolean {
  const acts = later.splice(0);
  for (const act of acts) act();
  return acts.length > 0;
}

export function goTo(event: number): void {
  onceWhole(() => {
    const now = shown.value;
    if (!now) return;
    const to = Math.max(0, Math.min(event, now.columns.length));
    follows.value = to === now.columns.length;
    cursor.value = to;
  });
}

export function goToEnd(): void {
  onceWhole(() => goTo(shown.value?.columns.length ?? 0));
}

export function goToTime(time: number): void {
  onceWhole(() => goTo(shown.value?.columns.eventAfter(time) ?? 0));
}

/** Go to the next or previous decision: of the selected pod, if there is one. */
/** Whether the record is of one instant, such as a dump: then there is no time to show. */
export function isInstant(): boolean {
  growth.value;
  return records.value.every(({ columns }) => !columns.isLive && columns.begin === columns.end);
}

export function stepDecision(direction: 1 | -1, ofPod?: number): void {
  onceWhole(() => toDecision(direction, ofPod ?? pod.value));
}

/** Whether another decision follows. */
export const hasNext = (ofPod = pod.value) => {
  const columns = shown.value?.columns;
  return !!columns && nextAttempt(columns, lastAttempt(columns, cursor.value, ofPod) + 1, ofPod) >= 0;
};

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

/** Select a pod or a node, and show what there is to say about it. */
export function selectPod(which: number): void {
  pod.value = which;
  if (which >= 0 && tab.value !== "compare") tab.value = "why";
}
export function selectNode(which: number): void {
  node.value = which;
  if (which >= 0 && tab.value !== "compare") tab.value = "node";
  else if (which < 0 && tab.value === "node") tab.value = "why";
}

export function findPod(columns: Columns, name: string): number {
  const number = columns.podNames.indexOf(name);
  return number < 0 ? -1 : columns.pods.name.data.subarray(0, columns.pods.name.length).lastIndexOf(number);
}
