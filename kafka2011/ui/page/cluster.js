// View 1: who owns what, which groups lag, and what hangs on each broker.

import { groupChoice, nameOf } from "./choices.js";
import {
  bad,
  bytes,
  clock,
  h,
  link,
  number,
  path,
  plural,
  row,
  rowHead,
  seconds,
  section,
  table,
  when,
} from "./dom.js";
import { badge, learn, letter, look, named, short } from "./members.js";

const WORDS = {
  ok: ["✓", "keeps up"],
  learning: ["…", "not yet judged"],
  slow: ["▲", "slow: falls behind"],
  rewound: ["◀", "went back"],
  stalled: ["■", "stalled: commits the same offset"],
  stopped: ["■", "stopped: commits nothing"],
  "nobody reads": ["■", "has no members"],
};
const ORDER = Object.keys(WORDS);
export const worst = (groups) =>
  groups.toSorted(
    (a, b) =>
      ORDER.indexOf(b.state) - ORDER.indexOf(a.state) || (b.lag_s ?? -1) - (a.lag_s ?? -1) || b.lag_bytes - a.lag_bytes,
  );
export const stateOf = (name) =>
  h(
    "span",
    { class: `state ${ORDER.indexOf(name) > 1 ? "bad" : name}` },
    h("span", { "aria-hidden": "true" }, WORDS[name][0]),
    ` ${WORDS[name][1]}`,
  );

// A group's verdict is that of its worst partition: show how many partitions have it, unless all have.
function stateOfGroup(group) {
  const alike = group.partitions.filter((partition) => partition.state === group.state).length,
    isPart = !["ok", "learning"].includes(group.state) && alike < group.partitions.length;
  return [stateOf(group.state), isPart ? ` (${alike} of ${plural(group.partitions.length, "partition")})` : null];
}

export function cluster(state) {
  const { picture } = state,
    group = picture.groups.find((group) => group.name === state.group);
  picture.groups.forEach(learn);
  return [
    h("h1", {}, "The cluster now"),
    glance(state),
    section(
      "owners",
      "Who owns what",
      picture.groups.length ? groupChoice(state) : h("p", {}, "No group has read from this cluster."),
      group ? legend(group) : null,
      matrix(picture, group),
    ),
    section("behind", "Consumer lag", lags(state)),
    section("loss", "If a broker died now", losses(picture)),
    picture.omitted ? bad(`${picture.omitted} more partitions are not shown.`) : null,
  ];
}

function glance({ picture }) {
  const said = [];
  const behind = worst(picture.groups).filter(
    (group) => group.lag_bytes > 0 && !["ok", "learning"].includes(group.state),
  );
  for (const group of behind.slice(0, 3)) {
    said.push(
      h(
        "li",
        {},
        h("b", {}, group.name),
        ` lags by ${bytes(group.lag_bytes)}, `,
        group.lag_s === null ? "the time is not known yet" : `about ${seconds(group.lag_s)}`,
        ": ",
        stateOfGroup(group),
      ),
    );
  }
  const learning = picture.groups.filter((group) => group.state === "learning");
  if (learning.length)
    said.push(
      h(
        "li",
        {},
        "Not judged yet, which takes 100 s of samples: ",
        learning.map((group) => group.name).join(", "),
        ".",
      ),
    );
  const good = picture.groups.length - behind.length - learning.length;
  if (behind.length > 3) said.push(h("li", {}, `${plural(behind.length - 3, "more group")} in trouble: see below.`));
  if (good && good < picture.groups.length)
    said.push(h("li", {}, good === 1 ? "1 other group keeps up." : `${good} other groups keep up.`));
  if (!behind.length && !learning.length)
    said.push(h("li", {}, picture.groups.length ? "Every group keeps up." : "There are no groups."));
  for (const group of picture.groups.filter((group) => group.ownerless)) {
    said.push(
      h(
        "li",
        { class: "bad" },
        `${plural(group.ownerless, "partition")} of `,
        h("b", {}, group.name),
        " without an owner: no member of the group reads there.",
      ),
    );
  }
  for (const broker of picture.brokers.filter((broker) => broker.error))
    said.push(h("li", { class: "bad" }, `Broker ${broker.id} does not answer: ${broker.error}`));
  const [last] = picture.groups.filter((group) => group.last).toSorted((a, b) => b.last.end_ms - a.last.end_ms);
  if (last) {
    said.push(
      h(
        "li",
        {},
        "Last rebalance: ",
        when(last.last.begin_ms),
        ", ",
        link(path("rebalances", last.name), last.name),
        `, ${last.last.causes.join(", ").replaceAll(`${last.name}_`, "") || "no member joined or left"}`,
        `; ${plural(last.last.moved, "partition")} moved.`,
      ),
    );
  }
  return h("ul", { class: "glance", "aria-label": "At a glance" }, said);
}

function legend(group) {
  const owned = new Map();
  for (const { owner } of group.partitions) owned.set(owner, (owned.get(owner) ?? 0) + 1);
  return h(
    "ul",
    { class: "legend", "aria-label": `Members of ${group.name}` },
    group.members.length ? null : h("li", {}, "no members"),
    group.members.map((member) =>
      h(
        "li",
        { title: `${member.id}, subscribes to ${member.subscription}` },
        badge(group.name, member.id),
        ` ${short(group.name, member.id)}`,
        member.client ? ` (${member.client[0]} at ${member.client[1]})` : "",
        `: ${plural(owned.get(member.id) ?? 0, "partition")}, member since `,
        when(member.since_ms),
      ),
    ),
    owned.get(null) ? h("li", {}, badge(group.name, null), ` no owner: ${plural(owned.get(null), "partition")}`) : null,
  );
}

// Topics by brokers; each partition is a tile, which leads to its log.
function matrix(picture, group) {
  const ofGroup = new Map((group?.partitions ?? []).map((partition) => [nameOf(partition), partition]));
  const tiles = new Map();
  for (const partition of picture.partitions) {
    const key = `${partition.topic}/${partition.broker}`;
    if (!tiles.has(key)) tiles.set(key, []);
    tiles.get(key).push(tile(partition, ofGroup.get(nameOf(partition)), group));
  }
  const brokers = picture.brokers,
    read = new Set((group?.partitions ?? []).map(({ topic }) => topic));
  const topics = picture.topics.toSorted((a, b) => read.has(b) - read.has(a)); // those that the group reads go first
  return table(
    "Partitions by topic and broker. The letter and the colour show the owner in the group, the number is that of the" +
      " partition. A dash: the group does not read it.",
    [
      "topic",
      ...brokers.map((broker) =>
        h(
          "span",
          {},
          `broker ${broker.id}`,
          h("small", {}, broker.address),
          h("small", {}, "up since ", when(broker.since_ms)),
        ),
      ),
    ],
    topics.map((topic) =>
      h(
        "tr",
        {},
        rowHead(topic),
        brokers.map((broker) =>
          h(
            "td",
            {},
            h("div", { class: "tiles" }, tiles.get(`${topic}/${broker.id}`) ?? h("span", { class: "none" }, "–")),
          ),
        ),
      ),
    ),
    { class: "matrix" },
  );
}

function tile({ topic, partition, earliest, end }, ofGroup, group) {
  const owner = ofGroup?.owner,
    size = bytes(end === null ? null : end - earliest);
  const said = ofGroup
    ? owner
      ? `${letter(group.name, owner)}: ${short(group.name, owner)}`
      : "none"
    : "not read by the group";
  const since = ofGroup?.owned_since_ms ? `, since ${clock(ofGroup.owned_since_ms)}` : "";
  const text = `${topic}/${partition}, ${size}, owner ${said}${since}`;
  return link(
    path("log", topic, partition),
    [h("b", {}, ofGroup ? (owner ? letter(group.name, owner) : "?") : "–"), partition.split("-")[1]],
    { class: `tile ${ofGroup ? look(group.name, owner) : "m-unread"}`, title: text, "aria-label": text },
  );
}

function lags({ picture, mayChange }) {
  const groups = worst(picture.groups);
  if (!groups.length) return h("p", {}, "No group has read from this cluster.");
  return [
    table(
      "Groups, those in trouble first",
      ["group", "verdict", "lag", "lag in bytes", "last ten minutes", "members"],
      groups.map((group) =>
        h(
          "tr",
          {},
          rowHead(group.name),
          h("td", {}, stateOfGroup(group)),
          number(seconds(group.lag_bytes ? group.lag_s : 0)),
          number(bytes(group.lag_bytes)),
          h("td", {}, spark(group.points)),
          number(group.members.length),
        ),
      ),
    ),
    groups.map((group) =>
      h(
        "details",
        { id: `of-${group.name}` },
        h("summary", {}, `Partitions of ${group.name}: owner, offset and lag`),
        mayChange ? link(path("offsets", group.name), `Move the offsets of ${group.name}`) : null,
        partitions(group),
      ),
    ),
  ];
}

// How one partition of a group is shown, here and beside its log: a title and a cell for each of its fields.
const COLUMNS = [
  ["owner", (partition, group) => named(group, partition.owner)],
  ["owner since", ({ owned_since_ms }) => (owned_since_ms ? when(owned_since_ms) : null)],
  ["committed", ({ committed }) => number(committed)],
  ["committed at", ({ committed_at_ms }) => (committed_at_ms ? when(committed_at_ms) : null)],
  ["lag", ({ lag_bytes, lag_s }) => number(lag_bytes === null ? "–" : seconds(lag_bytes ? lag_s : 0))],
  ["lag in bytes", ({ lag_bytes }) => number(bytes(lag_bytes))],
  ["verdict", ({ state }) => stateOf(state)],
];
const SHOWN = new Set([
  "topic",
  "broker",
  "partition",
  "owner",
  "owned_since_ms",
  "committed",
  "committed_at_ms",
  "end",
  "lag_bytes",
  "lag_s",
  "state",
]);

// Those columns, and one for each other field that the server sends.
export function partitionColumns(partitions) {
  const more = Object.keys(partitions[0] ?? {}).filter((name) => !SHOWN.has(name));
  return [...COLUMNS, ...more.map((name) => [name.replaceAll("_", " "), (partition) => number(partition[name])])];
}

function partitions(group) {
  const columns = partitionColumns(group.partitions);
  return table(
    `Partitions of ${group.name}`,
    ["partition", ...columns.map(([title]) => title)],
    group.partitions.map((partition) =>
      row(
        rowHead(link(path("log", partition.topic, partition.partition), nameOf(partition))),
        ...columns.map(([, cell]) => cell(partition, group.name)),
      ),
    ),
  );
}

function spark(points) {
  if (points.length < 2) return h("span", { class: "none" }, "…");
  const most = Math.max(...points, 1),
    at = (value, index) => `${(index / (points.length - 1)) * 100},${22 - (value / most) * 20}`;
  const text = `lag: at most ${bytes(Math.max(...points))}, now ${bytes(points.at(-1))}`;
  return h(
    "svg",
    { class: "spark", viewBox: "0 0 100 24", preserveAspectRatio: "none", role: "img", "aria-label": text },
    h("title", {}, text),
    h("polyline", { points: points.map(at).join(" ") }),
  );
}

function losses(picture) {
  const alone = picture.brokers.filter((broker) => !broker.replicas.length);
  return [
    alone.length
      ? h(
          "p",
          {},
          alone.length === picture.brokers.length
            ? "Every partition is on one broker only, as in the paper: there are no copies."
            : `Broker ${alone.map((broker) => broker.id).join(", ")} has no replicas.`,
          " Messages on a dead broker without a copy are unavailable until it is back, and are lost with its disk.",
        )
      : null,
    table(
      "What each broker holds, and who has a copy",
      ["broker", "partitions", "messages", "not yet read", "if it died now"],
      picture.brokers.map((broker) =>
        row(
          rowHead(`broker ${broker.id}`),
          number(broker.partitions),
          number(bytes(broker.bytes)),
          Object.keys(broker.unread).length
            ? Object.entries(broker.unread).map(([name, count]) => h("div", {}, `${bytes(count)} by ${name}`))
            : picture.groups.length
              ? "every group has read everything"
              : "no group reads here",
          copies(broker),
        ),
      ),
    ),
  ];
}

// What replicas there are, and what would be left if the leader died.
function copies({ replicas, bytes: held }) {
  const taking = replicas.filter((replica) => replica.is_in_sync && replica.role === "follower");
  const said = taking.length
    ? h("b", {}, `${taking[0].name} takes over: nothing that readers can see is lost`)
    : h(
        "b",
        { class: "bad" },
        `${bytes(held)} unavailable: ${replicas.length ? "no other living replica is in sync" : "no copy"}`,
      );
  return [
    said,
    replicas.map(({ name, role, is_in_sync, bytes_behind, seconds_behind }) =>
      h(
        "div",
        {},
        `${name}: ${role === "leader" ? "leads" : role}${is_in_sync ? ", in sync" : ", not in sync"}`,
        bytes_behind ? `, lags by ${bytes(bytes_behind)}, ${seconds(seconds_behind)}` : "",
      ),
    ),
  ];
}
