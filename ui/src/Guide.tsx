// Step by step: one decision told from the queue to the binding, each step a sentence, shown on the map.
import { computed, effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ChapterLink } from "./CoursePanel";
import { Kind } from "./columns";
import type { Key } from "./messages/en";
import { attempt, cursor, goTo, growth, hasNext, isGuided, onceWhole, shown, step, stepDecision, why } from "./view";
import { say } from "./words";

interface Step {
  title: Key;
  text: string;
  learn: number;
  step: number;
}

/** The steps of the decision that is shown. ``step`` says what the map shows of it: filters, scores, the node. */
export const steps = computed<Step[]>(() => {
  const answer = why.value;
  const now = shown.value;
  const event = attempt.value;
  if (!now || event < 0 || !answer || answer.problem) return [];
  const { columns } = now;
  const { pod } = answer;
  const looked = answer.nodes.evaluated || answer.nodes.all;
  const tries = columns.events.aux.data[event] >> 3;
  const begins = say("guide.queue", { pod, attempt: tries });
  const where = answer.nominatedBefore
    ? say("guide.nominated", { node: answer.nominatedBefore })
    : say("guide.looksAt", { n: looked });
  const found: Step[] = [{ title: "guide.Queue", learn: 6, step: -2, text: `${begins} ${where}` }];
  let left = looked;
  answer.funnel.forEach((each, i) => {
    left -= each.rows.length;
    const values = { plugin: each.plugin || "—", n: each.rows.length, reasons: each.reasons.join(", ") };
    const text = `${say("guide.filter", values)} ${say("guide.left", { n: left })}`;
    found.push({ title: "guide.Filter", learn: 2, step: i, text });
  });
  const scores = answer.funnel.length;
  if (answer.best.length > 0) {
    const best = answer.best.reduce((a, b) => (b.total > a.total ? b : a));
    const values = { n: answer.nodes.feasible, node: columns.nodes[best.node], points: best.total };
    found.push({ title: "guide.Score", learn: 3, step: scores, text: say("guide.score", values) });
    if (answer.ties > 1)
      found.push({ title: "guide.Tie", learn: 3, step: scores + 1, text: say("guide.tie", { n: answer.ties }) });
  }
  const last = scores + 2;
  if (answer.node !== null && answer.outcome === "scheduled")
    found.push({
      title: "guide.Bind",
      learn: 5,
      step: last,
      text: say("guide.bind", { pod, node: columns.nodes[answer.node] }),
    });
  else if (answer.nominated) {
    const victims = answer.victims.map((each) => each.pod).join(", ");
    const values = { n: answer.victims.length, victims, node: answer.nominated, pod };
    found.push({ title: "guide.Preempt", learn: 11, step: last, text: say("guide.preempt", values) });
  } else {
    const plugins = [...new Set(answer.funnel.map((each) => each.plugin))].join(", ") || "—";
    found.push({ title: "guide.Wait", learn: 7, step: last, text: say("guide.wait", { pod, plugins }) });
  }
  return found;
});

// ---- a story that was told while it was recorded -------------------------------------------------------------------

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

const SPEAKERS: Record<string, Key> = {
  scenario: "speaker.scenario",
  scheduler: "speaker.scheduler",
  note: "speaker.note",
  kubectl: "speaker.kubectl",
};

function Story() {
  const at = part();
  const now = told.value[at];
  const lesson = shown.value!.meta.guide;
  const isCode = now?.who === "kubectl" || (now?.lines.length ?? 0) > 2;
  return (
    <aside class="guide-card" aria-live="polite" aria-label={say("guide")}>
      <span class="soft">
        {say("guide.partOf", { i: at + 1, n: told.value.length })}
        {now && ` · ${now.who in SPEAKERS ? say(SPEAKERS[now.who]) : now.who}`}
      </span>
      {isCode ? (
        <pre>{now!.lines.join("\n")}</pre>
      ) : (
        <p>{now ? now.lines.join(" ") : `${shown.value!.meta.title}. ${say("guide.begin")}`}</p>
      )}
      <footer>
        {lesson && (
          <span class="soft">
            {say("guide.more")}: <ChapterLink number={Number(lesson.split(" ")[1])} />
          </span>
        )}
        <button type="button" class="push" disabled={at < 0} onClick={() => tellOn(-1)}>
          {say("guide.back")}
        </button>
        <button type="button" class="primary" disabled={at === told.value.length - 1} onClick={() => tellOn(1)}>
          {say(at === told.value.length - 1 ? "guide.end" : "guide.next")}
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

/** The next step of this decision in a direction; undefined at its end. */
function following(direction: 1 | -1): Step | undefined {
  const all = steps.value;
  let to = place() + direction;
  while (all[to] && all[to].step === all[place()].step) to += direction;
  return all[to];
}

/** Go on by one extension point of the decision, on the map; at its end to the next decision. */
export const pointOn = (direction: 1 | -1) =>
  onceWhole(() => {
    const to = following(direction);
    if (to) step.value = to === steps.value[steps.value.length - 1] ? -1 : to.step;
    else if (direction < 0 || hasNext()) {
      stepDecision(direction);
      step.value = direction > 0 ? -2 : -1;
    }
  });

let asked: 1 | -1 | 0 = 0; // for a step, before the decision was here to take it in

/** Go on by one extension point; at the end of a decision to the next one. After the last one there is nothing. */
export const guideOn = (direction: 1 | -1) =>
  onceWhole(() => {
    if (isTold()) return tellOn(direction);
    if (attempt.value >= 0 && !why.value) {
      asked = direction;
      return;
    }
    const to = following(direction);
    if (to) step.value = to.step;
    else if (direction < 0 || hasNext()) {
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
  const wasGuided = useRef(false);
  useEffect(() => {
    const isNew = isGuided.value !== wasGuided.current;
    wasGuided.current = isGuided.value;
    if (!isNew) return; // a step of the address stays
    if (isTold() || (isGuided.value && step.value >= 0)) return;
    step.value = isGuided.value ? -2 : -1;
  }, [isGuided.value]);
  if (!isGuided.value) return null;
  if (isTold()) return <Story />;
  const said = told.value[part()];
  const all = steps.value;
  const at = place();
  const here = all.filter((each) => each.step === all[at]?.step);
  const isOver = all.length > 0 && !following(1) && !hasNext();
  return (
    <aside class="guide-card" aria-live="polite" aria-label={say("guide")}>
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
      <p>
        {here.map((each) => each.text).join(" ") || say("why.noneYet")} {isOver && say("guide.over")}
      </p>
      <footer>
        {here[0] && (
          <span class="soft">
            {say("guide.more")}: <ChapterLink number={here[0].learn} />
          </span>
        )}
        <button type="button" class="push" onClick={() => guideOn(-1)}>
          {say("guide.back")}
        </button>
        <button type="button" class="primary" disabled={isOver} onClick={() => guideOn(1)}>
          {say(isOver ? "guide.end" : "guide.next")}
        </button>
      </footer>
    </aside>
  );
}
