// A run as the page looks at it: lanes, block histories, and what stood where after any event. No DOM in here.
class Run {
  // `fields`: the names of what events and writes hold, which come as arrays.
  constructor(record, fields) {
    this.record = record;
    this.events = record.events.map(values => named(fields.event, values));
    for (const { what } of this.events)
      if (what.writes) what.writes = what.writes.map(values => named(fields.write, values));
    this.lanes = [];
    const known = new Map();
    const order = { engine: 0, host: 1, main: 2, side: 3 };
    const seen = new Map();
    for (const e of this.events) seen.set(laneKey(e), e);
    const sorted = [...seen.values()].sort((a, b) => (a.rank ?? -1) - (b.rank ?? -1) || order[a.actor] - order[b.actor]);
    for (const e of sorted) {
      known.set(laneKey(e), this.lanes.length);
      this.lanes.push(e.actor === "engine" ? "engine" : `rank ${e.rank} ${e.actor}`);
    }
    this.lane = this.events.map(e => known.get(laneKey(e)));
    this.requests = new Map(record.requests.map((r, i) => [r.id, i]));
    this.histories = this._histories();
    this.end = this.events.reduce((latest, e) => Math.max(latest, e.end), 0);
    this.ran = this._ran();
  }

  // The index of the last event by which a rank has run a launch of a step, by `ranKey`.
  _ran() {
    const found = new Map();
    this.events.forEach((event, index) => {
      const { type, launch, step } = event.what;
      if (type === "executed") found.set(ranKey(event.rank, launch, step), index);
    });
    return found;
  }

  _histories() {
    const all = Array.from({ length: this.record.pp }, () => new Map());
    const note = (rank, block, entry) => {
      if (!all[rank].has(block)) all[rank].set(block, []);
      all[rank].get(block).push(entry);
    };
    this.events.forEach((event, index) => {
      const what = event.what;
      if (what.type !== "executed") return;
      for (const change of what.owners ?? []) note(event.rank, change.block, { index, owners: change.owners ?? [] });
      for (const write of what.writes ?? []) note(event.rank, write.block, { index, write });
    });
    return all;
  }

  blocks(rank) {
    return [...this.histories[rank].keys()].sort((a, b) => a - b);
  }

  history(rank, block) {
    return this.histories[rank]?.get(block) ?? [];
  }

  // How many entries of a block's history have come about after the event at `index`.
  count(rank, block, index) {
    const entries = this.history(rank, block);
    let low = 0, high = entries.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (entries[middle].index <= index) low = middle + 1; else high = middle;
    }
    return low;
  }

  // Owners and last write of a block after so many entries of its history.
  after(rank, block, count) {
    const entries = this.history(rank, block);
    let owners = null, write = null;
    for (let i = count - 1; i >= 0 && (owners === null || write === null); i--)
      if (entries[i].write) write ??= entries[i].write; else owners ??= entries[i].owners;
    return { owners: owners ?? [], write };
  }

  // Owners and last write of a block after the event at `index`.
  at(rank, block, index) {
    return this.after(rank, block, this.count(rank, block, index));
  }

  violations(event) {
    return (event.violations ?? []).map(i => this.record.violations[i]);
  }

  firstViolation() {
    const index = this.events.findIndex(e => (e.violations ?? []).length);
    return index < 0 ? null : index;
  }

  nextViolation(from, direction) {
    for (let i = from + direction; i >= 0 && i < this.events.length; i += direction)
      if ((this.events[i].violations ?? []).length) return i;
    return null;
  }
}

function named(fields, values) {
  const result = {};
  values.forEach((value, i) => { result[fields[i]] = value; });
  return result;
}

function laneKey(event) {
  return `${event.rank ?? -1} ${event.actor}`;
}

function ranKey(rank, launch, step) {
  return `${rank} ${launch} ${step}`;
}

// The first event at which two runs of one schedule differ in what they wrote or in what was found; null if none.
function firstDifference(a, b) {
  const count = Math.max(a.events.length, b.events.length);
  for (let i = 0; i < count; i++) {
    const one = a.events[i], two = b.events[i];
    if (!one || !two) return i;
    if (JSON.stringify(one.what) !== JSON.stringify(two.what)) return i;
    if (!(one.violations ?? []).length !== !(two.violations ?? []).length) return i;
  }
  return null;
}

function ownersText(owners) {
  return owners.length ? owners.map(o => `${o.request} (group ${o.group}, column ${o.column})`).join(" and ") : "nobody";
}

function writeText(write) {
  const from = (write.source ?? -1) >= 0 ? ` from block ${write.source}` : "";
  const how = { zero: "zeroed", poison: "poisoned, since it changed hands", copy: `copied${from}: `, state: "", kv: "",
    pad: "a padded row's output", stray: "written by nobody's order: " }[write.how];
  const holds = write.how === "zero" || write.how === "poison" || write.how === "pad" ? "" : write.holds;
  return `${how}${holds}${write.asked === false ? " (nobody asked for this)" : ""}`;
}

function titleOf(event) {
  const w = event.what;
  switch (w.type) {
    case "scheduled": return `schedules step ${w.step}`;
    case "processed": return `processes the output of step ${w.step}`;
    case "waited": return "waits for the oldest step";
    case "prepared": return `prepares step ${w.step}`;
    default: return w.of !== w.step ? `${w.launch} of step ${w.of}, during step ${w.step}` : `${w.launch}, step ${w.step}`;
  }
}

function shortTitle(event) {
  const w = event.what;
  switch (w.type) {
    case "scheduled": return `s${w.step}`;
    case "processed": return `p${w.step}`;
    case "waited": return "";
    case "prepared": return `step ${w.step}`;
    default: return w.of !== w.step ? `${w.launch} of ${w.of}` : w.launch;
  }
}

// "1 step", "2 steps".
const counted = (number, one, many = `${one}s`) => `${number} ${number === 1 ? one : many}`;
