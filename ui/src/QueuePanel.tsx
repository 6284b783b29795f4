// The queue: lanes of waiting pods with their attempts, their timers and what would wake them. Rows are virtual.

import { signal } from "@preact/signals";
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Key } from "./messages/en";
import { NOWHERE } from "./state";
import { cursor, growth, pod, type Shown, selectPod, shown, timeAt } from "./view";
import { count, say, seconds } from "./words";

const LANES = [0, 1, 2, 3, 4]; // active, backoff, unschedulable, gated, waiting on permit
const PLACE_NAMES: Key[] = [
  "place.active",
  "place.backoff",
  "place.unschedulable",
  "place.gated",
  "place.permit",
  "place.inFlight",
];
const ROW = 44;
const MOST_ROWS = 5; // for which there is room beside Why; more are scrolled to
export const lane = signal(-1); // -1: all

export function QueuePanel() {
  const now = shown.value!;
  growth.value;
  now.state.goTo(cursor.value);
  const { pending } = now.state;
  const total = LANES.reduce((sum, place) => sum + pending[place], 0);
  return (
    <section class="panel queuePanel" aria-label={say("view.queue")} style={{ "--rows": Math.min(MOST_ROWS, total) }}>
      <header>
        <h2>{say("view.queue")}</h2>
        <div class="lanes" role="group">
          {LANES.filter((place) => place < 4 || pending[place] > 0).map((place) => (
            <button
              type="button"
              key={place}
              aria-pressed={lane.value === place}
              onClick={() => (lane.value = lane.value === place ? -1 : place)}
              class={`lane l${place}`}
            >
              {say(PLACE_NAMES[place])} <b>{count(pending[place])}</b>
            </button>
          ))}
        </div>
      </header>
      {total === 0 ? <p class="soft empty">{say("queue.empty")}</p> : <Rows record={now} pods={waiting(now)} />}
    </section>
  );
}

/** The waiting pods, by lane, and in each by how long they wait. */
export function waiting({ state, columns }: Shown): Int32Array {
  const found: number[] = [];
  for (let each = 0; each < columns.pods.name.length; each++) {
    const place = state.place[each];
    if (place !== NOWHERE && place < 5 && (lane.value < 0 || place === lane.value)) found.push(each);
  }
  return Int32Array.from(found).sort(
    (a, b) => state.place[a] - state.place[b] || state.since[a] - state.since[b] || a - b,
  );
}

function Rows({ record, pods }: { record: Shown; pods: Int32Array }) {
  const box = useRef<HTMLDivElement>(null);
  const [, again] = useState(0);
  const virtual = useMemo(
    () =>
      new Virtualizer<HTMLDivElement, HTMLDivElement>({
        count: 0,
        estimateSize: () => ROW,
        getScrollElement: () => box.current,
        scrollToFn: elementScroll,
        observeElementRect,
        observeElementOffset,
        overscan: 4,
        onChange: () => again((value) => value + 1),
      }),
    [],
  );
  virtual.setOptions({ ...virtual.options, count: pods.length });
  useEffect(() => virtual._didMount(), []);
  useEffect(() => virtual._willUpdate());
  useEffect(() => {
    const at = pods.indexOf(pod.value);
    if (at >= 0) virtual.scrollToIndex(at, { align: "auto" });
  }, [pod.value]);
  return (
    <div class="scroll rows" ref={box} tabIndex={0} role="list" aria-label={say("strip.waiting")}>
      <div style={{ height: `${virtual.getTotalSize()}px` }} role="presentation">
        {virtual.getVirtualItems().map((item) => (
          <Row key={pods[item.index]} record={record} which={pods[item.index]} top={item.start} />
        ))}
      </div>
    </div>
  );
}

function Row({ record, which, top }: { record: Shown; which: number; top: number }) {
  const { state, columns } = record,
    place = state.place[which],
    last = state.attempt[which];
  const by = last >= 0 ? columns.by(last) : "";
  const wakes = place === 2 || place === 3 ? wakesOf(record, by) : "";
  const time = timeAt(),
    waited = time - state.since[which];
  return (
    <div class="row" style={{ transform: `translateY(${top}px)` }} role="listitem">
      <button
        type="button"
        aria-pressed={pod.value === which}
        onClick={() => selectPod(pod.value === which ? -1 : which)}
      >
        <span class="line">
          <span class={`lane l${place}`}>{say(PLACE_NAMES[place])}</span>{" "}
          <strong>
            <bdi>{columns.podName(which)}</bdi>
          </strong>
          {state.tries[which] > 0 && <span class="soft">{say("attempt", { n: state.tries[which] })}</span>}
          <span class="soft push">
            {place === 1 ? due(record, which, waited) : say("queue.for", { s: seconds(Math.max(0, waited)) })}
          </span>
        </span>
        <small class="soft">
          <bdi>{by || (last >= 0 ? columns.text(last) : "")}</bdi>
          {wakes && ` · ${say("queue.wakes")}: ${wakes}`}
        </small>
      </button>
    </div>
  );
}

function due({ meta, state }: Shown, which: number, waited: number): string {
  const [first, most] = meta.backoff ?? [1, 10];
  const left = Math.min(most, first * 2 ** Math.max(0, state.tries[which] - 1)) - waited;
  return left > 0 ? say("queue.dueIn", { s: seconds(left) }) : say("queue.due");
}

function wakesOf({ meta }: Shown, plugins: string): string {
  const found = new Set<string>();
  for (const profile of meta.profiles)
    for (const name of plugins.split(", ")) for (const event of profile.wakes[name] ?? []) found.add(event);
  return [...found].slice(0, 6).join(", ") + (found.size > 6 ? " …" : "");
}
