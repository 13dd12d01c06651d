// The organiser's page is drawn by the server. When there is something new, the server says so (server-sent events, no
// polling) and the page is loaded again, unless the organiser fills in a form; what was opened stays open.
const opened = "aliquot-opened";

function details() {
  return [...document.querySelectorAll("details")];
}

// Somebody fills in a form, is about to press its button, or has pressed it: a reload would lose that.
function busy() {
  const form = document.activeElement?.closest("form");
  return leaving || (form ? [...form.querySelectorAll("input:not([type=hidden])")].some((field) => field.value !== "") : false);
}

let waiting = false;
let leaving = false;
// What an action did stays to be read for a while.
const until = document.querySelector(".done") ? performance.now() + 5000 : 0;

function update() {
  waiting = busy();
  if (waiting) return;
  if (performance.now() < until) {
    setTimeout(update, until - performance.now());
    return;
  }
  sessionStorage.setItem(opened, JSON.stringify(details().map((part) => part.open)));
  location.replace(location.pathname);
}

const before = JSON.parse(sessionStorage.getItem(opened) ?? "[]");
sessionStorage.removeItem(opened);
details().forEach((part, at) => { part.open = before[at] ?? part.open; });
document.addEventListener("submit", () => { leaving = true; });
document.addEventListener("focusout", () => { if (waiting) setTimeout(update, 0); });
const news = new EventSource(document.body.dataset.live);
news.addEventListener("update", update);
news.addEventListener("enough", () => news.close()); // newer pages are told instead
