// Durable timers: the counts of a store, lists by state, and changes of single timers.
"use strict";

const durable = {
  // Of the stores, `asked` is the one whose update is under way, and `listed` the one whose timers are shown.
  // The filter of the last search, `wanted`, is that of all parts, updates and changes, whatever is typed meanwhile.
  store: "", asked: null, listed: "", wanted: {}, run: 0, rows: [], cursor: null, isLong: false,

  // Updates the stores, and begins an update of the counts, and of the list unless it is in use. Nothing waits for the
  // store: it may be slow. Without a store the section is hidden.
  refresh(names) {
    byId("durable").hidden = !names.length;
    if (!names.length) return;
    const choice = byId("durable-store");
    options(choice, names);
    choice.parentElement.hidden = names.length < 2;
    if (!names.includes(this.store)) this.store = names[0];
    choice.value = this.store;
    if (this.asked === this.store) return;
    const store = this.asked = this.store;
    this.shown(async () => {
      await this.count();
      if (store === this.store && !this.isLong && !this.isConfirming()) await this.load(() => this.isConfirming());
    }).finally(() => { if (this.asked === store) this.asked = null; });
  },

  // Runs a task that asks the store, and shows its error here: the rest of the page does not depend on the store.
  async shown(task) {
    const store = this.store;
    try {
      await task();
    } catch (error) {
      if (store === this.store) say(byId("durable-found"), error.status ? error.message : "The store does not respond.");
    }
  },

  async count() {
    const { durable: [store] } = await ask("durable", { durable: this.store });
    if (store?.durable !== this.store) return;
    // A count that has reached the store's limit is the largest, or as large.
    const limit = store.is_limited ? Math.max(store.pending, store.parked, store.dead_letters) : Infinity;
    const number = value => value === null ? "–" : (value === limit ? "at least " : "") + count(value);
    pairs(byId("durable-counts"), [
      ["pending", number(store.pending)], ["parked", number(store.parked)], ["dead letters", number(store.dead_letters)], ["store", store.state],
    ]);
    this.showPauses(store);
  },

  // Lists the pauses, and offers to end them, or to pause the route that is searched for.
  showPauses({ durable: store, pauses }) {
    const box = byId("durable-pauses"), { route } = this.wanted;
    if (box.querySelector(".sure")) return;
    const change = (text, method, kind, name) =>
      confirming(text, `Confirm ${text.toLowerCase()} ${name}`, () => this.change({ durable: store, kind, name }, "pauses", method));
    const rows = pauses.map(({ kind, name, until_seconds, who, why }) => {
      const until = until_seconds === null ? "" : ` until ${moment(until_seconds)}`;
      const row = make("p", `The ${kind} ${name} is paused${until}${who ? ` by ${who}` : ""}${why ? `: ${why}` : ""} `, { class: "hint" });
      row.dataset.key = JSON.stringify([store, kind, name, until_seconds, who, why]);
      if (timers.cancelAllowed) row.append(change("Resume", "DELETE", kind, name));
      return row;
    });
    if (timers.cancelAllowed && route && !pauses.some(({ kind, name }) => kind === "route" && name === route)) {
      const pause = change("Pause route", "POST", "route", route);
      pause.dataset.key = JSON.stringify([store, route]);
      rows.push(pause);
    }
    renew(box, rows);
  },

  typed() {
    const text = name => byId(`durable-${name}`).value.trim();
    return {
      state: text("state"), route: text("route"), message_type: text("type"), key: text("key"),
      key_prefix: byId("durable-prefix").value, header_name: text("header"), header_value: byId("durable-value").value,
    };
  },

  // Nothing of an earlier search stays, not even if this one fails: its changes would concern the earlier filter.
  search() {
    this.wanted = this.typed();
    this.rows = [];
    this.isLong = false;
    byId("durable-more").hidden = true;
    byId("durable-all").replaceChildren();
    byId("durable-pauses").replaceChildren();
    byId("durable-rows").replaceChildren();
    say(byId("durable-outcome"), "");
    say(byId("durable-found"), "Searching.");
    this.shown(async () => { await this.load(); await this.count(); });
  },

  // Whether a visitor is asked to confirm a change: the button must stay.
  isConfirming: () => byId("durable").querySelector(".sure") !== null,

  // Loads the first part, and shows it unless it is not wanted any more.
  async load(isUnwanted = () => false) {
    const run = ++this.run, wanted = { durable: this.store, ...this.wanted };
    const part = await ask("durable/timers", { ...wanted, limit: 50 });
    if (run !== this.run || isUnwanted()) return;
    this.offerAll(wanted);
    this.rows = part.timers;
    this.isLong = false;
    this.show(part);
  },

  // Loads parts until some timers are found, none is left, or many parts were empty: the button goes on then.
  async loadMore() {
    const run = ++this.run;
    // From the click on: an update that begins meanwhile would make this one unwanted.
    const wasLong = this.isLong;
    this.isLong = true;
    const before = this.rows.length;
    let empty = 0;
    do {
      const part = await ask("durable/timers", { durable: this.store, ...this.wanted, limit: 100, cursor: this.cursor })
        .catch(error => { if (run === this.run) this.isLong = wasLong || this.rows.length > before; throw error; });
      if (run !== this.run) return;
      this.rows.push(...part.timers);
      this.show(part);
      if (!part.timers.length) empty++;
    } while (this.cursor !== null && this.rows.length < before + 100 && empty < 20);
  },

  show({ durable, next, damaged }) {
    this.listed = durable;
    this.cursor = next;
    const rows = this.rows.map(timer => this.row(timer));
    if (!rows.length) {
      const row = make("tr");
      row.append(make("td", next === null ? "No durable timer matches." : "None so far.", { colspan: 7, class: "hint" }));
      rows.push(row);
    }
    renew(byId("durable-rows"), rows);
    byId("durable-more").hidden = next === null;
    const unread = damaged ? ` ${count(damaged)} damaged records cannot be read.` : "";
    say(byId("durable-found"), `${count(this.rows.length)} shown.${unread}`);
  },

  // Offers the changes of all timers of the filter: the confirmation names their number, and the filter.
  offerAll(wanted) {
    const cancels = [["Cancel all", "timers", "DELETE"]];
    const letters = [["Requeue all", "dead-letters", "POST"], ["Discard all", "dead-letters", "DELETE"]];
    const offers = timers.cancelAllowed ? { "": cancels, parked: cancels, dead: letters }[wanted.state] ?? [] : [];
    renew(byId("durable-all"), offers.map(([text, path, method]) => {
      let confirmed = null;
      const question = async () => {
        const { count: number, is_limited } = await ask("durable/count", wanted);
        confirmed = number;
        if (is_limited && !number) return "None among the first million: narrow the filter";
        // There may be more than the store has counted: they stay.
        return `Confirm ${text.toLowerCase()}: ${is_limited ? "the first " : ""}${count(number)} (${filterOf(wanted)})`;
      };
      const button = confirming(text, question, () => this.change({ ...wanted, count: confirmed }, path, method));
      button.dataset.key = JSON.stringify([text, wanted]);
      return button;
    }));
  },

  row(timer) {
    const key = JSON.stringify([this.listed, timer.id, timer.state, timer.repetition, timer.reason, timers.cancelAllowed]);
    const row = make("tr", "", { "data-id": timer.id, "data-key": key });
    const due = timer.due_in_seconds >= 0 ? span(timer.due_in_seconds) : `late by ${span(-timer.due_in_seconds)}`;
    const end = timer.finished;
    const when = end ? `finished ${moment(end.seconds)}` : timer.state === "dead" ? `dead since ${moment(timer.dead_since_seconds)}` : due;
    const cells = [
      [when, `${moment(timer.wall_seconds)}, ${timer.id}`],
      [end ? end.outcome : timer.state.replace("_", " "), end ? `took ${span(end.took_seconds)}${end.result === null ? "" : `: ${end.result}`}` : ""],
      [timer.route, ""],
      [timer.message_type + (timer.repeats ? " ↻" : ""), end ? `repetition ${count(timer.repetition)}` : `version ${timer.message_version}, ${count(timer.message_bytes)} bytes${repetition(timer)}`],
      [timer.key ?? "–", timer.key ?? ""],
      [timer.attempt === 1 ? "first" : count(timer.attempt), ""],
    ];
    row.append(...cells.map(([text, title]) => make("td", text, { title })));
    const errors = (end?.errors ?? []).map(({ attempt, seconds, reason }) => `attempt ${count(attempt)}, ${moment(seconds)}: ${reason}`);
    const last = make("td", timer.reason ?? "", { class: "reason", title: errors.join("\n") });
    if (timers.cancelAllowed && !end) last.append(this.actions(timer));
    row.append(last);
    return row;
  },

  actions(timer) {
    const box = make("div", "", { class: "actions" }), store = this.listed;
    const change = (text, path, method) =>
      confirming(text, `Confirm ${text.toLowerCase()}`, () => this.change({ durable: store }, `${path}/${timer.id}`, method));
    if (timer.state === "dead") {
      box.append(change("Requeue", "dead-letters", "POST"), change("Discard", "dead-letters", "DELETE"));
    } else {
      if (timer.state === "parked" && timer.reason?.startsWith("paused")) {
        const paused = { durable: store, kind: "timer", name: timer.id };
        box.append(confirming("Resume", "Confirm resume", () => this.change(paused, "pauses", "DELETE")));
      }
      box.append(change("Cancel", "timers", "DELETE"));
    }
    return box;
  },

  async change(parameters, path, method) {
    const said = {
      requeued: "Requeued: it is due now, with all its attempts.", discarded: "Discarded.", cancelled: "Cancelled: its handler will not run.",
      in_progress: "Its handler runs; no further delivery will follow.", paused: "Paused: handlers that run end, and nothing else begins.",
      resumed: "Resumed.", not_paused: "It was not paused any more.", key_in_use: "Not requeued: another timer has its key.",
      still_pending: "Not requeued: its timer is pending.",
    };
    let text;
    try {
      const { outcome } = await ask(`durable/${path}`, parameters, { method, headers: { "X-Actix-Timers": "cancel" } });
      text = said[outcome] ?? `${Object.entries(outcome).map(([name, number]) => `${count(number)} ${name.replace("_", " ")}`).join(", ")}.`;
    } catch (error) {
      if (!error.status) throw error;
      text = said[error.answer?.outcome] ?? error.message;
    }
    say(byId("durable-outcome"), text);
    await this.shown(async () => { await this.count(); await this.load(); });
  },

  listen() {
    // A browser keeps the form of a page that is loaded again.
    this.wanted = this.typed();
    byId("durable-search").addEventListener("submit", event => { event.preventDefault(); this.search(); });
    byId("durable-state").addEventListener("change", () => this.search());
    const more = byId("durable-more");
    more.addEventListener("click", () => {
      more.disabled = true;
      this.shown(() => this.loadMore().finally(() => { more.disabled = false; }));
    });
    byId("durable-store").addEventListener("change", event => { this.store = event.target.value; this.search(); });
  },
};

function filterOf(wanted) {
  const words = {
    durable: "store", state: "state", route: "route", message_type: "message", key: "key", key_prefix: "key begins with",
    header_name: "header", header_value: "is",
  };
  return Object.entries(words).filter(([name]) => wanted[name]).map(([name, word]) => `${word} ${wanted[name]}`).join(", ");
}

function moment(seconds) {
  return Math.abs(seconds) < 8.64e12 ? new Date(seconds * 1000).toISOString() : "beyond the calendar";
}

function repetition({ repeats, repetition }) {
  if (!repeats) return "";
  const later = repeats.jitter_seconds === undefined ? "" : `, up to ${span(repeats.jitter_seconds)} later`;
  const times = repeats.cron !== undefined ? `by ${repeats.cron} in ${repeats.time_zone}`
    : repeats.delay_seconds !== undefined ? `${span(repeats.delay_seconds)} after each end` : `every ${span(repeats.period_seconds)}`;
  return `, repetition ${count(repetition)}, ${times}${later}`;
}
