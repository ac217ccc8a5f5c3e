// The wheel as rings: one per level, level 0 innermost, buckets clockwise from the top.
"use strict";

const OUTER = 490, THICKEST = 78, HOLE = 120, SHADES = 7;

const rings = {
  wheel: null, shape: "", paths: new Map(), hands: [], chosen: null, onOpen: () => {},

  show(wheel) {
    this.wheel = wheel;
    const shape = [wheel.timer, wheel.depth, wheel.wheel_size].join();
    if (shape !== this.shape) this.lay(shape);
    const fullest = Math.max(1, ...wheel.levels.map(level => level.fullest));
    const drawn = new Set();
    for (const level of wheel.levels) {
      for (const segment of level.segments) {
        const name = `${level.level}:${segment.at}`;
        const path = this.paths.get(name) || this.addPath(name, level, segment.at);
        drawn.add(name);
        path.setAttribute("class", `bucket h${shade(segment.fullest, fullest)}${name === this.chosen ? " chosen" : ""}`);
      }
    }
    for (const [name, path] of this.paths) {
      if (drawn.has(name)) continue;
      path.remove();
      this.paths.delete(name);
    }
    byId("legend-high").textContent = count(fullest);
    byId("centre-count").textContent = count(wheel.pending);
  },

  // Returns the inner and outer radius of a level.
  radii(level) {
    const depth = this.wheel.depth, gap = depth > 12 ? 1 : 7;
    const thick = Math.min(THICKEST, (OUTER - HOLE - gap * (depth - 1)) / depth);
    const outer = OUTER - (depth - 1 - level) * (thick + gap);
    return [outer - thick, outer];
  },

  lay(shape) {
    this.shape = shape;
    this.paths.clear();
    this.hands = [];
    this.chosen = null;
    for (const id of ["tracks", "buckets", "hands", "labels"]) byId(id).replaceChildren();
    for (const level of this.wheel.levels) {
      const [inner, outer] = this.radii(level.level);
      byId("tracks").append(draw("circle", { class: "track", cx: 500, cy: 500, r: (inner + outer) / 2, "stroke-width": outer - inner }));
      for (let eighth = 0; eighth < 8; eighth++) {
        byId("tracks").append(draw("line", { class: "quarter", x1: 500, x2: 500, y1: 500 - inner, y2: 500 - inner - 6, transform: `rotate(${eighth * 45} 500 500)` }));
      }
      const hand = draw("line", { class: "hand", "data-level": level.level, x1: 500, x2: 500, y1: 500 - inner, y2: 500 - outer });
      this.hands.push(hand);
      byId("hands").append(hand);
      if (this.wheel.depth > 12) continue;
      const label = draw("text", { class: "ring-label", x: 506, y: 500 - (inner + outer) / 2 + 6 });
      label.textContent = level.level;
      byId("labels").append(label);
    }
    this.turn();
  },

  addPath(name, level, at) {
    const [inner, outer] = this.radii(level.level);
    const per = level.buckets_per_segment, size = this.wheel.wheel_size;
    const from = at * per / size, to = Math.min(1, (at + 1) * per / size);
    const point = (turn, radius) => `${(500 + radius * Math.sin(turn * 2 * Math.PI)).toFixed(2)} ${(500 - radius * Math.cos(turn * 2 * Math.PI)).toFixed(2)}`;
    const large = to - from > 0.5 ? 1 : 0;
    const d = `M${point(from, inner)}L${point(from, outer)}A${outer} ${outer} 0 ${large} 1 ${point(to, outer)}L${point(to, inner)}A${inner} ${inner} 0 ${large} 0 ${point(from, inner)}Z`;
    const path = draw("path", { d, "data-name": name });
    this.paths.set(name, path);
    byId("buckets").append(path);
    return path;
  },

  // Turns the hands to the current time.
  turn() {
    if (!this.wheel) return;
    for (const hand of this.hands) {
      const turn = this.wheel.levels[hand.dataset.level].turn_seconds;
      hand.setAttribute("transform", `rotate(${(clock.now() / turn % 1 * 360).toFixed(2)} 500 500)`);
    }
  },

  find(name) {
    const [level, at] = name.split(":").map(Number);
    const ring = this.wheel && this.wheel.levels[level];
    return [ring, ring && ring.segments.find(segment => segment.at === at)];
  },

  describe(name) {
    const [level, segment] = this.find(name);
    if (!segment) return "This bucket is empty now.";
    const many = level.buckets_per_segment > 1 ? `${segment.buckets} buckets from ${segment.at * level.buckets_per_segment} on` : `bucket ${segment.at}`;
    const timers = segment.entries === 1 ? "1 timer" : `${count(segment.entries)} timers`;
    return `Level ${level.level}, ${many} of ${this.wheel.wheel_size}: ${timers}, expires in ${span(segment.expires_in_seconds)}, ${span(level.bucket_seconds)} wide.`;
  },

  choose(name) {
    const before = this.chosen && this.paths.get(this.chosen);
    if (before) before.classList.remove("chosen");
    this.chosen = name;
    const path = this.paths.get(name);
    if (path) {
      path.classList.add("chosen");
      byId("buckets").append(path);
    }
    byId("pointed").textContent = this.describe(name);
  },

  // Returns the names of the buckets of a level, clockwise.
  names(level) {
    return level ? level.segments.map(segment => `${level.level}:${segment.at}`) : [];
  },

  // Chooses the next non-empty bucket, `round` the ring or `across` the levels.
  step(round, across) {
    const levels = this.wheel ? this.wheel.levels.filter(level => level.segments.length) : [];
    if (!levels.length) return;
    if (!this.chosen) return this.choose(this.names(levels[0])[0]);
    const [number, at] = this.chosen.split(":").map(Number);
    if (across) {
      const beyond = levels.filter(level => across > 0 ? level.level > number : level.level < number);
      const level = across > 0 ? beyond[0] : beyond[beyond.length - 1];
      if (!level) return;
      const near = this.names(level).reduce((best, name) => Math.abs(name.split(":")[1] - at) < Math.abs(best.split(":")[1] - at) ? name : best);
      return this.choose(near);
    }
    const ring = this.wheel.levels[number], places = ring.segments.map(segment => segment.at);
    if (!places.length) return this.choose(this.names(levels[0])[0]);
    const next = round > 0 ? places.find(place => place > at) ?? places[0] : places.findLast(place => place < at) ?? places[places.length - 1];
    this.choose(`${number}:${next}`);
  },

  open() {
    const [level, segment] = this.chosen ? this.find(this.chosen) : [];
    if (segment) this.onOpen(level, segment);
  },

  listen() {
    const svg = byId("rings");
    const named = event => event.target.closest("[data-name]");
    svg.addEventListener("pointerover", event => {
      const path = named(event);
      if (path) byId("pointed").textContent = this.describe(path.dataset.name);
    });
    svg.addEventListener("click", event => {
      const path = named(event);
      if (!path) return;
      this.choose(path.dataset.name);
      this.open();
    });
    const keys = {
      ArrowRight: () => this.step(1, 0), ArrowLeft: () => this.step(-1, 0),
      ArrowUp: () => this.step(0, 1), ArrowDown: () => this.step(0, -1),
      Enter: () => this.open(),
    };
    svg.addEventListener("keydown", event => {
      if (!keys[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      keys[event.key]();
    });
  },
};

// The scale is logarithmic, so that a few timers remain visible beside many.
function shade(entries, fullest) {
  if (fullest <= 1) return 2;
  return Math.min(SHADES - 1, Math.floor(Math.log(entries) / Math.log(fullest + 1) * SHADES));
}
