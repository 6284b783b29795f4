// Time: strips with one cursor through all of them. Click or drag to move it.

import { effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { Strips } from "./state";
import { SvgCanvas } from "./svg";
import { cursor, goTo, goToTime, growth, records, shown, theme, timeAt } from "./view";
import { language, say } from "./words";

interface Strip {
  name: string;
  unit: string;
  note?: string;
  lines: {
    name: string;
    colour: string;
    values: (strips: Strips) => Float64Array;
    isBars?: boolean;
    dash?: number[];
  }[];
}

const STRIPS: Strip[] = [
  {
    name: "utilisation",
    unit: "%",
    lines: [
      { name: "cpu", colour: "--s1", values: (s) => s.cpu },
      { name: "memory", colour: "--s2", values: (s) => s.memory, dash: [5, 3] },
    ],
  },
  {
    name: "waiting",
    unit: "",
    lines: [
      { name: "active", colour: "--s3", values: (s) => s.waiting[0] },
      { name: "backoff", colour: "--s4", values: (s) => s.waiting[1], dash: [2, 2] },
      { name: "unschedulable", colour: "--s5", values: (s) => s.waiting[2], dash: [6, 3] },
      { name: "gated", colour: "--s6", values: (s) => s.waiting[3], dash: [1, 3] },
    ],
  },
  {
    name: "decisions",
    unit: "",
    lines: [
      { name: "scheduled", colour: "--s3", values: (s) => s.placed, isBars: true },
      { name: "unschedulable", colour: "--s5", values: (s) => s.refused, isBars: true },
      { name: "evictions", colour: "--s1", values: (s) => s.evicted, isBars: true },
    ],
  },
  {
    name: "fragmentation",
    unit: "%",
    note: "free CPU on nodes that the typical pod does not fit on",
    lines: [{ name: "fragmentation", colour: "--s2", values: (s) => s.fragmented }],
  },
];

/** The strips as SVG: for a report. */
export function stripsSvg(): string {
  const style = getComputedStyle(document.documentElement),
    colour = (name: string) => style.getPropertyValue(name).trim();
  const strips = shown.value!.strips.value,
    width = 900,
    each = 130,
    left = 44,
    picture = new SvgCanvas(width, each * STRIPS.length);
  picture.fillStyle = colour("--panel");
  picture.fillRect(0, 0, width, each * STRIPS.length);
  if (!strips) return picture.text();
  const first = strips.time[0],
    span = strips.time[strips.time.length - 1] - first || 1;
  STRIPS.forEach((strip, i) => {
    const top = i * each + 22,
      high = each - 34,
      most = Math.max(1, ...strip.lines.flatMap((line) => [...line.values(strips)]));
    picture.font = "600 11px system-ui";
    picture.fillStyle = colour("--soft");
    picture.fillText(`${say(strip.name)} ${strip.unit}`, left, top - 10);
    picture.font = "10px system-ui";
    picture.fillText(String(Math.round(most)), 8, top + 4);
    picture.fillText("0", 8, top + high);
    picture.strokeStyle = colour("--line");
    picture.strokeRect(left, top, width - left - 8, high);
    let at = left + 130;
    for (const line of strip.lines) {
      picture.strokeStyle = picture.fillStyle = colour(line.colour);
      picture.beginPath();
      line
        .values(strips)
        .forEach((value, bin) =>
          picture.lineTo(
            left + ((width - left - 8) * (strips.time[bin] - first)) / span,
            top + high * (1 - value / most),
          ),
        );
      picture.stroke();
      picture.fillText(`— ${say(line.name)}`, at, top - 10);
      at += 110;
    }
  });
  return picture.text();
}

export function TimePanel() {
  return (
    <section class="panel timePanel" aria-label={say("Time")}>
      <div class="strips">
        {STRIPS.map((strip) => (
          <StripChart strip={strip} key={strip.name + language.value} />
        ))}
      </div>
      <Scrubber />
    </section>
  );
}

function StripChart({ strip }: { strip: Strip }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = box.current!;
    let plot: uPlot | null = null;
    const style = () => getComputedStyle(element),
      colour = (name: string) => style().getPropertyValue(name).trim();
    const data = (): uPlot.AlignedData => {
      const all = records.value.map((each) => each.strips.value).filter((each): each is Strips => each !== null);
      const columns: (Float64Array | number[])[] = [all[0]?.time ?? new Float64Array(0)];
      for (const line of strip.lines) columns.push(all[0] ? line.values(all[0]) : new Float64Array(0));
      if (all[1]) for (const line of strip.lines) columns.push(line.values(all[1]));
      return columns as unknown as uPlot.AlignedData;
    };
    const make = () => {
      plot?.destroy();
      element.replaceChildren();
      const soft = colour("--soft"),
        second = records.value.length > 1;
      const series = (isSecond: boolean): uPlot.Series[] =>
        strip.lines.map((line) => ({
          label: say(line.name),
          stroke: colour(line.colour),
          width: isSecond ? 1 : 1.5,
          dash: isSecond ? [2, 4] : line.dash,
          points: { show: false },
          alpha: isSecond ? 0.8 : 1,
          fill: line.isBars || strip.lines.length === 1 ? `${colour(line.colour)}44` : undefined,
          paths: line.isBars ? uPlot.paths.stepped!({ align: -1 }) : undefined,
        }));
      plot = new uPlot(
        {
          width: Math.max(120, element.clientWidth),
          height: Math.max(48, element.clientHeight),
          padding: [6, 6, 6, 0],
          legend: { show: false },
          cursor: { x: false, y: false, points: { show: false }, drag: { setScale: false, x: false, y: false } },
          scales: {
            x: { time: false },
            y: {
              range: (_u, _low, high) => [0, strip.unit === "%" ? Math.max(high * 1.05, 5) : Math.max(high * 1.1, 1)],
            },
          },
          axes: [
            { show: false },
            {
              stroke: soft,
              size: 34,
              space: 24,
              incrs: [1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000],
              font: "10px system-ui",
              grid: { stroke: colour("--line"), width: 1 },
              ticks: { show: false },
            },
          ],
          series: [{}, ...series(false), ...(second ? series(true) : [])],
          hooks: { setSize: [() => mark()], setScale: [() => mark()] },
        },
        data(),
        element,
      );
      line.remove();
      mark();
      let dragging = false;
      const seek = (event: PointerEvent) =>
        goToTime(plot!.posToVal(event.clientX - plot!.over.getBoundingClientRect().left, "x"));
      plot.over.addEventListener("pointerdown", (event) => {
        dragging = true;
        plot!.over.setPointerCapture(event.pointerId);
        seek(event);
      });
      plot.over.addEventListener("pointermove", (event) => dragging && seek(event));
      plot.over.addEventListener("pointerup", () => (dragging = false));
    };
    const line = document.createElement("i");
    line.className = "cursor";
    const mark = () => {
      if (!plot) return;
      if (!line.parentElement) plot.over.append(line);
      line.style.transform = `translateX(${plot.valToPos(timeAt(), "x").toFixed(1)}px)`;
    };
    const observer = new ResizeObserver(() =>
      plot?.setSize({ width: Math.max(120, element.clientWidth), height: Math.max(48, element.clientHeight) }),
    );
    observer.observe(element);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", make);
    const stops = [
      effect(() => {
        void theme.value;
        void records.value.length;
        requestAnimationFrame(make);
      }),
      effect(() => {
        for (const each of records.value) void each.strips.value;
        growth.value;
        if (plot) {
          plot.setData(data());
          mark();
        }
      }),
    ];
    let frame = 0;
    stops.push(
      effect(() => {
        void cursor.value;
        if (!frame)
          frame = requestAnimationFrame(() => {
            frame = 0;
            mark();
          });
      }),
    );
    return () => {
      for (const stop of stops) stop();
      observer.disconnect();
      dark.removeEventListener("change", make);
      plot?.destroy();
    };
  }, []);
  return (
    <figure class="strip" title={strip.note ? say(strip.note) : undefined}>
      <figcaption>
        {say(strip.name)}
        {strip.unit && ` ${strip.unit}`}
        {strip.lines.length > 1 &&
          strip.lines.map((line) => (
            <span key={line.name} class="key" style={{ color: `var(${line.colour})` }}>
              {line.dash ? "┅" : "━"}
              <i>{say(line.name)}</i>
            </span>
          ))}
      </figcaption>
      <div class="plot" ref={box} />
    </figure>
  );
}

export function Scrubber() {
  const { columns } = shown.value!;
  growth.value;
  return (
    <div class="scrub">
      <input
        type="range"
        min={0}
        max={columns.length}
        value={cursor.value}
        aria-label={say("time")}
        aria-valuetext={clock(timeAt())}
        onInput={(event) => goTo(Number(event.currentTarget.value))}
      />
    </div>
  );
}

/** A moment as people read it: the time of day where the record has one, seconds from the start otherwise. */
export function clock(time: number): string {
  const now = shown.value;
  if (!now) return "";
  if (now.meta.epoch) {
    const date = new Date((now.meta.epoch + time) * 1000);
    return `${date.toISOString().slice(0, 10)} ${date.toISOString().slice(11, 21)}Z`;
  }
  const from = time - now.columns.begin,
    days = Math.floor(from / 86400),
    rest = from - days * 86400;
  const two = (value: number) => String(Math.floor(value)).padStart(2, "0");
  return `${days ? `${days} d ` : ""}${two(rest / 3600)}:${two((rest % 3600) / 60)}:${(rest % 60).toFixed(1).padStart(4, "0")}`;
}
