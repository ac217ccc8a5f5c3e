// The panels beside the rings: figures, levels, delay queue, counters and settings.
"use strict";

// Fills a list of names and values. Unchanged values stay, so that they can be selected and are not read out again.
function pairs(list, entries) {
  const names = [...list.querySelectorAll("dt")].map(name => name.textContent).join("\n");
  if (names !== entries.map(([name]) => name).join("\n")) {
    list.replaceChildren(...entries.flatMap(([name]) => [make("dt", name), make("dd")]));
  }
  const values = list.querySelectorAll("dd");
  entries.forEach(([, value], at) => say(values[at], value));
}

const figures = {
  show(wheel) {
    const overdue = wheel.overdue_seconds > 0.02;
    const used = wheel.capacity ? wheel.pending / wheel.capacity : 0;
    const entries = [
      ["pending", count(wheel.pending)],
      ["in the wheel", count(wheel.in_wheel)],
      ["due, not ended", count(wheel.due)],
      [overdue ? "driver late by" : "next expiration in", this.next(wheel, overdue)],
      ["buckets queued", count(wheel.queued_buckets)],
      ["capacity used", used > 0 && used < 0.001 ? "< 0.1 %" : `${(used * 100).toFixed(1)} %`],
    ];
    byId("figures").replaceChildren(...entries.map(([name, value]) => {
      const box = make("div");
      box.append(make("dt", name), make("dd", value));
      return box;
    }));
    this.showState(wheel.state);
    this.showLevels(wheel);
    this.showQueue(wheel);
    this.showCounters(wheel.counters);
    pairs(byId("settings"), [
      ["tick", span(wheel.tick_seconds)], ["wheel size", count(wheel.wheel_size)], ["levels", count(wheel.depth)],
      ["horizon", span(wheel.horizon_seconds)], ["capacity", count(wheel.capacity)], ["actors with timers", count(wheel.actors)],
      ["repeating", count(wheel.repeating)], ["on the wall clock", count(wheel.wall_clock)], ["with key or group", count(wheel.labelled)],
      ["in inboxes", count(wheel.in_inboxes)],
    ]);
  },

  // Shows all timer actors in place of one.
  showAll(actors) {
    renew(byId("all-rows"), actors.map(actor => {
      const row = make("tr", "", { "data-key": actor.timer }), name = make("td"), overdue = actor.overdue_seconds > 0.02;
      const link = make("button", actor.timer, { type: "button", class: "link" });
      link.addEventListener("click", () => change(actor.timer));
      name.append(link);
      row.append(name, make("td", actor.state), make("td", count(actor.pending), { class: "n" }), make("td", (overdue ? "late by " : "") + this.next(actor, overdue), { class: "n" }));
      return row;
    }));
    const sum = actors.reduce((sum, actor) => sum + actor.pending, 0);
    say(byId("all-sum"), `${count(sum)} pending in ${count(actors.length)} timer actors.`);
    this.showState(actors.every(actor => actor.state === "running") ? "running" : "not all running");
  },

  next(wheel, overdue) {
    if (overdue) return span(wheel.overdue_seconds);
    return wheel.next_expiration_in_seconds === null ? "nothing" : span(wheel.next_expiration_in_seconds);
  },

  showState(state) {
    say(byId("state"), state);
    byId("state").classList.toggle("other", state !== "running");
  },

  showLevels(wheel) {
    byId("levels").replaceChildren(...wheel.levels.map(level => {
      const row = make("tr");
      row.append(
        make("th", String(level.level), { scope: "row" }), make("td", span(level.bucket_seconds)), make("td", span(level.turn_seconds)),
        make("td", count(level.entries), { class: "n" }), make("td", `${count(level.occupied)} of ${count(wheel.wheel_size)}`, { class: "n" }),
        make("td", count(level.fullest), { class: "n" }), make("td", count(level.cascades), { class: "n" }));
      return row;
    }));
  },

  showQueue(wheel) {
    const most = Math.max(1, ...wheel.delay_queue.map(bucket => bucket.entries));
    const items = wheel.delay_queue.slice(0, 8).map(bucket => {
      const item = make("li");
      const timers = `${count(bucket.entries)} ${bucket.entries === 1 ? "timer" : "timers"}`;
      const meter = make("meter", "", { min: 0, max: most, value: bucket.entries, "aria-label": timers });
      item.append(make("span", `in ${span(bucket.expires_in_seconds)}`), make("span", `level ${bucket.level}`, { class: "hint" }), meter, make("span", timers, { class: "n" }));
      return item;
    });
    byId("queue").replaceChildren(...(items.length ? items : [make("li", "empty", { class: "hint" })]));
  },

  showCounters(counters) {
    const lost = counters.recipient_stopped + counters.window_full + counters.service_stopped + counters.source_panicked
        + counters.rejected;
    pairs(byId("counters"), [
      ["accepted", count(counters.accepted)], ["delivered", count(counters.delivered)], ["cancelled", count(counters.cancelled)],
      ["dead letters", count(lost)], ["returned", count(counters.returned)], ["pending", count(counters.pending)],
      ["rescheduled", count(counters.rescheduled)], ["rejected", count(counters.rejected_capacity + counters.rejected_closed)],
    ]);
    const balance = counters.accepted === counters.delivered + counters.cancelled + lost + counters.returned + counters.pending;
    say(byId("balance"), balance ? "All timers are accounted for." : "The counters do not add up.");
  },
};
