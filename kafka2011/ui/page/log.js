// View 2: one partition as its log, with every group's cursor in it.

import { nameOf, partitionChoice } from "./choices.js";
import { partitionColumns } from "./cluster.js";
import { bad, bytes, h, link, number, path, plural, row, rowHead, seconds, section, table } from "./dom.js";
import { asking } from "./shared.js";

const AGAIN_MS = 5000,
  ROW = 26;
const room = () => {
  const width = Math.max(320, document.getElementById("main").clientWidth - 32);
  return [width, width < 700 ? 84 : 150];
};
const asked = asking("log", AGAIN_MS);

export function log(state) {
  const [, topic, name] = state.route,
    key = `${topic}/${name}`;
  const head = [
    h("h1", {}, topic ? `The log ${key}` : "A partition's log"),
    h(
      "form",
      { class: "choices", onsubmit: () => false },
      partitionChoice(state, (...where) => path("log", ...where)),
      topic ? link(path("messages", topic, name), "Its messages") : null,
    ),
  ];
  if (!topic) return head;
  const partition = state.picture.partitions.find((partition) => nameOf(partition) === key);
  if (!partition) return [head, bad("No living broker has this partition.")];
  const answer = asked.answer({ topic, partition: name });
  if (!answer) return [head, h("p", {}, "Waiting for its broker…")];
  if (answer.error) return [head, bad(answer.error)];
  const end = Math.max(partition.end ?? 0, answer.end),
    first = answer.segments[0].start;
  const segments = answer.segments.map((segment, index) => ({
    ...segment,
    end: answer.segments[index + 1]?.start ?? end,
  }));
  const cursors = state.picture.groups.flatMap((group) =>
    group.partitions
      .filter((partition) => nameOf(partition) === key)
      .map((partition) => ({ group: group.name, of: partition })),
  );
  return [
    head,
    h(
      "p",
      {},
      `Offsets ${first} to ${end}: ${bytes(end - first)} in ${plural(segments.length, "segment")}.`,
      " An offset is a position in bytes. Readers see messages up to the end; messages beyond it are appended, but not",
      " yet flushed.",
    ),
    answer.is_cut ? bad("Older segments are not shown: the log has too many.") : null,
    section("by-bytes", "By bytes, with the position of every group", drawnByBytes(segments, cursors, first, end)),
    cursorTable(cursors),
    section("by-age", "By age, up to the edge of retention", drawnByAge(segments, answer.retention_hours)),
    h(
      "details",
      { id: "segments" },
      h("summary", {}, "Segments as a table"),
      table(
        "Segments, oldest first",
        ["starts at", "bytes", "last written"],
        segments.map((segment, index) =>
          row(
            number(segment.start),
            number(bytes(segment.end - segment.start)),
            index === segments.length - 1 ? `${age(segment)}: the active segment` : age(segment),
          ),
        ),
      ),
    ),
  ];
}

function age({ older_s, younger_s }) {
  if (older_s === null) return "within the last second";
  if (younger_s === null) return `more than ${seconds(older_s)} ago`;
  return `between ${seconds(older_s)} and ${seconds(younger_s)} ago`;
}

function drawnByBytes(segments, cursors, first, end) {
  const [width, LABEL] = room(),
    px = (width - LABEL - 8) / Math.max(1, end - first);
  const x = (offset) => LABEL + (Math.min(Math.max(offset, first), end) - first) * px;
  const known = cursors.filter((cursor) => cursor.of.committed !== null),
    height = 64 + known.length * ROW;
  return h(
    "div",
    { class: "scroll" },
    h(
      "svg",
      {
        class: "log",
        width,
        height,
        role: "img",
        "aria-label":
          `${plural(segments.length, "segment")} to scale, and the positions of ${plural(known.length, "group")};` +
          " the tables below say the same",
      },
      h("text", { class: "axis", x: 0, y: 38 }, "segments"),
      h("text", { class: "axis", x: LABEL, y: 13 }, `first ${first}`),
      h("text", { class: "axis", x: width - 8, y: 13, "text-anchor": "end" }, `readable end ${end}`),
      segments.map((segment, index) => {
        const size = x(segment.end) - x(segment.start),
          text = `from ${segment.start}, ${bytes(segment.end - segment.start)}, last written ${age(segment)}`;
        return h(
          "g",
          {},
          h(
            "rect",
            {
              class: `segment ${index === segments.length - 1 ? "active" : ""}`,
              x: x(segment.start),
              y: 20,
              width: Math.max(1, size - 1.5),
              height: 28,
            },
            h("title", {}, text),
          ),
          size > 70
            ? h(
                "text",
                { class: "axis", x: x(segment.start) + 5, y: 38, "pointer-events": "none" },
                bytes(segment.end - segment.start),
              )
            : null,
        );
      }),
      h("line", { class: "mark end", x1: x(end), x2: x(end), y1: 16, y2: height - 4 }),
      known.map(({ group, of: { committed, lag_bytes } }, index) => {
        const y = 56 + index * ROW + 8,
          at = x(committed);
        return h(
          "g",
          {},
          h(
            "text",
            { class: "axis", x: 0, y: y + 9 },
            group.length * 7 > LABEL ? `${group.slice(0, Math.floor(LABEL / 7) - 1)}…` : group,
          ),
          h("rect", { class: "read", x: LABEL, y: y + 1, width: Math.max(0, at - LABEL), height: 8 }),
          h("rect", { class: "unread", x: at, y: y + 1, width: Math.max(0, x(end) - at), height: 8 }),
          h(
            "path",
            { class: "cursor", d: `M${at} ${y - 4}v18l9-9z` },
            h("title", {}, `${group} is at ${committed}, lag ${bytes(lag_bytes)}`),
          ),
        );
      }),
    ),
    h(
      "p",
      { class: "soft" },
      "The active segment has a thick frame. Filled: read and committed by the group. Dashed: not yet read.",
    ),
  );
}

function cursorTable(cursors) {
  if (!cursors.length) return h("p", {}, "No group reads this partition.");
  const columns = partitionColumns(cursors.map((cursor) => cursor.of));
  return table(
    "Groups in this partition",
    ["group", ...columns.map(([title]) => title)],
    cursors.map(({ group, of }) => row(rowHead(group), ...columns.map(([, cell]) => cell(of, group)))),
  );
}

const middleOf = ({ older_s, younger_s }) => Math.sqrt((older_s ?? 1) * (younger_s ?? older_s ?? 1));

// Ages on a scale of powers: the edge of retention on the left, this second on the right. All moves to the left.
function drawnByAge(segments, hours) {
  const [width, LABEL] = room(),
    edgeS = hours * 3600,
    from = LABEL,
    to = width - 30;
  const span = Math.log10(Math.max(10, edgeS)),
    x = (ageS) => to - (Math.min(Math.log10(Math.max(1, ageS)), span) / span) * (to - from);
  const ticks = (width < 700 ? [1, 3600] : [1, 60, 3600, 86400, 604800]).filter((ageS) => x(ageS) > from + 130),
    { older_s, younger_s } = segments[0];
  const leaves = older_s === null || segments.length < 2 ? null : Math.max(0, edgeS - (younger_s ?? older_s));
  return [
    h(
      "div",
      { class: "scroll" },
      h(
        "svg",
        {
          class: "log",
          width,
          height: 70,
          role: "img",
          "aria-label": "When segments were last written; the table of segments says the same",
        },
        h("text", { class: "axis", x: 0, y: 30 }, "last written"),
        h("line", { class: "grid", x1: from, x2: to, y1: 26, y2: 26 }),
        ticks.map((ageS) =>
          h(
            "g",
            {},
            h("line", { class: "grid", x1: x(ageS), x2: x(ageS), y1: 12, y2: 40 }),
            h(
              "text",
              { class: "axis", x: x(ageS), y: 56, "text-anchor": "middle" },
              `${seconds(ageS)} ago`.replace("60 s", "1 min").replace("60 min", "1 h").replace("24 h", "1 day"),
            ),
          ),
        ),
        h("line", { class: "mark", x1: from, x2: from, y1: 6, y2: 46 }),
        h("text", { class: "axis", x: from, y: 56 }, `deleted: ${seconds(edgeS)}`),
        segments.map((segment) =>
          h(
            "circle",
            { class: "when", cx: x(middleOf(segment)), cy: 26, r: 6 },
            h("title", {}, `the segment from ${segment.start}, ${age(segment)}`),
          ),
        ),
      ),
    ),
    h(
      "p",
      { class: "soft" },
      `Each dot is a segment. A segment last written more than ${seconds(edgeS)} ago is deleted, if --retention-hours`,
      " is as the broker's setting. ",
      leaves === null ? "The active segment stays." : `The oldest one is deleted in about ${seconds(leaves)}.`,
    ),
  ];
}
