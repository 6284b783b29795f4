// Why: the funnel of filters, the best nodes by how they differ from the winner, what would help.
import { engineText, suggestionText } from "./engine";
import { Dot } from "./MapLegend";
import { Empty, NodeName, PodName } from "./names";
import { REFUSALS } from "./palette";
import { differences } from "./scores";
import {
  attempt,
  type Best,
  goToAttempt,
  hasNext,
  isAsking,
  isFile,
  isNow,
  pod,
  shown,
  step,
  timeAt,
  timeOf,
  type Why,
  why,
} from "./view";
import { askWeight, trySuggestion, WeightForm } from "./WhatIf";
import { clock, count, say, seconds } from "./words";

export function WhyPanel() {
  const told = why.value;
  const event = attempt.value;
  return (
    <div class="whyPanel scroll" tabIndex={0} aria-busy={isAsking.value}>
      {event >= 0 && <Subject event={event} />}
      {event < 0 ? (
        <Empty>{say(pod.value >= 0 ? "why.noneOfPod" : hasNext() ? "why.noneYet" : "why.none")}</Empty>
      ) : !told ? (
        <Empty>{say("computing")}</Empty>
      ) : told.problem ? (
        <p class="soft">{told.problem}</p>
      ) : (
        <Told why={told} />
      )}
    </div>
  );
}

/** Whose decision, when it was made, and how it ended. */
function Subject({ event }: { event: number }) {
  const { columns, meta } = shown.value!;
  const which = columns.events.pod.data[event];
  const time = timeOf(columns, event + 1);
  return (
    <div class="subject">
      <PodName name={columns.podName(which)} which={which} />
      <span class="soft">{say("attempt", { n: columns.events.aux.data[event] >> 3 })}</span>
      <Outcome code={columns.events.aux.data[event] & 7} />
      <time class={isNow.value ? "soft" : "soft earlier"}>
        {say("why.at", { time: clock(time, meta.epoch, columns.begin) })}
      </time>
      {!isNow.value && (
        <button type="button" class="jump" onClick={goToAttempt}>
          {say("why.earlier", { s: seconds(timeAt() - time) })} {say("why.jump")}
        </button>
      )}
      {pod.value >= 0 && (
        <button
          type="button"
          class="push quiet"
          onClick={() => (pod.value = -1)}
          aria-label={say("why.allPods")}
          title={say("why.allPods")}
        >
          ✕
        </button>
      )}
    </div>
  );
}

const OUTCOMES = ["outcome.scheduled", "outcome.unschedulable", "outcome.gated", "outcome.error"] as const;
export function Outcome({ code }: { code: number }) {
  return (
    <span class={`outcome o${code}`}>
      {["✓", "✗", "‖", "!"][code]} {say(OUTCOMES[code])}
    </span>
  );
}

export function Told({ why: told, names = shown.value!.columns.nodes }: { why: Why; names?: string[] }) {
  return (
    <>
      {told.again && (
        <p class="warning">
          {say("why.again")}: {told.again}
        </p>
      )}
      {told.nominatedBefore && (
        <p class="nominated">{say("why.nominatedBefore", { node: told.nominatedBefore, pod: told.pod })}</p>
      )}
      <FunnelSteps why={told} />
      {told.message && (
        <p class="message">
          <bdi>{told.message}</bdi>
        </p>
      )}
      <Preemption why={told} />
      {told.best.length > 0 && <BestNodes why={told} names={names} />}
      <Suggestions why={told} names={names} />
      {told.notes.length > 0 && (
        <>
          <h3>{say("why.notes")}</h3>
          <ul>
            {told.notes.map((each) => (
              <li key={each}>
                <bdi>{engineText(each)}</bdi>
              </li>
            ))}
          </ul>
        </>
      )}
      {told.node !== null && told.best.length === 0 && (
        <p>
          <NodeName row={told.node} names={names} star /> {say("chosenNode")}
        </p>
      )}
    </>
  );
}

/** Room that is made by evicting others: what happened, or what would. */
function Preemption({ why: told }: { why: Why }) {
  if (!told.nominated) return null;
  const n = told.victims.length;
  return (
    <section class="preemption">
      <h3>{say("why.preemption")}</h3>
      <p>{say(told.happened ? "why.evicts" : "why.wouldEvict", { n, node: told.nominated, pod: told.pod })}</p>
      <ul>
        {told.victims.map((each) => (
          <li key={each.pod}>
            <PodName name={each.pod} />{" "}
            <span class="soft">
              {say("priority", { p: each.priority })}
              {each.breaks.length ? ` · ${say("why.breaks", { budgets: each.breaks.join(", ") })}` : ""}
            </span>
          </li>
        ))}
      </ul>
      {told.happened && <p class="soft">{say("why.then", { node: told.nominated, pod: told.pod })}</p>}
    </section>
  );
}

function Suggestions({ why: told, names }: { why: Why; names: string[] }) {
  if (!told.suggestions.length) return null;
  const list = (
    <ol class="helps">
      {told.suggestions.map((each) => (
        <li key={each.text}>
          <bdi>{suggestionText(each, names)}</bdi>{" "}
          {each.canTry && told.happened && !isFile.value && (
            <button type="button" onClick={() => trySuggestion(each.text)}>
              {say("why.try")}
            </button>
          )}
        </li>
      ))}
    </ol>
  );
  if (told.nominated)
    return (
      <details>
        <summary>{say("why.instead")}</summary>
        {list}
      </details>
    );
  return (
    <>
      <h3>{say("why.helps")}</h3>
      {list}
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
  const feasible = told.nodes.feasible;
  return (
    <ol class="funnel" aria-label={say("why.filters")}>
      <li>
        <span class="bar" style={{ width: "100%" }} />
        <span class="what">{say("nodes", { n: most })}</span>
      </li>
      {rows.map(({ each, i, left: rest }) => (
        <li key={i} style={{ "--i": i }}>
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
            <Dot i={i}>{String(i + 1)}</Dot>
            <strong>
              <bdi>{each.plugin || "—"}</bdi>
            </strong>{" "}
            <b class="number">−{count(each.rows.length)}</b>{" "}
            <span class="soft">
              <bdi>{each.reasons.join(", ")}</bdi>
            </span>
          </button>
        </li>
      ))}
      <li>
        <span class="bar good" style={{ width: `${(100 * feasible) / most}%` }} />
        <span class="what">{feasible ? `✓ ${say("why.canTake", { n: feasible })}` : `✗ ${say("why.noneFits")}`}</span>
      </li>
    </ol>
  );
}

const signed = (value: number) => (value > 0 ? `+${count(value)}` : value < 0 ? `−${count(-value)}` : "0");

/** The best nodes: the winner's points, and of the others how far they are from it, by plugin. */
function BestNodes({ why: told, names }: { why: Why; names: string[] }) {
  const { rows, plugins, constants } = differences(told);
  const widest = Math.max(1, ...rows.flatMap((row) => row.shares.map(Math.abs)));
  return (
    <>
      <h3>{say("why.best")}</h3>
      <div class="wide">
        <table class="best">
          <thead>
            <tr>
              <th>{say("node")}</th>
              <th class="number">{say("why.total")}</th>
              {plugins.map((name) => (
                <th class="number" key={name}>
                  {name.split(/(?=[A-Z])/).map((part) => (
                    <>
                      <wbr />
                      {part}
                    </>
                  ))}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.node} class={row.isWinner ? "winner" : ""}>
                <th scope="row">
                  <NodeName row={row.node} names={names} star={row.isWinner} />
                </th>
                <td class="number">
                  <strong>{row.isWinner ? count(row.total) : row.total ? signed(row.total) : "="}</strong>
                </td>
                {row.shares.map((share, i) => (
                  <td class="number" key={plugins[i]}>
                    {row.isWinner ? count(share) : <Difference share={share} widest={widest} />}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {constants.length > 0 && (
        <p class="soft">
          {say("why.constants")}: {constants.map(([name, value]) => `${name} ${count(value)}`).join(", ")}
        </p>
      )}
      {told.ties > 1 && <p class="soft">{say("why.ties", { n: told.ties })}</p>}
      <Rivals why={told} names={names} />
    </>
  );
}

/** How many points more or less than the winner: a bar to the right or to the left of nothing. */
function Difference({ share, widest }: { share: number; widest: number }) {
  if (!share) return <span class="diff">=</span>;
  const long = Math.max(2, (28 * Math.abs(share)) / widest);
  return (
    <span class={share > 0 ? "diff more" : "diff less"}>
      {signed(share)}
      <svg width="58" height="10" aria-hidden="true">
        <path d="M29 0v10" stroke="var(--line)" />
        <rect x={share > 0 ? 29 : 29 - long} y="1" width={long} height="8" rx="1.5" fill="currentColor" />
      </svg>
    </span>
  );
}

/** What would have to change for another node to win: points that it lacks, and the weight that would give them. */
function Rivals({ why: told, names }: { why: Why; names: string[] }) {
  const profile = shown.value!.meta.profiles.find((each) => each.schedulerName === told.schedulerName);
  const weights = new Map(profile?.score ?? []);
  const winner = told.best.find((each) => each.node === told.node);
  if (!winner || isFile.value || !told.happened) return null;
  const rivals = told.best.filter((each) => each.node !== told.node && each.total < winner.total).slice(0, 2);
  const lines = rivals.map((rival) => ({
    node: rival.node,
    lacks: winner.total - rival.total + 1,
    best: winningWeight(told, weights, winner, rival),
  }));
  const used = told.plugins.filter((_, i) => told.best.some((each) => each.shares[i] !== winner.shares[i]));
  return (
    <>
      {lines.length > 0 && (
        <>
          <h3>{say("why.another")}</h3>
          <ul class="helps rivals">
            {lines.map((each) => (
              <li key={each.node}>
                {say("why.lacks", { node: names[each.node], n: each.lacks })}
                {each.best && (
                  <>
                    {" "}
                    <button type="button" onClick={() => askWeight(each.best!.plugin, each.best!.weight)}>
                      {say("why.withWeight", { plugin: each.best.plugin, w: each.best.weight })}
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

/** The smallest change of one weight with which a node wins, rather than a third one. */
function winningWeight(
  told: Why,
  weights: Map<string, number>,
  winner: Best,
  rival: Best,
): { plugin: string; weight: number } | null {
  let best: { plugin: string; weight: number; change: number } | null = null;
  told.plugins.forEach((plugin, i) => {
    const weight = weights.get(plugin) ?? 1;
    const gains = (rival.shares[i] - winner.shares[i]) / weight;
    if (gains <= 0) return;
    const wanted = weight + Math.floor((winner.total - rival.total) / gains) + 1;
    const total = (each: Best) => each.total + (each.shares[i] / weight) * (wanted - weight);
    const wins = told.best.every((each) => each === rival || total(each) < total(rival));
    if (wins && wanted <= 100 && (!best || wanted - weight < best.change))
      best = { plugin, weight: wanted, change: wanted - weight };
  });
  return best;
}
