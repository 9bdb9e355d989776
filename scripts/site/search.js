// The search of the site. search-index.js has the pages as Markdown; the first use of the search loads it.
"use strict";

// Words of questions that say nothing about their subject.
const common = new Set(("a an and are as at be but by can could did do does for from get had has have how i if in into is it its me my no not of on one or our "
  + "should so that the their them then there they this to use was we what when where which who why will with without would you your").split(" "));

// wordsOf returns the words of a text as the search compares them: without marks and the endings of English.
function wordsOf(text) {
  const found = text.toLowerCase().replace(/['’]s?\b/g, "").match(/[\p{L}\p{N}]+/gu) ?? [];
  return found.filter((word) => !common.has(word)).map(stem);
}

const stems = new Map();

function stem(word) {
  let short = stems.get(word);
  if (short !== undefined) return short;
  short = word.length < 4 ? word : word.replace(/(ies|ied)$/, "y").replace(/(?<=[sxz]|ch|sh)es$/, "").replace(/(?<=[^su])s$/, "")
    .replace(/(?<=..[^aeiou]|..u|e)(ing|ed)$/, "").replace(/(.)\1$/, "$1").replace(/e$/, "");
  stems.set(word, short);
  return short;
}

// passagesOf takes a page apart: a passage is a paragraph, a list, code or a row of a table, below its heading. The anchors are those of GitHub.
function passagesOf({ url, text }) {
  const found = [];
  let page = "", heading = "", to = url, inCode = false, open;
  for (const line of text.split("\n")) {
    if (line.startsWith("```")) inCode = !inCode;
    const [, marks, title] = (!inCode && line.match(/^(#+) (.+)$/)) || [];
    if (title) {
      page ||= title;
      heading = title;
      if (marks !== "#") to = `${url}#${title.toLowerCase().replace(/[^\p{L}\p{N}_ -]/gu, "").replaceAll(" ", "-")}`;
    }
    if (title || !inCode && (line === "" || line.startsWith("| ")) && open?.text.trim()) open = undefined;
    if (!open) found.push(open = { url: to, page, heading, text: "" });
    if (!title) open.text += line + "\n";
  }
  return found.filter((passage) => passage.text.trim());
}

// Where a word stands says how much a passage is about it. Decisions and the log of changes are about the past.
const weights = { heading: 4, page: 2, text: 1 };
const past = /decisions\/|CHANGELOG|benchmarks/;

// indexOf counts the words of passages.
function indexOf(pages) {
  const passages = pages.flatMap(passagesOf);
  const frequency = new Map(); // number of passages with a word
  let length = 0;
  for (const passage of passages) {
    passage.counts = new Map();
    for (const [part, weight] of Object.entries(weights)) {
      for (const word of wordsOf(passage[part])) passage.counts.set(word, (passage.counts.get(word) ?? 0) + weight);
    }
    passage.length = passage.counts.size;
    length += passage.length;
    for (const word of passage.counts.keys()) frequency.set(word, (frequency.get(word) ?? 0) + 1);
  }
  return { passages, frequency, average: length / passages.length };
}

// find returns the best passage of each section that answers a question, best first (BM25). The last word may be the beginning of one.
function find({ passages, frequency, average }, question) {
  const asked = [...new Set(wordsOf(question))];
  const alike = asked.map((word, n) => frequency.has(word) || n < asked.length - 1 ? [word] : [...frequency.keys()].filter((known) => known.startsWith(word)));
  const best = new Map(); // by section
  for (const passage of passages) {
    let score = 0, known = 0;
    for (const words of alike) {
      const of = Math.max(0, ...words.map((word) => {
        const count = passage.counts.get(word) ?? 0;
        return Math.log(1 + passages.length / frequency.get(word)) * count * 2.2 / (count + 1.2 * (0.4 + 0.6 * passage.length / average)) || 0;
      }));
      score += of;
      if (of) known++;
    }
    if (asked.length > 1 && passage.text.includes(question)) score *= 2; // such as a text that a command has printed
    score *= (known / alike.length) ** 2 * (past.test(passage.url) ? 0.3 : 1);
    if (score > (best.get(passage.url)?.score ?? 0)) best.set(passage.url, { passage, score });
  }
  return [...best.values()].sort((a, b) => b.score - a.score).slice(0, 12).map((hit) => hit.passage);
}

// excerpt returns what a passage says near a word of the question.
function excerpt(passage, question) {
  const text = passage.text.replace(/\]\([^)]*\)|[*`#[\]|]|!\[/g, "").replace(/\s+/g, " ").trim();
  const asked = new Set(wordsOf(question));
  const at = [...text.matchAll(/[\p{L}\p{N}]+/gu)].find(([word]) => asked.has(stem(word.toLowerCase())))?.index ?? 0;
  const start = at < 60 ? 0 : text.lastIndexOf(" ", at - 40) + 1;
  return (start ? "… " : "") + text.slice(start, start + 160) + (text.length > start + 160 ? " …" : "");
}

let searched; // the index

function searchIn(pages) { // search-index.js calls it
  searched = indexOf(pages);
  if (typeof document !== "undefined") document.querySelector(".search input").dispatchEvent(new Event("input"));
}

if (typeof document !== "undefined") {
  const root = document.currentScript.dataset.root;
  const form = document.querySelector(".search"), input = form.querySelector("input"), list = form.querySelector("ol");
  const items = () => [...list.querySelectorAll("[role=option]")];
  form.hidden = false;

  const show = () => {
    const question = input.value.trim();
    const hits = searched && question ? find(searched, question) : [];
    list.replaceChildren(...hits.map((passage, n) => {
      const item = document.createElement("li"), link = document.createElement("a"), name = document.createElement("strong"), about = document.createElement("small");
      item.id = `hit-${n}`;
      item.role = "option";
      link.href = root + passage.url;
      link.tabIndex = -1;
      name.textContent = passage.heading === passage.page ? passage.page : `${passage.page} › ${passage.heading}`;
      about.textContent = excerpt(passage, question);
      link.append(name, about);
      item.append(link);
      return item;
    }));
    if (searched && question && !hits.length) list.append(Object.assign(document.createElement("li"), { textContent: "No page has these words" }));
    choose(0);
    list.hidden = !list.children.length;
    input.ariaExpanded = String(!list.hidden);
  };

  const choose = (n) => {
    items().forEach((item, at) => { item.ariaSelected = String(at === n); });
    input.setAttribute("aria-activedescendant", items()[n]?.id ?? "");
    items()[n]?.scrollIntoView({ block: "nearest" });
  };

  let loading = false;
  input.addEventListener("focus", () => {
    if (!loading) document.head.append(Object.assign(document.createElement("script"), { src: `${root}search-index.js` }));
    loading = true;
  });
  input.addEventListener("input", show);
  input.addEventListener("keydown", (event) => {
    const all = items(), at = all.findIndex((item) => item.ariaSelected === "true");
    if (event.key === "Escape") list.hidden = true;
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    choose(Math.max(0, Math.min(all.length - 1, at + (event.key === "ArrowDown" ? 1 : -1))));
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    items().find((item) => item.ariaSelected === "true")?.querySelector("a").click();
  });
  list.addEventListener("click", () => { list.hidden = true; });
  document.addEventListener("click", (event) => { if (!form.contains(event.target)) list.hidden = true; });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || document.activeElement === input) return;
    event.preventDefault();
    input.focus();
  });
}
