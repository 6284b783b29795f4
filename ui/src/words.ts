// The page's words in three languages, by key. What comes from the cluster is never translated.
import { signal } from "@preact/signals";
import { en, type Key } from "./messages/en";
import { ja } from "./messages/ja";
import { zh } from "./messages/zh";

export const LANGUAGES = { en: "English", ja: "日本語", zh: "中文" } as const;
export type Language = keyof typeof LANGUAGES;
/** A text, or one for each form of the plural of ``n`` that the language has. */
export type Message = string | (Partial<Record<Intl.LDMLPluralRule, string>> & { other: string });
export type Values = Record<string, string | number>;
const TABLES: Record<Language, Record<Key, Message>> = { en, ja, zh };

function preferred(): Language {
  const found = navigator.languages.map((each) => each.slice(0, 2)).find((each) => each in LANGUAGES);
  return (found as Language) ?? "en";
}

export const language = signal<Language>(preferred());
const rules = new Map<Language, Intl.PluralRules>();

/** A name that is written from right to left stays by itself within a sentence. */
const isolated = (text: string) => (/[\u0590-\u08ff\ufb1d-\ufefc]/.test(text) ? `\u2068${text}\u2069` : text);

/** The words for a number of things, of the forms that a language has. */
export function formed(message: Message, values: Values, of: Language): string {
  if (!rules.has(of)) rules.set(of, new Intl.PluralRules(of));
  const form =
    typeof message === "string" ? message : (message[rules.get(of)!.select(Number(values.n))] ?? message.other);
  return form.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name];
    return value === undefined ? whole : typeof value === "number" ? value.toLocaleString(of) : isolated(value);
  });
}

/** A message in the page's language, with names in braces filled in. */
export function say(key: Key, values: Values = {}): string {
  return formed(TABLES[language.value][key], values, language.value);
}

export function count(value: number): string {
  return value.toLocaleString(language.value);
}

/** An amount of a resource as people write it. */
export function amount(resource: string, value: number): string {
  if (resource === "cpu") {
    if (value % 1000 === 0) return count(value / 1000);
    return value < 1000 ? `${Math.round(value)}m` : (value / 1000).toFixed(1);
  }
  if (resource !== "memory" && !resource.includes("storage") && !resource.startsWith("hugepages")) return count(value);
  const units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
  let i = 0;
  while (Math.abs(value) >= 1024 && i < units.length - 1) {
    value /= 1024;
    i++;
  }
  return `${value >= 100 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1)}${units[i]}`;
}

export function seconds(value: number): string {
  if (value > 0 && value < 0.1) return `${Math.ceil(value * 1000)} ms`;
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 120) return `${Math.round(value)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  return `${(value / 3600).toFixed(1)} h`;
}

const two = (value: number) => String(Math.floor(value)).padStart(2, "0");

/** A moment as people read it: the time of day where the record has one, time from the start otherwise. */
export function clock(time: number, epoch: number, begin: number): string {
  if (epoch) {
    const date = new Date((epoch + time) * 1000).toISOString();
    return `${date.slice(0, 10)} ${date.slice(11, 21)}Z`;
  }
  const from = time - begin;
  const days = Math.floor(from / 86400);
  const rest = from - days * 86400;
  const tail = (rest % 60).toFixed(1).padStart(4, "0");
  return `${days ? `${days} d ` : ""}${two(rest / 3600)}:${two((rest % 3600) / 60)}:${tail}`;
}
