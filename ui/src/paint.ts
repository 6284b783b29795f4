// Drawing the map on a canvas: cells, how full they are, what the selected pod was told by each, and pods as blocks.
import type { Layout } from "./layout";
import type { State } from "./state";
import type { Why } from "./view";

export interface Camera {
  scale: number;
  x: number;
  y: number;
}
export interface Colours {
  back: string;
  cell: string;
  line: string;
  text: string;
  soft: string;
  accent: string;
  chosen: string;
  pod: string;
  podLine: string;
}
const BLOCKS_FROM = 26; // pixels of a cell, from which on pods are drawn
const LABELS_FROM = 13,
  NAMES_FROM = 64;

/** Far from the greens of scores for every kind of colour vision (after Okabe and Ito); numbers say the same. */
export const REFUSALS = ["#d55e00", "#7f5fc4", "#c8588f", "#b8860b", "#3b7dd8", "#8a5a2b", "#9c3d54", "#5d6b80"];

/** Dark to light in one hue: lightness alone tells it, whatever somebody's colour vision. */
export function heat(share: number): string {
  const stops = [
    [32, 74, 82],
    [28, 106, 105],
    [34, 142, 124],
    [84, 182, 142],
    [158, 219, 164],
  ];
  const at = Math.max(0, Math.min(0.9999, share)) * (stops.length - 1),
    i = Math.floor(at),
    rest = at - i;
  const [a, b] = [stops[i], stops[i + 1]];
  return `rgb(${a.map((value, channel) => Math.round(value + (b[channel] - value) * rest)).join(",")})`;
}

/** What an answer changes: lost nodes (or drained: they stay), nodes that get pods or that pods leave, and nodes that are added beside one. */
export interface Differs {
  lost: Set<number>;
  gets: Set<number>;
  leaves: Set<number>;
  added: number;
  like: number;
  onAdded: number;
  stays: boolean;
}
/** What each node was told, by node: an index into the palette (-1: nothing), and which step of the funnel refused it. */
export interface Verdicts {
  code: Int16Array;
  mark: Uint8Array;
  palette: string[];
  chosen: number;
}

const LEVELS = 24; // of scores and of use
export const HEATS = Array.from({ length: LEVELS }, (_, i) => hex(heat(i / (LEVELS - 1))));

function hex(colour: string): string {
  return `#${colour
    .match(/\d+/g)!
    .map((each) => Number(each).toString(16).padStart(2, "0"))
    .join("")}`;
}

/** What each node was told, up to a step of the funnel. */
export function verdicts(why: Why | null, step: number, nodes: number): Verdicts {
  const found: Verdicts = {
    code: new Int16Array(nodes).fill(-1),
    mark: new Uint8Array(nodes),
    palette: [...HEATS, ...REFUSALS],
    chosen: -1,
  };
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
  let highest = -Infinity,
    lowest = Infinity;
  for (const total of totals) {
    highest = Math.max(highest, total);
    lowest = Math.min(lowest, total);
  }
  const isTie = step === why.funnel.length + 1; // only those among which one is drawn
  rows.forEach(
    (row, i) =>
      (found.code[row] =
        isTie && totals[i] < highest
          ? -1
          : highest > lowest
            ? Math.round(((LEVELS - 1) * (totals[i] - lowest)) / (highest - lowest))
            : LEVELS - 1),
  );
  if (why.node !== null && (step < 0 || step > why.funnel.length + 1)) found.chosen = why.node;
  return found;
}

/** The cells that can be seen, in buckets of one colour: a canvas takes long to change colours. */
class Seen {
  count = 0;
  node = new Int32Array(1024);
  x = new Float32Array(1024);
  y = new Float32Array(1024);
  add(node: number, x: number, y: number): void {
    if (this.count === this.node.length) {
      for (const name of ["node", "x", "y"] as const) {
        const Type = this[name].constructor as new (n: number) => Int32Array,
          larger = new Type(2 * this.count);
        larger.set(this[name]);
        (this[name] as unknown) = larger;
      }
    }
    this.node[this.count] = node;
    this.x[this.count] = x;
    this.y[this.count++] = y;
  }
}
const seen = new Seen();

export function paint(
  context: CanvasRenderingContext2D,
  state: State,
  layout: Layout,
  camera: Camera,
  size: { width: number; height: number; ratio: number },
  look: {
    resource: number;
    told: Verdicts | null;
    selectedNode: number;
    selectedPod: number;
    hovered: number;
    fonts: string;
    differs?: Differs;
  },
  colours: Colours,
): void {
  const { scale, x: dx, y: dy } = camera,
    cell = layout.cell * scale,
    gap = cell > 40 ? 4 : cell > 14 ? 2 : cell > 5 ? 1 : 0.4,
    side = cell - gap;
  const { told } = look;
  context.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
  context.fillStyle = colours.back;
  context.fillRect(0, 0, size.width, size.height);
  context.textBaseline = "middle";
  context.font = `600 12px ${look.fonts}`;
  seen.count = 0;
  for (const group of layout.groups) {
    const left = group.x * scale + dx,
      top = group.y * scale + dy,
      width = group.width * scale,
      height = group.height * scale;
    if (left > size.width || top > size.height || left + width < 0 || top + height < 0) continue;
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.strokeRect(Math.round(left) + 0.5, Math.round(top) + 0.5, Math.round(width) - 1, Math.round(height) - 1);
    context.fillStyle = colours.soft;
    const title = `${group.name} · ${group.nodes.length.toLocaleString()}`;
    context.fillText(
      clip(title, Math.floor(width / 7)),
      Math.max(left, 0) + 8,
      top + 11 * Math.max(1, Math.min(scale, 1)),
    );
    const firstRow = Math.max(0, Math.floor((-top - 20 * scale) / cell)),
      rows = Math.ceil(group.nodes.length / group.perRow);
    for (let row = firstRow; row < rows; row++) {
      const y = top + 20 * scale + row * cell;
      if (y > size.height) break;
      for (let column = 0; column < group.perRow; column++) {
        const i = row * group.perRow + column,
          x = left + 8 * scale + column * cell;
        if (i >= group.nodes.length) break;
        if (x + cell < 0) continue;
        if (x > size.width) break;
        seen.add(group.nodes[i], x, y);
      }
    }
  }
  const palette = told?.palette ?? HEATS,
    buckets: number[][] = Array.from({ length: palette.length + 1 }, () => []);
  for (let i = 0; i < seen.count; i++) buckets[1 + colourOf(state, seen.node[i], look.resource, told)].push(i);
  context.fillStyle = colours.cell;
  for (let i = 0; i < seen.count; i++) context.fillRect(seen.x[i], seen.y[i], side, side);
  const blocks = side >= BLOCKS_FROM;
  buckets.forEach((bucket, at) => {
    if (!bucket.length) return;
    const colour = at ? palette[at - 1] : colours.pod;
    if (told && at) {
      context.fillStyle = `${colour}4d`;
      for (const i of bucket) context.fillRect(seen.x[i], seen.y[i], side, side);
    }
    if (blocks) return;
    context.fillStyle = colour;
    for (const i of bucket) {
      const height = side * Math.min(1, state.share(seen.node[i], look.resource));
      context.fillRect(seen.x[i], seen.y[i] + side - height, side, height);
    }
  });
  if (blocks) paintPods(context, state, side, look, told, colours);
  paintMarks(context, state, side, look, told, colours);
  if (look.differs?.added) paintAdded(context, layout, camera, side, look.differs, look.fonts, colours);
}

/** Nodes that are not there, after the last one of the group. */
function paintAdded(
  context: CanvasRenderingContext2D,
  layout: Layout,
  { scale, x: dx, y: dy }: Camera,
  side: number,
  differs: Differs,
  fonts: string,
  colours: Colours,
): void {
  const group = layout.groups.find((each) => each.added),
    cell = layout.cell * scale;
  if (!group) return;
  for (let i = group.nodes.length; i < group.nodes.length + differs.added; i++) {
    const x = group.x * scale + dx + 8 * scale + (i % group.perRow) * cell,
      y = group.y * scale + dy + 20 * scale + Math.floor(i / group.perRow) * cell;
    context.fillStyle = colours.back;
    context.fillRect(x, y, side, side);
    ring(context, x + 2, y + 2, side - 4, colours.accent, 2, true);
    if (side < LABELS_FROM) continue;
    context.fillStyle = colours.accent;
    context.font = `700 ${Math.min(22, side / 2)}px ${fonts}`;
    context.textAlign = "center";
    context.fillText("+", x + side / 2, y + side / 2);
    context.textAlign = "left";
  }
}

function colourOf(state: State, node: number, resource: number, told: Verdicts | null): number {
  if (told) return node < told.code.length ? told.code[node] : -1;
  return Math.round((LEVELS - 1) * Math.min(1, state.share(node, resource)));
}

function paintPods(
  context: CanvasRenderingContext2D,
  state: State,
  side: number,
  look: { resource: number; selectedPod: number; fonts: string },
  told: Verdicts | null,
  colours: Colours,
): void {
  const { columns } = state,
    inset = side > 60 ? 3 : 1,
    palette = told?.palette ?? HEATS;
  for (let i = 0; i < seen.count; i++) {
    const node = seen.node[i],
      x = seen.x[i],
      y = seen.y[i],
      code = colourOf(state, node, look.resource, told),
      colour = code < 0 ? colours.pod : palette[code];
    const capacity = state.capacity[look.resource][node],
      pods = state.podsOf(node);
    if (!capacity) continue;
    const foot = side >= NAMES_FROM ? 14 : 0,
      width = side - 2 * inset,
      tall = side - 2 * inset - foot;
    let top = y + inset + tall;
    context.fillStyle = colour;
    for (const pod of pods) {
      const height = (tall * columns.request(pod, look.resource)) / capacity;
      top -= height;
      const drawn = Math.max(height - (height > 3 ? 1 : 0.3), 0.5);
      if (pod === look.selectedPod) {
        context.fillStyle = colours.chosen;
        context.fillRect(x + inset, top, width, Math.max(drawn, 2));
        context.fillStyle = colour;
      } else context.fillRect(x + inset, top, width, drawn);
      if (height >= 13 && side >= 90) {
        context.fillStyle = inkOn(String(context.fillStyle));
        context.font = `10px ${look.fonts}`;
        const name = columns.podName(pod);
        context.fillText(
          clip(name.slice(name.indexOf("/") + 1), Math.floor(width / 5.6)),
          x + inset + 3,
          top + height / 2,
        );
        context.fillStyle = colour;
      }
    }
  }
}

function paintMarks(
  context: CanvasRenderingContext2D,
  state: State,
  side: number,
  look: { selectedNode: number; hovered: number; fonts: string; differs?: Differs },
  told: Verdicts | null,
  colours: Colours,
): void {
  const { columns } = state;
  for (let i = 0; i < seen.count; i++) {
    const node = seen.node[i],
      x = seen.x[i],
      y = seen.y[i];
    const isCordoned = columns.versions.is_cordoned.data[state.version[node]];
    if (isCordoned && side > 5) {
      context.strokeStyle = colours.soft;
      context.lineWidth = side > 20 ? 1.5 : 1;
      context.beginPath();
      context.moveTo(x + 1, y + 1);
      context.lineTo(x + side - 1, y + side - 1);
      context.stroke();
    }
    if (side >= NAMES_FROM) {
      context.fillStyle = colours.text;
      context.font = `11px ${look.fonts}`;
      context.fillText(clip(columns.nodes[node], Math.floor((side - 6) / 6.2)), x + 4, y + side - 8);
    }
    if (told && side >= LABELS_FROM && told.mark[node]) {
      const radius = Math.min(9, side / 2 - 1),
        at = side > 40 ? [x + side - radius - 3, y + radius + 3] : [x + side / 2, y + side / 2];
      context.fillStyle = told.palette[told.code[node]];
      context.beginPath();
      context.arc(at[0], at[1], radius, 0, 7);
      context.fill();
      context.fillStyle = "#fff";
      context.font = `700 ${Math.round(radius * 1.25)}px ${look.fonts}`;
      context.textAlign = "center";
      context.fillText(String(told.mark[node]), at[0], at[1] + 0.5);
      context.textAlign = "left";
    }
    if (look.differs?.leaves.has(node)) ring(context, x, y, side, colours.soft, 2, true);
    if (look.differs?.gets.has(node)) ring(context, x + 1, y + 1, side - 2, colours.accent, 2, false);
    if (look.differs?.lost.has(node)) cross(context, x, y, side, colours);
    if (told?.chosen === node) {
      ring(context, x, y, side, colours.chosen, side > 14 ? 3 : 2, false);
      if (side >= LABELS_FROM)
        star(
          context,
          x + side / 2,
          y + (side > 40 ? 12 : side / 2),
          Math.min(9, side / 2.4),
          colours.chosen,
          colours.back,
        );
    }
    if (node === look.selectedNode) ring(context, x, y, side, colours.text, 2, false);
    else if (node === look.hovered) ring(context, x, y, side, colours.soft, 1.5, false);
  }
}

function ring(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  side: number,
  colour: string,
  width: number,
  isDashed: boolean,
): void {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.setLineDash(isDashed ? [3, 2] : []);
  context.strokeRect(x - width / 2, y - width / 2, side + width, side + width);
  context.setLineDash([]);
}

function cross(context: CanvasRenderingContext2D, x: number, y: number, side: number, colours: Colours): void {
  context.fillStyle = colours.back;
  context.globalAlpha = 0.75;
  context.fillRect(x, y, side, side);
  context.globalAlpha = 1;
  context.strokeStyle = colours.text;
  context.lineWidth = side > 20 ? 2 : 1;
  context.beginPath();
  context.moveTo(x + 1, y + 1);
  context.lineTo(x + side - 1, y + side - 1);
  context.moveTo(x + side - 1, y + 1);
  context.lineTo(x + 1, y + side - 1);
  context.stroke();
}

function star(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  radius: number,
  fill: string,
  line: string,
): void {
  context.beginPath();
  for (let i = 0; i < 10; i++) {
    const angle = -Math.PI / 2 + (i * Math.PI) / 5,
      far = i % 2 ? radius * 0.45 : radius;
    context.lineTo(x + far * Math.cos(angle), y + far * Math.sin(angle));
  }
  context.closePath();
  context.fillStyle = fill;
  context.strokeStyle = line;
  context.lineWidth = 1.5;
  context.stroke();
  context.fill();
}

/** Black or white, whichever is easier to read on this colour (as a canvas writes it: #rrggbb). */
function inkOn(colour: string): string {
  const [red, green, blue] = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
  return 0.3 * red + 0.59 * green + 0.11 * blue > 130 ? "#06231c" : "#ffffff";
}

export function clip(text: string, most: number): string {
  return text.length <= most ? text : most > 1 ? `${text.slice(0, most - 1)}…` : "";
}
