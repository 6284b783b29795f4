// What if: a node or a whole group is lost, cordoned, or more of the same are added. Asked of a fork; the record stays as it is.
import { signal } from "@preact/signals";
import { whatIf as ask } from "./net";
import { attempt, cursor, grouping, node, pod, shown, findPod, Why } from "./view";
import { Told } from "./WhyPanel";
import { count, say } from "./words";

export interface Answer {
  lost: number[]; added?: string[]; placed?: Record<string, number>; unplaced?: Record<string, string>; preempted?: Record<string, string>;
  bare?: string[]; budgets?: string[]; use?: Record<string, number>; why?: Why;
}
interface Asked { title: string; at: number; answer: Answer | null; problem: string }
export const asked = signal<Asked | null>(null);

/** What the map shows of the answer: nodes that are lost, and nodes that get pods. */
export function changes(): { lost: Set<number>; gets: Set<number> } | undefined {
  const found = asked.value?.at === cursor.value ? asked.value.answer : null;
  return found ? { lost: new Set(found.lost), gets: new Set(Object.values(found.placed ?? {}).filter((row) => row >= 0)) } : undefined;
}

async function put(title: string, question: string): Promise<void> {
  const at = cursor.value, event = attempt.value;
  asked.value = { title, at, answer: null, problem: event < 0 ? say("no decision yet") : "" };
  if (event < 0) return;
  try {
    asked.value = { title, at, answer: await ask(shown.value!, event, question), problem: "" };
  } catch (error) {
    asked.value = { title, at, answer: null, problem: (error as Error).message };
  }
}

export function WhatIfButtons() {
  const { columns, state } = shown.value!, name = columns.nodes[node.value], key = columns.texts.indexOf(grouping.value);
  const value = key < 0 ? -1 : columns.label(state.version[node.value], key), group = value < 0 ? "" : columns.texts[value];
  const encoded = encodeURIComponent;
  return (
    <p class="what-if"><span class="soft">{say("what if")}</span>{" "}
      <button type="button" onClick={() => void put(say("{node} is lost", { node: name }), `lose=${encoded(name)}`)}>{say("it is lost")}</button>
      {group && <button type="button" onClick={() => void put(say("{node} is lost", { node: group }), `lose=${encoded(`${grouping.value}=${group}`)}`)}>{say("{node} is lost", { node: group })}</button>}
      <button type="button" onClick={() => void put(say("{node} is cordoned", { node: name }), `cordon=${encoded(name)}`)}>{say("it is cordoned")}</button>
      <button type="button" onClick={() => void put(say("3 more nodes like {node}", { node: name }), `add=3&like=${encoded(name)}`)}>{say("3 more like it")}</button>
    </p>
  );
}

export function WhatIfPanel() {
  const now = asked.value;
  if (!now) return null;
  const { columns } = shown.value!, found = now.answer;
  const placed = Object.entries(found?.placed ?? {}), unplaced = Object.entries(found?.unplaced ?? {});
  return (
    <section class="panel whatIfPanel" aria-label={say("what if")} aria-busy={!found && !now.problem}>
      <header><h2>{say("what if")}</h2><strong>{now.title}</strong><button type="button" class="push quiet" onClick={() => (asked.value = null)} aria-label={say("close")}>✕</button></header>
      <div class="scroll" tabIndex={0}>
        {now.problem ? <p>{now.problem}</p> : !found ? <p class="soft">{say("asking…")}</p> : found.why ? <Told why={found.why} /> : (
          <>
            <p><strong>{count(placed.length)}</strong> {say("pods find a place")} · <strong>{count(unplaced.length)}</strong> {say("find none")}
              {found.bare && found.bare.length > 0 && <> · <strong>{count(found.bare.length)}</strong> {say("have no controller: somebody has to make them anew")}</>}
              {found.use && Object.entries(found.use).map(([name, share]) => <> · {name} {share} %</>)}</p>
            {unplaced.length > 0 && <ul>{unplaced.slice(0, 20).map(([name, why]) => <li key={name}><button type="button" class="name" onClick={() => (pod.value = findPod(columns, name))}>{name}</button> <span class="soft">{why}</span></li>)}</ul>}
            {found.budgets && found.budgets.length > 0 && <p>{say("budgets that break")}: {found.budgets.join(", ")}</p>}
            {placed.length > 0 && <ul>{placed.slice(0, 40).map(([name, row]) => <li key={name}>{name} → {row < 0 ? say("a new node") : <button type="button" class="name" onClick={() => (node.value = row)}>{columns.nodes[row]}</button>}</li>)}</ul>}
            {placed.length > 40 && <p class="soft">{say("{n} more", { n: count(placed.length - 40) })}</p>}
          </>
        )}
      </div>
    </section>
  );
}
