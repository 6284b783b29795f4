// Step by step: one decision told from the queue to the binding, each step a sentence, shown on the map.
import { computed, effect } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ChapterLink } from "./CoursePanel";
import { Kind } from "./columns";
import { attempt, cursor, goTo, growth, isGuided, onceWhole, shown, step, stepDecision, why } from "./view";
import { count, say } from "./words";

interface Step {
  title: string;
  text: string;
  learn: number;
  step: number;
}

/** The steps of the decision that is shown. ``step`` is what the map shows of it: so many filters, the scores, the node. */
export const steps = computed<Step[]>(() => {
  const answer = why.value,
    now = shown.value,
    event = attempt.value;
  if (!now || event < 0 || !answer || answer.problem) return [];
  const { columns } = now,
    name = (row: number) => columns.nodes[row];
  const found: Step[] = [
    {
      title: "Queue",
      learn: 6,
      step: -2,
      text: say("{pod} is the next pod in the queue. This is attempt {n}. {m} nodes are looked at.", {
        pod: answer.pod,
        n: columns.events.aux.data[event] >> 3,
        m: count(answer.nodes.evaluated || answer.nodes.all),
      }),
    },
  ];
  let left = answer.nodes.evaluated || answer.nodes.all;
  answer.funnel.forEach((each, i) => {
    left -= each.rows.length;
    found.push({
      title: "Filter",
      learn: 2,
      step: i,
      text: say("{plugin} refuses {n} nodes: {reasons}. {m} are left.", {
        plugin: each.plugin || "—",
        n: count(each.rows.length),
        reasons: each.reasons.join(", "),
        m: count(left),
      }),
    });
  });
  const scores = answer.funnel.length;
  if (answer.best.length > 0) {
    const best = answer.best.reduce((a, b) => (b.total > a.total ? b : a));
    found.push({
      title: "Score",
      learn: 3,
      step: scores,
      text: say("Each score plugin gives points to the {n} nodes that are left. {node} has the most: {m}.", {
        n: count(answer.nodes.feasible),
        node: name(best.node),
        m: count(best.total),
      }),
    });
    if (answer.ties > 1)
      found.push({
        title: "Tie",
        learn: 3,
        step: scores + 1,
        text: say("{n} nodes have the same total. One of them is drawn at random.", { n: count(answer.ties) }),
      });
  }
  if (answer.node !== null && answer.outcome === "scheduled")
    found.push({
      title: "Bind",
      learn: 5,
      step: scores + 2,
      text: say("{pod} is bound to {node}.", { pod: answer.pod, node: name(answer.node) }),
    });
  else if (answer.nominated)
    found.push({
      title: "Preempt",
      learn: 11,
      step: scores + 2,
      text: say("No node is left. {victims} must go from {node}, and {pod} waits for that.", {
        victims: answer.victims.map((each) => each.pod).join(", "),
        node: answer.nominated,
        pod: answer.pod,
      }),
    });
  else
    found.push({
      title: "Wait",
      learn: 7,
      step: scores + 2,
      text: say("No node is left. {pod} waits until something changes for {plugins}.", {
        pod: answer.pod,
        plugins: [...new Set(answer.funnel.map((each) => each.plugin))].join(", ") || "—",
      }),
    });
  return found;
});

// ---- a story that was told while it was recorded ----------------------------------------------------------------------

/** What was said, line by line of the story's own: lines of one speaker at one moment belong together. */
export const told = computed<{ event: number; who: string; lines: string[] }[]>(() => {
  growth.value;
  const columns = shown.value?.columns,
    found: { event: number; who: string; lines: string[] }[] = [];
  if (!columns) return found;
  for (let event = 0; event < columns.length; event++) {
    if (columns.events.kind.data[event] !== Kind.SAID) continue;
    const last = found[found.length - 1],
      who = columns.by(event);
    if (last && last.who === who && last.event + last.lines.length === event) last.lines.push(columns.text(event));
    else found.push({ event, who, lines: [columns.text(event)] });
  }
  return found;
});

/** Whether the steps are those of a lesson's own story, rather than of the decision. */
function isTold(): boolean {
  return told.value.length > 0 && shown.value?.meta.guide !== "";
}

/** The last part of the story that has been told at the cursor. */
function part(): number {
  return told.value.findLastIndex((each) => each.event + each.lines.length <= cursor.value);
}

function tellOn(direction: 1 | -1): void {
  const to = told.value[part() + direction];
  if (to) goTo(to.event + to.lines.length);
  else if (direction < 0) goTo(0);
}

function Story() {
  const at = part(),
    now = told.value[at],
    lesson = shown.value!.meta.guide;
  return (
    <aside class="guide-card" aria-live="polite" aria-label={say("step by step")}>
      <span class="soft">
        {at + 1} {say("of")} {told.value.length} · {now ? say(now.who) : ""}
      </span>
      {now?.who === "kubectl" || (now?.lines.length ?? 0) > 2 ? (
        <pre>{now!.lines.join("\n")}</pre>
      ) : (
        <p>{now ? now.lines.join(" ") : shown.value!.meta.title}</p>
      )}
      <footer>
        {lesson && (
          <span class="soft">
            {say("more")}: <ChapterLink number={Number(lesson.split(" ")[1])} />
          </span>
        )}
        <button type="button" class="push" onClick={() => tellOn(-1)}>
          {say("back")}
        </button>
        <button type="button" class="primary" onClick={() => tellOn(1)}>
          {say("next")}
        </button>
      </footer>
    </aside>
  );
}

function place(): number {
  const at = steps.value.findIndex((each) => each.step === step.value);
  return step.value === -1 ? steps.value.length - 1 : Math.max(0, at);
}

/** What the map shows of a decision, where it does not show all of it. */
export function Point() {
  const here = steps.value.filter((each) => each.step === step.value);
  if (isGuided.value || !here.length) return null;
  return (
    <p class="point" role="status">
      <strong>{say(here[0].title)}</strong> {here.map((each) => each.text).join(" ")}
    </p>
  );
}

/** Go on by one extension point of the decision, on the map; at its end to the next decision. */
export const pointOn = (direction: 1 | -1) =>
  onceWhole(() => {
    const all = steps.value,
      here =
        step.value === -1
          ? all.length - 1
          : Math.max(
              0,
              all.findIndex((each) => each.step === step.value),
            );
    let to = here + direction;
    while (all[to] && all[to].step === step.value) to += direction;
    if (all[to]) step.value = to === all.length - 1 ? -1 : all[to].step;
    else {
      stepDecision(direction);
      step.value = direction > 0 ? -2 : -1;
    }
  });

let asked: 1 | -1 | 0 = 0; // for a step, before the decision was here to take it in

/** Go on by one extension point; at the end of a decision to the next one. */
export const guideOn = (direction: 1 | -1) =>
  onceWhole(() => {
    if (isTold()) return tellOn(direction);
    const all = steps.value;
    if (attempt.value >= 0 && !why.value) {
      asked = direction;
      return;
    }
    let to = place() + direction;
    while (all[to] && all[to].step === step.value) to += direction;
    if (all[to]) step.value = all[to].step;
    else {
      stepDecision(direction);
      step.value = direction > 0 ? -2 : -1;
    }
  });

effect(() => {
  if (!steps.value.length || !asked) return;
  const direction = asked;
  asked = 0;
  guideOn(direction);
});

export function Guide() {
  useEffect(() => {
    if (isGuided.value && !isTold()) step.value = -2;
  }, [isGuided.value]);
  if (!isGuided.value) return null;
  if (isTold()) return <Story />;
  const said = told.value[part()];
  const all = steps.value,
    at = place(),
    here = all.filter((each) => each.step === all[at]?.step);
  return (
    <aside class="guide-card" aria-live="polite" aria-label={say("step by step")}>
      <ol>
        {all.map((each, i) => (
          <li key={i} aria-current={i === at ? "step" : undefined}>
            <button type="button" onClick={() => (step.value = each.step)}>
              {say(each.title)}
            </button>
          </li>
        ))}
      </ol>
      {said && <p class="said">{said.lines.join(" ")}</p>}
      <p>{here.map((each) => each.text).join(" ") || say("no decision yet")}</p>
      <footer>
        {here[0] && (
          <span class="soft">
            {say("more")}: <ChapterLink number={here[0].learn} />
          </span>
        )}
        <button type="button" class="push" onClick={() => guideOn(-1)}>
          {say("back")}
        </button>
        <button type="button" class="primary" onClick={() => guideOn(1)}>
          {say("next")}
        </button>
      </footer>
    </aside>
  );
}
