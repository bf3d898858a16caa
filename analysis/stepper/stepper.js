// Shows one of the steps that the page holds; it computes nothing.
(() => {
  "use strict";
  const root = document.getElementById("stepper");
  if (!root) return;
  const all = [...root.querySelectorAll(".step")], last = all.length - 1;
  const [slider, count, say] = ["input", "output", "[aria-live]"].map((one) => root.querySelector(one));
  const go = (wanted) => {
    const at = Math.max(0, Math.min(last, wanted));
    all.forEach((step, i) => step.classList.toggle("shown", i === at));
    const text = all[at].querySelector(".say").textContent;
    slider.value = at;
    slider.setAttribute("aria-valuetext", `Step ${at} of ${last}. ${text}`);
    count.textContent = `step ${at} of ${last}`;
    say.textContent = text;
    for (const [name, end] of [["first", 0], ["back", 0], ["next", last], ["last", last]])
      root.querySelector(`[data-go=${name}]`).setAttribute("aria-disabled", at === end);
  };
  const here = () => Number(slider.value);
  const moves = { first: () => go(0), back: () => go(here() - 1), next: () => go(here() + 1), last: () => go(last) };
  const keys = { ArrowRight: "next", ArrowLeft: "back", Home: "first", End: "last" };
  root.addEventListener("click", (event) => moves[event.target.closest("[data-go]")?.dataset.go]?.());
  root.addEventListener("keydown", (event) => {
    if (!(event.key in keys) || event.target === slider || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    moves[keys[event.key]]();
  });
  slider.addEventListener("input", () => go(here()));
  go(0);
})();
