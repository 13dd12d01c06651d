"use strict";
// The page works without this: it adds search, previous and next to the examples, and buttons that copy.
for (const section of document.querySelectorAll("section.examples")) {
  const bar = section.querySelector(".browse"), all = [...section.querySelectorAll("details.example")];
  const find = bar.querySelector(".find"), pick = bar.querySelector(".pick"), count = bar.querySelector(".count");
  const shown = () => all.filter((one) => !one.hidden);
  const filter = () => {
    const words = find.value.toLowerCase(), domain = pick ? pick.value : "";
    for (const one of all) {
      one.hidden = (domain && one.dataset.domain !== domain) || !one.textContent.toLowerCase().includes(words);
    }
    count.textContent = `${shown().length} of ${all.length} items`;
  };
  const step = (by) => {
    const list = shown(), now = list.findIndex((one) => one.open);
    const next = list[(now + by + list.length) % list.length];
    if (!next) return;
    for (const one of all) one.open = one === next;
    next.scrollIntoView({ block: "start" });
  };
  find.addEventListener("input", filter);
  if (pick) pick.addEventListener("change", filter);
  bar.querySelector(".back").addEventListener("click", () => step(-1));
  bar.querySelector(".next").addEventListener("click", () => step(1));
  bar.hidden = false;
  filter();
}
for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const range = document.createRange(), selection = getSelection();
    range.selectNodeContents(button.parentElement.querySelector("pre"));
    selection.removeAllRanges();
    selection.addRange(range);
    const done = document.execCommand("copy"); // works from a file, where the newer clipboard may be forbidden
    button.textContent = done ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}
