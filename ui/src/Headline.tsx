// One sentence about the instant that is shown, and the way through what is worth looking at.

import { type Highlight, headline } from "./story";
import { cursor, goTo, growth, isGuided, settled, shown } from "./view";
import { say } from "./words";

/** The sentence, from the data at the cursor. */
function sentence(): string {
  const now = shown.value!;
  now.state.goTo(cursor.peek());
  const { state, columns } = now;
  const found = headline(state);
  if (!state.nodes && !found.waiting) return say("headline.nothing");
  if (!found.waiting) {
    const [used, all] = state.totals(0);
    const share = all ? Math.round((100 * used) / all) : 0;
    return say("headline.allPlaced", { n: state.running, share, nodes: say("nodes", { n: state.nodes }) });
  }
  const waiting = say("headline.waiting", { n: found.waiting });
  const resource = columns.resources[found.resource];
  if (found.tooLarge && found.waiting === 1) return waiting + say("headline.itIsTooLarge", { resource });
  if (found.tooLarge === found.waiting) return waiting + say("headline.allTooLarge", { resource });
  if (found.tooLarge) return waiting + say("headline.tooLarge", { n: found.tooLarge, resource });
  if (found.gated === found.waiting) return waiting + say("headline.gated");
  return (
    waiting +
    (found.refusedBy ? say("headline.refused", { n: found.waiting, plugin: found.refusedBy }) : say("headline.inQueue"))
  );
}

/** What a highlight is about. */
export function titleOf(each: Highlight): string {
  const { columns } = shown.value!;
  const pod = columns.podName(each.pod);
  const node = each.node >= 0 ? columns.nodes[each.node] : "";
  return say(`highlight.${each.kind}`, { pod, node, n: each.n });
}

/** By itself: it is counted when the cursor rests. */
function Sentence() {
  void [growth.value, settled.value];
  return <span class="now">{sentence()}</span>;
}

export function HeadlineBar() {
  const now = shown.value!;
  growth.value;
  const all = now.highlights.value;
  const at = all.findLastIndex((each) => each.cursor <= cursor.value);
  const here = all[at]?.cursor === cursor.value ? all[at] : null;
  return (
    <section class="headline" aria-label={say("headline.label")}>
      <p aria-live="polite">
        {here && here.kind !== "end" && <strong>{titleOf(here)} </strong>}
        <Sentence />
      </p>
      {all.length > 0 && !isGuided.value && (
        <div class="highlights" role="group" aria-label={say("highlights")}>
          <button
            type="button"
            disabled={!all.some((each) => each.cursor < cursor.value)}
            onClick={() => goTo(all.findLast((each) => each.cursor < cursor.value)!.cursor)}
          >
            ‹<span class="word"> {say("highlight.previous")}</span>
          </button>
          <span class="soft">
            {at < 0 ? say("highlight.some", { n: all.length }) : say("highlight.of", { i: at + 1, n: all.length })}
          </span>
          <button
            type="button"
            disabled={!all.some((each) => each.cursor > cursor.value)}
            onClick={() => goTo(all.find((each) => each.cursor > cursor.value)!.cursor)}
          >
            <span class="word">{say("highlight.next")} </span>›
          </button>
        </div>
      )}
    </section>
  );
}
