// View 4: who owned what when, and each rebalance step by step.

import { groupChoice, input, select } from "./choices.js";
import { clock, h, number, plural, row, rowHead, seconds, section, table, when } from "./dom.js";
import { learn, letter, look, named, short } from "./members.js";
import { show } from "./shared.js";

const SPANS = [
  [60, "1 minute"],
  [600, "10 minutes"],
  [3600, "1 hour"],
  [86400, "1 day"],
];
const ROW = 22,
  MOST_ROWS = 60,
  NEAR_MS = 300000;
const chosen = { span: 600, at: "" };

// The middle of the picture: now at its right edge, or a time of day that was asked for.
function range(state) {
  const now = Date.now() + state.skewMs,
    spanMs = chosen.span * 1000;
  if (!chosen.at) return [now - spanMs, now, null];
  const [hour, minute] = chosen.at.split(":").map(Number),
    at = new Date(now);
  at.setHours(hour, minute, 0, 0);
  if (at.getTime() > now) at.setDate(at.getDate() - 1);
  return [at.getTime() - spanMs / 2, at.getTime() + spanMs / 2, at.getTime()];
}

export function rebalances(state) {
  const group = state.picture.groups.find((group) => group.name === state.group);
  if (!group) return [h("h1", {}, "Rebalances"), h("p", {}, "No group has read from this cluster.")];
  learn(group);
  const { history } = state,
    [begin, end, at] = range(state);
  const head = [
    h("h1", {}, `Rebalances of ${group.name}`),
    h(
      "form",
      { class: "choices", onsubmit: () => false },
      groupChoice(state),
      select("Show", SPANS, chosen.span, (span) => {
        chosen.span = Number(span);
        show();
      }),
      input("What happened at", {
        type: "time",
        onchange: (event) => {
          chosen.at = event.target.value;
          show();
        },
      }),
      h(
        "button",
        {
          type: "button",
          onclick: (event) => {
            chosen.at = "";
            event.target.form.querySelector("input").value = "";
            show();
          },
        },
        "Now",
      ),
    ),
  ];
  if (history?.group !== group.name) return [head, h("p", {}, "Waiting for its history…")];
  const near =
    at === null
      ? history.rebalances
      : history.rebalances.filter(
          (rebalance) => rebalance.end_ms >= at - NEAR_MS && rebalance.begin_ms <= at + NEAR_MS + 60000,
        );
  return [
    head,
    section("timeline", "Who owned what", timeline(group, history.spans, begin, end, at)),
    section(
      "steps",
      at === null ? "Step by step, newest first" : `Within five minutes of ${chosen.at}`,
      near.length
        ? null
        : h(
            "p",
            {},
            at === null
              ? "Nothing has changed since this page was opened, or the console was started with --always-on."
              : "No change was seen then. Changes are seen only while a browser is open, or with --always-on.",
          ),
      near.slice(0, 100).map((rebalance, index) => drawn(group, rebalance, index === 0)),
    ),
  ];
}

function timeline(group, spans, begin, end, at) {
  const width = Math.max(320, document.getElementById("main").clientWidth - 32),
    isNarrow = width < 700,
    LABEL = isNarrow ? 100 : 170,
    px = (width - LABEL) / (end - begin);
  const x = (ms) => LABEL + (Math.min(Math.max(ms, begin), end) - begin) * px;
  const names = [...new Set(spans.map(({ partition }) => partition))].toSorted((a, b) =>
    a.localeCompare(b, "en", { numeric: true }),
  );
  const shown = names.slice(0, MOST_ROWS),
    height = 24 + shown.length * ROW;
  const ticks = (isNarrow ? [0, 1] : [0, 0.25, 0.5, 0.75, 1]).map((part) => begin + part * (end - begin));
  const bars = spans.filter(
    ({ partition, begin_ms, end_ms }) => shown.includes(partition) && (end_ms ?? end) >= begin && begin_ms <= end,
  );
  const drawing = h(
    "svg",
    {
      class: "timeline",
      width,
      height,
      role: "img",
      "aria-label": `Owners of ${plural(names.length, "partition")} over time; the table below says the same`,
    },
    ticks.map((ms, index) =>
      h(
        "g",
        {},
        h("line", { class: "grid", x1: x(ms), x2: x(ms), y1: 18, y2: height }),
        h(
          "text",
          {
            class: "axis",
            x: x(ms),
            y: 13,
            "text-anchor": index === 0 ? "start" : index === ticks.length - 1 ? "end" : "middle",
          },
          clock(ms),
        ),
      ),
    ),
    shown.map((where, index) =>
      h(
        "g",
        {},
        h(
          "text",
          { class: "axis", x: 0, y: 24 + index * ROW + 15 },
          where.length * 7 > LABEL ? `…${where.slice(1 - Math.floor(LABEL / 7))}` : where,
        ),
        h("rect", { class: "m-none", x: LABEL, y: 25 + index * ROW, width: width - LABEL, height: ROW - 4 }),
      ),
    ),
    bars.map(({ partition, member, begin_ms, end_ms }) => {
      const y = 24 + shown.indexOf(partition) * ROW,
        left = x(begin_ms),
        size = Math.max(1.5, x(end_ms ?? end) - left);
      const until = end_ms ? `to ${clock(end_ms)}` : "until now";
      const text = `${partition}: ${short(group.name, member)}, from ${clock(begin_ms)} ${until}`;
      return h(
        "g",
        {},
        h(
          "rect",
          { class: look(group.name, member), x: left, y: y + 1, width: size, height: ROW - 4 },
          h("title", {}, text),
        ),
        size > 14 ? h("text", { class: "on", x: left + 5, y: y + 15 }, letter(group.name, member)) : null,
      );
    }),
    at === null ? null : h("line", { class: "mark", x1: x(at), x2: x(at), y1: 18, y2: height }),
  );
  return [
    h(
      "p",
      { class: "soft" },
      "Each row is a partition, each bar a time with one owner. A dashed frame without a bar: no owner, or not known.",
    ),
    h(
      "ul",
      { class: "legend" },
      [...new Set(bars.map(({ member }) => member))].map((member) => h("li", {}, named(group.name, member))),
    ),
    h("div", { class: "scroll" }, drawing),
    names.length > MOST_ROWS ? h("p", {}, `${names.length - MOST_ROWS} more partitions are in the table.`) : null,
    h(
      "details",
      { id: "owners-table" },
      h("summary", {}, "The same as a table"),
      table(
        "Owners in this time",
        ["partition", "owner", "from", "to"],
        bars
          .toSorted((a, b) => b.begin_ms - a.begin_ms)
          .slice(0, 500)
          .map(({ partition, member, begin_ms, end_ms }) =>
            row(
              rowHead(partition),
              named(group.name, member),
              when(begin_ms, { exact: true }),
              end_ms ? when(end_ms, { exact: true }) : "now",
            ),
          ),
      ),
    ),
  ];
}

const DOES = {
  joined: "joins the group",
  left: "leaves the group, or its session has ended",
  claimed: "claims",
  released: "gives up, or loses with its session",
  came: "is registered",
  went: "is no longer registered",
  unseen: "not observed before this",
};

function drawn(group, rebalance, isOpen) {
  const lasted = rebalance.end_ms - rebalance.begin_ms;
  const causes =
    rebalance.causes.map((text) => text.replaceAll(`${group.name}_`, "")).join(", ") || "no member joined or left";
  const waited = rebalance.longest_without_owner_ms
    ? `, a partition had no owner for ${seconds(rebalance.longest_without_owner_ms / 1000)}`
    : "";
  return h(
    "details",
    { id: `at-${rebalance.begin_ms}`, open: isOpen },
    h(
      "summary",
      {},
      when(rebalance.begin_ms, { exact: true }),
      `: ${causes}; ${plural(rebalance.moved, "partition")} moved${waited}; `,
      lasted ? `${seconds(lasted / 1000)} in all` : "all seen at once",
      rebalance.waiting
        ? h("span", { class: "bad" }, `; ${plural(rebalance.waiting, "partition")} still without an owner`)
        : null,
    ),
    table(
      "Steps",
      ["time", "after", "member or broker", "action", "partition"],
      rebalance.steps.map(({ at_ms, kind, who, where }) =>
        row(
          when(at_ms, { exact: true }),
          number(`+${at_ms - rebalance.begin_ms} ms`),
          kind === "came" || kind === "went"
            ? `broker ${who}`
            : who
              ? named(group.name, where ? who.replace(/-\d+$/, "") : who)
              : "",
          DOES[kind],
          where || "",
        ),
      ),
    ),
  );
}
