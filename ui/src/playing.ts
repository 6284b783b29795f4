// Playing: the cursor moves with time, so many times as fast.
import { effect } from "@preact/signals";
import { cursor, goTo, isPlaying, shown, speed, timeAt } from "./view";

let last = 0,
  playedTo = 0;

function play(now: number): void {
  if (!isPlaying.value) return;
  const columns = shown.value!.columns;
  playedTo = Math.max(playedTo, timeAt()) + ((now - last) / 1000) * speed.value;
  last = now;
  const to = columns.eventAfter(playedTo);
  if (to > cursor.value) goTo(to);
  if (cursor.value >= columns.length && !columns.isLive) isPlaying.value = false;
  else requestAnimationFrame(play);
}

export function keepPlaying(): void {
  effect(() => {
    if (!isPlaying.value) return;
    last = performance.now();
    playedTo = timeAt();
    requestAnimationFrame(play);
  });
}
