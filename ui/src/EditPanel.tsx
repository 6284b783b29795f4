// What can be done where the cluster is ours: objects as YAML, the scheduler's configuration, and stories to play.
// What the server refuses is shown in its words.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { titleText } from "./engine";
import {
  applyManifest,
  configurationNow,
  configure,
  deleteObject,
  manifestOf,
  playStory,
  readMeta,
  stories,
} from "./net";
import { TEMPLATES } from "./templates";
import { hasStories, isOurs, node, pod, shown } from "./view";
import { language, say } from "./words";

const PARTS = ["objects", "configuration", "stories"] as const;
const part = signal<(typeof PARTS)[number]>("objects");
const text = signal(TEMPLATES.Pod);
const config = signal("");
const said = signal<string[]>([]);
const isWrong = signal(false);
const isBusy = signal(false);
const titles = signal<Record<string, string>>({});

async function attempt(act: () => Promise<string | string[]>): Promise<void> {
  isBusy.value = true;
  try {
    const told = await act();
    isWrong.value = false;
    said.value = typeof told === "string" ? [told] : told;
  } catch (error) {
    said.value = (error as Error).message.split("\n");
    isWrong.value = true;
  }
  isBusy.value = false;
}

function selected(): string {
  const { columns } = shown.value!;
  if (node.value >= 0) return `node/${columns.nodes[node.value]}`;
  return pod.value >= 0 ? `pod/${columns.podName(pod.value)}` : "";
}

/** Check a configuration, or go on with it: what ``mooring config check`` says about it. */
async function submit(isCheck: boolean): Promise<string[]> {
  const { problems, warnings, applied } = await configure(config.value, isCheck);
  if (problems.length) throw new Error(problems.join("\n"));
  if (applied) await readMeta();
  return [say(applied ? "change.configured" : "change.noMistakes"), ...warnings];
}

export function EditPanel() {
  const parts = PARTS.filter((each) => (each === "stories" ? hasStories.value : isOurs.value));
  const now = parts.includes(part.value) ? part.value : parts[0];
  if (!now) return null;
  return (
    <div class="editPanel" aria-busy={isBusy.value}>
      {parts.length > 1 && (
        <div class="lanes bar" role="group" aria-label={say("tab.change")}>
          {parts.map((each) => (
            <button
              type="button"
              key={each}
              aria-pressed={now === each}
              onClick={() => {
                part.value = each;
                said.value = [];
              }}
            >
              {say(`change.${each}`)}
            </button>
          ))}
        </div>
      )}
      {now === "objects" ? <Objects /> : now === "configuration" ? <Configuration /> : <Stories />}
      <div role="status" class={isWrong.value ? "said warning" : "said soft"}>
        {said.value.map((line) => (
          <p key={line}>{line}</p>
        ))}
      </div>
    </div>
  );
}

function Objects() {
  const area = useRef<HTMLTextAreaElement>(null),
    ref = selected();
  return (
    <>
      <div class="lanes bar">
        {Object.entries(TEMPLATES).map(([kind, manifest]) => (
          <button
            type="button"
            key={kind}
            onClick={() => {
              text.value = manifest;
              area.current?.focus();
            }}
          >
            {kind}
          </button>
        ))}
        {ref && (
          <button
            type="button"
            onClick={() =>
              void attempt(async () => {
                text.value = await manifestOf(ref);
                return ref;
              })
            }
          >
            {ref}
          </button>
        )}
      </div>
      <textarea
        ref={area}
        value={text.value}
        onInput={(event) => (text.value = event.currentTarget.value)}
        spellcheck={false}
        aria-label="YAML"
        rows={12}
      />
      <footer>
        <button
          type="button"
          class="primary"
          onClick={() =>
            void attempt(async () =>
              say("change.applied", { names: ((await applyManifest(text.value)).applied as string[]).join(", ") }),
            )
          }
        >
          {say("change.apply")}
        </button>
        {ref && (
          <button
            type="button"
            onClick={() =>
              void attempt(async () => {
                await deleteObject(ref);
                return say("change.deleted", { ref });
              })
            }
          >
            {say("change.delete", { ref })}
          </button>
        )}
      </footer>
    </>
  );
}

function Configuration() {
  const read = () =>
    attempt(async () => {
      config.value = await configurationNow();
      return [];
    });
  useEffect(() => {
    if (!config.value) void read();
  }, []);
  return (
    <>
      <textarea
        value={config.value}
        onInput={(event) => (config.value = event.currentTarget.value)}
        spellcheck={false}
        aria-label="KubeSchedulerConfiguration"
        rows={12}
      />
      <footer>
        <button type="button" class="primary" onClick={() => void attempt(() => submit(false))}>
          {say("change.apply")}
        </button>
        <button type="button" onClick={() => void attempt(() => submit(true))}>
          {say("change.check")}
        </button>
        <button type="button" onClick={() => void read()}>
          {say("change.now")}
        </button>
      </footer>
    </>
  );
}

function Stories() {
  useEffect(
    () =>
      void attempt(async () => {
        titles.value = await stories();
        return [];
      }),
    [language.value],
  );
  return (
    <div class="scroll" tabIndex={0}>
      <p class="soft">{say("change.played")}</p>
      <ul class="stories">
        {Object.entries(titles.value).map(([name, title]) => (
          <li key={name}>
            <button
              type="button"
              onClick={() =>
                void attempt(async () => {
                  await playStory(name);
                  return [];
                })
              }
            >
              <code>{name}</code> <span>{titleText(title)}</span> <span aria-hidden="true">▶</span>
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
