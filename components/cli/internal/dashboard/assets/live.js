// Keeps a page live: replaces the fragments that changed, and counts ages. The server escaped each fragment.
"use strict";
(() => {
  const body = document.body, shown = document.getElementById("connection");
  const skew = Number(body.dataset.now) - Date.now();

  const two = (n) => String(n).padStart(2, "0");
  const length = (ms) => {
    const s = Math.max(0, Math.floor(ms / 1000));
    if (s < 60) return s + "s";
    if (s < 3600) return Math.floor(s / 60) + "m" + two(s % 60) + "s";
    if (s < 86400) return Math.floor(s / 3600) + "h" + two(Math.floor(s / 60) % 60) + "m";
    return Math.floor(s / 86400) + "d" + two(Math.floor(s / 3600) % 24) + "h";
  };
  const count = () => {
    const now = Date.now() + skew;
    for (const t of document.querySelectorAll("time[data-since], time[data-until]")) {
      const text = t.dataset.since ? length(now - Number(t.dataset.since)) : length(Number(t.dataset.until) - now);
      if (t.textContent !== text) t.textContent = text;
    }
  };

  // morph makes old equal to next and keeps the nodes that are equal, so that focus, selection and input survive.
  const morph = (old, next) => {
    for (const a of [...old.attributes]) if (!next.hasAttribute(a.name)) old.removeAttribute(a.name);
    for (const a of next.attributes) if (old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
    if (old.dataset && (old.dataset.since || old.dataset.until)) return;
    const wanted = [...next.childNodes];
    wanted.forEach((n, i) => {
      const o = old.childNodes[i];
      if (!o) old.appendChild(n);
      else if (o.isEqualNode(n)) return;
      else if (o.nodeType === 1 && n.nodeType === 1 && o.tagName === n.tagName) morph(o, n);
      else old.replaceChild(n, o);
    });
    while (old.childNodes.length > wanted.length) old.lastChild.remove();
  };
  const replace = ({ id, html }) => {
    const old = document.getElementById(id);
    if (!old) { // the page has become another one, such as an error
      stop();
      setTimeout(() => location.reload(), 500);
      return;
    }
    const next = old.cloneNode(false);
    next.innerHTML = html;
    morph(old, next);
    count();
  };

  let source = null, away = "";
  const say = (lost, text) => {
    shown.classList.toggle("lost", lost);
    if (shown.textContent !== text) shown.textContent = text;
  };
  const stop = () => { if (source) source.close(); source = null; };
  const start = () => {
    if (source || !body.dataset.live) return;
    source = new EventSource(body.dataset.live);
    source.addEventListener("connection", (e) => {
      away = "";
      const c = JSON.parse(e.data);
      say(Boolean(c.lost), c.lost ? "connection lost since " + c.since + ": " + c.lost : "live");
    });
    source.addEventListener("fragment", (e) => replace(JSON.parse(e.data)));
    source.onerror = () => {
      away = away || new Date(Date.now() + skew).toTimeString().slice(0, 8);
      say(true, "connection lost since " + away + ": the dashboard on this machine does not answer");
      if (source && source.readyState === EventSource.CLOSED) { stop(); setTimeout(start, 3000); }
    };
  };
  // A hidden tab needs no stream, and a browser has only six for one server.
  document.addEventListener("visibilitychange", () => document.hidden ? stop() : start());
  window.addEventListener("pagehide", stop);
  window.addEventListener("pageshow", () => { if (!document.hidden) start(); });

  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const typing = e.target.closest && e.target.closest("input, textarea, select");
    const search = document.querySelector("[data-search]");
    if (e.key === "/" && !typing && search) { e.preventDefault(); search.focus(); search.select(); }
    if (e.key === "Escape" && typing) e.target.blur();
  });

  const first = document.querySelector("form.make input:not([type=hidden]), form.make select, form.make button, form.row input:not([type=hidden])");
  const problem = document.getElementById("problem");
  if (problem) { problem.tabIndex = -1; problem.focus(); } else if (first) first.focus();
  setInterval(count, 1000);
  count();
  start();
})();
