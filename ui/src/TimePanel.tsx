// Time: strips on one axis, with one cursor through all of them. Click to go there, drag to look closer.
import { computed, effect, signal, untracked } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { secondCursor } from "./ComparePanel";
import { type Columns, Kind } from "./columns";
import { titleOf } from "./Headline";
import type { Key } from "./messages/en";
import { type ColourName, THEMES, type Theme } from "./palette";
import { SvgCanvas } from "./svg";
import {
  cursor,
  goTo,
  goToEnd,
  goToTime,
  growth,
  isCompared,
  range,
  records,
  type Shown,
  seenTheme,
  shown,
  timeAt,
  timeOf,
} from "./view";
import { clock, count, language, say } from "./words";

interface Series {
  time: ArrayLike<number>;
  values: ArrayLike<number>;
}
interface Line {
  name: Key;
  colour: ColourName;
  of: (record: Shown) => Series | null;
  isBars?: boolean;
  dash?: number[];
}
interface Strip {
  name: Key;
  unit: "" | "%";
  note?: Key;
  lines: Line[];
}

const strip = (values: (found: NonNullable<Shown["strips"]["value"]>) => Float64Array) => (record: Shown) => {
  const found = record.strips.value;
  return found && { time: found.time, values: values(found) };
};
const measured = (name: "cpu" | "memory") => (record: Shown) => {
  const found = record.measured.value;
  return found && { time: found.time, values: found[name].map((each) => 100 * each) };
};
const DASH = [5, 3];

const STRIPS: Strip[] = [
  {
    name: "strip.use",
    unit: "%",
    lines: [
      { name: "cpu", colour: "s1", of: strip((s) => s.cpu) },
      { name: "memory", colour: "s2", of: strip((s) => s.memory), dash: DASH },
    ],
  },
  {
    name: "strip.waiting",
    unit: "",
    lines: [
      { name: "place.active", colour: "s3", of: strip((s) => s.waiting[0]) },
      { name: "place.backoff", colour: "s4", of: strip((s) => s.waiting[1]), dash: [2, 2] },
      { name: "place.unschedulable", colour: "s5", of: strip((s) => s.waiting[2]), dash: [6, 3] },
      { name: "place.gated", colour: "s6", of: strip((s) => s.waiting[3]), dash: [1, 3] },
    ],
  },
  {
    name: "strip.decisions",
    unit: "",
    lines: [
      { name: "outcome.scheduled", colour: "s3", of: strip((s) => s.placed), isBars: true },
      { name: "outcome.unschedulable", colour: "s5", of: strip((s) => s.refused), isBars: true },
      { name: "strip.evictions", colour: "s1", of: strip((s) => s.evicted), isBars: true },
    ],
  },
  {
    name: "strip.unusable",
    unit: "%",
    note: "strip.unusableNote",
    lines: [
      { name: "cpu", colour: "s1", of: measured("cpu") },
      { name: "memory", colour: "s2", of: measured("memory"), dash: DASH },
    ],
  },
];

/** The length of what is shown, in seconds: of two records the longer one. Each has a clock of its own. */
const span = computed(() => {
  growth.value;
  return Math.max(1e-6, ...records.value.map(({ columns }) => columns.end - columns.begin));
});
const many = computed(() => records.value.length);
const hoverTime = signal<number | null>(null); // since the beginning, under the pointer

/** A count that is nothing all the time is not drawn: it would hide the others. */
function isNothing(strip: Strip, line: Line): boolean {
  if (strip.unit === "%") return false;
  return records.value.every(
    (record) => !line.of(record)?.values || !Array.from(line.of(record)!.values).some(Boolean),
  );
}

/** The value of a series at a time since the record's beginning: the last one before. */
function valueAt(record: Shown, line: Line, time: number): number | null {
  const found = line.of(record);
  if (!found?.time.length) return null;
  let [low, high] = [0, found.time.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (found.time[middle] - record.columns.begin >= time - 1e-9) high = middle;
    else low = middle + 1;
  }
  return found.values[low] ?? null;
}

/** The strips as SVG: for a report. */
export function stripsSvg(): string {
  const colours = THEMES[seenTheme.value];
  const [width, each, left] = [900, 130, 44];
  const picture = new SvgCanvas(width, each * STRIPS.length);
  picture.fillStyle = colours.panel;
  picture.fillRect(0, 0, width, each * STRIPS.length);
  const { begin } = shown.value!.columns;
  STRIPS.forEach((strip, i) => {
    const [top, high] = [i * each + 22, each - 34];
    const series = strip.lines.map((line) => line.of(shown.value!));
    const most = Math.max(1, ...series.flatMap((found) => (found ? Array.from(found.values) : [])));
    picture.font = "600 11px system-ui";
    picture.fillStyle = colours.soft;
    picture.fillText(`${say(strip.name)} ${strip.unit}`, left, top - 10);
    picture.font = "10px system-ui";
    picture.fillText(String(Math.round(most)), 8, top + 4);
    picture.fillText("0", 8, top + high);
    picture.strokeStyle = colours.line;
    picture.strokeRect(left, top, width - left - 8, high);
    strip.lines.forEach((line, row) => {
      const found = series[row];
      picture.strokeStyle = picture.fillStyle = colours[line.colour];
      picture.fillText(`— ${say(line.name)}`, left + 200 + 130 * row, top - 10);
      if (!found) return;
      picture.beginPath();
      Array.from(found.values).forEach((value, at) => {
        const x = left + ((width - left - 8) * (found.time[at] - begin)) / span.value;
        picture.lineTo(x, top + high * (1 - value / most));
      });
      picture.stroke();
    });
  });
  return picture.text();
}

export function TimePanel() {
  return (
    <section class="panel timePanel" aria-label={say("view.time")}>
      <div class="strips">
        {STRIPS.map((each, i) => (
          <StripRow strip={each} isLast={i === STRIPS.length - 1} key={each.name} />
        ))}
      </div>
      <Scrubber />
    </section>
  );
}

function StripRow({ strip, isLast }: { strip: Strip; isLast: boolean }) {
  return (
    <figure class={isLast ? "strip last" : "strip"} title={strip.note ? say(strip.note) : undefined}>
      <StripKey strip={strip} />
      <StripChart strip={strip} isLast={isLast} key={`${language.value}${isCompared()}`} />
    </figure>
  );
}

/** The names of the lines, with their values under the pointer, or at the cursor. */
function StripKey({ strip }: { strip: Strip }) {
  growth.value;
  void cursor.value;
  const [one, other] = records.value;
  const time = hoverTime.value ?? timeAt() - one.columns.begin;
  const there = hoverTime.value ?? (other ? timeOf(other.columns, secondCursor()) - other.columns.begin : 0);
  const some = strip.lines.filter((line) => !isNothing(strip, line));
  const lines = some.length ? some : strip.lines.slice(0, 1);
  const text = (value: number | null) =>
    value === null ? "" : strip.unit === "%" ? `${value < 10 ? value.toFixed(1) : Math.round(value)} %` : count(value);
  return (
    <figcaption>
      <strong>{say(strip.name)}</strong>
      <span class="keys">
        {lines.map((line) => {
          const value = valueAt(one, line, time);
          return (
            <span key={line.name} class={value ? "key" : "key zero"}>
              <svg width="14" height="8" aria-hidden="true">
                <path
                  d="M0 4h14"
                  stroke={`var(--${line.colour})`}
                  stroke-width="3"
                  stroke-dasharray={line.dash?.join()}
                />
              </svg>
              <span class="word">{say(line.name)}</span> <b>{text(value)}</b>
              {other && <b class="soft">B {text(valueAt(other, line, there))}</b>}
            </span>
          );
        })}
      </span>
    </figcaption>
  );
}

const AXIS = 40; // pixels for the numbers beside a strip
const RIGHT = 10;
const STEPS = [1, 2, 4, 6, 8, 10];

/** The next round number: where a strip ends. */
export function roundUp(high: number, unit: string): number {
  if (unit === "%" && high > 50) return 100;
  const size = 10 ** Math.floor(Math.log10(high));
  return size * (STEPS.find((each) => each * size >= high * 0.999) ?? 10);
}

function StripChart({ strip, isLast }: { strip: Strip; isLast: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = box.current!;
    let plot: uPlot | null = null;
    const data = (): uPlot.AlignedData => {
      const tables = records.value.flatMap((record) =>
        strip.lines.map((line) => {
          const found = line.of(record);
          const time = found
            ? Float64Array.from(found.time, (each) => each - record.columns.begin)
            : new Float64Array(0);
          return [time, found?.values ?? []] as unknown as uPlot.AlignedData;
        }),
      );
      return uPlot.join(tables);
    };
    let drawn = ""; // the lines that there are
    const size = () => ({ width: Math.max(120, element.clientWidth), height: Math.max(30, element.clientHeight) });
    const seek = (event: PointerEvent) => {
      const time = plot!.posToVal(event.clientX - plot!.over.getBoundingClientRect().left, "x");
      goToTime(time + shown.value!.columns.begin);
    };
    const make = () => {
      plot?.destroy();
      drawn = strip.lines
        .filter((line) => !isNothing(strip, line))
        .map((line) => line.name)
        .join();
      element.replaceChildren();
      const colours = THEMES[seenTheme.value];
      const soft = { stroke: colours.soft, font: "11px system-ui", ticks: { show: false } };
      const grid = { stroke: colours.line, width: 1 };
      const series = (isSecond: boolean): uPlot.Series[] =>
        strip.lines.map((line) => ({
          stroke: colours[line.colour],
          width: isSecond ? 1 : 1.5,
          dash: isSecond ? [2, 4] : line.dash,
          points: { show: false },
          alpha: isSecond ? 0.8 : 1,
          spanGaps: true,
          show: !isNothing(strip, line),
          fill: isSecond ? undefined : `${colours[line.colour]}${line.isBars ? "55" : "1f"}`,
          paths: line.isBars ? uPlot.paths.stepped!({ align: -1 }) : undefined,
        }));
      plot = new uPlot(
        {
          ...size(),
          padding: [5, RIGHT, isLast ? 0 : 3, 0],
          legend: { show: false },
          cursor: {
            y: false,
            points: { size: 5 },
            sync: { key: "time", setSeries: false },
            drag: { x: true, y: false, setScale: false, dist: 6 },
            bind: { dblclick: () => () => null },
          },
          scales: {
            x: { time: false, range: () => range.value ?? [0, span.value] },
            y: { range: (_u, _low, high) => [0, roundUp(Math.max(high, 1), strip.unit)] },
          },
          axes: [
            {
              ...soft,
              show: isLast,
              size: 20,
              gap: 3,
              space: 90,
              grid,
              values: (_u, splits) => splits.map((each) => tick(each, splits[1] - splits[0])),
            },
            {
              ...soft,
              size: AXIS,
              gap: 4,
              grid,
              splits: (u) => [0, (u.scales.y.max ?? 1) / 2, u.scales.y.max ?? 1],
              values: (_u, [, , most]) => ["", "", most >= 10_000 ? `${most / 1000}k` : `${most}${strip.unit}`],
            },
          ],
          series: [{}, ...series(false), ...(isCompared() ? series(true) : [])],
          hooks: {
            setSize: [mark],
            setScale: [mark],
            setCursor: [
              (u) => {
                const left = u.cursor.left ?? -1;
                hoverTime.value = left < 0 ? null : u.posToVal(left, "x");
              },
            ],
            setSelect: [
              (u) => {
                if (u.select.width < 6) return;
                range.value = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
                u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
              },
            ],
          },
        },
        data(),
        element,
      );
      for (const each of lines) each.remove();
      mark();
      let from = 0;
      plot.over.addEventListener("pointerdown", (event) => (from = event.clientX));
      plot.over.addEventListener("pointerup", (event) => Math.abs(event.clientX - from) < 6 && seek(event));
      plot.over.addEventListener("dblclick", () => (range.value = null));
    };
    const lines = ["cursor", "cursor second"].map((name) => {
      const made = document.createElement("i");
      made.className = name;
      return made;
    });
    const mark = () => {
      if (!plot) return;
      records.value.slice(0, 2).forEach((record, i) => {
        if (!lines[i].parentElement) plot!.over.append(lines[i]);
        const at = i ? timeOf(record.columns, secondCursor()) : timeAt();
        const left = plot!.valToPos(at - record.columns.begin, "x");
        lines[i].hidden = left < -1 || left > plot!.over.clientWidth + 1;
        lines[i].style.transform = `translateX(${left.toFixed(1)}px)`;
      });
    };
    const observer = new ResizeObserver(() => plot?.setSize(size()));
    observer.observe(element);
    let frame = 0;
    const stops = [
      effect(() => {
        void [seenTheme.value, many.value];
        requestAnimationFrame(make);
      }),
      effect(() => {
        for (const each of records.value) void [each.strips.value, each.measured.value];
        void [growth.value, span.value];
        const now = strip.lines
          .filter((line) => !isNothing(strip, line))
          .map((line) => line.name)
          .join();
        if (plot && now !== drawn)
          untracked(make); // other lines than before
        else plot?.setData(data());
        untracked(mark); // a moving cursor moves its line; it must not draw the strips anew
      }),
      effect(() => {
        const [low, high] = range.value ?? [0, span.value];
        plot?.setScale("x", { min: low, max: high });
      }),
      effect(() => {
        void cursor.value;
        if (frame) return;
        frame = requestAnimationFrame(() => {
          frame = 0;
          mark();
        });
      }),
    ];
    return () => {
      for (const stop of stops) stop();
      observer.disconnect();
      plot?.destroy();
    };
  }, []);
  return <div class="plot" ref={box} />;
}

/** A time on the axis: of the day where the record has one, from the beginning otherwise. */
function tick(time: number, step: number): string {
  const { meta, columns } = shown.value!;
  if (meta.epoch && !isCompared())
    return new Date((meta.epoch + columns.begin + time) * 1000).toISOString().slice(11, 19);
  if (span.value < 120) return `${time.toFixed(Math.min(6, Math.max(0, Math.ceil(-Math.log10(step || 1)))))} s`;
  const [hours, minutes] = [Math.floor(time / 3600), Math.floor((time % 3600) / 60)];
  return `${hours}:${String(minutes).padStart(2, "0")}:${String(Math.floor(time % 60)).padStart(2, "0")}`;
}

/** The slider is as long as the strips and goes by time, with marks where something happened. */
export function Scrubber() {
  const now = shown.value!;
  const { columns, meta } = now;
  growth.value;
  const [from, to] = range.value ?? [0, columns.end - columns.begin];
  const time = timeAt() - columns.begin;
  const high = Math.max(to, from + 1e-6);
  const marks = now.highlights.value
    .map((each) => ({ each, at: timeOf(columns, each.cursor) - columns.begin }))
    .filter(({ at }) => at >= from && at <= to);
  return (
    <div
      class="scrub"
      style={{ "--done": `${(100 * Math.min(1, Math.max(0, (time - from) / (high - from)))).toFixed(2)}%` }}
    >
      <Marks from={from} to={high} />
      <input
        type="range"
        min={from}
        max={high}
        step="any"
        value={cursor.value >= columns.length ? high : Math.min(high, time)}
        aria-label={say("time")}
        aria-valuetext={clock(timeAt(), meta.epoch, columns.begin)}
        onInput={(event) => {
          const value = Number(event.currentTarget.value);
          if (value >= columns.end - columns.begin) goToEnd();
          else if (value <= 0) goTo(0);
          else goToTime(value + columns.begin);
        }}
      />
      <div class="moments">
        {marks.map(({ each, at }) => (
          <button
            type="button"
            key={each.cursor}
            class={each.kind}
            aria-label={titleOf(each)}
            title={titleOf(each)}
            style={{ left: `${(100 * (at - from)) / (high - from)}%` }}
            onClick={() => goTo(each.cursor)}
          />
        ))}
      </div>
      {range.value && (
        <button type="button" class="wholeTime" onClick={() => (range.value = null)}>
          {say("time.whole")}
        </button>
      )}
    </div>
  );
}

/** A line for each pixel of time in which a pod was refused or evicted, or a node was lost. */
function Marks({ from, to }: { from: number; to: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { columns } = shown.value!;
  const theme = seenTheme.value;
  useEffect(() => {
    const element = canvas.current!;
    const observer = new ResizeObserver(() => drawMarks(element, columns, from, to, theme));
    observer.observe(element);
    return () => observer.disconnect();
  }, [columns, columns.length, from, to, theme]);
  return <canvas class="marks" ref={canvas} />;
}

function drawMarks(element: HTMLCanvasElement, columns: Columns, from: number, to: number, theme: Theme): void {
  const width = Math.max(1, element.clientWidth);
  element.width = width;
  element.height = 8;
  const context = element.getContext("2d")!;
  const colours = THEMES[theme];
  const { kind, aux, time } = columns.events;
  const seen = new Uint8Array(width);
  for (let event = 0; event < columns.length; event++) {
    const what = kind.data[event];
    const isRefusal = what === Kind.ATTEMPT && (aux.data[event] & 7) === 1;
    const level = what === Kind.NODE_GONE ? 3 : what === Kind.EVICTED ? 2 : isRefusal ? 1 : 0;
    if (!level) continue;
    const x = Math.floor((width * (time.data[event] - columns.begin - from)) / (to - from));
    if (x >= 0 && x < width) seen[x] = Math.max(seen[x], level);
  }
  seen.forEach((level, x) => {
    if (!level) return;
    context.fillStyle = [colours.s5, colours.s1, colours.text][level - 1];
    context.fillRect(x, 0, 1, 8);
  });
}
