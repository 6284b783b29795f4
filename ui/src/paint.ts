// Drawing the map on a canvas: cells, how full they are, what the pod was told by each, and pods as blocks.
import { type Box, HEAD, type Layout, rows } from "./layout";
import { CHOSEN, HATCHES, HEATS, inkOn, LEVELS, mixed, REFUSALS, THEMES, type Theme } from "./palette";
import type { State } from "./state";
import type { Camera, Why } from "./view";
import { amount } from "./words";

export const BLOCKS_FROM = 24; // pixels of a cell, from which on pods are drawn
const LABELS_FROM = 13;
const NAMES_FROM = 58; // pixels of width for a node's name
const NAMED_FROM = 48; // and of height
const FOOT = 15; // pixels for a node's name
const LINE = 13;
const HATCHED_TO = 44; // pixels of a cell: from there on a number in it is easy to read
const LOWEST = 0.12; // of a cell: how high its pods are at least
const SMALLEST_POD = 1 / 80; // of a node, however little a pod asks for

/** What an answer changes: nodes that are lost or drained, that get pods or that pods leave, and new ones. */
export interface Differs {
  lost: Set<number>;
  gets: Set<number>;
  leaves: Set<number>;
  added: number;
  like: number; // the node that new ones are like
  onAdded: number;
  stays: boolean;
}
/** What each node was told: an index into the palette (-1: nothing), and which step of the funnel refused it. */
export interface Verdicts {
  code: Int16Array;
  mark: Uint8Array;
  chosen: number;
}
/** Pods by colour: ``of`` gives an index into ``palette``; -1: none. */
export interface PodColours {
  palette: string[];
  of: (pod: number) => number;
}
export interface Look {
  resource: number;
  told: Verdicts | null;
  isFaded: boolean; // what was told is of another instant
  pods: PodColours | null;
  selectedNode: number;
  selectedPod: number;
  hovered: number;
  hoveredPod: number;
  differs?: Differs;
  theme: Theme;
}

export const FONTS = "system-ui, 'Segoe UI', Roboto, 'Noto Sans CJK JP', 'Noto Sans CJK SC', sans-serif";

/** What each node was told, up to a step of the funnel. */
export function verdicts(why: Why | null, step: number, nodes: number): Verdicts {
  const found: Verdicts = { code: new Int16Array(nodes).fill(-1), mark: new Uint8Array(nodes), chosen: -1 };
  if (!why || why.problem || step === -2) return found;
  why.funnel.forEach((each, i) => {
    if (step >= 0 && i > step) return;
    for (const row of each.rows) {
      found.code[row] = LEVELS + (i % REFUSALS.length);
      found.mark[row] = i + 1;
    }
  });
  if (step >= 0 && step < why.funnel.length) return found;
  const [rows, totals] = why.totals;
  let highest = Number.NEGATIVE_INFINITY;
  let lowest = Number.POSITIVE_INFINITY;
  for (const total of totals) {
    highest = Math.max(highest, total);
    lowest = Math.min(lowest, total);
  }
  const isTie = step === why.funnel.length + 1; // only those among which one is drawn
  rows.forEach((row, i) => {
    const level =
      highest > lowest ? Math.round(((LEVELS - 1) * (totals[i] - lowest)) / (highest - lowest)) : LEVELS - 1;
    found.code[row] = isTie && totals[i] < highest ? -1 : level;
  });
  if (why.node !== null && !rows.length) found.code[why.node] = LEVELS - 1; // it was the only one, and got no score
  if (why.node !== null && (step < 0 || step > why.funnel.length + 1)) found.chosen = why.node;
  return found;
}

// ---- where things are on the screen --------------------------------------------------------------------------------

export interface Size {
  width: number;
  height: number;
  ratio: number;
}
/** World to screen: ``x * scale + dx``. The camera says which share of the world is in the middle. */
export function transform({ scale, x, y }: Camera, { width, height }: Size): { scale: number; dx: number; dy: number } {
  return { scale, dx: width / 2 - x * width * scale, dy: height / 2 - y * height * scale };
}

/** Inside a cell on the screen: where pods are drawn. */
function inside(width: number, height: number): Box {
  const inset = width > 60 ? 3 : 1;
  const foot = width >= NAMES_FROM && height >= NAMED_FROM ? FOOT : 0;
  return { x: inset, y: inset, width: width - 2 * inset, height: height - 2 * inset - foot };
}

// ---- pods in a node ------------------------------------------------------------------------------------------------

interface PodBoxes {
  pods: Int32Array;
  boxes: Box[]; // in shares of the inside of the cell
}
const caches = new WeakMap<State, { resource: number; aspect: Map<number, number>; of: Map<number, PodBoxes> }>();

const same = (a: Int32Array, b: Int32Array) => a.length === b.length && a.every((each, i) => each === b[i]);

/** The pods of a node as boxes, by what they request; together as high as the node is full. */
export function podBoxes(state: State, node: number, resource: number, width: number, height: number): PodBoxes {
  let cache = caches.get(state);
  if (!cache || cache.resource !== resource) {
    cache = { resource, aspect: new Map(), of: new Map() };
    caches.set(state, cache);
  }
  const pods = state.podsOf(node);
  const aspect = Math.round((20 * width) / Math.max(1, height)) / 20;
  const known = cache.of.get(node);
  if (known && cache.aspect.get(node) === aspect && same(known.pods, pods)) return known;
  const capacity = state.capacity[resource][node];
  const weights = Array.from(pods, (pod) =>
    Math.max(SMALLEST_POD, capacity ? state.columns.request(pod, resource) / capacity : 0),
  );
  const share = Math.min(
    1,
    weights.reduce((total, each) => total + each, 0),
  );
  const high = Math.min(1, Math.max(share, LOWEST)); // a few small pods are a small block rather than a hairline
  const wide = (aspect || 1) * (share / high);
  const boxes = rows(weights, { x: 0, y: 0, width: wide, height: high }).map((box) => ({
    x: box.x / (aspect || 1),
    y: 1 - box.y - box.height, // from the bottom up
    width: box.width / (aspect || 1),
    height: box.height,
  }));
  const made = { pods: pods.slice(), boxes };
  cache.of.set(node, made);
  cache.aspect.set(node, aspect);
  return made;
}

/** The pod at a place of a cell that has this size on the screen, or -1. */
export function podAt(
  state: State,
  node: number,
  resource: number,
  size: { width: number; height: number },
  x: number,
  y: number,
): number {
  if (Math.min(size.width, size.height) < BLOCKS_FROM || node < 0 || state.version[node] < 0) return -1;
  const room = inside(size.width, size.height);
  const [atX, atY] = [(x - room.x) / room.width, (y - room.y) / room.height];
  const { pods, boxes } = podBoxes(state, node, resource, room.width, room.height);
  const i = boxes.findIndex(
    (box) => atX >= box.x && atY >= box.y && atX < box.x + box.width && atY < box.y + box.height,
  );
  return i < 0 ? -1 : pods[i];
}

// ---- painting ------------------------------------------------------------------------------------------------------

const patterns = new Map<string, CanvasPattern | null>();

/** Lines over what a filter refused: colour does not speak alone. A picture that is saved has none. */
function hatch(context: CanvasRenderingContext2D, i: number, theme: Theme): CanvasPattern | null {
  if (typeof context.createPattern !== "function") return null;
  const key = `${i}/${theme}`;
  if (!patterns.has(key)) {
    const [angle, distance] = HATCHES[i % HATCHES.length];
    const tile = document.createElement("canvas");
    tile.width = tile.height = 2 * distance;
    const lines = tile.getContext("2d")!;
    lines.strokeStyle = theme === "light" ? "rgb(255 255 255 / 38%)" : "rgb(0 0 0 / 38%)";
    lines.lineWidth = 1.5;
    const size = 2 * distance;
    lines.beginPath();
    for (let at = -size; at <= 2 * size; at += distance) {
      if (angle === 0) line(lines, 0, at + 0.5, size, at + 0.5);
      else if (angle === 90) line(lines, at + 0.5, 0, at + 0.5, size);
      else if (angle > 0) line(lines, at, 0, at + size, size);
      else line(lines, at, size, at + size, 0);
    }
    lines.stroke();
    patterns.set(key, context.createPattern(tile, "repeat"));
  }
  return patterns.get(key)!;
}

function line(context: CanvasRenderingContext2D, x: number, y: number, toX: number, toY: number): void {
  context.moveTo(x, y);
  context.lineTo(toX, toY);
}

/** The cells that can be seen: their numbers, and where they are on the screen. */
class Seen {
  count = 0;
  cell = new Int32Array(1024);
  x = new Float32Array(1024);
  y = new Float32Array(1024);
  width = new Float32Array(1024);
  height = new Float32Array(1024);
  reset(most: number): void {
    this.count = 0;
    if (most <= this.cell.length) return;
    this.cell = new Int32Array(most);
    for (const name of ["x", "y", "width", "height"] as const) this[name] = new Float32Array(most);
  }
}
const seen = new Seen();

export function paint(
  context: CanvasRenderingContext2D,
  state: State,
  layout: Layout,
  camera: Camera,
  size: Size,
  look: Look,
): void {
  const colours = THEMES[look.theme];
  const { scale, dx, dy } = transform(camera, size);
  context.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
  context.fillStyle = colours.panel;
  context.fillRect(0, 0, size.width, size.height);
  context.textBaseline = "middle";
  paintGroups(context, layout, scale, dx, dy, size, look.theme);
  lookAt(layout, scale, dx, dy, size);
  const palette = paletteOf(look);
  const buckets: number[][] = Array.from({ length: palette.length + 1 }, () => []);
  const empty: number[] = [];
  for (let i = 0; i < seen.count; i++) {
    const node = layout.node[seen.cell[i]];
    if (node < 0 || state.version[node] < 0) empty.push(i);
    else buckets[1 + codeOf(state, node, look)].push(i);
  }
  context.fillStyle = colours.cell;
  for (let i = 0; i < seen.count; i++) context.fillRect(seen.x[i], seen.y[i], seen.width[i], seen.height[i]);
  paintEmpty(context, layout, empty, look);
  const isBlocks = (i: number) => Math.min(seen.width[i], seen.height[i]) >= BLOCKS_FROM;
  buckets.forEach((bucket, at) => {
    if (!bucket.length) return;
    const colour = at ? palette[at - 1] : colours.pod;
    if (look.told && at) {
      context.fillStyle = `${colour}4d`;
      for (const i of bucket) context.fillRect(seen.x[i], seen.y[i], seen.width[i], seen.height[i]);
    }
    context.fillStyle = colour;
    for (const i of bucket) {
      if (isBlocks(i)) continue;
      const height = seen.height[i] * Math.min(1, state.share(layout.node[seen.cell[i]], look.resource));
      context.fillRect(seen.x[i], seen.y[i] + seen.height[i] - height, seen.width[i], height);
    }
    for (const i of bucket) if (isBlocks(i)) paintPods(context, state, layout.node[seen.cell[i]], i, colour, look);
    if (look.told && at > LEVELS) paintHatch(context, bucket, at - 1 - LEVELS, look.theme);
  });
  for (let i = 0; i < seen.count; i++) {
    const node = layout.node[seen.cell[i]];
    if (node >= 0 && state.version[node] >= 0) paintMarks(context, state, node, i, look, palette);
  }
}

function paintGroups(
  context: CanvasRenderingContext2D,
  layout: Layout,
  scale: number,
  dx: number,
  dy: number,
  size: Size,
  theme: Theme,
): void {
  const colours = THEMES[theme];
  context.font = `600 12px ${FONTS}`;
  for (const group of layout.groups) {
    const [left, top] = [group.x * scale + dx, group.y * scale + dy];
    const [width, height] = [group.width * scale, group.height * scale];
    if (left > size.width || top > size.height || left + width < 0 || top + height < 0) continue;
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.strokeRect(Math.round(left) + 0.5, Math.round(top) + 0.5, Math.round(width) - 1, Math.round(height) - 1);
    context.fillStyle = colours.soft;
    const title = `${group.name} · ${group.count.toLocaleString()}`;
    context.fillText(
      clip(title, Math.floor((width - 12) / 6.6)),
      Math.max(left, 0) + 6,
      top + (HEAD / 2) * Math.min(scale, 1.3),
    );
  }
}

function lookAt(layout: Layout, scale: number, dx: number, dy: number, size: Size): void {
  seen.reset(layout.node.length);
  for (let i = 0; i < layout.node.length; i++) {
    const x = layout.x[i] * scale + dx;
    const y = layout.y[i] * scale + dy;
    const width = layout.width[i] * scale;
    const height = layout.height[i] * scale;
    if (x > size.width || y > size.height || x + width < 0 || y + height < 0) continue;
    const short = Math.min(width, height);
    const gap = short > 40 ? 4 : short > 14 ? 2 : short > 5 ? 1 : 0.4;
    const at = seen.count++;
    seen.cell[at] = i;
    seen.x[at] = x + gap / 2;
    seen.y[at] = y + gap / 2;
    seen.width[at] = Math.max(0.5, width - gap);
    seen.height[at] = Math.max(0.5, height - gap);
  }
}

/** The colours that codes are indices into. What was told at another instant is pale. */
function paletteOf(look: Look): string[] {
  if (look.pods) return look.pods.palette;
  if (!look.told) return HEATS[look.theme];
  const whole = [...HEATS[look.theme], ...REFUSALS];
  return look.isFaded ? whole.map((each) => mixed(each, THEMES[look.theme].cell, 0.72)) : whole;
}

function codeOf(state: State, node: number, look: Look): number {
  if (look.pods) return dominating(state, node, look.resource, look.pods);
  if (look.told) return node < look.told.code.length ? look.told.code[node] : -1;
  return Math.round((LEVELS - 1) * Math.min(1, state.share(node, look.resource)));
}

/** The colour of the pods that request most of a node. */
function dominating(state: State, node: number, resource: number, colours: PodColours): number {
  const sums = new Map<number, number>();
  let best = -1;
  let most = 0;
  for (const pod of state.podsOf(node)) {
    const colour = colours.of(pod);
    const now = (sums.get(colour) ?? 0) + state.columns.request(pod, resource) + 1e-6;
    sums.set(colour, now);
    if (now > most) [best, most] = [colour, now];
  }
  return best;
}

function paintPods(
  context: CanvasRenderingContext2D,
  state: State,
  node: number,
  i: number,
  colour: string,
  look: Look,
): void {
  const room = inside(seen.width[i], seen.height[i]);
  if (room.width < 4 || room.height < 4 || !state.capacity[look.resource][node]) return;
  const { pods, boxes } = podBoxes(state, node, look.resource, room.width, room.height);
  const { columns } = state;
  const calm = look.told ? mixed(colour, THEMES[look.theme].cell, 0.35) : colour; // many together are bright enough
  for (let at = 0; at < pods.length; at++) {
    const pod = pods[at];
    const box = boxes[at];
    const width = box.width * room.width;
    const height = box.height * room.height;
    const gap = Math.min(width, height) > 4 ? 1 : 0.3;
    const x = seen.x[i] + room.x + box.x * room.width;
    const y = seen.y[i] + room.y + box.y * room.height;
    const code = look.pods ? look.pods.of(pod) : -1;
    const own = pod === look.selectedPod ? CHOSEN : look.pods ? (look.pods.palette[code] ?? colour) : calm;
    context.fillStyle = own;
    context.fillRect(x, y, Math.max(0.5, width - gap), Math.max(0.5, height - gap));
    if (pod === look.selectedPod || pod === look.hoveredPod)
      ring(context, x + 1, y + 1, width - 2 - gap, height - 2 - gap, THEMES[look.theme].text, 2);
    if (width < 46 || height < LINE) continue;
    context.fillStyle = inkOn(own);
    context.font = `11px ${FONTS}`;
    const name = columns.podName(pod);
    const lines = [name.slice(name.indexOf("/") + 1)];
    if (height >= 3 * LINE) lines.push(requestsOf(state, pod));
    const top = y + height / 2 - ((lines.length - 1) * LINE) / 2;
    lines.forEach((text, row) => context.fillText(clip(text, Math.floor((width - 8) / 6)), x + 4, top + row * LINE));
  }
}

/** What a pod requests, in a few words. */
export function requestsOf({ columns }: State, pod: number): string {
  return columns.resources
    .map((name, i) => (name === "pods" ? "" : ([name, columns.request(pod, i)] as const)))
    .filter((each): each is readonly [string, number] => each !== "" && each[1] > 0)
    .map(([name, value]) => `${name} ${amount(name, value)}`)
    .join(" · ");
}

function paintHatch(context: CanvasRenderingContext2D, bucket: number[], refusal: number, theme: Theme): void {
  const pattern = hatch(context, refusal, theme);
  if (!pattern) return;
  context.fillStyle = pattern;
  for (const i of bucket) {
    const short = Math.min(seen.width[i], seen.height[i]);
    if (short > 2 && short < HATCHED_TO) context.fillRect(seen.x[i], seen.y[i], seen.width[i], seen.height[i]);
  }
}

/** Nodes that are not there at this instant, or not yet: a what-if adds them. */
function paintEmpty(context: CanvasRenderingContext2D, layout: Layout, cells: number[], look: Look): void {
  const colours = THEMES[look.theme];
  for (const i of cells) {
    const isAdded = layout.node[seen.cell[i]] < -1;
    const [x, y, width, height] = [seen.x[i], seen.y[i], seen.width[i], seen.height[i]];
    context.fillStyle = colours.panel;
    context.fillRect(x, y, width, height);
    ring(context, x + 2, y + 2, width - 4, height - 4, isAdded ? colours.accent : colours.line, isAdded ? 2 : 1, true);
    if (!isAdded || Math.min(width, height) < LABELS_FROM) continue;
    context.fillStyle = colours.accent;
    context.font = `700 ${Math.min(22, Math.min(width, height) / 2)}px ${FONTS}`;
    context.textAlign = "center";
    context.fillText("+", x + width / 2, y + height / 2);
    context.textAlign = "left";
  }
}

function paintMarks(
  context: CanvasRenderingContext2D,
  state: State,
  node: number,
  i: number,
  look: Look,
  palette: string[],
): void {
  const { columns } = state;
  const colours = THEMES[look.theme];
  const { told, differs } = look;
  const [x, y, width, height] = [seen.x[i], seen.y[i], seen.width[i], seen.height[i]];
  const short = Math.min(width, height);
  if (columns.versions.is_cordoned.data[state.version[node]] && short > 5) {
    context.strokeStyle = colours.soft;
    context.lineWidth = short > 20 ? 1.5 : 1;
    context.beginPath();
    line(context, x + 1, y + 1, x + width - 1, y + height - 1);
    context.stroke();
  }
  if (width >= NAMES_FROM && height >= NAMED_FROM) {
    context.fillStyle = colours.text;
    context.font = `12px ${FONTS}`;
    context.fillText(clip(columns.nodes[node], Math.floor((width - 8) / 6.4)), x + 4, y + height - FOOT / 2 - 1);
  }
  if (told && short >= LABELS_FROM && told.mark[node]) {
    const radius = Math.min(9, short / 2 - 1);
    const at = short > 40 ? [x + width - radius - 3, y + radius + 3] : [x + width / 2, y + height / 2];
    badge(context, at[0], at[1], radius, palette[told.code[node]], String(told.mark[node]));
  }
  if (differs?.leaves.has(node)) ring(context, x, y, width, height, colours.soft, 2, true);
  if (differs?.gets.has(node)) ring(context, x + 1, y + 1, width - 2, height - 2, colours.accent, 2);
  if (differs?.lost.has(node)) cross(context, x, y, width, height, look.theme);
  if (told?.chosen === node) {
    context.globalAlpha = look.isFaded ? 0.45 : 1;
    const thick = short > 14 ? 3 : 2;
    ring(context, x, y, width, height, colours.ink, thick + 2);
    ring(context, x, y, width, height, CHOSEN, thick);
    if (short >= LABELS_FROM)
      star(context, x + width / 2, y + (short > 40 ? 13 : height / 2), Math.min(10, short / 2.4), colours.ink);
    context.globalAlpha = 1;
  }
  if (node === look.selectedNode) ring(context, x, y, width, height, colours.accent, 3);
  else if (node === look.hovered) ring(context, x, y, width, height, colours.text, 1.5);
}

function badge(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  radius: number,
  colour: string,
  text: string,
): void {
  context.fillStyle = colour;
  context.beginPath();
  context.arc(x, y, radius, 0, 7);
  context.fill();
  context.fillStyle = inkOn(colour);
  context.font = `700 ${Math.round(radius * 1.25)}px ${FONTS}`;
  context.textAlign = "center";
  context.fillText(text, x, y + 0.5);
  context.textAlign = "left";
}

function ring(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  width: number,
  height: number,
  colour: string,
  thick: number,
  isDashed = false,
): void {
  context.strokeStyle = colour;
  context.lineWidth = thick;
  context.setLineDash(isDashed ? [3, 2] : []);
  context.strokeRect(x, y, Math.max(1, width), Math.max(1, height));
  context.setLineDash([]);
}

function cross(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  width: number,
  height: number,
  theme: Theme,
): void {
  context.fillStyle = THEMES[theme].panel;
  context.globalAlpha = 0.75;
  context.fillRect(x, y, width, height);
  context.globalAlpha = 1;
  context.strokeStyle = THEMES[theme].text;
  context.lineWidth = Math.min(width, height) > 20 ? 2 : 1;
  context.beginPath();
  line(context, x + 1, y + 1, x + width - 1, y + height - 1);
  line(context, x + width - 1, y + 1, x + 1, y + height - 1);
  context.stroke();
}

function star(context: CanvasRenderingContext2D, x: number, y: number, radius: number, outline: string): void {
  context.beginPath();
  for (let i = 0; i < 10; i++) {
    const angle = -Math.PI / 2 + (i * Math.PI) / 5;
    const far = i % 2 ? radius * 0.45 : radius;
    context.lineTo(x + far * Math.cos(angle), y + far * Math.sin(angle));
  }
  context.closePath();
  context.fillStyle = CHOSEN;
  context.strokeStyle = outline;
  context.lineWidth = 2;
  context.stroke();
  context.fill();
}

export function clip(text: string, most: number): string {
  return text.length <= most ? text : most > 1 ? `${text.slice(0, most - 1)}…` : "";
}
