// The top bar: which record, the time, the transport, finding, theme and language.
import { titleText } from "./engine";
import { pointOn } from "./Guide";
import type { Key } from "./messages/en";
import {
  cursor,
  dialog,
  follows,
  goTo,
  goToEnd,
  growth,
  isGuided,
  isPlaying,
  onceWhole,
  problem,
  shown,
  speed,
  stepDecision,
  theme,
  timeAt,
} from "./view";
import { clock, LANGUAGES, language, say } from "./words";

const SPEEDS = [1, 10, 100, 1000];

export function TopBar() {
  const now = shown.value!;
  growth.value;
  void cursor.value;
  return (
    <header class="top">
      <span class="brand">
        <Logo /> <span>mooring</span>
      </span>
      <span class="title" title={titleText(now.meta.title)}>
        <bdi>{titleText(now.meta.title)}</bdi>
      </span>
      <span class="soft version">
        Kubernetes {now.meta.kubernetesVersion} · {now.meta.profiles.map((each) => each.schedulerName).join(", ")}
      </span>
      <output class="clock">{clock(timeAt(), now.meta.epoch, now.columns.begin)}</output>
      <div class="transport" role="group" aria-label={say("time")}>
        <Press label="go.begin" sign="begin" act={() => goTo(0)} />
        <Press label="go.previous" sign="back" act={() => stepDecision(-1)} />
        <Press label="go.previousPoint" sign="pointBack" act={() => pointOn(-1)} />
        <Press
          label={isPlaying.value ? "go.pause" : "go.play"}
          sign={isPlaying.value ? "pause" : "play"}
          act={togglePlay}
        />
        <Press label="go.nextPoint" sign="point" act={() => pointOn(1)} />
        <Press label="go.next" sign="on" act={() => stepDecision(1)} />
        <Press label={now.columns.isLive ? "go.follow" : "go.end"} sign="end" act={goToEnd} />
        <select
          aria-label={say("go.speed")}
          value={speed.value}
          onChange={(event) => (speed.value = Number(event.currentTarget.value))}
        >
          {SPEEDS.map((each) => (
            <option value={each} key={each}>
              {each}×
            </option>
          ))}
        </select>
      </div>
      {now.columns.isLive && <span class={follows.value ? "live on" : "live"}>● {say("live")}</span>}
      <button
        type="button"
        class="guide"
        aria-pressed={isGuided.value}
        onClick={() => (isGuided.value = !isGuided.value)}
      >
        {say("guide")}
      </button>
      <button type="button" class="find" onClick={() => (dialog.value = "find")}>
        <span>{say("find")}</span> <kbd>Ctrl K</kbd>
      </button>
      <button
        type="button"
        class="help"
        aria-label={say("keys")}
        title={say("keys")}
        onClick={() => (dialog.value = "keys")}
      >
        ?
      </button>
      <Settings />
      {problem.value && (
        <p class="lost" role="alert">
          {problem.value === "lost" ? say("server.lost") : problem.value}
        </p>
      )}
    </header>
  );
}

/** The theme and the language. */
export function Settings() {
  return (
    <>
      <select
        class="theme"
        aria-label={say("theme")}
        value={theme.value}
        onChange={(event) => (theme.value = event.currentTarget.value as "dark")}
      >
        <option value="">◐</option>
        <option value="dark">☾</option>
        <option value="light">☀</option>
      </select>
      <select
        class="language"
        aria-label={say("language")}
        value={language.value}
        onChange={(event) => (language.value = event.currentTarget.value as "en")}
      >
        {Object.entries(LANGUAGES).map(([code, name]) => (
          <option value={code} key={code}>
            {name}
          </option>
        ))}
      </select>
    </>
  );
}

export function togglePlay(): void {
  onceWhole(() => {
    const now = shown.value;
    if (now && !isPlaying.value && cursor.value >= now.columns.length) goTo(0);
    isPlaying.value = !isPlaying.value;
  });
}

function Logo() {
  return (
    <svg
      viewBox="0 0 64 64"
      width="22"
      height="22"
      aria-hidden="true"
      fill="none"
      stroke-width="6"
      stroke-linecap="round"
      stroke-linejoin="round"
    >
      <path d="M14 57h36M18 20a14 9 0 0 1 28 0zM27 22v32h10V22z" fill="var(--accent)" stroke="var(--accent)" />
      <path d="M43 31H25c-9 0-9 8-1 9 12 5 26 3 36-7" stroke="#ff9800" />
    </svg>
  );
}

/** Drawn rather than written: few fonts have these signs. */
const SIGNS = {
  begin: "M3 3h2v10H3zM13 3v10L6 8z",
  back: "M8 3v10L2 8zM14 3v10L8 8z",
  play: "M4 2.5v11L13 8z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
  on: "M2 3v10l6-5zM8 3v10l6-5z",
  pointBack: "M9 3v10L4 8zM11 3h1.5v10H11z",
  point: "M7 3v10l5-5zM3.5 3H5v10H3.5z",
  end: "M11 3h2v10h-2zM3 3v10l7-5z",
};

export function Press({ label, sign, act }: { label: Key; sign: keyof typeof SIGNS; act: () => void }) {
  return (
    <button
      type="button"
      class={sign.startsWith("point") ? "byPoint" : undefined}
      onClick={act}
      aria-label={say(label)}
      title={say(label)}
    >
      <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
        <path d={SIGNS[sign]} fill="currentColor" />
      </svg>
    </button>
  );
}
