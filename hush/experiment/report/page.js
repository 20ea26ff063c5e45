"use strict";
/* The figures of a page of hush: drawn from the numbers in #series, with a choice of the horizontal axis, values under
   the pointer and zoom. Text from files is only ever set as text. Nothing is fetched but this page again, while it is live. */
(() => {
  const KEY = "hush " + document.title;
  const RENEW = 3000;
  const kept = (() => { try { return JSON.parse(sessionStorage.getItem(KEY)) || {}; } catch { return {}; } })();
  const state = { axis: kept.axis || {}, zoom: kept.zoom || {}, open: kept.open || [], at: kept.at || 0 };
  let figures = [];

  const make = (tag, attributes = {}, text = null) => {
    const found = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
    if (text !== null) found.textContent = text;
    return found;
  };

  /* ---- axes ---- */
  const step = (rough) => {
    const power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map((digit) => digit * power).find((one) => one >= rough * (1 - 1e-9));
  };
  const linear = (low, high, wanted, tight) => {
    if (high - low < 1e-12 * Math.max(1, Math.abs(high))) { low -= 0.5 * (Math.abs(low) || 1); high += 0.5 * (Math.abs(high) || 1); }
    const size = step((high - low) / wanted), ticks = [];
    const first = tight ? Math.ceil(low / size - 1e-9) : Math.floor(low / size + 1e-9);
    const last = tight ? Math.floor(high / size + 1e-9) : Math.ceil(high / size - 1e-9);
    for (let n = first; n <= last; n++) ticks.push(n * size);
    if (!tight) { low = ticks[0]; high = ticks[ticks.length - 1]; }
    return { low, high, ticks, place: (value) => (value - low) / (high - low), back: (part) => low + part * (high - low) };
  };
  const logarithmic = (low, high) => {
    const steps = high / low < 2000 ? [1, 2, 5] : [1], grid = [];
    for (let power = Math.floor(Math.log10(low)) - 1; power <= Math.ceil(Math.log10(high)) + 1; power++)
      for (const digit of steps) grid.push(digit * 10 ** power);
    const start = Math.max(...grid.filter((tick) => tick <= low * (1 + 1e-9)));
    const stop = Math.min(...grid.filter((tick) => tick > start && tick >= high * (1 - 1e-9)));
    return {
      low: start, high: stop, ticks: grid.filter((tick) => tick >= start && tick <= stop),
      place: (value) => Math.log(value / start) / Math.log(stop / start),
    };
  };
  const tick = (value) => Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(6));

  /* ---- one figure ---- */
  class Figure {
    constructor(figure, chart, tables) {
      this.plot = figure.querySelector(".plot");
      this.id = figure.dataset.chart;
      this.chart = chart;
      /* Without it elements of a drawing cannot be made; its name is taken from the one that is there. */
      this.space = this.plot.querySelector("svg").namespaceURI;
      this.label = this.plot.querySelector("svg").getAttribute("aria-label");
      this.lines = chart.lines.map((line) => ({ ...line, table: tables[line.of] }));
      this.axis = chart.axes.find((one) => one.key === state.axis[this.id]) || chart.axes[0];
      this.zoom = state.zoom[this.id] || null;
      this.tools = make("div", { class: "tools" });
      figure.querySelector("figcaption").append(this.tools);
      this.tip = make("div", { class: "tip", role: "status" });
      this.tip.hidden = true;
      this.plot.tabIndex = 0;
      this.plot.addEventListener("pointermove", (event) => this.move(event));
      this.plot.addEventListener("pointerdown", (event) => this.down(event));
      this.plot.addEventListener("pointerup", (event) => this.up(event));
      this.plot.addEventListener("pointercancel", () => { this.from = null; this.hide(); });
      this.plot.addEventListener("pointerleave", () => { if (this.from == null) this.hide(); });
      this.plot.addEventListener("dblclick", () => this.set(null));
      this.plot.addEventListener("keydown", (event) => this.key(event));
      this.buttons();
      this.draw();
      new ResizeObserver(() => { if (this.plot.clientWidth && this.plot.clientWidth !== this.width) this.draw(); }).observe(this.plot);
    }

    buttons() {
      this.tools.replaceChildren();
      if (this.zoom) {
        const all = make("button", { type: "button", class: "reset" }, "Show all");
        all.addEventListener("click", () => this.set(null));
        this.tools.append(all);
      }
      if (this.chart.axes.length < 2) return;
      const group = make("div", { class: "axes", role: "group", "aria-label": "Horizontal axis" });
      for (const axis of this.chart.axes) {
        const button = make("button", { type: "button", "data-axis": axis.key, "aria-pressed": axis === this.axis }, axis.short);
        button.addEventListener("click", () => { this.axis = axis; state.axis[this.id] = axis.key; this.set(null); });
        group.append(button);
      }
      this.tools.append(group);
    }

    set(zoom) {
      this.zoom = zoom;
      state.zoom[this.id] = zoom;
      this.buttons();
      this.hide();
      this.draw();
    }

    points(line) {
      const xs = line.table[this.axis.key], ys = line.table[line.y], rounds = line.table.round, found = [];
      if (!xs || !ys) return found;
      const said = (i) => (this.axis.before || "") + xs.t[i] + (this.axis.after || "") + (xs === rounds ? "" : `, ${rounds.t[i]}`);
      for (let i = 0; i < ys.v.length; i++) {
        const x = xs.v[i], y = ys.v[i];
        if (x != null && y != null && !(this.chart.log && y <= 0)) found.push({ x, y, said: ys.t[i], head: said(i), i });
      }
      return found;
    }

    element(tag, attributes, text = null) {
      const found = document.createElementNS(this.space, tag);
      for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, typeof value === "number" ? +value.toFixed(1) : value);
      if (text !== null) found.textContent = text;
      return found;
    }

    draw() {
      const width = this.width = Math.max(260, this.plot.clientWidth), tall = this.plot.classList.contains("tall");
      const height = tall ? Math.max(260, Math.min(380, width * 0.5)) : Math.max(220, Math.min(260, width * 0.66));
      const all = this.lines.map((line) => this.points(line));
      const longest = Math.max(...this.lines.map((line, n) => all[n].length ? line.name.length : 0));
      const box = { left: 54, right: width - Math.min(width * 0.32, longest * 7.4 + 22), top: 26, foot: height - 40 };
      const flat = all.flat();
      const svg = this.element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": this.label });
      this.plot.replaceChildren(svg, this.tip);
      if (!flat.length) { svg.append(this.element("text", { x: width / 2, y: height / 2, "text-anchor": "middle", class: "tick" }, "nothing to show on this axis")); this.shown = []; return; }
      const far = Math.max(...flat.map((p) => p.x)) || 1;
      const [from, to] = this.zoom || [0, far];
      const x = linear(from, to, (box.right - box.left) / 64, true);
      const inside = flat.filter((p) => p.x >= from && p.x <= to), seen = (inside.length ? inside : flat).map((p) => p.y);
      const low = this.chart.zero ? Math.min(0, ...seen) : Math.min(...seen), high = Math.max(...seen);
      const y = this.chart.log ? logarithmic(Math.min(...seen), high) : linear(low, high, 5, false);
      const px = (value) => box.left + x.place(value) * (box.right - box.left);
      const py = (value) => box.foot - y.place(value) * (box.foot - box.top);
      for (const at of y.ticks) {
        svg.append(this.element("line", { class: "grid", x1: box.left, x2: box.right, y1: py(at), y2: py(at) }));
        svg.append(this.element("text", { class: "tick", x: box.left - 8, y: py(at) + 4, "text-anchor": "end" }, tick(at)));
      }
      for (const at of x.ticks) if (!this.axis.whole || Number.isInteger(+at.toFixed(9)))
        svg.append(this.element("text", { class: "tick", x: px(at), y: box.foot + 18, "text-anchor": "middle" }, tick(at)));
      svg.append(this.element("text", { class: "tick", x: (box.left + box.right) / 2, y: height - 4, "text-anchor": "middle" }, this.axis.name));
      svg.append(this.element("text", { class: "tick", x: 0, y: 13 }, this.chart.unit));
      /* A drawing in the drawing cuts off what zoom leaves outside. */
      const inner = this.element("svg", { x: box.left - 8, y: box.top - 8, width: box.right - box.left + 16, height: box.foot - box.top + 16,
        viewBox: `${box.left - 8} ${box.top - 8} ${box.right - box.left + 16} ${box.foot - box.top + 16}` });
      svg.append(inner);
      this.shown = all.map((points, n) => points.map((p) => ({ ...p, n, left: px(p.x), top: py(p.y) })));
      const ends = [];
      this.shown.forEach((points, n) => {
        if (!points.length) return;
        const group = this.element("g", { class: `s${(n % 8) + 1}` });
        group.append(this.element("polyline", { class: "line", points: points.map((p) => `${p.left.toFixed(1)},${p.top.toFixed(1)}`).join(" ") }));
        const within = points.filter((p) => p.x >= from && p.x <= to);
        if (within.length <= (box.right - box.left) / 14) for (const p of within) group.append(this.element("circle", { r: 2, cx: p.left, cy: p.top }));
        const best = points.find((p) => p.i === this.lines[n].mark);
        if (best) group.append(this.element("circle", { class: "ring", r: 7, cx: best.left, cy: best.top }));
        const last = within[within.length - 1];
        if (last) { group.append(this.element("circle", { r: 4, cx: last.left, cy: last.top })); ends.push({ n, top: last.top }); }
        inner.append(group);
      });
      ends.sort((a, b) => a.top - b.top);
      let before = -Infinity;
      for (const end of ends) before = end.top = Math.max(end.top, before + 17);
      const spill = Math.max(0, before - box.foot);
      for (const end of ends)
        svg.append(this.element("text", { class: `name s${(end.n % 8) + 1}`, x: box.right + 10, y: end.top - spill + 4 }, this.lines[end.n].name));
      this.rule = this.element("line", { class: "rule", x1: 0, x2: 0, y1: box.top, y2: box.foot, visibility: "hidden" });
      this.dots = this.element("g", {});
      this.choice = this.element("rect", { class: "choice", y: box.top, height: box.foot - box.top, visibility: "hidden" });
      svg.append(this.choice, this.rule, this.dots);
      this.box = box;
      this.x = x;
      this.range = [from, to];
    }

    /* ---- values under the pointer, zoom ---- */
    place(event) {
      const edge = this.plot.querySelector("svg").getBoundingClientRect();
      return (event.clientX - edge.left) * (this.width / edge.width);
    }

    show(left) {
      const [from, to] = this.range;
      const near = this.shown.map((points) => points.filter((p) => p.x >= from && p.x <= to)
        .reduce((found, p) => !found || Math.abs(p.left - left) < Math.abs(found.left - left) ? p : found, null)).filter(Boolean);
      if (!near.length) return;
      const head = near.reduce((found, p) => Math.abs(p.left - left) < Math.abs(found.left - left) ? p : found);
      const rows = near.filter((p) => Math.abs(p.left - head.left) < 24);
      this.current = head;
      this.rule.setAttribute("x1", head.left); this.rule.setAttribute("x2", head.left);
      this.rule.setAttribute("visibility", "visible");
      this.dots.replaceChildren(...rows.map((p) => {
        const group = this.element("g", { class: `s${(p.n % 8) + 1}` });
        group.append(this.element("circle", { r: 4.5, cx: p.left, cy: p.top }));
        return group;
      }));
      this.tip.replaceChildren(make("strong", {}, head.head), ...rows.map((p) => {
        const row = make("span", { class: `s${(p.n % 8) + 1}` });
        row.append(make("i"), make("span", {}, this.lines[p.n].name + " "), make("b", {}, p.said));
        return row;
      }));
      this.tip.hidden = false;
      const scale = this.plot.clientWidth / this.width, size = this.tip.offsetWidth, wanted = head.left * scale + 14;
      this.tip.style.left = (wanted + size > this.plot.clientWidth ? Math.max(0, head.left * scale - size - 14) : wanted) + "px";
      this.tip.style.top = "34px";
    }

    hide() {
      this.tip.hidden = true;
      this.current = null;
      if (this.rule) { this.rule.setAttribute("visibility", "hidden"); this.dots.replaceChildren(); this.choice.setAttribute("visibility", "hidden"); }
    }

    down(event) {
      if (event.button !== 0 || !this.shown.length) return;
      this.from = this.place(event);
    }

    move(event) {
      if (!this.shown.length) return;
      const left = this.place(event);
      if (this.from != null && Math.abs(left - this.from) > 6) {
        if (!this.plot.hasPointerCapture(event.pointerId)) this.plot.setPointerCapture(event.pointerId);
        const [a, b] = [this.from, left].sort((one, two) => one - two);
        this.choice.setAttribute("x", Math.max(a, this.box.left));
        this.choice.setAttribute("width", Math.max(0, Math.min(b, this.box.right) - Math.max(a, this.box.left)));
        this.choice.setAttribute("visibility", "visible");
      }
      this.show(left);
    }

    up(event) {
      if (this.from == null) return;
      const ends = [this.from, this.place(event)].sort((one, two) => one - two);
      this.from = null;
      if (ends[1] - ends[0] < 12) return;
      const at = (left) => this.x.back(Math.min(1, Math.max(0, (left - this.box.left) / (this.box.right - this.box.left))));
      const [from, to] = ends.map(at);
      const inside = this.shown.flat().filter((p) => p.x >= from && p.x <= to);
      if (inside.length > 1) this.set([from, to]); else this.hide();
    }

    key(event) {
      if (event.key === "Escape") { this.set(null); return; }
      if (!["ArrowLeft", "ArrowRight"].includes(event.key) || !this.shown.length) return;
      event.preventDefault();
      const line = this.shown[this.current ? this.current.n : 0].filter((p) => p.x >= this.range[0] && p.x <= this.range[1]);
      const at = this.current ? line.findIndex((p) => p.i === this.current.i) : event.key === "ArrowRight" ? -1 : line.length;
      const next = line[at + (event.key === "ArrowRight" ? 1 : -1)];
      if (next) this.show(next.left);
    }
  }

  /* ---- the page ---- */
  const start = () => {
    const found = document.getElementById("series");
    const data = found ? JSON.parse(found.textContent) : { charts: {}, tables: [] };
    figures = [...document.querySelectorAll("figure[data-chart]")].filter((one) => data.charts[one.dataset.chart])
      .map((one) => new Figure(one, data.charts[one.dataset.chart], data.tables));
    for (const one of document.querySelectorAll("details[id]")) {
      if (state.open.includes(one.id)) one.open = true;
      one.addEventListener("toggle", () => {
        state.open = state.open.filter((id) => id !== one.id).concat(one.open ? [one.id] : []);
      });
    }
  };
  const busy = () => figures.some((one) => one.current || one.from != null) || String(getSelection()) !== ""
    || (document.activeElement && document.activeElement.matches("input:focus-visible"));
  const renew = async () => {
    if (document.hidden || busy()) return;
    if (!location.protocol.startsWith("http")) {
      state.at = scrollY;
      try { sessionStorage.setItem(KEY, JSON.stringify(state)); } catch { /* then it begins anew */ }
      location.reload();
      return;
    }
    try {
      const answer = await fetch(location.href);
      if (!answer.ok || busy()) return;
      const text = await answer.text();
      if (text === renew.last) return;
      renew.last = text;
      const fresh = new DOMParser().parseFromString(text, "text/html");
      const ticked = [...document.querySelectorAll("input:checked")].map((one) => one.value);
      document.querySelector("main").replaceWith(fresh.querySelector("main"));
      for (const one of document.querySelectorAll("input[type=checkbox]")) one.checked = ticked.includes(one.value);
      document.body.toggleAttribute("data-live", fresh.body.hasAttribute("data-live"));
      start();
    } catch { /* the server was stopped: what is shown stays */ }
  };
  start();
  if (state.at) scrollTo(0, state.at);
  const closed = [];
  addEventListener("beforeprint", () => document.querySelectorAll("details:not([open])").forEach((one) => { closed.push(one); one.open = true; }));
  addEventListener("afterprint", () => closed.splice(0).forEach((one) => { one.open = false; }));
  setInterval(() => { if (document.body.hasAttribute("data-live")) renew(); }, RENEW);
})();
