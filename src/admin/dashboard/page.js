// Asking and answering: the status each second, changes when somebody wants them, and what to do
// when there is no answer.
const KEY = "evenkeel-token";
let memory = new Memory();
let status = null;
let received = 0;
let awake = Date.now();
let failedSince = 0;
let busy = false;
let timer = 0;
let notices = [];
let announced = null;
let morePools = false;
let allEvents = false;
let details = null;
let token = stored();

function stored() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function keep(value) {
  token = value;
  try {
    if (value === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, value);
  } catch {
    // Without storage it is known as long as the page is.
  }
}

// Below the page's own address, so that it also works behind a proxy at some path.
function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  const url = new URL(path, location.href.split(/[?#]/)[0]);
  return fetch(url, { ...options, headers, cache: "no-store", signal: AbortSignal.timeout(5000) });
}

async function poll() {
  clearTimeout(timer);
  if (busy || document.hidden) return;
  busy = true;
  const began = Date.now();
  let [code, answer] = [0, null];
  try {
    const response = await ask("api/v1/status");
    code = response.status;
    if (response.ok) answer = await response.json();
  } catch {
    // There is none; that is told below.
  }
  busy = false;
  try {
    if (code === 401) lock();
    else if (answer) take(answer);
    else failedSince ||= began;
    freshen();
  } finally {
    const took = Date.now() - began;
    if ($("login").hidden) timer = setTimeout(poll, Math.max(took, 1000 - took));
  }
}

function take(answer) {
  const now = Date.now();
  if (status && answer.instance !== status.instance) {
    memory = new Memory();
    const other = answer.version === status.version ? ""
      : `; it is version ${answer.version} now, reload this page`;
    notices = [{ level: "note", key: "restart", who: [],
      text: `evenkeel was restarted: the last answer before was at ${clock(received)}, it runs `
        + `since ${clock(now - answer.uptime_milliseconds)}${other}`,
      dismiss: () => { notices = []; render(); } }];
  } else if (failedSince && status) {
    say("evenkeel answers again");
  }
  status = answer;
  received = now;
  failedSince = 0;
  memory.take(status, now);
  show($("login"), false);
  show($("main"), true);
  show($("forget"), token !== null);
  render();
}

// The token is missing or another.
function lock() {
  const wrong = token !== null;
  keep(null);
  failedSince = 0;
  show($("forget"), false);
  show($("main"), false);
  show($("login"), true);
  show($("login-error"), wrong);
  set($("login-error"), wrong ? "This is not the token." : "");
  if ($("details").open) $("details").close();
  $("token").value = "";
  $("token").focus();
}

// What changes with time alone.
function freshen() {
  const locked = !$("login").hidden;
  const age = Math.round((Date.now() - (received || failedSince)) / 1000);
  // A tab that was hidden has had no time to ask yet.
  const late = Date.now() - Math.max(received, awake) > 3500 && !document.hidden;
  const stale = !locked && (failedSince > 0 || (received > 0 && late));
  const was = document.body.classList.contains("stale");
  document.body.classList.toggle("stale", stale);
  document.body.classList.toggle("live", !stale && !locked && status !== null);
  show($("stale"), stale);
  if (locked) {
    set($("pulse-text"), "Locked");
  } else if (stale) {
    set($("pulse-text"), `No answer for ${duration(age)}`);
    set($("stale"), `No answer from ${location.host}: the process has ended, hangs or cannot be `
      + `reached. It is asked again every second. ${received
        ? `What stands below is as of ${clock(received)}.` : ""}`);
    if (!was) say("evenkeel does not answer; what is shown is old");
  } else if (status) {
    set($("pulse-text"), `Live, ${status.state} for ${duration(status.uptime_seconds)}`);
  }
  dress(locked ? "idle" : stale ? "bad" : null);
}

// The icon and the title of the tab.
const PAINT = { bad: "#d1242f", warn: "#bf6a02", good: "#1f883d", idle: "#7b8798" };
function dress(forced) {
  const levels = announced ? [...announced.values()].map((problem) => problem.level) : [];
  const level = forced ?? (levels.includes("bad") ? "bad" : levels.includes("warn") ? "warn"
    : "good");
  const picture = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" `
    + `cy="8" r="7" fill="${PAINT[level]}"/></svg>`;
  put($("icon"), "href", `data:image/svg+xml,${encodeURIComponent(picture)}`);
  const count = levels.filter((each) => each === "bad" || each === "warn").length;
  const prefix = forced === "bad" ? "(no answer) " : count && !forced ? `(${count}) ` : "";
  const title = `${prefix}evenkeel ${location.host}`;
  if (document.title !== title) document.title = title;
}

function say(text) {
  set($("announce"), text);
}

function toast(text, failed = false) {
  set($("toast-text"), text);
  put($("toast"), "class", failed ? "failed" : "");
  show($("toast"), true);
  say(text);
  clearTimeout(toast.timer);
  if (!failed) toast.timer = setTimeout(() => show($("toast"), false), 8000);
}

function render() {
  if (!status) return;
  renderProblems();
  renderTiles();
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (...texts) => {
    const text = texts.join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  };
  renderPools(words, fits);
  const listeners = status.listeners
    .filter((each) => fits("listener", each.name, each.pool, ...each.addresses));
  reconcile(tables.listeners.body, listeners.slice(0, MOST_ROWS), (each) => each.name,
    makeListener, updateListener);
  const events = status.events.filter((event) => fits("event", event.level, event.text));
  const few = allEvents ? events : events.slice(0, 15);
  reconcile($("events"), few, (event) => `${status.instance} ${event.number}`, makeEvent, () => {});
  show($("more-events"), events.length > few.length);
  set($("more-events"), `Show all ${events.length}`);
  const ended = Object.entries(status.connections.ended).filter(([, count]) => count > 0)
    .map(([reason, count]) => [reason, memory.ended(reason, count), count])
    .sort((a, b) => b[2] - a[2]);
  reconcile(tables.ended.body, ended, ([reason]) => reason, makeEnded, updateEnded);
  if (details) updateDetails();
}

function renderProblems() {
  const found = problems(status, memory);
  const serious = new Map(found.filter((each) => each.level !== "note")
    .map((each) => [each.key, each]));
  if (announced) {
    const begun = [...serious.values()].filter((each) => !announced.has(each.key));
    const over = [...announced.values()].filter((each) => !serious.has(each.key));
    const lines = [...begun.map((each) => `${LEVELS[each.level]}: ${each.text}`),
      ...over.map((each) => `Over: ${each.text}`)];
    if (lines.length) say(lines.slice(0, 3).join(". "));
  }
  announced = serious;
  const backends = status.pools.flatMap((pool) => pool.backends);
  if (!serious.size) {
    const up = backends.filter((backend) => backend.state === "up").length;
    found.unshift({ level: "good", key: "good", who: [], text: found.length
      ? `Nothing else: ${up} of ${plural(backends.length, "backend")} up`
      : `Nothing. ${plural(backends.length, "backend")} in ${plural(status.pools.length, "pool")}, `
        + `${up} up` });
  }
  const shown = [...notices, ...found.slice(0, 12)];
  if (found.length > 12) {
    shown.push({ level: "note", key: "rest", who: [], text: `and ${found.length - 12} more` });
  }
  reconcile($("problems"), shown, (each) => each.key, makeProblem, updateProblem);
}

function renderTiles() {
  const { active, limit } = status.connections;
  const backends = status.pools.flatMap((pool) => pool.backends);
  const up = backends.filter((backend) => backend.state === "up").length;
  const checks = memory.checks(status);
  const peak = (key, format) => {
    const values = (memory.series.get(key)?.values ?? []).filter((value) => !Number.isNaN(value));
    const most = Math.max(0, ...values);
    return most ? `peak ${format(most)}` : "";
  };
  const others = Object.keys(SHAPES).filter((state) => state !== "up")
    .map((state) => [state, backends.filter((backend) => backend.state === state).length])
    .filter(([, count]) => count).map(([state, count]) => `${whole.format(count)} ${state}`);
  const tiles = [
    ["Backends up", `${whole.format(up)} / ${whole.format(backends.length)}`, others.join(", ")],
    ["Connections", number(active), `of at most ${number(limit)}`, "active", 1],
    ["New connections/s", number(memory.rate("new")), peak("new", number), "new", 1],
    ["Received/s", bytes(memory.rate("received")), peak("received", bytes), "received", 1024],
    ["Sent/s", bytes(memory.rate("sent")), peak("sent", bytes), "sent", 1024],
    ["Failed checks, last minute", number(checks.failed), `of ${number(checks.all)}`, "failed", 1],
  ];
  reconcile($("totals"), tiles, ([name]) => name, makeTile, updateTile);
  const levels = ["good", "note", "warn", "bad"];
  const count = (level) => backends.filter(({ state }) => SHAPES[state]?.[0] === level).length;
  reconcile(shares, levels, (level) => level,
    (level) => ({ node: el("i", { className: level }) }),
    ({ node }, level) => { node.style.flexGrow = count(level); });
  const first = $("totals").firstChild;
  if (!first.contains(shares)) first.append(shares);
}

function renderPools(words, fits) {
  let count = 0;
  const all = [];
  for (const pool of status.pools) {
    const backends = pool.backends.filter((backend) => fits("pool", pool.name, backend.address,
      backend.state, backend.reason, backend.backup ? "backup" : "", backend.agent ?? ""));
    count += backends.length;
    if (backends.length || fits("pool", pool.name)) all.push({ pool, backends });
  }
  const total = status.pools.reduce((sum, pool) => sum + pool.backends.length, 0);
  set($("matches"), words.length ? `${whole.format(count)} of ${whole.format(total)}` : "");
  const rank = ({ pool, backends }) => (pool.available
    ? 1 + Math.min(4, ...backends.map(urgency)) : 0);
  const sorted = inOrder($("pools"), all, ({ pool }) => pool.name, rank);
  const shown = morePools ? sorted : sorted.slice(0, MOST_POOLS);
  const usual = Math.max(6, Math.min(60, Math.floor(USUAL_ROWS / Math.max(1, shown.length))));
  reconcile($("pools"), shown.map((each) => ({ ...each, usual })), ({ pool }) => pool.name,
    makePool, updatePool);
  const rest = sorted.length - shown.length;
  show($("more-pools"), rest > 0);
  set($("more-pools"), `Show ${plural(rest, "more pool")}`);
}

function find({ pool: name, address }) {
  const pool = status.pools.find((each) => each.name === name);
  const backend = pool?.backends.find((each) => each.address === address);
  return backend ? { pool, backend } : null;
}

// Whether the pool has nobody else to serve.
function isLast({ pool, backend }) {
  return serves(backend) && isWanted(backend)
    && !pool.backends.some((each) => each !== backend && serves(each) && isWanted(each));
}

function quick(row) {
  const found = find(row);
  if (!found) return;
  if (row.does === "draining" && isLast(found)) openDetails(row, "draining");
  else change(row, { state: row.does });
}

async function change(target, wishes) {
  const name = `${target.pool}/${target.address}`;
  const path = `api/v1/pools/${encodeURIComponent(target.pool)}/backends/`
    + encodeURIComponent(target.address);
  try {
    const response = await ask(path, { method: "PATCH", body: JSON.stringify(wishes),
      headers: { "Content-Type": "application/json" } });
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error);
    toast(`${name} is ${answer.state}, weight ${answer.weight}, `
      + `${plural(answer.active, "connection")}`);
    poll();
    return true;
  } catch (error) {
    toast(`${name} was not changed: ${error.message}`, true);
    return false;
  }
}

function openDetails(target, wanted = null) {
  const found = find(target);
  if (!found) return;
  details = { pool: target.pool, address: target.address, weight: found.backend.weight };
  details.state = isWanted(found.backend) ? "ready" : found.backend.state;
  set($("details-title"), backendKey(found.pool, found.backend));
  $("details-form").elements.state.value = wanted ?? details.state;
  $("weight").value = details.weight;
  updateDetails();
  $("details").showModal();
  // Who was asked before the last one goes is to say so.
  (wanted ? $("close") : document.querySelector("#details :checked")).focus();
}

function updateDetails() {
  const found = find(details);
  if (!found) {
    $("details").close();
    return;
  }
  const { pool, backend } = found;
  const limit = backend.limit === null ? "no limit" : `at most ${whole.format(backend.limit)}`;
  const facts = [["State", `${backend.state} for ${duration(backend.state_seconds)}`],
    ["Reason", backend.reason || "–"],
    ["Weight", `${backend.weight}, ${backend.weight_percent} % of it counts`],
    ["Connections", `${whole.format(backend.active)} now (${limit}), `
      + `${whole.format(backend.total)} ever`],
    ["Failed connects", whole.format(backend.connect_failures)],
    ["Up or down", `turned ${plural(backend.health_transitions, "time")}, `
      + `${plural(backend.flaps, "flap")} lately`]];
  const waits = Object.entries(backend.waits_ms ?? {}).filter(([, spent]) => spent >= 1000)
    .sort((a, b) => b[1] - a[1])
    .map(([who, spent]) => `${who.replace("_", " ")} ${duration(Math.floor(spent / 1000))}`);
  if (waits.length) facts.push(["Waited for", waits.join(", ")]);
  if (backend.backup) facts.push(["Backup", "serves only while no other can"]);
  if (backend.agent !== null) facts.push(["Agent", backend.agent]);
  reconcile($("facts"), facts.flatMap(([name, text]) => [[`${name}:`, name], [name, text]]),
    ([key]) => key, ([key]) => ({ node: el(key.endsWith(":") ? "dt" : "dd") }),
    ({ node }, [, text]) => set(node, text));
  const { results, milliseconds, seconds_ago: ago } = backend.probes;
  const probes = [...results].map((result, at) => [at, result, milliseconds[at], ago[at]]);
  reconcile(tables.probes.body, probes.reverse(), ([at]) => at, () => {
    const cells = [cell("", "wide"), cell("Took", "number"), cell("", "number")];
    return { node: el("tr", { role: "row" }, ...cells), cells };
  }, ({ cells }, [, result, took, seconds]) => {
    set(cells[0], result === "+" ? "passed" : "failed");
    put(cells[0], "class", result === "+" ? "good" : "bad");
    set(cells[1], `${whole.format(took)} ms`);
    set(cells[2], `${duration(seconds)} ago`);
  });
  warn(found);
}

function warn(found) {
  const form = $("details-form").elements;
  const away = form.state.value !== "ready" || form.weight.value === "0";
  const risky = away && isLast(found);
  show($("warning"), risky);
  set($("warning"), risky ? `Nobody else in pool ${found.pool.name} can serve: its clients would `
    + "be closed or held." : "");
}

const shares = el("div", { className: "shares", "aria-hidden": "true" });
const tables = { listeners: table("Listeners", LISTENER_COLUMNS),
  ended: table("Why connections ended", ENDED_COLUMNS),
  probes: table("Last probes, the newest first", [["Result", ""], ["Took", "number"],
    ["When", "number"]]) };
$("listeners").append(tables.listeners.node);
$("ended").append(tables.ended.node);
$("probes").append(tables.probes.node);
set($("place"), location.host);

$("search").addEventListener("submit", (event) => event.preventDefault());
$("filter").addEventListener("input", render);
$("more-pools").addEventListener("click", () => { morePools = true; render(); });
$("more-events").addEventListener("click", () => { allEvents = true; render(); });
$("toast-close").addEventListener("click", () => show($("toast"), false));
$("close").addEventListener("click", () => $("details").close());
$("details").addEventListener("close", () => { details = null; });
$("details-form").addEventListener("input", () => {
  const found = find(details);
  if (found) warn(found);
});
$("details-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = $("details-form").elements;
  const wishes = {};
  if (form.state.value !== details.state) wishes.state = form.state.value;
  if (Number(form.weight.value) !== details.weight) wishes.weight = Number(form.weight.value);
  if (!Object.keys(wishes).length || await change(details, wishes)) $("details").close();
});
$("login-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keep($("token").value.trim());
  show($("login"), false);
  poll();
});
$("forget").addEventListener("click", () => { keep(null); poll(); });
document.addEventListener("visibilitychange", () => {
  awake = Date.now();
  if (document.hidden) clearTimeout(timer);
  else poll();
});
setInterval(freshen, 1000);
poll();
