// Elements, text and numbers. Text only ever becomes text nodes and attribute values: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "rect", "line", "path", "text", "polyline", "title", "circle"]);

export function h(tag, attributes = {}, ...children) {
  const made = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      made[name] = value;
      made.handlers = { ...made.handlers, [name]: value };
    } else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

// Makes `shown` like `wanted` in place, so that focus, scrolling and open details stay where they are.
export function become(shown, wanted) {
  if (shown.nodeType !== wanted.nodeType || shown.nodeName !== wanted.nodeName || shown.id !== wanted.id) {
    shown.replaceWith(wanted);
    return;
  }
  if (shown.nodeType === Node.TEXT_NODE) {
    if (shown.data !== wanted.data) shown.data = wanted.data;
    return;
  }
  for (const { name } of [...shown.attributes]) {
    if (!wanted.hasAttribute(name) && !(name === "open" && shown.nodeName === "DETAILS")) shown.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes)
    if (shown.getAttribute(name) !== value) shown.setAttribute(name, value);
  for (const [name, value] of Object.entries(wanted.handlers ?? {})) shown[name] = value;
  const before = [...shown.childNodes],
    after = [...wanted.childNodes];
  for (const [index, node] of after.entries()) {
    if (index < before.length) become(before[index], node);
    else shown.append(node);
  }
  for (const node of before.slice(after.length)) node.remove();
  if (shown.nodeName === "SELECT") shown.value = wanted.value;
}

export function table(caption, heads, rows, attributes = {}) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      attributes,
      h("caption", {}, caption),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((head) => h("th", { scope: "col" }, head)),
        ),
      ),
      h("tbody", {}, rows),
    ),
  );
}

export function row(...cells) {
  return h(
    "tr",
    {},
    cells.map((cell) =>
      cell instanceof Element && /^T[HD]$/.test(cell.nodeName)
        ? cell
        : h("td", {}, cell ?? h("span", { class: "none" }, "–")),
    ),
  );
}

export const rowHead = (...children) => h("th", { scope: "row" }, ...children);
export const bad = (...children) => h("p", { class: "bad" }, ...children);

// A part of a view under its own heading.
export function section(id, title, ...children) {
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title), ...children);
}

export const number = (value) => h("td", { class: "number" }, value ?? "–");

export function bytes(count) {
  if (count === null || count === undefined) return "–";
  if (count < 1000) return `${count} B`;
  const power = Math.min(4, Math.floor(Math.log10(count) / 3));
  return `${(count / 1000 ** power).toPrecision(3)} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}

export function seconds(count) {
  if (count === null || count === undefined) return "not known";
  if (count && count < 0.1) return `${Math.ceil(count * 1000)} ms`;
  if (count < 10) return `${Math.round(count * 10) / 10} s`;
  if (count < 120) return `${Math.round(count)} s`;
  if (count < 7200) return `${Math.round(count / 60)} min`;
  if (count < 172800) return `${Math.round(count / 3600)} h`;
  return `${Math.round(count / 86400)} days`;
}

// A time of today as a clock shows it, an earlier one with its day; parts of a second where they matter.
export function when(ms, { exact = false } = {}) {
  if (!ms) return "not known";
  const iso = new Date(ms).toISOString();
  return h("time", { datetime: iso, title: iso }, clock(ms, exact));
}

export function clock(ms, exact = false) {
  const at = new Date(ms),
    two = (value) => String(value).padStart(2, "0");
  const tenths = exact ? `.${Math.floor(at.getMilliseconds() / 100)}` : "";
  const text = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}${tenths}`;
  const isToday = new Date().toDateString() === at.toDateString();
  return isToday ? text : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${text}`;
}

export const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
export const link = (href, text, attributes = {}) => h("a", { href, ...attributes }, text);
export const path = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;
