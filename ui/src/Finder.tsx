// Find anything: pods, nodes, labels, namespaces and commands, the best first. Ctrl-K, or a slash.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { best } from "./find";
import type { Key } from "./messages/en";
import { Settings } from "./TopBar";
import {
  COLOURINGS,
  camera,
  colouring,
  dialog,
  goTo,
  goToEnd,
  grouping,
  hasStories,
  isGuided,
  isOurs,
  onceWhole,
  selectNode,
  selectPod,
  shown,
  tab,
  theme,
  WHOLE,
} from "./view";
import { say } from "./words";

interface Hit {
  kind: Key;
  text: string;
  act: () => void;
}
const MOST_EACH = 6;
const MOST = 14;

interface Index {
  pods: string[]; // in lower case
  nodes: string[];
  labels: { text: string; key: string }[];
  namespaces: string[];
  length: number;
}

/** Everything that has a name. */
function indexed(): Index {
  const { columns } = shown.value!;
  const labels = new Map<string, { text: string; key: string }>();
  const { key, value } = columns.labels;
  for (let i = 0; i < key.length; i++) {
    const text = `${columns.texts[key.data[i]]}=${columns.texts[value.data[i]]}`;
    if (!labels.has(text)) labels.set(text, { text, key: columns.texts[key.data[i]] });
  }
  return {
    pods: columns.podNames.map((name) => name.toLowerCase()),
    nodes: columns.nodes.map((name) => name.toLowerCase()),
    labels: [...labels.values()].filter(({ key: name }) => name !== "kubernetes.io/hostname"),
    namespaces: [...new Set(columns.podNames.map((name) => name.slice(0, name.indexOf("/"))))].filter(Boolean),
    length: columns.podNames.length,
  };
}

function commands(): Hit[] {
  const command = (key: Key, act: () => void): Hit => ({ kind: "find.command", text: say(key), act });
  return [
    command("find.guide", () => (isGuided.value = !isGuided.value)),
    command("find.begin", () => goTo(0)),
    command("find.end", goToEnd),
    command("find.fit", () => (camera.value = WHOLE)),
    command("find.keys", () => (dialog.value = "keys")),
    command("find.save", () => (tab.value = "save")),
    ...(isOurs.value || hasStories.value ? [command("find.change", () => (tab.value = "change"))] : []),
    command("find.light", () => (theme.value = "light")),
    command("find.dark", () => (theme.value = "dark")),
    ...COLOURINGS.map((each): Hit => {
      const text = say("find.colour", { by: say(`colour.${each}`) });
      return { kind: "find.command", text, act: () => (colouring.value = each) };
    }),
  ];
}

function hits(index: Index, text: string): Hit[] {
  const { columns } = shown.value!;
  const wanted = text.trim().toLowerCase();
  const all = commands();
  if (!wanted) return all;
  const lower = (texts: string[]) => texts.map((each) => each.toLowerCase());
  const pods = columns.pods.name;
  const found = [
    ...best(index.nodes, wanted, MOST_EACH, (i): Hit => {
      return { kind: "find.node", text: columns.nodes[i], act: () => selectNode(i) };
    }),
    ...best(index.pods, wanted, MOST_EACH, (i): Hit => {
      const which = pods.data.subarray(0, pods.length).lastIndexOf(i);
      return { kind: "find.pod", text: columns.podNames[i], act: () => selectPod(which) };
    }),
    ...best(lower(index.namespaces), wanted, MOST_EACH, (i): Hit => {
      return { kind: "find.namespace", text: index.namespaces[i], act: () => (colouring.value = "namespace") };
    }),
    ...best(lower(index.labels.map((each) => each.text)), wanted, MOST_EACH, (i): Hit => {
      const { text: label, key } = index.labels[i];
      return { kind: "find.label", text: label, act: () => (grouping.value = key) };
    }),
    ...best(lower(all.map((each) => each.text)), wanted, MOST_EACH, (i): Hit => all[i]),
  ];
  return found
    .sort((a, b) => a.rank - b.rank)
    .slice(0, MOST)
    .map((each) => each.item);
}

export function Finder() {
  if (dialog.value !== "find") return null;
  return <Open />;
}

function Open() {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  const { columns } = shown.value!;
  const index = useMemo(indexed, [columns, columns.podNames.length]);
  const found = useMemo(() => hits(index, text), [index, text]);
  useLayoutEffect(() => input.current!.focus(), []);
  useEffect(() => document.getElementById(`hit-${at}`)?.scrollIntoView({ block: "nearest" }), [at]);
  const take = (hit: Hit | undefined) => {
    if (!hit) return;
    dialog.value = "";
    onceWhole(hit.act);
  };
  const onKey = (event: KeyboardEvent) => {
    const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in moves) setAt((at + moves[event.key] + found.length) % Math.max(1, found.length));
    else if (event.key === "Enter") take(found[at]);
    else if (event.key === "Escape") dialog.value = "";
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="dialog" role="dialog" aria-modal="true" aria-label={say("find")}>
      <button type="button" class="shade" tabIndex={-1} aria-label={say("close")} onClick={() => (dialog.value = "")} />
      <div class="finder">
        <input
          ref={input}
          id="find"
          type="text"
          role="combobox"
          aria-expanded="true"
          aria-controls="hits"
          aria-activedescendant={found.length ? `hit-${at}` : undefined}
          placeholder={say("find.placeholder")}
          aria-label={say("find.placeholder")}
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={onKey}
        />
        <div id="hits" role="listbox" aria-label={say("find")}>
          {found.map((hit, i) => (
            <div
              key={hit.kind + hit.text}
              tabIndex={-1}
              id={`hit-${i}`}
              role="option"
              aria-selected={i === at}
              onPointerMove={() => setAt(i)}
              onPointerDown={(event) => {
                event.preventDefault();
                take(hit);
              }}
            >
              <span class="kind">{say(hit.kind)}</span>
              <bdi>{hit.text}</bdi>
            </div>
          ))}
        </div>
        {found.length === 0 && <p class="soft empty">{say("find.nothing", { text })}</p>}
      </div>
    </div>
  );
}

const KEYS: [string, Key][] = [
  ["Ctrl K  /", "keys.find"],
  ["?", "keys.keys"],
  ["j  k", "keys.walk"],
  ["←  →", "keys.decision"],
  [",  .", "keys.point"],
  ["h  l", "keys.highlight"],
  ["Space", "keys.play"],
  ["Home  End", "keys.ends"],
  ["+  −  0", "keys.zoom"],
  ["Shift ← ↑ → ↓", "keys.node"],
  ["Enter", "keys.closer"],
  ["Esc", "keys.escape"],
];

/** The keys, on a card. */
export function KeysCard() {
  const close = useRef<HTMLButtonElement>(null);
  const isOpen = dialog.value === "keys";
  useEffect(() => {
    if (isOpen) close.current?.focus();
  }, [isOpen]);
  if (!isOpen) return null;
  return (
    <div class="dialog" role="dialog" aria-modal="true" aria-label={say("keys")}>
      <button type="button" class="shade" tabIndex={-1} aria-label={say("close")} onClick={() => (dialog.value = "")} />
      <div class="keysCard">
        <header>
          <h2>{say("keys")}</h2>
          <button
            type="button"
            ref={close}
            class="quiet push"
            onClick={() => (dialog.value = "")}
            aria-label={say("close")}
          >
            ✕
          </button>
        </header>
        <p class="settings">
          <span class="soft">{say("settings")}</span> <Settings />
        </p>
        <dl>
          {KEYS.map(([keys, what]) => (
            <div key={what}>
              <dt>
                {keys.split("  ").map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </dt>
              <dd>{say(what)}</dd>
            </div>
          ))}
        </dl>
      </div>
    </div>
  );
}
