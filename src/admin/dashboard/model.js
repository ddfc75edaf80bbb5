// What is made of the status before anything is shown: rates, memories of the last minutes, and
// what is wrong. Nothing here touches the page.
"use strict";

const POINTS = 120;
const MINUTE = 60_000;
const NORMAL_ENDS = new Set(["client closed", "backend closed"]);
const TURNED_AWAY = new Set(["no available backend", "no available backend in time",
  "no available backend, and too many clients held", "no backend could be connected",
  "no place at a backend in time", "every backend and the queue were full",
  "out of local ports or descriptors", "too many connections from this source"]);

const backendKey = (pool, backend) => `${pool.name}/${backend.address}`;
const isWanted = (backend) => backend.state !== "draining" && backend.state !== "maintenance";
const serves = (backend) => ["up", "checking", "ejected"].includes(backend.state)
  && backend.weight > 0;

// A value for each of the last POINTS seconds; NaN where nothing is known.
class Series {
  values = [];
  push(value) {
    this.values.push(value);
    if (this.values.length > POINTS) this.values.shift();
  }
  get last() {
    return this.values.length ? this.values[this.values.length - 1] : NaN;
  }
}

// What was learned from one status after the other.
class Memory {
  constructor() {
    this.series = new Map();
    this.last = null;
    this.marks = [];
  }

  take(status, now) {
    const last = this.last;
    const seconds = last ? (status.uptime_milliseconds - last.uptime_milliseconds) / 1000 : 0;
    const seen = new Set();
    const note = (key, value) => {
      seen.add(key);
      if (!this.series.has(key)) this.series.set(key, new Series());
      this.series.get(key).push(value);
    };
    // A long silence is a gap in the curves.
    if (seconds > 5) for (const series of this.series.values()) series.push(NaN);
    const rate = (key, before, value) => {
      const known = before !== undefined && seconds > 0;
      note(key, known ? Math.max(0, value - before) / seconds : NaN);
    };
    note("active", status.connections.active);
    rate("new", last?.connections.total, status.connections.total);
    rate("received", last?.bytes_received, status.bytes_received);
    rate("sent", last?.bytes_sent, status.bytes_sent);
    rate("failed", last?.health_checks.failed, status.health_checks.failed);
    const listeners = new Map(last?.listeners.map((each) => [each.name, each]));
    for (const listener of status.listeners) {
      const before = listeners.get(listener.name);
      rate(`new ${listener.name}`, before?.total, listener.total);
      rate(`received ${listener.name}`, before?.bytes_received, listener.bytes_received);
      rate(`sent ${listener.name}`, before?.bytes_sent, listener.bytes_sent);
    }
    const backends = new Map();
    for (const pool of last?.pools ?? []) {
      for (const backend of pool.backends) backends.set(backendKey(pool, backend), backend);
    }
    for (const pool of status.pools) {
      for (const backend of pool.backends) {
        const key = backendKey(pool, backend);
        rate(`backend ${key}`, backends.get(key)?.total, backend.total);
      }
    }
    for (const key of this.series.keys()) if (!seen.has(key)) this.series.delete(key);
    this.mark(status, now);
    this.last = status;
  }

  // Counters are remembered every five seconds, for what happened within the last minute.
  mark(status, now) {
    const newest = this.marks[this.marks.length - 1];
    if (newest && now - newest.at < 5000) return;
    const failures = new Map();
    for (const pool of status.pools) {
      for (const backend of pool.backends) {
        if (backend.connect_failures) {
          failures.set(backendKey(pool, backend), backend.connect_failures);
        }
      }
    }
    const { ended } = status.connections;
    const { health_checks: checks, accept_paused_seconds: paused } = status;
    this.marks.push({ at: now, ended, paused, failures, checks });
    while (this.marks.length > 1 && now - this.marks[0].at > MINUTE) this.marks.shift();
  }

  rate(key) {
    return this.series.get(key)?.last ?? NaN;
  }

  ended(reason, count) {
    return count - (this.marks[0]?.ended[reason] ?? 0);
  }

  paused(status) {
    return status.accept_paused_seconds - (this.marks[0]?.paused ?? 0);
  }

  checks({ health_checks: { passed, failed } }) {
    const before = this.marks[0]?.checks ?? { passed: 0, failed: 0 };
    return { failed: failed - before.failed,
      all: passed + failed - before.passed - before.failed };
  }

  failures(key, count) {
    return count - (this.marks[0]?.failures.get(key) ?? 0);
  }
}

// How many of the last probes failed in a row.
function failedLately(backend) {
  const results = backend.probes?.results ?? "";
  return results.length - results.lastIndexOf("+") - 1;
}

// 0 stands first: what an operator who was called looks for.
function urgency(backend) {
  switch (backend.state) {
    case "down": case "ejected": case "unresolved": return 0;
    case "up": return failedLately(backend) || isFull(backend) ? 1 : 4;
    case "checking": return 2;
    default: return 3;
  }
}

const isFull = (backend) => backend.limit !== null && backend.active >= backend.limit;

function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

// Everything that is out of order, the worst first: `{ level, key, text, who }`. `who` is a list of
// backends, each `{ pool, backend, why }`; the key stays the same while the matter does.
function problems(status, memory) {
  const found = [];
  const add = (level, key, text, who = []) => found.push({ level, key, text, who });
  if (status.state === "draining") {
    const left = plural(status.connections.active, "connection");
    add("bad", "draining", `evenkeel is shutting down: it takes no new clients, ${left} left`);
  }
  for (const pool of status.pools) poolProblems(pool, memory, add);
  for (const listener of status.listeners) {
    if (!listener.addresses.length && status.state === "running") {
      add("bad", `closed ${listener.name}`, `Listener ${listener.name} does not listen any more`);
    }
    crowding(`Listener ${listener.name}`, listener, add);
  }
  crowding("evenkeel", status.connections, add);
  if (memory.paused(status) > 0) {
    add("bad", "paused", "Accepting paused within the last minute for want of descriptors or "
      + "memory (raise ulimit -n, or lower max_connections)");
  }
  for (const [reason, count] of Object.entries(status.connections.ended)) {
    const lately = TURNED_AWAY.has(reason) ? memory.ended(reason, count) : 0;
    if (lately > 0) {
      add("warn", `ended ${reason}`,
        `${plural(lately, "client")} not served within the last minute: ${reason}`);
    }
  }
  const order = ["bad", "warn", "note"];
  return found.sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
}

function poolProblems(pool, memory, add) {
  const of = (is, why) => pool.backends.filter(is)
    .map((backend) => ({ pool, backend, why: why(backend) }));
  const all = pool.backends.length;
  const reason = (backend) => backend.reason;
  if (!pool.available) {
    const fate = pool.waiting ? `${plural(pool.waiting, "client")} held` : "clients are not served";
    add("bad", `none ${pool.name}`, `Pool ${pool.name} has no available backend: ${fate}`);
  } else if (pool.waiting) {
    add("warn", `waiting ${pool.name}`,
      `${plural(pool.waiting, "client waits", "clients wait")} in pool ${pool.name}`);
  }
  for (const state of ["down", "ejected", "unresolved"]) {
    const who = of((backend) => backend.state === state, reason);
    if (who.length) {
      add("warn", `${state} ${pool.name}`,
        `Pool ${pool.name}: ${who.length} of ${plural(all, "backend")} ${state}:`, who);
    }
  }
  const primaries = pool.backends.filter((backend) => !backend.backup);
  if (pool.available && primaries.length && !primaries.some(serves)) {
    add("warn", `backups ${pool.name}`, `Pool ${pool.name} lives on its backups`);
  }
  const full = of((backend) => backend.state === "up" && isFull(backend),
    (backend) => `${backend.active} of ${backend.limit}`);
  if (full.length) add("warn", `full ${pool.name}`, `Pool ${pool.name}: full:`, full);
  const refused = of((backend) => isWanted(backend)
      && memory.failures(backendKey(pool, backend), backend.connect_failures) > 0,
    (backend) => `${memory.failures(backendKey(pool, backend), backend.connect_failures)} times`);
  if (refused.length) {
    add("warn", `connects ${pool.name}`,
      `Pool ${pool.name}: connects failed within the last minute:`, refused);
  }
  const shaky = of((backend) => backend.state === "up"
      && (failedLately(backend) > 0 || backend.flaps > 0),
    (backend) => (failedLately(backend)
      ? `${plural(failedLately(backend), "failed check")} in a row` : "it flaps"));
  if (shaky.length) add("note", `shaky ${pool.name}`, `Pool ${pool.name}: up, but unsteady:`, shaky);
  for (const state of ["draining", "maintenance"]) {
    const who = of((backend) => backend.state === state, (backend) =>
      (backend.active ? `${plural(backend.active, "connection")} left` : "no connection left"));
    const word = state === "draining" ? "draining" : "in maintenance";
    if (who.length) add("note", `${state} ${pool.name}`, `Pool ${pool.name}: ${word}:`, who);
  }
  const idle = of((backend) => backend.state === "up" && backend.weight === 0, () => "");
  if (idle.length) {
    add("note", `weight ${pool.name}`, `Pool ${pool.name}: no new clients, for weight 0:`, idle);
  }
}

function crowding(name, { active, limit }, add) {
  if (limit !== null && active >= limit * 0.9) {
    add(active >= limit ? "bad" : "warn", `limit ${name}`,
      `${name} has ${active} of at most ${plural(limit, "connection")}`);
  }
}

// Short forms, for people.
const whole = new Intl.NumberFormat("en");

function number(value) {
  if (Number.isNaN(value)) return "–";
  if (value < 10 && !Number.isInteger(value)) return value.toFixed(1);
  if (value < 100_000) return whole.format(Math.round(value));
  return scaled(value, 1000, ["", " k", " M", " G", " T"]);
}

function bytes(value) {
  if (Number.isNaN(value)) return "–";
  return scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"]);
}

function scaled(value, step, units) {
  let unit = 0;
  while (value >= step && unit + 1 < units.length) {
    value /= step;
    unit += 1;
  }
  return (unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)) + units[unit];
}

function duration(seconds) {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) {
    return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
  }
  return `${Math.floor(seconds / 86_400)} d ${Math.floor(seconds / 3600) % 24} h`;
}

const ofLimit = ({ active, limit }) => (limit === null ? whole.format(active)
  : `${whole.format(active)} / ${whole.format(limit)}`);
const clock = (at) => new Date(at).toLocaleTimeString("en-GB");
