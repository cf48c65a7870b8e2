// The zoomable timeline on a canvas: a lane per engine, host and stream. Draws what is in view and nothing else, and
// draws it anew only when the view changes: a move of the cursor puts the frame and its arrows over a kept picture.
const LANE = 24, LEFT = 92, TOP = 18;
const COLORS = ["ground", "raised", "soft", "focus", "bad", "engine", "host", "side", "forward", "copy", "small"];

class Timeline {
  constructor(run, select) {
    this.run = run;
    this.select = select;
    this.byTime = false;
    this.cursor = 0;
    this.kept = document.createElement("canvas");
    this.keptFor = "";
    this.canvas = document.createElement("canvas");
    this.canvas.className = "timeline";
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", "timeline of events; arrow keys move through them");
    this.height = TOP + LANE * run.lanes.length + 6;
    this.canvas.style.height = `${this.height}px`;
    this.fit();
    this._listen();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.keptFor = "";
      this.draw();
    });
  }

  // Where an event begins and ends on the axis: by its number, or by virtual time.
  span(index) {
    const e = this.run.events[index];
    return this.byTime ? [e.start, Math.max(e.end, e.start + 1)] : [index, index + 1];
  }

  extent() {
    return this.byTime ? this.run.end : this.run.events.length;
  }

  fit() {
    this.from = 0;
    this.to = Math.max(this.extent(), 1);
  }

  around(index, events) {
    const [a, b] = this.span(index);
    if (this.byTime) { this.from = a - (this.extent() / 40); this.to = b + (this.extent() / 40); }
    else { this.from = a - events; this.to = b + events; }
    this._bound();
  }

  reveal(index) {
    const [a, b] = this.span(index);
    const width = this.to - this.from;
    if (a < this.from) { this.from = a - width * .15; this.to = this.from + width; }
    else if (b > this.to) { this.to = b + width * .15; this.from = this.to - width; }
    this._bound();
  }

  zoom(factor, at) {
    const width = Math.max((this.to - this.from) * factor, this.byTime ? 20 : 6);
    const share = (at - this.from) / (this.to - this.from);
    this.from = at - width * share;
    this.to = this.from + width;
    this._bound();
    this.draw();
  }

  _bound() {
    const end = this.extent(), width = Math.min(this.to - this.from, end);
    this.from = Math.min(Math.max(this.from, 0), end - width);
    this.to = this.from + width;
  }

  _x(value) {
    return LEFT + (value - this.from) / (this.to - this.from) * (this.width - LEFT);
  }

  _value(x) {
    return this.from + (x - LEFT) / (this.width - LEFT) * (this.to - this.from);
  }

  _listen() {
    const canvas = this.canvas;
    let drag = null;
    canvas.addEventListener("wheel", e => {
      e.preventDefault();
      const at = this._value(e.offsetX);
      if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
        const by = (e.deltaX || e.deltaY) / (this.width - LEFT) * (this.to - this.from);
        this.from += by; this.to += by; this._bound(); this.draw();
      } else this.zoom(e.deltaY > 0 ? 1.25 : .8, at);
    }, { passive: false });
    canvas.addEventListener("pointerdown", e => {
      drag = { x: e.offsetX, from: this.from, to: this.to, moved: false };
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener("pointermove", e => {
      if (!drag) return;
      const by = (drag.x - e.offsetX) / (this.width - LEFT) * (drag.to - drag.from);
      if (Math.abs(drag.x - e.offsetX) > 4) drag.moved = true;
      if (drag.moved) { this.from = drag.from + by; this.to = drag.to + by; this._bound(); this.draw(); }
    });
    canvas.addEventListener("pointerup", e => {
      if (drag && !drag.moved) {
        const hit = this.hit(e.offsetX, e.offsetY);
        if (hit !== null) this.select(hit);
      }
      drag = null;
    });
  }

  hit(x, y) {
    const lane = Math.floor((y - TOP) / LANE), value = this._value(x);
    let best = null, distance = Infinity;
    for (let i = 0; i < this.run.events.length; i++) {
      if (this.run.lane[i] !== lane) continue;
      const [a, b] = this.span(i);
      const d = value < a ? a - value : value > b ? value - b : 0;
      if (d <= distance) { distance = d; best = i; }
    }
    const slack = 12 / (this.width - LEFT) * (this.to - this.from);
    return distance <= slack ? best : null;
  }

  draw() {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    if (!this.width) return;
    const view = [this.from, this.to, this.byTime, this.width, ratio].join();
    if (view !== this.keptFor) {
      this.keptFor = view;
      for (const canvas of [this.kept, this.canvas]) {
        canvas.width = this.width * ratio;
        canvas.height = this.height * ratio;
      }
      this.colors = colorsOf(document.documentElement);
      this._all(this.kept.getContext("2d"), ratio);
    }
    const c = this.canvas.getContext("2d");
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.drawImage(this.kept, 0, 0);
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    this._cursor(c);
  }

  // The chosen event's frame, and where it comes from.
  _cursor(c) {
    const [a, b] = this.span(this.cursor), x = this._x(a);
    c.save();
    c.beginPath();
    c.rect(LEFT, 0, this.width - LEFT, this.height);
    c.clip();
    this._arrows(c);
    c.strokeStyle = this.colors.focus;
    c.lineWidth = 1.5;
    c.strokeRect(x, TOP - 4, Math.max(this._x(b) - x, 2), this.height - TOP);
    c.restore();
  }

  // Everything but the cursor.
  _all(c, ratio) {
    const colors = this.colors;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.fillStyle = colors.ground;
    c.fillRect(0, 0, this.width, this.height);
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    this._lanes(c);
    c.save();
    c.beginPath();
    c.rect(LEFT, 0, this.width - LEFT, this.height);
    c.clip();
    this._axis(c);
    const marked = [];
    for (let i = 0; i < this.run.events.length; i++) {
      const [a, b] = this.span(i);
      if (b < this.from || a > this.to) continue;
      if ((this.run.events[i].violations ?? []).length) marked.push(i);
      else this._event(c, i, a, b);
    }
    for (const i of marked) this._event(c, i, ...this.span(i));
    c.restore();
  }

  _lanes(c) {
    this.run.lanes.forEach((name, i) => {
      const y = TOP + i * LANE;
      if (i % 2) { c.fillStyle = this.colors.raised; c.fillRect(0, y, this.width, LANE); }
      c.fillStyle = this.colors.soft;
      c.fillText(name, 6, y + LANE / 2);
    });
  }

  _axis(c) {
    const rough = (this.to - this.from) / Math.max((this.width - LEFT) / 110, 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max([1, 2, 5, 10].map(m => m * power).find(s => s >= rough), 1);
    c.fillStyle = this.colors.soft;
    for (let v = Math.ceil(this.from / step) * step; v <= this.to; v += step) {
      const label = this.byTime ? `${v} µs` : `${v + 1}`;
      c.fillText(label, this._x(this.byTime ? v : v) + 2, 8);
      c.fillRect(this._x(v), 3, 1, 9);
    }
  }

  _event(c, index, a, b) {
    const event = this.run.events[index], y = TOP + this.run.lane[index] * LANE + 3;
    const x = this._x(a), w = Math.max(this._x(b) - x - (this.byTime ? 0 : 1), 1.5);
    const bad = (event.violations ?? []).length > 0;
    c.fillStyle = bad ? this.colors.bad : this.colors[shade(event)];
    c.fillRect(x, y - (bad ? 2 : 0), bad ? Math.max(w, 4) : w, LANE - 6 + (bad ? 4 : 0));
    if (w > 26) {
      const text = bad ? `!! ${shortTitle(event)}` : shortTitle(event);
      c.save();
      c.beginPath();
      c.rect(x, y, w, LANE);
      c.clip();
      c.fillStyle = this.colors.ground;
      c.fillText(text, x + 3, y + (LANE - 6) / 2);
      c.restore();
    }
  }

  // From where a host enqueued the chosen launch, and from the step that a deferred one belongs to.
  _arrows(c) {
    const event = this.run.events[this.cursor], what = event.what;
    if (what.type !== "executed") return;
    const to = [this._x(this.span(this.cursor)[0]), TOP + this.run.lane[this.cursor] * LANE + LANE / 2];
    const from = [];
    if ((what.enqueued ?? -1) > 0) from.push(what.enqueued - 1);
    if (what.of !== what.step) {
      const i = this.run.ran.get(ranKey(event.rank, "forward", what.of));
      if (i !== undefined) from.push(i);
    }
    c.strokeStyle = this.colors.focus;
    c.lineWidth = 1;
    for (const i of from) {
      const x = this._x(this.span(i)[1]), y = TOP + this.run.lane[i] * LANE + LANE / 2;
      c.beginPath();
      c.moveTo(x, y);
      c.bezierCurveTo(x + 20, y, to[0] - 20, to[1], ...to);
      c.stroke();
    }
  }
}

function colorsOf(element) {
  const style = getComputedStyle(element);
  return Object.fromEntries(COLORS.map(name => [name, style.getPropertyValue(`--${name}`).trim()]));
}

function shade(event) {
  if (event.actor !== "main") return event.actor;
  const launch = event.what.launch;
  if (launch === "forward") return "forward";
  return ["precopy", "postprocess", "copy_blocks"].includes(launch) ? "copy" : "small";
}
