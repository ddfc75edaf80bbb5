// How it is shown. Everything from the status goes in as text; elements stay the same from one
// status to the next, so that focus, scrolling and selections survive.
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function set(node, text) {
  const shown = String(text);
  if (node.textContent !== shown) node.textContent = shown;
}

function put(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

function show(node, is) {
  if (node.hidden === is) node.hidden = !is;
}

// One child of `parent` for each item, in their order; `make` gives an object with a `node`.
function reconcile(parent, items, keyOf, make, update) {
  const rows = parent.keyed ??= new Map();
  const keys = new Set(items.map(keyOf));
  for (const [key, row] of rows) {
    if (keys.has(key)) continue;
    const focused = row.node.contains(document.activeElement);
    row.node.remove();
    rows.delete(key);
    if (focused) $("trouble").focus({ preventScroll: true });
  }
  let before = null;
  for (const item of items) {
    const key = keyOf(item);
    let row = rows.get(key);
    if (!row) rows.set(key, row = make(item));
    update(row, item);
    const place = before ? before.nextSibling : parent.firstChild;
    if (row.node !== place) parent.insertBefore(row.node, place);
    before = row.node;
  }
}

// The items by rank, unless somebody points there or has the focus in it: then nothing moves away
// under the finger.
let moved = 0;
addEventListener("pointermove", () => { moved = Date.now(); }, { passive: true });
function inOrder(parent, items, keyOf, rank) {
  const held = parent.contains(document.activeElement)
    || (parent.matches(":hover") && Date.now() - moved < 10_000);
  const known = held && parent.order;
  const place = (item) => (known ? known.get(keyOf(item)) ?? known.size : rank(item));
  const places = new Map(items.map((item) => [item, place(item)]));
  const sorted = [...items].sort((a, b) => places.get(a) - places.get(b));
  parent.order = new Map(sorted.map((item, index) => [keyOf(item), index]));
  return sorted;
}

function spark(className) {
  const [area, curve] = [svg("path", { class: "area" }), svg("path", { class: "curve" })];
  const node = svg("svg", { class: className, viewBox: "0 0 100 30", preserveAspectRatio: "none",
    "aria-hidden": "true" }, area, curve);
  return { node, area, curve };
}

function draw({ area, curve }, series, points, least) {
  const values = (series?.values ?? []).slice(-points);
  const top = values.reduce((top, value) => (value > top ? value : top), least);
  const step = 100 / (points - 1);
  let [line, fill, open] = ["", "", false];
  values.forEach((value, index) => {
    const x = (100 - (values.length - 1 - index) * step).toFixed(1);
    if (Number.isNaN(value)) {
      open = false;
      return;
    }
    const y = (29 - (value / top) * 27).toFixed(1);
    line += `${open ? "L" : "M"}${x} ${y}`;
    fill += open ? `L${x} ${y}` : `M${x} 30L${x} ${y}`;
    const next = values[index + 1];
    if (next === undefined || Number.isNaN(next)) fill += `L${x} 30z`;
    open = true;
  });
  put(curve, "d", line);
  put(area, "d", fill);
}

// Bars for probes, the newest on the right; the higher the slower, failed ones at full height.
function strip() {
  const [passed, failed] = [svg("path", { class: "passed" }), svg("path", { class: "failed" })];
  const node = svg("svg", { class: "strip", viewBox: "0 0 128 18", role: "img" }, passed, failed);
  return { node, passed, failed };
}

function drawStrip({ node, passed, failed }, { results, milliseconds, seconds_ago: ago }) {
  const paths = { "+": "", "-": "" };
  [...results].forEach((result, index) => {
    const x = 128 - (results.length - index) * 4;
    const slow = Math.min(1, Math.log10(1 + milliseconds[index]) / 4);
    const high = result === "+" ? Math.round(4 + 10 * slow) : 18;
    paths[result] += `M${x} 18v-${high}h3v${high}z`;
  });
  put(passed, "d", paths["+"]);
  put(failed, "d", paths["-"]);
  const count = results.length - results.replaceAll("-", "").length;
  const last = results.length - 1;
  put(node, "aria-label", results
    ? `${plural(results.length, "check")}, ${count} failed; the last one `
      + `${results[last] === "+" ? "passed" : "failed"} ${duration(ago[last])} ago, `
      + `in ${milliseconds[last]} ms`
    : "no checks");
}

const SHAPES = {
  up: ["good", "M0 11L5.5 0 11 11z"],
  down: ["bad", "M0 0h11L5.5 11z"],
  ejected: ["bad", "M0 2L2 0 5.5 3.5 9 0 11 2 7.5 5.5 11 9 9 11 5.5 7.5 2 11 0 9 3.5 5.5z"],
  unresolved: ["bad", "M5.5 0L11 5.5 5.5 11 0 5.5z"],
  checking: ["note", "M5.5 0a5.5 5.5 0 1 0 .01 0zM5.5 2a3.5 3.5 0 1 1-.01 0z"],
  draining: ["warn", "M0 0h11v3H0zM2 5h7v2H2zM4 9h3v2H4z"],
  maintenance: ["warn", "M1 0h3.5v11H1zM6.5 0H10v11H6.5z"],
};

function stateCell() {
  const [path, word] = [svg("path"), el("span")];
  const picture = svg("svg", { viewBox: "0 0 11 11", "aria-hidden": "true" }, path);
  return { node: el("span", {}, picture, word), path, word };
}

function drawState(cell, state) {
  const [level, shape] = SHAPES[state] ?? SHAPES.checking;
  put(cell.node, "class", `state ${level}`);
  put(cell.path, "d", shape);
  set(cell.word, state);
}

// A table that stays one for screen readers where its rows are shown as cards.
function table(caption, columns) {
  const head = el("tr", { role: "row" });
  for (const [name, className] of columns) {
    head.append(el("th", { scope: "col", role: "columnheader", className, textContent: name }));
  }
  const body = el("tbody", { role: "rowgroup" });
  const node = el("table", { role: "table" },
    el("caption", { className: "sr", textContent: caption }),
    el("thead", { role: "rowgroup" }, head), body);
  return { node, body };
}

function cell(label, className, ...children) {
  return el("td", { role: "cell", className, "data-label": label }, ...children);
}

function rateCell(label, className = "") {
  const [figure, picture] = [el("span"), spark("spark")];
  const node = cell(label, `number ${className}`,
    el("span", { className: "rate" }, picture.node, figure));
  return { node, figure, picture };
}

function drawRate(rate, key, format, least) {
  set(rate.figure, format(memory.rate(key)));
  draw(rate.picture, memory.series.get(key), 60, least);
}

const BACKEND_COLUMNS = [["State", ""], ["Backend", ""], ["Weight", "number"],
  ["Active", "number"], ["New/s", "number"], ["Total", "number total"],
  ["Failed", "number count-failed"], ["Last checks", ""], ["Change", "act"]];

function makeBackend({ pool, backend }) {
  const name = backendKey(pool, backend);
  const row = { pool: pool.name, address: backend.address };
  row.state = stateCell();
  row.since = el("div", { className: "since faint small" });
  row.tags = el("span");
  row.reason = el("div", { className: "faint small" });
  row.weight = cell("Weight", "number");
  row.active = el("span");
  row.meter = el("i");
  row.gauge = el("div", { className: "meter" }, row.meter);
  row.rate = rateCell("New/s");
  row.total = cell("Total", "number total");
  row.failed = cell("Failed", "number count-failed");
  row.strip = strip();
  row.quick = el("button", { type: "button" });
  row.more = el("button", { type: "button", textContent: "Details",
    "aria-label": `Details of ${name}, and weight`, "aria-haspopup": "dialog" });
  row.quick.addEventListener("click", () => quick(row));
  row.more.addEventListener("click", () => openDetails(row));
  const who = el("th", { scope: "row", role: "rowheader", className: "who wide" },
    el("span", { className: "mono", textContent: backend.address }), row.tags, row.reason);
  row.node = el("tr", { role: "row" }, cell("", "wide", row.state.node, row.since), who,
    row.weight, cell("Active", "number", row.active, row.gauge), row.rate.node, row.total,
    row.failed, cell("", "wide", row.strip.node), cell("", "act wide", row.quick, row.more));
  return row;
}

function updateBackend(row, { pool, backend }) {
  const name = backendKey(pool, backend);
  const rank = urgency(backend);
  put(row.node, "class", rank === 0 ? "hot" : rank === 1 || rank === 3 ? "warm" : "");
  drawState(row.state, backend.state);
  set(row.since, `for ${duration(backend.state_seconds)}`);
  updateTags(row.tags, backend);
  set(row.reason, backend.reason);
  const share = backend.weight_percent < 100 && backend.weight > 0;
  set(row.weight, share ? `${backend.weight} (${backend.weight_percent} %)` : backend.weight);
  const { limit } = backend;
  set(row.active, ofLimit(backend));
  show(row.gauge, limit !== null);
  if (limit !== null) {
    row.meter.style.width = `${Math.min(100, (100 * backend.active) / Math.max(1, limit))}%`;
    put(row.gauge, "class", isFull(backend) ? "meter full" : "meter");
  }
  drawRate(row.rate, `backend ${name}`, number, 1);
  set(row.total, number(backend.total));
  set(row.failed, number(backend.connect_failures));
  put(row.failed, "class", `number count-failed${backend.connect_failures ? " warn" : ""}`);
  drawStrip(row.strip, backend.probes);
  row.does = isWanted(backend) ? "draining" : "ready";
  const word = isWanted(backend) ? "Drain" : "Make ready";
  set(row.quick, word);
  put(row.quick, "aria-label", `${word}: ${name}`);
}

function updateTags(parent, backend) {
  const tags = [];
  if (backend.backup) tags.push(["", "backup"]);
  if (backend.flaps > 0) tags.push(["warn", `flaps (${backend.flaps})`]);
  for (const word of backend.overrides ?? []) tags.push(["", `changed here: ${word}`]);
  if (backend.agent !== null) tags.push(["", `agent: ${backend.agent}`]);
  drawTags(parent, tags);
}

function drawTags(parent, tags) {
  reconcile(parent, tags, ([level, text]) => level + text,
    ([level, text]) => ({ node: el("span", { className: `tag ${level}`, textContent: text }) }),
    () => {});
}

function makePool({ pool }) {
  const { node, body } = table(`Backends of pool ${pool.name}`, BACKEND_COLUMNS);
  const card = { body, name: pool.name, most: 0, tags: el("span", { className: "tags" }) };
  card.sum = el("span", { className: "faint" });
  card.more = el("button", { type: "button", className: "more" });
  card.more.addEventListener("click", () => {
    card.most = Math.min(MOST_ROWS, card.body.keyed.size + 100);
    render();
  });
  const title = el("h3", { textContent: pool.name });
  card.node = el("section", { className: "card pool", "aria-label": `Pool ${pool.name}` },
    el("div", { className: "title" }, title, card.tags, card.sum), node, card.more);
  return card;
}

function updatePool(card, { pool, backends, usual }) {
  put(card.node, "class", pool.available ? "card pool" : "card pool off");
  const up = pool.backends.filter((backend) => backend.state === "up").length;
  const all = pool.backends.length;
  const tags = [[up === all ? "good" : "warn", `${up} of ${all} up`]];
  if (!pool.available) tags.unshift(["bad", "no backend available"]);
  if (pool.waiting) tags.push(["warn", `${whole.format(pool.waiting)} waiting`]);
  if (pool.balance) tags.push(["", pool.balance]);
  drawTags(card.tags, tags);
  const active = pool.backends.reduce((sum, backend) => sum + backend.active, 0);
  set(card.sum, plural(active, "connection"));
  const keyOf = (backend) => backend.address;
  const sorted = inOrder(card.body, backends, keyOf, urgency);
  const shown = sorted.slice(0, Math.max(usual, card.most));
  reconcile(card.body, shown.map((backend) => ({ pool, backend })), (item) => keyOf(item.backend),
    makeBackend, updateBackend);
  const rest = sorted.length - shown.length;
  show(card.more, rest > 0);
  const full = shown.length >= MOST_ROWS;
  card.more.disabled = full;
  set(card.more, full ? `${whole.format(rest)} more: filter to see them`
    : `Show more of ${whole.format(rest)} others`);
}

const LISTENER_COLUMNS = [["Listener", ""], ["Addresses", ""], ["Pool", ""],
  ["Active", "number"], ["New/s", "number"], ["Received/s", "number"], ["Sent/s", "number"],
  ["Total", "number total"]];

function makeListener(listener) {
  const row = { addresses: cell("", "mono wide"), pool: cell("Pool", ""),
    active: cell("Active", "number"), total: cell("Total", "number total"),
    fresh: rateCell("New/s"), received: rateCell("Received/s", "wide"),
    sent: rateCell("Sent/s", "wide") };
  const name = el("th", { scope: "row", role: "rowheader", className: "wide",
    textContent: listener.name });
  row.node = el("tr", { role: "row" }, name, row.addresses, row.pool, row.active, row.fresh.node,
    row.received.node, row.sent.node, row.total);
  return row;
}

function updateListener(row, listener) {
  set(row.addresses, listener.addresses.join(", ") || "closed");
  set(row.pool, listener.pool);
  set(row.active, ofLimit(listener));
  set(row.total, number(listener.total));
  drawRate(row.fresh, `new ${listener.name}`, number, 1);
  drawRate(row.received, `received ${listener.name}`, bytes, 1024);
  drawRate(row.sent, `sent ${listener.name}`, bytes, 1024);
}

const LEVELS = { bad: "Critical", warn: "Warning", note: "Note", good: "Fine" };

function makeProblem(problem) {
  const row = { text: el("span"), who: el("span"), rest: el("span") };
  row.mark = el("span", { className: "mark" });
  row.node = el("li", {}, row.mark,
    el("span", { className: "what" }, row.text, row.who, row.rest));
  if (problem.dismiss) {
    const button = el("button", { type: "button", textContent: "Dismiss" });
    button.addEventListener("click", problem.dismiss);
    row.node.append(button);
  }
  return row;
}

function updateProblem(row, problem) {
  put(row.node, "class", `problem ${problem.level}`);
  put(row.mark, "class", `mark ${problem.level}`);
  set(row.mark, LEVELS[problem.level]);
  set(row.text, problem.text);
  const few = problem.who.slice(0, 5);
  reconcile(row.who, few, ({ pool, backend }) => backendKey(pool, backend), (item) => {
    const button = el("button", { type: "button", className: "name mono",
      textContent: item.backend.address });
    const [target, why] = [{ pool: item.pool.name, address: item.backend.address }, el("span")];
    button.addEventListener("click", () => openDetails(target));
    return { node: el("span", {}, " ", button, why), why };
  }, ({ why }, item) => set(why, item.why ? ` (${item.why})` : ""));
  const rest = problem.who.length - few.length;
  set(row.rest, rest > 0 ? ` and ${whole.format(rest)} more` : "");
}

function makeEvent(event) {
  const at = Date.now() - event.seconds_ago * 1000;
  const text = el("span", { className: event.level === "warn" ? "warn" : "",
    textContent: event.text });
  if (event.times > 1) text.append(el("span", { className: "tag", textContent: `× ${event.times}` }));
  const time = el("time", { dateTime: new Date(at).toISOString(), textContent: clock(at),
    title: new Date(at).toString() });
  return { node: el("li", {}, time, text) };
}

function makeTile([name, , , key]) {
  const [figure, small, picture] = [el("b"), el("span", { className: "faint small" }), spark("")];
  const node = el("div", { className: "card tile" },
    el("h3", { className: "faint small", textContent: name }), el("div", {}, figure, " ", small));
  if (key) node.append(picture.node);
  return { node, figure, small, picture };
}

function updateTile(tile, [, figure, small, key, least]) {
  set(tile.figure, figure);
  set(tile.small, small);
  if (key) draw(tile.picture, memory.series.get(key), POINTS, least);
}

const ENDED_COLUMNS = [["Reason", ""], ["Last minute", "number"], ["Total", "number"]];

function makeEnded([reason]) {
  const row = { lately: cell("Last minute", "number"), total: cell("Total", "number") };
  const name = el("th", { scope: "row", role: "rowheader", className: "who wide",
    textContent: reason });
  row.node = el("tr", { role: "row" }, name, row.lately, row.total);
  return row;
}

function updateEnded(row, [reason, lately, total]) {
  set(row.lately, number(lately));
  set(row.total, number(total));
  put(row.lately, "class", `number${lately && !NORMAL_ENDS.has(reason) ? " warn" : ""}`);
}

// Rows of one pool at most, and of all pools before anybody asks for more.
const MOST_ROWS = 500;
const USUAL_ROWS = 240;
const MOST_POOLS = 40;
