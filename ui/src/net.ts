// Talking to the server: columns as they grow, explanations, and changes.
import { batch } from "@preact/signals";
import { Columns, Meta } from "./columns";
import type { Answer } from "./WhatIf";
import { say } from "./words";
import { attempt, cursor, follows, goTo, growth, isGuided, isAsking, isFile, isOurs, problem, readAddress, records, Shown, shown, Why, why } from "./view";

const RETRY_MS = 1500;

/** What a page without a server carries with it: the answers to the questions that it will ask. */
const carried: Record<string, string> | null = JSON.parse(document.getElementById("carried")?.textContent || "null");

async function get(path: string): Promise<Response> {
  if (carried) {
    const found = carried[path];
    if (found === undefined) throw new Refused(say("this page carries no answer to that; ask the record itself: mooring ui"));
    return new Response(Uint8Array.from(atob(found), (each) => each.charCodeAt(0)));
  }
  const answer = await fetch(path);
  if (!answer.ok) throw new Refused(((await answer.json().catch(() => null)) as { problem?: string } | null)?.problem ?? answer.statusText);
  return answer;
}

class Refused extends Error {}

export async function begin(): Promise<void> {
  const meta = (await (await get("api/meta")).json()) as { records: Meta[]; isOurs: boolean };
  isOurs.value = meta.isOurs;
  isFile.value = carried !== null;
  const found = meta.records.map((each, number) => new Shown(number, each, new Columns(each)));
  await Promise.all(found.map(async (each) => { do await fetchMore(each); while (!each.columns.isWhole); }));
  batch(() => {
    records.value = found;
    cursor.value = found[0].columns.length;
    if (found[0].meta.guide) { // a lesson begins at its beginning
      isGuided.value = true;
      goTo(0);
    }
    readAddress();
  });
  setTimeout(() => { for (const each of found) each.measure(); }); // after the first view
  for (const each of found) void keepReading(each);
}

async function fetchMore(record: Shown): Promise<boolean> {
  const answer = await get(carried ? `api/columns?record=${record.number}` : `api/columns?record=${record.number}&have=${record.columns.have().join(",")}`);
  return record.columns.take(await answer.arrayBuffer());
}

let measured = 0;

async function keepReading(record: Shown): Promise<void> {
  if (!record.columns.isLive) return;
  while (record.columns.isLive || !record.columns.isWhole) {
    try {
      const isNew = await fetchMore(record);
      problem.value = "";
      if (!isNew) continue;
      if (performance.now() - measured > (record.columns.length > 50_000 ? 3000 : 300) || !record.columns.isLive) {
        record.measure();
        measured = performance.now();
      }
      batch(() => {
        growth.value++;
        if (record === shown.value && follows.value) cursor.value = record.columns.length;
      });
    } catch (error) {
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

export async function explain(record: Shown, event: number): Promise<Why> {
  const key = `${record.number}/${event}`;
  let found = known.get(key);
  if (!found) {
    found = (await (await get(`api/why?record=${record.number}&event=${event}`)).json()) as Why;
    if (known.size >= MOST) known.delete(known.keys().next().value!);
    known.set(key, found);
  }
  return found;
}

export async function askWhy(): Promise<void> {
  const event = attempt.value, record = shown.value;
  const key = `${event}`;
  wanted = key;
  if (event < 0 || !record) {
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
  const told = (await answer.json().catch(() => ({ problem: answer.statusText }))) as Record<string, unknown>;
  if (!answer.ok) throw new Error(String(told.problem));
  return told;
}

export async function whatIf(record: Shown, event: number, question: string): Promise<Answer> {
  return (await (await get(`api/what-if?record=${record.number}&event=${event}&${question}`)).json()) as Answer;
}

export const applyManifest = (manifest: string) => change("api/apply", manifest);
export const deleteObject = (ref: string) => change(`api/delete?ref=${encodeURIComponent(ref)}`);
export async function manifestOf(ref: string): Promise<string> {
  return ((await (await get(`api/manifest?ref=${encodeURIComponent(ref)}`)).json()) as { manifest: string }).manifest;
}
