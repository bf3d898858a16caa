"use strict";
// Colours follow the reader's system until the button says otherwise.
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const choices = ["automatic", "light", "dark"];
  let place = 0;
  const show = () => {
    if (place === 0) delete root.dataset.theme;
    else root.dataset.theme = choices[place];
    button.textContent = `Colours: ${choices[place]}`;
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    place = (place + 1) % choices.length;
    show();
  });
})();
