// Keeps the page up to date: the server sends its content whenever that has changed. Without this
// script, the link "Ask again" does it. What has the focus keeps it, and forms keep what was typed.
"use strict";
(() => {
  const main = document.getElementById("main");
  if (!main.dataset.live || !window.EventSource) return;

  const keyOf = (node) => (node.dataset && (node.dataset.key || node.dataset.keep)) || "";
  const like = (a, b) => a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

  // morph makes the children of a node like those of another one, with as few changes as it can.
  function morph(from, to) {
    const keyed = new Map();
    for (const child of from.children) if (keyOf(child)) keyed.set(child.nodeName + keyOf(child), child);
    let at = from.firstChild;
    for (const wanted of [...to.childNodes]) {
      let has = keyOf(wanted) ? keyed.get(wanted.nodeName + keyOf(wanted)) : at && like(at, wanted) ? at : null;
      if (!has) {
        from.insertBefore(document.importNode(wanted, true), at);
        continue;
      }
      if (has === at) at = at.nextSibling;
      else {
        // What stands between is usually gone. To move a row would take the focus away from it.
        const gone = !keyOf(at) || !(to.querySelector(`:scope > [data-key="${CSS.escape(keyOf(at))}"]`));
        if (gone && at.nextSibling === has) {
          at.remove();
          at = has.nextSibling;
        } else from.insertBefore(has, at);
      }
      update(has, wanted);
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  // isTyped says whether somebody has begun to fill in a form: from then on it stays as it was shown,
  // also what it names to be released.
  const isTyped = (form) =>
    [...form.elements].some((field) =>
      field.options ? [...field.options].some((o) => o.selected !== o.defaultSelected) : field.value !== (field.defaultValue ?? field.value));

  function update(has, wanted) {
    if (has.nodeType !== Node.ELEMENT_NODE) {
      if (has.nodeValue !== wanted.nodeValue) has.nodeValue = wanted.nodeValue;
      return;
    }
    if (has.dataset.keep && isTyped(has)) return;
    for (const { name } of [...has.attributes]) if (!wanted.hasAttribute(name)) has.removeAttribute(name);
    for (const { name, value } of wanted.attributes) if (has.getAttribute(name) !== value) has.setAttribute(name, value);
    morph(has, wanted);
  }

  const status = document.createElement("p");
  status.className = "mode live";
  const words = document.createElement("span");
  words.setAttribute("role", "status");
  const button = document.createElement("button");
  button.type = "button";
  status.append(words, " ", button);
  document.querySelector("header").append(status);

  // The server sends something every few seconds, and says how old its news is.
  const patience = 10;
  let heard = 0;
  setInterval(() => {
    if (source && source.readyState === EventSource.OPEN && Date.now() - heard > patience * 1000) show("Not live: no answer");
  }, 1000);

  let source = null;
  let paused = false;
  function show(text) {
    if (words.textContent !== text) words.textContent = text;
    button.textContent = paused ? "Go on" : "Pause";
  }
  function open() {
    if (source || paused || document.hidden) return;
    source = new EventSource(main.dataset.live);
    source.onopen = () => {
      heard = Date.now();
      show("Live");
    };
    source.addEventListener("beat", (event) => {
      heard = Date.now();
      show(event.data > patience ? `Not live: the masters were asked ${event.data} s ago` : "Live");
    });
    source.onerror = () => {
      show("Not live: no answer");
      if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself
      close();
      setTimeout(open, 5000);
    };
    source.onmessage = (event) => {
      heard = Date.now();
      show("Live");
      const focus = document.activeElement;
      const html = new DOMParser().parseFromString(`<main>${JSON.parse(event.data)}</main>`, "text/html");
      morph(main, html.querySelector("main"));
      if (focus !== document.activeElement && focus.isConnected) focus.focus({ preventScroll: true });
    };
  }
  function close() {
    if (source) source.close();
    source = null;
  }
  button.onclick = () => {
    paused = !paused;
    show(paused ? "Paused" : "Live");
    paused ? close() : open();
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  show("Live");
  open();
})();
