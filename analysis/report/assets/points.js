"use strict";
// Reads the figures point by point: the pointer's nearest point, or the arrow keys' next one.
(() => {
  const { heads, rows, pictures } = JSON.parse(document.getElementById("points").textContent);
  const box = document.getElementById("reading");
  const REACH = 28; // pixels within which a point answers
  let left = null; // the canvas that is being read
  let spot = null; // and where on it

  const show = (row) => {
    const list = document.createElement("dl");
    row.forEach((text, i) => {
      if (!text) return;
      const head = document.createElement("dt");
      const value = document.createElement("dd");
      head.textContent = heads[i];
      value.textContent = text; // never markup: rows hold whatever was recorded
      list.append(head, value);
    });
    box.replaceChildren(list);
    box.hidden = false;
  };

  const put = (canvas, [across, down]) => {
    const frame = canvas.getBoundingClientRect();
    const x = frame.left + across * frame.width;
    const y = frame.top + down * frame.height;
    const { offsetWidth: wide, offsetHeight: high } = box;
    const room = document.documentElement.clientWidth - 8;
    const beside = frame.right + 18; // off the figure where the page is wide enough
    const near = x + 18 + wide < room ? x + 18 : Math.max(8, x - 18 - wide);
    const side = beside + wide < room ? beside : near;
    const top = Math.min(Math.max(8, y - high / 2), Math.max(8, window.innerHeight - high - 8));
    box.style.left = `${side}px`;
    box.style.top = `${top}px`;
  };

  const hide = () => {
    box.hidden = true;
    if (left) left.querySelector(".ring").hidden = true;
    left = null;
  };

  const setUp = (canvas) => {
    const series = pictures[canvas.dataset.points];
    const ring = document.createElement("span");
    ring.className = "ring";
    ring.hidden = true;
    canvas.append(ring);
    let at = null; // [series, point]

    const read = (line, place) => {
      if (left && left !== canvas) hide();
      left = canvas;
      spot = series[line].points[place];
      at = [line, place];
      const point = series[line].points[place];
      ring.style.left = `${100 * point[0]}%`;
      ring.style.top = `${100 * point[1]}%`;
      ring.hidden = false;
      show(rows[point[2]]);
      put(canvas, point);
    };

    const nearest = (across, down, only) => {
      const { width, height } = canvas.getBoundingClientRect();
      let best = null;
      series.forEach(({ points }, line) => {
        if (only !== undefined && line !== only) return;
        points.forEach(([px, py], place) => {
          const away = Math.hypot((px - across) * width, (py - down) * height);
          if (!best || away < best.away) best = { line, place, away };
        });
      });
      return best;
    };

    const point = (event) => {
      const frame = canvas.getBoundingClientRect();
      const across = (event.clientX - frame.left) / frame.width;
      const down = (event.clientY - frame.top) / frame.height;
      const found = nearest(across, down);
      if (found && found.away <= REACH) read(found.line, found.place);
      else hide();
    };

    const step = (event) => {
      const [line, place] = at ?? [0, 0];
      const last = series[line].points.length - 1;
      const here = series[line].points[place];
      const other = (by) => {
        const next = (line + by + series.length) % series.length;
        return [next, nearest(here[0], here[1], next).place];
      };
      const moves = {
        ArrowRight: () => [line, Math.min(place + 1, last)],
        ArrowLeft: () => [line, Math.max(place - 1, 0)],
        ArrowDown: () => other(1),
        ArrowUp: () => other(-1),
        Home: () => [line, 0],
        End: () => [line, last],
      };
      if (event.key === "Escape") hide();
      if (!(event.key in moves)) return;
      event.preventDefault();
      read(...(left === canvas ? moves[event.key]() : [line, place]));
    };

    canvas.addEventListener("pointermove", point);
    canvas.addEventListener("pointerdown", point);
    canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hide());
    canvas.addEventListener("keydown", step);
    canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && read(...(at ?? [0, 0])));
    canvas.addEventListener("blur", hide);
  };

  document.querySelectorAll("[data-points]").forEach(setUp);
  addEventListener("scroll", () => left && put(left, spot), { passive: true, capture: true });
})();
