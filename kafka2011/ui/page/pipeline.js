// View 5: whether everything has arrived in every tier, how fresh each is, and how far tables are loaded.

import { bad, bytes, h, number, plural, row, rowHead, seconds, section, table, when } from "./dom.js";
import { asking } from "./shared.js";

const AGAIN_MS = 60000;
const asked = asking("pipeline", AGAIN_MS);
const VERDICTS = {
  complete: ["✓", "complete"],
  gap: ["■", "messages are missing"],
  "cannot tell": ["?", "unknown"],
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
  const head = h("h1", {}, "The pipeline"),
    answer = asked.answer({}),
    now = Date.now() + state.skewMs;
  if (!answer) return [head, h("p", {}, "Reading what tiers have reported since yesterday…")];
  if (answer.error) return [head, bad(answer.error)];
  return [
    head,
    h(
      "p",
      { class: "soft" },
      "As of ",
      when(answer.at_ms),
      "; refreshed every minute while this page is open. Days are days of publishing, in UTC.",
    ),
    section("arrived", "Did everything arrive?", audit(answer.audit, now)),
    section("loads", "How far tables are loaded", loads(answer.loads, now)),
  ];
}

function audit(answer, now) {
  if (answer.error) return bad(answer.error);
  if (!answer.is_there)
    return h("p", {}, "No tier of this cluster reports counts: start producers, mirrors and loads with --audit.");
  return [
    h("p", { class: "soft" }, `${answer.note}.`),
    glance(answer, now),
    answer.days.length ? flow(answer) : null,
    table(
      "Each day and topic",
      ["day", "topic", "verdict", "counted by each tier", "reason"],
      answer.days
        .toSorted((a, b) => b.day.localeCompare(a.day) || ORDER.indexOf(a.verdict) - ORDER.indexOf(b.verdict))
        .map((account) =>
          row(
            account.day,
            rowHead(account.topic),
            verdict(account.verdict),
            account.tiers.map((tier) =>
              h(
                "div",
                {},
                `${tier.tier}: ${tier.counted}`,
                tier.missing ? h("b", { class: "bad" }, ` lacks ${tier.missing}`) : null,
              ),
            ),
            account.why,
          ),
        ),
    ),
    h("h2", {}, "How fresh each tier is"),
    table(
      "Topics and tiers",
      ["topic", "tier", "counted", "missing", "newest window counted"],
      answer.tiers.map(({ topic, tier, counted, missing, until_ms }) =>
        row(
          rowHead(topic),
          tier,
          number(counted),
          h("td", { class: missing ? "number bad" : "number" }, missing),
          until_ms ? [when(until_ms), ` (${seconds(Math.max(0, (now - until_ms) / 1000))} ago)`] : null,
        ),
      ),
    ),
    answer.gaps.length
      ? table(
          "Windows with messages missing",
          ["window", "topic", "tier", "missing"],
          answer.gaps
            .toReversed()
            .map(({ topic, start_ms, tier, missing }) => row(when(start_ms), rowHead(topic), tier, number(missing))),
        )
      : null,
    answer.doubts.length
      ? table(
          "Unknown, and why",
          ["topic", "since", "reason"],
          answer.doubts.map(({ topic, since_ms, why }) =>
            row(rowHead(topic), since_ms === null ? "the beginning" : when(since_ms), why),
          ),
        )
      : null,
  ];
}

// What is missing of a topic, and where; or why that is unknown.
function troubleOf({ topic, verdict: name, why, tiers }) {
  if (name !== "gap") return `${topic}, ${why}`;
  return `${topic} lacks ${tiers
    .filter((tier) => tier.missing)
    .map((tier) => `${tier.missing} in ${tier.tier}`)
    .join(", ")}`;
}

// The questions that people ask, in words.
function glance(answer, now) {
  const today = new Date(now).toISOString().slice(0, 10),
    yesterday = new Date(now - 86400000).toISOString().slice(0, 10);
  return h(
    "ul",
    { class: "glance", "aria-label": "At a glance" },
    [
      ["Yesterday", yesterday],
      ["Today so far", today],
    ].map(([name, day]) => {
      const its = answer.days.filter((account) => account.day === day),
        good = its.filter((account) => account.verdict === "complete").length;
      const worst = ORDER.find((name) => its.some((account) => account.verdict === name));
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
                      .filter((account) => account.verdict === worst)
                      .map(troubleOf)
                      .join("; "),
                    good ? `. ${plural(good, "other topic")} complete` : "",
                  ],
              ".",
            ]
          : "no window can be judged yet.",
      );
    }),
    answer.settled_ms
      ? h("li", {}, "The verdict is final for all messages published before ", when(answer.settled_ms), ".")
      : null,
    answer.open_windows
      ? h("li", {}, `${plural(answer.open_windows, "window")} of the last minutes cannot be judged yet.`)
      : null,
  );
}

// Each topic as a row of bars, one a tier, as long as what it has counted; the table below says the same.
function flow(answer) {
  const topics = [...new Set(answer.tiers.map(({ topic }) => topic))],
    tiers = [...new Set(answer.tiers.map(({ tier }) => tier))],
    label = 190,
    rowPx = 18;
  const width = Math.max(320, document.getElementById("main").clientWidth - 32),
    lines = answer.tiers.toSorted(
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

function loads(answer, now) {
  if (answer.error) return bad(answer.error);
  if (!answer.is_there) return h("p", {}, "No warehouse is shown: start the console with --warehouse.");
  const failed = Object.entries(answer.failed).map(([topic, why]) => bad(`${topic}: ${why}`));
  const found = table(
    "Tables",
    ["topic", "loads", "rows", "in quarantine", "size", "last load", "complete up to"],
    answer.tables.map((loaded) =>
      row(
        rowHead(loaded.topic),
        number(loaded.loads),
        number(loaded.rows),
        h("td", { class: loaded.quarantined ? "number bad" : "number" }, loaded.quarantined),
        number(bytes(loaded.size_bytes)),
        loaded.written_at_ms
          ? [when(loaded.written_at_ms), ` (${seconds((now - loaded.written_at_ms) / 1000)} ago)`]
          : null,
        loaded.complete_through_ms ? when(loaded.complete_through_ms) : null,
      ),
    ),
  );
  return h("div", {}, ...failed, found);
}
