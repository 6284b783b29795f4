// Names of pods and nodes that lead to them. A name never changes the direction of what is around it.
import type { ComponentChildren } from "preact";
import { findPod, node, pod, selectNode, selectPod, shown } from "./view";

export function PodName({ name, which }: { name: string; which?: number }) {
  const { columns } = shown.value!;
  const isSelected = pod.value >= 0 && columns.podName(pod.value) === name;
  return (
    <button
      type="button"
      class="name"
      aria-pressed={isSelected}
      onClick={() => selectPod(which ?? findPod(columns, name))}
    >
      <bdi>{name}</bdi>
    </button>
  );
}

/** A node by its row in a record; only those of the first record can be selected. */
export function NodeName({ row, names, star }: { row: number | null; names?: string[]; star?: boolean }) {
  const all = names ?? shown.value!.columns.nodes;
  if (row === null) return <span>—</span>;
  const known = all === shown.value!.columns.nodes ? row : shown.value!.columns.nodes.indexOf(all[row]);
  return (
    <button
      type="button"
      class="name"
      aria-pressed={node.value === known && known >= 0}
      onClick={() => selectNode(known)}
    >
      {star && "★ "}
      <bdi>{all[row]}</bdi>
    </button>
  );
}

/** What to do where there is nothing to see. */
export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="soft empty">{children}</p>;
}
