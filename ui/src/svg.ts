// A canvas that writes SVG: as much of it as the map is painted with.

const SIGNS: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text: string) => text.replace(/[&<>"]/g, (each) => SIGNS[each]);
const n = (value: number) => String(Math.round(value * 100) / 100);

/** An element with its attributes; those that are empty are left out. */
function element(name: string, attributes: Record<string, string | number | undefined>, content?: string): string {
  const all = Object.entries(attributes)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([key, value]) => ` ${key}="${typeof value === "number" ? n(value) : escaped(value!)}"`)
    .join("");
  return content === undefined ? `<${name}${all}/>` : `<${name}${all}>${content}</${name}>`;
}

export class SvgCanvas {
  fillStyle = "#000";
  strokeStyle = "#000";
  lineWidth = 1;
  font = "12px sans-serif";
  textAlign = "left";
  textBaseline = "middle";
  globalAlpha = 1;
  private parts: string[] = [];
  private path = "";
  private dash = "";
  constructor(
    private width: number,
    private height: number,
  ) {}

  setTransform(): void {} // one pixel is one pixel here
  setLineDash(lengths: number[]): void {
    this.dash = lengths.join();
  }
  private get opacity(): number | undefined {
    return this.globalAlpha < 1 ? this.globalAlpha : undefined;
  }
  private get stroked() {
    return { fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, opacity: this.opacity };
  }
  fillRect(x: number, y: number, width: number, height: number): void {
    if (width <= 0 || height <= 0) return;
    this.parts.push(element("rect", { x, y, width, height, fill: this.fillStyle, opacity: this.opacity }));
  }
  strokeRect(x: number, y: number, width: number, height: number): void {
    this.parts.push(element("rect", { x, y, width, height, ...this.stroked, "stroke-dasharray": this.dash }));
  }
  beginPath(): void {
    this.path = "";
  }
  moveTo(x: number, y: number): void {
    this.path += `M${n(x)} ${n(y)}`;
  }
  lineTo(x: number, y: number): void {
    this.path += `${this.path ? "L" : "M"}${n(x)} ${n(y)}`;
  }
  closePath(): void {
    this.path += "Z";
  }
  arc(x: number, y: number, radius: number): void {
    const half = (across: number) => `a${n(radius)} ${n(radius)} 0 1 0 ${n(across)} 0`;
    this.path += `M${n(x - radius)} ${n(y)}${half(2 * radius)}${half(-2 * radius)}Z`;
  }
  fill(): void {
    this.parts.push(element("path", { d: this.path, fill: this.fillStyle, opacity: this.opacity }));
  }
  stroke(): void {
    this.parts.push(element("path", { d: this.path, ...this.stroked }));
  }
  fillText(text: string, x: number, y: number): void {
    if (!text) return;
    const [, weight, size] = this.font.match(/^(?:(\d+) )?([\d.]+)px/) ?? [];
    const attributes = {
      x,
      y,
      "font-size": size,
      "font-weight": weight,
      "text-anchor": this.textAlign === "center" ? "middle" : "",
      "dominant-baseline": "central",
      fill: this.fillStyle,
    };
    this.parts.push(element("text", attributes, escaped(text)));
  }
  text(): string {
    const { width, height } = this;
    const attributes = {
      xmlns: "http://www.w3.org/2000/svg",
      width,
      height,
      viewBox: `0 0 ${n(width)} ${n(height)}`,
      "font-family": "system-ui, sans-serif",
    };
    return element("svg", attributes, this.parts.join(""));
  }
}
