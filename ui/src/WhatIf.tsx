// What if: asked of a fork; the record stays as it is. An answer may take long: it can be stopped.
import { computed, effect, signal } from "@preact/signals";
import { useState } from "preact/hooks";
import type { Differs } from "./drawn";
import { engineText, suggestionText } from "./engine";
import { Empty, NodeName, PodName } from "./names";
import { whatIf as ask } from "./net";
import {
  attempt,
  cursor,
  goTo,
  grouping,
  isFile,
  node,
  onceWhole,
  question,
  shown,
  tab,
  timeOf,
  type Why,
  why,
} from "./view";
import { Told } from "./WhyPanel";
import { clock, count, say } from "./words";

export interface Answer {
  lost: number[];
  added?: string[];
  placed?: Record<string, number>;
  unplaced?: Record<string, string>;
  preempted?: Record<string, string>;
  bare?: string[];
  budgets?: string[];
  use?: Record<string, number>;
  why?: Why;
  stays?: boolean;
  asked?: "all" | "pending";
  pods?: number;
  moves?: number;
  moved?: { pod: string; from: number | null; to: number | null; because: string }[];
}
interface Asked {
  question: string;
  at: number; // the cursor when it was asked
  answer: Answer | null;
  problem: string;
  done: number;
  of: number;
}
const asked = signal<Asked | null>(null);
let stopping = new AbortController();

const parts = (text: string) => new URLSearchParams(text);

/** A suggestion that is tried, as Why has told it. */
function triedText(text: string): string {
  const found = why.value?.suggestions?.find((each) => each.text === text);
  return found ? suggestionText(found, shown.value!.columns.nodes) : engineText(text);
}

/** What is asked, in words. */
export function titleOf(text: string): string {
  const values = parts(text);
  const what = values.get("lose") ?? values.get("drain") ?? values.get("cordon") ?? values.get("like") ?? "";
  const short = what.slice(what.indexOf("=") + 1);
  if (values.has("lose")) return say("if.lost", { node: short });
  if (values.has("drain")) return say("if.drained", { node: short });
  if (values.has("cordon")) return say("if.cordoned", { node: short });
  if (values.has("add")) return say("if.added", { n: Number(values.get("add")), node: short });
  if (values.has("try")) return triedText(values.get("try")!);
  const [plugin, weight] = (values.get("weight") ?? ":").split(":");
  return say("if.weighs", { plugin, w: weight });
}

/** What the map shows of the answer, while it shows the instant that was asked about. */
export const changes = computed<Differs | undefined>(() => {
  const now = asked.value;
  const found = now?.at === cursor.value ? now.answer : null;
  if (!now || !found) return undefined;
  const rows = (values: (number | null)[]) => new Set(values.filter((row): row is number => row !== null && row >= 0));
  const placed = Object.values(found.placed ?? {});
  const moved = found.moved ?? [];
  const tried = parts(now.question).has("try") && found.why?.node != null ? [found.why.node] : [];
  return {
    lost: new Set(found.lost),
    gets: rows([...placed, ...moved.map((each) => each.to), ...tried]),
    leaves: rows(moved.map((each) => each.from)),
    added: found.added?.length ?? 0,
    like: shown.value!.columns.nodes.indexOf(parts(now.question).get("like") ?? ""),
    onAdded: placed.filter((row) => row < 0).length,
    stays: found.stays ?? false,
  };
});

/** Ask. */
export function put(text: string): void {
  onceWhole(() => {
    question.value = text;
    tab.value = "whatIf";
  });
}

/** Ask no more: what is under way is stopped, and the map shows the record again. */
export function withdraw(): void {
  question.value = "";
  if (tab.value === "whatIf") tab.value = node.value >= 0 ? "node" : "why";
}

async function answer(text: string): Promise<void> {
  stopping.abort();
  stopping = new AbortController();
  const { signal: stopped } = stopping;
  const base = { question: text, at: cursor.value, answer: null, problem: "", done: 0, of: 0 };
  const event = attempt.value;
  asked.value = base;
  try {
    const found = await ask(shown.value!, event, text, stopped, (done, of) => {
      if (!stopped.aborted) asked.value = { ...base, done, of };
    });
    if (!stopped.aborted) asked.value = { ...base, answer: found };
  } catch (error) {
    if (!stopped.aborted) asked.value = { ...base, problem: (error as Error).message };
  }
}

effect(() => {
  const text = question.value;
  if (!shown.value || shown.value.columns.isHead || text === (asked.peek()?.question ?? "")) return;
  if (text) void answer(text);
  else {
    stopping.abort();
    asked.value = null;
  }
});

const encoded = encodeURIComponent;

export function WhatIfButtons() {
  const { columns, state } = shown.value!;
  const name = columns.nodes[node.value];
  const key = columns.texts.indexOf(grouping.value);
  const value = key < 0 ? -1 : columns.label(state.version[node.value], key);
  const group = value < 0 ? "" : columns.texts[value];
  if (isFile.value) return null;
  return (
    <p class="what-if">
      <span class="soft">{say("tab.whatIf")}</span>{" "}
      <button type="button" onClick={() => put(`lose=${encoded(name)}`)}>
        {say("if.itIsLost")}
      </button>
      {group && (
        <button type="button" onClick={() => put(`lose=${encoded(`${grouping.value}=${group}`)}`)}>
          {say("if.lost", { node: group })}
        </button>
      )}
      <button type="button" onClick={() => put(`drain=${encoded(name)}`)}>
        {say("if.itIsDrained")}
      </button>
      <button type="button" onClick={() => put(`cordon=${encoded(name)}`)}>
        {say("if.itIsCordoned")}
      </button>
      <button type="button" onClick={() => put(`add=3&like=${encoded(name)}`)}>
        {say("if.threeMore")}
      </button>
    </p>
  );
}

export function WhatIfPanel() {
  const now = asked.value;
  const { columns, meta, state } = shown.value!;
  if (!now)
    return (
      <div class="whatIfPanel scroll">
        <Empty>{say(isFile.value ? "file.noAnswer" : "if.none")}</Empty>
        {node.value >= 0 && state.version[node.value] >= 0 && <WhatIfButtons />}
      </div>
    );
  const time = clock(timeOf(columns, now.at), meta.epoch, columns.begin);
  return (
    <div class="whatIfPanel scroll" tabIndex={0} aria-busy={!now.answer && !now.problem}>
      <div class="subject">
        <strong>
          <bdi>{titleOf(now.question)}</bdi>
        </strong>
        <span class="soft">{say("if.at", { time })}</span>
        {now.at !== cursor.value && (
          <button type="button" onClick={() => goTo(now.at)}>
            {say("why.jump")}
          </button>
        )}
        <button type="button" class="push quiet" onClick={withdraw} aria-label={say("close")}>
          ✕
        </button>
      </div>
      {now.problem ? (
        <p class="warning">
          <bdi>{now.problem}</bdi>
        </p>
      ) : now.answer ? (
        <Answered found={now.answer} />
      ) : (
        <Progress now={now} />
      )}
      {node.value >= 0 && state.version[node.value] >= 0 && <WhatIfButtons />}
    </div>
  );
}

function Progress({ now }: { now: Asked }) {
  return (
    <p class="progress" role="status">
      {now.of ? (
        <progress value={now.done} max={now.of} aria-label={say("if.progress")} />
      ) : (
        <progress aria-label={say("if.progress")} />
      )}
      <span>{now.of ? say("if.placedSoFar", { n: now.done, of: now.of }) : say("computing")}</span>
      <button type="button" onClick={withdraw}>
        {say("cancel")}
      </button>
    </p>
  );
}

function Answered({ found }: { found: Answer }) {
  if (found.moved) return <Weighed found={found} />;
  if (found.why) return <Told why={found.why} />;
  const placed = Object.entries(found.placed ?? {});
  const unplaced = Object.entries(found.unplaced ?? {});
  const bare = found.bare?.length ?? 0;
  return (
    <>
      <p class="figures">
        <span>{say("if.placed", { n: placed.length })}</span>
        <span class={unplaced.length ? "bad" : ""}>{say("if.unplaced", { n: unplaced.length })}</span>
        {bare > 0 && <span>{say("if.bare", { n: bare })}</span>}
        {Object.entries(found.use ?? {}).map(([name, share]) => (
          <span key={name}>
            {name} {share} %
          </span>
        ))}
      </p>
      {unplaced.length > 0 && (
        <ul class="unplaced">
          {unplaced.slice(0, 20).map(([name, message]) => (
            <li key={name}>
              <PodName name={name} />{" "}
              <span class="soft">
                <bdi>{message}</bdi>
              </span>
            </li>
          ))}
        </ul>
      )}
      {found.budgets && found.budgets.length > 0 && (
        <p>
          {say("if.budgets")}: <bdi>{found.budgets.join(", ")}</bdi>
        </p>
      )}
      {placed.length > 0 && (
        <ul>
          {placed.slice(0, 40).map(([name, row]) => (
            <li key={name}>
              <bdi>{name}</bdi> → {row < 0 ? say("if.newNode") : <NodeName row={row} />}
            </li>
          ))}
        </ul>
      )}
      {placed.length > 40 && <p class="soft">{say("more", { n: placed.length - 40 })}</p>}
    </>
  );
}

/** Another weight: which pods would be elsewhere, and this decision made with it. */
function Weighed({ found }: { found: Answer }) {
  return (
    <>
      <p>
        <strong>{count(found.moves!)}</strong>{" "}
        {say(found.asked === "all" ? "if.elsewhereAll" : "if.elsewhereWaiting", { n: found.pods! })}
      </p>
      {found.moved!.length > 0 && (
        <table class="plain">
          <tbody>
            {found.moved!.slice(0, 60).map((each) => (
              <tr key={each.pod}>
                <td>
                  <PodName name={each.pod} />
                </td>
                <td>
                  <NodeName row={each.from} /> → <NodeName row={each.to} />
                  <br />
                  <span class="soft">
                    <bdi>{each.because}</bdi>
                  </span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {found.why && (
        <>
          <h3>{say("if.thisDecision")}</h3>
          <Told why={found.why} />
        </>
      )}
    </>
  );
}

/** Ask for another weight of a score plugin. */
export function WeightForm({ plugins, weights }: { plugins: string[]; weights: Map<string, number> }) {
  const [plugin, setPlugin] = useState(plugins[0]);
  const [weight, setWeight] = useState("");
  const now = plugins.includes(plugin) ? plugin : plugins[0];
  const shownWeight = weight || String((weights.get(now) ?? 1) * 2);
  return (
    <form
      class="what-if"
      onSubmit={(event) => {
        event.preventDefault();
        askWeight(now, shownWeight);
      }}
    >
      <span class="soft">{say("tab.whatIf")}</span>
      <select
        aria-label={say("plugin")}
        value={now}
        onChange={(event) => {
          setPlugin(event.currentTarget.value);
          setWeight("");
        }}
      >
        {plugins.map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
      <label>
        {say("if.hasWeight")}{" "}
        <input
          type="number"
          min={1}
          max={100}
          value={shownWeight}
          onInput={(event) => setWeight(event.currentTarget.value)}
        />
      </label>
      <button type="submit">{say("if.ask")}</button>
    </form>
  );
}

export const askWeight = (plugin: string, weight: number | string) => put(`weight=${encoded(plugin)}:${weight}`);
export const trySuggestion = (text: string) => put(`try=${encoded(text)}`);
