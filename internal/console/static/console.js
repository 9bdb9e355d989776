// The script of all pages: the browser's time zone, keys, copying, and live numbers.

// The server shows times in the zone that this cookie has.
function tellZone() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!zone) return;
  const told = document.cookie.split("; ").includes(`watership-zone=${zone}`);
  if (told) return;
  document.cookie = `watership-zone=${zone}; path=/; max-age=31536000; samesite=lax`;
  if (document.cookie.includes("watership-zone=") && document.body.hasAttribute("data-need-zone")) location.reload();
}

// layouts are those of Go that the server uses for times.
const layouts = {
  "2006-01-02 15:04:05.000": (d) => `${localDay(d)} ${localClock(d)}.${two(d.getMilliseconds(), 3)}`,
  "2006-01-02 15:04:05": (d) => `${localDay(d)} ${localClock(d)}`,
  "2 Jan 15:04": (d) => `${d.getDate()} ${months[d.getMonth()]} ${two(d.getHours())}:${two(d.getMinutes())}`,
  "2 Jan 15:04:05": (d) => `${d.getDate()} ${months[d.getMonth()]} ${localClock(d)}`,
};
const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (number, length = 2) => String(number).padStart(length, "0");
const localDay = (d) => `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
const localClock = (d) => `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;

// timeText returns a time in the zone of the browser.
export function timeText(at, layout = "2006-01-02 15:04:05.000") {
  return layouts[layout](at);
}

// showTimes shows the times of an element in the zone of the browser, where the server did not know it.
export function showTimes(element) {
  const times = element.querySelectorAll("time[data-utc]");
  for (const time of times) {
    time.textContent = timeText(new Date(time.dateTime), time.dataset.utc);
    time.removeAttribute("data-utc");
  }
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  if (times.length > 0) document.querySelector("[data-zone]").textContent = timeZone === "UTC" ? "Times in UTC" : `Times in ${timeZone}; those that you enter are in UTC`;
}

// labelCells gives the cells of tables the titles of their columns, which they show where a row is a card.
export function labelCells(element) {
  for (const table of element.querySelectorAll("table")) {
    const titles = [...(table.tHead?.rows[0]?.cells ?? [])].map((head) => head.textContent.trim());
    for (const row of table.tBodies[0]?.rows ?? []) {
      for (const cell of row.cells) {
        const title = titles[cell.cellIndex];
        if (title && cell.tagName === "TD" && cell.colSpan === 1 && cell.textContent.trim() !== "") cell.dataset.label ??= title;
      }
    }
  }
}

// announce tells something to screen readers.
export function announce(text) {
  document.getElementById("announce").textContent = text;
}

// isTyping reports whether keys belong to a field.
function isTyping(target) {
  return target.closest("input, textarea, select, [contenteditable]") !== null;
}

let prefix = ""; // the first key of two

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && isTyping(event.target)) return event.target.blur();
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const keys = prefix ? `${prefix} ${event.key}` : event.key;
  prefix = "";
  const linked = document.querySelector(`[data-key="${CSS.escape(keys)}"]`);
  if (linked) {
    event.preventDefault();
    return linked.click();
  }
  switch (keys) {
    case "g":
      prefix = "g";
      return setTimeout(() => (prefix = ""), 1500);
    case "/":
      event.preventDefault();
      return document.querySelector("input[name=q]")?.focus();
    case "?":
      return showKeys();
    case "j":
      return moveRow(1);
    case "k":
      return moveRow(-1);
  }
}

// showKeys lists the keys, those of this page first.
function showKeys() {
  const dialog = document.getElementById("keys");
  const list = dialog.querySelector("dl");
  for (const former of list.querySelectorAll("[data-of-page]")) former.remove();
  const own = [...document.querySelectorAll("main [data-key]")].flatMap((linked) => {
    const [term, key, what] = ["dt", "kbd", "dd"].map((name) => document.createElement(name));
    key.textContent = linked.dataset.key;
    what.textContent = linked.textContent.trim().replace(/…$/, "");
    term.append(key);
    term.dataset.ofPage = what.dataset.ofPage = "";
    return [term, what];
  });
  list.prepend(...own);
  dialog.showModal();
}

// moveRow puts the focus on the main link of the next row, so that Enter opens it.
function moveRow(step) {
  const rows = [...document.querySelectorAll("[data-row]")];
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step];
  const main = next?.querySelector("a[data-main]") ?? next?.querySelector('a[href]:not([href^="#"])');
  (main ?? next?.querySelector("button, input"))?.focus();
}

async function onClick(event) {
  const opener = event.target.closest("[data-open]");
  if (opener?.dataset.open === "keys") return showKeys();
  if (opener) return document.getElementById(opener.dataset.open)?.showModal();
  const copier = event.target.closest("[data-copy]");
  if (copier) {
    await navigator.clipboard.writeText(copier.dataset.copy);
    announce("Copied");
    const text = copier.textContent;
    copier.textContent = "Copied";
    setTimeout(() => (copier.textContent = text), 1500);
  }
}

// isInUse reports whether somebody works in an element: types, selects, has chosen something there, or
// reads what an element with data-holds shows.
export function isInUse(element) {
  const selection = getSelection();
  const isSelected = !selection.isCollapsed && selection.rangeCount > 0 && selection.getRangeAt(0).intersectsNode(element);
  return isSelected || element.contains(document.activeElement) || element.querySelector("[data-holds]") !== null || [...element.querySelectorAll("input, select, textarea")].some(isChanged);
}

function isChanged(field) {
  if (field.type === "hidden") return false;
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  if (field.options) return field.selectedIndex !== Math.max(0, [...field.options].findIndex((option) => option.defaultSelected));
  return field.value !== field.defaultValue;
}

// detailsBy returns the details of an element by what they are about. Those whose summary changes have an id.
function detailsBy(element) {
  const about = (details) => details.id || `${details.closest("[id]")?.id} ${details.closest("[data-row]")?.querySelector("a[href]")?.getAttribute("href")} ${details.querySelector("summary")?.textContent}`;
  return new Map([...element.querySelectorAll("details")].map((details) => [about(details), details]));
}

// rowInView returns the link and the place of the first row of an element that is in view.
function rowInView(element) {
  const row = scrollY > 0 && [...element.querySelectorAll("[data-row]")].find((row) => row.getBoundingClientRect().bottom > 0);
  const href = row && row.querySelector("a[href]")?.getAttribute("href");
  return href ? { href, top: row.getBoundingClientRect().top } : null;
}

// replaceLive replaces a live element. What is open stays open, and what is read stays in its place.
function replaceLive(now, next) {
  const former = detailsBy(now);
  for (const [about, details] of detailsBy(next)) details.open = former.get(about)?.open ?? details.open;
  const row = rowInView(now);
  const isAbove = now.getBoundingClientRect().bottom <= 0;
  const end = endOfPage();
  now.replaceWith(document.adoptNode(next));
  const same = row && [...next.querySelectorAll("[data-row]")].find((one) => one.querySelector("a[href]")?.getAttribute("href") === row.href);
  if (same) scrollBy({ top: same.getBoundingClientRect().top - row.top, behavior: "instant" });
  else if (isAbove) scrollBy({ top: endOfPage() - end, behavior: "instant" });
}

// endOfPage returns the place of the end of the page. It moves as all below an element that changes, also by margins, which
// no element's height has.
function endOfPage() {
  return document.body.getBoundingClientRect().bottom;
}

// refresh reads the page again and replaces its live elements. An element in which
// somebody works is left alone. For parts that were late it reads the page once more, and
// waits for them.
export async function refresh(url = location.href) {
  const response = await fetch(url, { headers: { Accept: "text/html", "Watership-Refresh": "yes" } });
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  if (response.ok && page.title && !page.querySelector("[data-late]")) document.title = page.title;
  for (const now of document.querySelectorAll("[data-live][id]")) {
    const next = page.getElementById(now.id);
    if (next) showTimes(next), labelCells(next);
    if (!next || next.querySelector("[data-late]") || isInUse(now) || now.innerHTML === next.innerHTML) continue;
    replaceLive(now, next);
  }
  const whole = new URL(url, location.href);
  if (page.querySelector("[data-late]") && !whole.searchParams.has("wait")) {
    whole.searchParams.set("wait", "1");
    return refresh(whole);
  }
  const seconds = page.body?.dataset.refresh;
  if (!response.ok) return;
  if (seconds) document.body.dataset.refresh = seconds;
  else delete document.body.dataset.refresh;
}

// hiddenRefresh is how often, in milliseconds, a page that nobody looks at is read again for the number in its title.
const hiddenRefresh = 60_000;

// shownAgain waits until somebody looks at the page. A page with a number in its title waits for at most hiddenRefresh.
function shownAgain() {
  return new Promise((resolve) => {
    document.addEventListener("visibilitychange", resolve, { once: true });
    if (document.body.hasAttribute("data-badge")) setTimeout(resolve, hiddenRefresh);
  });
}

// keepLive refreshes the page while somebody looks at it.
async function keepLive() {
  for (;;) {
    const seconds = Number(document.body.dataset.refresh);
    if (!seconds) return;
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    if (document.hidden) await shownAgain();
    try {
      await refresh();
      document.body.classList.remove("stale");
    } catch {
      document.body.classList.add("stale"); // the server is away: the next turn tries again
    }
  }
}

// onSubmit sends a form once, however often its button is pressed.
function onSubmit(event) {
  if (event.target.method !== "post") return;
  if (event.target.dataset.sent) return event.preventDefault();
  event.target.dataset.sent = "yes";
}

tellZone();
showTimes(document);
labelCells(document);
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
document.addEventListener("keydown", onKey);
document.addEventListener("click", onClick);
document.addEventListener("submit", onSubmit);
addEventListener("pageshow", () => document.querySelectorAll("form[data-sent]").forEach((form) => delete form.dataset.sent));
for (const hidden of document.querySelectorAll("[data-open][hidden], [data-copy][hidden], [data-script][hidden]")) hidden.hidden = false;
keepLive();
