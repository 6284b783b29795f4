// Step by step: one decision told from the queue to the binding, each step a sentence, shown on the map.
import { computed } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { attempt, isGuided, shown, step, stepDecision, why } from "./view";
import { count, say } from "./words";

interface Step { title: string; text: string; learn: number; step: number }

/** The steps of the decision that is shown. ``step`` is what the map shows of it: so many filters, the scores, the node. */
export const steps = computed<Step[]>(() => {
  const told = why.value, now = shown.value, event = attempt.value;
  if (!now || event < 0 || !told || told.problem) return [];
  const { columns } = now, name = (row: number) => columns.nodes[row];
  const found: Step[] = [{ title: "Queue", learn: 6, step: -2, text: say("{pod} is the next pod in the queue. This is attempt {n}. {m} nodes are looked at.", { pod: told.pod, n: columns.events.aux.data[event] >> 3, m: count(told.nodes.evaluated || told.nodes.all) }) }];
  let left = told.nodes.evaluated || told.nodes.all;
  told.funnel.forEach((each, i) => {
    left -= each.rows.length;
    found.push({ title: "Filter", learn: 2, step: i, text: say("{plugin} refuses {n} nodes: {reasons}. {m} are left.", { plugin: each.plugin || "—", n: count(each.rows.length), reasons: each.reasons.join(", "), m: count(left) }) });
  });
  const scores = told.funnel.length;
  if (told.best.length > 0) {
    const best = told.best.reduce((a, b) => (b.total > a.total ? b : a));
    found.push({ title: "Score", learn: 3, step: scores, text: say("Each score plugin gives points to the {n} nodes that are left. {node} has the most: {m}.", { n: count(told.nodes.feasible), node: name(best.node), m: count(best.total) }) });
    if (told.ties > 1) found.push({ title: "Score", learn: 3, step: scores, text: say("{n} nodes have the same total. One of them is drawn at random.", { n: count(told.ties) }) });
  }
  if (told.node !== null && told.outcome === "scheduled")
    found.push({ title: "Bind", learn: 5, step: scores + 1, text: say("{pod} is bound to {node}.", { pod: told.pod, node: name(told.node) }) });
  else if (told.nominated)
    found.push({ title: "Preempt", learn: 11, step: scores + 1, text: say("No node is left. {victims} must go from {node}, and {pod} waits for that.", { victims: told.victims.map((each) => each.pod).join(", "), node: told.nominated, pod: told.pod }) });
  else
    found.push({ title: "Wait", learn: 7, step: scores + 1, text: say("No node is left. {pod} waits until something changes for {plugins}.", { pod: told.pod, plugins: [...new Set(told.funnel.map((each) => each.plugin))].join(", ") || "—" }) });
  return found;
});

function place(): number {
  const at = steps.value.findIndex((each) => each.step === step.value);
  return step.value === -1 ? steps.value.length - 1 : Math.max(0, at);
}

/** Go on by one extension point; at the end of a decision to the next one. */
export function guideOn(direction: 1 | -1): void {
  const all = steps.value;
  let to = place() + direction;
  while (all[to] && all[to].step === step.value) to += direction;
  if (all[to]) step.value = all[to].step;
  else {
    stepDecision(direction);
    step.value = direction > 0 ? -2 : -1;
  }
}

export function Guide() {
  useEffect(() => { if (isGuided.value) step.value = -2; }, [isGuided.value]);
  if (!isGuided.value) return null;
  const all = steps.value, at = place(), here = all.filter((each) => each.step === all[at]?.step);
  return (
    <aside class="guide-card" aria-live="polite" aria-label={say("step by step")}>
      <ol>{all.map((each, i) => <li key={i} aria-current={i === at ? "step" : undefined}><button type="button" onClick={() => (step.value = each.step)}>{say(each.title)}</button></li>)}</ol>
      <p>{here.map((each) => each.text).join(" ") || say("no decision yet")}</p>
      <footer>
        {here[0] && <span class="soft">{say("more")}: <code>mooring learn {here[0].learn}</code></span>}
        <button type="button" class="push" onClick={() => guideOn(-1)}>{say("back")}</button>
        <button type="button" class="primary" onClick={() => guideOn(1)}>{say("next")}</button>
      </footer>
    </aside>
  );
}
