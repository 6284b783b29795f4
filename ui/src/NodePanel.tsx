// One node: how full it is, its labels and taints, the pods on it.
import { Empty, PodName } from "./names";
import { cursor, growth, isNow, node, selectNode, shown, why } from "./view";
import { WhatIfButtons } from "./WhatIf";
import { amount, say } from "./words";

const MOST_PODS = 60;

export function NodePanel() {
  const { columns, state } = shown.value!;
  const at = node.value;
  growth.value;
  state.goTo(cursor.value);
  if (at < 0)
    return (
      <div class="nodePanel scroll">
        <Empty>{say("node.none")}</Empty>
      </div>
    );
  const version = state.version[at];
  if (version < 0 || version === undefined)
    return (
      <div class="nodePanel scroll">
        <Title name={columns.nodes[at]} />
        <Empty>{say("node.notThere")}</Empty>
      </div>
    );
  const labels: string[] = [];
  for (let i = columns.labelsOf.begin(version); i < columns.labelsOf.end(version); i++)
    labels.push(`${columns.texts[columns.labels.key.data[i]]}=${columns.texts[columns.labels.value.data[i]]}`);
  const taints = columns.texts[columns.versions.taints.data[version]];
  const pods = state.podsOf(at);
  const told = isNow.value ? why.value : null;
  const refusal = told && !told.problem ? told.funnel.find((each) => each.rows.includes(at)) : undefined;
  return (
    <div class="nodePanel scroll" tabIndex={0}>
      <Title name={columns.nodes[at]} isCordoned={columns.versions.is_cordoned.data[version] > 0} />
      {columns.resources.map(
        (name, i) =>
          state.capacity[i]?.[at] > 0 && (
            <div class="meter" key={name}>
              <span>{name}</span>
              <span class="track">
                <i style={{ width: `${Math.min(100, 100 * state.share(at, i))}%` }} />
              </span>
              <span class="number">
                {say("usedOf", { used: amount(name, state.used[i][at]), has: amount(name, state.capacity[i][at]) })}
              </span>
            </div>
          ),
      )}
      <WhatIfButtons />
      {refusal && (
        <p class="message">
          ✗ <bdi>{refusal.plugin}</bdi>: <bdi>{refusal.reasons.join(", ")}</bdi>
        </p>
      )}
      {taints && (
        <p>
          <span class="soft">{say("node.taints")}</span> <bdi>{taints}</bdi>
        </p>
      )}
      <p class="chips">
        <span class="soft">{say("node.labels")}</span>{" "}
        {labels.map((each) => (
          <code key={each}>
            <bdi>{each}</bdi>
          </code>
        ))}
      </p>
      <p class="chips">
        <span class="soft">{say("node.pods", { n: pods.length })}</span>{" "}
        {[...pods.subarray(0, MOST_PODS)].map((each) => (
          <PodName key={each} name={columns.podName(each)} which={each} />
        ))}
        {pods.length > MOST_PODS && <span class="soft">{say("more", { n: pods.length - MOST_PODS })}</span>}
      </p>
    </div>
  );
}

function Title({ name, isCordoned }: { name: string; isCordoned?: boolean }) {
  return (
    <div class="subject">
      <h2>
        <bdi>{name}</bdi>
      </h2>
      {isCordoned && <span class="outcome o2">‖ {say("node.cordoned")}</span>}
      <button type="button" class="push quiet" onClick={() => selectNode(-1)} aria-label={say("close")}>
        ✕
      </button>
    </div>
  );
}
