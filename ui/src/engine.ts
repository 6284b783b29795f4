// The engine speaks English. Its sentences are recognised by their templates, and said in the page's language.
import { SENTENCES, TITLES } from "./messages/engine";
import { type Language, language, say } from "./words";

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** A template as a pattern: each name in braces is a group. */
const patternOf = (template: string) =>
  new RegExp(`^${escaped(template).replace(/\\\{(\w+)\\\}/g, "(?<$1>.+?)")}$`, "s");

const PATTERNS = Object.values(SENTENCES).map((texts) => ({ pattern: patternOf(texts[0]), texts }));
const NAMES = new Map(TITLES.map((texts) => [texts[0], texts]));
const PLACES: Record<Language, number> = { en: 0, ja: 1, zh: 2 };

/** A sentence of the engine in another language; as it is where nobody knows it. */
export function inLanguage(text: string, to: Language): string {
  if (to === "en") return text;
  for (const { pattern, texts } of PATTERNS) {
    const found = pattern.exec(text)?.groups;
    if (found) return texts[PLACES[to]].replace(/\{(\w+)\}/g, (whole, name: string) => found[name] ?? whole);
  }
  return text;
}

/** The title of a record, which may be that of a story. */
export const titleText = (title: string) => NAMES.get(title)?.[PLACES[language.value]] ?? title;

export const engineText = (text: string) => inLanguage(text, language.value);

export interface Suggestion {
  text: string;
  changes?: string[]; // its parts
  also?: string[]; // other nodes on which the same helps
  aboutNode?: boolean;
  isRequest?: boolean;
  nodes: number[];
  canTry?: boolean;
}

/** A suggestion: what has to change, and for how many nodes that would help. */
export function suggestionText({ text, changes, also, aboutNode, isRequest, nodes }: Suggestion, names: string[]) {
  if (language.value === "en" || !changes) return text;
  const what = changes.map(engineText).join(say("helps.and"));
  if (aboutNode) return also?.length ? what + say("helps.orOn", { nodes: also.join(", ") }) : what;
  if (!isRequest) return what + say("helps.more", { n: nodes.length });
  return (
    what + (nodes.length === 1 ? say("helps.on", { node: names[nodes[0]] }) : say("helps.onAny", { n: nodes.length }))
  );
}
