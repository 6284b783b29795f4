// Columns that grow, and the record that is made of them. The server's side is src/mooring/show/timeline.py.

type Numbers = Float64Array | Int32Array | Uint8Array;
const TYPES = { f64: Float64Array, i32: Int32Array, u8: Uint8Array } as const;
export type TypeName = keyof typeof TYPES;

export class Column<T extends Numbers> {
  length = 0;
  constructor(public data: T) {}

  append(more: T): void {
    const wanted = this.length + more.length;
    if (wanted > this.data.length) {
      const Type = this.data.constructor as new (n: number) => T;
      const larger = new Type(Math.max(wanted, this.data.length * 2, 64));
      larger.set(this.data.subarray(0, this.length) as never);
      this.data = larger;
    }
    this.data.set(more as never, this.length);
    this.length = wanted;
  }
}

/** Signs that change the direction of what follows are shown by their numbers: a name must not reorder the page. */
const DIRECTIONS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
export const harmless = (text: string) =>
  text.replace(DIRECTIONS, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** JSON whose texts are harmless. */
export const parsed = (text: string): unknown =>
  text.search(DIRECTIONS) < 0
    ? JSON.parse(text)
    : JSON.parse(text, (_, value) => (typeof value === "string" ? harmless(value) : value));

const f64 = () => new Column(new Float64Array(0));
const i32 = () => new Column(new Int32Array(0));
const u8 = () => new Column(new Uint8Array(0));

/** Rows of a child table lie together, in the order of their parents: where those of each parent begin. */
class Starts {
  at = new Int32Array(64);
  private done = 0;
  private parents = 0;

  update(parentOf: Column<Int32Array>): void {
    for (; this.done < parentOf.length; this.done++) {
      const parent = parentOf.data[this.done];
      if (parent + 2 > this.at.length) {
        const larger = new Int32Array(Math.max(parent + 2, this.at.length * 2));
        larger.set(this.at);
        this.at = larger;
      }
      while (this.parents <= parent) this.at[this.parents++] = this.done;
    }
  }
  begin(parent: number): number {
    return parent < this.parents ? this.at[parent] : this.done;
  }
  end(parent: number): number {
    return this.begin(parent + 1);
  }
}

export const Kind = {
  NODE: 0,
  NODE_GONE: 1,
  POD: 2,
  PLACE: 3,
  ATTEMPT: 4,
  ON: 5,
  OFF: 6,
  EVICTED: 7,
  POD_GONE: 8,
  BOUND: 9,
  SAID: 10,
} as const;
export const PLACES = ["active", "backoff", "unschedulable", "gated", "permit", "in flight"] as const;
export const OUTCOMES = ["scheduled", "unschedulable", "gated", "error"] as const;
export const CPU = 0,
  MEMORY = 1,
  PODS = 2;

export interface Profile {
  schedulerName: string;
  filter: string[];
  score: [string, number][];
  wakes: Record<string, string[]>;
}
export const Role = { CONTAINER: 0, SIDECAR: 1, INIT: 2 } as const;
export interface Container {
  name: string;
  role: number;
  requests: [number, number][]; // resources and amounts
}
export interface Meta {
  title: string;
  epoch: number;
  guide: string;
  isLive: boolean;
  kubernetesVersion: string;
  backoff: [number, number];
  profiles: Profile[];
  tables: string[];
}

/** The server has forgotten what was long ago, and numbers everything anew. */
export class Forgotten extends Error {}

export class Columns {
  texts: string[] = [];
  nodes: string[] = [];
  podNames: string[] = [];
  resources: string[] = [];
  versions = { node: i32(), is_cordoned: u8(), taints: i32() };
  labels = { version: i32(), key: i32(), value: i32() };
  allocatable = { version: i32(), resource: i32(), amount: f64() };
  pods = { name: i32(), priority: i32(), owner: i32(), shape: i32() };
  containers = { shape: i32(), at: i32(), name: i32(), role: u8(), resource: i32(), amount: f64() };
  requests = { pod: i32(), resource: i32(), amount: f64() };
  events = { time: f64(), kind: u8(), pod: i32(), node: i32(), aux: i32(), text: i32(), by: i32() };
  labelsOf = new Starts();
  allocatableOf = new Starts();
  requestsOf = new Starts();
  containersOf = new Starts();
  isLive = true;
  isWhole = false;
  generation = 0; // another number when the server has forgotten what was long ago
  isHead = false; // the last instant alone: one pod on each node stands for all of its pods
  running = 0; // of the head: how many pods they are
  waiting: number[] = []; // of the head, by place

  constructor(public meta: Meta) {}

  get length(): number {
    return this.events.time.length;
  }
  get begin(): number {
    return this.length ? this.events.time.data[0] : 0;
  }
  get end(): number {
    return this.length ? this.events.time.data[this.length - 1] : 0;
  }

  /** How many rows of each table are here, in the server's order. */
  have(): number[] {
    return this.meta.tables.map((name) => {
      const table = (this as never)[name] as string[] | Record<string, Column<Numbers>>;
      return Array.isArray(table) ? table.length : Object.values(table)[0].length;
    });
  }

  /** Take in a message of the server; true if it held anything. */
  take(message: ArrayBuffer): boolean {
    const size = new DataView(message).getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(message, 4, size)));
    if (this.length && (header.generation ?? 0) !== this.generation) throw new Forgotten();
    let at = 4 + size,
      isNew = false;
    for (const part of header.tables as {
      table: string;
      rows: number;
      texts?: string[];
      columns?: [string, TypeName][];
    }[]) {
      isNew ||= part.rows > 0;
      const table = (this as never)[part.table] as string[] & Record<string, Column<Numbers>>;
      if (part.texts) for (const text of part.texts) table.push(harmless(text));
      for (const [name, type] of part.columns ?? []) {
        at += -at & 7;
        const Type = TYPES[type];
        table[name].append(new Type(message, at, part.rows));
        at += part.rows * Type.BYTES_PER_ELEMENT;
      }
    }
    this.labelsOf.update(this.labels.version);
    this.allocatableOf.update(this.allocatable.version);
    this.requestsOf.update(this.requests.pod);
    this.containersOf.update(this.containers.shape);
    this.isLive = header.isLive;
    this.isWhole = header.whole;
    this.generation = header.generation ?? 0;
    this.isHead = header.waiting !== undefined;
    this.running = header.running ?? 0;
    this.waiting = header.waiting ?? [];
    return isNew;
  }

  podName(pod: number): string {
    return pod < 0 ? "" : this.podNames[this.pods.name.data[pod]];
  }
  text(event: number): string {
    return this.texts[this.events.text.data[event]];
  }
  by(event: number): string {
    return this.texts[this.events.by.data[event]];
  }
  request(pod: number, resource: number): number {
    for (let i = this.requestsOf.begin(pod), end = this.requestsOf.end(pod); i < end; i++)
      if (this.requests.resource.data[i] === resource) return this.requests.amount.data[i];
    return resource === PODS ? 1 : 0;
  }
  /** The containers of a pod with what each requests: regular ones, sidecars and init containers. */
  containersIn(pod: number): Container[] {
    const shape = this.pods.shape.data[pod];
    const { at, name, role, resource, amount } = this.containers;
    const found: Container[] = [];
    if (shape === undefined || shape < 0) return found;
    for (let i = this.containersOf.begin(shape), end = this.containersOf.end(shape); i < end; i++) {
      const index = at.data[i];
      found[index] ??= { name: this.texts[name.data[i]], role: role.data[i], requests: [] };
      if (resource.data[i] >= 0) found[index].requests.push([resource.data[i], amount.data[i]]);
    }
    return found;
  }
  label(version: number, key: number): number {
    if (version < 0) return -1;
    for (let i = this.labelsOf.begin(version), end = this.labelsOf.end(version); i < end; i++)
      if (this.labels.key.data[i] === key) return this.labels.value.data[i];
    return -1;
  }
  /** The first event after this moment. */
  eventAfter(time: number): number {
    const times = this.events.time.data;
    let low = 0,
      high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
