// The page: which view is shown, what the server has sent of it, and the words on how fresh that is.

import { cluster } from "./cluster.js";
import { become, h, link } from "./dom.js";
import { log } from "./log.js";
import { messages } from "./messages.js";
import { offsets } from "./offsets.js";
import { pipeline } from "./pipeline.js";
import { rebalances } from "./rebalances.js";
import { drawBy, show } from "./shared.js";

const VIEWS = {
  cluster: { title: "Cluster", draw: cluster },
  log: { title: "A log", draw: log },
  messages: { title: "Messages", draw: messages },
  rebalances: { title: "Rebalances", draw: rebalances },
  pipeline: { title: "Pipeline", draw: pipeline },
  offsets: { title: "Move offsets", draw: offsets, isHidden: true },
};
const SILENCE_MS = 6000;

const state = { picture: null, history: null, nowMs: 0, skewMs: 0, mayChange: false, route: [], group: "" };
let stream = null,
  heardMs = 0,
  trouble = "",
  wanted = "";

// What the server is to look at closely, as the query of the stream of events.
function focus() {
  const [view, ...rest] = state.route,
    query = new URLSearchParams();
  if (state.group) query.set("group", state.group);
  if ((view === "log" || view === "messages") && rest.length >= 2) {
    query.set("topic", rest[0]);
    query.set("partition", rest[1]);
  }
  if (view === "rebalances" && state.group) query.set("history", state.group);
  return query.toString();
}

function connect() {
  const query = focus();
  if (stream && stream.readyState !== EventSource.CLOSED && query === wanted) return;
  wanted = query;
  stream?.close();
  stream = new EventSource(`/events?${query}`);
  const on = (name, take) =>
    stream.addEventListener(name, (event) => {
      take(JSON.parse(event.data));
      show();
    });
  on("beat", (beat) => {
    heardMs = Date.now();
    state.nowMs = beat.at_ms;
    state.skewMs = beat.at_ms - heardMs;
    trouble = beat.trouble;
    state.mayChange = beat.may_change;
  });
  on("picture", (picture) => {
    state.picture = picture;
    choose();
  });
  on("history", (history) => {
    state.history = history;
  });
  stream.onerror = () => {
    if (stream.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
  };
}

// A view that is about one group shows the one that was chosen, else the one that is worst off.
function choose() {
  const groups = state.picture?.groups ?? [];
  if (groups.some((group) => group.name === state.group)) return;
  const living = groups.filter((group) => group.members.length);
  const [most] = (living.length ? living : groups).toSorted(
    (a, b) => b.members.length - a.members.length || b.lag_bytes - a.lag_bytes,
  );
  chooseGroup(most?.name ?? "");
}

function chooseGroup(name) {
  if (name === state.group) return;
  state.group = name;
  state.history = null;
  if (state.route[0] === "rebalances") location.replace(`#/rebalances/${encodeURIComponent(name)}`);
  connect();
  show();
}

function route() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
  state.route = parts[0] in VIEWS ? parts : ["cluster"];
  if (state.route[0] === "rebalances" && state.route[1]) state.group = state.route[1];
  document.title = `${VIEWS[state.route[0]].title} · kafka2011`;
  connect();
  show();
}

function draw() {
  const [view] = state.route;
  become(
    document.getElementById("views"),
    h(
      "nav",
      { "aria-label": "Views", id: "views" },
      Object.entries(VIEWS)
        .filter(([, { isHidden }]) => !isHidden)
        .map(([name, { title }]) => link(`#/${name}`, title, { "aria-current": name === view ? "page" : null })),
    ),
  );
  beat();
  if (!state.picture) return;
  become(document.getElementById("main"), h("main", { id: "main", tabindex: "-1" }, VIEWS[view].draw(state)));
}

function beat() {
  const isSilent = Date.now() - heardMs > SILENCE_MS;
  const text = !heardMs
    ? "connecting…"
    : isSilent
      ? "The server does not answer: this page is out of date."
      : trouble
        ? `The cluster cannot be read now: ${trouble}`
        : "live";
  become(
    document.getElementById("beat"),
    h("p", { id: "beat", role: "status", class: heardMs && (isSilent || trouble) ? "bad" : "" }, text),
  );
}

drawBy(draw);
addEventListener("group", (event) => chooseGroup(event.detail));
addEventListener("hashchange", () => {
  route();
  document.getElementById("main").focus({ preventScroll: true });
  scrollTo(0, 0);
});
setInterval(() => {
  beat();
  if (state.route[0] !== "messages") show();
}, 1000);
route();
