// Shows recorded steps one by one. Every number comes from the trace: nothing is computed here but
// which steps are past. All text is set as text, never as markup.
(() => {
  "use strict";
  const root = document.getElementById("stepper"), source = document.getElementById("stepper-data");
  if (!root || !source) return;
  const { cases } = JSON.parse(source.textContent);
  if (!cases.length) return root.replaceChildren("No recorded trace holds values; make counts records them.");
  const find = (selector) => root.querySelector(selector);
  const [say, slider, playing] = [find(".say"), find("[name=step]"), find("[data-go=play]")];
  const [variant, shape, block] = ["variant", "shape", "block"].map((name) => find(`[name=${name}]`));
  let current, at = 0, timer = null, cells = new Map();

  const make = (tag, className = "", ...content) => {
    const node = Object.assign(document.createElement(tag), { className });
    node.append(...content.filter((one) => one !== undefined));
    return node;
  };
  const heading = (scope, name) => Object.assign(make("th", "", name), { scope });
  const text = (value, decimals) => {
    const short = value === undefined ? "" : typeof value === "string" ? value.replace("inf", "∞") : String(Number(value.toFixed(decimals)));
    return short === "0" && value !== 0 ? "~0" : short.replace("-", "−");
  };
  const brief = (value) => text(value, Math.abs(value) < 1 ? 3 : 2);
  const put = (cell, value) => Object.assign(cell, { textContent: brief(value), title: value ?? "" });

  function fill(select, values, wanted) {
    const all = [...new Set(values)];
    select.replaceChildren(...all.map((value) => new Option(value, value)));
    select.value = all.includes(wanted) ? wanted : all[0];
    select.disabled = all.length < 2;
  }
  function choose() {
    const mine = cases.filter((one) => one.variant === variant.value);
    fill(shape, mine.map((one) => one.shape), shape.value);
    const shaped = mine.filter((one) => one.shape === shape.value);
    fill(block, shaped.map((one) => one.block), block.value);
    current = shaped.find((one) => one.block === block.value);
    root.classList.toggle("eager", current.eager);
    cells = new Map();
    find(".tensors").replaceChildren(...current.tensors.map(grid));
    find(".score").replaceChildren(...current.steps.slice(1).map(mark));
    [find(".model").textContent, find(".small").textContent] = [current.model, current.note];
    slider.max = current.steps.length - 1;
    stop();
    go(0);
  }
  function grid({ name, width, rows }) {
    const columns = Array.from({ length: width }, (_, col) => heading("col", col + 1));
    const lines = Array.from({ length: rows }, (_, row) => {
      const line = columns.map(() => make("td"));
      line.forEach((cell, col) => cells.set(`${name} ${row} ${col}`, cell));
      return make("tr", "", heading("row", row + 1), ...line);
    });
    const caption = make("caption", "", name, make("span", "", { x: "input", y: "output" }[name]));
    return make("table", "grid", caption, make("thead", "", make("tr", "", make("td"), ...columns)), make("tbody", "", ...lines));
  }
  function mark(step, index) {
    const node = make("span", index && step.part !== current.steps[index].part ? "mark apart" : "mark");
    node.dataset.step = index + 1;
    for (const touch of new Map(step.touches.map((t) => [t.kind + t.tensor, t])).values()) {
      const bar = node.appendChild(make("b")).appendChild(make("i", touch.kind));
      bar.style.bottom = `${(100 * touch.first) / current.cols}%`;
      bar.style.height = `${(100 * (touch.last + 1 - touch.first)) / current.cols}%`;
    }
    return node;
  }

  function go(index) {
    const last = current.steps.length - 1;
    at = Math.max(0, Math.min(last, index));
    const step = current.steps[at];
    root.dataset.step = slider.value = at;
    slider.setAttribute("aria-valuetext", `Step ${at} of ${last}. ${step.text}`);
    say.textContent = step.text;
    find(".phase").textContent = step.phase;
    find(".count").textContent = `step ${at} of ${last}`;
    root.querySelectorAll(".mark").forEach((node, i) => (node.className = node.className.replace(/ past| now/g, "") + (i === at - 1 ? " now" : i < at ? " past" : "")));
    for (const [name, end] of [["first", 0], ["back", 0], ["next", last], ["last", last]]) find(`[data-go=${name}]`).disabled = at === end;
    for (const show of [showTensors, showVariables, showTraffic, showRows]) show(step, current.steps.slice(0, at + 1));
    if (at === last) stop();
  }
  function showTensors(step, past) {
    for (const [key, cell] of cells) {
      const [name, row, col] = key.split(" ");
      put(cell, name === "x" ? current.input[row][col] : undefined).className = "";
      cell.style.setProperty("--times", 0);
    }
    const each = (one, act) => one.touches.forEach((t) => t.values.forEach((value, i) => act(cells.get(`${t.tensor} ${t.row} ${t.first + i}`), t.kind, value)));
    for (const one of past) each(one, (cell, kind, value) => {
      put(cell, value);
      cell.classList.add(kind === "load" ? "loaded" : "stored");
      if (kind === "load") cell.style.setProperty("--times", Number(cell.style.getPropertyValue("--times")) + 1);
    });
    each(step, (cell, kind) => cell.classList.add("now", `now-${kind}`));
  }
  function showVariables(step) {
    find(".keeps").textContent = step.keeps;
    const scalarsFirst = [...step.state].sort((a, b) => Array.isArray(a[1]) - Array.isArray(b[1]));
    find(".variables").replaceChildren(...scalarsFirst.flatMap(([name, value]) => {
      const fresh = step.changed.includes(name) ? "fresh" : "";
      if (!Array.isArray(value)) return [make("dt", fresh, name), make("dd", fresh, text(value, 4))];
      const block = value.map((one) => put(make("span"), one));
      return [make("dt", fresh, name), make("dd", `block ${fresh}`, ...block)];
    }));
  }
  function showTraffic(step) {
    find(".traffic").replaceChildren(...step.traffic.map((one) => {
      const filled = make("b");
      filled.style.width = `${100 * one.share}%`;
      return make("div", `bar ${one.kind}`, make("span", "", one.units), make("span", "of", one.elements), make("i", "", filled));
    }));
  }
  function showRows(_, past) {
    const known = Object.assign({}, ...past.map((step) => step.rows));
    const cellsOf = (row) => (known[row]?.cells ?? Array(6).fill("")).map((one) => make("td", "", one));
    find(".rows tbody").replaceChildren(...current.input.map((_, row) => make("tr", "", heading("row", row + 1), ...cellsOf(row))));
  }

  function stop() {
    timer = clearInterval(timer) ?? null;
    playing.textContent = "Play";
    say.setAttribute("aria-live", "polite");
  }
  function play() {
    if (timer) return stop();
    if (at === current.steps.length - 1) go(0);
    say.setAttribute("aria-live", "off"); // a sentence a second is too much to listen to
    timer = setInterval(() => go(at + 1), matchMedia("(prefers-reduced-motion: reduce)").matches ? 2000 : 900);
    playing.textContent = "Pause";
  }
  const jump = (index) => { stop(); go(index); };
  const moves = { first: () => jump(0), back: () => jump(at - 1), next: () => jump(at + 1), last: () => jump(current.steps.length), play };
  const keys = { ArrowRight: moves.next, ArrowLeft: moves.back, Home: moves.first, End: moves.last };
  root.addEventListener("click", (event) => {
    const button = event.target.closest("[data-go]"), bar = event.target.closest(".mark");
    if (button) moves[button.dataset.go]();
    else if (bar) jump(Number(bar.dataset.step));
  });
  root.addEventListener("keydown", (event) => {
    if (!(event.key in keys) || event.target.matches("select, input") || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  slider.addEventListener("input", () => jump(Number(slider.value)));
  fill(variant, cases.map((one) => one.variant), "online");
  for (const select of [variant, shape, block]) select.addEventListener("change", choose);
  choose();
})();
