// One palette for everything that is drawn: the style sheet's variables and what the canvases paint with.
import colours from "../../src/mooring/show/palette.json";

/** Names as the style sheet has them, without the dashes. Reports are drawn with the same colours. */
export const THEMES: { light: typeof colours.light; dark: typeof colours.light } = colours;
export type ColourName = keyof typeof colours.light;
export type Theme = keyof typeof THEMES;

/** The chosen node: a colour that no refusal has, always with a dark line around it. */
export const CHOSEN = "#ffd400";

/** What each filter refused. White text on each is readable (WCAG AA); each has a hatching of its own, too. */
export const REFUSALS = [
  "#b84a00",
  "#7a55c7",
  "#c03a78",
  "#2f6db5",
  "#8a5a2b",
  "#5f6b7d",
  "#b03048",
  "#6f6410",
] as const;

/** The angle in degrees and the distance in pixels of each refusal's hatching. */
export const HATCHES = [
  [45, 6],
  [-45, 6],
  [0, 5],
  [90, 5],
  [45, 10],
  [-45, 10],
  [0, 9],
  [90, 9],
] as const;

/** For things that have names rather than amounts, such as namespaces. After Okabe and Ito, and Paul Tol. */
export const NAMED = [
  "#4477aa",
  "#cc6677",
  "#117733",
  "#b58900",
  "#882255",
  "#44aa99",
  "#8b6f47",
  "#6a51a3",
  "#e3b7cf",
  "#d95f02",
  "#6b7a8f",
  "#a6443b",
];

/** One hue from empty to full: lightness alone tells it. On white, full is dark; on black, full is bright. */
const STOPS: Record<Theme, string[]> = {
  light: ["#d9f0e8", "#a3dcca", "#5cc1ab", "#1c9c8a", "#007367", "#00484a"],
  dark: ["#17383d", "#1c5a5a", "#238a7c", "#54b68e", "#9edba4", "#d6f5c9"],
};

export type Rgb = [number, number, number];
export const rgb = (colour: string): Rgb => [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16)) as Rgb;
const hex = (parts: number[]) => `#${parts.map((each) => Math.round(each).toString(16).padStart(2, "0")).join("")}`;

/** Between two colours: 0 is the first, 1 the second. */
export const mixed = (first: string, second: string, share: number) => {
  const [a, b] = [rgb(first), rgb(second)];
  return hex(a.map((value, channel) => value + (b[channel] - value) * share));
};

export function heat(share: number, theme: Theme): string {
  const stops = STOPS[theme];
  const at = Math.max(0, Math.min(0.9999, share)) * (stops.length - 1);
  return mixed(stops[Math.floor(at)], stops[Math.floor(at) + 1], at - Math.floor(at));
}

export const LEVELS = 24; // of use and of scores
export const HEATS: Record<Theme, string[]> = {
  light: Array.from({ length: LEVELS }, (_, i) => heat(i / (LEVELS - 1), "light")),
  dark: Array.from({ length: LEVELS }, (_, i) => heat(i / (LEVELS - 1), "dark")),
};

/** How bright a colour is for people, from 0 to 1 (WCAG). */
export function luminance(colour: string): number {
  const [red, green, blue] = rgb(colour).map((value) => {
    const share = value / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

export function contrast(first: string, second: string): number {
  const [low, high] = [luminance(first), luminance(second)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

/** Black or white, whichever is easier to read on this colour. */
export const inkOn = (colour: string) =>
  contrast(colour, "#ffffff") >= contrast(colour, "#0b0f16") ? "#fff" : "#0b0f16";

/** Let the style sheet use the palette of a theme. */
export function apply(theme: Theme, element: HTMLElement): void {
  element.style.colorScheme = theme;
  for (const [name, colour] of Object.entries(THEMES[theme])) element.style.setProperty(`--${name}`, colour);
  element.style.setProperty("--chosen", CHOSEN);
}
