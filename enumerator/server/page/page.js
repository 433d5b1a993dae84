// Draws /status.json. Data from the server becomes text nodes or numbers, never markup.
"use strict";
const EVERY_MS = 5000, WIDTH = 640, LEFT = 76, RIGHT = 12, TOP = 20, HEIGHT = 182, BOTTOM = 22;
const byId = (id) => document.getElementById(id);

function element(name, attributes, ...children) {
  const svg = ["svg", "g", "line", "polyline", "polygon", "rect", "text", "title", "circle"].includes(name);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, String(value));
  for (const child of children) node.append(child);
  return node;
}

const time = (ms) => new Date(ms).toISOString().slice(11, 19);
const number = (value) => Number(value).toLocaleString("en", { maximumFractionDigits: 1 });
function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 120) return number(seconds) + " s";
  return seconds < 7200 ? number(seconds / 60) + " min" : number(seconds / 3600) + " h";
}

// A drawing with axes. from, to: x range in milliseconds; low, high: y range; format(y) returns a label.
function canvas(from, to, low, high, format, height, width) {
  const tall = height || HEIGHT, broad = width || WIDTH, wide = Math.max(1, to - from), range = high - low || 1;
  const x = (ms) => LEFT + (broad - LEFT - RIGHT) * Math.min(1, Math.max(0, (ms - from) / wide));
  const y = (value) => TOP + (tall - TOP - BOTTOM) * (1 - (value - low) / range);
  const svg = element("svg", { viewBox: `0 0 ${broad} ${tall}`, role: "img" });
  for (const part of format ? [0, 0.5, 1] : []) {
    const at = y(low + range * part);
    svg.append(element("line", { class: "axis", x1: LEFT, x2: broad - RIGHT, y1: at, y2: at }));
    svg.append(element("text", { x: LEFT - 6, y: at + 4, "text-anchor": "end" }, format(low + range * part)));
  }
  for (const [part, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]])
    svg.append(element("text", { x: x(from + wide * part), y: tall - 6, "text-anchor": anchor }, time(from + wide * part)));
  return { svg, x, y };
}

function put(id, drawing, what) {
  const section = byId(id);
  for (const old of section.querySelectorAll("svg, .empty")) old.remove();
  section.append(drawing || element("p", { class: "empty" }, "nothing yet"));
  if (drawing) drawing.prepend(element("title", {}, what));
}

const line = (at, points, kind) => element("polyline",
  { class: kind, points: points.map(([ms, value]) => `${at.x(ms)},${at.y(value)}`).join(" ") });

function legend(at, names) {
  names.forEach(([name, kind], place) => {
    at.svg.append(element("rect", { class: kind, x: LEFT + 8 + place * 150, y: 5, width: 10, height: 4 }));
    at.svg.append(element("text", { x: LEFT + 22 + place * 150, y: 11 }, name));
  });
}

function drawGroups(status) {
  const body = byId("groups").querySelector("tbody");
  body.replaceChildren(...status.groups.map((one) => element("tr", {},
    ...[groupTable(one), one.group, (one.up ? (one.alignment && one.alignment.held ? "held" : "running") : "stopped") + (one.error ? " " + one.error : ""), span(one.lag && one.lag.seconds),
      one.lag ? number(one.lag.commits) : "–", number(one.pending), number(one.held), number(one.finished),
      number(one.rows_per_second), number(one.fenced), number(one.expired), moment(one.watermark_ms),
      one.alignment ? one.alignment.set : "–", one.alignment ? moment(one.alignment.ceiling_ms) : "–"].map((text, place) =>
      element("td", (place === 2 && (!one.up || one.error)) || (place === 9 && one.fenced) ? { class: "bad" } : {}, text)))));
}

// The table of a group; of a group over tables the pattern and the number of its tables.
function groupTable(one) {
  if (!one.tables) return one.table;
  return `${one.table} (${number(one.tables)} tables${one.failing ? `, ${number(one.failing)} with errors` : ""})`;
}

function drawCatalogs(status) {
  byId("catalogs").hidden = !status.catalogs.length;
  byId("catalogs").querySelector("tbody").replaceChildren(...status.catalogs.map((one) => element("tr", {},
    ...[[one.catalog], [one.error || "listed", one.error], [number(one.tables)], [moment(one.listed_ms)],
      [span(one.spent_s)], [number(one.problems), one.problems]].map(
      ([text, marked]) => element("td", marked ? { class: "bad" } : {}, text)))));
}

function drawWrites(status) {
  byId("writes").hidden = !status.writes.length;
  byId("writes").querySelector("tbody").replaceChildren(...status.writes.map((one) => element("tr", {},
    ...[[one.table], [number(one.requested)], [number(one.open)], [number(one.decided), one.stuck_s > 60], [number(one.failed), one.stuck_s > 60],
      [number(one.groups)], [span(one.oldest_s), one.stuck_s > 60]].map(
      ([text, marked]) => element("td", marked ? { class: "bad" } : {}, text)))));
}

// A time of event data as text: any 64-bit time, also one that no Date can hold.
function moment(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms >= 253370764800000) return "end";
  return Math.abs(ms) < 8.64e15 ? new Date(ms).toISOString().slice(0, 19).replace("T", " ") : String(ms);
}

function drawStreams(status) {
  const body = byId("streams").querySelector("tbody");
  body.replaceChildren(...status.streams.map((one) => {
    const lag = one.lag, close = lag && lag.commits > 0 &&
      ((lag.loss_commits !== null && lag.loss_commits <= 2) || (lag.loss_seconds !== null && lag.loss_seconds <= 3600));
    const bad = one.state === "failed" || one.state === "stopped" || one.error;
    return element("tr", {}, ...[[one.table], [one.stream], [one.state + (one.error ? " " + one.error : ""), bad], [one.position],
      [lag ? span(lag.seconds) : "–"], [lag ? number(lag.commits) : "–"], [lag ? (lag.holds_cleaner ? "held, " : "") + span(lag.loss_seconds) : "–", close],
      [moment(one.watermark_ms)], [one.alignment || "–"], [moment(one.ceiling_ms)], [number(one.batches)]].map(
      ([text, marked]) => element("td", marked ? { class: "bad" } : {}, text)));
  }));
}

function drawServices(status) {
  byId("services").hidden = !status.services.length;
  byId("services").querySelector("tbody").replaceChildren(...status.services.map((one) => element("tr", {},
    ...[[one.table], [one.service], [one.instant || "–"], [one.state, one.state === "failing"], [one.member || "–"],
      [span(one.age_ms / 1000)], [number(one.failures), one.failures], [one.error || "–", one.error]].map(
      ([text, marked]) => element("td", marked ? { class: "bad" } : {}, text)))));
}

function drawHealth(status) {
  const bad = status.health.filter((one) => one.error);
  byId("health").replaceChildren(...(bad.length ? bad.map((one) =>
    element("span", { class: "bad" }, `table ${one.table} cannot be opened: ${one.error}. `)) :
    [`${status.health.length} tables can be opened`]));
}

function drawCadence(table, from, now) {
  const rounds = table ? table.rounds : [];
  if (!rounds.length) return put("cadence", null);
  const most = Math.max(1, ...rounds.map((one) => one[2]));
  const at = canvas(from, now, 0, most, number);
  for (const [ms, instant, commits, splits] of rounds) {
    const bar = element("rect", { class: "one", x: at.x(ms) - 1.5, y: at.y(commits), width: 3, height: Math.max(1, at.y(0) - at.y(commits)) });
    bar.append(element("title", {}, `${time(ms)}: ${commits} commits, ${splits} splits` + (instant ? `, newest of ${time(instant)}` : "")));
    at.svg.append(bar);
  }
  put("cadence", at.svg, "Commits of each planned round over time");
}

function drawSplits(group, from, now) {
  const samples = group ? group.samples : [];
  if (!samples.length) return put("splits", null);
  const most = Math.max(1, ...samples.map((one) => one[1] + one[2]));
  const at = canvas(from, now, 0, most, number);
  const area = (upper, lower, kind) => element("polygon", { class: kind, points: [
    ...samples.map((one) => `${at.x(one[0])},${at.y(upper(one))}`),
    ...samples.slice().reverse().map((one) => `${at.x(one[0])},${at.y(lower(one))}`)].join(" ") });
  at.svg.append(area((one) => one[1], () => 0, "one"), area((one) => one[1] + one[2], (one) => one[1], "two"));
  legend(at, [["pending", "one"], ["held", "two"]]);
  put("splits", at.svg, "Pending and held splits over time");
}

function drawLag(group, from, now) {
  const points = (group ? group.samples : []).filter((one) => one[4] !== null).map((one) => [one[0], one[4]]);
  if (!points.length) return put("lag", null);
  const at = canvas(from, now, 0, Math.max(1, ...points.map((one) => one[1])), span);
  at.svg.append(line(at, points, "one"));
  put("lag", at.svg, "Lag in seconds over time");
}

function drawClock(group, table, from, now) {
  const issued = (group ? group.samples : []).filter((one) => one[5] !== null).map((one) => [one[0], one[5]]);
  const own = (group ? group.samples : []).filter((one) => one[6] !== null).map((one) => [one[0], one[6]]);
  const marks = own.length ? own : table ? table.watermarks : [];
  if (!issued.length && !marks.length) return put("clock", null);
  const all = [...issued, ...marks].map((one) => one[1]);
  const low = Math.min(...all, from), high = Math.max(...all, now);
  const far = high - low > 86400000;
  const at = canvas(from, now, low, high, (ms) => far ? new Date(ms).toISOString().slice(0, 10) : time(ms));
  at.svg.append(line(at, [[from, from], [now, now]], "axis"), line(at, issued, "one"), line(at, marks, "two"));
  legend(at, [["newest instant", "one"], ["watermark", "two"]]);
  put("clock", at.svg, "Newest planned instant and watermark against the wall clock");
}

function drawGantt(status, group, from, now) {
  const bars = status.bars.filter((one) => group && one.group === group.group && (one.table === group.table || one.over === group.table));
  if (!bars.length) return put("gantt", null);
  const readers = [...new Set(bars.map((one) => one.reader))].sort();
  const begin = Math.max(from, Math.min(...bars.map((one) => one.begin_ms)));
  const tall = TOP + BOTTOM + 26 * readers.length;
  const at = canvas(begin, now, 0, 1, null, tall, 2 * WIDTH);
  const kinds = { finished: "three", held: "one", returned: "two", moved: "two", expired: "bad", fenced: "bad" };
  readers.forEach((reader, place) => {
    const y = TOP + 26 * place;
    at.svg.append(element("line", { class: "axis", x1: LEFT, x2: 2 * WIDTH - RIGHT, y1: y + 24, y2: y + 24 }));
    const name = element("text", { x: LEFT - 6, y: y + 15, "text-anchor": "end" }, reader.length > 11 ? reader.slice(0, 10) + "…" : reader);
    name.append(element("title", {}, reader));
    at.svg.append(name);
    for (const one of bars.filter((each) => each.reader === reader && (each.end_ms === null || each.end_ms >= begin))) {
      const x = at.x(one.begin_ms), end = at.x(one.end_ms === null ? now : one.end_ms);
      const bar = element("rect", { class: "bar " + (kinds[one.how] || "one"), x, y: y + 4, width: Math.max(1.5, end - x), height: 15 });
      bar.append(element("title", {}, `${one.split}: ${one.how}, ${time(one.begin_ms)} to ${one.end_ms === null ? "now" : time(one.end_ms)}`));
      at.svg.append(bar);
    }
  });
  put("gantt", at.svg, "Splits that readers held over time");
}

function selectedGroup(status) {
  const select = byId("group"), before = select.value;
  const keys = status.groups.map((one) => JSON.stringify([one.table, one.group]));
  if (keys.join() !== [...select.options].map((one) => one.value).join()) {
    select.replaceChildren(...status.groups.map((one, place) => element("option", { value: keys[place] }, `${one.group} on ${one.table}`)));
    if (keys.includes(before)) select.value = before;
  }
  return status.groups[keys.indexOf(select.value)] || null;
}

let last = null;
function draw() {
  if (!last) return;
  const status = last, group = selectedGroup(status);
  const table = group ? status.tables.find((one) => one.table === group.table) : status.tables[0];
  const times = [...(group ? group.samples.map((one) => one[0]) : []), ...(table ? table.rounds.map((one) => one[0]) : [])];
  const now = status.now_ms, from = Math.min(now - 60000, ...times);
  drawGroups(status);
  drawCatalogs(status);
  drawWrites(status);
  drawStreams(status);
  drawServices(status);
  drawHealth(status);
  drawCadence(table, from, now);
  drawSplits(group, from, now);
  drawLag(group, from, now);
  drawClock(group, table, from, now);
  drawGantt(status, group, from, now);
  byId("state").textContent = `as of ${time(now)} UTC, up ${span((now - status.started_ms) / 1000)}, ${status.groups.length} groups`;
}

async function refresh() {
  try {
    const answer = await fetch("status.json");
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    last = await answer.json();
    draw();
    document.body.dataset.drawn = "yes";
  } catch (error) {
    byId("state").textContent = `the server did not answer (${error.message}); the page shows the previous state`;
  }
  setTimeout(refresh, EVERY_MS);
}
byId("group").addEventListener("change", draw);
refresh();
