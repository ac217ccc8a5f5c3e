// Start, periodic updates, and global keys.
"use strict";

const EVERY = 1000, TICKS = 250;
let paused = false, looking = false;
const still = matchMedia("(prefers-reduced-motion: reduce)");

// Runs a task that calls the server, and shows its error.
async function guarded(task) {
  try {
    await task();
    byId("trouble").hidden = true;
  } catch (error) {
    byId("trouble").textContent = error.status || error.message.includes("“") ? error.message : "The server does not respond. The page keeps trying.";
    byId("trouble").hidden = false;
  }
}

// Updates the whole page.
async function look() {
  if (looking) return;
  looking = true;
  await guarded(async () => {
    const wheel = await ask("wheel", { timer: timers.actor });
    if (timers.actor && wheel.timer !== timers.actor) return;
    clock.set(wheel.now_seconds);
    rings.show(wheel);
    figures.show(wheel);
    await timers.refresh();
  });
  looking = false;
}

async function begin() {
  const { timer_actors, cancel_allowed, version } = await ask("timer-actors");
  timers.cancelAllowed = cancel_allowed;
  document.querySelector("h1").title = `actix-timers ${version}`;
  byId("timer-actor").replaceChildren(...timer_actors.map(({ timer }) => make("option", timer, { value: timer })));
  timers.actor = timer_actors[0].timer;
  document.title = `Timers of ${timers.actor}`;
  await look();
  const id = new URLSearchParams(location.hash.slice(1)).get("id");
  if (id) await timers.showDetail(id);
}

function animate() {
  if (!paused && !still.matches && !document.hidden) rings.turn();
  requestAnimationFrame(animate);
}

function pause() {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  byId("pause").textContent = paused ? "Resume" : "Pause";
  if (!paused) look();
}

byId("timer-actor").addEventListener("change", event => {
  timers.actor = event.target.value;
  document.title = `Timers of ${timers.actor}`;
  clock.forget();
  rings.shape = "";
  looking = false;
  timers.showNext().catch(() => {}).finally(look);
});
byId("pause").addEventListener("click", pause);
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "Escape") return timers.close();
  if (event.target.closest("input, select, textarea")) return;
  if (event.key === "/") { event.preventDefault(); byId("query").focus(); byId("query").select(); }
  if (event.key === "p") pause();
});
rings.onOpen = (level, segment) => guarded(() => timers.showBucket(level, segment));
rings.listen();
timers.listen();

async function start() {
  await guarded(begin);
  if (!timers.actor) return setTimeout(start, EVERY);
  setInterval(() => { if (!paused && !document.hidden) { look(); if (still.matches) rings.turn(); } }, EVERY);
  setInterval(() => { if (!paused && !document.hidden) timers.count(); }, TICKS);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && !paused) look(); });
  animate();
}
start();
