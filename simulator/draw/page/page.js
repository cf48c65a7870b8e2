// The page: timeline, the chosen event in words, controls and keys.
const data = JSON.parse(document.getElementById("data").textContent);

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter(c => c !== null && c !== undefined && c !== ""));
  return node;
}

function ownerColor(run, owners) {
  if (!owners.length) return "";
  const i = run.requests.get(owners[0].request) ?? 0;
  return `hsl(${(i * 137.5 + 205) % 360} 60% 50% / ${owners.length > 1 ? .25 : .38})`;
}

class View {
  constructor(run, page) {
    this.run = run;
    this.page = page;
    this.rank = Math.max(run.events[page.cursor]?.rank ?? 0, 0);
    this.block = null;
    this.timeline = new Timeline(run, index => page.go(index));
    this.detail = el("section", { class: "detail", "aria-live": "polite" });
    this.map = new BlockMap(run, (rank, block) => this.choose(rank, block ?? this.block));
    this.past = new Histories(run, index => page.go(index, false));
    this.root = el("article", { class: "run" },
      data.records.length > 1 ? el("h2", {}, run.record.kernels) : null,
      this.timeline.canvas, legend(),
      el("div", { class: "columns" }, el("div", {}, this.detail), el("div", {}, this.map.root, this.past.root)));
  }

  show(index, follow) {
    const event = this.run.events[Math.min(index, this.run.events.length - 1)];
    if (!event) return;
    this.index = Math.min(index, this.run.events.length - 1);
    if (follow && event.actor === "main") this.rank = event.rank;
    this.timeline.cursor = this.index;
    this.timeline.reveal(this.index);
    this.timeline.draw();
    this.detail.replaceChildren(...this._detail(event));
    this._blocks();
  }

  _blocks() {
    this.map.show(this.rank, this.block, this.index);
    this.past.show(this.rank, this.block, this.index);
  }

  _detail(event) {
    const what = event.what, nodes = [];
    const who = event.actor === "engine" ? "engine" : `rank ${event.rank}, ${event.actor === "main" ? "main stream" : event.actor === "side" ? "side stream" : "host"}`;
    nodes.push(el("h2", {}, `event ${event.number}: ${who} ${titleOf(event)}`));
    nodes.push(el("p", { class: "soft" }, `${event.start} to ${event.end} µs; ${counted(event.in_flight ?? 0, "step")} in flight`));
    for (const v of this.run.violations(event))
      nodes.push(el("p", { class: "wrong" }, `${v.kind}: ${v.explanation}`));
    if (what.type === "scheduled") nodes.push(...this._scheduled(what));
    if (what.type === "processed") nodes.push(this._outputs(what));
    if (what.type === "prepared") nodes.push(el("p", {}, `enqueues ${(what.launches ?? []).join(", ") || "nothing"}`));
    if (what.type === "executed") nodes.push(...this._launch(event, what));
    return nodes;
  }

  _scheduled(what) {
    const nodes = [el("div", { class: "wide" }, rowsTable(["request", "tokens", "drafts", "computed"],
      (what.rows ?? []).map(r => [r.request, r.tokens, r.drafts ?? 0, r.computed ?? 0]), "no rows"))];
    const says = [];
    for (const a of what.admitted ?? [])
      says.push(`${a.request} joins${a.resumed ? " again" : ""}${a.hit ? `, ${counted(a.hit, "token")} of its prefix cached` : ""}`);
    for (const [key, word] of [["finished", "has finished"], ["aborted", "was aborted"], ["preempted", "is preempted"]])
      for (const r of what[key] ?? []) says.push(`${r} ${word}`);
    if ((what.zeroed ?? []).length) says.push(`blocks to zero: ${what.zeroed.join(", ")}`);
    for (const [s, t] of what.copies ?? []) says.push(`block ${s} is copied on write to block ${t}`);
    says.push(`${counted(what.used ?? 0, "block")} in use`);
    nodes.push(el("ul", {}, says.map(s => el("li", {}, s))));
    return nodes;
  }

  _outputs(what) {
    return el("div", { class: "wide" }, rowsTable(["request", "tokens", "drafts", "accepted"],
      (what.outputs ?? []).map(o => [o.request, o.tokens, o.drafts ?? 0, o.accepted ?? 0]), "nothing was delivered"));
  }

  _launch(event, what) {
    const nodes = [], rows = what.rows ?? [];
    const table = (what.table ?? -1) >= 0 ? this._gathered(event, what.table) : [];
    const late = ["postprocess", "precopy"].includes(what.launch) && what.table !== what.of && this.run.record.lookup === "row";
    if (rows.length) {
      const head = ["row", "slot", `batch of step ${what.of}`];
      if (late) head.push(`gathered table: step ${what.table}`);
      const body = rows.map((seat, i) => {
        const cells = [i, seat.slot ?? "-", seat.request + (seat.masked ? " (masked)" : "")];
        if (late) {
          const sits = table[i]?.request ?? "nobody";
          cells.push(sits === seat.request || seat.masked ? sits : el("span", { class: "wrong" }, `${sits} ← another request`));
        }
        return cells;
      });
      for (let i = 0; i < (what.padded ?? 0); i++) body.push([rows.length + i, "-", "padding"]);
      nodes.push(el("div", { class: "wide" }, rowsTable(head, body, "")));
    }
    for (const m of what.meant ?? [])
      nodes.push(el("p", {}, `meant: ${m.request}'s block ${m.source} to block ${m.target} (group ${m.group}${m.bias ? `, ${counted(m.bias, "token")} on` : ""})`));
    const writes = what.writes ?? [];
    if (writes.length) nodes.push(el("div", { class: "wide" }, rowsTable(["block", "owner", "what was written"], writes.map(w => [
      el("button", { onclick: () => this.choose(event.rank, w.block) }, String(w.block)),
      ownersText(this.run.at(event.rank, w.block, this.index).owners),
      el("span", { class: w.asked === false ? "wrong" : "" }, writeText(w))]), "")));
    else nodes.push(el("p", { class: "soft" }, "no page changed"));
    return nodes;
  }

  _gathered(event, step) {
    const index = this.run.ran.get(ranKey(event.rank, "gather", step));
    return index === undefined ? [] : this.run.events[index].what.rows ?? [];
  }

  choose(rank, block) {
    this.rank = rank;
    this.block = block;
    this._blocks();
  }
}

function rowsTable(head, body, empty) {
  if (!body.length) return el("p", { class: "soft" }, empty);
  return el("table", {}, el("thead", {}, el("tr", {}, head.map(h => el("th", { scope: "col" }, h)))),
    el("tbody", {}, body.map(row => el("tr", {}, row.map(c => el("td", {}, typeof c === "number" ? String(c) : c))))));
}

function legend() {
  const item = (color, text) => {
    const i = el("i");
    i.style.background = `var(--${color})`;
    return el("span", {}, i, text);
  };
  return el("p", { class: "legend" }, item("bad", "violation"), item("copy", "state copies"), item("forward", "forward"),
    item("small", "bookkeeping"), item("host", "host"), item("engine", "engine"), item("side", "broadcast"));
}

class Page {
  constructor() {
    this.runs = data.records.map(r => new Run(r, data.fields));
    this.difference = this.runs.length > 1 ? firstDifference(...this.runs) : null;
    const first = this.runs.map(r => r.firstViolation()).filter(i => i !== null);
    this.cursor = this.difference ?? (first.length ? Math.min(...first) : (data.records[0]?.unwatched?.event || 1) - 1);
    this.views = this.runs.map(r => new View(r, this));
    this.last = Math.max(...this.runs.map(r => r.events.length)) - 1;
    const runs = document.getElementById("runs");
    runs.classList.toggle("two", this.views.length > 1);
    runs.append(...this.views.map(v => v.root));
    this._controls();
    document.addEventListener("keydown", e => this._key(e));
    for (const v of this.views) {
      v.block = this._blockAtFirst(v.run);
      v.timeline.around(this.cursor, 24);
    }
    this.go(this.cursor);
  }

  // The block that the reader came for: what the first violation wrote.
  _blockAtFirst(run) {
    const writes = run.events[this.cursor]?.what.writes ?? [];
    return (writes.find(w => w.asked === false) ?? writes[0])?.block ?? null;
  }

  _controls() {
    this.slider = el("input", { type: "range", min: 1, max: this.last + 1, "aria-label": "event", oninput: () => this.go(this.slider.value - 1) });
    this.where = el("output", { class: "mono" });
    const button = (text, title, act) => el("button", { title, onclick: act }, text);
    document.getElementById("controls").append(
      button("|◀", "first event (Home)", () => this.go(0)),
      button("◀", "one back (←)", () => this.go(this.cursor - 1)),
      button("▶", "one on (→)", () => this.go(this.cursor + 1)),
      button("▶|", "last event (End)", () => this.go(this.last)),
      this.runs.some(r => r.firstViolation() !== null) ? button("violation", "next violation (v)", () => this.jump(1)) : "",
      this.difference !== null ? button("first difference", "where the runs part (d)", () => this.go(this.difference)) : "",
      this.slider, this.where,
      button("+", "zoom in (+)", () => this.zoom(.6)), button("−", "zoom out (-)", () => this.zoom(1.6)),
      button("all", "everything in view (0)", () => this.fit()),
      button("µs", "by virtual time or by event (t)", () => this.clock()));
  }

  go(index, follow = true) {
    this.cursor = Math.min(Math.max(index, 0), this.last);
    this.slider.value = this.cursor + 1;
    this.where.textContent = `${this.cursor + 1} / ${this.last + 1}`;
    for (const v of this.views) v.show(this.cursor, follow);
  }

  jump(direction) {
    const found = this.runs.map(r => r.nextViolation(this.cursor, direction)).filter(i => i !== null);
    if (found.length) this.go(direction > 0 ? Math.min(...found) : Math.max(...found));
    else if (direction > 0) this.go(Math.min(...this.runs.map(r => r.firstViolation()).filter(i => i !== null)));
  }

  zoom(factor) {
    for (const v of this.views) v.timeline.zoom(factor, v.timeline.span(v.index)[0]);
  }

  fit() {
    for (const v of this.views) { v.timeline.fit(); v.timeline.draw(); }
  }

  clock() {
    for (const v of this.views) {
      v.timeline.byTime = !v.timeline.byTime;
      v.timeline.around(v.index, 24);
      v.timeline.draw();
    }
  }

  _key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const typing = e.target instanceof HTMLInputElement;
    const by = e.shiftKey ? 10 : 1;
    const acts = {
      ArrowRight: () => this.go(this.cursor + by), ArrowLeft: () => this.go(this.cursor - by),
      Home: () => this.go(0), End: () => this.go(this.last), v: () => this.jump(1), V: () => this.jump(-1),
      d: () => this.difference !== null && this.go(this.difference), "+": () => this.zoom(.6), "=": () => this.zoom(.6),
      "-": () => this.zoom(1.6), "0": () => this.fit(), t: () => this.clock(),
    };
    if (!(e.key in acts) || (typing && !["v", "V", "d", "t", "+", "-", "0"].includes(e.key))) return;
    e.preventDefault();
    acts[e.key]();
  }
}

if (data.records.length) window.page = new Page();
