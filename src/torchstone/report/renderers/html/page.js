// The page is whole without scripts. They add: light and dark, sorting, filters, what is under the pointer, zoom,
// another smallest change that matters, and saving the files that the page carries.
"use strict";

const WORDS = JSON.parse(document.getElementById("words")?.textContent ?? "{}");
/** Return a text of ours in the language of the page, its places filled: "{0} of {1} rows". */
const say = (text, ...values) => (WORDS[text] ?? text).replace(/\{(\d)\}/g, (_, place) => values[place]);

/** Return an element with properties, attributes (after "@") and children. */
const element = (tag, about = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(about)) {
    if (key.startsWith("@")) made.setAttribute(key.slice(1), value);
    else made[key] = value;
  }
  made.append(...children);
  return made;
};
const button = (text, pressed, about = {}) => {
  const made = element("button", { type: "button", textContent: text, ...about });
  made.addEventListener("click", pressed);
  return made;
};

(() => {
  const root = document.documentElement;
  const prefers = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ?? (prefers.matches ? "dark" : "light")) === "dark";
  const other = () => (isDark() ? say("Light") : say("Dark"));
  const theme = button(other(), () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    theme.textContent = other();
  }, { title: say("colours of the page") });
  prefers.addEventListener("change", () => { theme.textContent = other(); });
  document.querySelector(".bar").append(theme);
})();

(() => {
  for (const box of document.querySelectorAll(".command")) {
    const copy = button(say("Copy"), async () => {
      const code = box.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        copy.textContent = say("Copied");
      } catch {  // not allowed here: selected, so that two keys copy it
        getSelection().selectAllChildren(code);
        copy.textContent = say("Selected");
      }
      setTimeout(() => { copy.textContent = say("Copy"); }, 2000);
    });
    box.append(copy);
  }
})();

(() => {
  const open = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let box = target; box; box = box.parentElement) if (box.tagName === "DETAILS") box.open = true;
  };
  addEventListener("hashchange", open);
  open();

  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details.section:not([open])")];
    for (const box of folded) box.open = true;
  });
  addEventListener("afterprint", () => {
    for (const box of folded) box.open = false;
  });
})();

(() => {
  const files = [...document.querySelectorAll('script[type="application/octet-stream"][data-name]')];
  const lines = [...document.querySelectorAll(".carried li")];
  const save = async (file) => {
    const packed = Uint8Array.from(atob(file.textContent), (c) => c.charCodeAt(0));
    const content = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const blob = new Blob([await new Response(content).arrayBuffer()], { type: "application/octet-stream" });
    const link = element("a", { href: URL.createObjectURL(blob), download: file.dataset.name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  lines.forEach((line, place) => {
    line.append(" ", button(say("Save"), () => save(files[place]), { "@aria-label": `${say("Save")} ${files[place].dataset.name}` }));
  });
})();
