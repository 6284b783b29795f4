// What can be done where the cluster is ours: objects as YAML, the scheduler's configuration, and stories to play.
// What the server refuses is shown in its words.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
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
import { hasStories, isOurs, node, pod, shown } from "./view";
import { language, say } from "./words";

export const isEditing = signal(false);
const TABS = ["objects", "configuration", "stories"] as const;
type Tab = (typeof TABS)[number];
const tab = signal<Tab>("objects"),
  text = signal(""),
  config = signal(""),
  said = signal<string[]>([]),
  isWrong = signal(false),
  isBusy = signal(false);
const titles = signal<Record<string, string>>({});

const TEMPLATES: Record<string, string> = {
  Pod: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web-1\n  namespace: default\nspec:\n  containers:\n  - name: main\n    image: nginx\n    resources:\n      requests: {cpu: 500m, memory: 256Mi}\n",
  Deployment:
    "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  namespace: default\nspec:\n  replicas: 3\n  selector:\n    matchLabels: {app: web}\n  template:\n    metadata:\n      labels: {app: web}\n    spec:\n      containers:\n      - name: main\n        image: nginx\n        resources:\n          requests: {cpu: 500m, memory: 256Mi}\n",
  Node: 'apiVersion: v1\nkind: Node\nmetadata:\n  name: node-new\n  labels:\n    kubernetes.io/hostname: node-new\n    topology.kubernetes.io/zone: a\nstatus:\n  allocatable: {cpu: "4", memory: 8Gi, pods: "110"}\n  capacity: {cpu: "4", memory: 8Gi, pods: "110"}\n',
};

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
  return [say(applied ? "the scheduler goes on with it" : "no mistakes found"), ...warnings];
}

export function EditPanel() {
  if (!isEditing.value || !(isOurs.value || hasStories.value)) return null;
  const tabs = TABS.filter((each) => (each === "stories" ? hasStories.value : isOurs.value)),
    now = tabs.includes(tab.value) ? tab.value : tabs[0];
  return (
    <section class="panel editPanel" aria-label={say(now)} aria-busy={isBusy.value}>
      <header>
        <div class="lanes" role="group">
          {tabs.map((each) => (
            <button
              type="button"
              key={each}
              aria-pressed={now === each}
              onClick={() => {
                tab.value = each;
                said.value = [];
              }}
            >
              {say(each)}
            </button>
          ))}
        </div>
        <button type="button" class="push quiet" onClick={() => (isEditing.value = false)} aria-label={say("close")}>
          ✕
        </button>
      </header>
      {now === "objects" ? <Objects /> : now === "configuration" ? <Configuration /> : <Stories />}
      <div role="status" class={isWrong.value ? "said warning" : "said soft"}>
        {said.value.map((line, i) => (
          <p key={i}>{line}</p>
        ))}
      </div>
    </section>
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
              say("applied: {names}", { names: ((await applyManifest(text.value)).applied as string[]).join(", ") }),
            )
          }
        >
          {say("apply")}
        </button>
        {ref && (
          <button
            type="button"
            onClick={() =>
              void attempt(async () => {
                await deleteObject(ref);
                return `${say("delete")}: ${ref}`;
              })
            }
          >
            {say("delete")} {ref}
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
          {say("apply")}
        </button>
        <button type="button" onClick={() => void attempt(() => submit(true))}>
          {say("check")}
        </button>
        <button type="button" onClick={() => void read()}>
          {say("the one in force")}
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
      <p class="soft">{say("played in a cluster of its own, in virtual time")}</p>
      <ul class="stories">
        {Object.entries(titles.value).map(([name, title]) => (
          <li key={name}>
            <button
              type="button"
              class="name"
              onClick={() =>
                void attempt(async () => {
                  await playStory(name);
                  return [];
                })
              }
            >
              {title}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
