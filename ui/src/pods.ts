// Pods in their nodes, as blocks: where each lies, and, seen from near, its containers.
import { Role } from "./columns";
import { FONTS, fitted, inView, LEAST_WITH_BLOCKS, LINE, type Look, ring, type Seen } from "./drawn";
import { type Box, rows } from "./layout";
import { CHOSEN, inkOn, mixed, THEMES } from "./palette";
import type { State } from "./state";
import { amount, say } from "./words";

export const NAMES_FROM = 58; // pixels of a cell's width for a node's name
export const NAMED_FROM = 48; // and of its height
export const FOOT = 15; // pixels for a node's name
const NAMED_POD_FROM = 62; // pixels of a pod's width for its name
const CONTAINERS_FROM = [96, 54] as const; // pixels of a pod, from which on its containers are drawn
const LOWEST = 0.12; // of a cell: how high its pods are at least
const SMALLEST_POD = 1 / 80; // of a node, however little a pod asks for
const SMALLEST_CONTAINER = 0.12; // of a pod

/** Inside a cell on the screen: where pods are drawn. */
function inside(width: number, height: number): Box {
  const inset = width > 60 ? 3 : 1;
  const foot = width >= NAMES_FROM && height >= NAMED_FROM ? FOOT : 0;
  return { x: inset, y: inset, width: width - 2 * inset, height: height - 2 * inset - foot };
}

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
  if (Math.min(size.width, size.height) < LEAST_WITH_BLOCKS || node < 0 || state.version[node] < 0) return -1;
  const room = inside(size.width, size.height);
  const [atX, atY] = [(x - room.x) / room.width, (y - room.y) / room.height];
  const { pods, boxes } = podBoxes(state, node, resource, room.width, room.height);
  const i = boxes.findIndex(
    (box) => atX >= box.x && atY >= box.y && atX < box.x + box.width && atY < box.y + box.height,
  );
  return i < 0 ? -1 : pods[i];
}

/** Where a pod lies in a cell that has this size on the screen; null where it is not in it. */
export function boxOfPod(
  state: State,
  node: number,
  pod: number,
  resource: number,
  size: { width: number; height: number },
): Box | null {
  const room = inside(size.width, size.height);
  const { pods, boxes } = podBoxes(state, node, resource, room.width, room.height);
  const box = boxes[pods.indexOf(pod)];
  if (!box) return null;
  return {
    x: room.x + box.x * room.width,
    y: room.y + box.y * room.height,
    width: box.width * room.width,
    height: box.height * room.height,
  };
}

/** What a pod requests, in a few words. */
export function requestsOf({ columns }: State, pod: number): string {
  return columns.resources
    .map((name, i) => (name === "pods" ? "" : ([name, columns.request(pod, i)] as const)))
    .filter((each): each is readonly [string, number] => each !== "" && each[1] > 0)
    .map(([name, value]) => `${name} ${amount(name, value)}`)
    .join(" · ");
}

/** The containers of a pod, each in a line: its name, what it requests, and what it is for. */
export function containersOf({ columns }: State, pod: number): { name: string; requests: string; role: number }[] {
  return columns.containersIn(pod).map(({ name, requests, role }) => ({
    name,
    role,
    requests: requests
      .map(([resource, value]) => `${columns.resources[resource]} ${amount(columns.resources[resource], value)}`)
      .join(" · "),
  }));
}

export const ROLES = { [Role.SIDECAR]: "container.sidecar", [Role.INIT]: "container.init" } as const;
export const roleOf = (role: number) => (role in ROLES ? say(ROLES[role as keyof typeof ROLES]) : "");

/** The containers of a pod as shares of it, by what each requests. */
export function containerBoxes({ columns }: State, pod: number, resource: number, space: Box): Box[] {
  const weights = columns
    .containersIn(pod)
    .map(({ requests }) => requests.find(([which]) => which === resource)?.[1] ?? 0);
  const total = weights.reduce((sum, each) => sum + each, 0) || 1;
  return rows(
    weights.map((each) => Math.max(SMALLEST_CONTAINER, each / total)),
    space,
  );
}

export function paintPods(
  context: CanvasRenderingContext2D,
  state: State,
  node: number,
  seen: Seen,
  i: number,
  colour: string,
  look: Look,
): void {
  const room = inside(seen.width[i], seen.height[i]);
  if (room.width < 4 || room.height < 4 || !state.capacity[look.resource][node]) return;
  const { pods, boxes } = podBoxes(state, node, look.resource, room.width, room.height);
  for (let at = 0; at < pods.length; at++) {
    const pod = pods[at];
    const box = boxes[at];
    const [width, height] = [box.width * room.width, box.height * room.height];
    const gap = Math.min(width, height) > 4 ? 1 : 0.3;
    const x = seen.x[i] + room.x + box.x * room.width;
    const y = seen.y[i] + room.y + box.y * room.height;
    const code = look.pods ? look.pods.of(pod) : -1;
    const own = pod === look.selectedPod ? CHOSEN : look.pods ? (look.pods.palette[code] ?? colour) : colour;
    const place = { x, y, width: Math.max(0.5, width - gap), height: Math.max(0.5, height - gap) };
    const isNear = width >= CONTAINERS_FROM[0] && height >= CONTAINERS_FROM[1];
    if (isNear && paintContainers(context, state, pod, place, own, look)) {
      // it has drawn the pod, too
    } else {
      context.fillStyle = own;
      context.fillRect(place.x, place.y, place.width, place.height);
      if (width >= NAMED_POD_FROM && height >= LINE) paintName(context, state, pod, place, own, look);
    }
    if (pod === look.selectedPod || pod === look.hoveredPod)
      ring(context, x + 1, y + 1, width - 2 - gap, height - 2 - gap, THEMES[look.theme].text, 2);
  }
}

const nameOf = ({ columns }: State, pod: number) => {
  const name = columns.podName(pod);
  return name.slice(name.indexOf("/") + 1);
};

function paintName(
  context: CanvasRenderingContext2D,
  state: State,
  pod: number,
  place: Box,
  own: string,
  { view }: Look,
): void {
  context.fillStyle = inkOn(own);
  context.font = `11px ${FONTS}`;
  const shown = inView(place, view);
  const lines = [fitted(context, nameOf(state, pod), shown.width - 8, true)];
  if (place.height >= 3 * LINE) lines.push(fitted(context, requestsOf(state, pod), shown.width - 8));
  const top = shown.middle - ((lines.length - 1) * LINE) / 2;
  lines.forEach((text, row) => context.fillText(text, shown.x + 4, top + row * LINE));
}

/** A pod from near: its name, and its containers in it. False where nothing is known of them. */
function paintContainers(
  context: CanvasRenderingContext2D,
  state: State,
  pod: number,
  place: Box,
  own: string,
  look: Look,
): boolean {
  const containers = containersOf(state, pod);
  if (!containers.length) return false;
  const colours = THEMES[look.theme];
  const back = mixed(own, colours.panel, 0.72);
  const head = LINE + 5;
  context.fillStyle = back;
  context.fillRect(place.x, place.y, place.width, place.height);
  context.fillStyle = own;
  context.fillRect(place.x, place.y, place.width, 2);
  context.font = `600 11px ${FONTS}`;
  context.fillStyle = inkOn(back);
  const shown = inView(place, look.view);
  context.fillText(fitted(context, nameOf(state, pod), shown.width - 10, true), shown.x + 5, place.y + 2 + head / 2);
  const space = { x: place.x + 3, y: place.y + head + 1, width: place.width - 6, height: place.height - head - 4 };
  containerBoxes(state, pod, look.resource, space).forEach((box, i) => {
    const { name, requests, role } = containers[i];
    const isInit = role === Role.INIT; // it is over before the others begin
    const [width, height] = [box.width - 2, box.height - 2];
    context.fillStyle = isInit ? back : own;
    context.fillRect(box.x + 1, box.y + 1, width, height);
    if (isInit) ring(context, box.x + 1.5, box.y + 1.5, width - 1, height - 1, own, 1, true);
    if (width < 34 || height < LINE) return;
    context.fillStyle = inkOn(isInit ? back : own);
    context.font = `11px ${FONTS}`;
    const lines = [name + (roleOf(role) && ` (${roleOf(role)})`), requests || say("pod.noRequests")];
    if (height < 2 * LINE + 2) lines.pop();
    const seen = inView(box, look.view);
    const top = seen.middle - ((lines.length - 1) * LINE) / 2;
    lines.forEach((text, row) =>
      context.fillText(fitted(context, text, seen.width - 10), seen.x + 5, top + row * LINE),
    );
  });
  return true;
}
