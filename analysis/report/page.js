// The filter: of claims, figures and tables it leaves those that mention all of its words.
(() => {
  "use strict";
  const [field, found] = ["filter", "found"].map((id) => document.getElementById(id));
  const items = [...document.querySelectorAll(".item")].map((node) => [node, node.textContent.toLowerCase()]);
  field.hidden = false;
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const [node, text] of items) count += !(node.hidden = !words.every((word) => text.includes(word)));
    for (const node of document.querySelectorAll(".exhibit:not(.item)")) node.hidden = !node.querySelector(".item:not([hidden])");
    found.textContent = words.length ? `${count} of ${items.length}` : "";
  });
  // a link into something folded opens it
  const open = () => {
    for (let node = document.getElementById(decodeURIComponent(location.hash.slice(1))); node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
  };
  addEventListener("hashchange", open);
  open();
})();
