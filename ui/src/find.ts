// Finding things by a few letters: exact names first, then beginnings, then beginnings of words, then anything inside.

export interface Found<T> {
  item: T;
  text: string;
  rank: number;
}

const NOT = -1;

/** How well a name fits what was typed: 0 is exact, larger is worse, -1 is not at all. Both in lower case. */
export function rank(name: string, wanted: string): number {
  const at = name.indexOf(wanted);
  if (at < 0) return scattered(name, wanted);
  if (name.length === wanted.length) return 0;
  const short = name.slice(name.lastIndexOf("/") + 1);
  if (short === wanted) return 1;
  const tail = (name.length - wanted.length) / 10_000;
  if (short.startsWith(wanted)) return 2 + tail;
  if (at === 0) return 3 + tail;
  if (/[^a-z0-9]/.test(name[at - 1])) return 4 + tail;
  return 5 + at / 1_000 + tail;
}

/** All letters in their order, with others between them: only for a few letters, and only where each begins a word. */
function scattered(name: string, wanted: string): number {
  if (wanted.length < 2 || wanted.length > 8) return NOT;
  let at = 0;
  for (const letter of wanted) {
    let next = name.indexOf(letter, at);
    while (next > 0 && /[a-z0-9]/.test(name[next - 1]) && next !== at) next = name.indexOf(letter, next + 1);
    if (next < 0) return NOT;
    at = next + 1;
  }
  return 8;
}

/** The best few of many names. */
export function best<T>(names: readonly string[], wanted: string, most: number, make: (i: number) => T): Found<T>[] {
  const found: { i: number; rank: number }[] = [];
  for (let i = 0; i < names.length; i++) {
    const now = rank(names[i], wanted);
    if (now === NOT) continue;
    if (found.length === most && now >= found[most - 1].rank) continue;
    let at = found.length;
    while (at > 0 && found[at - 1].rank > now) at--;
    found.splice(at, 0, { i, rank: now });
    if (found.length > most) found.pop();
  }
  return found.map((each) => ({ item: make(each.i), text: names[each.i], rank: each.rank }));
}
