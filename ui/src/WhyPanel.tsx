// Why: the funnel of filters, the best nodes with every plugin's share, what would help.
import { REFUSALS } from "./paint";
import { attempt, type Best, isAsking, isFile, node, pod, shown, step, type Why, why } from "./view";
import { askWeight, WeightForm } from "./WhatIf";
import { count, say } from "./words";

/** One colour per score plugin; the same plugin has the same colour everywhere, and its name is beside it. */
const SHARES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#a6761d", "#7570b3"];

export function WhyPanel() {
  const told = why.value,
    event = attempt.value,
    columns = shown.value!.columns;
  return (
    <section class="panel whyPanel" aria-label={say("Why")} aria-busy={isAsking.value}>
      <header>
        <h2>{say("Why")}</h2>
        {event >= 0 && (
          <>
            <button type="button" class="name" onClick={() => (pod.value = columns.events.pod.data[event])}>
              {columns.podName(columns.events.pod.data[event])}
            </button>
            <span class="soft">{say("attempt {n}", { n: columns.events.aux.data[event] >> 3 })}</span>
            <Outcome code={columns.events.aux.data[event] & 7} />
          </>
        )}
        {pod.value >= 0 && (
          <button
            type="button"
            class="push quiet"
            onClick={() => (pod.value = -1)}
            aria-label={say("show all")}
            title={say("show all")}
          >
            ✕
          </button>
        )}
      </header>
      <div class="scroll" tabIndex={0}>
        {event < 0 ? (
          <p class="soft">{say("no decision yet")}</p>
        ) : !told ? (
          <p class="soft">{say("asking…")}</p>
        ) : told.problem ? (
          <p class="soft">{told.problem}</p>
        ) : (
          <Told why={told} />
        )}
      </div>
    </section>
  );
}

export function Outcome({ code }: { code: number }) {
  const mark = ["✓", "✗", "‖", "!"][code],
    name = ["scheduled", "unschedulable", "gated", "error"][code];
  return (
    <span class={`outcome o${code}`}>
      {mark} {say(name)}
    </span>
  );
}

export function Told({ why: told, names = shown.value!.columns.nodes }: { why: Why; names?: string[] }) {
  return (
    <>
      {told.again && (
        <p class="warning">
          {say("decided again today, the answer is")}: {told.again}
        </p>
      )}
      <FunnelSteps why={told} />
      {told.message && <p class="message">{told.message}</p>}
      {told.nominated && <p>{say("room can be made on {node}", { node: told.nominated })}</p>}
      {told.victims.length > 0 && (
        <>
          <h3>{say("would be evicted")}</h3>
          <ul>
            {told.victims.map((each) => (
              <li key={each.pod}>
                {each.pod}{" "}
                <span class="soft">
                  {say("priority {n}", { n: each.priority })}
                  {each.breaks.length ? ` · ${each.breaks.join(", ")}` : ""}
                </span>
              </li>
            ))}
          </ul>
        </>
      )}
      {told.best.length > 0 && <BestNodes why={told} names={names} />}
      {told.suggestions.length > 0 && (
        <>
          <h3>{say("what would help")}</h3>
          <ol class="helps">
            {told.suggestions.map((each) => (
              <li key={each.text}>{each.text}</li>
            ))}
          </ol>
        </>
      )}
      {told.notes.length > 0 && (
        <>
          <h3>{say("notes")}</h3>
          <ul>
            {told.notes.map((each) => (
              <li key={each}>{each}</li>
            ))}
          </ul>
        </>
      )}
      {told.node !== null && told.best.length === 0 && (
        <p>
          ★{" "}
          <button type="button" class="name" onClick={() => (node.value = told.node!)}>
            {names[told.node]}
          </button>{" "}
          {say("the chosen node")}
        </p>
      )}
    </>
  );
}

function FunnelSteps({ why: told }: { why: Why }) {
  let left = told.nodes.evaluated || told.nodes.all;
  const most = left || 1;
  const rows = told.funnel.map((each, i) => {
    left -= each.rows.length;
    return { each, i, left };
  });
  return (
    <ol class="funnel" aria-label={say("filters")}>
      <li>
        <span class="bar" style={{ width: "100%" }} />
        <span class="what">{say("{n} nodes", { n: count(most) })}</span>
      </li>
      {rows.map(({ each, i, left: rest }) => (
        <li key={i}>
          <span class="bar" style={{ width: `${(100 * rest) / most}%` }} />
          <span
            class="bar gone"
            style={{
              left: `${(100 * rest) / most}%`,
              width: `${(100 * each.rows.length) / most}%`,
              background: REFUSALS[i % REFUSALS.length],
            }}
          />
          <button
            type="button"
            class="what"
            aria-pressed={step.value === i}
            onClick={() => (step.value = step.value === i ? -1 : i)}
          >
            <b class="dot" style={{ background: REFUSALS[i % REFUSALS.length] }}>
              {i + 1}
            </b>
            <span>
              <strong>{each.plugin || "—"}</strong> −{count(each.rows.length)}{" "}
              <span class="soft">{each.reasons.join(", ")}</span>
            </span>
          </button>
        </li>
      ))}
      <li>
        <span class="bar good" style={{ width: `${(100 * told.nodes.feasible) / most}%` }} />
        <span class="what">
          {told.nodes.feasible
            ? `✓ ${count(told.nodes.feasible)} ${say("can take it")}`
            : `✗ ${say("every node refused it")}`}
        </span>
      </li>
    </ol>
  );
}

function BestNodes({ why: told, names }: { why: Why; names: string[] }) {
  const highest = Math.max(...told.best.map((each) => each.total), 1);
  const used = told.plugins.map((_, i) => told.best.some((each) => each.shares[i] !== 0));
  return (
    <>
      <h3>{say("best nodes")}</h3>
      <div class="keys">
        {told.plugins.map(
          (name, i) =>
            used[i] && (
              <span key={name}>
                <b class="dot" style={{ background: SHARES[i % SHARES.length] }} />
                {name}
              </span>
            ),
        )}
      </div>
      <table class="best">
        <tbody>
          {told.best.map((each) => (
            <tr key={each.node}>
              <th scope="row">
                <button type="button" class="name" onClick={() => (node.value = each.node)}>
                  {each.node === told.node ? "★ " : ""}
                  {names[each.node]}
                </button>
              </th>
              <td class="stack">
                <div title={told.plugins.map((name, i) => `${name} ${each.shares[i]}`).join(" · ")}>
                  {each.shares.map(
                    (share, i) =>
                      share > 0 && (
                        <i
                          key={i}
                          style={{ width: `${(100 * share) / highest}%`, background: SHARES[i % SHARES.length] }}
                        >
                          {(100 * share) / highest > 9 ? share : ""}
                        </i>
                      ),
                  )}
                </div>
              </td>
              <td class="number">{count(each.total)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <Rivals why={told} names={names} />
      {told.ties > 1 && (
        <p class="soft">
          {say("{n} nodes share the highest score; one of them was picked at random", { n: count(told.ties) })}
        </p>
      )}
    </>
  );
}

/** What would have to change for another node to win: points that it lacks, and the weight that would give them. */
function Rivals({ why: told, names }: { why: Why; names: string[] }) {
  const profile = shown.value!.meta.profiles.find((each) => each.schedulerName === told.schedulerName),
    weights = new Map(profile?.score ?? []);
  const winner = told.best.find((each) => each.node === told.node);
  if (!winner || isFile.value) return null;
  const rivals = told.best.filter((each) => each.node !== told.node && each.total < winner.total).slice(0, 2);
  const lines = rivals.map((rival) => {
    const lacks = winner.total - rival.total;
    let best: { plugin: string; weight: number } | null = null;
    told.plugins.forEach((plugin, i) => {
      const weight = weights.get(plugin) ?? 1,
        gains = (rival.shares[i] - winner.shares[i]) / weight;
      const wanted = weight + Math.floor(lacks / gains) + 1,
        total = (each: Best) => each.total + (each.shares[i] / weight) * (wanted - weight);
      const wins = told.best.every((each) => each === rival || total(each) < total(rival)); // rather than a third one
      if (
        gains > 0 &&
        wins &&
        wanted <= 100 &&
        (!best || wanted - weight < best.weight - (weights.get(best.plugin) ?? 1))
      )
        best = { plugin, weight: wanted };
    });
    return { node: rival.node, lacks, best: best as { plugin: string; weight: number } | null };
  });
  const used = told.plugins.filter((_, i) => told.best.some((each) => each.shares[i] !== winner.shares[i]));
  return (
    <>
      {lines.length > 0 && (
        <>
          <h3>{say("for another node to win")}</h3>
          <ul class="helps">
            {lines.map((each) => (
              <li key={each.node}>
                {say("{node} lacks {n} points", { node: names[each.node], n: count(each.lacks + 1) })}
                {each.best && (
                  <>
                    {" "}
                    ·{" "}
                    <button type="button" class="name" onClick={() => askWeight(each.best!.plugin, each.best!.weight)}>
                      {say("{plugin} with weight {n}", { plugin: each.best.plugin, n: each.best.weight })}
                    </button>
                  </>
                )}
              </li>
            ))}
          </ul>
        </>
      )}
      {used.length > 0 && <WeightForm plugins={used} weights={weights} />}
    </>
  );
}
