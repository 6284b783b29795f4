import assert from "node:assert/strict";
import { test } from "node:test";
import { inLanguage } from "../src/engine";
import { best, rank } from "../src/find";
import { type Box, cellAt, laidOut, neighbour, rows } from "../src/layout";
import { SENTENCES } from "../src/messages/engine";
import { CHOSEN, contrast, HATCHES, HEATS, luminance, NAMED, REFUSALS, rgb, THEMES } from "../src/palette";
import { isOnLine, word } from "../src/pixels";
import { boxOfPod, containerBoxes, containersOf, podAt, podBoxes } from "../src/pods";
import { differences } from "../src/scores";
import { State } from "../src/state";
import type { Why } from "../src/view";
import { formed } from "../src/words";
import { columns, message, RECORD } from "./making";

const area = (box: Box) => box.width * box.height;
const overlap = (a: Box, b: Box) =>
  a.x + a.width > b.x + 1e-6 &&
  b.x + b.width > a.x + 1e-6 &&
  a.y + a.height > b.y + 1e-6 &&
  b.y + b.height > a.y + 1e-6;

test("boxes fill the space by weight, in order, without overlapping", () => {
  for (const count of [1, 2, 4, 7, 60]) {
    const weights = Array.from({ length: count }, (_, i) => 1 + ((i * 7) % 5));
    const found = rows(weights, { x: 0, y: 0, width: 900, height: 500 });
    const total = weights.reduce((sum, each) => sum + each, 0);
    found.forEach((box, i) => {
      assert.ok(Math.abs(area(box) - (450_000 * weights[i]) / total) < 1, `area ${i} of ${count}`);
      assert.ok(box.x >= 0 && box.y >= -1e-6 && box.x + box.width < 900.001 && box.y + box.height < 500.001);
      for (const other of found.slice(i + 1)) assert.ok(!overlap(box, other));
    });
  }
});

test("cells use nearly all of the map, for 4 nodes and for 5,000", () => {
  for (const count of [4, 300, 5000]) {
    const nodes = Array.from({ length: count }, (_, i) => i);
    const found = laidOut([{ name: "all", nodes, weights: nodes.map(() => 1) }], 860, 440);
    const used = found.width.reduce((sum, width, i) => sum + width * found.height[i], 0);
    assert.ok(used > 0.85 * 860 * 440, `${count}: ${used / 860 / 440}`);
    const ratio = found.width[0] / found.height[0];
    assert.ok(ratio > 0.4 && ratio < 2.5, `${count}: ${ratio}`);
  }
});

test("a cell is found where it lies, and neighbours are beside it", () => {
  const nodes = [10, 11, 12, 13];
  const found = laidOut([{ name: "all", nodes, weights: [1, 1, 1, 1] }], 400, 420);
  const cell = found.cellOf.get(12)!;
  assert.equal(cellAt(found, found.x[cell] + 5, found.y[cell] + 5), cell);
  assert.equal(cellAt(found, -5, -5), -1);
  const right = neighbour(found, found.cellOf.get(10)!, [1, 0]);
  assert.equal(found.node[right], 11);
  assert.equal(neighbour(found, right, [1, 0]), right);
});

test("colours can be read: text on refusals, and soft text on panels (WCAG AA)", () => {
  for (const colour of REFUSALS) assert.ok(contrast(colour, "#ffffff") >= 4.5, colour);
  for (const theme of Object.values(THEMES))
    for (const name of ["text", "soft", "good", "bad", "wait", "accent", "s1", "s2", "s3", "s4", "s5", "s6"] as const)
      assert.ok(contrast(theme[name], theme.panel) >= 4.5, `${name} ${theme[name]} on ${theme.panel}`);
});

test("full is dark on white and bright on black, each step further than the last", () => {
  for (const [theme, sign] of [
    ["light", -1],
    ["dark", 1],
  ] as const)
    HEATS[theme].slice(1).forEach((colour, i) => {
      assert.ok(sign * (luminance(colour) - luminance(HEATS[theme][i])) > 0, `${theme} ${i}`);
    });
});

// ---- colour vision: what people without one kind of cones see (Viénot, Brettel and Mollon 1999) ----------------------

const linear = (value: number) => (value <= 10.31 ? value / 3294.6 : ((value + 14.025) / 269.025) ** 2.4);
const SEEN = {
  everybody: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopia: [
    [0.11238, 0.88762, 0],
    [0.11238, 0.88762, 0],
    [0.00401, -0.00401, 1],
  ],
  deuteranopia: [
    [0.29275, 0.70725, 0],
    [0.29275, 0.70725, 0],
    [-0.02234, 0.02234, 1],
  ],
} as const;
type Vision = keyof typeof SEEN;

/** A colour as it is seen, in CIE L*a*b*, in which distances are as large as people see them. */
function lab(colour: string, vision: Vision): number[] {
  const light = rgb(colour).map(linear);
  const [r, g, b] = SEEN[vision].map((row) => Math.max(0, row[0] * light[0] + row[1] * light[1] + row[2] * light[2]));
  const [x, y, z] = [
    (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
    0.2126 * r + 0.7152 * g + 0.0722 * b,
    (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
  ].map((value) => (value > 0.008856 ? Math.cbrt(value) : 7.787 * value + 16 / 116));
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}
const apart = (one: string, other: string, vision: Vision) =>
  Math.hypot(...lab(one, vision).map((value, i) => value - lab(other, vision)[i]));
const VISIONS = Object.keys(SEEN) as Vision[];

test("the chosen node looks like no refusal, whatever somebody's colour vision", () => {
  for (const vision of VISIONS)
    for (const colour of REFUSALS)
      assert.ok(apart(CHOSEN, colour, vision) > 40, `${colour}, ${vision}: ${apart(CHOSEN, colour, vision)}`);
});

test("refusals differ by colour or by the angle or the distance of their lines, whatever somebody's colour vision", () => {
  assert.equal(new Set(HATCHES.map(String)).size, REFUSALS.length);
  for (const vision of VISIONS)
    REFUSALS.forEach((colour, i) => {
      for (let j = 0; j < i; j++) {
        const isOtherAngle = HATCHES[i][0] !== HATCHES[j][0];
        const far = apart(colour, REFUSALS[j], vision);
        assert.ok(far > (isOtherAngle ? 2 : 12), `${i + 1} and ${j + 1}, ${vision}: ${far}`);
      }
    });
});

test("how full a node is can be told by lightness alone, whatever somebody's colour vision", () => {
  for (const vision of VISIONS)
    for (const theme of ["light", "dark"] as const) {
      const lightness = HEATS[theme].map((colour) => lab(colour, vision)[0]);
      const sign = theme === "light" ? -1 : 1;
      lightness.slice(1).forEach((value, i) => {
        assert.ok(sign * (value - lightness[i]) > 0.5, `${theme} ${i}, ${vision}`);
      });
      assert.ok(Math.abs(lightness[lightness.length - 1] - lightness[0]) > 50, `${theme}, ${vision}`);
    }
});

test("names have colours that differ: six for everybody, all twelve for most people", () => {
  for (const vision of VISIONS)
    NAMED.slice(0, vision === "everybody" ? 12 : 6).forEach((colour, i) => {
      for (let j = 0; j < i; j++) {
        const far = apart(colour, NAMED[j], vision);
        assert.ok(far > (vision === "everybody" ? 18 : 11), `${i} and ${j}, ${vision}: ${far}`);
      }
    });
});

test("names are found by rank: exact, beginning, word, inside", () => {
  const names = ["shop/shop-149000", "shop/shop-149", "a/my-shop-149-x", "a/xshop-149"];
  const found = best(names, "shop-149", 9, (i) => names[i]);
  assert.deepEqual(
    found.map((each) => each.item),
    ["shop/shop-149", "shop/shop-149000", "a/my-shop-149-x", "a/xshop-149"],
  );
  assert.equal(rank("node-1", "zzz"), -1);
  assert.equal(best(names, "shop", 2, (i) => i).length, 2);
});

test("scores are differences from the winner, and constants are told once", () => {
  const told = {
    node: 2,
    plugins: ["Fit", "Taints", "Spread"],
    best: [
      { node: 2, total: 472, shares: [72, 300, 100] },
      { node: 5, total: 471, shares: [71, 300, 100] },
    ],
  } as unknown as Why;
  const found = differences(told);
  assert.deepEqual(found.plugins, ["Fit"]);
  assert.deepEqual(found.constants, [
    ["Taints", 300],
    ["Spread", 100],
  ]);
  assert.deepEqual(
    found.rows.map((row) => [row.node, row.total, row.shares]),
    [
      [2, 472, [72]],
      [5, -1, [-1]],
    ],
  );
});

test("plurals follow the rules of the language", () => {
  const pods = { one: "{n} pod", other: "{n} pods" };
  assert.equal(formed(pods, { n: 1 }, "en"), "1 pod");
  assert.equal(formed(pods, { n: 0 }, "en"), "0 pods");
  assert.equal(formed(pods, { n: 5000 }, "en"), "5,000 pods");
  assert.equal(formed("{n} 个 Pod", { n: 1 }, "zh"), "1 个 Pod");
  assert.equal(formed("{a} {b}", { a: "{b}", b: "x" }, "en"), "{b} x");
  assert.equal(formed("{a}: 1", { a: "\u05d0\u05d1" }, "en"), "\u2068\u05d0\u05d1\u2069: 1"); // right to left
});

test("a pod without requests can be seen and hit", () => {
  const found = columns();
  const events = [...RECORD.events.slice(0, 2), [1, 5, 0, 1, 0, 0, 0]];
  found.take(message({ ...RECORD, requests: [], events }));
  const state = new State(found);
  state.goTo(3);
  const { pods, boxes } = podBoxes(state, 1, 0, 200, 100);
  assert.deepEqual([...pods], [0]);
  const [width, height] = [200 * boxes[0].width, 100 * boxes[0].height];
  assert.ok(width > 5 && height > 5, `${width} by ${height}`);
  assert.equal(podAt(state, 1, 0, { width: 206, height: 121 }, 3 + width / 2, 103 - height / 2), 0);
});

test("a pod has its containers in it, as large as their requests", () => {
  const found = columns();
  found.take(message({ ...RECORD, events: RECORD.events.slice(0, 6) }));
  const state = new State(found);
  state.goTo(6);
  assert.deepEqual(
    containersOf(state, 2).map((each) => [each.name, each.requests, each.role]),
    [
      ["app", "cpu 4.5", 0],
      ["proxy", "cpu 1.5", 1],
      ["prepare", "cpu 500m", 2],
    ],
  );
  const boxes = containerBoxes(state, 2, 0, { x: 0, y: 0, width: 300, height: 100 });
  assert.ok(Math.abs(area(boxes[0]) / area(boxes[1]) - 3) < 0.01);
  assert.ok(area(boxes[2]) > 0.1 * area(boxes[0])); // however little it asks for
  assert.equal(containersOf(state, 0)[0].requests, "");
  const inside = boxOfPod(state, 1, 2, 0, { width: 200, height: 121 })!;
  assert.equal(podAt(state, 1, 0, { width: 200, height: 121 }, inside.x + 2, inside.y + 2), 2);
  assert.equal(boxOfPod(state, 1, 0, 0, { width: 200, height: 121 }), null); // it has left
});

test("nodes of a few sizes lie in bands of cells that are alike", () => {
  const weights = Array.from({ length: 90 }, (_, i) => [64, 32, 16][i % 3]);
  const found = laidOut([{ name: "all", nodes: weights.map((_, i) => i), weights }], 800, 420);
  for (const size of [64, 32, 16]) {
    const cells = weights.flatMap((each, i) => (each === size ? [i] : []));
    assert.equal(new Set(cells.map((i) => Math.round(found.width[i]))).size, 1, `${size}`);
    const share = (found.width[cells[0]] * found.height[cells[0]]) / (found.width[0] * found.height[0]);
    assert.ok(Math.abs(share - size / 64) < 0.15 * (size / 64), `${size}: ${share}`);
  }
  assert.ok(found.typical > 20);
});

test("a colour is four bytes of an image, and hatchings differ", () => {
  assert.deepEqual([...new Uint8Array(new Uint32Array([word("#102030")]).buffer)], [16, 32, 48, 255]);
  const lines = HATCHES.map((_, i) =>
    Array.from({ length: 400 }, (_, at) => Number(isOnLine(i, at % 20, at / 20))).join(""),
  );
  assert.equal(new Set(lines).size, HATCHES.length);
});

test("what the engine says is said in other languages, with the same names in it", () => {
  for (const [key, texts] of Object.entries(SENTENCES)) {
    const names = [...texts[0].matchAll(/\{(\w+)\}/g)].map((each) => each[1]);
    const filled = (text: string) => text.replace(/\{(\w+)\}/g, (_, name: string) => `<${names.indexOf(name)}>`);
    for (const [i, to] of (["ja", "zh"] as const).entries())
      assert.equal(inLanguage(filled(texts[0]), to), filled(texts[1 + i]), `${key} in ${to}`);
    assert.equal(inLanguage(filled(texts[0]), "en"), filled(texts[0]));
  }
  assert.equal(inLanguage("2 less CPU (1 instead of 3)", "ja"), "CPU の要求を 2 減らす（3 ではなく 1）");
  assert.equal(inLanguage("something that nobody knows", "zh"), "something that nobody knows");
});
