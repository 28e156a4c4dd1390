// The page shows what the server's stream of states says, and posts what is set here. It computes no more than it must.
"use strict";

const $ = id => document.getElementById(id);
const put = (id, text) => { if ($(id).textContent !== text) $(id).textContent = text; };

// ---- numbers in words

// three writes three significant digits, as few as that takes.
const three = n => n >= 100 ? Math.round(n).toLocaleString("en") : String(Number(n.toPrecision(3)));
const time = s => !s ? "–" : s < 0.001 ? three(s * 1e6) + " µs" : s < 1 ? three(s * 1e3) + " ms" : three(s) + " s";
const cpus = n => n === 1 ? "1 CPU" : n + " CPUs";

// ---- what is known

const kept = 600; // cells: a minute
let cells = [];   // newest last
let next = 0;     // number of the cell that comes next

function remember(first, more) {
  if (first !== next) cells = []; // the stream began again
  cells = cells.concat(more).slice(-kept);
  next = first + more.length;
}

// ---- the strip

const strip = $("strip");

function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = name => style.getPropertyValue(name).trim();
  return { run: of("--accent"), still: of("--still"), idle: of("--idle"), soft: of("--soft"), paper: of("--paper") };
}

// hatch is a pattern of slanting lines: whoever sees no colours sees those.
function hatch(context, colour) {
  const tile = document.createElement("canvas");
  const size = Math.round(6 * devicePixelRatio);
  tile.width = tile.height = size;
  const c = tile.getContext("2d");
  c.strokeStyle = colour;
  c.lineWidth = size / 3.2;
  c.beginPath();
  for (const shift of [-size, 0, size]) {
    c.moveTo(shift - 1, size + 1);
    c.lineTo(shift + size + 1, -1);
  }
  c.stroke();
  return context.createPattern(tile, "repeat");
}

// paint draws a cell: run grows from below, still hangs from above.
function paint(context, cell, x, y, width, height, look) {
  context.fillStyle = look.idle;
  context.fillRect(x, y, width, height);
  const still = Math.round(height * Math.min(cell.still / cell.span, 1));
  const ran = Math.min(Math.max(cell.cpu, 0), cell.span - cell.still) / cell.span;
  const run = Math.min(Math.round(height * ran), height - still);
  context.fillStyle = look.run;
  context.fillRect(x, y + height - run, width, run);
  if (cell.throttled === 0) return;
  context.fillStyle = look.hatched;
  context.fillRect(x, y, width, Math.max(still, 1));
}

// layout is how the cells are spread over rows of so many, as high as there is room for those that there are.
function layout() {
  const rowCells = strip.clientWidth >= 600 ? 200 : 100, most = kept / rowCells;
  const newest = Math.floor((next - 1) / rowCells), oldest = Math.floor((next - cells.length) / rowCells);
  const rows = Math.min(Math.max(newest - oldest + 1, 1), most);
  const above = 22, left = 44; // room for flags, and for times
  const height = Math.floor(strip.clientHeight / rows) - above;
  const step = (strip.clientWidth - left) / rowCells;
  const place = number => {
    const row = newest - Math.floor(number / rowCells), column = number % rowCells;
    return { row, x: left + column * step, end: left + (column + 1) * step, y: row * (height + above) + above };
  };
  return { rowCells, rows, above, left, height, step, place };
}

function draw() {
  const ratio = devicePixelRatio;
  const wide = Math.round(strip.clientWidth * ratio), high = Math.round(strip.clientHeight * ratio);
  if (strip.width !== wide || strip.height !== high) {
    strip.width = wide;
    strip.height = high;
  }
  const context = strip.getContext("2d");
  const look = colours();
  look.hatched = hatch(context, look.still);
  context.clearRect(0, 0, strip.width, strip.height);
  const l = layout();
  const height = Math.round(l.height * ratio), left = l.left * ratio;
  context.font = `${12 * ratio}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  for (let row = 0; row < l.rows; row++) {
    const y = Math.round((row * (l.height + l.above) + l.above) * ratio);
    context.fillStyle = look.soft;
    context.fillText(row === 0 ? "now" : `−${row * l.rowCells / 10} s`, 0, y + height / 2);
    context.strokeStyle = look.idle;
    context.lineWidth = ratio;
    context.strokeRect(left + ratio / 2, y + ratio / 2, strip.width - left - ratio, height - ratio);
  }
  cells.forEach((cell, i) => {
    const { row, x, end, y } = l.place(next - cells.length + i);
    if (row >= l.rows) return;
    const from = Math.round(x * ratio), to = Math.round(end * ratio);
    const space = l.step >= 5 ? ratio : 0;
    paint(context, cell, from, Math.round(y * ratio), to - from - space, height, look);
  });
  put("row-span", `${l.rowCells / 10} s`);
  drawMarks(l);
  drawKeys(look);
}

// drawMarks marks the cells with which another GOMAXPROCS begins. Of several that are close together the newest says its value.
function drawMarks(l) {
  const marks = [];
  let before = null; // the mark to the right, in the same row
  for (let i = cells.length - 1; i > 0; i--) {
    if (cells[i].procs === cells[i - 1].procs) continue;
    const { row, x, y } = l.place(next - cells.length + i);
    if (row >= l.rows) break;
    const mark = document.createElement("div");
    mark.className = "mark";
    Object.assign(mark.style, { left: `${x}px`, top: `${y - l.above + 4}px`, height: `${l.height + l.above - 4}px` });
    const room = (before && before.row === row ? before.x : strip.clientWidth) - x;
    const last = !before || before.row !== row;
    if (room >= 28 || last) {
      const flag = document.createElement("span");
      flag.className = "flag";
      flag.textContent = cells[i].procs;
      if (room < 28) mark.classList.add("last");
      mark.append(flag);
    }
    before = { row, x };
    marks.push(mark);
  }
  $("marks").replaceChildren(...marks);
}

function drawKeys(look) {
  for (const key of document.querySelectorAll(".key")) {
    const size = key.width = key.height = Math.round(18 * devicePixelRatio);
    const c = key.getContext("2d");
    c.fillStyle = look.idle;
    c.fillRect(0, 0, size, size);
    c.fillStyle = { run: look.run, still: hatch(c, look.still), idle: look.idle }[key.dataset.key];
    c.fillRect(0, 0, size, size);
  }
}

function tabulate() {
  if (!$("numbers").open) return;
  const newest = cells.slice(-20).reverse();
  $("cells").replaceChildren(...newest.map((cell, i) => tableRow([
    i === 0 ? "now" : `${three(i / 10)} s ago`,
    cell.cpu < 0 ? "not known" : time(cell.cpu),
    cell.throttled ? "throttled" : "no",
    cell.throttled ? time(cell.still) : "–",
    String(cell.procs),
  ])));
}

function tableRow(texts, name) {
  const row = document.createElement("tr");
  row.className = name || "";
  texts.forEach((text, i) => {
    const cell = document.createElement(i === 0 ? "th" : "td");
    if (i === 0) cell.scope = "row";
    cell.textContent = text;
    row.append(cell);
  });
  return row;
}

// ---- states

function show(state) {
  remember(state.first, state.cells);
  showLimit(state);
  showSummary(state);
  showProcs(state);
  showLoad(state);
  draw();
  tabulate();
}

let levels = "";

function showLimit({ limit, cpus: have }) {
  put("limit", limit.short);
  put("limit-long", limit.long);
  put("cpus", cpus(have));
  put("procs-why", `unthrottle would ${limit.procs ? "set GOMAXPROCS to " + limit.procs : "leave GOMAXPROCS as it is"}: ${limit.why.join("; ")}.`);
  if (levels === (levels = JSON.stringify(limit.levels))) return;
  $("levels").replaceChildren(...limit.levels.map(level =>
    tableRow([level.dir, level.quota + (level.in_force ? " ← in force" : "")], level.in_force ? "force" : "")));
}

let spoken = 0;

function showSummary({ summary, limit }) {
  put("summary", summary.text);
  put("in-use", summary.cpus < 0 ? "not known" : cpus(Number(summary.cpus.toFixed(2))));
  put("throttled", limit.cpus === 0 ? "no limit" : summary.periods === 0 ? "0 %" : Math.round(100 * summary.throttled / summary.periods) + " %");
  put("throttled-of", limit.cpus === 0 ? "nothing to throttle by" : `${summary.throttled} of ${summary.periods} periods, in the last 10 s`);
  if (Date.now() - spoken < 15000) return; // who listens should not be talked to all the time
  spoken = Date.now();
  put("spoken", summary.text);
}

// ---- GOMAXPROCS

const procs = $("procs");
let waiting = null; // the post that is to come, or is under way

function showProcs({ gomaxprocs, most_procs: most }) {
  procs.max = Math.max(most, gomaxprocs);
  put("procs-most", procs.max);
  procs.disabled = false;
  if (waiting) return; // the number is being changed here
  procs.value = gomaxprocs;
  put("procs-now", String(gomaxprocs));
}

procs.addEventListener("input", () => {
  put("procs-now", procs.value);
  clearTimeout(waiting);
  const mine = waiting = setTimeout(async () => {
    await post("maxProcs/" + procs.value);
    if (waiting === mine) waiting = null;
  }, 200); // a drag passes many numbers
});

// ---- load

const rate = $("rate"), rateDial = $("rate-dial"), path = $("path");
let going = false;
let asking = 0;   // posts under way
let followed = ""; // the load that the controls were last set to, here or by somebody else

function showLoad({ load, load_note: note, limit }) {
  going = load !== null;
  follow(load);
  $("start").textContent = going ? "Change" : "Start";
  $("stop").disabled = !going;
  if (going) say(`Running for ${Math.round(load.elapsed)} s`);
  else if (note) say(note);
  else if (!$("load-note").classList.contains("bad")) say("");
  const of = name => load ? load[name] : 0;
  put("response-p50", time(of("response_p50")));
  put("response-p99", time(of("response_p99")));
  put("service-p50", time(of("service_p50")));
  put("service-p99", time(of("service_p99")));
  put("asked", load ? three(load.rate) + "/s" : "–");
  put("done", load ? three(load.done_rate) + "/s" : "–");
  put("open", load ? three(load.open) : "–");
  put("failed", load ? three(load.failed) : "–");
  put("cpu-per-request", time(of("cpu_per_request")));
  put("late", time(of("pacer_late")));
}

const wish = load => JSON.stringify([load.rate, load.path]);

// follow sets the controls to a load that somebody else has asked for.
function follow(load) {
  if (asking || (load ? wish(load) : "") === followed) return;
  followed = load ? wish(load) : "";
  if (!load) return; // the controls are for the next one
  rate.value = load.rate;
  turnDial();
  if (![...path.options].some(option => option.value === load.path)) path.add(new Option(load.path, load.path));
  path.value = load.path;
}

// turnDial sets the dial to the rate. It goes as far as it must.
function turnDial() {
  rateDial.max = Math.max(200, Number(rate.value));
  rateDial.value = rate.value;
}

function say(text, bad) {
  put("load-note", text);
  $("load-note").classList.toggle("bad", Boolean(bad));
}

rateDial.addEventListener("input", () => { rate.value = rateDial.value; });
rate.addEventListener("input", turnDial);
const change = () => { if (going && rate.checkValidity()) setLoad(Number(rate.value)); };
for (const input of [rateDial, rate, path]) input.addEventListener("change", change);
$("load").addEventListener("submit", event => {
  event.preventDefault();
  setLoad(Number(rate.value));
});
$("stop").addEventListener("click", () => setLoad(0));

async function setLoad(requests) {
  const asked = { rate: requests, path: path.value };
  followed = wish(asked);
  asking++;
  const problem = await post("load", asked);
  asking--;
  say(problem, problem);
}

// post returns what went wrong, "" when nothing did.
async function post(path, body) {
  try {
    const answer = await fetch(path, { method: "POST", body: body && JSON.stringify(body) });
    return answer.ok ? "" : (await answer.json()).error;
  } catch {
    return "The server does not answer.";
  }
}

// ---- the stream

function connect() {
  const stream = new EventSource("live"); // it connects again by itself
  const connection = (text, lost) => {
    put("connection", text);
    $("connection").classList.toggle("lost", lost);
  };
  stream.addEventListener("state", event => {
    connection("live", false);
    show(JSON.parse(event.data));
  });
  stream.addEventListener("error", () => connection("The server does not answer; trying again.", true));
  addEventListener("pagehide", () => stream.close());
  addEventListener("pageshow", event => { if (event.persisted) location.reload(); });
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
addEventListener("resize", draw);
draw();
connect();
