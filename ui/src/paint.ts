// Drawing the map on a canvas: cells, how full they are, what the pod was told by each, and pods as blocks.
import { sharesOf } from "./colouring";
import {
  FONTS,
  fitted,
  hasBlocks,
  LEAST_WITH_BLOCKS,
  type Look,
  line,
  ring,
  Seen,
  type Size,
  transform,
  type Verdicts,
} from "./drawn";
import { HEAD, type Layout } from "./layout";
import { isMarked, paintMarks } from "./marks";
import { HATCHES, HEATS, LEVELS, mixed, REFUSALS, THEMES, type Theme } from "./palette";
import { Pixels, word } from "./pixels";
import { paintPods } from "./pods";
import type { State } from "./state";
import type { Camera, Why } from "./view";

const PIXELS_FROM = 400; // cells: fewer are drawn one by one
const HATCHED_TO = 60; // pixels of a cell: from there on a number in it is easy to read
const HATCHED_FROM = 3;
const LABELS_FROM = 13;
const TINT = 0.26; // how much of its colour the free part of a node has, where it was told something
const LINES = { light: "#ffffff", dark: "#0b0f16" } as const; // of hatchings
const LINES_SHARE = 0.3;

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

// ---- colours -------------------------------------------------------------------------------------------------------

/** The colours of one drawing: by code what is requested, what is free, and both under a line of a hatching. */
interface Inks {
  palette: string[];
  full: string[];
  free: string[];
  fullLine: string[];
  freeLine: string[];
}
const inks = new Map<string, Inks>();
const MOST_INKS = 60;
const CALM = 0.3; // large blocks of colour are bright enough with less of it

function inksOf(look: Look, short: number): Inks {
  const kind = look.pods ? "pods" : !look.told ? "use" : look.isFaded ? "faded" : "told";
  const calm = look.told && !look.pods ? Math.round(8 * Math.min(1, Math.max(0, (short - 12) / 28))) / 8 : 0;
  const key = look.pods ? "" : [kind, look.theme, calm].join();
  const known = inks.get(key);
  if (known) return known;
  const { cell } = THEMES[look.theme];
  const palette = paletteOf(look);
  const full = palette.map((each) => mixed(each, cell, CALM * calm));
  const free = palette.map((each) => (look.told && !look.pods ? mixed(cell, each, TINT) : cell));
  const lined = (each: string) => mixed(each, LINES[look.theme], LINES_SHARE);
  const made = { palette, full, free, fullLine: full.map(lined), freeLine: free.map(lined) };
  if (inks.size > MOST_INKS) inks.clear();
  if (key) inks.set(key, made);
  return made;
}

/** The colours that codes are indices into. What was told at another instant is pale. */
function paletteOf(look: Look): string[] {
  if (look.pods) return look.pods.palette;
  if (!look.told) return HEATS[look.theme];
  const whole = [...HEATS[look.theme], ...REFUSALS];
  return look.isFaded ? whole.map((each) => mixed(each, THEMES[look.theme].cell, 0.72)) : whole;
}

function codeOf(state: State, node: number, look: Look): number {
  if (look.pods) return -1; // its pods have colours
  if (look.told) return node < look.told.code.length ? look.told.code[node] : -1;
  return Math.round((LEVELS - 1) * Math.min(1, state.share(node, look.resource)));
}

// ---- painting ------------------------------------------------------------------------------------------------------

/** The colours of a node's pods, from the bottom up: from which share of the node to which. */
function eachShare(
  state: State,
  node: number,
  look: Look,
  draw: (colour: number, from: number, to: number) => void,
): void {
  const many = look.pods!.palette.length;
  const all = sharesOf(state, look.resource, look.pods!);
  let done = 0;
  for (let colour = 0; colour < many && done < 1; colour++) {
    const share = all[node * many + colour];
    if (!share) continue;
    const to = Math.min(1, done + share);
    draw(colour, done, to);
    done = to;
  }
}

const seen = new Seen();
const pixels = new Pixels();

/** Paint the map: cells as pixels where they are many and small, one by one where they are large. */
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
  context.textBaseline = "middle";
  seen.look(layout, scale, dx, dy, size);
  const short = layout.typical * scale;
  const made = inksOf(look, short);
  const isBlocks = hasBlocks(layout, scale);
  if (!isBlocks && seen.count >= PIXELS_FROM && "createImageData" in context) {
    pixels.begin(context, size, colours.panel);
    paintAsPixels(state, layout, look, made);
    pixels.end(context);
    paintGroups(context, layout, scale, dx, dy, size, look.theme);
  } else {
    context.fillStyle = colours.panel;
    context.fillRect(0, 0, size.width, size.height);
    paintGroups(context, layout, scale, dx, dy, size, look.theme);
    for (let i = 0; i < seen.count; i++) paintCell(context, state, layout.node[seen.cell[i]], i, look, made, isBlocks);
  }
  for (let i = 0; i < seen.count; i++) {
    const node = layout.node[seen.cell[i]];
    if (node < 0 || state.version[node] < 0) paintEmpty(context, node, i, look);
    else if (short >= LABELS_FROM || isMarked(node, look))
      paintMarks(context, state, node, seen, i, look, made.palette);
  }
}

/** The same cells as ``paintCell`` draws, without blocks. */
function paintAsPixels(state: State, layout: Layout, look: Look, made: Inks): void {
  const colours = THEMES[look.theme];
  const words = (values: string[]) => values.map(word);
  const [full, free, fullLine, freeLine] = [made.full, made.free, made.fullLine, made.freeLine].map(words);
  const [plain, pod, cordoned] = [word(colours.cell), word(colours.pod), word(colours.soft)];
  const { is_cordoned } = state.columns.versions;
  for (let i = 0; i < seen.count; i++) {
    const node = layout.node[seen.cell[i]];
    if (node < 0 || state.version[node] < 0) continue;
    const [x, y, width, height] = [seen.x[i], seen.y[i], seen.width[i], seen.height[i]];
    if (look.pods) {
      pixels.rect(x, y, width, height, plain);
      eachShare(state, node, look, (colour, from, to) =>
        pixels.rect(x, y + height * (1 - to), width, height * (to - from), full[colour]),
      );
      continue;
    }
    const code = codeOf(state, node, look);
    const used = height * Math.min(1, state.share(node, look.resource));
    const isHatched = look.told && !look.pods && code >= LEVELS && Math.min(width, height) >= HATCHED_FROM;
    const hatch = isHatched ? code - LEVELS : -1;
    pixels.rect(x, y, width, height - used, code < 0 ? plain : free[code], hatch, freeLine[code]);
    pixels.rect(x, y + height - used, width, used, code < 0 ? pod : full[code], hatch, fullLine[code]);
    if (is_cordoned.data[state.version[node]] && height > 4) pixels.rect(x, y, width, 1, cordoned);
  }
}

function paintCell(
  context: CanvasRenderingContext2D,
  state: State,
  node: number,
  i: number,
  look: Look,
  made: Inks,
  isBlocks: boolean,
): void {
  const colours = THEMES[look.theme];
  const [x, y, width, height] = [seen.x[i], seen.y[i], seen.width[i], seen.height[i]];
  const isThere = node >= 0 && state.version[node] >= 0;
  const code = isThere ? codeOf(state, node, look) : -1;
  context.fillStyle = code < 0 ? colours.cell : made.free[code];
  context.fillRect(x, y, width, height);
  if (!isThere) return;
  const colour = code < 0 ? colours.pod : made.full[code];
  const short = Math.min(width, height);
  if (isBlocks && short >= LEAST_WITH_BLOCKS) paintPods(context, state, node, seen, i, colour, look);
  else if (look.pods)
    eachShare(state, node, look, (which, from, to) => {
      context.fillStyle = made.full[which];
      context.fillRect(x, y + height * (1 - to), width, height * (to - from));
    });
  else {
    const used = height * Math.min(1, state.share(node, look.resource));
    context.fillStyle = colour;
    context.fillRect(x, y + height - used, width, used);
  }
  if (!look.told || look.pods || code < LEVELS || short < HATCHED_FROM || short >= HATCHED_TO) return;
  const pattern = hatch(context, code - LEVELS, look.theme);
  if (!pattern) return;
  context.fillStyle = pattern;
  context.fillRect(x, y, width, height);
}

const patterns = new Map<string, CanvasPattern | null>();

/** Lines over what a filter refused: colour does not speak alone. A picture that is saved has none. */
function hatch(context: CanvasRenderingContext2D, i: number, theme: Theme): CanvasPattern | null {
  if (typeof context.createPattern !== "function") return null;
  const key = `${i}/${theme}`;
  if (!patterns.has(key)) {
    const [angle, distance] = HATCHES[i % HATCHES.length];
    const tile = document.createElement("canvas");
    const size = 2 * distance;
    tile.width = tile.height = size;
    const lines = tile.getContext("2d")!;
    lines.globalAlpha = LINES_SHARE;
    lines.strokeStyle = LINES[theme];
    lines.lineWidth = 1.5;
    lines.beginPath();
    for (let at = -size; at <= 2 * size; at += distance) {
      if (angle === 0) line(lines, 0, at + 0.5, size, at + 0.5);
      else if (angle === 90) line(lines, at + 0.5, 0, at + 0.5, size);
      else if (angle > 0) line(lines, at, size, at + size, 0);
      else line(lines, at, 0, at + size, size);
    }
    lines.stroke();
    patterns.set(key, context.createPattern(tile, "repeat"));
  }
  return patterns.get(key)!;
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
  for (const group of layout.groups) {
    const [left, top] = [group.x * scale + dx, group.y * scale + dy];
    const [width, height] = [group.width * scale, group.height * scale];
    if (left > size.width || top > size.height || left + width < 0 || top + height < 0) continue;
    const shown = Math.max(left, 0);
    const middle = top + (HEAD / 2) * Math.min(scale, 1.3);
    context.font = `600 12px ${FONTS}`;
    context.fillStyle = colours.text;
    const name = fitted(context, group.name, width - 8, true);
    context.fillText(name, shown + 4, middle);
    const after = shown + 4 + (context.measureText ? context.measureText(name).width : 7 * name.length) + 7;
    context.font = `12px ${FONTS}`;
    context.fillStyle = colours.soft;
    context.fillText(fitted(context, group.count.toLocaleString(), left + width - after), after, middle);
  }
}

/** Nodes that are not there at this instant, or not yet: a what-if adds them. */
function paintEmpty(context: CanvasRenderingContext2D, node: number, i: number, look: Look): void {
  const colours = THEMES[look.theme];
  const isAdded = node < -1;
  const [x, y, width, height] = [seen.x[i], seen.y[i], seen.width[i], seen.height[i]];
  context.fillStyle = colours.panel;
  context.fillRect(x, y, width, height);
  ring(context, x + 2, y + 2, width - 4, height - 4, isAdded ? colours.accent : colours.line, isAdded ? 2 : 1, true);
  if (!isAdded || Math.min(width, height) < LABELS_FROM) return;
  context.fillStyle = colours.accent;
  context.font = `700 ${Math.min(22, Math.min(width, height) / 2)}px ${FONTS}`;
  context.textAlign = "center";
  context.fillText("+", x + width / 2, y + height / 2);
  context.textAlign = "left";
}
