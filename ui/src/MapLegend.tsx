// What the colours of the map mean.
import { keysOf, priorities } from "./colouring";
import { HATCHES, HEATS, LEVELS, REFUSALS } from "./palette";
import { colouring, cursor, goToAttempt, growth, isNow, seenTheme, shown, step, why } from "./view";
import { changes, withdraw } from "./WhatIf";
import { count, say } from "./words";

const MOST_KEYS = 12;

/** A refusal's colour and hatching, with its number. */
export function Dot({ i, children }: { i: number; children?: string }) {
  const [angle, distance] = HATCHES[i % HATCHES.length];
  const lines = `repeating-linear-gradient(${angle + 90}deg, #fff4 0 1.5px, transparent 1.5px ${distance}px)`;
  return (
    <b class="dot" style={{ background: `${lines}, ${REFUSALS[i % REFUSALS.length]}` }}>
      {children}
    </b>
  );
}

function Scale({ from, to }: { from: string; to: string }) {
  const heats = HEATS[seenTheme.value];
  return (
    <span class="scale">
      <i>{from}</i>
      {[0, 0.25, 0.5, 0.75, 1].map((share) => (
        <b key={share} style={{ background: heats[Math.round(share * (LEVELS - 1))] }} />
      ))}
      <i>{to}</i>
    </span>
  );
}

export function MapLegend() {
  growth.value;
  const told = why.value;
  const by = colouring.value;
  if (changes.value) return <Differences />;
  if (by === "use" || (by === "verdict" && (!told || told.problem)))
    return (
      <footer class="legend">
        {say("legend.use")} <Scale from="0 %" to="100 %" />
      </footer>
    );
  if (by === "verdict") return <Verdict />;
  const { state } = shown.value!;
  if (by === "priority") {
    const all = priorities(state);
    return (
      <footer class="legend">
        {say("colour.priority")} <Scale from={count(all[0] ?? 0)} to={count(all[all.length - 1] ?? 0)} />
      </footer>
    );
  }
  if (by === "age")
    return (
      <footer class="legend">
        {say("colour.age")} <Scale from={say("legend.new")} to={say("legend.old")} />
      </footer>
    );
  return (
    <footer class="legend">
      {keysOf(state, by)
        .slice(0, MOST_KEYS)
        .map((key) => (
          <span key={key.name}>
            <b class="dot square" style={{ background: key.colour }} />{" "}
            <bdi>{key.name || say(by === "owner" ? "legend.noOwner" : "legend.none")}</bdi>{" "}
            <span class="soft">{count(key.count)}</span>
          </span>
        ))}
    </footer>
  );
}

function Verdict() {
  const told = why.value!;
  void cursor.value;
  return (
    <footer class={isNow.value ? "legend" : "legend faded"}>
      {!isNow.value && (
        <span class="earlier">
          {say("legend.earlier")}{" "}
          <button type="button" onClick={goToAttempt}>
            {say("why.jump")}
          </button>
        </span>
      )}
      {told.funnel.map((each, i) => (
        <button
          type="button"
          key={i}
          aria-pressed={step.value === i}
          onClick={() => (step.value = step.value === i ? -1 : i)}
          title={each.reasons.join(", ")}
        >
          <Dot i={i}>{String(i + 1)}</Dot>
          <bdi>{each.plugin || "—"}</bdi> <span class="soft">{count(each.rows.length)}</span>
        </button>
      ))}
      {told.totals[0].length > 0 && (
        <span>
          {say("score")} <Scale from={say("legend.low")} to={say("legend.high")} />
        </span>
      )}
      {told.node !== null && (
        <span>
          <b class="star">★</b> {say("chosenNode")}
        </span>
      )}
    </footer>
  );
}

function Differences() {
  const differs = changes.value!;
  const isNothing = !differs.lost.size && !differs.gets.size && !differs.leaves.size && !differs.added;
  return (
    <footer class="legend">
      <strong>{say("tab.whatIf")}</strong>
      {differs.lost.size > 0 && (
        <span>
          ✕ {say(differs.stays ? "legend.drained" : "legend.lost")} <span class="soft">{count(differs.lost.size)}</span>
        </span>
      )}
      {differs.gets.size > 0 && (
        <span>
          <b class="ringed" /> {say("legend.gets")} <span class="soft">{count(differs.gets.size)}</span>
        </span>
      )}
      {differs.leaves.size > 0 && (
        <span>
          <b class="ringed dashed" /> {say("legend.leaves")} <span class="soft">{count(differs.leaves.size)}</span>
        </span>
      )}
      {differs.added > 0 && (
        <span>
          + {say("legend.newNodes", { n: differs.added })} · {say("pods", { n: differs.onAdded })}
        </span>
      )}
      {isNothing && <span class="soft">{say("legend.nothing")}</span>}
      <button type="button" class="push" onClick={withdraw}>
        ✕ {say("close")}
      </button>
    </footer>
  );
}
