// View 3: a few messages, each beside its bytes, field by field, and what it says.

import { input, partitionChoice } from "./choices.js";
import { bad, bytes, h, link, path, plural, row, rowHead, table } from "./dom.js";
import { asking, show } from "./shared.js";

const asked = asking("messages");

// The address says what is shown: #/messages/TOPIC/PARTITION/from=… or before=…, nothing for the last ones.
export function messages(state) {
  const [, topic, name, start = ""] = state.route;
  const go = (what) => path("messages", topic, name, what);
  const head = [
    h("h1", {}, topic ? `Messages of ${topic}/${name}` : "Messages"),
    h(
      "form",
      {
        class: "choices",
        onsubmit: (event) => {
          event.preventDefault();
          submit(event.target, topic, name);
        },
      },
      partitionChoice(state, (...where) => path("messages", ...where)),
      topic
        ? [
            input("From offset", { name: "offset", inputmode: "numeric", pattern: "[0-9]*", size: 14 }),
            input("or time", { name: "time", type: "datetime-local", step: 1 }),
            h("button", {}, "Show"),
            link(go("from=earliest"), "first"),
            link(path("messages", topic, name), "last"),
            link(path("log", topic, name), "its log"),
          ]
        : null,
    ),
  ];
  if (!topic) return head;
  const answer = asked.answer({ topic, partition: name, ...Object.fromEntries(new URLSearchParams(start)) });
  if (!answer) return [head, h("p", {}, "Waiting for its broker…")];
  if (answer.error) return [head, bad(answer.error)];
  return [
    head,
    h(
      "p",
      {},
      answer.messages.length
        ? `${plural(answer.messages.length, "message")} from offset ${answer.start}`
        : "There are no messages from here to the end",
      `; the log holds ${answer.first} to ${answer.end}. `,
      start.startsWith("from=%40") || start.startsWith("from=@")
        ? "A log has times only of segments: this is the start of the newest segment from before that time."
        : "",
    ),
    h(
      "p",
      { class: "choices" },
      answer.start > answer.first ? link(go(`before=${answer.start}`), "◀ earlier") : null,
      answer.next < answer.end ? link(go(`from=${answer.next}`), "later ▶") : null,
      h(
        "button",
        {
          type: "button",
          onclick: () => {
            asked.forget();
            show();
          },
        },
        "Read again",
      ),
    ),
    answer.messages.map((message) => drawn(message)),
  ];
}

function submit(form, topic, name) {
  const { offset, time } = form.elements;
  if (offset.value) location.hash = path("messages", topic, name, `from=${offset.value}`);
  else if (time.value) location.hash = path("messages", topic, name, `from=@${new Date(time.value).getTime()}`);
}

function drawn(message) {
  const data = message.data.match(/../g) ?? [];
  const of = (position) => message.fields.findIndex(({ start, end }) => position >= start && position < end);
  return h(
    "article",
    { class: "message", "aria-label": `Message at offset ${message.offset}` },
    h(
      "h2",
      {},
      `Offset ${message.offset}`,
      h("small", {}, ` ${bytes(message.size)}, the next one starts at ${message.offset + message.size}`),
    ),
    message.fault ? bad(message.fault) : null,
    h(
      "div",
      { class: "sides" },
      h(
        "div",
        {},
        h("pre", { class: "said" }, message.text || (message.inside.length ? "" : "(nothing)")),
        message.inside.length
          ? [
              h("p", { class: "soft" }, "A compressed set of these messages:"),
              h(
                "ol",
                {},
                message.inside.map((text) => h("li", {}, h("pre", { class: "said" }, text))),
              ),
            ]
          : null,
      ),
      h(
        "div",
        {},
        table(
          "Fields",
          ["field", "bytes", "value"],
          message.fields.map(({ name, start, end, meaning }, index) =>
            row(
              rowHead(h("span", { class: `f f${index}` }, name)),
              h("td", { class: "number" }, end - start > 1 ? `${start}–${end - 1}` : start),
              meaning,
            ),
          ),
        ),
        dump(data, of, message.size),
      ),
    ),
  );
}

// Sixteen bytes a line: their position, each byte with its field's mark, and the characters among them.
function dump(data, of, size) {
  const lines = [];
  for (let start = 0; start < data.length; start += 16) {
    const its = data.slice(start, start + 16),
      spans = [];
    its.forEach((byte, index) => {
      const field = of(start + index),
        last = spans.at(-1);
      if (last?.field === field) last.text += ` ${byte}`;
      else spans.push({ field, text: byte });
    });
    const text = its
      .map((byte) => {
        const code = parseInt(byte, 16);
        return code > 31 && code < 127 ? String.fromCharCode(code) : "·";
      })
      .join("");
    const gap = " ".repeat(Math.max(0, (16 - its.length) * 3));
    lines.push(
      h(
        "div",
        {},
        h("span", { class: "soft" }, `${start.toString(16).padStart(4, "0")}  `),
        spans.flatMap(({ field, text: part }) => [h("span", { class: `f f${field}` }, part), " "]),
        `${gap} ${text}`,
      ),
    );
  }
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "The bytes" },
    h(
      "div",
      { class: "hex" },
      lines,
      data.length < size ? h("div", { class: "soft" }, `… ${bytes(size - data.length)} more`) : null,
    ),
  );
}
