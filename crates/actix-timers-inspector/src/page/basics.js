// Helpers for all parts of the page. Data of timers are only ever set as text, never as HTML.
"use strict";

const byId = id => document.getElementById(id);

// The path of the page, including a prefix added by a proxy.
const base = location.pathname.replace(/\/+$/, "");

// The time for a response, in milliseconds. The outcome of a change is waited for.
const PATIENCE = 30000;

async function ask(path, parameters = {}, options = {}) {
  const wanted = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const query = new URLSearchParams(wanted).toString();
  const response = await fetch(`${base}/api/${path}${query ? "?" + query : ""}`, { cache: "no-store", signal: options.method ? null : AbortSignal.timeout(PATIENCE), ...options });
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  const error = new Error(answer.message || `${response.status} ${response.statusText}`);
  error.status = response.status;
  error.answer = answer;
  throw error;
}

function make(tag, text = "", attributes = {}) {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function draw(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// Sets a text unless it is unchanged: screen readers would read it again.
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Shows elements in place of earlier ones. One with the `data-key` of an earlier one gives that its texts, except in cells with
// buttons, which the key describes: so buttons keep the focus, and a click that has begun.
function renew(parent, elements) {
  const shown = new Map([...parent.children].map(child => [child.dataset.key, child]));
  const next = elements.map(element => {
    const old = element.dataset.key === undefined ? undefined : shown.get(element.dataset.key);
    if (!old) return element;
    Object.assign(old.dataset, element.dataset);
    [...element.cells ?? []].forEach((cell, at) => {
      if (cell.querySelector("button")) return;
      say(old.cells[at], cell.textContent);
      if (old.cells[at].title !== cell.title) old.cells[at].title = cell.title;
      old.cells[at].className = cell.className;
    });
    return old;
  });
  const stay = new Set(next);
  for (const child of [...parent.children]) if (!stay.has(child)) child.remove();
  // The one in use never moves: it would lose the focus, or a click that has begun.
  const kept = next.find(element => element.contains(document.activeElement));
  let at = parent.firstElementChild;
  for (const element of stay) {
    if (element === kept) while (at && at !== kept) { const later = at; at = at.nextElementSibling; parent.append(later); }
    if (element === at) at = at.nextElementSibling;
    else parent.insertBefore(element, at);
  }
}

const count = number => number.toLocaleString("en");

const FOREVER = 1e11;

// Formats a duration with up to two units.
function span(seconds) {
  const time = Math.abs(seconds), sign = seconds < 0 ? "−" : "";
  if (time > FOREVER) return sign + "forever";
  if (time === 0) return "0 s";
  if (time < 0.001) return `${sign}${Math.round(time * 1e6)} µs`;
  if (time < 1) return `${sign}${Math.round(time * 1e3)} ms`;
  if (time < 60) return `${sign}${(Math.floor(time * 10) / 10).toFixed(time < 10 || time % 1 ? 1 : 0)} s`;
  const whole = Math.floor(time);
  if (time < 3600) return `${sign}${Math.floor(whole / 60)} m ${whole % 60} s`;
  if (time < 86400) return `${sign}${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} m`;
  const days = Math.floor(whole / 86400);
  if (days < 1000) return `${sign}${days} d ${Math.floor(whole / 3600) % 24} h`;
  return `${sign}${count(Math.floor(days / 365.25))} years`;
}

// Parses typed durations as seconds: 90, 1.5h, 1h 30m.
function typedSeconds(text) {
  const units = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86400 };
  const trimmed = text.trim().toLowerCase();
  if (trimmed === "") return "";
  if (/^\d+(\.\d+)?$/.test(trimmed)) return trimmed;
  const parts = [...trimmed.matchAll(/(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*/g)];
  if (parts.map(part => part[0]).join("") !== trimmed) throw new Error(`“${text}” is not a duration: write 90, 45s or 1h 30m`);
  return String(parts.reduce((sum, [, number, unit]) => sum + number * units[unit], 0));
}

// The choice of all timer actors. No name of a timer actor is like this.
const ALL = "\u0000all";

// Sets the options of a choice, unless they are the same.
function options(choice, names) {
  const listed = [...choice.options].map(option => option.value);
  if (names.length === listed.length && names.every((name, at) => name === listed[at])) return;
  choice.replaceChildren(...names.map(name => make("option", name === ALL ? "all" : name, { value: name })));
}

// Makes a button whose task runs at the second click, which is no double click. The question may be a function that asks the
// server for it.
function confirming(text, question, task) {
  const button = make("button", text, { type: "button", class: "danger" });
  const reset = () => { button.classList.remove("sure"); button.textContent = text; button.disabled = false; };
  let isAsking = false;
  button.addEventListener("click", event => guarded(async () => {
    if (isAsking || event.detail > 1) return;
    if (button.classList.contains("sure")) {
      reset();
      button.disabled = true;
      return task().finally(reset);
    }
    button.classList.add("sure");
    isAsking = true;
    try {
      const asked = typeof question === "string" ? question : await question();
      if (button.classList.contains("sure")) button.textContent = asked;
    } catch (error) {
      reset();
      throw error;
    } finally {
      isAsking = false;
    }
  }));
  // A key that is held repeats its click.
  button.addEventListener("keydown", event => { if (event.repeat && ["Enter", " "].includes(event.key)) event.preventDefault(); });
  button.addEventListener("blur", () => { if (!button.disabled) reset(); });
  return button;
}

// Removes the paths from a type name, and from the file of a closure.
const shortType = name => name.replace(/(?:\w+::)+/g, "").replace(/^(closure at )[^:]*[/\\]/, "$1");

// Extrapolates the clock of the timer actor between responses. It may be virtual, and stand still or run.
const clock = {
  seconds: 0, taken: 0, rate: 1,
  set(seconds) {
    const taken = performance.now();
    if (this.taken && taken > this.taken) this.rate = Math.max(0, (seconds - this.seconds) * 1000 / (taken - this.taken));
    this.seconds = seconds;
    this.taken = taken;
  },
  forget() { this.taken = 0; this.rate = 1; },
  now() { return this.taken ? this.seconds + this.rate * (performance.now() - this.taken) / 1000 : 0; },
};
