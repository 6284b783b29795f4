// One place for what is known about what is selected: tabs, of which one is open.
import { ComparePanel } from "./ComparePanel";
import { CoursePanel } from "./CoursePanel";
import { EditPanel } from "./EditPanel";
import { NodePanel } from "./NodePanel";
import { SavePanel } from "./SavePanel";
import { chapter, hasStories, isCompared, isOurs, node, question, shown, type Tab, tab } from "./view";
import { WhatIfPanel } from "./WhatIf";
import { WhyPanel } from "./WhyPanel";
import { say } from "./words";

/** The tabs that there are now. */
export function tabs(): Tab[] {
  const found: Tab[] = ["why", "node", "whatIf"];
  if (isCompared()) found.splice(1, 0, "compare");
  if (isOurs.value || hasStories.value) found.push("change");
  if (chapter.value) found.push("course");
  found.push("save");
  return found;
}

const PANELS: Record<Tab, () => preact.JSX.Element | null> = {
  why: WhyPanel,
  node: NodePanel,
  whatIf: WhatIfPanel,
  compare: ComparePanel,
  change: EditPanel,
  course: CoursePanel,
  save: SavePanel,
};

export function Inspector() {
  const all = tabs();
  const now = all.includes(tab.value) ? tab.value : "why";
  const Panel = PANELS[now];
  const walk = (event: KeyboardEvent) => {
    const moves: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1 };
    if (!(event.key in moves)) return;
    event.stopPropagation();
    const to = all[(all.indexOf(now) + moves[event.key] + all.length) % all.length];
    tab.value = to;
    document.getElementById(`tab-${to}`)?.focus();
  };
  return (
    <section class="panel inspector" aria-label={say("inspector")}>
      <div class="tabList" role="tablist" aria-label={say("inspector")} onKeyDown={walk}>
        {all.map((each) => (
          <button
            type="button"
            role="tab"
            key={each}
            id={`tab-${each}`}
            aria-selected={each === now}
            aria-controls="tab-panel"
            tabIndex={each === now ? 0 : -1}
            onClick={() => (tab.value = each)}
          >
            {title(each)}
            {each === "whatIf" && question.value && <i class="busy" />}
          </button>
        ))}
      </div>
      <div class="tabPanel" id="tab-panel" role="tabpanel" aria-labelledby={`tab-${now}`}>
        <Panel />
      </div>
    </section>
  );
}

function title(each: Tab) {
  if (each === "node" && node.value >= 0) return <bdi>{shown.value!.columns.nodes[node.value]}</bdi>;
  if (each === "change" && !isOurs.value) return say("tab.stories");
  return say(`tab.${each}`);
}
