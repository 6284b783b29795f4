// What if: a node or a whole group is lost, cordoned, or more of the same are added. Asked of a fork; the record stays as it is.
import { computed, signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { whatIf as ask } from "./net";
import type { Differs } from "./paint";
import { attempt, cursor, findPod, grouping, node, onceWhole, pod, shown, type Why } from "./view";
import { Told } from "./WhyPanel";
import { count, say } from "./words";

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
  title: string;
  at: number;
  like: number;
  answer: Answer | null;
  problem: string;
}
export const asked = signal<Asked | null>(null);

/** What the map shows of the answer: nodes that are lost, that get pods, that pods leave, and new ones. */
export const changes = computed<Differs | undefined>(() => {
  const now = asked.value,
    found = now?.at === cursor.value ? now.answer : null;
  if (!now || !found) return undefined;
  const rows = (values: (number | null)[]) => new Set(values.filter((row): row is number => row !== null && row >= 0));
  const placed = Object.values(found.placed ?? {}),
    moved = found.moved ?? [];
  return {
    lost: new Set(found.lost),
    gets: rows([...placed, ...moved.map((each) => each.to)]),
    leaves: rows(moved.map((each) => each.from)),
    added: found.added?.length ?? 0,
    like: now.like,
    onAdded: placed.filter((row) => row < 0).length,
    stays: found.stays ?? false,
  };
});

export const put = (title: string, question: string, like = -1) => onceWhole(() => void answer(title, question, like));

async function answer(title: string, question: string, like: number): Promise<void> {
  const at = cursor.value,
    event = attempt.value;
  asked.value = { title, at, like, answer: null, problem: event < 0 ? say("no decision yet") : "" };
  if (event < 0) return;
  try {
    asked.value = { title, at, like, answer: await ask(shown.value!, event, question), problem: "" };
  } catch (error) {
    asked.value = { title, at, like, answer: null, problem: (error as Error).message };
  }
}

export function WhatIfButtons() {
  const { columns, state } = shown.value!,
    name = columns.nodes[node.value],
    key = columns.texts.indexOf(grouping.value);
  const value = key < 0 ? -1 : columns.label(state.version[node.value], key),
    group = value < 0 ? "" : columns.texts[value];
  const encoded = encodeURIComponent;
  return (
    <p class="what-if">
      <span class="soft">{say("what if")}</span>{" "}
      <button type="button" onClick={() => put(say("{node} is lost", { node: name }), `lose=${encoded(name)}`)}>
        {say("it is lost")}
      </button>
      {group && (
        <button
          type="button"
          onClick={() => put(say("{node} is lost", { node: group }), `lose=${encoded(`${grouping.value}=${group}`)}`)}
        >
          {say("{node} is lost", { node: group })}
        </button>
      )}
      <button type="button" onClick={() => put(say("{node} is drained", { node: name }), `drain=${encoded(name)}`)}>
        {say("it is drained")}
      </button>
      <button type="button" onClick={() => put(say("{node} is cordoned", { node: name }), `cordon=${encoded(name)}`)}>
        {say("it is cordoned")}
      </button>
      <button
        type="button"
        onClick={() => put(say("3 more nodes like {node}", { node: name }), `add=3&like=${encoded(name)}`, node.value)}
      >
        {say("3 more like it")}
      </button>
    </p>
  );
}

export function WhatIfPanel() {
  const now = asked.value;
  if (!now) return null;
  const { columns } = shown.value!,
    found = now.answer;
  const placed = Object.entries(found?.placed ?? {}),
    unplaced = Object.entries(found?.unplaced ?? {});
  return (
    <section class="panel whatIfPanel" aria-label={say("what if")} aria-busy={!found && !now.problem}>
      <header>
        <h2>{say("what if")}</h2>
        <strong>{now.title}</strong>
        <button type="button" class="push quiet" onClick={() => (asked.value = null)} aria-label={say("close")}>
          ✕
        </button>
      </header>
      <div class="scroll" tabIndex={0}>
        {now.problem ? (
          <p>{now.problem}</p>
        ) : !found ? (
          <p class="soft">{say("asking…")}</p>
        ) : found.moved ? (
          <Weighed found={found} />
        ) : found.why ? (
          <Told why={found.why} />
        ) : (
          <>
            <p>
              <strong>{count(placed.length)}</strong> {say("pods find a place")} ·{" "}
              <strong>{count(unplaced.length)}</strong> {say("find none")}
              {found.bare && found.bare.length > 0 && (
                <>
                  {" "}
                  · <strong>{count(found.bare.length)}</strong>{" "}
                  {say("have no controller: somebody has to make them anew")}
                </>
              )}
              {found.use &&
                Object.entries(found.use).map(([name, share]) => (
                  <>
                    {" "}
                    · {name} {share} %
                  </>
                ))}
            </p>
            {unplaced.length > 0 && (
              <ul>
                {unplaced.slice(0, 20).map(([name, why]) => (
                  <li key={name}>
                    <button type="button" class="name" onClick={() => (pod.value = findPod(columns, name))}>
                      {name}
                    </button>{" "}
                    <span class="soft">{why}</span>
                  </li>
                ))}
              </ul>
            )}
            {found.budgets && found.budgets.length > 0 && (
              <p>
                {say("budgets that break")}: {found.budgets.join(", ")}
              </p>
            )}
            {placed.length > 0 && (
              <ul>
                {placed.slice(0, 40).map(([name, row]) => (
                  <li key={name}>
                    {name} →{" "}
                    {row < 0 ? (
                      say("a new node")
                    ) : (
                      <button type="button" class="name" onClick={() => (node.value = row)}>
                        {columns.nodes[row]}
                      </button>
                    )}
                  </li>
                ))}
              </ul>
            )}
            {placed.length > 40 && <p class="soft">{say("{n} more", { n: count(placed.length - 40) })}</p>}
          </>
        )}
      </div>
    </section>
  );
}

/** Another weight: who would be elsewhere, and this decision made with it. */
function Weighed({ found }: { found: Answer }) {
  const { columns } = shown.value!,
    name = (row: number | null) => (row === null ? "—" : columns.nodes[row]);
  return (
    <>
      <p>
        <strong>{count(found.moves!)}</strong>{" "}
        {say(
          found.asked === "all"
            ? "of {n} pods would be elsewhere, if all were placed anew"
            : "of {n} waiting pods would go elsewhere",
          { n: count(found.pods!) },
        )}
      </p>
      {found.moved!.length > 0 && (
        <table class="plain">
          <tbody>
            {found.moved!.slice(0, 60).map((each) => (
              <tr key={each.pod}>
                <td>
                  <button type="button" class="name" onClick={() => (pod.value = findPod(columns, each.pod))}>
                    {each.pod}
                  </button>
                </td>
                <td>
                  {name(each.from)} → {name(each.to)}
                  <br />
                  <span class="soft">{each.because}</span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {found.why && (
        <>
          <h3>{say("this decision")}</h3>
          <Told why={found.why} />
        </>
      )}
    </>
  );
}

/** Ask for another weight of a score plugin. */
export function WeightForm({ plugins, weights }: { plugins: string[]; weights: Map<string, number> }) {
  const [plugin, setPlugin] = useState(plugins[0]),
    [weight, setWeight] = useState("");
  const now = plugins.includes(plugin) ? plugin : plugins[0],
    shownWeight = weight || String((weights.get(now) ?? 1) * 2);
  return (
    <form
      class="what-if"
      onSubmit={(event) => {
        event.preventDefault();
        askWeight(now, shownWeight);
      }}
    >
      <span class="soft">{say("what if")}</span>
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
        {say("has weight")}{" "}
        <input
          type="number"
          min={1}
          max={100}
          value={shownWeight}
          onInput={(event) => setWeight(event.currentTarget.value)}
        />
      </label>
      <button type="submit">{say("ask")}</button>
    </form>
  );
}

export function askWeight(plugin: string, weight: number | string): void {
  put(say("{plugin} has weight {n}", { plugin, n: weight }), `weight=${encodeURIComponent(plugin)}:${weight}`);
}
