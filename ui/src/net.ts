// Talking to the server: columns as they grow, explanations, what-ifs, and changes.
import { batch, signal } from "@preact/signals";
import { hasMoment, readNames } from "./address";
import { Columns, Forgotten, harmless, type Meta, parsed } from "./columns";
import { highlights, openingCursor } from "./story";
import {
  attempt,
  cursor,
  doWhatWaited,
  findPod,
  follows,
  goTo,
  goToTime,
  growth,
  hasStories,
  isAsking,
  isFile,
  isGuided,
  isOurs,
  type Measured,
  node,
  pod,
  problem,
  records,
  Shown,
  shown,
  stepDecision,
  timeAt,
  type Why,
  why,
} from "./view";
import type { Answer } from "./WhatIf";
import { language, say } from "./words";

const RETRY_MS = 1500;
const LOOK_MS = 5000; // how often to look whether the server of a finished record is still there
const STEP = 40_000; // events that are taken at once

/** What a page without a server carries with it: the answers to the questions that it will ask. */
const carried: Record<string, string> | null = JSON.parse(document.getElementById("carried")?.textContent || "null");

/** In a notebook the kernel answers, not a server. */
let transport: ((path: string) => Promise<Response>) | null = null;
export function setTransport(to: typeof transport): void {
  transport = to;
}

/** The server says no. */
class Refused extends Error {}
/** The server says nothing. */
class Lost extends Error {}

async function get(path: string, options?: RequestInit): Promise<Response> {
  if (carried) {
    const found = carried[path];
    if (found === undefined) throw new Refused(say("file.noAnswer"));
    return new Response(Uint8Array.from(atob(found), (each) => each.charCodeAt(0)));
  }
  const answer = await (transport ? transport(path) : fetch(path, options)).catch((error: Error) => {
    if (error.name === "AbortError") throw error;
    void returning();
    throw new Lost(say("server.lost"));
  });
  if (answer.ok) return answer;
  const told = (await answer.json().catch(() => null)) as { message?: string } | null;
  throw new Refused(harmless(told?.message ?? answer.statusText));
}

async function getJson<T>(path: string, options?: RequestInit): Promise<T> {
  return parsed(await (await get(path, options)).text()) as T;
}

export const returned = signal(0); // another number when a server that was gone answers again
let comesBack: Promise<void> | null = null;

/** Say that the server is gone, and wait until it answers again. */
function returning(): Promise<void> {
  problem.value = "lost";
  comesBack ??= (async () => {
    let isBack = false;
    while (!isBack) {
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      isBack = await fetch("api/progress").then(
        (answer) => answer.ok,
        () => false,
      );
    }
    comesBack = null;
    problem.value = "";
    returned.value++;
  })();
  return comesBack;
}

/** Look at times whether the server is there, where nothing else is asked. */
function keepLooking(): void {
  if (carried || transport) return;
  setInterval(() => {
    if (!document.hidden && !comesBack) void get("api/progress").catch(() => {});
  }, LOOK_MS);
}

export async function begin(): Promise<void> {
  const [meta, heads] = await Promise.all([getMeta(), readHead()]);
  isOurs.value = meta.isOurs;
  hasStories.value = meta.hasStories ?? false;
  isFile.value = carried !== null;
  const asked = transport ? -1 : Number(new URLSearchParams(location.hash.slice(1)).get("record") ?? -1);
  const all = meta.records.slice(0, meta.shown ?? meta.records.length).map((_, number) => number);
  const numbers = meta.records[asked] ? [asked] : all;
  const make = () =>
    numbers.map((number) => new Shown(number, meta.records[number], new Columns(meta.records[number])));
  if (heads && numbers.length === 1 && numbers[0] === 0 && !meta.records[0].guide) {
    const first = make(); // the first view, while the rest is on its way
    first[0].columns.take(heads);
    batch(() => {
      records.value = first;
      cursor.value = first[0].columns.length;
      readNames();
    });
    await drawn();
  }
  const found = make();
  await Promise.all(found.map(readAll));
  batch(() => {
    show(found);
    if (!transport) readNames();
    if (found[0].meta.guide && !hasMoment()) {
      isGuided.value = true; // a lesson begins at its beginning
      goTo(0);
    } else if (isGuided.value && !hasMoment()) {
      goTo(0); // and a decision is told from the first one on
      stepDecision(1);
    } else if (!doWhatWaited() && !hasMoment() && !found[0].columns.isLive) {
      const opening = openingCursor(highlights(found[0].columns));
      if (opening >= 0) goTo(opening);
    }
  });
  setTimeout(() => {
    for (const each of found) each.measure(); // after the first view
  });
  for (const each of found) {
    void keepReading(each);
    void keepMeasuring(each);
  }
  keepLooking();
}

interface AllMeta {
  records: Meta[];
  shown?: number;
  isOurs: boolean;
  hasStories?: boolean;
}
const getMeta = () => getJson<AllMeta>("api/meta");

/** What is known of the records has changed: the scheduler was configured anew. */
export async function readMeta(): Promise<void> {
  const { records: now } = await getMeta();
  for (const each of records.value) each.meta = now[each.number];
  growth.value++;
}

/** The last instant, which is small; null where the view is of another one. */
async function readHead(): Promise<ArrayBuffer | null> {
  if (carried || transport || hasMoment() || /[#&](record|guide)/.test(location.hash)) return null;
  return get("api/head?record=0").then(
    (answer) => answer.arrayBuffer(),
    () => null,
  );
}

const drawn = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
const pause = () => new Promise((resolve) => setTimeout(resolve));

/** Read a whole record, and be at its end, in small steps: the page stays at hand meanwhile. */
async function readAll(record: Shown): Promise<void> {
  do await fetchMore(record);
  while (!record.columns.isWhole);
  for (let at = STEP; at < record.columns.length; at += STEP) {
    record.state.goTo(at);
    await pause();
  }
  record.state.goTo(record.columns.length);
  record.reference = record.state.used.map((column) => column.slice());
}

/** Show these records; what was selected stays selected, by name. */
function show(found: Shown[]): void {
  const before = shown.value;
  const name = before && pod.value >= 0 ? before.columns.podName(pod.value) : "";
  const time = before && !follows.value && !before.columns.isHead ? timeAt() : null;
  const place = before && node.value >= 0 ? before.columns.nodes[node.value] : "";
  records.value = found;
  pod.value = name ? findPod(found[0].columns, name) : -1;
  node.value = place ? found[0].columns.nodes.indexOf(place) : -1;
  if (time === null) goTo(found[0].columns.length);
  else goToTime(time);
}

async function fetchMore(record: Shown): Promise<boolean> {
  const { columns, number } = record;
  const path = `api/columns?record=${number}`;
  const rest = `&have=${columns.have().join(",")}&generation=${columns.generation}`;
  const answer = await get(carried ? path : path + rest);
  return columns.take(await answer.arrayBuffer());
}

/** The server has forgotten what was long ago: read what it has. */
async function readAnew(record: Shown): Promise<void> {
  const fresh = new Shown(record.number, record.meta, new Columns(record.meta));
  await readAll(fresh);
  known.clear();
  batch(() => show(records.value.map((each) => (each === record ? fresh : each))));
  fresh.measure();
  void keepReading(fresh);
  void keepMeasuring(fresh);
}

async function keepReading(record: Shown): Promise<void> {
  if (!record.columns.isLive) return;
  while (record.columns.isLive || !record.columns.isWhole) {
    try {
      if (!(await fetchMore(record))) continue;
      record.measureSoon();
      batch(() => {
        growth.value++;
        if (record === shown.value && follows.value) cursor.value = record.columns.length;
      });
    } catch (error) {
      if (error instanceof Forgotten) return readAnew(record);
      if (error instanceof Lost) {
        await returning();
        continue;
      }
      problem.value = (error as Error).message;
      return;
    }
  }
  growth.value++;
}

const MEASURE_MS = 5000;
const LATER_MS = 200;

/** Keep what the server measures up to date; it is given at least twenty times as long as it takes. */
async function keepMeasuring(record: Shown): Promise<void> {
  while (isAsking.value || why.value === null) {
    if (attempt.value < 0) break;
    await new Promise((resolve) => setTimeout(resolve, LATER_MS)); // explanations first
  }
  for (let length = -1; records.value.includes(record); ) {
    const begun = performance.now();
    if (record.columns.length !== length) {
      length = record.columns.length;
      const found = await getJson<Measured>(`api/measures?record=${record.number}`).catch(() => null);
      if (found) record.measured.value = found;
    }
    if (!record.columns.isLive && record.measured.value && record.columns.length === length) return;
    const took = performance.now() - begun;
    await new Promise((resolve) => setTimeout(resolve, Math.max(MEASURE_MS, 20 * took)));
  }
}

// ---- explanations --------------------------------------------------------------------------------------------------

const known = new Map<string, Why>();
const MOST = 200;
let wanted = "";

/** Events are numbered anew when the server forgets. */
const of = ({ columns: { generation } }: Shown) => (generation ? `&generation=${generation}` : "");

export async function explain(record: Shown, event: number): Promise<Why> {
  const key = `${record.number}/${event}`;
  let found = known.get(key);
  if (!found) {
    found = await getJson<Why>(`api/why?record=${record.number}&event=${event}${of(record)}`);
    if (known.size >= MOST) known.delete(known.keys().next().value!);
    known.set(key, found);
  }
  return found;
}

/** Ask why, unless the cursor moves on meanwhile. */
export async function askWhy(): Promise<void> {
  const event = attempt.value;
  const record = shown.value;
  const key = `${event}`;
  wanted = key;
  if (event < 0 || !record || record.columns.isHead) {
    why.value = null;
    return;
  }
  const at = known.get(`${record.number}/${event}`);
  if (at) {
    why.value = at;
    isAsking.value = false;
    return;
  }
  isAsking.value = true;
  await new Promise((resolve) => setTimeout(resolve, 60)); // while the cursor moves nobody has to be asked
  if (wanted !== key) return;
  try {
    const found = await explain(record, event);
    if (wanted === key) why.value = found;
  } catch (error) {
    if (wanted === key) why.value = { problem: String((error as Error).message) } as Why;
  } finally {
    if (wanted === key) isAsking.value = false;
  }
}

// ---- what if -------------------------------------------------------------------------------------------------------

const PROGRESS_MS = 400;

/** Ask a what-if; ``tell`` hears how far it is. Aborting lets the server stop, too. */
export async function whatIf(
  record: Shown,
  event: number,
  question: string,
  signal: AbortSignal,
  tell: (done: number, of: number) => void,
): Promise<Answer> {
  const name = Array.from(crypto.getRandomValues(new Uint32Array(4)), (each) => each.toString(36)).join("");
  const timer = setInterval(async () => {
    const { done, of: all } = await getJson<{ done?: number; of?: number }>(`api/progress?ask=${name}`, {
      signal,
    }).catch(() => ({ done: undefined, of: undefined }));
    if (all) tell(done ?? 0, all);
  }, PROGRESS_MS);
  signal.addEventListener("abort", () => void get(`api/progress?ask=${name}&stop`).catch(() => {}));
  try {
    const when = event < 0 ? "last" : event; // without a decision: after everything that has happened
    const path = `api/what-if?record=${record.number}&event=${when}${of(record)}&${question}&ask=${name}`;
    return await getJson<Answer>(path, { signal });
  } finally {
    clearInterval(timer);
  }
}

/** The chapters of the course that steps lead to, as Markdown, by number. */
export const chapters = (of: string) => getJson<Record<string, string>>(`course-${of}.json`);

// ---- changes, where the cluster is ours ----------------------------------------------------------------------------

async function change(path: string, body = ""): Promise<Record<string, unknown>> {
  const headers = { "Content-Type": "text/plain; charset=utf-8" };
  const answer = await fetch(path, { method: "POST", body, headers }).catch(() => {
    void returning();
    throw new Lost(say("server.lost"));
  });
  const told = (await answer.json().catch(() => ({ message: answer.statusText }))) as Record<string, unknown>;
  if (!answer.ok) throw new Error(String(told.message));
  return told;
}

export const configure = (text: string, isCheck: boolean) =>
  change(isCheck ? "api/configure?check" : "api/configure", text) as unknown as Promise<{
    problems: string[];
    warnings: string[];
    applied: boolean;
  }>;
export async function configurationNow(): Promise<string> {
  return (await getJson<{ configuration: string }>("api/configuration")).configuration;
}
export const stories = () => getJson<Record<string, string>>(`api/stories?lang=${language.value}`);
/** Play a story; it is a record of its own, and the page shows it from its beginning. */
export async function playStory(name: string): Promise<void> {
  const { record } = await change(`api/play?story=${encodeURIComponent(name)}&lang=${language.value}`);
  location.hash = `record=${record}&guide&lang=${language.value}`;
  location.reload();
}
export const applyManifest = (manifest: string) => change("api/apply", manifest);
export const deleteObject = (ref: string) => change(`api/delete?ref=${encodeURIComponent(ref)}`);
export async function manifestOf(ref: string): Promise<string> {
  return (await getJson<{ manifest: string }>(`api/manifest?ref=${encodeURIComponent(ref)}`)).manifest;
}
