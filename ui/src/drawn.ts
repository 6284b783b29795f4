// What everything that is drawn on the map shares: what it looks like, where it is on the screen, and short texts.
import type { Box, Layout } from "./layout";
import type { Theme } from "./palette";
import type { Camera } from "./view";

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
/** Pods by colour: ``of`` gives an index into ``palette``; -1: none. Another ``key``: other colours. */
export interface PodColours {
  key: string;
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
  view: { width: number; height: number };
}
export interface Size {
  width: number;
  height: number;
  ratio: number;
}

export const FONTS = "system-ui, 'Segoe UI', Roboto, 'Noto Sans CJK JP', 'Noto Sans CJK SC', sans-serif";
export const LINE = 13; // pixels
const BLOCKS_FROM = 24; // pixels of a usual cell, from which on pods are drawn in all of them
export const LEAST_WITH_BLOCKS = 12; // and of each of them

/** Whether pods are drawn: in all nodes or in none, so that neighbours can be compared. */
export const hasBlocks = (layout: Layout, scale: number) => layout.typical * scale >= BLOCKS_FROM;

/** World to screen: ``x * scale + dx``. The camera says which share of the world is in the middle. */
export function transform({ scale, x, y }: Camera, { width, height }: Size): { scale: number; dx: number; dy: number } {
  return { scale, dx: width / 2 - x * width * scale, dy: height / 2 - y * height * scale };
}

/** The cells that can be seen: their numbers, and where they are on the screen. */
export class Seen {
  count = 0;
  cell = new Int32Array(1024);
  x = new Float32Array(1024);
  y = new Float32Array(1024);
  width = new Float32Array(1024);
  height = new Float32Array(1024);
  short = new Float32Array(1024); // the shorter side, before it is put on pixels: alike cells are alike in this

  look(layout: Layout, scale: number, dx: number, dy: number, size: Size): void {
    this.count = 0;
    if (layout.node.length > this.cell.length) {
      this.cell = new Int32Array(layout.node.length);
      for (const name of ["x", "y", "width", "height", "short"] as const)
        this[name] = new Float32Array(layout.node.length);
    }
    const sharp = (value: number) => Math.round(value * size.ratio) / size.ratio; // edges on pixels
    const short = layout.typical * scale;
    const gap = short > 40 ? 4 : short > 14 ? 2 : short > 3 ? 1 : 0;
    for (let i = 0; i < layout.node.length; i++) {
      const x = layout.x[i] * scale + dx;
      const y = layout.y[i] * scale + dy;
      const width = layout.width[i] * scale;
      const height = layout.height[i] * scale;
      if (x > size.width || y > size.height || x + width < 0 || y + height < 0) continue;
      const at = this.count++;
      this.cell[at] = i;
      this.short[at] = Math.min(width, height);
      this.x[at] = sharp(x + gap / 2);
      this.y[at] = sharp(y + gap / 2);
      this.width[at] = Math.max(0.5, sharp(x + width - gap / 2) - this.x[at]);
      this.height[at] = Math.max(0.5, sharp(y + height - gap / 2) - this.y[at]);
    }
  }
  box(i: number): Box {
    return { x: this.x[i], y: this.y[i], width: this.width[i], height: this.height[i] };
  }
}

export function line(context: CanvasRenderingContext2D, x: number, y: number, toX: number, toY: number): void {
  context.moveTo(x, y);
  context.lineTo(toX, toY);
}

export function ring(
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

/** The middle of what can be seen of something, and where that begins: names stay in view. */
export function inView(box: Box, { width, height }: Look["view"]): { x: number; width: number; middle: number } {
  const [left, right] = [Math.max(0, box.x), Math.min(width, box.x + box.width)];
  const [top, bottom] = [Math.max(0, box.y), Math.min(height, box.y + box.height)];
  return { x: left, width: Math.max(0, right - left), middle: (top + bottom) / 2 };
}

const MOST_WIDTHS = 5_000;
const widths = new Map<string, number>();

function widthOf(context: CanvasRenderingContext2D, text: string): number {
  const key = `${context.font}/${text}`;
  let found = widths.get(key);
  if (found === undefined) {
    if (widths.size > MOST_WIDTHS) widths.clear();
    found = context.measureText ? context.measureText(text).width : 6.4 * text.length; // a picture has no measures
    widths.set(key, found);
  }
  return found;
}

/** As much of a text as there is room for; of a name both ends, which tell it from others. */
export function fitted(context: CanvasRenderingContext2D, text: string, room: number, isName = false): string {
  const width = widthOf(context, text);
  if (width <= room) return text;
  for (let most = Math.floor((text.length * room) / width); most > 0; most--) {
    const tail = isName && most >= 4 ? Math.floor(most / 2) : 0;
    const found = `${text.slice(0, most - tail)}…${tail ? text.slice(text.length - tail) : ""}`;
    if (widthOf(context, found) <= room) return found;
  }
  return "";
}
