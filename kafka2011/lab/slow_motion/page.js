// Steps through recordings.

import { become, h, row, rowHead, table } from "../../ui/page/dom.js";

const recordings = JSON.parse(document.getElementById("recordings").textContent);
const STORY = /^#\/(\w+)(?:\/(\d+))?(?:\/(\d+))?$/;
const PLAY_MS = 1500;

// Where one stands: a story, a branch of it or none, and a step. The address has it, so that a link leads there.
let at = { story: Object.keys(recordings)[0], branch: null, step: 0 };
let playing = 0;

const story = () => recordings[at.story];
const branch = () => (at.branch === null ? null : story().branches[at.branch]);

function frames() {
  const taken = branch();
  return taken === null ? story().frames : [...story().frames.slice(0, taken.after + 1), ...taken.frames];
}

// All rows at a step, and which of them this step has changed.
function panelsAt(step) {
  const panels = new Map();
  for (const frame of frames().slice(0, step + 1))
    for (const [name, rows] of Object.entries(frame.changes ?? {})) {
      const shown = panels.get(name) ?? new Map();
      for (const [row, text] of Object.entries(rows)) {
        if (text === null) shown.delete(row);
        else shown.set(row, text);
      }
      panels.set(name, shown);
    }
  return panels;
}

function sentenceOf(frame) {
  const who = recordings[at.story].who.replace("{}", frame.who);
  return frame.who ? `${who} ${frame.text}.`.replace(/\.\.$/, ".") : frame.text;
}

// Parts of the page -------------------------------------------------------------------------------------------------

const cell = (text, isChanged) =>
  h(
    "td",
    { class: [text === "nobody" ? "nobody" : "", isChanged ? "changed" : ""].join(" ").trim() || null },
    text || "–",
  );

// Rows whose names are all "row, column" stand in columns.
function panel(name, rows, changed, acts) {
  const names = [...rows.keys()].map((each) => each.split(", "));
  const isGrid = names.every((each) => each.length === 2);
  const columns = isGrid ? [...new Set(names.map(([, column]) => column))] : [];
  const heads = [...new Set(names.map(([head]) => head))];
  if (heads.every((head) => head.includes("/"))) heads.sort(); // paths
  const key = (head, column) => (isGrid ? `${head}, ${column}` : head);
  return h(
    "table",
    { class: [acts ? "acts" : "", isGrid ? "in-columns" : ""].join(" ").trim() || null },
    h("caption", {}, name, acts ? " (acts now)" : ""),
    isGrid
      ? h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("td", {}),
            columns.map((column) => h("th", { scope: "col" }, column)),
          ),
        )
      : null,
    h(
      "tbody",
      {},
      heads.map((head) =>
        h(
          "tr",
          {},
          rowHead(head),
          (isGrid ? columns : [""]).map((column) => cell(rows.get(key(head, column)), key(head, column) in changed)),
        ),
      ),
    ),
  );
}

function panels(frame) {
  const actor = frame.who ? recordings[at.story].who.replace("{}", frame.who) : "";
  return h(
    "section",
    { class: "panels", "aria-label": "What there is after this step" },
    [...panelsAt(at.step)].map(([name, rows]) => panel(name, rows, frame.changes?.[name] ?? {}, name === actor)),
  );
}

function code(frame) {
  if (!frame.code)
    return h(
      "p",
      { class: "soft" },
      "No line of code stands for this step: it is done from outside, or says how things are.",
    );
  const [number, lines, ...callers] = frame.code;
  const { file, name, source } = story().code[number];
  const marked = new Set(lines);
  return h(
    "div",
    {},
    h("p", {}, h("code", {}, file), ", ", h("code", {}, name)),
    callers.length ? h("p", { class: "soft" }, "called by ", callers.join(" → ")) : null,
    h(
      "pre",
      { class: "source", tabindex: "0", role: "region", "aria-label": `Source of ${name}` },
      source.map((line, index) =>
        h(
          "span",
          { class: marked.has(index) ? "here" : null, "aria-current": marked.has(index) ? "step" : null },
          line || " ",
        ),
      ),
    ),
  );
}

function quotation(frame) {
  if (frame.paper === undefined) return null;
  const [section, text] = story().paper[frame.paper];
  return h("blockquote", {}, h("p", {}, text), h("footer", { class: "soft" }, `The paper, section ${section}`));
}

function controls(last) {
  const to = (step) => () => go({ step });
  return h(
    "div",
    { class: "controls", role: "group", "aria-label": "Steps" },
    h("button", { onclick: to(0), disabled: at.step === 0 }, "First"),
    h("button", { id: "back", onclick: to(at.step - 1), disabled: at.step === 0 }, "Back"),
    h("button", { id: "forward", class: "act", onclick: to(at.step + 1), disabled: at.step === last }, "Forward"),
    h("button", { onclick: play, "aria-pressed": String(playing !== 0) }, playing ? "Pause" : "Play"),
    h("input", {
      type: "range",
      id: "step",
      min: 0,
      max: last,
      value: at.step,
      "aria-label": "Step",
      "aria-valuetext": `step ${at.step} of ${last}`,
      oninput: (event) => go({ step: Number(event.target.value) }),
    }),
    h("span", {}, `step ${at.step} of ${last}`),
  );
}

function branchesAt(step) {
  return story()
    .branches.map((each, number) => ({ ...each, number }))
    .filter((each) => each.after === step);
}

function choices() {
  const taken = branch();
  if (taken !== null)
    return h(
      "div",
      { class: "branch" },
      h("strong", {}, `${taken.mark}. `),
      `${taken.title}. `,
      h("button", { id: "main-line", onclick: () => go({ branch: null, step: taken.after }) }, "Back to the main line"),
    );
  const here = branchesAt(at.step);
  const marked = [...new Map(story().branches.map((each) => [each.after, each.mark]))];
  return h(
    "div",
    {},
    here.length
      ? h(
          "section",
          { "aria-label": "Let something go wrong at this step" },
          h("strong", {}, "Let something go wrong at this step:"),
          h(
            "ul",
            { class: "faults" },
            here.map((each) =>
              h(
                "li",
                {},
                h("button", { onclick: () => go({ branch: each.number, step: each.after + 1 }) }, each.title),
              ),
            ),
          ),
        )
      : null,
    h(
      "details",
      { open: !here.length },
      h("summary", {}, "Steps at which something can go wrong"),
      h(
        "ul",
        { class: "marks" },
        marked.map(([step, mark]) => h("li", {}, h("button", { onclick: () => go({ step }) }, `${step}: ${mark}`))),
      ),
    ),
  );
}

// Algorithm 1 -------------------------------------------------------------------------------------------------------

let division = { partitions: 4, consumers: 3 };

function divide(what, count) {
  division = { ...division, [what]: count };
  draw();
}

function algorithm() {
  const { divisions } = story().also;
  if (!divisions) return null;
  const [shipped, printed] = divisions[division.partitions - 1][division.consumers - 1];
  const name = (number) => (number < 0 ? "nobody" : `c${number}`);
  const without = printed.filter((number) => number < 0).length;
  const choose = (what, most) =>
    h(
      "label",
      {},
      `${what} `,
      h(
        "select",
        { id: what, onchange: (event) => divide(what, Number(event.target.value)) },
        Array.from({ length: most }, (_, index) =>
          h("option", { value: index + 1, selected: division[what] === index + 1 }, String(index + 1)),
        ),
      ),
    );
  // As text, as 0.7 sorts: 0-10 comes before 0-2.
  const partitions = Array.from({ length: division.partitions }, (_, index) => `0-${index}`).sort();
  return h(
    "section",
    { "aria-labelledby": "algorithm" },
    h("h2", { id: "algorithm" }, "Algorithm 1, as shipped and as printed"),
    h("div", { class: "choices" }, choose("partitions", divisions.length), choose("consumers", divisions[0].length)),
    h(
      "p",
      { role: "status", id: "without" },
      without
        ? `As printed, N = ${division.partitions} / ${division.consumers} leaves ${without} of ${division.partitions} partitions without an owner.`
        : "Here both give every partition an owner.",
    ),
    table(
      "Who owns each partition",
      ["partition", "as shipped", "as printed in the paper"],
      partitions.map((partition, index) =>
        row(
          rowHead(partition),
          name(shipped[index]),
          printed[index] < 0 ? h("span", { class: "nobody" }, "nobody") : name(printed[index]),
        ),
      ),
    ),
  );
}

// The page ----------------------------------------------------------------------------------------------------------

function draw() {
  const all = frames();
  const frame = all[at.step];
  document.title = `${story().title} in slow motion`;
  become(
    document.getElementById("stories"),
    h(
      "nav",
      { "aria-label": "Stories", id: "stories" },
      Object.entries(recordings).map(([name, each]) =>
        h(
          "button",
          {
            onclick: () => go({ story: name, branch: null, step: 0 }),
            "aria-current": name === at.story ? "page" : null,
          },
          each.title,
        ),
      ),
    ),
  );
  become(
    document.getElementById("main"),
    h(
      "main",
      { id: "main", tabindex: "-1" },
      h("h1", {}, story().title),
      h("p", {}, story().about),
      controls(all.length - 1),
      h("p", { class: "said-now", role: "status", id: "now" }, sentenceOf(frame)),
      choices(),
      panels(frame),
      h(
        "div",
        { class: "beside" },
        h("section", { "aria-labelledby": "code" }, h("h2", { id: "code" }, "The line of code"), code(frame)),
        h(
          "section",
          { "aria-labelledby": "paper" },
          h("h2", { id: "paper" }, "The paper"),
          quotation(frame) ?? h("p", { class: "soft" }, "It says nothing about this step."),
        ),
      ),
      algorithm(),
      h(
        "p",
        { class: "soft" },
        "Keys: ",
        h("kbd", {}, "→"),
        " forward, ",
        h("kbd", {}, "←"),
        " back, ",
        h("kbd", {}, "Home"),
        " first, ",
        h("kbd", {}, "End"),
        " last, ",
        h("kbd", {}, "Space"),
        " plays. Recorded from the models that test this code.",
      ),
    ),
  );
  const line = document.querySelector(".source .here");
  if (line) line.parentElement.scrollTop = line.offsetTop - line.parentElement.offsetTop - 80;
}

function go(change) {
  const wanted = { ...at, ...change };
  const { story: name, branch: taken, step } = wanted;
  const address = `#/${name}/${step}${taken === null ? "" : `/${taken}`}`;
  if (location.hash === address) return;
  location.hash = address;
}

// Reads the address; what it does not have is where one stands.
function arrive() {
  const [, name, step, taken] = STORY.exec(location.hash) ?? [];
  if (name in recordings) {
    const number = taken !== undefined && Number(taken) < recordings[name].branches.length ? Number(taken) : null;
    at = { story: name, branch: number, step: 0 };
    at.step = Math.min(Number(step ?? 0), frames().length - 1);
  }
  draw();
}

function play() {
  clearInterval(playing);
  playing = playing
    ? 0
    : setInterval(() => (at.step < frames().length - 1 ? go({ step: at.step + 1 }) : play()), PLAY_MS);
  draw();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, input, pre, .scroll")) return;
  const last = frames().length - 1;
  const steps = { ArrowRight: Math.min(at.step + 1, last), ArrowLeft: Math.max(at.step - 1, 0), Home: 0, End: last };
  if (event.key in steps) go({ step: steps[event.key] });
  else if (event.key === " " && !event.target.closest("button, summary")) play();
  else return;
  event.preventDefault();
});
addEventListener("hashchange", arrive);
arrive();
