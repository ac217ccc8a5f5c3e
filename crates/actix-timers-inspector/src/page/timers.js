// Lists of timers (next due, of a bucket, found by a search), and the details of one.
"use strict";

const ENOUGH = 200;
const MISSING = "No timer with this id is pending: it was delivered, cancelled or returned, or it never existed.";
const ASKED = "No timer actor has a timer with this id. The durable timers are asked.";

const timers = {
  actor: "", cancelAllowed: false, view: { kind: "next" }, run: 0, found: [], cursor: null, left: [], open: null,
  // Whether the open timer is looked for in the stores of durable timers, since no timer actor has it.
  inStores: false,

  title(text) {
    byId("timers-title").textContent = text;
    byId("show-next").hidden = this.view.kind === "next";
  },

  chosen() { return this.actor === ALL ? { all: true } : { timer: this.actor }; },

  say(text) { say(byId("found"), text); },

  // Updates the view, except for the results of a search.
  async refresh() {
    if (this.view.kind !== "search") await this.load();
    if (this.open) await this.loadDetail();
  },

  async load() {
    const view = this.view, run = this.run;
    const answer = view.kind === "next"
      ? await ask("next", { ...this.chosen(), limit: 50 })
      : await ask("bucket", { timer: this.actor, level: view.level, start_tick: view.start, limit: 100 });
    if (run !== this.run) return;
    this.found = this.dated(answer.timers);
    this.show();
    const some = view.kind === "next" ? "Only the first timers of crowded buckets are listed." : "The bucket has more timers; these were inserted first.";
    this.say(answer.sampled ? some : "");
  },

  // Adds deadlines, computed from the remaining times.
  dated(rows) {
    const now = clock.now();
    return rows.map(row => ({ ...row, dueAt: now + row.due_in_seconds }));
  },

  showNext() {
    this.run++;
    this.view = { kind: "next" };
    this.title("Next due");
    this.say("");
    byId("progress").hidden = byId("more").hidden = true;
    return this.load();
  },

  showBucket(level, segment) {
    this.run++;
    this.view = { kind: "bucket", level: level.level, start: segment.start_tick };
    const which = level.buckets_per_segment > 1 ? "First bucket of the segment" : "Bucket";
    this.title(`${which} on level ${level.level}, ${span(level.bucket_seconds)} wide`);
    byId("progress").hidden = byId("more").hidden = true;
    return this.load();
  },

  async search() {
    const text = byId("query").value.trim(), by = byId("by").value;
    // Short ids are shown with an ellipsis.
    if (by === "id" && text) return this.showDetail(text.replace(/…$/, ""));
    const wanted = { state: byId("by-state").value, due_after: typedSeconds(byId("due-after").value), due_within: typedSeconds(byId("due-within").value) };
    if (text) wanted[by] = text;
    this.run++;
    this.view = { kind: "search", wanted };
    this.found = [];
    this.cursor = null;
    // The timer actors to search, one after the other.
    this.left = this.actor === ALL ? [...byId("timer-actor").options].map(option => option.value).filter(name => name !== ALL) : [this.actor];
    this.title("Found");
    this.show();
    await this.lookFurther(ENOUGH);
  },

  // Loads parts until enough are found or none is left. Each part takes the timer actor a few milliseconds.
  async lookFurther(most) {
    const run = this.run;
    byId("more").hidden = true;
    byId("progress").hidden = false;
    let found = 0, part;
    try {
      do {
        const [actor] = this.left;
        part = await ask("timers", { timer: actor, ...this.view.wanted, limit: 100, cursor: this.cursor });
        if (run !== this.run) return;
        found += part.timers.length;
        this.cursor = part.next;
        if (part.next === null) this.left.shift();
        this.found.push(...this.dated(part.timers.map(timer => ({ ...timer, timer: actor }))));
        byId("progress").value = part.of ? part.looked_at / part.of : 1;
        this.say(`Found ${count(this.found.length)}; searching.`);
      } while (this.left.length && found < most);
    } catch (error) {
      if (run === this.run) this.say(`Found ${count(this.found.length)} until a part failed.`);
      throw error;
    } finally {
      if (run === this.run) {
        byId("progress").hidden = true;
        byId("more").hidden = !this.left.length;
        this.found.sort((one, other) => one.dueAt - other.dueAt);
        this.show();
      }
    }
    const searched = part.of ? Math.round(part.looked_at / part.of * 100) : 100;
    const all = this.left.length ? `Searched ${searched} % of ${part.next === null ? "the last timer actor" : this.left[0]} so far.` : "Search complete.";
    this.say(`Found ${count(this.found.length)}. ${all}`);
  },

  show() {
    const focused = document.activeElement?.closest?.("#rows tr");
    const [id, place] = focused ? [focused.dataset.id, focused.rowIndex - 1] : [];
    const rows = this.found.map(row => this.row(row));
    if (!rows.length) {
      const row = make("tr", "", { role: "row" });
      const nothing = this.view.kind !== "search" ? "No timer waits here." : this.left.length ? "None so far." : "No pending timer matches.";
      row.append(make("td", nothing, { colspan: 6, role: "cell", class: "none" }));
      rows.push(row);
    }
    renew(byId("rows"), rows);
    this.count();
    if (!focused || focused.contains(document.activeElement)) return;
    const shown = [...byId("rows").children];
    const next = shown.find(row => row.dataset.id === id) ?? shown[Math.min(place, shown.length - 1)];
    next.focus({ preventScroll: true });
  },

  row(timer) {
    const row = make("tr", "", { role: "row", tabindex: 0, "data-id": timer.id, "data-key": timer.id, "aria-selected": String(this.open === timer.id) });
    const repeats = timer.repeats ? " ↻" : "";
    const cells = [
      ["Due in", "", ""], ["Location", (this.actor === ALL ? `${timer.timer}: ` : "") + locationOf(timer), timer.explanation], ["Message", shortType(timer.message_type) + repeats, timer.message_type],
      ["Key", timer.key ?? "–", timer.key ?? ""], ["Group", timer.group ?? "–", timer.group ?? ""],
      ["Actor", timer.actor_type ? shortType(timer.actor_type) : timer.actor ?? "–", `${timer.actor_type ?? ""} ${timer.actor ?? ""}`.trim()],
    ];
    row.append(...cells.map(([label, text, title]) => make("td", text, { role: "cell", "data-label": label, title, class: text === "–" ? "absent" : "" })));
    row.dataset.due = timer.dueAt;
    row.dataset.late = timer.due_in_seconds < -0.02 ? "late" : "";
    return row;
  },

  // Updates the remaining times.
  count() {
    const now = clock.now();
    for (const row of byId("rows").rows) {
      if (row.dataset.due === undefined) continue;
      const left = row.dataset.due - now, late = Boolean(row.dataset.late);
      // A timer that was not late at the last update has usually been delivered since.
      row.cells[0].textContent = left >= 0 ? span(left) : late ? `late by ${span(-left)}` : "now";
      row.cells[0].classList.toggle("late", late);
    }
  },

  async showDetail(id) {
    if (this.open !== id) byId("facts").replaceChildren();
    this.mark(id);
    this.inStores = false;
    byId("outcome").textContent = "";
    byId("actions").replaceChildren();
    await this.loadDetail();
    byId("announce").textContent = byId("explanation").textContent;
  },

  // A read-only page shows the short form of an id, even if the whole id was searched for.
  mark(id) {
    this.open = id;
    history.replaceState(null, "", `#id=${id}`);
    for (const row of byId("rows").rows) row.setAttribute("aria-selected", String(row.dataset.id === id));
  },

  async loadDetail() {
    const id = this.open;
    // Nothing waits for a store.
    if (this.inStores) return void this.loadStored(id);
    try {
      const timer = await ask(`timers/${encodeURIComponent(id)}`);
      if (this.open !== id) return;
      if (timer.id !== id) this.mark(timer.id);
      say(byId("explanation"), timer.explanation);
      pairs(byId("facts"), facts(timer));
      this.addActions(timer);
      byId("detail").classList.remove("gone");
    } catch (error) {
      if (this.open !== id) return;
      if (!error.status) throw error;
      const isMissing = error.status === 404;
      if (!isMissing) byId("facts").replaceChildren();
      byId("actions").replaceChildren();
      byId("detail").classList.add("gone");
      this.inStores = isMissing && durable.store !== "";
      byId("explanation").textContent = this.inStores ? ASKED : isMissing ? MISSING : error.message;
      if (this.inStores) this.loadStored(id);
    }
    byId("detail").hidden = false;
  },

  // Shows a durable timer. A search in the section of durable timers finds its row with the buttons.
  async loadStored(id) {
    if (this.asked === id) return;
    this.asked = id;
    const text = byId("explanation").textContent;
    try {
      const timer = await ask(`durable/timers/${encodeURIComponent(id)}`);
      if (this.open !== id) return;
      say(byId("explanation"), `A durable timer of ${timer.durable}: ${timer.state.replace("_", " ")}.`);
      pairs(byId("facts"), storedFacts(timer));
      byId("detail").classList.remove("gone");
    } catch (error) {
      if (this.open !== id) return;
      const whole = error.status === 400 ? " A durable timer is found by its whole id only." : "";
      say(byId("explanation"), [400, 404].includes(error.status) ? MISSING + whole : error.status ? error.message : "The store does not respond.");
      byId("detail").classList.add("gone");
    } finally {
      if (this.asked === id) this.asked = null;
    }
    if (text === ASKED) byId("announce").textContent = byId("explanation").textContent;
  },

  addActions(timer) {
    if (byId("actions").childElementCount) return;
    if (timer.actor) {
      const all = make("button", "All timers of this actor", { type: "button" });
      all.addEventListener("click", () => guarded(() => { byId("by").value = "actor"; byId("query").value = timer.actor; return this.search(); }));
      byId("actions").append(all);
    }
    if (!this.cancelAllowed) return;
    const cancel = confirming("Cancel this timer", "Confirm cancel", () => this.cancel(timer.id));
    cancel.id = "cancel";
    byId("actions").append(cancel);
  },

  async cancel(id) {
    const said = { cancelled: "Cancelled: its handler will not run.", in_progress: "Too late: its message is being delivered. No repetition follows.", already_delivered: "Too late: its message was delivered." };
    let outcome, text;
    try {
      outcome = (await ask(`timers/${id}`, {}, { method: "DELETE", headers: { "X-Actix-Timers": "cancel" } })).outcome;
    } catch (error) {
      outcome = error.answer?.outcome;
      text = error.message;
    }
    if (this.open === id) byId("outcome").textContent = said[outcome] ?? text;
    if (!outcome) return;
    this.found = this.found.filter(row => row.id !== id || outcome !== "cancelled");
    this.show();
    if (this.open) await this.loadDetail();
  },

  close() {
    if (byId("detail").hidden) return;
    const row = [...byId("rows").rows].find(row => row.dataset.id === this.open);
    this.open = null;
    byId("detail").hidden = true;
    history.replaceState(null, "", location.pathname + location.search);
    for (const other of byId("rows").rows) other.setAttribute("aria-selected", "false");
    (row || byId("query")).focus();
  },

  listen() {
    byId("search").addEventListener("submit", event => { event.preventDefault(); guarded(() => this.search()); });
    byId("show-next").addEventListener("click", () => guarded(() => this.showNext()));
    byId("more").addEventListener("click", () => guarded(() => this.lookFurther(ENOUGH)));
    byId("close").addEventListener("click", () => this.close());
    const row = event => event.target.closest("tr[data-id]");
    byId("rows").addEventListener("click", event => { const chosen = row(event); if (chosen) guarded(() => this.showDetail(chosen.dataset.id)); });
    byId("rows").addEventListener("keydown", event => {
      const chosen = row(event);
      if (!chosen) return;
      if (event.key === "Enter" || event.key === " ") guarded(() => this.showDetail(chosen.dataset.id));
      else if (event.key === "ArrowDown") chosen.nextElementSibling?.focus();
      else if (event.key === "ArrowUp") chosen.previousElementSibling?.focus();
      else return;
      event.preventDefault();
    });
  },
};

function locationOf({ location, state }) {
  const queue = () => location.ahead === undefined ? `one of ${count(location.length)}` : location.ahead === 0 ? "next" : `behind ${count(location.ahead)}`;
  switch (location.kind) {
    case "wheel": return `level ${location.level}`;
    case "inbox": return `in the inbox, ${queue()}`;
    case "queue": return `queued for recipient, ${queue()}`;
    case "mailbox": return "in the mailbox";
    case "source": return "producing its message";
    case "flight": return "in flight";
    case "handler": return "after its handler";
    default: return state;
  }
}

function storedFacts(timer) {
  const due = timer.due_in_seconds >= 0 ? `in ${span(timer.due_in_seconds)}` : `late by ${span(-timer.due_in_seconds)}`;
  return [
    ["due", `${due}, ${moment(timer.wall_seconds)}`], ["state", timer.state.replace("_", " ")], ["route", timer.route],
    ["message", timer.message_type], ["key", timer.key ?? "–"], ["attempt", count(timer.attempt)],
    ["last error", timer.reason ?? "–"], ["id", timers.cancelAllowed ? timer.id : `${timer.id}…`], ["durable timers", timer.durable],
  ];
}

function facts(timer) {
  const { location } = timer;
  const due = timer.due_in_seconds >= 0 ? `in ${span(timer.due_in_seconds)}` : `late by ${span(-timer.due_in_seconds)}`;
  const entries = [["due", due], ["state", timer.state.replace("_", " ")], ["where", locationOf(timer)]];
  if (location.kind === "wheel") {
    entries.push(["bucket", `from tick ${location.start_tick} on, ${span(location.width_seconds)} wide`], ["bucket expires", `in ${span(location.expires_in_seconds)}`]);
  }
  if (location.length !== undefined) entries.push(["queue", `${count(location.length)} long`]);
  if (location.under_way !== undefined) entries.push(["under way", count(location.under_way)]);
  if (location.by_mailbox) entries.push(["delivery", "through the mailbox"]);
  const at = timer.wall_seconds === null ? "" : Math.abs(timer.wall_seconds) < 8.64e12 ? `, set to ${new Date(timer.wall_seconds * 1000).toISOString()}` : ", beyond the calendar";
  const repeats = timer.period_seconds === null ? "by calendar" : `every ${span(timer.period_seconds)}`;
  entries.push(["clock", timer.clock + at], ["repeats", timer.repeats ? repeats : "no"], ["message", timer.message_type]);
  entries.push(["key", timer.key ?? "–"], ["group", timer.group ?? "–"], ["actor", [timer.actor_type, timer.actor].filter(Boolean).join(" ") || "–"]);
  entries.push(["id", timers.cancelAllowed ? timer.id : `${timer.id}…`], ["timer actor", timer.timer]);
  return entries;
}
