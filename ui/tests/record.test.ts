import assert from "node:assert/strict";
import { test } from "node:test";
import { cursorOf, momentOf } from "../src/address";
import { harmless, parsed } from "../src/columns";
import { State, strips } from "../src/state";
import { evictions, headline, highlights, openingCursor } from "../src/story";
import { columns, message, RECORD } from "./making";

function whole() {
  const found = columns();
  assert.equal(found.take(message(RECORD)), true);
  return found;
}

test("columns are what the server sent", () => {
  const found = whole();
  assert.equal(found.length, 10);
  assert.deepEqual(found.have(), [9, 2, 3, 3, 2, 2, 4, 3, 4, 3, 10]);
  assert.equal(found.podName(1), "shop/large");
  assert.equal(found.request(2, 0), 6000);
  assert.equal(found.texts[found.label(1, 1)], "two");
  assert.equal(found.eventAfter(1), 4);
});

test("columns grow by what comes", () => {
  const found = columns();
  found.take(message({ ...RECORD, events: RECORD.events.slice(0, 4) }));
  found.take(message({ events: RECORD.events.slice(4) }));
  assert.equal(found.length, 10);
  assert.equal(found.take(message({ events: [] })), false);
});

test("an instant is the same, forwards and backwards", () => {
  const found = whole();
  const [ahead, back] = [new State(found), new State(found)];
  back.goTo(found.length);
  for (let at = found.length; at >= 0; at--) {
    back.goTo(at);
    const fresh = new State(found);
    fresh.goTo(at);
    assert.deepEqual([...back.podNode], [...fresh.podNode], `pods after ${at} events`);
    assert.deepEqual([...back.used[0]], [...fresh.used[0]], `use after ${at} events`);
    assert.deepEqual([back.nodes, back.running, ...back.pending], [fresh.nodes, fresh.running, ...fresh.pending]);
  }
  ahead.goTo(4);
  assert.equal(ahead.share(1, 0), 1000 / 8000);
});

test("strips count what happened", () => {
  const found = whole();
  const made = strips(found, new State(found));
  const total = (values: Float64Array) => values.reduce((sum, each) => sum + each, 0);
  assert.deepEqual([total(made.placed), total(made.refused), total(made.evicted)], [1, 1, 1]);
  assert.equal(made.waiting[2][made.time.length - 1], 1);
});

test("the story is a preemption and a lost node, and the page opens at the first", () => {
  const found = whole();
  const all = highlights(found);
  assert.deepEqual(
    all.map((each) => [each.kind, each.cursor, each.n]),
    [
      ["preemption", 9, 1],
      ["nodeLost", 10, 0],
    ],
  );
  assert.equal(evictions(found, 6), 1);
  assert.equal(openingCursor(all), 9);
});

test("the headline says that a pod asks for more than any node has free", () => {
  const state = new State(whole());
  state.goTo(9);
  const found = headline(state);
  assert.deepEqual([found.waiting, found.tooLarge, found.resource], [1, 1, 0]);
});

test("an address holds the moment by time, also within a moment", () => {
  const found = whole();
  for (let at = 0; at <= found.length; at++) assert.equal(cursorOf(found, momentOf(found, at)), at, `after ${at}`);
  assert.equal(momentOf(found, 9), "3");
  assert.equal(momentOf(found, 8), "3,2");
  assert.equal(cursorOf(found, "end"), 10);
  assert.equal(cursorOf(found, "nonsense"), -1);
});

test("names cannot turn the direction of the page", () => {
  assert.equal(harmless("a\u202eb"), "a\\u202eb");
  assert.deepEqual(parsed('{"x":"a\u202eb","y":[1]}'), { x: "a\\u202eb", y: [1] });
});
