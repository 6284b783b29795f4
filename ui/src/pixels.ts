// Thousands of small rectangles as pixels of one image: a hundred times less work than to draw each of them.
import type { Size } from "./drawn";
import { HATCHES, rgb } from "./palette";

/** A colour as four bytes of an image. */
export function word(colour: string): number {
  const [red, green, blue] = rgb(colour);
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** Whether a place lies on a line of a hatching; the same lines run through all cells. */
export function isOnLine(i: number, x: number, y: number): boolean {
  const [angle, distance] = HATCHES[i % HATCHES.length];
  const along = angle === 0 ? y : angle === 90 ? x : angle > 0 ? x + y : x - y + 1_000 * distance;
  return along % distance < (angle % 90 ? 2 : 1);
}

export class Pixels {
  private image: ImageData | null = null;
  private words = new Uint32Array(0);
  private width = 0;
  private height = 0;
  private ratio = 1;

  begin(context: CanvasRenderingContext2D, size: Size, back: string): void {
    this.ratio = size.ratio;
    const [width, height] = [Math.round(size.width * size.ratio), Math.round(size.height * size.ratio)];
    if (!this.image || width !== this.width || height !== this.height) {
      [this.width, this.height] = [width, height];
      this.image = context.createImageData(width, height);
      this.words = new Uint32Array(this.image.data.buffer);
    }
    this.words.fill(word(back));
  }

  /** A rectangle on the screen; with a hatching ``lines`` is the colour of its lines. */
  rect(x: number, y: number, width: number, height: number, colour: number, hatch = -1, lines = 0): void {
    const { ratio, words } = this;
    const [left, right] = [Math.max(0, Math.round(x * ratio)), Math.min(this.width, Math.round((x + width) * ratio))];
    const bottom = Math.min(this.height, Math.round((y + height) * ratio));
    for (let at = Math.max(0, Math.round(y * ratio)); at < bottom; at++) {
      const row = at * this.width;
      words.fill(colour, row + left, row + right);
      if (hatch < 0) continue;
      const downY = Math.floor(at / ratio);
      for (let across = left; across < right; across++)
        if (isOnLine(hatch, Math.floor(across / ratio), downY)) words[row + across] = lines;
    }
  }

  end(context: CanvasRenderingContext2D): void {
    context.putImageData(this.image!, 0, 0);
  }
}
