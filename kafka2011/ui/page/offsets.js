// Moving a group's offsets, where the server allows changes: first what would be written is shown, then, once that is
// confirmed, just that is written.

import { input, select } from "./choices.js";
import { bad, bytes, h, link, number, path, plural, row, rowHead, section, table } from "./dom.js";
import { show, tell } from "./shared.js";

const TARGETS = { earliest: "the first offset", latest: "the end", time: "a time", offset: "an offset" };
const chosen = { group: "", topic: "", to: "earliest", partition: "", time: "", offset: "" };
const told = { isAsking: false, moves: null, error: "", done: "" };

const forget = () => {
  told.moves = null;
  told.error = "";
  told.done = "";
};
const choose = (name, value) => {
  chosen[name] = value;
  forget();
  show();
};
const about = () => ({ group: chosen.group, topic: chosen.topic });

export function offsets(state) {
  const name = state.route[1] ?? "",
    group = state.picture.groups.find((group) => group.name === name);
  const head = [h("h1", {}, `Move the offsets of ${name}`), h("p", {}, link(path("cluster"), "Back to the cluster"))];
  if (!group) return [head, bad("There is no such group.")];
  if (!state.mayChange)
    return [
      head,
      h(
        "p",
        {},
        "This console only reads. To move offsets, start it with --allow-changes, or use kafka2011 groups reset.",
      ),
    ];
  if (chosen.group !== name) {
    Object.assign(chosen, { group: name, topic: group.partitions[0]?.topic ?? "", partition: "" });
    forget();
  }
  return [
    head,
    h(
      "p",
      {},
      "Where the group continues when its members start again. Messages in between are read again, or are skipped.",
    ),
    group.members.length
      ? h(
          "p",
          { class: "bad" },
          `The group has ${plural(group.members.length, "member")}, which would overwrite these offsets:`,
          " stop them first.",
        )
      : null,
    form(state, group),
    told.error ? h("p", { class: "bad", role: "alert" }, told.error) : null,
    told.done ? h("p", { role: "status" }, h("b", {}, told.done)) : null,
    told.moves ? preview(group) : null,
  ];
}

function form({ picture }, group) {
  const topics = [...new Set(group.partitions.map(({ topic }) => topic))],
    names = picture.partitions.filter(({ topic }) => topic === chosen.topic).map(({ partition }) => partition);
  return h(
    "form",
    { class: "choices", onsubmit: () => false },
    select(
      "Topic",
      topics.map((topic) => [topic, topic]),
      chosen.topic,
      (value) => {
        chosen.partition = "";
        choose("topic", value);
      },
    ),
    select("Partitions", [["", "all"], ...names.map((name) => [name, name])], chosen.partition, (value) =>
      choose("partition", value),
    ),
    select("To", Object.entries(TARGETS), chosen.to, (value) => choose("to", value)),
    chosen.to === "time"
      ? input("Before", {
          id: "to-time",
          type: "datetime-local",
          step: 1,
          value: chosen.time,
          oninput: (event) => choose("time", event.target.value),
        })
      : null,
    chosen.to === "offset"
      ? input("Offset", {
          id: "to-offset",
          inputmode: "numeric",
          value: chosen.offset,
          pattern: "[0-9]*",
          oninput: (event) => choose("offset", event.target.value.trim()),
        })
      : null,
    h(
      "button",
      { type: "button", disabled: told.isAsking || group.members.length > 0 || !target(), onclick: look },
      "Show what would change",
    ),
  );
}

// Where to, as the server reads it; "" while it is not said.
function target() {
  if (chosen.to === "time") return chosen.time ? `@${new Date(chosen.time).getTime()}` : "";
  return chosen.to === "offset" ? chosen.offset : chosen.to;
}

function look() {
  ask("preview", { ...about(), to: target(), partition: chosen.partition }, (answer) => {
    told.moves = answer.moves;
  });
}

function move(moves) {
  ask("move", { ...about(), moves }, (answer) => {
    forget();
    told.done = `Moved: ${plural(answer.moved, "offset")} of ${chosen.group} in ${chosen.topic}.`;
  });
}

function ask(name, body, take) {
  const asked = JSON.stringify(chosen);
  forget();
  told.isAsking = true;
  show();
  tell(name, body).then((answer) => {
    told.isAsking = false;
    if (JSON.stringify(chosen) === asked) {
      if (answer.error) told.error = answer.error;
      else take(answer);
    } // else it is about what was chosen before
    show();
  });
}

function preview(group) {
  const moves = told.moves.filter(({ before, after }) => before !== after),
    again = sum(moves, (before, after) => before - after),
    skipped = sum(moves, (before, after) => after - before);
  return section(
    "shown",
    "What would change",
    table(
      `Offsets of ${group.name} in ${chosen.topic}`,
      ["partition", "is at", "goes to", "which means"],
      told.moves.map(({ partition, before, after }) =>
        row(rowHead(partition), number(before), number(after), meaning(before, after)),
      ),
    ),
    moves.length
      ? [
          h(
            "p",
            {},
            h(
              "b",
              {},
              again ? `${bytes(again)} will be read again. ` : "",
              skipped ? `${bytes(skipped)} will be skipped. ` : "",
            ),
            "Nothing is written yet.",
          ),
          h(
            "button",
            {
              type: "button",
              class: "act",
              disabled: told.isAsking || group.members.length > 0,
              onclick: () => move(moves),
            },
            `Move ${plural(moves.length, "offset")} of ${group.name}`,
          ),
        ]
      : h("p", {}, "Nothing: the group is there already."),
  );
}

const sum = (moves, size) =>
  moves.reduce((total, { before, after }) => total + (before === null ? 0 : Math.max(0, size(before, after))), 0);

function meaning(before, after) {
  if (before === null) return "begins there";
  if (before === after) return "stays";
  return after < before ? `${bytes(before - after)} are read again` : `${bytes(after - before)} are skipped`;
}
