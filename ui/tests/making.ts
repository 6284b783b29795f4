// A small record, made as the server sends it.
import { Columns, type Meta } from "../src/columns";

const TABLES = [
  "texts",
  "nodes",
  "podNames",
  "resources",
  "versions",
  "labels",
  "allocatable",
  "pods",
  "containers",
  "requests",
  "events",
];
const ROWS: Record<string, [string, string][]> = {
  versions: [
    ["node", "i32"],
    ["is_cordoned", "u8"],
    ["taints", "i32"],
  ],
  labels: [
    ["version", "i32"],
    ["key", "i32"],
    ["value", "i32"],
  ],
  allocatable: [
    ["version", "i32"],
    ["resource", "i32"],
    ["amount", "f64"],
  ],
  pods: [
    ["name", "i32"],
    ["priority", "i32"],
    ["owner", "i32"],
    ["shape", "i32"],
  ],
  containers: [
    ["shape", "i32"],
    ["at", "i32"],
    ["name", "i32"],
    ["role", "u8"],
    ["resource", "i32"],
    ["amount", "f64"],
  ],
  requests: [
    ["pod", "i32"],
    ["resource", "i32"],
    ["amount", "f64"],
  ],
  events: [
    ["time", "f64"],
    ["kind", "u8"],
    ["pod", "i32"],
    ["node", "i32"],
    ["aux", "i32"],
    ["text", "i32"],
    ["by", "i32"],
  ],
};
const TYPES: Record<string, typeof Float64Array | typeof Int32Array | typeof Uint8Array> = {
  f64: Float64Array,
  i32: Int32Array,
  u8: Uint8Array,
};

/** A message of the server: texts, or rows of numbers, by table. */
export function message(tables: Record<string, string[] | number[][]>, more: object = {}): ArrayBuffer {
  const parts: object[] = [];
  const buffers: Uint8Array[] = [];
  for (const [table, rows] of Object.entries(tables)) {
    const columns = ROWS[table];
    if (!columns) {
      parts.push({ table, rows: rows.length, texts: rows });
      continue;
    }
    parts.push({ table, rows: rows.length, columns });
    columns.forEach(([, type], i) => {
      const values = TYPES[type].from((rows as number[][]).map((row) => row[i]));
      buffers.push(new Uint8Array(values.buffer));
    });
  }
  const header = new TextEncoder().encode(JSON.stringify({ tables: parts, isLive: false, whole: true, ...more }));
  const bytes = [...new Uint8Array(new Uint32Array([header.length]).buffer), ...header];
  for (const buffer of buffers) {
    while (bytes.length % 8) bytes.push(0);
    bytes.push(...buffer);
  }
  return new Uint8Array(bytes).buffer;
}

export function columns(): Columns {
  return new Columns({ title: "test", epoch: 0, tables: TABLES } as unknown as Meta);
}

// Two nodes of 4 and 8 CPUs; one pod goes to b and leaves, a second one is too large and evicts a third.
export const RECORD = {
  texts: ["", "zone", "one", "two", "NodeResourcesFit", "shop/large", "app", "proxy", "prepare"],
  nodes: ["a", "b"],
  podNames: ["shop/web", "shop/large", "shop/cheap"],
  resources: ["cpu", "memory", "pods"],
  versions: [
    [0, 0, 0],
    [1, 0, 0],
  ],
  labels: [
    [0, 1, 2],
    [1, 1, 3],
  ],
  allocatable: [
    [0, 0, 4000],
    [0, 2, 10],
    [1, 0, 8000],
    [1, 2, 10],
  ],
  pods: [
    [0, 0, 0, 0],
    [1, 10, 0, 0],
    [2, 0, 0, 1],
  ],
  containers: [
    [0, 0, 6, 0, -1, 0], // one container, without requests
    [1, 0, 6, 0, 0, 4500], // three: of 4.5 CPUs,
    [1, 1, 7, 1, 0, 1500], // a sidecar of 1.5,
    [1, 2, 8, 2, 0, 500], // and an init container
  ],
  requests: [
    [0, 0, 1000],
    [1, 0, 7000],
    [2, 0, 6000],
  ],
  events: [
    [0, 0, -1, 0, 0, 0, 0], // node a
    [0, 0, -1, 1, 1, 0, 0], // node b
    [1, 4, 0, 1, 8, 0, 0], // web is scheduled on b, at its first attempt
    [1, 5, 0, 1, 0, 0, 0], // and counts there
    [2, 6, 0, 1, 0, 0, 0], // it leaves
    [2, 5, 2, 1, 0, 0, 0], // cheap is on b
    [3, 4, 1, 1, 9, 4, 4], // large fits nowhere, and is nominated for b
    [3, 7, 2, 1, 0, 5, 0], // cheap is evicted for it
    [3, 3, 1, -1, 2, 0, 0], // large waits
    [4, 1, -1, 0, 0, 0, 0], // node a is gone
  ],
};
