// One node: how full it is, its labels and taints, the pods on it.

import { cursor, growth, isFile, node, pod, shown, why } from "./view";
import { WhatIfButtons } from "./WhatIf";
import { amount, count, say } from "./words";

export function NodePanel() {
  const now = shown.value!,
    at = node.value;
  if (at < 0) return null;
  growth.value;
  const { columns, state } = now;
  state.goTo(cursor.value);
  const version = state.version[at],
    isThere = version >= 0;
  const labels: string[] = [];
  if (isThere)
    for (let i = columns.labelsOf.begin(version); i < columns.labelsOf.end(version); i++)
      labels.push(`${columns.texts[columns.labels.key.data[i]]}=${columns.texts[columns.labels.value.data[i]]}`);
  const taints = isThere ? columns.texts[columns.versions.taints.data[version]] : "";
  const pods = isThere ? state.podsOf(at) : new Int32Array(0);
  const told = why.value,
    refusal = told && !told.problem ? told.funnel.find((each) => each.rows.includes(at)) : undefined;
  return (
    <section class="panel nodePanel" aria-label={columns.nodes[at]}>
      <header>
        <h2>{columns.nodes[at]}</h2>
        {isThere && columns.versions.is_cordoned.data[version] ? (
          <span class="outcome o2">‖ {say("cordoned")}</span>
        ) : null}
        <button type="button" class="push quiet" onClick={() => (node.value = -1)} aria-label={say("close")}>
          ✕
        </button>
      </header>
      {!isThere ? (
        <p class="soft empty">{say("not there yet")}</p>
      ) : (
        <div class="scroll" tabIndex={0}>
          {columns.resources.map(
            (name, i) =>
              state.capacity[i]?.[at] > 0 && (
                <div class="meter" key={name}>
                  <span>{name}</span>
                  <span class="track">
                    <i style={{ width: `${Math.min(100, 100 * state.share(at, i))}%` }} />
                  </span>
                  <span class="number">
                    {amount(name, state.used[i][at])} {say("of")} {amount(name, state.capacity[i][at])}
                  </span>
                </div>
              ),
          )}
          {!isFile.value && <WhatIfButtons />}
          {refusal && (
            <p class="message">
              ✗ {refusal.plugin}: {refusal.reasons.join(", ")}
            </p>
          )}
          {taints && (
            <p>
              <span class="soft">{say("taints")}</span> {taints}
            </p>
          )}
          <p class="chips">
            <span class="soft">{say("labels")}</span>{" "}
            {labels.map((each) => (
              <code key={each}>{each}</code>
            ))}
          </p>
          <p class="chips">
            <span class="soft">
              {say("pods on it")} {count(pods.length)}
            </span>{" "}
            {[...pods.subarray(0, 60)].map((each) => (
              <button
                type="button"
                class="name"
                key={each}
                aria-pressed={pod.value === each}
                onClick={() => (pod.value = each)}
              >
                {columns.podName(each)}
              </button>
            ))}
            {pods.length > 60 && <span class="soft">{say("{n} more", { n: count(pods.length - 60) })}</span>}
          </p>
        </div>
      )}
    </section>
  );
}
