// Texts drawn over each other, out of their box or the screen, or too pale for what is behind them.
() => {
  const light = (color) => {
    const canvas = document.createElement("canvas").getContext("2d");
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((c) => (c <= 10 ? c / 3294.6 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    const color = node ? getComputedStyle(node).backgroundColor : "white";
    return /, 0\)$|transparent/.test(color) ? behind(node.parentElement) : color;
  };
  const faults = [], boxes = [], shown = new Map(), walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, parent = node.parentElement;
    if (!node.data.trim() || !parent.checkVisibility({ visibilityProperty: true }) || parent.closest("script, style, .unseen, nav")) continue;
    const style = getComputedStyle(parent), pair = `${style.color} on ${behind(parent)}`;
    if (!shown.has(pair)) {
      const [a, b] = [light(style.color), light(behind(parent))];
      shown.set(pair, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
      if (shown.get(pair) < 4.5 && style.opacity === "1") faults.push(`pale: ${pair}: ${node.data.trim().slice(0, 40)}`);
    }
    const range = document.createRange();
    range.selectNodeContents(node);
    const text = node.data.trim().slice(0, 40), scrolls = parent.closest(".scroll");
    for (const box of range.getClientRects()) {
      if (box.width < 1) continue;
      if (!scrolls && (box.right > innerWidth + 1 || box.left < -1)) faults.push(`outside: ${text}`);
      const cell = parent.closest("td, th, .claim, .badge")?.getBoundingClientRect();
      if (cell && (box.right > cell.right + 1 || box.left < cell.left - 1)) faults.push(`leaves its box: ${text}`);
      if (parent.closest(".claim, table")) boxes.push([box.left + 1, box.top + scrollY + 3, box.right - 1, box.bottom + scrollY - 3, text]);
    }
  }
  boxes.sort((a, b) => a[1] - b[1]);
  for (const [i, a] of boxes.entries())
    for (let j = i + 1; j < boxes.length && boxes[j][1] < a[3]; j++)
      if (a[0] < boxes[j][2] && boxes[j][0] < a[2]) faults.push(`over each other: ${a[4]} / ${boxes[j][4]}`);
  return faults;
}
