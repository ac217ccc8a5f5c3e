// Start, periodic updates, and global keys.
"use strict";

const EVERY = 1000, TICKS = 250;
let paused = false, looking = false;
const still = matchMedia("(prefers-reduced-motion: reduce)");

// Runs a task that calls the server, and shows its error: that of an action of the visitor until the next action succeeds, since
// an update that succeeds says nothing of it.
async function guarded(task, isUpdate = false) {
  const trouble = byId("trouble");
  try {
    await task();
    if (!isUpdate || !trouble.dataset.ofAction) trouble.hidden = true;
  } catch (error) {
    const isKnown = error.status || error.message.includes("“");
    say(trouble, isKnown ? error.message : "The server does not respond. The page keeps trying.");
    if (isKnown && !isUpdate) trouble.dataset.ofAction = "true";
    else delete trouble.dataset.ofAction;
    trouble.hidden = false;
  }
}

// Updates the whole page.
async function look() {
  if (looking) return;
  looking = true;
  await guarded(async () => {
    await listSources();
    if (!timers.actor) return withoutActors();
    if (timers.actor === ALL) {
      clock.set(performance.now() / 1000);
      return timers.refresh();
    }
    const wheel = await ask("wheel", { timer: timers.actor });
    if (timers.actor && wheel.timer !== timers.actor) return;
    clock.set(wheel.now_seconds);
    rings.show(wheel);
    figures.show(wheel);
    await timers.refresh();
  }, true);
  looking = false;
}

// Updates the list of timer actors, and durable timers. If the chosen timer actor has ended, chooses the first.
async function listSources() {
  const { timer_actors, durable: stores, cancel_allowed, version } = await ask("timer-actors");
  timers.cancelAllowed = cancel_allowed;
  document.querySelector("h1").title = `actix-timers ${version}`;
  const names = timer_actors.map(({ timer }) => timer), choice = byId("timer-actor");
  options(choice, names.length > 1 ? [...names, ALL] : names);
  if (!names.includes(timers.actor) && !(timers.actor === ALL && names.length > 1)) choose(names[0] ?? "");
  if (timers.actor === ALL) figures.showAll(timer_actors);
  choice.value = timers.actor;
  durable.refresh(stores);
}

function choose(actor) {
  timers.actor = actor;
  document.title = actor && actor !== ALL ? `Timers of ${actor}` : "Timers";
  byId("timer-actor").value = actor;
  byId("all").hidden = actor !== ALL;
  for (const one of document.querySelectorAll(".of-one")) one.hidden = actor === ALL || !actor;
  clock.forget();
  rings.shape = "";
}

function change(actor) {
  choose(actor);
  looking = false;
  timers.showNext().catch(() => {}).finally(look);
}

// Beside durable timers a hint is enough; else the rejection says that there is no timer actor.
async function withoutActors() {
  if (!durable.store) await ask("wheel");
  timers.say("No timer actor runs here.");
}

async function begin() {
  await listSources();
  await (timers.actor ? look() : withoutActors());
  await openLinked();
}

// Opens the timer that the address names.
async function openLinked() {
  const id = new URLSearchParams(location.hash.slice(1)).get("id");
  if (id && id !== timers.open) await timers.showDetail(id);
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
  change(event.target.value);
});
byId("pause").addEventListener("click", pause);
addEventListener("hashchange", () => guarded(openLinked));
document.addEventListener("keydown", event => {
  if (event.repeat || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "Escape") return timers.close();
  if (event.target.closest("input, select, textarea")) return;
  if (event.key === "/") { event.preventDefault(); byId("query").focus(); byId("query").select(); }
  if (event.key === "p") pause();
});
rings.onOpen = (level, segment) => guarded(() => timers.showBucket(level, segment));
rings.listen();
timers.listen();
durable.listen();

async function start() {
  await guarded(begin, true);
  if (!timers.actor && !durable.store) return setTimeout(start, EVERY);
  setInterval(() => { if (!paused && !document.hidden) { look(); if (still.matches) rings.turn(); } }, EVERY);
  setInterval(() => { if (!paused && !document.hidden) timers.count(); }, TICKS);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && !paused) look(); });
  animate();
}
start();
