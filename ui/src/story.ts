// What is worth looking at in a record, and one sentence about an instant. Both are computed from the data alone.
import { type Columns, CPU, Kind, MEMORY } from "./columns";
import { NOWHERE, type State } from "./state";

export interface Highlight {
  kind: "refusal" | "preemption" | "nodeLost" | "mostWaiting" | "end";
  cursor: number; // so many events have happened
  pod: number;
  node: number;
  n: number; // how many pods it is about
}

const MOST_OF_A_KIND = 4;
const MANY = 5; // pods that wait at once

/** The event after an attempt, and after what followed from it at once. */
export function afterAttempt(columns: Columns, event: number): number {
  const { kind, pod: pods, time } = columns.events;
  let at = event + 1;
  while (
    at < columns.length &&
    time.data[at] === time.data[event] &&
    kind.data[at] !== Kind.ATTEMPT &&
    (pods.data[at] === pods.data[event] || kind.data[at] === Kind.EVICTED)
  )
    at++;
  return at;
}

/** How many pods are evicted at once for the pod of this attempt. */
export function evictions(columns: Columns, attempt: number): number {
  let found = 0;
  for (let at = attempt + 1; at < afterAttempt(columns, attempt); at++)
    if (columns.events.kind.data[at] === Kind.EVICTED) found++;
  return found;
}

/** The first refusal, preemptions, lost nodes, when most pods waited, and the end; in order of time. */
export function highlights(columns: Columns): Highlight[] {
  const { kind, pod, node, aux } = columns.events;
  const found: Highlight[] = [];
  const counts = { refusal: 0, preemption: 0, nodeLost: 0, mostWaiting: 0, end: 0 };
  const put = (what: Highlight["kind"], cursor: number, most: number, event: number, n = 0) => {
    if (counts[what]++ < most) found.push({ kind: what, cursor, pod: pod.data[event], node: node.data[event], n });
  };
  const waits = new Uint8Array(columns.pods.name.length);
  let waiting = 0;
  let most = 0;
  let when = -1;
  for (let event = 0; event < columns.length; event++) {
    const what = kind.data[event];
    const which = pod.data[event];
    if (what === Kind.PLACE || what === Kind.ATTEMPT || what === Kind.ON || what === Kind.POD_GONE) {
      const now = what === Kind.PLACE && (aux.data[event] & 7) < 4 ? 1 : 0;
      waiting += now - waits[which];
      waits[which] = now;
      if (waiting > most) [most, when] = [waiting, event];
    }
    if (what === Kind.NODE_GONE) put("nodeLost", event + 1, MOST_OF_A_KIND, event);
    if (what !== Kind.ATTEMPT || (aux.data[event] & 7) === 0) continue;
    const evicted = evictions(columns, event);
    if (evicted) put("preemption", afterAttempt(columns, event), MOST_OF_A_KIND, event, evicted);
    else if ((aux.data[event] & 7) === 1) put("refusal", afterAttempt(columns, event), 1, event);
  }
  if (most >= MANY) put("mostWaiting", when + 1, 1, when, most);
  if (found.length && found[found.length - 1].cursor < columns.length)
    found.push({ kind: "end", cursor: columns.length, pod: -1, node: -1, n: 0 });
  return found.sort((a, b) => a.cursor - b.cursor);
}

/** Where the page opens: the first refusal or preemption; -1 where everything went well. */
export function openingCursor(found: Highlight[]): number {
  return found.find((each) => each.kind === "refusal" || each.kind === "preemption")?.cursor ?? -1;
}

export interface Headline {
  waiting: number;
  tooLarge: number; // of the waiting pods: those that ask for more of this resource than any node has free
  resource: number;
  refusedBy: string; // otherwise: the plugin that refused most of them
  gated: number;
}

const MOST_LOOKED_AT = 5_000;

/** Why pods wait at an instant, in numbers. */
export function headline(state: State): Headline {
  const { columns } = state;
  const found: Headline = { waiting: 0, tooLarge: 0, resource: CPU, refusedBy: "", gated: state.pending[3] };
  found.waiting = state.pending[0] + state.pending[1] + state.pending[2] + state.pending[3];
  if (!found.waiting || columns.isHead) return found;
  const resources = columns.resources.map((_, i) => i);
  const free = resources.map(() => 0);
  for (let node = 0; node < state.version.length; node++) {
    if (state.version[node] < 0 || columns.versions.is_cordoned.data[state.version[node]]) continue;
    for (const i of resources) free[i] = Math.max(free[i], state.capacity[i][node] - state.used[i][node]);
  }
  const tooLarge = resources.map(() => 0);
  const refused = new Map<string, number>();
  let looked = 0;
  for (let pod = 0; pod < columns.pods.name.length && looked < MOST_LOOKED_AT; pod++) {
    if (state.place[pod] === NOWHERE || state.place[pod] > 2) continue;
    looked++;
    for (const i of resources) if (columns.request(pod, i) > free[i]) tooLarge[i]++;
    const by = state.attempt[pod] >= 0 ? columns.by(state.attempt[pod]).split(", ")[0] : "";
    if (by) refused.set(by, (refused.get(by) ?? 0) + 1);
  }
  found.resource = resources.reduce(
    (a, b) => (tooLarge[b] > tooLarge[a] ? b : a),
    tooLarge[MEMORY] > tooLarge[CPU] ? MEMORY : CPU,
  );
  found.tooLarge = tooLarge[found.resource];
  found.refusedBy = [...refused].sort((a, b) => b[1] - a[1])[0]?.[0] ?? "";
  return found;
}
