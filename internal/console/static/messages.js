// The page of messages: the live tail, previews, and menus that close.
import { announce, isInUse, labelCells, refresh, showTimes, timeText } from "./console.js";

const most = 500; // rows
const bar = document.querySelector("[data-tail]");

// text returns the value of a field by its name; a key may have dots itself.
function text(object, name) {
  if (object === null || typeof object !== "object") return undefined;
  if (Object.hasOwn(object, name)) return object[name];
  for (let at = name.lastIndexOf("."); at > 0; at = name.lastIndexOf(".", at - 1)) {
    const found = text(object[name.slice(0, at)], name.slice(at + 1));
    if (found !== undefined) return found;
  }
  return undefined;
}

const plain = (value) => {
  const shown = value === undefined || value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  return shown.replace(/\p{Cc}/gu, " ").replace(/[\p{Cf}\p{Zl}\p{Zp}]/gu, "\ufffd");
};

function element(name, classes, content) {
  const made = document.createElement(name);
  if (classes) made.className = classes;
  made.append(content);
  return made;
}

// time shows a time as the server does, in the zone of the browser.
function time(value) {
  const at = new Date(value);
  if (Number.isNaN(at.getTime())) return plain(value);
  const made = element("time", "", timeText(at));
  made.dateTime = at.toISOString();
  made.title = `${at.toISOString().replace("T", " ").replace("Z", "")} UTC`;
  return made;
}

// Ids that cannot be the name of a page, as NamesPage of the server has them.
const noPages = [".", "..", "/", "validate", "export.csv", "export.ndjson"];

const ofNoMessage = ["dropped", "paused", "resumed", "audited"];

function messageID(event) {
  return text(event, "messaging.message.id") || text(event, "watership.message") || event.event.id;
}

function error(event) {
  if (event.event.action !== "audited") return text(event, "error.message");
  const { operation, object } = event.watership?.audit ?? {};
  return [operation, object, "by", event.user?.name ?? "nobody known", event.event.reason && `: ${event.event.reason}`].filter(Boolean).join(" ");
}

function content(event, name, kind) {
  const value = text(event, name);
  const { action } = event.event;
  switch (kind) {
    case "time":
      return value ? time(value) : clip("");
    case "action": {
      const badges = document.createDocumentFragment();
      badges.append(element("span", `badge ${plain(action)}`, plain(action)));
      if (text(event, "watership.quarantined_action")) badges.append(" ", element("span", "badge bad", "quarantined"));
      return badges;
    }
    case "exchange":
      return clip(value === "" || (value === undefined && !ofNoMessage.includes(action)) ? "(default)" : value);
    case "message":
      return clip(messageID(event));
    case "error":
      return clip(error(event));
  }
  return clip(value);
}

function clip(value) {
  const shown = plain(value);
  const made = element("span", "clip", shown);
  made.title = shown;
  return made;
}

function rowOf(event, columns) {
  const row = element("tr", "arrived", "");
  row.dataset.row = "";
  row.dataset.id = event.event.id;
  const linked = Math.max(columns.findIndex((column) => column.kind === "message"), 0);
  columns.forEach(({ name, kind }, i) => {
    const cell = element("td", kind, "");
    let shown = content(event, name, kind);
    if (i === linked) {
      const id = messageID(event);
      const link = element("a", "", shown);
      link.href = `/messages/${encodeURIComponent(noPages.includes(id) ? event.event.id : id)}`;
      shown = link;
    }
    cell.append(shown);
    row.append(cell);
  });
  return row;
}

// tail follows new events while somebody looks, and keeps them back while the reader has
// scrolled down or has paused. A list of messages is fetched again as a whole instead, but not
// while somebody works in it.
function tail() {
  const reads = bar.hasAttribute("data-tail-reads");
  const body = document.querySelector("#list tbody");
  const columns = [...document.querySelectorAll("#list th")].map((head) => ({ name: head.dataset.name, kind: head.dataset.kind }));
  const [state, pause, more] = ["state", "pause", "more"].map((name) => bar.querySelector(`[data-tail-${name}]`));
  const seen = new Set([...body.rows].map((row) => row.dataset.id));
  const newest = reads ? 0 : Date.parse(body.querySelector("time")?.dateTime ?? "") || Date.now() - 2000;
  let waiting = []; // events, the oldest first
  let source = null;
  let paused = false;
  let reading = false; // the whole list, once at a time

  const held = () => paused || scrollY > 300 || (reads && isInUse(document.getElementById("list")));

  // hold keeps the page from replacing the list of messages, too, while it is paused.
  const hold = (on = paused) => document.querySelector("#list .listed")?.toggleAttribute("data-holds", on);

  const flush = () => {
    more.hidden = true;
    if (reads) {
      waiting = [];
      reading = true;
      return refresh().catch(() => {}).finally(() => (reading = false)); // the source says that the server is away
    }
    const rows = waiting.slice(-most).reverse().map((event) => rowOf(event, columns));
    body.prepend(...rows);
    labelCells(document);
    while (body.rows.length > most) {
      seen.delete(body.rows[body.rows.length - 1].dataset.id);
      body.deleteRow(-1);
    }
    waiting = [];
  };

  const show = () => {
    if (reading || waiting.length === 0) return;
    if (!held()) return flush();
    more.hidden = false;
    more.textContent = waiting.length > most ? `More than ${most} new events` : `${waiting.length} new ${waiting.length === 1 ? "event" : "events"}`;
  };

  const tell = (words, kind) => {
    if (state.textContent === words) return;
    state.textContent = words;
    state.className = `badge ${kind}`;
    announce(words);
  };

  const receive = (message) => {
    const event = JSON.parse(message.data);
    if (reads && !event.watership?.fingerprint) return; // of no message, such as the audit event of this page
    if (seen.has(event.event.id) || Date.parse(event["@timestamp"]) < newest) return;
    if (!reads) seen.add(event.event.id);
    waiting.push(event);
    if (waiting.length > 2 * most) for (const left of waiting.splice(0, most)) seen.delete(left.event.id);
  };

  const connect = () => {
    source = new EventSource(`${bar.dataset.tail}&last=${reads ? 0 : most}`);
    source.addEventListener("open", () => tell("Live", "good"));
    source.addEventListener("error", () => {
      tell("Connecting…", "warn");
      // A browser does not try again after a refusal, as of too many streams.
      if (source?.readyState === EventSource.CLOSED) setTimeout(() => source && connect(), 5000);
    });
    source.addEventListener("event", receive);
    for (const kind of ["unavailable", "problem"]) source.addEventListener(kind, (message) => tell(plain(JSON.parse(message.data).detail), "bad"));
  };

  const disconnect = () => {
    source?.close();
    source = null;
  };

  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    tell(paused ? "Paused" : "Live", paused ? "warn" : "good");
    if (reads) hold();
    show();
  });
  more.addEventListener("click", () => {
    if (reads) closePreview(), hold(false);
    Promise.resolve(flush()).then(() => reads && hold());
    scrollTo({ top: 0 });
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : source ?? connect()));
  addEventListener("scroll", show, { passive: true });
  addEventListener("pagehide", disconnect);
  setInterval(show, reads ? 2000 : 300); // several events at a time
  bar.hidden = false;
  if (!document.hidden) connect();
}

// closePreview hides the preview, and returns the row that it was of.
function closePreview() {
  const shown = document.getElementById("preview");
  if (!shown) return null;
  const row = shown.previousElementSibling; // null: the message is not in the list
  shown.remove();
  history.replaceState(null, "", withoutPreview());
  if (!row) return null;
  const opener = row.querySelector("[data-preview]");
  opener.setAttribute("aria-expanded", "false");
  row.classList.remove("selected");
  return row;
}

// openPreview shows the preview of a row without a load of the page, or hides it.
async function openPreview(link) {
  const row = link.closest("tr");
  if (closePreview() === row) return;
  const href = withPreview(row.dataset.id);
  const response = await fetch(href, { headers: { Accept: "text/html" } });
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const shown = page.getElementById("preview");
  if (!shown || !row.isConnected) return location.assign(href);
  closePreview(); // another was faster
  showTimes(shown);
  link.setAttribute("aria-expanded", "true");
  row.classList.add("selected");
  row.after(document.adoptNode(shown));
  history.replaceState(null, "", href);
}

// withPreview is the address of the page with the preview of a message.
function withPreview(fingerprint) {
  const url = withoutPreview();
  url.searchParams.set("preview", fingerprint);
  return url;
}

// withoutPreview is the address of the page without a preview.
function withoutPreview() {
  const url = new URL(location.href);
  url.searchParams.delete("preview");
  url.hash = "";
  return url;
}

// A click on a row opens its preview, unless it is on a link or selects text.
document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  const row = event.target.closest(".listed tr[data-row]");
  if (!row) return;
  const link = row.querySelector("[data-preview]");
  const onOther = event.target.closest("a, button, input");
  if ((onOther && onOther !== link) || (!onOther && !getSelection().isCollapsed)) return;
  event.preventDefault();
  openPreview(link);
});

// Menus close with Escape, and when somebody goes elsewhere.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details[data-menu][open]")) if (!menu.contains(event.target)) menu.open = false;
});
document.addEventListener("keydown", (event) => {
  const menu = event.target.closest("details[data-menu][open]");
  if (event.key !== "Escape" || !menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});
document.querySelector("[data-back]")?.addEventListener("click", (event) => {
  if (!document.referrer.startsWith(`${location.origin}/messages?`) || history.length < 2) return;
  event.preventDefault();
  history.back();
});

if (bar) tail();
