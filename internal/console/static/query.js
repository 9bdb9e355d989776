// Completion and history of the query box of a page (parts/query.html).
import { announce } from "./console.js";

const box = document.getElementById("query");
const api = "/api/v1";
const pause = 150; // milliseconds without a key before the server is asked
const most = 12; // options

// Answers of the server, by URL: values change little while somebody types.
const answers = new Map();

function ask(path, parameters) {
  const url = `${api}${path}?${new URLSearchParams(parameters)}`;
  if (!answers.has(url)) {
    const answer = fetch(url).then((response) => (response.ok ? response.json() : null));
    answer.catch(() => answers.delete(url));
    answers.set(url, answer);
  }
  return answers.get(url);
}

// period returns the parameters of the filter besides its query.
function period() {
  const found = {};
  for (const name of ["since", "from", "to"]) {
    const value = box.form.elements[name]?.value;
    if (value && value !== "all") found[name] = value;
  }
  return { ...found, zone: Intl.DateTimeFormat().resolvedOptions().timeZone };
}

// parse reads a query up to the caret: what is typed there, from where on, and what can
// stand there: a field, an operator after it, a value of it, or "and" and "or".
export function parse(text) {
  const groups = []; // for each open parenthesis, the field whose values are in it, or ""
  let state = { expects: "field", field: "" };
  const token = /\s+|"(?:[^"\\]|\\.)*"?|[(){}:]|[<>]=?|(?:[^\s(){}:<>"\\]|\\.)+|\\/gsu;
  let last = { text: "", start: text.length, spaced: true };
  const apply = (word) => {
    const inGroup = groups.at(-1) ?? "";
    if (word === "(") {
      groups.push(state.expects === "value" ? state.field : "");
      return;
    }
    if (word === ")") {
      groups.pop();
      state = { expects: "link", field: groups.at(-1) ?? "" };
    } else if (word === ":" || /^[<>]/u.test(word)) state = { expects: "value", field: state.field, operator: word };
    else if (/^(and|or|not)$/iu.test(word)) state = inGroup ? { expects: "value", field: inGroup, operator: ":" } : { expects: "field", field: "" };
    else if (state.expects === "field") state = { expects: "operator", field: word.replace(/^"|"$/gu, "") };
    else if (state.expects === "value") state = { expects: "link", field: state.field };
    // A further word belongs to the value before it.
  };
  for (const match of text.matchAll(token)) {
    if (last.text !== "" && !last.spaced) apply(last.text);
    last = { text: match[0], start: match.index, spaced: /^\s/u.test(match[0]) };
  }
  if (last.spaced || /^[(){}:<>]/u.test(last.text)) {
    if (!last.spaced) apply(last.text);
    last = { text: "", start: text.length };
  }
  return { ...state, typed: last.text, start: last.start };
}

// quoted writes a value as a query has it.
function quoted(value) {
  if (/^[\p{L}\p{N}_.@/#$%+-]+$/u.test(value) && !/^(and|or|not)$/iu.test(value)) return value;
  return `"${value.replace(/[\\"]/gu, "\\$&")}"`;
}

// before returns the conditions to which the one at the caret is added with "and".
function before(text) {
  const match = /^(.*\S)\s+and\s+$/isu.exec(text);
  return match && !/[()]|\bor\b|\bnot\s*$/iu.test(match[1]) ? match[1] : "";
}

async function fieldsOf() {
  const listed = await ask("/fields", {});
  return listed ? [...listed.labels, ...listed.fields.filter((field) => !field.name.endsWith(".*"))] : [];
}

const hasOrder = (field) => ["date", "long", "double"].includes(field?.type);

// Fields of most queries, which come first.
const often = ["action", "queue", "message.id", "error.message", "class", "error_group", "routing_key", "destination.name", "headers"];

async function fieldOptions(typed) {
  const text = typed.toLowerCase();
  if (text.startsWith("headers.")) return headerOptions(text);
  const fields = (await fieldsOf()).filter((field) => field.name.toLowerCase().includes(text));
  const rank = ({ short }) => (short.toLowerCase().startsWith(text) ? 0 : 100) + (often.includes(short) ? often.indexOf(short) : often.length);
  fields.sort((a, b) => rank(a) - rank(b));
  return fields.map((field) => ({
    text: field.short,
    note: field.name === field.short ? field.type : field.name,
    insert: field.type === "flattened" ? `${field.short}.` : hasOrder(field) ? `${field.short} ` : `${field.short}: `,
  }));
}

// headerOptions offers the headers of the newest messages.
async function headerOptions(typed) {
  const found = await ask("/events", { ...period(), fields: "headers", limit: 100 });
  const names = new Set((found?.events ?? []).flatMap((event) => Object.keys(event.headers ?? {})));
  return [...names].map((name) => `headers.${name}`).filter((name) => name.toLowerCase().startsWith(typed)).sort()
    .map((name) => ({ text: name, note: "header", insert: `${name}: ` }));
}

async function operatorOptions(name) {
  const field = (await fieldsOf()).find((one) => one.short === name || one.name === name);
  const all = hasOrder(field) ? [[":", "equals"], [">=", "at least"], ["<=", "at most"], [">", "more than"], ["<", "less than"]] : [[":", "equals"]];
  return all.map(([text, note]) => ({ text, note, insert: text === ":" ? ": " : `${text} ` }));
}

async function valueOptions(context, text) {
  const field = (await fieldsOf()).find((one) => one.short === context.field || one.name === context.field);
  if (field?.type === "date") return ["now-1h", "now-1d", "now-7d", "now/d"].map((time) => ({ text: time, note: "time", insert: `${time} ` }));
  if (["text", "flattened"].includes(field?.type) || /^body\b/u.test(context.field)) return [];
  const asked = { ...period(), field: context.field, limit: 100 };
  const narrower = before(text.slice(0, context.start).replace(/\S+\s*(?::|[<>]=?)\s*\(?\s*$/u, ""));
  const counted = (narrower && (await ask("/events/values", { ...asked, query: narrower }))) || (await ask("/events/values", asked));
  const typed = context.typed.replace(/^"|"$/gu, "").toLowerCase();
  return (counted?.values ?? []).filter((one) => one.value.toLowerCase().includes(typed))
    .map((one) => ({ text: one.value, note: one.count.toLocaleString("en"), insert: `${quoted(one.value)} ` }));
}

function options(context, text) {
  switch (context.expects) {
    case "field":
      return fieldOptions(context.typed);
    case "operator":
      return context.typed ? [] : operatorOptions(context.field);
    case "value":
      return valueOptions(context, text);
  }
  return ["and", "or"].filter((word) => word.startsWith(context.typed.toLowerCase())).map((word) => ({ text: word, note: "", insert: `${word} ` }));
}

// The list below the box. Only this part changes it.
const list = document.createElement("ul");
let shown = []; // options
let active = -1;
let turn = 0; // of asking; an answer to an earlier one is late

function close() {
  turn++;
  shown = [];
  active = -1;
  list.hidden = true;
  list.replaceChildren();
  box.setAttribute("aria-expanded", "false");
  box.removeAttribute("aria-activedescendant");
}

function show(found, label) {
  close();
  shown = found.slice(0, most);
  if (shown.length === 0) return;
  list.setAttribute("aria-label", label);
  list.append(...shown.map((option, i) => {
    const item = document.createElement("li");
    item.id = `option-${i}`;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", "false");
    const text = document.createElement("span");
    text.textContent = option.text;
    const note = document.createElement("small");
    note.textContent = option.note;
    item.append(text, note);
    item.addEventListener("pointerdown", (event) => event.preventDefault()); // the box keeps the focus
    item.addEventListener("click", () => choose(option));
    return item;
  }));
  list.hidden = false;
  box.setAttribute("aria-expanded", "true");
}

function move(step) {
  list.children[active]?.setAttribute("aria-selected", "false");
  active = (active + step + shown.length + (active < 0 && step < 0 ? 1 : 0)) % shown.length;
  const item = list.children[active];
  item.setAttribute("aria-selected", "true");
  item.scrollIntoView({ block: "nearest" });
  box.setAttribute("aria-activedescendant", item.id);
}

function choose(option) {
  if (option.whole) {
    box.value = option.insert;
    close();
    return box.focus();
  }
  const caret = box.selectionStart;
  let start = parse(box.value.slice(0, caret)).start;
  if (option.insert.startsWith(":")) start = box.value.slice(0, start).trimEnd().length; // "queue:"
  box.setRangeText(option.insert, start, caret, "end");
  close();
  complete();
}

async function complete() {
  close();
  const mine = turn;
  const text = box.value.slice(0, box.selectionStart);
  try {
    const found = await options(parse(text), box.value);
    if (mine !== turn || document.activeElement !== box) return;
    show(found, "Completions");
    if (shown.length) announce(`${shown.length} completions`);
  } catch {
    // The server is away: the box works without completion.
  }
}

// History

const stored = "watership-queries";
const kept = 50;

function history() {
  try {
    return JSON.parse(localStorage.getItem(stored)) ?? [];
  } catch {
    return [];
  }
}

function remember() {
  const query = box.value.trim();
  if (!query) return;
  try {
    localStorage.setItem(stored, JSON.stringify([query, ...history().filter((one) => one !== query)].slice(0, kept)));
  } catch {
    // There is no storage: no history.
  }
}

function showHistory() {
  show(history().map((query) => ({ text: query, note: "", insert: query, whole: true })), "Former queries");
  if (!shown.length) announce("No former queries");
}

function onKey(event) {
  const down = event.key === "ArrowDown";
  if (down || event.key === "ArrowUp") {
    event.preventDefault();
    if (shown.length) return move(down ? 1 : -1);
    if (!box.value) showHistory();
    else complete();
    return;
  }
  if (!shown.length || event.isComposing) return;
  if (event.key === "Escape") {
    event.stopPropagation();
    return close();
  }
  if ((event.key === "Enter" || event.key === "Tab") && active >= 0) {
    event.preventDefault();
    return choose(shown[active]);
  }
  if (event.key === "Enter") close();
}

function begin() {
  list.id = "completions";
  list.className = "completions";
  list.setAttribute("role", "listbox");
  list.hidden = true;
  for (const [name, value] of Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": list.id, "aria-haspopup": "listbox" })) {
    box.setAttribute(name, value);
  }
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  button.title = "Former queries";
  button.setAttribute("aria-label", "Former queries");
  button.textContent = "↺";
  button.addEventListener("click", () => {
    box.focus();
    showHistory();
  });
  box.after(button, list);
  let timer = 0;
  box.addEventListener("input", () => {
    clearTimeout(timer);
    close();
    timer = setTimeout(complete, pause);
  });
  box.addEventListener("keydown", onKey);
  box.addEventListener("blur", close);
  box.form.addEventListener("submit", remember);
}

if (box) begin();
