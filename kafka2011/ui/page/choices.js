// What can be chosen in more than one view: a group, of which the page is told by an event, and a partition.

import { h } from "./dom.js";

export const nameOf = ({ topic, partition }) => `${topic}/${partition}`;

export function groupChoice(state) {
  return h(
    "label",
    {},
    "Group ",
    h(
      "select",
      { id: "group", onchange: (event) => dispatchEvent(new CustomEvent("group", { detail: event.target.value })) },
      state.picture.groups.map((group) =>
        h("option", { value: group.name, selected: group.name === state.group }, group.name),
      ),
    ),
  );
}

// A choice of all partitions; `to` makes the address to go to.
export function partitionChoice(state, to) {
  const [, topic, name] = state.route,
    here = `${topic}/${name}`;
  return h(
    "label",
    {},
    "Partition ",
    h(
      "select",
      {
        onchange: (event) => {
          location.hash = to(...JSON.parse(event.target.value));
        },
      },
      h("option", { value: "[]", disabled: true, selected: !topic }, "choose one"),
      state.picture.partitions.map((partition) =>
        h(
          "option",
          { value: JSON.stringify([partition.topic, partition.partition]), selected: nameOf(partition) === here },
          nameOf(partition),
        ),
      ),
    ),
  );
}
