// Members of groups as letters, colours and patterns that stay theirs while the page is open.

import { h } from "./dom.js";

const COLOURS = 5,
  PATTERNS = 3;
const known = new Map();

function indexOf(group, member) {
  if (!known.has(group)) known.set(group, new Map());
  const its = known.get(group);
  if (!its.has(member)) its.set(member, its.size);
  return its.get(member);
}

export function learn(group) {
  for (const member of group.members) indexOf(group.name, member.id);
}

export function letter(group, member) {
  let index = indexOf(group, member),
    text = "";
  do {
    text = String.fromCharCode(65 + (index % 26)) + text;
    index = Math.floor(index / 26) - 1;
  } while (index >= 0);
  return text;
}

export function look(group, member) {
  if (!member) return "m-none";
  const index = indexOf(group, member);
  return `m${index % COLOURS} p${Math.floor(index / COLOURS) % PATTERNS}`;
}

export const short = (group, member) => (member.startsWith(`${group}_`) ? member.slice(group.length + 1) : member);

export const badge = (group, member) =>
  h("span", { class: `badge ${look(group, member)}`, "aria-hidden": "true" }, member ? letter(group, member) : "?");

export const named = (group, member) =>
  member
    ? h("span", { class: "member", title: member }, badge(group, member), " ", short(group, member))
    : h("span", { class: "member" }, badge(group, null), " nobody");
