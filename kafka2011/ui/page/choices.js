// What is chosen on the page, with its labels; a group and a partition in more than one view.

import { h } from "./dom.js";

export const nameOf = ({ topic, partition }) => `${topic}/${partition}`;

// Some of the `options`, each a value, its text, and attributes perhaps; `take` gets the value that is chosen.
export const select = (label, options, chosen, take, attributes = {}) =>
  h(
    "label",
    {},
    `${label} `,
    h(
      "select",
      { ...attributes, onchange: (event) => take(event.target.value) },
      options.map(([value, text, more]) => h("option", { value, selected: value === chosen, ...more }, text)),
    ),
  );

export const input = (label, attributes) => h("label", {}, `${label} `, h("input", attributes));

// A choice of all groups, of which the page is told by an event.
export function groupChoice(state) {
  const names = state.picture.groups.map(({ name }) => [name, name]);
  const take = (name) => dispatchEvent(new CustomEvent("group", { detail: name }));
  return select("Group", names, state.group, take, { id: "group" });
}

// A choice of all partitions; `to` makes the address to go to.
export function partitionChoice(state, to) {
  const here = state.route.slice(1, 3);
  const options = state.picture.partitions.map((row) => [JSON.stringify([row.topic, row.partition]), nameOf(row)]);
  return select("Partition", [["[]", "choose one", { disabled: true }], ...options], JSON.stringify(here), (value) => {
    location.hash = to(...JSON.parse(value));
  });
}
