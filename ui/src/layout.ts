// Where each node's cell lies. Groups share all of the space by what they have, and so do the nodes of a group.
import type { State } from "./state";

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}
export interface Group extends Box {
  name: string;
  first: number; // of its cells
  count: number;
}
/** Cells by number: ``node`` says whose each is (-1: of a node that is not there), the others where it lies. */
export interface Layout {
  groups: Group[];
  node: Int32Array;
  x: Float32Array;
  y: Float32Array;
  width: Float32Array;
  height: Float32Array;
  cellOf: Map<number, number>;
  typical: number; // the short side of a usual cell
}
export interface Content {
  name: string;
  nodes: number[];
  weights: number[]; // how large each cell is, in any unit
}

export const HEAD = 20; // pixels for a group's name
export const PAD = 3;
const GAP = 8;
const MAX_GROUPS = 24;
const SMALLEST_GROUP = 0.02; // of all: its name has to fit

/**
 * The nodes that are there, by the value of a label. In a group, nodes that are alike lie together: the largest
 * first, those with taints after those without, cordoned ones last, and among them those with the largest share first.
 */
export function grouped(
  state: State,
  key: string,
  names: { none: string; others: string },
  weight: (node: number) => number,
  share: (node: number) => number,
): Content[] {
  const { columns } = state;
  const keyNumber = columns.texts.indexOf(key);
  const by = new Map<number, number[]>();
  for (let node = 0; node < state.version.length; node++) {
    if (state.version[node] < 0) continue;
    const value = keyNumber < 0 ? -1 : columns.label(state.version[node], keyNumber);
    const list = by.get(value);
    if (list) list.push(node);
    else by.set(value, [node]);
  }
  const order = (a: { name: string }, b: { name: string }) => a.name.localeCompare(b.name, "en", { numeric: true });
  let found = [...by].map(([value, nodes]) => ({ name: value < 0 ? names.none : columns.texts[value], nodes }));
  found.sort((a, b) => b.nodes.length - a.nodes.length || order(a, b));
  if (found.length > MAX_GROUPS) {
    const rest = found.slice(MAX_GROUPS - 1).flatMap((each) => each.nodes);
    found = [...found.slice(0, MAX_GROUPS - 1).sort(order), { name: names.others, nodes: rest }];
  } else found.sort(order);
  return found.map(({ name, nodes }) => {
    const { is_cordoned, taints } = columns.versions;
    const keys = new Map(
      nodes.map((node) => {
        const version = state.version[node];
        return [node, [-weight(node), is_cordoned.data[version], taints.data[version], -share(node), node]];
      }),
    );
    const sorted = nodes.sort((a, b) => {
      const [one, other] = [keys.get(a)!, keys.get(b)!];
      const i = one.findIndex((value, at) => value !== other[at]);
      return i < 0 ? 0 : one[i] - other[i];
    });
    return { name, nodes: sorted, weights: sorted.map(weight) };
  });
}

const sum = (values: number[]) => values.reduce((total, each) => total + each, 0);

/** Fill the space: groups by their weight, and in each its cells. */
export function laidOut(groups: Content[], width: number, height: number): Layout {
  const total = groups.reduce((all, each) => all + each.nodes.length, 0);
  const found: Layout = {
    groups: [],
    node: new Int32Array(total),
    x: new Float32Array(total),
    y: new Float32Array(total),
    width: new Float32Array(total),
    height: new Float32Array(total),
    cellOf: new Map(),
    typical: 0,
  };
  let at = 0;
  const weights = groups.map((group) => sum(group.weights));
  const least = sum(weights) * SMALLEST_GROUP;
  const boxes = groupBoxes(
    weights.map((each) => Math.max(each, least)),
    { x: 0, y: 0, width, height },
  );
  groups.forEach((group, i) => {
    const box = boxes[i];
    found.groups.push({ ...box, name: group.name, first: at, count: group.nodes.length });
    const inside = {
      x: box.x + PAD,
      y: box.y + HEAD,
      width: Math.max(1, box.width - 2 * PAD),
      height: Math.max(1, box.height - HEAD - PAD),
    };
    cells(group.weights, inside).forEach((cell, j) => {
      found.node[at] = group.nodes[j];
      found.x[at] = cell.x;
      found.y[at] = cell.y;
      found.width[at] = cell.width;
      found.height[at] = cell.height;
      found.cellOf.set(group.nodes[j], at++);
    });
  });
  const shorts = Float32Array.from(found.width, (each, i) => Math.min(each, found.height[i])).sort();
  found.typical = shorts[shorts.length >> 1] ?? 0;
  return found;
}

/** Groups in rows, with gaps between them. */
function groupBoxes(weights: number[], space: Box): Box[] {
  const withGaps = rows(weights, space);
  return withGaps.map((box) => ({
    x: box.x + (box.x > space.x ? GAP / 2 : 0),
    y: box.y + (box.y > space.y ? GAP / 2 : 0),
    width: box.width - (box.x > space.x ? GAP / 2 : 0) - (box.x + box.width < space.x + space.width - 1 ? GAP / 2 : 0),
    height:
      box.height - (box.y > space.y ? GAP / 2 : 0) - (box.y + box.height < space.y + space.height - 1 ? GAP / 2 : 0),
  }));
}

const MOST_SIZES = 8;
const FLATTEST = 0.4; // of the cells of a band: narrower ones are hard to read

/** Cells of one size make a grid, a few sizes a grid each, one below the other; others are laid in rows. */
function cells(weights: number[], space: Box): Box[] {
  const sizes = [...new Set(weights)].sort((a, b) => b - a);
  if (sizes.length === 1) return grid(weights.length, space);
  return (sizes.length <= MOST_SIZES && bands(weights, sizes, space)) || rows(weights, space);
}

/** A grid for each size, as high as its cells are large together; null where one would be too flat. */
function bands(weights: number[], sizes: number[], space: Box): Box[] | null {
  const total = sum(weights) || 1;
  const found: Box[] = new Array(weights.length);
  let y = space.y;
  for (const size of sizes) {
    const members = weights.flatMap((each, i) => (each === size ? [i] : []));
    const height = (space.height * size * members.length) / total;
    const made = grid(members.length, { ...space, y, height });
    if (made[0].height < FLATTEST * made[0].width || made[0].width < FLATTEST * made[0].height) return null;
    for (const [at, i] of members.entries()) found[i] = made[at];
    y += height;
  }
  return found;
}

/** The grid whose cells are nearest to squares, with as little left over as can be. */
function grid(count: number, space: Box): Box[] {
  let best = 1;
  let worst = Number.POSITIVE_INFINITY;
  for (let across = 1; across <= count; across++) {
    const down = Math.ceil(count / across);
    const ratio = space.width / across / (space.height / down);
    const empty = (across * down - count) / count;
    const cost = Math.max(ratio, 1 / ratio) + 2 * empty;
    if (cost < worst) [best, worst] = [across, cost];
    else if (ratio < 0.2) break;
  }
  const down = Math.ceil(count / best);
  const [width, height] = [space.width / best, space.height / down];
  return Array.from({ length: count }, (_, i) => ({
    x: space.x + (i % best) * width,
    y: space.y + Math.floor(i / best) * height,
    width,
    height,
  }));
}

/** Rows of nearly the same weight, as many as make boxes squarest: areas by weight, and the order is kept. */
export function rows(weights: number[], space: Box): Box[] {
  const total = sum(weights) || 1;
  const likely = Math.sqrt((weights.length * space.height) / Math.max(1e-9, space.width));
  let best: number[] = [];
  let least = Number.POSITIVE_INFINITY;
  const tried = new Set([0.6, 0.75, 0.9, 1, 1.15, 1.35, 1.6, 2].map((factor) => Math.round(likely * factor)));
  for (const many of tried) {
    if (many < 1 && likely >= 0.5) continue;
    const ends = broken(weights, total, Math.max(1, many));
    const cost = unevenness(weights, ends, total, space);
    if (cost < least) [best, least] = [ends, cost];
  }
  const found: Box[] = new Array(weights.length);
  let y = space.y;
  let from = 0;
  for (const to of best) {
    const row = sum(weights.slice(from, to));
    const height = (space.height * row) / total;
    let x = space.x;
    for (let i = from; i < to; i++) {
      const width = row > 0 ? (space.width * weights[i]) / row : space.width / (to - from);
      found[i] = { x, y, width, height };
      x += width;
    }
    y += height;
    from = to;
  }
  return found;
}

/** Where each of so many rows ends. */
function broken(weights: number[], total: number, many: number): number[] {
  const ends: number[] = [];
  let done = 0;
  weights.forEach((weight, i) => {
    const target = (total * (ends.length + 1)) / many;
    if (ends.length < many - 1 && done + weight / 2 > target && i > (ends[ends.length - 1] ?? 0)) ends.push(i);
    done += weight;
  });
  return [...ends, weights.length];
}

/** How far boxes are from squares, on average by weight. */
function unevenness(weights: number[], ends: number[], total: number, space: Box): number {
  let cost = 0;
  let from = 0;
  for (const to of ends) {
    const row = sum(weights.slice(from, to));
    const height = (space.height * row) / total;
    for (let i = from; i < to; i++) {
      const width = (space.width * weights[i]) / (row || 1);
      if (width > 0 && height > 0) cost += weights[i] * Math.max(width / height, height / width);
    }
    from = to;
  }
  return cost;
}

/** The cell at this place, or -1. */
export function cellAt(layout: Layout, x: number, y: number): number {
  for (const group of layout.groups) {
    if (x < group.x || y < group.y || x > group.x + group.width || y > group.y + group.height) continue;
    for (let i = group.first; i < group.first + group.count; i++)
      if (
        x >= layout.x[i] &&
        y >= layout.y[i] &&
        x < layout.x[i] + layout.width[i] &&
        y < layout.y[i] + layout.height[i]
      )
        return i;
  }
  return -1;
}

/** The nearest cell in a direction, or the same one. */
export function neighbour(layout: Layout, from: number, [dx, dy]: [number, number]): number {
  const middle = (i: number) => [layout.x[i] + layout.width[i] / 2, layout.y[i] + layout.height[i] / 2];
  const [x, y] = middle(from);
  let best = from;
  let nearest = Number.POSITIVE_INFINITY;
  for (let i = 0; i < layout.node.length; i++) {
    const [otherX, otherY] = middle(i);
    const along = (otherX - x) * dx + (otherY - y) * dy;
    const aside = Math.abs((otherX - x) * dy) + Math.abs((otherY - y) * dx);
    if (along > 0.5 && along + 3 * aside < nearest) {
      nearest = along + 3 * aside;
      best = i;
    }
  }
  return best;
}
