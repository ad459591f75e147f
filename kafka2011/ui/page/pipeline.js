// View 5: whether everything has arrived in every tier, how fresh each is, and how far tables are loaded.

import { bytes, h, number, plural, row, seconds, table, when } from "./dom.js";
import { ask, show } from "./shared.js";

const AGAIN_MS = 60000;
const fetched = { at: 0, found: null };
const VERDICTS = {
  complete: ["✓", "complete"],
  gap: ["■", "messages are missing"],
  "cannot tell": ["?", "nobody can tell"],
};
const ORDER = ["gap", "cannot tell", "complete"];
const verdict = (name) =>
  h(
    "span",
    { class: name === "gap" ? "state bad" : "state" },
    h("span", { "aria-hidden": "true" }, VERDICTS[name][0]),
    ` ${VERDICTS[name][1]}`,
  );

export function pipeline(state) {
  if (Date.now() - fetched.at > AGAIN_MS) {
    fetched.at = Date.now();
    ask("pipeline", {}).then((found) => {
      fetched.found = found;
      show();
    });
  }
  const head = h("h1", {}, "The pipeline"),
    { found } = fetched,
    now = Date.now() + state.skewMs;
  if (!found) return [head, h("p", {}, "Reading what tiers have reported since yesterday…")];
  if (found.error) return [head, h("p", { class: "bad" }, found.error)];
  return [
    head,
    h(
      "p",
      { class: "soft" },
      "As of ",
      when(found.at_ms),
      "; read again every minute while this is open. Days are those of publishing, in UTC.",
    ),
    h(
      "section",
      { "aria-labelledby": "arrived" },
      h("h2", { id: "arrived" }, "Did everything arrive?"),
      audit(found.audit, now),
    ),
    h(
      "section",
      { "aria-labelledby": "loads" },
      h("h2", { id: "loads" }, "How far tables are loaded"),
      loads(found.loads, now),
    ),
  ];
}

function audit(found, now) {
  if (found.error) return h("p", { class: "bad" }, found.error);
  if (!found.is_there)
    return h("p", {}, "No tier of this cluster counts anything: start producers, mirrors and loads with --audit.");
  return [
    glance(found, now),
    found.days.length ? flow(found) : null,
    table(
      "Each day and topic",
      ["day", "topic", "verdict", "counted by each tier", "why not"],
      found.days
        .toSorted((a, b) => b.day.localeCompare(a.day) || ORDER.indexOf(a.verdict) - ORDER.indexOf(b.verdict))
        .map((each) =>
          row(
            each.day,
            h("th", { scope: "row" }, each.topic),
            verdict(each.verdict),
            each.tiers.map((tier) =>
              h(
                "div",
                {},
                `${tier.tier}: ${tier.counted}`,
                tier.missing ? h("b", { class: "bad" }, ` lacks ${tier.missing}`) : null,
              ),
            ),
            each.why,
          ),
        ),
    ),
    h("h2", {}, "How fresh each tier is"),
    table(
      "Topics and tiers",
      ["topic", "tier", "counted", "missing", "newest window counted"],
      found.tiers.map(({ topic, tier, counted, missing, until_ms }) =>
        row(
          h("th", { scope: "row" }, topic),
          tier,
          number(counted),
          h("td", { class: missing ? "number bad" : "number" }, missing),
          until_ms ? [when(until_ms), ` (${seconds(Math.max(0, (now - until_ms) / 1000))} ago)`] : null,
        ),
      ),
    ),
    found.gaps.length
      ? table(
          "Windows with messages missing",
          ["window", "topic", "tier", "missing"],
          found.gaps
            .toReversed()
            .map(({ topic, start_ms, tier, missing }) =>
              row(when(start_ms), h("th", { scope: "row" }, topic), tier, number(missing)),
            ),
        )
      : null,
    found.doubts.length
      ? table(
          "What nobody can tell, and why",
          ["topic", "since", "because"],
          found.doubts.map(({ topic, since_ms, why }) =>
            row(h("th", { scope: "row" }, topic), since_ms === null ? "ever" : when(since_ms), why),
          ),
        )
      : null,
  ];
}

// What is missing of a topic, and where; or why nobody can tell.
function troubleOf({ topic, verdict: name, why, tiers }) {
  if (name !== "gap") return `${topic}, ${why}`;
  return `${topic} lacks ${tiers
    .filter((tier) => tier.missing)
    .map((tier) => `${tier.missing} in ${tier.tier}`)
    .join(", ")}`;
}

// The questions that people ask, in words.
function glance(found, now) {
  const today = new Date(now).toISOString().slice(0, 10),
    yesterday = new Date(now - 86400000).toISOString().slice(0, 10);
  return h(
    "ul",
    { class: "glance", "aria-label": "At a glance" },
    [
      ["Yesterday", yesterday],
      ["Today so far", today],
    ].map(([name, day]) => {
      const its = found.days.filter((each) => each.day === day),
        good = its.filter((each) => each.verdict === "complete").length;
      const worst = ORDER.find((each) => its.some((of) => of.verdict === each));
      return h(
        "li",
        {},
        h("b", {}, `${name}: `),
        worst
          ? [
              verdict(worst),
              worst === "complete"
                ? ` in ${plural(its.length, "topic")}`
                : [
                    ": ",
                    its
                      .filter((each) => each.verdict === worst)
                      .map(troubleOf)
                      .join("; "),
                    good ? `. ${plural(good, "other topic")} complete` : "",
                  ],
              ".",
            ]
          : "nothing was counted that can be judged yet.",
      );
    }),
    found.settled_ms
      ? h(
          "li",
          {},
          "All that was published before ",
          when(found.settled_ms),
          " is judged: nothing of it is on its way any more.",
        )
      : null,
    found.open_windows
      ? h("li", {}, `${plural(found.open_windows, "window")} of the last minutes cannot be judged yet.`)
      : null,
  );
}

// Each topic as a row of bars, one a tier, as long as what it has counted; the table below says the same.
function flow(found) {
  const topics = [...new Set(found.tiers.map(({ topic }) => topic))],
    tiers = [...new Set(found.tiers.map(({ tier }) => tier))],
    label = 190,
    rowPx = 18;
  const width = Math.max(320, document.getElementById("main").clientWidth - 32),
    lines = found.tiers.toSorted(
      (a, b) => topics.indexOf(a.topic) - topics.indexOf(b.topic) || tiers.indexOf(a.tier) - tiers.indexOf(b.tier),
    );
  return h(
    "div",
    { class: "scroll" },
    h(
      "svg",
      {
        class: "log",
        width,
        height: lines.length * rowPx + 8,
        role: "img",
        "aria-label": "What each tier has counted since yesterday; the table of topics and tiers says the same",
      },
      lines.map(({ topic, tier, counted, missing }, index) => {
        const most = Math.max(
            ...lines.filter((line) => line.topic === topic).map((line) => line.counted + line.missing),
            1,
          ),
          px = (width - label - 150) / most,
          y = index * rowPx;
        return h(
          "g",
          {},
          lines[index - 1]?.topic === topic
            ? null
            : h("text", { class: "axis", x: 0, y: y + 13 }, topic.length > 15 ? `${topic.slice(0, 14)}…` : topic),
          h("text", { class: "axis", x: label - 6, y: y + 13, "text-anchor": "end" }, tier),
          h("rect", { class: "read", x: label, y: y + 3, width: counted * px, height: rowPx - 6 }),
          missing
            ? h("rect", {
                class: "missing",
                x: label + counted * px,
                y: y + 3,
                width: Math.max(3, missing * px),
                height: rowPx - 6,
              })
            : null,
          h(
            "text",
            { class: missing ? "axis lacks" : "axis", x: label + (counted + missing) * px + 8, y: y + 13 },
            missing ? `${counted}, lacks ${missing}` : counted,
          ),
        );
      }),
    ),
  );
}

function loads(found, now) {
  if (found.error) return h("p", { class: "bad" }, found.error);
  if (!found.is_there) return h("p", {}, "No warehouse was named: see --warehouse.");
  return table(
    "Tables",
    ["topic", "loads", "rows", "in quarantine", "size", "last load", "complete through"],
    found.tables.map((each) =>
      row(
        h("th", { scope: "row" }, each.topic),
        number(each.loads),
        number(each.rows),
        h("td", { class: each.quarantined ? "number bad" : "number" }, each.quarantined),
        number(bytes(each.size_bytes)),
        each.written_at_ms ? [when(each.written_at_ms), ` (${seconds((now - each.written_at_ms) / 1000)} ago)`] : null,
        each.complete_through_ms ? when(each.complete_through_ms) : null,
      ),
    ),
  );
}
