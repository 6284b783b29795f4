// Talking to the server: columns as they grow, explanations, and changes.
import { batch } from "@preact/signals";
import { Columns, Forgotten, type Meta } from "./columns";
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
  node,
  pod,
  problem,
  readAddress,
  records,
  Shown,
  shown,
  timeAt,
  type Why,
  why,
} from "./view";
import type { Answer } from "./WhatIf";
import { language, say } from "./words";

const RETRY_MS = 1500;
const STEP = 40_000; // events that are taken at once

/** What a page without a server carries with it: the answers to the questions that it will ask. */
const carried: Record<string, string> | null = JSON.parse(document.getElementById("carried")?.textContent || "null");

/** In a notebook the kernel answers, not a server. */
let transport: ((path: string) => Promise<Response>) | null = null;
export function setTransport(to: typeof transport): void {
  transport = to;
}

async function get(path: string): Promise<Response> {
  if (carried) {
    const found = carried[path];
    if (found === undefined)
      throw new Refused(say("this page carries no answer to that; ask the record itself: mooring ui"));
    return new Response(Uint8Array.from(atob(found), (each) => each.charCodeAt(0)));
  }
  const answer = await (transport ?? fetch)(path);
  if (!answer.ok)
    throw new Refused(
      ((await answer.json().catch(() => null)) as { message?: string } | null)?.message ?? answer.statusText,
    );
  return answer;
}

class Refused extends Error {}

export async function begin(): Promise<void> {
  const [meta, heads] = await Promise.all([getMeta(), readHead()]);
  isOurs.value = meta.isOurs;
  hasStories.value = meta.hasStories ?? false;
  isFile.value = carried !== null;
  const asked = transport ? -1 : Number(new URLSearchParams(location.hash.slice(1)).get("record") ?? -1);
  const numbers = meta.records[asked]
    ? [asked]
    : meta.records.slice(0, meta.shown ?? meta.records.length).map((_, number) => number);
  const make = () =>
    numbers.map((number) => new Shown(number, meta.records[number], new Columns(meta.records[number])));
  if (heads && numbers.length === 1 && numbers[0] === 0 && !meta.records[0].guide) {
    // the first view, while the rest is on its way
    const first = make();
    first[0].columns.take(heads);
    batch(() => {
      records.value = first;
      cursor.value = first[0].columns.length;
      readAddress();
    });
    await drawn();
  }
  const found = make();
  await Promise.all(found.map(readAll));
  batch(() => {
    show(found);
    if (found[0].meta.guide) {
      // a lesson begins at its beginning
      isGuided.value = true;
      goTo(0);
    }
    if (!transport) readAddress();
  });
  doWhatWaited();
  setTimeout(() => {
    for (const each of found) each.measure();
  }); // after the first view
  for (const each of found) void keepReading(each);
}

interface AllMeta {
  records: Meta[];
  shown?: number;
  isOurs: boolean;
  hasStories?: boolean;
}
const getMeta = async () => (await (await get("api/meta")).json()) as AllMeta;

/** What is known of the records has changed: the scheduler was configured anew. */
export async function readMeta(): Promise<void> {
  const { records: now } = await getMeta();
  for (const each of records.value) each.meta = now[each.number];
  growth.value++;
}

/** The last instant, which is small; null where the view is of another one. */
async function readHead(): Promise<ArrayBuffer | null> {
  if (carried || transport || /[#&](event|guide|record)/.test(location.hash)) return null;
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
}

/** Show these records; what was selected stays selected, by name. */
function show(found: Shown[]): void {
  const before = shown.value,
    name = before && pod.value >= 0 ? before.columns.podName(pod.value) : "";
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
  const answer = await get(
    carried
      ? `api/columns?record=${number}`
      : `api/columns?record=${number}&have=${columns.have().join(",")}&generation=${columns.generation}`,
  );
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
}

async function keepReading(record: Shown): Promise<void> {
  if (!record.columns.isLive) return;
  while (record.columns.isLive || !record.columns.isWhole) {
    try {
      const isNew = await fetchMore(record);
      problem.value = "";
      if (!isNew) continue;
      record.measureSoon();
      batch(() => {
        growth.value++;
        if (record === shown.value && follows.value) cursor.value = record.columns.length;
      });
    } catch (error) {
      if (error instanceof Forgotten) return readAnew(record);
      problem.value = error instanceof Refused ? error.message : "lost";
      if (error instanceof Refused) return;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
  growth.value++;
}

// ---- explanations ----------------------------------------------------------------------------------------------------

const known = new Map<string, Why>();
const MOST = 200;
let wanted = "";

/** Events are numbered anew when the server forgets. */
const of = ({ columns: { generation } }: Shown) => (generation ? `&generation=${generation}` : "");

export async function explain(record: Shown, event: number): Promise<Why> {
  const key = `${record.number}/${event}`;
  let found = known.get(key);
  if (!found) {
    found = (await (await get(`api/why?record=${record.number}&event=${event}${of(record)}`)).json()) as Why;
    if (known.size >= MOST) known.delete(known.keys().next().value!);
    known.set(key, found);
  }
  return found;
}

export async function askWhy(): Promise<void> {
  const event = attempt.value,
    record = shown.value;
  const key = `${event}`;
  wanted = key;
  if (event < 0 || !record || record.columns.isHead) {
    why.value = null;
    return;
  }
  const at = known.get(`${record.number}/${event}`);
  if (at) {
    why.value = at;
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

// ---- changes, where the cluster is ours ------------------------------------------------------------------------------

async function change(path: string, body = ""): Promise<Record<string, unknown>> {
  const answer = await fetch(path, { method: "POST", body, headers: { "Content-Type": "text/plain; charset=utf-8" } });
  const told = (await answer.json().catch(() => ({ message: answer.statusText }))) as Record<string, unknown>;
  if (!answer.ok) throw new Error(String(told.message));
  return told;
}

export async function whatIf(record: Shown, event: number, question: string): Promise<Answer> {
  return (await (
    await get(`api/what-if?record=${record.number}&event=${event}${of(record)}&${question}`)
  ).json()) as Answer;
}

/** The chapters of the course that steps lead to, as Markdown, by number. */
export async function chapters(of: string): Promise<Record<string, string>> {
  return (await (await get(`course-${of}.json`)).json()) as Record<string, string>;
}

export const configure = (text: string, isCheck: boolean) =>
  change(isCheck ? "api/configure?check" : "api/configure", text) as unknown as Promise<{
    problems: string[];
    warnings: string[];
    applied: boolean;
  }>;
export async function configurationNow(): Promise<string> {
  return ((await (await get("api/configuration")).json()) as { configuration: string }).configuration;
}
export async function stories(): Promise<Record<string, string>> {
  return (await (await get(`api/stories?lang=${language.value}`)).json()) as Record<string, string>;
}
/** Play a story; it is a record of its own, and the page shows it from its beginning. */
export async function playStory(name: string): Promise<void> {
  const { record } = await change(`api/play?story=${encodeURIComponent(name)}&lang=${language.value}`);
  location.hash = `record=${record}&guide&lang=${language.value}`;
  location.reload();
}
export const applyManifest = (manifest: string) => change("api/apply", manifest);
export const deleteObject = (ref: string) => change(`api/delete?ref=${encodeURIComponent(ref)}`);
export async function manifestOf(ref: string): Promise<string> {
  return ((await (await get(`api/manifest?ref=${encodeURIComponent(ref)}`)).json()) as { manifest: string }).manifest;
}
