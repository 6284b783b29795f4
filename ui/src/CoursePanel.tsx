// A chapter of the course beside the map: where the steps of a decision lead.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { chapters, playStory } from "./net";
import { chapter, hasStories, narrowView, records, shown, tab } from "./view";
import { language, say } from "./words";

const LESSONS = 7; // those that can be played; what follows is text
const course = signal<Record<string, string>>({});
const problem = signal("");

/** The title of a chapter, once the course is here. */
const title = (number: number) => course.value[number]?.match(/^# (.*)$/m)?.[1] ?? `mooring learn ${number}`;

/** A link to a chapter: in the address bar as everything else of the view. */
export function ChapterLink({ number, children }: { number: number; children?: ComponentChildren }) {
  useEffect(() => void read(), [language.value]);
  const record = shown.value?.number && records.value.length === 1 ? `&record=${shown.value.number}` : "";
  return (
    <a
      href={`#course=${number}&lang=${language.value}${record}`}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        chapter.value = number;
        tab.value = "course";
        narrowView.value = "why";
      }}
    >
      {children ?? title(number)}
    </a>
  );
}

async function read(): Promise<void> {
  const wanted = language.value;
  try {
    const found = await chapters(wanted);
    if (wanted === language.value) course.value = found;
    problem.value = "";
  } catch (error) {
    problem.value = (error as Error).message;
  }
}

export function CoursePanel() {
  const number = chapter.value;
  useEffect(() => {
    if (number) void read();
  }, [number, language.value]);
  if (!number) return null;
  const text = course.value[number];
  return (
    <div class="coursePanel scroll" tabIndex={0} key={number}>
      <div class="subject">
        <strong>{title(number)}</strong>
        {hasStories.value && number <= LESSONS && (
          <button type="button" onClick={() => void playStory(`lesson-${number}`)}>
            {say("go.play")}
          </button>
        )}
        <button
          type="button"
          class="push quiet"
          onClick={() => {
            chapter.value = 0;
            tab.value = "why";
          }}
          aria-label={say("close")}
          title={say("close")}
        >
          ✕
        </button>
      </div>
      {problem.value ? (
        <p class="warning">{problem.value}</p>
      ) : text ? (
        blocks(text)
      ) : (
        <p class="soft">{say("loading")}</p>
      )}
    </div>
  );
}

// ---- the little of Markdown that the course uses -------------------------------------------------------------------

/** Lines that belong together; between two signs of Chinese or Japanese there is no space. */
const joined = (lines: string[]) =>
  lines
    .map((line) => line.trim())
    .join("\n")
    .replace(/([\u3000-\u9fff\uff00-\uffef])\n(?=[\u3000-\u9fff\uff00-\uffef])/g, "$1")
    .replace(/\n/g, " ");

function inline(text: string): ComponentChildren[] {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*\s][^*]*\*|\[[^\]]+\]\([^)]+\))/).map((part, i) => {
    if (i % 2 === 0) return part;
    if (part[0] === "`") return <code>{part.slice(1, -1)}</code>;
    if (part.startsWith("**")) return <strong>{inline(part.slice(2, -2))}</strong>;
    if (part[0] === "*") return <em>{inline(part.slice(1, -1))}</em>;
    const [, name, to] = part.match(/^\[(.*)\]\((.*)\)$/)!,
      other = Number.parseInt(to, 10);
    if (course.value[other]) return <ChapterLink number={other}>{name}</ChapterLink>;
    return to.startsWith("https:") ? (
      <a href={to} target="_blank" rel="noreferrer">
        {name}
      </a>
    ) : (
      name
    );
  });
}

/** What a line begins, and which lines after it belong to it. */
const ITEM = /^(?:[-*]|\d+\.) /;
function blocks(text: string): ComponentChildren[] {
  const lines = text.split("\n").slice(1),
    found: ComponentChildren[] = []; // the first line is the title
  for (let at = 0; at < lines.length; ) {
    const begin = at,
      line = lines[at++],
      rest = (goesOn: (line: string) => boolean) => {
        while (at < lines.length && goesOn(lines[at])) at++;
        return lines.slice(begin, at);
      };
    if (!line.trim() || line.startsWith("![")) continue;
    if (line.startsWith("```")) {
      found.push(
        <pre tabIndex={0}>
          {rest((each) => !each.startsWith("```"))
            .slice(1)
            .join("\n")}
        </pre>,
      );
      at++;
    } else if (line.startsWith("#")) found.push(<h3>{inline(line.replace(/^#+ /, ""))}</h3>);
    else if (line.startsWith("|")) {
      const [head, , ...rows] = rest((each) => each.startsWith("|")).map((row) =>
        row
          .slice(1, -1)
          .split("|")
          .map((cell) => inline(cell.trim())),
      );
      found.push(
        <table class="plain">
          <thead>
            <tr>
              {head.map((cell) => (
                <th>{cell}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr>
                {row.map((cell) => (
                  <td>{cell}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>,
      );
    } else if (ITEM.test(line)) {
      const items: string[][] = [];
      for (const each of rest((next) => ITEM.test(next) || /^ +\S/.test(next)))
        ITEM.test(each) ? items.push([each.replace(ITEM, "")]) : items[items.length - 1].push(each);
      const List = /^\d/.test(line) ? "ol" : "ul";
      found.push(
        <List>
          {items.map((item) => (
            <li>{inline(joined(item))}</li>
          ))}
        </List>,
      );
    } else
      found.push(
        <p>
          {inline(joined(rest((each) => each.trim() !== "" && !/^(```|#|\||!\[)/.test(each) && !ITEM.test(each))))}
        </p>,
      );
  }
  return found;
}
