// The map: every node as a cell. Drag to pan, wheel to zoom, click for a node.

import { effect, signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Point } from "./Guide";
import { grouped, type Layout, laidOut, nodeAt, positions } from "./layout";
import { type Camera, type Colours, type Differs, heat, paint, REFUSALS, verdicts } from "./paint";
import { SvgCanvas } from "./svg";
import {
  attempt,
  colouring,
  cursor,
  findPod,
  grouping,
  growth,
  hovered,
  node,
  pod,
  records,
  resource,
  type Shown,
  settled,
  shown,
  step,
  theme,
  type Why,
  why,
} from "./view";
import { asked, changes } from "./WhatIf";
import { amount, count, language, say } from "./words";

const FONTS = "system-ui, 'Segoe UI', Roboto, 'Noto Sans CJK JP', sans-serif";

/** The map as it is, as SVG. */
export let drawMap: () => string = () => "";

function colours(element: Element): Colours {
  const style = getComputedStyle(element),
    get = (name: string) => style.getPropertyValue(name).trim();
  return {
    back: get("--panel"),
    cell: get("--cell"),
    line: get("--line"),
    text: get("--text"),
    soft: get("--soft"),
    accent: get("--accent"),
    chosen: get("--chosen"),
    pod: get("--pod"),
    podLine: get("--panel"),
  };
}

/** Of two records: the largest cells that fit on each map, and what is looked at. Both maps are of one scale, and move together. */
const fitting = signal<Record<number, number>>({});
const together = signal<Camera>({ scale: 1, x: 0, y: 0 });

/** The same node in another record, by name; -1 where it has none. */
function sameNode(from: Shown, to: Shown, node: number): number {
  return from === to || node < 0 ? node : to.columns.nodes.indexOf(from.columns.nodes[node]);
}

/** The share by which nodes are sorted: in a second record that of the first, so that each node is at the same place. */
function sorting(record: Shown): ((node: number) => number) | undefined {
  const first = shown.value!,
    { state } = first;
  if (record === first) return undefined;
  const rows = new Map(first.columns.nodes.map((name, row) => [name, row]));
  return (node) => {
    const row = rows.get(record.columns.nodes[node]) ?? -1;
    return row >= 0 && state.version[row] >= 0 ? state.share(row, resource.value) : -1;
  };
}

export interface MapProps {
  record: Shown;
  at: () => number;
  told: () => Why | null;
  differs?: () => Differs | undefined;
  label: string;
}

export function MapCanvas({ record, at, told, differs, label }: MapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const size = useMemo(() => signal({ width: 0, height: 0, ratio: 1 }), []);
  const camera = useMemo(() => (isCompared() ? together : signal<Camera>({ scale: 1, x: 0, y: 0 })), []);
  const layout = useRef<Layout>(laidOut([], 1, 1));

  useEffect(() => {
    const element = canvas.current!,
      context = element.getContext("2d", { alpha: false })!;
    const observer = new ResizeObserver(() => {
      const box = element.parentElement!.getBoundingClientRect(),
        ratio = window.devicePixelRatio || 1;
      element.width = Math.round(box.width * ratio);
      element.height = Math.round(box.height * ratio);
      size.value = { width: box.width, height: box.height, ratio };
    });
    observer.observe(element.parentElement!);
    const dark = matchMedia("(prefers-color-scheme: dark)"),
      scheme = signal(0);
    dark.addEventListener("change", () => scheme.value++);

    let toldOf: Why | null = null,
      toldStep = -1,
      toldNow: ReturnType<typeof verdicts> | null = null;
    let laidFor = "",
      frame = 0,
      looked: Colours | null = null,
      lookedFor = "";
    let sameOf = -1,
      same = -1;
    const selectedPod = () => {
      if (record === shown.value) return pod.value;
      if (sameOf !== pod.value)
        same = pod.value < 0 ? -1 : findPod(record.columns, shown.value!.columns.podName(pod.value));
      sameOf = pod.value;
      return same;
    };
    const draw = (to: CanvasRenderingContext2D = context) => {
      frame = 0;
      const { state } = record,
        { width, height } = size.value;
      if (!width || !height) return;
      state.goTo(at());
      const added = differs?.()?.added ?? 0;
      const other = isCompared()
        ? Math.min(
            ...records.value.filter((each) => each !== record).map((each) => fitting.value[each.number] ?? Infinity),
          )
        : Infinity;
      const key = [
        grouping.value,
        resource.value,
        width,
        height,
        state.nodeEvents,
        settled.value,
        language.value,
        added,
        other,
      ].join();
      if (key !== laidFor) {
        const groups: { name: string; nodes: Int32Array; added?: number }[] = grouped(
          state,
          grouping.value,
          resource.value,
          say(record.columns.texts.includes(grouping.value) ? "no label" : "all nodes"),
          say("others"),
          sorting(record),
        );
        if (added) (groups.find((each) => each.nodes.includes(differs!()!.like)) ?? groups[0]).added = added;
        layout.current = laidOut(groups, width, height - 36); // room for the buttons
        if (fitting.value[record.number] !== layout.current.cell)
          fitting.value = { ...fitting.value, [record.number]: layout.current.cell };
        if (other < layout.current.cell) layout.current = laidOut(groups, width, height - 36, other);
        laidFor = key;
      }
      if (!looked || lookedFor !== theme.value + scheme.value) {
        looked = colours(element);
        lookedFor = theme.value + scheme.value;
      }
      const verdict = colouring.value === "verdict" ? told() : null;
      if (verdict !== toldOf || step.value !== toldStep) {
        [toldOf, toldStep] = [verdict, step.value];
        toldNow = verdict ? verdicts(verdict, step.value, record.columns.nodes.length) : null;
        if (toldNow && verdict?.problem) toldNow.chosen = record.columns.events.node.data[attempt.value] ?? -1; // where it went is known
      }
      paint(
        to,
        state,
        layout.current,
        camera.value,
        size.value,
        {
          resource: resource.value,
          told: toldNow,
          selectedNode: sameNode(shown.value!, record, node.value),
          selectedPod: selectedPod(),
          hovered: sameNode(shown.value!, record, hovered.value),
          fonts: FONTS,
          differs: differs?.(),
        },
        looked,
      );
    };
    const stop = effect(() => {
      void [
        size.value,
        camera.value,
        at(),
        told(),
        grouping.value,
        resource.value,
        colouring.value,
        step.value,
        node.value,
        pod.value,
        hovered.value,
        theme.value,
        scheme.value,
        growth.value,
        language.value,
        settled.value,
        differs?.(),
        fitting.value,
      ];
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
    const box = canvas.current!.getBoundingClientRect(),
      { scale, x, y } = camera.value;
    return [(event.clientX - box.left - x) / scale, (event.clientY - box.top - y) / scale];
  };
  const zoom = (factor: number, at?: { clientX: number; clientY: number }) => {
    const box = canvas.current!.getBoundingClientRect(),
      { scale, x, y } = camera.value;
    const px = at ? at.clientX - box.left : box.width / 2,
      py = at ? at.clientY - box.top : box.height / 2;
    const next = Math.max(1, Math.min(60, scale * factor));
    camera.value = clamped(
      { scale: next, x: px - ((px - x) / scale) * next, y: py - ((py - y) / scale) * next },
      size.value,
    );
  };
  const drag = useRef<{ x: number; y: number; from: Camera; moved: boolean } | null>(null);
  const fingers = useRef(new Map<number, PointerEvent>());

  const hover = (event: PointerEvent) => {
    const found = nodeAt(layout.current, ...world(event));
    hovered.value = sameNode(record, shown.value!, found);
    const box = canvas.current!.getBoundingClientRect(),
      element = tip.current!;
    element.hidden = found < 0;
    if (found < 0) return;
    element.textContent = describe(record, found, told());
    const left = event.clientX - box.left,
      top = event.clientY - box.top,
      high = element.offsetHeight;
    element.style.transform = `translate(${Math.min(left + 14, Math.max(0, box.width - 240))}px, ${top + 16 + high > box.height ? Math.max(0, top - high - 8) : top + 16}px)`;
  };

  return (
    <div
      class="map"
      tabIndex={0}
      role="application"
      aria-label={label}
      onKeyDown={(event) => {
        const moves: Record<string, [number, number]> = {
          ArrowLeft: [-1, 0],
          ArrowRight: [1, 0],
          ArrowUp: [0, -1],
          ArrowDown: [0, 1],
        };
        if (event.key === "+" || event.key === "=") zoom(1.4);
        else if (event.key === "-") zoom(1 / 1.4);
        else if (event.key === "0") camera.value = { scale: 1, x: 0, y: 0 };
        else if (event.shiftKey && event.key in moves) {
          event.preventDefault();
          event.stopPropagation();
          node.value = sameNode(
            record,
            shown.value!,
            neighbour(layout.current, sameNode(shown.value!, record, node.value), moves[event.key]),
          );
        } else return;
        event.stopPropagation();
      }}
    >
      <canvas
        ref={canvas}
        onWheel={(event) => {
          event.preventDefault();
          zoom(Math.exp(-event.deltaY / 300), event);
        }}
        onPointerDown={(event) => {
          canvas.current!.setPointerCapture(event.pointerId);
          fingers.current.set(event.pointerId, event);
          drag.current = { x: event.clientX, y: event.clientY, from: camera.value, moved: false };
        }}
        onPointerMove={(event) => {
          if (fingers.current.size === 2) {
            const [a, b] = [...fingers.current.values()],
              before = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
            fingers.current.set(event.pointerId, event);
            const [c, d] = [...fingers.current.values()],
              now = Math.hypot(c.clientX - d.clientX, c.clientY - d.clientY);
            if (before)
              zoom(now / before, { clientX: (c.clientX + d.clientX) / 2, clientY: (c.clientY + d.clientY) / 2 });
            return;
          }
          const from = drag.current;
          if (!from) {
            hover(event);
            return;
          }
          const dx = event.clientX - from.x,
            dy = event.clientY - from.y;
          if (Math.abs(dx) + Math.abs(dy) > 4) from.moved = true;
          if (from.moved)
            camera.value = clamped({ ...from.from, x: from.from.x + dx, y: from.from.y + dy }, size.value);
        }}
        onPointerUp={(event) => {
          fingers.current.delete(event.pointerId);
          if (drag.current && !drag.current.moved) {
            const found = sameNode(record, shown.value!, nodeAt(layout.current, ...world(event)));
            node.value = found === node.value ? -1 : found;
          }
          drag.current = null;
        }}
        onPointerCancel={(event) => {
          fingers.current.delete(event.pointerId);
          drag.current = null;
        }}
        onPointerLeave={() => {
          hovered.value = -1;
          tip.current!.hidden = true;
        }}
      />
      <div class="tip" ref={tip} hidden />
      <div class="zoom">
        <button type="button" onClick={() => zoom(1.6)} aria-label={say("zoom in")} title={say("zoom in")}>
          +
        </button>
        <button type="button" onClick={() => zoom(1 / 1.6)} aria-label={say("zoom out")} title={say("zoom out")}>
          −
        </button>
        <button
          type="button"
          onClick={() => (camera.value = { scale: 1, x: 0, y: 0 })}
          aria-label={say("fit")}
          title={say("fit")}
        >
          ⤢
        </button>
      </div>
    </div>
  );
}

function clamped(camera: Camera, size: { width: number; height: number }): Camera {
  if (camera.scale <= 1) return { scale: 1, x: 0, y: 0 };
  const keep = (value: number, length: number) =>
    Math.min(length * 0.2, Math.max(value, length * 0.8 - length * camera.scale));
  return { scale: camera.scale, x: keep(camera.x, size.width), y: keep(camera.y, size.height) };
}

function neighbour(layout: Layout, from: number, [dx, dy]: [number, number]): number {
  positions(layout);
  const here = layout.place.get(from);
  if (!here) return layout.groups[0]?.nodes[0] ?? -1;
  let best = from,
    nearest = Infinity;
  for (const [other, [x, y]] of layout.place) {
    const along = (x - here[0]) * dx + (y - here[1]) * dy,
      aside = Math.abs((x - here[0]) * dy) + Math.abs((y - here[1]) * dx);
    if (along > 0.5 && along + 3 * aside < nearest) {
      nearest = along + 3 * aside;
      best = other;
    }
  }
  return best;
}

/** A node in a few lines: how full it is, and what it said to the selected pod. */
export function describe({ state, columns }: Shown, at: number, told: Why | null): string {
  const lines = [columns.nodes[at]];
  for (const name of ["cpu", "memory", "pods"]) {
    const index = columns.resources.indexOf(name),
      all = state.capacity[index][at];
    if (all)
      lines.push(
        `${name} ${amount(name, state.used[index][at])} ${say("of")} ${amount(name, all)} (${Math.round(100 * state.share(at, index))} %)`,
      );
  }
  if (told && !told.problem) {
    const refusal = told.funnel.find((each) => each.rows.includes(at));
    if (refusal) lines.push(`✗ ${refusal.plugin}: ${refusal.reasons.join(", ")}`);
    const i = told.totals[0].indexOf(at);
    if (i >= 0) lines.push(`✓ ${say("score")} ${count(told.totals[1][i])}`);
  }
  return lines.join("\n");
}

export function MapPanel() {
  const now = shown.value!;
  growth.value;
  return (
    <section class="panel mapPanel" aria-label={say("Map")}>
      <header>
        <h2>{say("Map")}</h2>
        {isCompared() && <strong>A · {now.meta.title}</strong>}
        <Grouping record={now} />
        <label>
          {say("size")}{" "}
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
        <label>
          {say("colour")}{" "}
          <select value={colouring.value} onChange={(event) => (colouring.value = event.currentTarget.value as "use")}>
            <option value="verdict">{say("verdict for the pod")}</option>
            <option value="use">{say("use")}</option>
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
        label={say("Map")}
      />
      <Point />
      <Legend />
    </section>
  );
}

const isCompared = () => records.value.length > 1;

/** By itself, so that a moving cursor draws only this anew. */
function Nothing({ record: { state } }: { record: Shown }) {
  growth.value;
  state.goTo(cursor.value);
  return state.nodes ? null : <p class="soft nothing">{say("no nodes yet")}</p>;
}

/** By itself, too. */
export function Counts({ record: { state }, at }: { record: Shown; at: () => number }) {
  growth.value;
  state.goTo(at());
  return (
    <span class="push soft">
      {say("{n} nodes", { n: count(state.nodes) })} · {say("{n} pods", { n: count(state.running) })}
    </span>
  );
}

/** The resources that any node has had. */
function usable({ columns: { allocatable } }: Shown, index: number): boolean {
  return allocatable.resource.data.subarray(0, allocatable.resource.length).includes(index);
}

function Grouping({ record }: { record: Shown }) {
  const { labels, texts } = record.columns;
  const names = useMemo(
    () =>
      [...new Set(labels.key.data.subarray(0, Math.min(labels.key.length, 20_000)))].map((key) => texts[key]).sort(),
    [record, labels.key.length],
  );
  return (
    <label>
      {say("by")}{" "}
      <select
        value={names.includes(grouping.value) ? grouping.value : ""}
        onChange={(event) => (grouping.value = event.currentTarget.value)}
      >
        <option value="">—</option>
        {names.map((name) => (
          <option value={name} key={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

function Legend() {
  const told = why.value,
    differs = changes.value;
  if (differs)
    return (
      <footer class="legend">
        <strong>{say("what if")}</strong>
        {differs.lost.size > 0 && (
          <span>
            ✕ {say(differs.stays ? "drained" : "lost")} <span class="soft">{count(differs.lost.size)}</span>
          </span>
        )}
        {differs.gets.size > 0 && (
          <span>
            <b class="ringed" /> {say("gets pods")} <span class="soft">{count(differs.gets.size)}</span>
          </span>
        )}
        {differs.leaves.size > 0 && (
          <span>
            <b class="ringed dashed" /> {say("pods leave")} <span class="soft">{count(differs.leaves.size)}</span>
          </span>
        )}
        {differs.added > 0 && (
          <span>
            + {say("{n} new nodes", { n: differs.added })} · {say("{n} pods", { n: count(differs.onAdded) })}
          </span>
        )}
        {!differs.lost.size && !differs.gets.size && !differs.leaves.size && !differs.added && (
          <span class="soft">{say("nothing on the map changes")}</span>
        )}
        <button type="button" class="push" onClick={() => (asked.value = null)}>
          ✕ {say("close")}
        </button>
      </footer>
    );
  if (colouring.value === "use" || !told || told.problem)
    return (
      <footer class="legend">
        <span class="scale">
          <i>0 %</i>
          {[0, 0.25, 0.5, 0.75, 1].map((share) => (
            <b key={share} style={{ background: heat(share) }} />
          ))}
          <i>100 %</i>
        </span>{" "}
        {say("use")}
      </footer>
    );
  return (
    <footer class="legend">
      {told.funnel.map((each, i) => (
        <button
          type="button"
          key={i}
          aria-pressed={step.value === i}
          onClick={() => (step.value = step.value === i ? -1 : i)}
          title={each.reasons.join(", ")}
        >
          <b class="dot" style={{ background: REFUSALS[i % REFUSALS.length] }}>
            {i + 1}
          </b>
          {each.plugin || "—"} <span class="soft">{count(each.rows.length)}</span>
        </button>
      ))}
      {told.totals[0].length > 0 && (
        <span class="scale">
          {say("score")}{" "}
          {[0, 0.25, 0.5, 0.75, 1].map((share) => (
            <b key={share} style={{ background: heat(share) }} />
          ))}
        </span>
      )}
      {told.node !== null && (
        <span>
          <b class="star">★</b> {say("the chosen node")}
        </span>
      )}
    </footer>
  );
}

/** Search by name: the first pod or node that has the text in it. */
export function find(text: string): { pod?: number; node?: number } {
  const now = shown.value;
  if (!now || !text) return {};
  const wanted = text.toLowerCase();
  const byName = now.columns.podNames.findIndex((name) => name.toLowerCase().includes(wanted));
  if (byName >= 0)
    return { pod: now.columns.pods.name.data.subarray(0, now.columns.pods.name.length).lastIndexOf(byName) };
  const byNode = now.columns.nodes.findIndex((name) => name.toLowerCase().includes(wanted));
  return byNode >= 0 ? { node: byNode } : {};
}
