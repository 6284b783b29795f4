// The cluster at one event of a record. It goes forward event by event, and back by way of keyframes.
import { type Columns, CPU, Kind, MEMORY, PODS } from "./columns";

export const NOWHERE = 255;
const EVERY = 16_384; // events between two keyframes

export interface Keyframe {
  at: number;
  version: Int32Array;
  used: Float64Array[];
  podNode: Int32Array;
  place: Uint8Array;
  since: Float64Array;
  tries: Uint16Array;
  attempt: Int32Array;
  pending: number[];
  counts: number[];
}

export class State {
  at = 0;
  version = new Int32Array(0); // by node; -1: it is not there
  used: Float64Array[] = []; // by resource, by node
  capacity: Float64Array[] = []; // by resource, by node, as its version says
  podNode = new Int32Array(0); // by pod; -1: none
  place = new Uint8Array(0); // by pod: where in the queue it is, or NOWHERE
  since = new Float64Array(0); // by pod: when it came there
  tries = new Uint16Array(0); // by pod
  attempt = new Int32Array(0); // by pod: its last attempt's event, or -1
  pending = [0, 0, 0, 0, 0, 0]; // by place
  decided = 0;
  refused = 0;
  evicted = 0;
  nodes = 0;
  running = 0;
  nodeEvents = 0;
  private ofNode: { at: number; starts: Int32Array; pods: Int32Array } | null = null;

  /** States of the same columns may share their keyframes. */
  constructor(
    readonly columns: Columns,
    private keyframes: Keyframe[] = [],
  ) {}

  /** Make room for what came since. */
  private fit(): void {
    const { columns } = this;
    const nodes = columns.nodes.length,
      pods = columns.pods.name.length;
    if (nodes > this.version.length) {
      const room = Math.max(nodes, this.version.length * 2);
      this.version = grown(this.version, new Int32Array(room).fill(-1));
      this.used = this.used.map((column) => grown(column, new Float64Array(room)));
      this.capacity = this.capacity.map((column) => grown(column, new Float64Array(room)));
    }
    while (this.used.length < columns.resources.length) {
      this.used.push(new Float64Array(this.version.length));
      this.capacity.push(new Float64Array(this.version.length));
    }
    if (pods > this.podNode.length) {
      const room = Math.max(pods, this.podNode.length * 2);
      this.podNode = grown(this.podNode, new Int32Array(room).fill(-1));
      this.place = grown(this.place, new Uint8Array(room).fill(NOWHERE));
      this.since = grown(this.since, new Float64Array(room));
      this.tries = grown(this.tries, new Uint16Array(room));
      this.attempt = grown(this.attempt, new Int32Array(room).fill(-1));
    }
  }

  /** Be as things were after so many events. */
  goTo(event: number): void {
    this.fit();
    const target = Math.max(0, Math.min(event, this.columns.length));
    if (target < this.at || target - this.at > EVERY) {
      let best = -1;
      for (let i = 0; i < this.keyframes.length; i++) if (this.keyframes[i].at <= target) best = i;
      const found = best < 0 ? null : this.keyframes[best];
      if (target < this.at || (found && found.at > this.at)) this.restore(found);
    }
    while (this.at < target) {
      this.apply(this.at++);
      if (this.at % EVERY === 0 && !this.keyframes.some((each) => each.at === this.at)) this.keep();
    }
    if (this.columns.isHead) {
      this.running = this.columns.running;
      this.pending = [...this.columns.waiting];
    }
  }

  private keep(): void {
    this.keyframes.push({
      at: this.at,
      version: this.version.slice(),
      used: this.used.map((column) => column.slice()),
      podNode: this.podNode.slice(),
      place: this.place.slice(),
      since: this.since.slice(),
      tries: this.tries.slice(),
      attempt: this.attempt.slice(),
      pending: [...this.pending],
      counts: [this.decided, this.refused, this.evicted, this.nodes, this.running, this.nodeEvents],
    });
    this.keyframes.sort((a, b) => a.at - b.at);
  }

  private restore(frame: Keyframe | null): void {
    this.version.fill(-1);
    this.podNode.fill(-1);
    this.place.fill(NOWHERE);
    this.since.fill(0);
    this.tries.fill(0);
    this.attempt.fill(-1);
    for (const column of [...this.used, ...this.capacity]) column.fill(0);
    this.at = frame?.at ?? 0;
    this.pending = frame ? [...frame.pending] : [0, 0, 0, 0, 0, 0];
    [this.decided, this.refused, this.evicted, this.nodes, this.running, this.nodeEvents] = frame?.counts ?? [
      0, 0, 0, 0, 0, 0,
    ];
    if (!frame) return;
    this.version.set(frame.version);
    this.podNode.set(frame.podNode);
    this.place.set(frame.place);
    this.since.set(frame.since);
    this.tries.set(frame.tries);
    this.attempt.set(frame.attempt);
    frame.used.forEach((column, resource) => this.used[resource].set(column));
    for (let node = 0; node < frame.version.length; node++) if (frame.version[node] >= 0) this.allocate(node);
  }

  private allocate(node: number): void {
    const { allocatable, allocatableOf } = this.columns,
      version = this.version[node];
    for (const column of this.capacity) column[node] = 0;
    if (version < 0) return;
    for (let i = allocatableOf.begin(version), end = allocatableOf.end(version); i < end; i++)
      this.capacity[allocatable.resource.data[i]][node] = allocatable.amount.data[i];
  }

  private put(pod: number, place: number, time: number): void {
    const before = this.place[pod];
    if (before !== NOWHERE) this.pending[before]--;
    if (place !== NOWHERE) this.pending[place]++;
    this.place[pod] = place;
    this.since[pod] = time;
  }

  private count(pod: number, node: number, sign: number): void {
    const { requests, requestsOf } = this.columns;
    for (let i = requestsOf.begin(pod), end = requestsOf.end(pod); i < end; i++)
      this.used[requests.resource.data[i]][node] += sign * requests.amount.data[i];
    this.used[PODS][node] += sign;
    this.running += sign;
  }

  private apply(event: number): void {
    const { kind, pod: pods, node: nodes, aux, time } = this.columns.events;
    const pod = pods.data[event],
      node = nodes.data[event],
      at = time.data[event];
    switch (kind.data[event]) {
      case Kind.NODE:
        this.nodeEvents++;
        if (this.version[node] < 0) this.nodes++;
        this.version[node] = aux.data[event];
        this.allocate(node);
        break;
      case Kind.NODE_GONE:
        this.nodeEvents++;
        if (this.version[node] >= 0) this.nodes--;
        this.version[node] = -1;
        this.allocate(node);
        break;
      case Kind.PLACE:
        this.put(pod, aux.data[event] & 7, at);
        if (aux.data[event] >> 3) {
          // it was found there, after so many attempts
          this.tries[pod] = aux.data[event] >> 3;
          this.attempt[pod] = event;
        }
        break;
      case Kind.ATTEMPT:
        this.put(pod, 5, at);
        this.tries[pod] = aux.data[event] >> 3;
        this.attempt[pod] = event;
        if ((aux.data[event] & 7) === 0) this.decided++;
        else this.refused++;
        break;
      case Kind.ON:
        this.put(pod, NOWHERE, at);
        this.podNode[pod] = node;
        this.count(pod, node, 1);
        break;
      case Kind.OFF:
        this.podNode[pod] = -1;
        this.count(pod, node, -1);
        break;
      case Kind.EVICTED:
        this.evicted++;
        break;
      case Kind.POD_GONE:
        this.put(pod, NOWHERE, at);
        break;
    }
  }

  share(node: number, resource: number): number {
    const capacity = this.capacity[resource][node];
    return capacity > 0 ? this.used[resource][node] / capacity : 0;
  }

  /** The pods on a node, the largest first. */
  podsOf(node: number): Int32Array {
    if (this.ofNode?.at !== this.at) {
      const total = this.columns.pods.name.length,
        starts = new Int32Array(this.version.length + 2);
      for (let pod = 0; pod < total; pod++) if (this.podNode[pod] >= 0) starts[this.podNode[pod] + 2]++;
      for (let i = 2; i < starts.length; i++) starts[i] += starts[i - 1];
      const pods = new Int32Array(starts[starts.length - 1]);
      for (let pod = 0; pod < total; pod++) if (this.podNode[pod] >= 0) pods[starts[this.podNode[pod] + 1]++] = pod;
      this.ofNode = { at: this.at, starts, pods };
    }
    return this.ofNode.pods.subarray(this.ofNode.starts[node], this.ofNode.starts[node + 1]);
  }

  totals(resource: number): [number, number] {
    let used = 0,
      all = 0;
    for (let node = 0; node < this.version.length; node++) {
      if (this.version[node] < 0) continue;
      used += this.used[resource][node];
      all += this.capacity[resource][node];
    }
    return [used, all];
  }
}

function grown<T extends Float64Array | Int32Array | Uint8Array | Uint16Array>(old: T, larger: T): T {
  larger.set(old as never);
  return larger;
}

export interface Strips {
  time: Float64Array;
  cpu: Float64Array;
  memory: Float64Array;
  waiting: Float64Array[]; // active, backoff, unschedulable, gated
  placed: Float64Array;
  refused: Float64Array;
  evicted: Float64Array;
}

const BINS = 400;

/** What the time strips show: one pass through the record, on a state of its own. */
export function strips(columns: Columns, state: State): Strips {
  const bins = Math.max(2, BINS),
    first = columns.begin,
    last = columns.end,
    span = last - first || 1;
  const make = () => new Float64Array(bins);
  const found: Strips = {
    time: make(),
    cpu: make(),
    memory: make(),
    waiting: [make(), make(), make(), make()],
    placed: make(),
    refused: make(),
    evicted: make(),
  };
  let before = [0, 0, 0];
  for (let bin = 0; bin < bins; bin++) {
    const time = first + (span * (bin + 1)) / bins;
    state.goTo(bin === bins - 1 ? columns.length : columns.eventAfter(time));
    found.time[bin] = time;
    let usedCpu = 0,
      allCpu = 0,
      usedMemory = 0,
      allMemory = 0;
    for (let node = 0; node < state.version.length; node++) {
      if (state.version[node] < 0) continue;
      const cpu = state.capacity[CPU][node],
        memory = state.capacity[MEMORY][node];
      usedCpu += state.used[CPU][node];
      allCpu += cpu;
      usedMemory += state.used[MEMORY][node];
      allMemory += memory;
    }
    found.cpu[bin] = allCpu ? (100 * usedCpu) / allCpu : 0;
    found.memory[bin] = allMemory ? (100 * usedMemory) / allMemory : 0;
    for (let place = 0; place < 4; place++) found.waiting[place][bin] = state.pending[place];
    found.placed[bin] = state.decided - before[0];
    found.refused[bin] = state.refused - before[1];
    found.evicted[bin] = state.evicted - before[2];
    before = [state.decided, state.refused, state.evicted];
  }
  return found;
}
