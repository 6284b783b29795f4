// Compare: two records side by side. Which pods went elsewhere, and which decision was the first to differ.
import { computed, signal } from "@preact/signals";
import { type Columns, Kind } from "./columns";
import { Counts, MapCanvas } from "./MapView";
import { explain } from "./net";
import { afterAttempt } from "./story";
import {
  attempt,
  cursor,
  findPod,
  goTo,
  growth,
  lastAttempt,
  pod,
  records,
  shown,
  timeAt,
  timeOf,
  type Why,
  why,
} from "./view";
import { Told } from "./WhyPanel";
import { clock, say } from "./words";

export const second = computed(() => records.value[1]);
export const secondWhy = signal<Why | null>(null);
interface Difference {
  name: string;
  first: string;
  second: string;
  event: number;
}

/** The first node of each pod, by name, and the event of the attempt. */
function firstNodes(columns: Columns): Map<string, [string, number]> {
  const found = new Map<string, [string, number]>(),
    { kind, pod: pods, node, aux } = columns.events;
  for (let event = 0; event < columns.length; event++) {
    if (kind.data[event] !== Kind.ATTEMPT) continue;
    const name = columns.podName(pods.data[event]),
      isPlaced = (aux.data[event] & 7) === 0;
    if (isPlaced || !found.has(name)) {
      const known = found.get(name);
      if (!known?.[0]) found.set(name, [isPlaced ? columns.nodes[node.data[event]] : "", event]);
    }
  }
  return found;
}

/** The pods that went elsewhere, and how many are in both records. */
export const differences = computed<{ found: Difference[]; both: number }>(() => {
  growth.value;
  const [one, other] = records.value,
    found: Difference[] = [];
  if (!other) return { found, both: 0 };
  const theirs = firstNodes(other.columns);
  let both = 0;
  for (const [name, [at, event]] of firstNodes(one.columns)) {
    const there = theirs.get(name);
    if (there) both++;
    if (there && there[0] !== at) found.push({ name, first: at, second: there[0], event });
  }
  found.sort((a, b) => a.event - b.event);
  return { found, both };
});

/** So many events of the second record have happened at the cursor's time. */
export function secondCursor(): number {
  const other = second.value,
    now = shown.value;
  void cursor.value;
  if (!other || !now) return 0;
  const time = timeAt() - now.columns.begin + other.columns.begin;
  const after = other.columns.eventAfter(time + 1e-9);
  const name = attempt.value >= 0 ? now.columns.podName(now.columns.events.pod.data[attempt.value]) : "";
  const which = name ? findPod(other.columns, name) : -1;
  const last = which >= 0 ? lastAttempt(other.columns, other.columns.length, which) : -1;
  const first = last >= 0 && last < after ? last : -1;
  return cursor.value >= now.columns.length
    ? other.columns.length
    : Math.max(after, first >= 0 ? afterAttempt(other.columns, first) : 0);
}

/** Ask why the same pod went where it went in the second record. */
export async function askSecond(): Promise<void> {
  const other = second.value,
    now = shown.value,
    event = attempt.value;
  secondWhy.value = null;
  if (!other || !now || event < 0) return;
  const which = findPod(other.columns, now.columns.podName(now.columns.events.pod.data[event]));
  const there = which < 0 ? -1 : lastAttempt(other.columns, other.columns.length, which);
  if (there < 0) return;
  await new Promise((resolve) => setTimeout(resolve, 90));
  if (attempt.value !== event) return;
  const found = await explain(other, there).catch((error: Error) => ({ problem: error.message }) as Why);
  if (attempt.value === event) secondWhy.value = found;
}

export function SecondMap() {
  const other = second.value!;
  const time = clock(timeOf(other.columns, secondCursor()), other.meta.epoch, other.columns.begin);
  return (
    <section class="panel mapPanel" aria-label={other.meta.title}>
      <header>
        <h2>
          <bdi>B · {other.meta.title}</bdi>
        </h2>
        <time class="soft">{time}</time>
        <Counts record={other} at={secondCursor} />
      </header>
      <MapCanvas record={other} at={secondCursor} told={() => secondWhy.value} label={other.meta.title} />
    </section>
  );
}

const MOST_PODS = 200;

export function ComparePanel() {
  const { found, both } = differences.value;
  const [one, other] = records.value;
  if (!other) return null;
  const select = (each: Difference) => {
    pod.value = findPod(one.columns, each.name);
    goTo(afterAttempt(one.columns, each.event));
  };
  const told = secondWhy.value;
  return (
    <div class="comparePanel scroll" tabIndex={0}>
      <div class="subject">
        <span>
          {found.length ? say("compare.moved", { n: found.length }) : say(both ? "compare.same" : "compare.nothing")}
        </span>
        {found.length > 0 && (
          <button type="button" class="push" onClick={() => select(found[0])}>
            {say("compare.first")}
          </button>
        )}
      </div>
      <table class="plain">
        <thead>
          <tr>
            <th>Pod</th>
            <th>
              <bdi>A · {one.meta.title}</bdi>
            </th>
            <th>
              <bdi>B · {other.meta.title}</bdi>
            </th>
          </tr>
        </thead>
        <tbody>
          {found.slice(0, MOST_PODS).map((each) => (
            <tr key={each.name}>
              <td>
                <button
                  type="button"
                  class="name"
                  aria-pressed={pod.value >= 0 && one.columns.podName(pod.value) === each.name}
                  onClick={() => select(each)}
                >
                  <bdi>{each.name}</bdi>
                </button>
              </td>
              <td>
                <bdi>{each.first || "—"}</bdi>
              </td>
              <td>
                <bdi>{each.second || "—"}</bdi>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {found.length > MOST_PODS && <p class="soft">{say("more", { n: found.length - MOST_PODS })}</p>}
      {why.value && !why.value.problem && pod.value >= 0 && (
        <>
          <h3>
            <bdi>A · {one.meta.title}</bdi>
          </h3>
          <Told why={why.value} />
        </>
      )}
      {told && !told.problem && why.value && (
        <>
          <h3>
            <bdi>B · {other.meta.title}</bdi>
          </h3>
          <Told why={told} names={other.columns.nodes} />
        </>
      )}
    </div>
  );
}
