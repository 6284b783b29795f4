// Marks on the cells of the map: names, numbers of refusals, the chosen node, what a what-if changes, the selection.
import { FONTS, fitted, inView, type Look, line, ring, type Seen } from "./drawn";
import { CHOSEN, inkOn, THEMES, type Theme } from "./palette";
import { FOOT, NAMED_FROM, NAMES_FROM } from "./pods";
import type { State } from "./state";

const LEAST_OF_NAME = 10; // letters: less of a long name tells nothing
const LABELS_FROM = 13; // pixels of a cell for a star or a plus
const NUMBERS_FROM = 36; // pixels of a cell for the number of a refusal: in smaller ones only the hatching is calm

/** Whether a cell that is too small for names and numbers has a mark at all. */
export function isMarked(node: number, { told, differs, selectedNode, hovered }: Look): boolean {
  return (
    node === selectedNode ||
    node === hovered ||
    told?.chosen === node ||
    (differs !== undefined && (differs.leaves.has(node) || differs.gets.has(node) || differs.lost.has(node)))
  );
}

export function paintMarks(
  context: CanvasRenderingContext2D,
  state: State,
  node: number,
  seen: Seen,
  i: number,
  look: Look,
  palette: string[],
): void {
  const { columns } = state;
  const colours = THEMES[look.theme];
  const { told, differs } = look;
  const [x, y, width, height] = [seen.x[i], seen.y[i], seen.width[i], seen.height[i]];
  const short = Math.min(width, height);
  const isCordoned = columns.versions.is_cordoned.data[state.version[node]] > 0;
  const isNamed = width >= NAMES_FROM && height >= NAMED_FROM;
  if (isCordoned && !isNamed && short > 5) {
    context.strokeStyle = colours.soft;
    context.lineWidth = short > 20 ? 1.5 : 1;
    context.beginPath();
    line(context, x + 1, y + 1, x + width - 1, y + height - 1);
    context.stroke();
  }
  if (isNamed) {
    context.fillStyle = colours.text;
    context.font = `12px ${FONTS}`;
    const shown = inView(seen.box(i), look.view);
    const name = fitted(context, (isCordoned ? "‖ " : "") + columns.nodes[node], shown.width - 8, true);
    const isTold = name.length >= LEAST_OF_NAME || !name.includes("…");
    if (isTold) context.fillText(name, shown.x + 4, y + height - FOOT / 2 - 1);
  }
  if (told?.mark[node] && seen.short[i] >= NUMBERS_FROM) {
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
  context.strokeStyle = THEMES[theme].soft;
  context.lineWidth = Math.min(width, height) > 60 ? 2 : 1;
  context.beginPath();
  line(context, x + 1, y + 1, x + width - 1, y + height - 1);
  line(context, x + width - 1, y + 1, x + 1, y + height - 1);
  context.stroke();
}

export function star(context: CanvasRenderingContext2D, x: number, y: number, radius: number, outline: string): void {
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
