// The organiser's page is drawn by the server. When there is something new, the server says so (server-sent events, no
// polling) and the page is loaded again, unless the organiser is typing; what was opened stays open.
const opened = "aliquot-opened";

function details() {
  return [...document.querySelectorAll("details")];
}

function typing() {
  const at = document.activeElement;
  return at !== null && at.tagName === "INPUT" && at.value !== "";
}

let waiting = false;

function update() {
  waiting = typing();
  if (waiting) return;
  sessionStorage.setItem(opened, JSON.stringify(details().map((part) => part.open)));
  location.replace(location.pathname);
}

const before = JSON.parse(sessionStorage.getItem(opened) ?? "[]");
sessionStorage.removeItem(opened);
details().forEach((part, at) => { part.open = before[at] ?? part.open; });
document.addEventListener("focusout", () => { if (waiting) setTimeout(update, 0); });
new EventSource(document.body.dataset.live).addEventListener("update", update);
