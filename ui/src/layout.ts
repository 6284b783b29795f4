// Where each node's cell lies: groups side by side, cells of one size, the fullest first.
import type { State } from "./state";

export const HEAD = 20,
  PAD = 8,
  GAP = 10;
const MAX_GROUPS = 24,
  MAX_CELL = 176,
  MIN_CELL = 2;

export interface Group {
  name: string;
  x: number;
  y: number;
  width: number;
  height: number;
  perRow: number;
  nodes: Int32Array;
  added?: number;
}
export interface Layout {
  groups: Group[];
  cell: number;
  width: number;
  height: number;
  place: Map<number, [number, number]>;
}

/** ``added`` are cells for nodes that are not there. */
interface Content {
  name: string;
  nodes: Int32Array;
  added?: number;
}

/** The nodes that are there, by the value of a label, each group sorted by use. */
export function grouped(
  state: State,
  key: string,
  resource: number,
  none: string,
  others: string,
  share = (node: number) => state.share(node, resource),
): { name: string; nodes: Int32Array }[] {
  const { columns } = state,
    keyNumber = columns.texts.indexOf(key),
    by = new Map<number, number[]>();
  for (let node = 0; node < state.version.length; node++) {
    if (state.version[node] < 0) continue;
    const value = keyNumber < 0 ? -1 : columns.label(state.version[node], keyNumber);
    const list = by.get(value);
    if (list) list.push(node);
    else by.set(value, [node]);
  }
  let found = [...by].map(([value, nodes]) => ({ name: value < 0 ? none : columns.texts[value], nodes }));
  found.sort((a, b) => b.nodes.length - a.nodes.length || a.name.localeCompare(b.name, "en", { numeric: true }));
  if (found.length > MAX_GROUPS) {
    const rest = found.slice(MAX_GROUPS - 1).flatMap((each) => each.nodes);
    found = [...found.slice(0, MAX_GROUPS - 1), { name: others, nodes: rest }];
  } else found.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  return found.map(({ name, nodes }) => {
    const shares = new Float64Array(state.version.length);
    for (const node of nodes) shares[node] = share(node);
    return { name, nodes: Int32Array.from(nodes).sort((a, b) => shares[b] - shares[a] || a - b) };
  });
}

/** The largest cells with which all groups fit, and at most this large. */
export function laidOut(groups: Content[], width: number, height: number, most = MAX_CELL): Layout {
  let best: Layout | null = null;
  for (let across = 1; across <= Math.min(groups.length, 8); across++) {
    let low = MIN_CELL,
      high = most;
    if (arranged(groups, across, most, width).height <= height) low = most;
    while (high - low > 0.25) {
      const middle = (low + high) / 2;
      if (arranged(groups, across, middle, width).height <= height) low = middle;
      else high = middle;
    }
    const whole = Math.ceil(low),
      fits = whole <= most && arranged(groups, across, whole, width).height <= height;
    const cell = fits ? whole : low > 6 ? Math.floor(low) : low; // whole pixels, where they are many
    const found = arranged(groups, across, cell, width);
    if (!best || cell > best.cell || (cell === best.cell && found.height < best.height)) best = found;
  }
  return best ?? { groups: [], cell: MAX_CELL, width, height: 0, place: new Map() };
}

function arranged(groups: Content[], across: number, cell: number, width: number): Layout {
  const boxWidth = (width - GAP * (across - 1)) / across,
    perRow = Math.max(1, Math.floor((boxWidth - 2 * PAD) / cell));
  const found: Group[] = [];
  let y = 0,
    tallest = 0;
  groups.forEach((group, i) => {
    if (i && i % across === 0) {
      y += tallest + GAP;
      tallest = 0;
    }
    const height = HEAD + Math.ceil((group.nodes.length + (group.added ?? 0)) / perRow) * cell + PAD;
    found.push({ ...group, x: (i % across) * (boxWidth + GAP), y, width: boxWidth, height, perRow });
    tallest = Math.max(tallest, height);
  });
  return { groups: found, cell, width, height: y + tallest, place: new Map() };
}

export function positions(layout: Layout): void {
  layout.place.clear();
  for (const group of layout.groups)
    group.nodes.forEach((node, i) =>
      layout.place.set(node, [
        group.x + PAD + (i % group.perRow) * layout.cell,
        group.y + HEAD + Math.floor(i / group.perRow) * layout.cell,
      ]),
    );
}

/** The node whose cell is at this place, or -1. */
export function nodeAt(layout: Layout, x: number, y: number): number {
  for (const group of layout.groups) {
    const column = Math.floor((x - group.x - PAD) / layout.cell),
      row = Math.floor((y - group.y - HEAD) / layout.cell);
    if (column < 0 || row < 0 || column >= group.perRow || y > group.y + group.height || x > group.x + group.width)
      continue;
    const i = row * group.perRow + column;
    if (i < group.nodes.length) return group.nodes[i];
  }
  return -1;
}
