// Who owns which block after an event, and the history of a chosen one. What is drawn once stays: a move of the cursor
// changes only the blocks and the entries that the events between have changed.
class BlockMap {
  // `choose(rank, block)` is called for what the reader picks; block is null for another rank's tab.
  constructor(run, choose) {
    this.run = run;
    this.choose = choose;
    this.grids = new Map();
    this.heading = el("h2", {});
    this.tabs = Array.from({ length: run.record.pp }, (_, rank) =>
      el("button", { role: "tab", onclick: () => choose(rank, null) }, `rank ${rank}`));
    this.holder = el("div", {});
    this.note = el("p", { class: "soft" });
    this.root = el("section", { class: "map" }, this.heading, el("div", { class: "tabs", role: "tablist" }, this.tabs),
      this.holder, this.note);
  }

  show(rank, block, index) {
    if (!this.grids.has(rank)) this.grids.set(rank, new BlockGrid(this.run, rank, b => this.choose(rank, b)));
    const grid = this.grids.get(rank);
    if (rank !== this.rank) {
      this.rank = rank;
      this.holder.replaceChildren(grid.root);
      this.tabs.forEach((tab, r) => tab.setAttribute("aria-selected", String(r === rank)));
      const others = this.run.record.num_blocks - grid.cells.size;
      this.note.textContent = this.run.record.unwatched ? "nobody looked at blocks and owners"
        : `framed: written by this event; dashed: read by it; ${others} blocks are never used here`;
    }
    this.heading.textContent = `blocks after event ${this.run.events[index].number}, by owner`;
    grid.show(block, index);
  }
}

// One rank's blocks.
class BlockGrid {
  constructor(run, rank, choose) {
    this.run = run;
    this.rank = rank;
    this.block = null;
    this.framed = [];
    this.cells = new Map(run.blocks(rank).map(block => {
      const owner = el("small", {});
      const node = el("button", { "aria-pressed": "false", "data-block": block, onclick: () => choose(block) },
        String(block), owner);
      return [block, { block, node, owner, count: -1 }];
    }));
    this.root = el("div", { class: "blocks" }, [...this.cells.values()].map(cell => cell.node));
  }

  show(block, index) {
    for (const cell of this.cells.values()) this._update(cell, index);
    this._frame(this.run.events[index]);
    if (block === this.block) return;
    this.cells.get(this.block)?.node.setAttribute("aria-pressed", "false");
    this.cells.get(block)?.node.setAttribute("aria-pressed", "true");
    this.block = block;
  }

  _update(cell, index) {
    const count = this.run.count(this.rank, cell.block, index);
    if (count === cell.count) return;
    cell.count = count;
    const { owners, write } = this.run.after(this.rank, cell.block, count);
    cell.node.title = `block ${cell.block}: ${ownersText(owners)}; ${write ? writeText(write) : "never written"}`;
    cell.owner.textContent = owners.length ? owners.map(o => o.request).join("+") : "·";
    cell.node.style.background = ownerColor(this.run, owners);
  }

  _frame(event) {
    for (const cell of this.framed) cell.node.className = "";
    this.framed = [];
    if (event.rank !== this.rank) return;
    const writes = event.what.writes ?? [];
    for (const w of writes) if ((w.source ?? -1) >= 0) this._mark(w.source, "read");
    for (const w of writes) this._mark(w.block, w.asked === false ? "written stray" : "written");
  }

  _mark(block, name) {
    const cell = this.cells.get(block);
    if (!cell) return;
    cell.node.className = name;
    this.framed.push(cell);
  }
}

// Every owner and every write that a block has had on a rank.
class Histories {
  // `go(index)` is called for the entry that the reader picks.
  constructor(run, go) {
    this.run = run;
    this.go = go;
    this.lists = new Map();
    this.root = el("section", { class: "past" }, el("p", { class: "soft" }, "choose a block for its history"));
  }

  show(rank, block, index) {
    if (block === null) return;
    const key = `${rank} ${block}`;
    if (!this.lists.has(key)) this.lists.set(key, new History(this.run, rank, block, this.go));
    const list = this.lists.get(key);
    if (key !== this.key) this.root.replaceChildren(list.heading, list.root);
    this.key = key;
    list.show(index);
  }
}

// One block's history; the entries of [first, count) are the chosen event's, those from `count` on are later.
class History {
  constructor(run, rank, block, go) {
    this.run = run;
    this.rank = rank;
    this.block = block;
    this.first = this.count = 0;
    this.buttons = run.history(rank, block).map(({ index, write, owners }) => {
      const event = run.events[index];
      const text = write ? `${titleOf(event)}: ${writeText(write)}` : `now owned by ${ownersText(owners)}`;
      return el("button", { class: `later${write?.asked === false ? " wrong" : ""}`, onclick: () => go(index) },
        `${event.number}  ${text}`);
    });
    this.heading = el("h3", {}, `block ${block} on rank ${rank}: ${counted(this.buttons.length, "entry", "entries")}`);
    this.root = el("ol", { class: "history" }, this.buttons.map(button => el("li", {}, button)));
  }

  show(index) {
    const first = this.run.count(this.rank, this.block, index - 1), count = this.run.count(this.rank, this.block, index);
    for (let i = Math.min(this.first, first); i < Math.max(this.count, count); i++) {
      this.buttons[i].classList.toggle("now", i >= first && i < count);
      this.buttons[i].classList.toggle("later", i >= count);
    }
    const moved = first !== this.first || count !== this.count;
    this.first = first;
    this.count = count;
    if (moved && first < count) this.root.scrollTop = this.buttons[first].offsetTop - this.root.offsetTop - 60;
  }
}
