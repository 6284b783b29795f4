// Objects as YAML, where the cluster is ours. What the server refuses is shown in its words.
import { signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { applyManifest, deleteObject, manifestOf } from "./net";
import { isOurs, node, pod, shown } from "./view";
import { say } from "./words";

export const isEditing = signal(false);
const text = signal(""), said = signal(""), isWrong = signal(false);

const TEMPLATES: Record<string, string> = {
  Pod: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web-1\n  namespace: default\nspec:\n  containers:\n  - name: main\n    image: nginx\n    resources:\n      requests: {cpu: 500m, memory: 256Mi}\n",
  Deployment: "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  namespace: default\nspec:\n  replicas: 3\n  selector:\n    matchLabels: {app: web}\n  template:\n    metadata:\n      labels: {app: web}\n    spec:\n      containers:\n      - name: main\n        image: nginx\n        resources:\n          requests: {cpu: 500m, memory: 256Mi}\n",
  Node: "apiVersion: v1\nkind: Node\nmetadata:\n  name: node-new\n  labels:\n    kubernetes.io/hostname: node-new\n    topology.kubernetes.io/zone: a\nstatus:\n  allocatable: {cpu: \"4\", memory: 8Gi, pods: \"110\"}\n  capacity: {cpu: \"4\", memory: 8Gi, pods: \"110\"}\n",
};

async function attempt(act: () => Promise<string>): Promise<void> {
  try {
    said.value = await act();
    isWrong.value = false;
  } catch (error) {
    said.value = (error as Error).message;
    isWrong.value = true;
  }
}

function selected(): string {
  const { columns } = shown.value!;
  if (node.value >= 0) return `node/${columns.nodes[node.value]}`;
  return pod.value >= 0 ? `pod/${columns.podName(pod.value)}` : "";
}

export function EditPanel() {
  const area = useRef<HTMLTextAreaElement>(null);
  if (!isOurs.value || !isEditing.value) return null;
  const ref = selected();
  return (
    <section class="panel editPanel" aria-label={say("edit objects")}>
      <header>
        <h2>{say("edit objects")}</h2>
        {Object.entries(TEMPLATES).map(([kind, manifest]) => <button type="button" key={kind} onClick={() => { text.value = manifest; area.current?.focus(); }}>{kind}</button>)}
        {ref && <button type="button" onClick={() => void attempt(async () => { text.value = await manifestOf(ref); return ref; })}>{ref}</button>}
        <button type="button" class="push quiet" onClick={() => (isEditing.value = false)} aria-label={say("close")}>✕</button>
      </header>
      <textarea ref={area} value={text.value} onInput={(event) => (text.value = event.currentTarget.value)} spellcheck={false} aria-label="YAML" rows={12} />
      <footer>
        <button type="button" class="primary" onClick={() => void attempt(async () => say("applied: {names}", { names: ((await applyManifest(text.value)).applied as string[]).join(", ") }))}>{say("apply")}</button>
        {ref && <button type="button" onClick={() => void attempt(async () => { await deleteObject(ref); return `${say("delete")}: ${ref}`; })}>{say("delete")} {ref}</button>}
      </footer>
      <p role="status" class={isWrong.value ? "warning" : "soft"}>{said.value}</p>
    </section>
  );
}
