// The map: every node as a cell, and every pod in it as a block. Drag to pan, wheel to zoom, click to select.
import { effect, signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { podColours } from "./colouring";
import { type Differs, hasBlocks, type Size, transform } from "./drawn";
import { Point } from "./Guide";
import { type Box, type Content, cellAt, grouped, type Layout, laidOut, neighbour } from "./layout";
import { MapLegend } from "./MapLegend";
import { paint, verdicts } from "./paint";
import { boxOfPod, containersOf, podAt, requestsOf, roleOf } from "./pods";
import { SvgCanvas } from "./svg";
import {
  area,
  attempt,
  type Camera,
  COLOURINGS,
  type Colouring,
  camera,
  colouring,
  cursor,
  findPod,
  grouping,
  growth,
  hovered,
  isCompared,
  isNow,
  isOurs,
  isStill,
  node,
  pod,
  records,
  resource,
  type Shown,
  seenTheme,
  selectNode,
  selectPod,
  shown,
  step,
  tab,
  timeAt,
  timeOf,
  WHOLE,
  type Why,
  why,
} from "./view";
import { changes } from "./WhatIf";
import { amount, count, language, say, seconds } from "./words";

const MOVE_MS = 320; // how long cells and the camera take to get to their places
const DEEPEST = 600; // times: from 5,000 nodes down to the containers of a pod
const FILLS = 0.9; // of the scale that shows all of something: from there on it has been zoomed to

/** The map as it is, as SVG. */
export let drawMap: () => string = () => "";

/** The same node in another record, by name; -1 where it has none. */
function sameNode(from: Shown, to: Shown, which: number): number {
  return from === to || which < 0 ? which : to.columns.nodes.indexOf(from.columns.nodes[which]);
}

/** The groups of the map. Of two records it has the nodes of both, so that each is at the same place on both maps. */
function contents(record: Shown, differs?: Differs): Content[] {
  const none = say(record.columns.texts.includes(grouping.value) ? "map.noLabel" : "map.allNodes");
  const names = { none, others: say("map.others") };
  const of = ({ state, reference }: Shown) =>
    grouped(
      state,
      grouping.value,
      names,
      (each) => (area.value === "capacity" ? state.capacity[resource.value][each] || 1 : 1),
      (each) => {
        const used = (reference ?? state.used)[resource.value][each] ?? 0; // the same order whenever one looks
        return used / (state.capacity[resource.value][each] || 1);
      },
    );
  const groups = of(record);
  if (differs?.added) {
    const group = groups.find((each) => each.nodes.includes(differs.like)) ?? groups[0];
    const weight = group.weights[Math.max(0, group.nodes.indexOf(differs.like))];
    for (let i = 0; i < differs.added; i++) {
      group.nodes.push(-2 - i); // a node that is not there
      group.weights.push(weight);
    }
  }
  return groups;
}

const samePods = new WeakMap<Shown, [number, number]>(); // the selected pod, and its row in another record

function selectedPodOf(record: Shown): number {
  if (record === shown.value || pod.value < 0) return pod.value;
  const known = samePods.get(record);
  if (known?.[0] === pod.value) return known[1];
  const found = findPod(record.columns, shown.value!.columns.podName(pod.value));
  samePods.set(record, [pod.value, found]);
  return found;
}

const compareNames = (a: string, b: string) => a.localeCompare(b, "en", { numeric: true });
const sizes = signal<Record<number, Size>>({}); // of two maps; what both have room for is what both use

/** One layout for two records: that of the first, and what only the second has after it. */
function together([one, other]: Shown[]): { groups: Content[]; names: string[] } {
  const names: string[] = [];
  const groups = new Map<string, Content>();
  const known = new Set<string>();
  for (const record of [one, other])
    for (const group of contents(record)) {
      const into = groups.get(group.name) ?? { name: group.name, nodes: [], weights: [] };
      groups.set(group.name, into);
      group.nodes.forEach((row, i) => {
        const name = record.columns.nodes[row];
        if (known.has(name)) return;
        known.add(name);
        into.nodes.push(names.length);
        into.weights.push(group.weights[i]);
        names.push(name);
      });
    }
  for (const group of groups.values()) {
    // by name: the order must not depend on when each of the maps was drawn
    const order = group.nodes
      .map((_, i) => i)
      .sort((a, b) => compareNames(names[group.nodes[a]], names[group.nodes[b]]));
    [group.nodes, group.weights] = [order.map((i) => group.nodes[i]), order.map((i) => group.weights[i])];
  }
  return { groups: [...groups.values()].filter((each) => each.nodes.length), names };
}

/** Between two layouts: cells go from where their nodes were to where they are. */
function between(from: Layout, to: Layout, share: number): Layout {
  const found = { ...to, x: to.x.slice(), y: to.y.slice(), width: to.width.slice(), height: to.height.slice() };
  for (let i = 0; i < to.node.length; i++) {
    const before = from.cellOf.get(to.node[i]);
    if (before === undefined) continue;
    for (const name of ["x", "y", "width", "height"] as const)
      found[name][i] = from[name][before] + (to[name][i] - from[name][before]) * share;
  }
  return found;
}

const eased = (share: number) => 1 - (1 - Math.min(1, share)) ** 3;

export interface MapProps {
  record: Shown;
  at: () => number;
  told: () => Why | null;
  differs?: () => Differs | undefined;
  label: string;
}

let flying = 0;
/** Move the camera there, in a few frames. */
function fly(to: Camera): void {
  cancelAnimationFrame(flying);
  if (isStill()) {
    camera.value = to;
    return;
  }
  const from = camera.value;
  const begun = performance.now();
  const go = () => {
    const share = eased((performance.now() - begun) / MOVE_MS);
    const scale = from.scale * (to.scale / from.scale) ** share;
    camera.value = { scale, x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share };
    if (share < 1) flying = requestAnimationFrame(go);
    else camera.value = to;
  };
  flying = requestAnimationFrame(go);
}

function clamped({ scale, x, y }: Camera): Camera {
  if (scale <= 1) return WHOLE;
  const keep = (value: number) => Math.min(1 - 0.3 / scale, Math.max(value, 0.3 / scale));
  return { scale, x: keep(x), y: keep(y) };
}

export function MapCanvas({ record, at, told, differs, label }: MapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const size = useMemo(() => signal<Size>({ width: 0, height: 0, ratio: 1 }), []);
  const hoveredPod = useMemo(() => signal(-1), []);
  const layout = useRef<Layout>(laidOut([], 1, 1));
  const laid = useMemo(() => signal(0), []); // another number when the layout is another one

  useEffect(() => {
    const element = canvas.current!;
    const context = element.getContext("2d", { alpha: false })!;
    const observer = new ResizeObserver(() => {
      const box = element.parentElement!.getBoundingClientRect();
      const ratio = window.devicePixelRatio || 1;
      element.width = Math.round(box.width * ratio);
      element.height = Math.round(box.height * ratio);
      size.value = { width: box.width, height: box.height, ratio };
      if (isCompared()) sizes.value = { ...sizes.value, [record.number]: size.value };
    });
    observer.observe(element.parentElement!);

    let toldOf: Why | null = null;
    let toldStep = -1;
    let toldNow: ReturnType<typeof verdicts> | null = null;
    let laidFor = "";
    let before: Layout | null = null; // from which cells are on their way
    let begun = 0;
    let frame = 0;
    const place = () => {
      const all = isCompared() ? Object.values(sizes.value) : [size.value];
      const width = Math.min(...all.map((each) => each.width));
      const height = Math.min(...all.map((each) => each.height));
      const changed = differs?.();
      const events = isCompared() ? records.value.map((each) => each.state.nodeEvents) : [record.state.nodeEvents];
      const parts = [grouping.value, resource.value, area.value, width, height, language.value, changed?.added ?? 0];
      const key = [...parts, ...events].join();
      if (key === laidFor) return;
      let fresh: Layout;
      if (isCompared()) {
        const { groups, names } = together(records.value);
        fresh = laidOut(groups, width, height);
        const rows = new Map(record.columns.nodes.map((name, row) => [name, row]));
        fresh.node = fresh.node.map((each) => rows.get(names[each]) ?? -1);
        fresh.cellOf = new Map([...fresh.node].map((each, i) => [each, i]));
      } else fresh = laidOut(contents(record, changed), width, height);
      before = laidFor && !isStill() && layout.current.node.length ? layout.current : null;
      begun = performance.now();
      layout.current = fresh;
      laidFor = key;
      laid.value++;
    };
    const draw = (to: CanvasRenderingContext2D = context) => {
      frame = 0;
      const { state } = record;
      if (!size.value.width || !size.value.height) return;
      state.goTo(at());
      place();
      const verdict = colouring.value === "verdict" ? told() : null;
      if (verdict !== toldOf || step.value !== toldStep) {
        [toldOf, toldStep] = [verdict, step.value];
        toldNow = verdict ? verdicts(verdict, step.value, record.columns.nodes.length) : null;
        const event = attempt.value; // where it went is known, also where nobody knows why
        if (toldNow && verdict?.problem) toldNow.chosen = record.columns.events.node.data[event] ?? -1;
      }
      const share = before ? eased((performance.now() - begun) / MOVE_MS) : 1;
      if (share >= 1) before = null;
      paint(to, state, before ? between(before, layout.current, share) : layout.current, camera.value, size.value, {
        resource: resource.value,
        told: toldNow,
        isFaded: record === shown.value && !isNow.value,
        pods: podColours(state, colouring.value, timeOf(record.columns, at()), seenTheme.value),
        selectedNode: sameNode(shown.value!, record, node.value),
        selectedPod: selectedPodOf(record),
        hovered: sameNode(shown.value!, record, hovered.value),
        hoveredPod: hoveredPod.value,
        differs: differs?.(),
        theme: seenTheme.value,
        view: size.value,
      });
      if (before && !frame) frame = requestAnimationFrame(() => draw());
    };
    const stop = effect(() => {
      void [size.value, camera.value, at(), told(), grouping.value, resource.value, colouring.value, area.value];
      void [step.value, node.value, pod.value, hovered.value, hoveredPod.value, seenTheme.value, growth.value];
      void [language.value, differs?.(), isNow.value, isCompared() && [cursor.value, sizes.value]];
      if (!frame) frame = requestAnimationFrame(() => draw());
    });
    if (record === shown.value)
      drawMap = () => {
        const picture = new SvgCanvas(size.value.width, size.value.height);
        draw(picture as unknown as CanvasRenderingContext2D);
        return picture.text();
      };
    return () => {
      stop();
      observer.disconnect();
      cancelAnimationFrame(frame);
    };
  }, [record]);

  const world = (event: { clientX: number; clientY: number }): [number, number] => {
    const box = canvas.current!.getBoundingClientRect();
    const { scale, dx, dy } = transform(camera.value, size.value);
    return [(event.clientX - box.left - dx) / scale, (event.clientY - box.top - dy) / scale];
  };
  /** The camera with which a place of the world stays where it is on the screen. */
  const zoomed = (factor: number, at?: { clientX: number; clientY: number }): Camera => {
    const { width, height } = size.value;
    const scale = Math.max(1, Math.min(DEEPEST, camera.value.scale * factor));
    if (!at) return clamped({ ...camera.value, scale });
    const [x, y] = world(at);
    const rest = camera.value.scale / scale;
    return clamped({
      scale,
      x: x / width + (camera.value.x - x / width) * rest,
      y: y / height + (camera.value.y - y / height) * rest,
    });
  };
  /** The camera that shows a box of the world as large as it can be. */
  const onBox = ({ x, y, width, height }: Box): Camera => {
    const all = size.value;
    const scale = Math.min(DEEPEST, (0.86 * all.width) / width, (0.86 * all.height) / height);
    return clamped({ scale, x: (x + width / 2) / all.width, y: (y + height / 2) / all.height });
  };
  const cellBox = (cell: number): Box => {
    const { x, y, width, height } = layout.current;
    return { x: x[cell], y: y[cell], width: width[cell], height: height[cell] };
  };
  const podBox = (cell: number, which: number): Box | null => {
    const { scale } = camera.value;
    const box = cellBox(cell);
    const inner = { width: box.width * scale - 4, height: box.height * scale - 4 };
    const found = boxOfPod(record.state, layout.current.node[cell], which, resource.value, inner);
    if (!found) return null;
    const [x, y] = [box.x + (found.x + 2) / scale, box.y + (found.y + 2) / scale];
    return { x, y, width: found.width / scale, height: found.height / scale };
  };
  /** What there is at a place of the world, from the outside in: a group, a node, a pod. */
  const levelsAt = (x: number, y: number): Level[] => {
    const cell = cellAt(layout.current, x, y);
    if (cell < 0) return [];
    const group = layout.current.groups.find((each) => cell >= each.first && cell < each.first + each.count)!;
    const found: Level[] = layout.current.groups.length > 1 ? [{ name: group.name, box: group }] : [];
    const row = layout.current.node[cell];
    if (row < 0) return found;
    found.push({ name: record.columns.nodes[row], box: cellBox(cell), node: row });
    const which = podUnder(cell, x, y);
    const box = which < 0 ? null : podBox(cell, which);
    if (box) found.push({ name: record.columns.podName(which), box, pod: which });
    return found;
  };
  const isFilled = ({ box }: Level) => camera.value.scale >= FILLS * onBox(box).scale;
  /** Zoom to the next level at a place, or out again where there is none. */
  const closer = (x: number, y: number): void => {
    const next = levelsAt(x, y).find((each) => !isFilled(each));
    fly(next ? onBox(next.box) : WHOLE);
  };
  const drag = useRef<{ x: number; y: number; from: Camera; moved: boolean } | null>(null);
  const fingers = useRef(new Map<number, PointerEvent>());

  const podUnder = (cell: number, x: number, y: number): number => {
    if (cell < 0 || record.columns.isHead || !hasBlocks(layout.current, camera.value.scale)) return -1;
    const { x: left, y: top, width, height, node: nodes } = layout.current;
    const { scale } = camera.value;
    const box = { width: width[cell] * scale - 4, height: height[cell] * scale - 4 };
    const [inX, inY] = [(x - left[cell]) * scale - 2, (y - top[cell]) * scale - 2];
    return podAt(record.state, nodes[cell], resource.value, box, inX, inY);
  };
  const hover = (event: PointerEvent) => {
    const [x, y] = world(event);
    const cell = cellAt(layout.current, x, y);
    const found = cell < 0 ? -1 : layout.current.node[cell];
    hovered.value = sameNode(record, shown.value!, Math.max(-1, found));
    hoveredPod.value = podUnder(cell, x, y);
    const box = canvas.current!.getBoundingClientRect();
    const element = tip.current!;
    element.hidden = found < 0;
    if (found < 0) return;
    element.textContent =
      hoveredPod.value >= 0 ? describePod(record, hoveredPod.value, at()) : describe(record, found, told());
    const [left, top] = [event.clientX - box.left, event.clientY - box.top];
    const x2 = Math.min(left + 14, Math.max(0, box.width - element.offsetWidth - 4));
    const fits = top + 16 + element.offsetHeight <= box.height;
    element.style.transform = `translate(${x2}px, ${fits ? top + 16 : Math.max(0, top - element.offsetHeight - 8)}px)`;
  };
  const click = (event: PointerEvent) => {
    const [x, y] = world(event);
    const cell = cellAt(layout.current, x, y);
    const which = podUnder(cell, x, y);
    if (which >= 0) {
      const name = record.columns.podName(which);
      const found = record === shown.value ? which : findPod(shown.value!.columns, name);
      selectPod(found === pod.value ? -1 : found);
      return;
    }
    const found = cell < 0 ? -1 : sameNode(record, shown.value!, Math.max(-1, layout.current.node[cell]));
    selectNode(found === node.value ? -1 : found);
  };
  const onKey = (event: KeyboardEvent) => {
    const moves: Record<string, [number, number]> = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
    };
    const selected = layout.current.cellOf.get(sameNode(shown.value!, record, node.value));
    if (event.key === "+" || event.key === "=") fly(zoomed(1.5));
    else if (event.key === "-") fly(zoomed(1 / 1.5));
    else if (event.key === "0") fly(WHOLE);
    else if (event.key === "Enter" && selected !== undefined) {
      const { x, y, width, height } = cellBox(selected);
      const chosen = podBox(selected, selectedPodOf(record));
      if (chosen && isFilled({ name: "", box: cellBox(selected) })) fly(onBox(chosen));
      else closer(x + width / 2, y + height / 2);
    } else if (event.shiftKey && event.key in moves) {
      const to = selected === undefined ? 0 : neighbour(layout.current, selected, moves[event.key]);
      selectNode(sameNode(record, shown.value!, layout.current.node[to] ?? -1));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <div class="map" tabIndex={0} role="application" aria-label={label} onKeyDown={onKey}>
      <canvas
        ref={canvas}
        onWheel={(event) => {
          event.preventDefault();
          cancelAnimationFrame(flying);
          camera.value = zoomed(Math.exp(-event.deltaY / 300), event);
        }}
        onDblClick={(event) => {
          closer(...world(event));
        }}
        onPointerDown={(event) => {
          canvas.current!.setPointerCapture(event.pointerId);
          fingers.current.set(event.pointerId, event);
          drag.current = { x: event.clientX, y: event.clientY, from: camera.value, moved: false };
        }}
        onPointerMove={(event) => {
          if (fingers.current.size === 2) {
            const apart = () => {
              const [a, b] = [...fingers.current.values()];
              return { far: Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY), a, b };
            };
            const { far } = apart();
            fingers.current.set(event.pointerId, event);
            const now = apart();
            const middle = {
              clientX: (now.a.clientX + now.b.clientX) / 2,
              clientY: (now.a.clientY + now.b.clientY) / 2,
            };
            if (far) camera.value = zoomed(now.far / far, middle);
            return;
          }
          const from = drag.current;
          if (!from) {
            hover(event);
            return;
          }
          const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
          if (Math.abs(dx) + Math.abs(dy) > 4) from.moved = true;
          const { scale, x, y } = from.from;
          if (from.moved)
            camera.value = clamped({
              scale,
              x: x - dx / scale / size.value.width,
              y: y - dy / scale / size.value.height,
            });
        }}
        onPointerUp={(event) => {
          fingers.current.delete(event.pointerId);
          if (drag.current && !drag.current.moved) click(event);
          drag.current = null;
        }}
        onPointerCancel={(event) => {
          fingers.current.delete(event.pointerId);
          drag.current = null;
        }}
        onPointerLeave={() => {
          hovered.value = -1;
          hoveredPod.value = -1;
          tip.current!.hidden = true;
        }}
      />
      <div class="tip" ref={tip} hidden />
      <Crumbs
        laid={laid}
        size={size}
        levelsAt={levelsAt}
        isFilled={isFilled}
        go={(each) => fly(each ? onBox(each.box) : WHOLE)}
      />
      <div class="zoom">
        {(
          [
            ["map.zoomIn", "+", () => fly(zoomed(1.8))],
            ["map.zoomOut", "−", () => fly(zoomed(1 / 1.8))],
            ["map.fit", "⤢", () => fly(WHOLE)],
          ] as const
        ).map(([key, sign, act]) => (
          <button type="button" key={key} onClick={act} aria-label={say(key)} title={say(key)}>
            {sign}
          </button>
        ))}
      </div>
    </div>
  );
}

interface Level {
  name: string;
  box: Box; // in the world
  node?: number;
  pod?: number;
}

interface CrumbsProps {
  laid: { value: number };
  size: { value: Size };
  levelsAt: (x: number, y: number) => Level[];
  isFilled: (level: Level) => boolean;
  go: (level: Level | null) => void;
}

/** Where one is, while the map is zoomed in: the way back out, level by level. */
function Crumbs({ laid, size, levelsAt, isFilled, go }: CrumbsProps) {
  void laid.value;
  const { scale, x, y } = camera.value;
  if (scale < 1.02) return null;
  const inside = levelsAt(x * size.value.width, y * size.value.height).filter(isFilled);
  return (
    <nav class="crumbs" aria-label={say("map.where")}>
      <button type="button" onClick={() => go(null)}>
        {say("map.whole")}
      </button>
      {inside.map((each, i) => (
        <button
          type="button"
          key={each.name}
          aria-current={i === inside.length - 1 ? "location" : undefined}
          onClick={() => {
            if (each.pod !== undefined) selectPod(each.pod);
            go(each);
          }}
        >
          <bdi>{each.name}</bdi>
        </button>
      ))}
    </nav>
  );
}

/** A node in a few lines: how full it is, and what it said to the pod. */
export function describe({ state, columns }: Shown, at: number, told: Why | null): string {
  const lines = [columns.nodes[at]];
  for (const name of ["cpu", "memory", "pods"]) {
    const index = columns.resources.indexOf(name);
    const all = state.capacity[index][at];
    const share = Math.round(100 * state.share(at, index));
    const [used, has] = [amount(name, state.used[index][at]), amount(name, all)];
    if (all) lines.push(`${name} ${say("usedOf", { used, has })} (${share} %)`);
  }
  if (told && !told.problem && colouring.value === "verdict") {
    const refusal = told.funnel.find((each) => each.rows.includes(at));
    if (refusal) lines.push(`✗ ${refusal.plugin}: ${refusal.reasons.join(", ")}`);
    const i = told.totals[0].indexOf(at);
    if (i >= 0) lines.push(`✓ ${say("score")} ${count(told.totals[1][i])}`);
  }
  return lines.join("\n");
}

/** A pod in a few lines. */
function describePod({ state, columns }: Shown, which: number, at: number): string {
  const owner = columns.texts[columns.pods.owner.data[which]];
  const priority = columns.pods.priority.data[which];
  return [
    columns.podName(which),
    requestsOf(state, which) || say("pod.noRequests"),
    owner,
    priority ? say("priority", { p: priority }) : "",
    ...containerLines(state, which),
    say("pod.since", { s: seconds(Math.max(0, timeOf(columns, at) - state.since[which])) }),
  ]
    .filter(Boolean)
    .join("\n");
}

/** Its containers, where it has several. */
function containerLines(state: Shown["state"], which: number): string[] {
  const containers = containersOf(state, which);
  if (containers.length < 2) return [];
  return containers.map(({ name, role, requests }) => {
    const what = roleOf(role);
    return `${name}${what && ` (${what})`}: ${requests || say("pod.noRequests")}`;
  });
}

export function MapPanel() {
  const now = shown.value!;
  growth.value;
  return (
    <section class="panel mapPanel" aria-label={say("view.map")}>
      <header>
        <h2>{isCompared() ? <bdi>A · {now.meta.title}</bdi> : say("view.map")}</h2>
        <Grouping record={now} />
        <label>
          {say("map.resource")}{" "}
          <select value={resource.value} onChange={(event) => (resource.value = Number(event.currentTarget.value))}>
            {now.columns.resources.map((name, i) =>
              usable(now, i) ? (
                <option value={i} key={name}>
                  {name}
                </option>
              ) : null,
            )}
          </select>
        </label>
        {!isCompared() && (
          <label>
            {say("map.area")}{" "}
            <select value={area.value} onChange={(event) => (area.value = event.currentTarget.value as "equal")}>
              <option value="capacity">{say("map.byCapacity")}</option>
              <option value="equal">{say("map.equal")}</option>
            </select>
          </label>
        )}
        <label>
          {say("map.colour")}{" "}
          <select
            value={colouring.value}
            onChange={(event) => (colouring.value = event.currentTarget.value as Colouring)}
          >
            {COLOURINGS.map((each) => (
              <option value={each} key={each}>
                {say(`colour.${each}`)}
              </option>
            ))}
          </select>
        </label>
        <Counts record={now} at={() => cursor.value} />
      </header>
      <Nothing record={now} />
      <MapCanvas
        record={now}
        at={() => cursor.value}
        told={() => why.value}
        differs={() => changes.value}
        label={say("view.map")}
      />
      <Point />
      <MapLegend />
    </section>
  );
}

/** By itself, so that a moving cursor draws only this anew. */
function Nothing({ record: { state } }: { record: Shown }) {
  growth.value;
  state.goTo(cursor.value);
  if (state.nodes) return null;
  return (
    <p class="soft nothing">
      {say("map.noNodes")} {timeAt() <= state.columns.begin && state.columns.length > 0 && say("map.noNodesYet")}
      {isOurs.value && (
        <button type="button" onClick={() => (tab.value = "change")}>
          {say("map.addNode")}
        </button>
      )}
    </p>
  );
}

/** By itself, too. */
export function Counts({ record: { state }, at }: { record: Shown; at: () => number }) {
  growth.value;
  state.goTo(at());
  return (
    <span class="push soft">
      {say("nodes", { n: state.nodes })} · {say("pods", { n: state.running })}
    </span>
  );
}

/** The resources that any node has had. */
function usable({ columns: { allocatable } }: Shown, index: number): boolean {
  return allocatable.resource.data.subarray(0, allocatable.resource.length).includes(index);
}

/** The end of a label's name, which is what tells it from others. */
export const shortLabel = (name: string) => name.slice(name.lastIndexOf("/") + 1);

function Grouping({ record }: { record: Shown }) {
  const { labels, texts } = record.columns;
  const names = useMemo(
    () =>
      [...new Set(labels.key.data.subarray(0, Math.min(labels.key.length, 20_000)))].map((key) => texts[key]).sort(),
    [record, labels.key.length],
  );
  return (
    <label>
      {say("map.by")}{" "}
      <select
        value={names.includes(grouping.value) ? grouping.value : ""}
        title={grouping.value}
        onChange={(event) => (grouping.value = event.currentTarget.value)}
      >
        <option value="">—</option>
        {names.map((name) => (
          <option value={name} key={name} title={name}>
            {names.filter((other) => shortLabel(other) === shortLabel(name)).length > 1 ? name : shortLabel(name)}
          </option>
        ))}
      </select>
    </label>
  );
}
