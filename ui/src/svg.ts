// A canvas that writes SVG: as much of it as the map is painted with.

const escaped = (text: string) =>
  text.replace(/[&<>"]/g, (each) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[each]!);
const n = (value: number) => String(Math.round(value * 100) / 100);

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
    this.dash = lengths.length ? ` stroke-dasharray="${lengths.join()}"` : "";
  }
  private get alpha(): string {
    return this.globalAlpha < 1 ? ` opacity="${this.globalAlpha}"` : "";
  }
  fillRect(x: number, y: number, width: number, height: number): void {
    if (width > 0 && height > 0)
      this.parts.push(
        `<rect x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${n(height)}" fill="${this.fillStyle}"${this.alpha}/>`,
      );
  }
  strokeRect(x: number, y: number, width: number, height: number): void {
    this.parts.push(
      `<rect x="${n(x)}" y="${n(y)}" width="${n(width)}" height="${n(height)}" fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"${this.dash}/>`,
    );
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
    this.path += `M${n(x - radius)} ${n(y)}a${n(radius)} ${n(radius)} 0 1 0 ${n(2 * radius)} 0a${n(radius)} ${n(radius)} 0 1 0 ${n(-2 * radius)} 0Z`;
  }
  fill(): void {
    this.parts.push(`<path d="${this.path}" fill="${this.fillStyle}"/>`);
  }
  stroke(): void {
    this.parts.push(
      `<path d="${this.path}" fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"/>`,
    );
  }
  fillText(text: string, x: number, y: number): void {
    const [, weight, size] = this.font.match(/^(?:(\d+) )?([\d.]+)px/) ?? [],
      anchor = this.textAlign === "center" ? ` text-anchor="middle"` : "";
    if (text)
      this.parts.push(
        `<text x="${n(x)}" y="${n(y)}" font-size="${size}"${weight ? ` font-weight="${weight}"` : ""}${anchor} dominant-baseline="central" fill="${this.fillStyle}">${escaped(text)}</text>`,
      );
  }
  text(): string {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}" font-family="system-ui, sans-serif">${this.parts.join("")}</svg>`;
  }
}
