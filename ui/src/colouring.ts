// Pods by colour: of their namespace, their owner, their priority, or how long they have been there.
import type { PodColours } from "./drawn";
import { HEATS, LEVELS, NAMED, type Theme } from "./palette";
import type { State } from "./state";
import type { Colouring } from "./view";

export interface Key {
  name: string;
  colour: string;
  count: number;
}
interface Named {
  codes: Int32Array; // by pod
  keys: Key[];
  length: number; // how many pods there were
}
const known = new WeakMap<object, Map<string, Named>>();

/** The most frequent names have a colour of their own; the rest share the last one. */
function named(state: State, by: "namespace" | "owner"): Named {
  const { columns } = state;
  const total = columns.pods.name.length;
  let tables = known.get(columns);
  if (!tables) {
    tables = new Map();
    known.set(columns, tables);
  }
  const found = tables.get(by);
  if (found?.length === total) return found;
  const numbers = new Map<string, number>();
  const codes = new Int32Array(total);
  const counts: number[] = [];
  for (let pod = 0; pod < total; pod++) {
    const full = columns.podName(pod);
    const name = by === "owner" ? columns.texts[columns.pods.owner.data[pod]] : full.slice(0, full.indexOf("/"));
    let number = numbers.get(name);
    if (number === undefined) {
      number = numbers.size;
      numbers.set(name, number);
      counts.push(0);
    }
    codes[pod] = number;
    counts[number]++;
  }
  const order = [...numbers].sort((a, b) => counts[b[1]] - counts[a[1]] || a[0].localeCompare(b[0]));
  const last = NAMED.length - 1;
  const rank = new Int32Array(numbers.size);
  const keys: Key[] = [];
  order.forEach(([name, number], i) => {
    rank[number] = Math.min(i, last);
    if (i < last) keys.push({ name, colour: NAMED[i], count: counts[number] });
    else if (i === last) keys.push({ name: "…", colour: NAMED[last], count: counts[number] });
    else keys[last].count += counts[number];
  });
  for (let pod = 0; pod < total; pod++) codes[pod] = rank[codes[pod]];
  const made = { codes, keys, length: total };
  tables.set(by, made);
  return made;
}

/** What the legend says of names and their colours. */
export function keysOf(state: State, by: Colouring): Key[] {
  return by === "namespace" || by === "owner" ? named(state, by).keys : [];
}

export function priorities(state: State): number[] {
  const { data, length } = state.columns.pods.priority;
  return [...new Set(data.subarray(0, length))].sort((a, b) => a - b);
}

/** How much of each node the pods of each colour request: rows of as many shares as there are colours. */
export function sharesOf(state: State, resource: number, colours: PodColours): Float32Array {
  const { columns, at, podNode } = state;
  const key = [at, columns.length, resource, colours.key].join();
  const cached = shares.get(state);
  if (cached?.key === key) return cached.found;
  const many = colours.palette.length;
  const found = new Float32Array(state.version.length * many);
  const capacity = state.capacity[resource];
  for (let pod = 0; pod < columns.pods.name.length; pod++) {
    const node = podNode[pod];
    const colour = node < 0 ? -1 : colours.of(pod);
    if (colour >= 0 && capacity[node] > 0)
      found[node * many + colour] += columns.request(pod, resource) / capacity[node];
  }
  shares.set(state, { key, found });
  return found;
}
const shares = new WeakMap<State, { key: string; found: Float32Array }>();

/** The colours of pods; null where nodes have colours instead. */
export function podColours(state: State, by: Colouring, time: number, theme: Theme): PodColours | null {
  const { columns } = state;
  if (by === "namespace" || by === "owner") {
    const { codes } = named(state, by);
    return { key: by, palette: NAMED, of: (pod) => codes[pod] ?? -1 };
  }
  if (by === "priority") {
    const levels = new Map(
      priorities(state).map((each, i, all) => [each, all.length > 1 ? i / (all.length - 1) : 0.3]),
    );
    return {
      key: by,
      palette: HEATS[theme],
      of: (pod) => Math.round((LEVELS - 1) * (levels.get(columns.pods.priority.data[pod]) ?? 0)),
    };
  }
  if (by === "age") {
    const span = Math.log1p(Math.max(1, time - columns.begin));
    return {
      key: `${by}${time}`,
      palette: HEATS[theme],
      of: (pod) => Math.round((LEVELS - 1) * Math.min(1, Math.log1p(Math.max(0, time - state.since[pod])) / span)),
    };
  }
  return null;
}
