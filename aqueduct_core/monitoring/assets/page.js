// Asks for the status every two seconds and shows it. One answer is shown as a whole or not at all.

import { Chart } from "./chart.js";
import { bytes, foreign, make, number, seconds, short, table } from "./text.js";

const PERIOD = 2000;
const LATE = 10000;
const $ = (id) => document.getElementById(id);

const charts = {
  messages: new Chart("Messages a second", short),
  bytes: new Chart("Payload a second", bytes, 1024),
  lag: new Chart("Messages not committed", short),
  stored: new Chart("Spool on disk", bytes, 1024),
};
$("charts").append(...Object.values(charts).map((each) => each.element));

let failures = 0;
let answered = null;
let timer = null;
let asking = null;

function question() {
  return new URLSearchParams({ search: $("search").value, order: $("order").value, most: $("most").value });
}

async function ask() {
  clearTimeout(timer);
  asking?.abort();
  asking = new AbortController();
  const mine = asking;
  const limit = setTimeout(() => mine.abort(), LATE);
  try {
    const answer = await fetch(`/status.json?${question()}`, { signal: mine.signal, credentials: "same-origin" });
    if (answer.status === 401) { location.assign("/login"); return; }
    if (!answer.ok) throw new Error(`it answers ${answer.status}`);
    const data = await answer.json();
    failures = 0;
    answered = Date.now();
    show(data);
  } catch (error) {
    if (mine !== asking) return;  // the question was changed meanwhile
    failures += 1;
    lost(error.name === "AbortError" ? "it did not answer in time" : error.name === "TypeError" ? "nobody is there" : error.message);
  } finally {
    clearTimeout(limit);
    if (mine === asking) timer = setTimeout(tick, failures ? Math.min(LATE, PERIOD * failures) : PERIOD);
  }
}

function tick() {
  if (document.hidden) return;  // nobody looks: nothing is asked
  ask();
}

function say(kind, mark, text) {
  $("mark").className = `mark ${kind}`;
  $("mark").textContent = mark;
  if ($("said").textContent !== text) $("said").textContent = text;
}

function lost(why) {
  document.body.classList.add("stale");
  const since = answered === null ? "" : ` What is shown is of ${new Date(answered).toLocaleTimeString([], { hour12: false })}.`;
  say("bad", "✕", "Not connected");
  $("alarms").replaceChildren(make("p", { class: "alarm", role: "alert" }, `No answer comes: ${why}.${since} It goes on trying.`));
}

const sum = (all, of) => all.reduce((total, each) => total + (of(each) ?? 0), 0);

function quantile(found, part) {
  let left = part * sum(found.counts, (each) => each);
  if (!left) return null;
  for (let at = 0; at < found.bounds.length; at += 1) {
    left -= found.counts[at];
    if (left <= 0) return found.bounds[at];
  }
  return Infinity;
}

function together(distributions) {
  const [first] = distributions;
  if (first === undefined) return { bounds: [], counts: [0] };
  return { bounds: first.bounds, counts: first.counts.map((_, at) => sum(distributions, (each) => each.counts[at])) };
}

function tile(title, value, note, extra) {
  return make("div", { class: "tile" }, make("dt", {}, title), make("dd", {}, value), make("dd", {}, note ?? "", ...(extra ? [extra] : [])));
}

function show(data) {
  document.body.classList.remove("stale");
  const intakes = data.intakes;
  const there = intakes.filter((each) => each.status !== null).map((each) => each.status);
  const acting = there.filter((each) => each.activity);
  const gone = intakes.length - there.length;
  $("leave").hidden = !data.closes;
  const names = [...new Set(there.map((each) => each.name || each.listen || each.flight))];
  $("name").textContent = foreign(intakes.length > 1 ? `${intakes.length} intakes` : names.join(", "));
  document.title = `${short(sum(acting, rate))}/s – Aqueduct ${foreign(names[0] ?? "")}`;
  if (gone === 0) say("ok", "●", "Live");
  else say(there.length ? "wait" : "bad", there.length ? "◐" : "✕", there.length ? `${gone} of ${intakes.length} intakes ${gone === 1 ? "does" : "do"} not answer` : "No intake answers");
  showAlarms(intakes);
  showTiles(there, acting);
  showCharts(acting, data.at);
  showIntakes(intakes);
  showQueries(there);
  showChannels(acting, intakes.length > 1);
  showPeers(acting, intakes.length > 1);
  showCounts(there, acting);
  $("foot").textContent = there.map((each) => `${foreign(each.name || "intake")}: release ${each.release}, protocol ${each.protocol}, process ${each.pid}, opening ${each.epoch} of spool ${each.id}`).join(" · ");
}

function rate(status) {
  const samples = status.activity.history;
  if (samples.length < 2) return status.rates.rows;
  const [before, last] = [samples[Math.max(0, samples.length - 4)], samples[samples.length - 1]];
  return Math.max(0, last.messages - before.messages) / Math.max(1, last.at - before.at);
}

function byteRate(status) {
  const samples = status.activity.history;
  if (samples.length < 2) return status.rates.bytes;
  const [before, last] = [samples[Math.max(0, samples.length - 4)], samples[samples.length - 1]];
  return Math.max(0, last.bytes - before.bytes) / Math.max(1, last.at - before.at);
}

/** States in which an intake waits and nothing is wrong. */
const CALM = new Set(["no-producer", "few-rows"]);

function showAlarms(intakes) {
  const alarms = [];
  for (const { place, error, status } of intakes) {
    const who = intakes.length > 1 ? `${foreign(status?.name || place)}: ` : "";
    if (error) alarms.push(`${who}${foreign(error)}`);
    const stalls = (status?.stalls ?? []).filter((each) => !CALM.has(each.kind));
    for (const each of stalls) alarms.push(`${who}${foreign(each.what)} (for ${seconds(each.seconds)}). ${foreign(each.remedy)}.`);
    if (status?.full && stalls.length === 0) alarms.push(`${who}the spool is full. Producers wait until a query commits, or spoolMaxBytes is raised.`);
    if (status?.draining) alarms.push(`${who}the intake is ending.`);
    for (const each of status?.subscriptions?.endpoints ?? []) {
      if (!each.connected && !status.complete && stalls.length === 0) alarms.push(`${who}endpoint ${foreign(each.address)} is not connected${each.error ? `: ${foreign(each.error.what ?? "")}` : ""}`);
    }
  }
  for (const each of cursors(intakes.flatMap(({ status }) => status ?? []))) {
    if (each.records > 0 && !each.held) alarms.push(`No query reads cursor ${foreign(each.cursor)}: ${number(each.records)} ${each.view} wait, the oldest for ${seconds(each.seconds)}.`);
  }
  const shown = alarms.map((each) => make("p", { class: "alarm" }, each));
  const before = [...$("alarms").children].map((each) => each.textContent).join("\n");
  if (before !== alarms.join("\n")) $("alarms").replaceChildren(...shown);
}

function showTiles(there, acting) {
  const lags = cursors(there).filter((each) => each.view === "messages");
  const behind = Math.max(0, ...lags.map((each) => each.records));
  const kept = sum(acting, (each) => each.activity.history.at(-1)?.lag);
  const oldest = Math.max(0, ...there.flatMap((each) => each.oldest ?? []));
  const used = sum(there, (each) => each.bytes);
  const limit = sum(there, (each) => each.use?.limit);
  const acks = together(acting.map((each) => each.activity.ackSeconds));
  const syncs = together(acting.map((each) => each.activity.syncSeconds));
  const meter = make("meter", { min: "0", max: String(limit || 1), value: String(used), high: String((limit || 1) * 0.8), "aria-label": "Spool in use" });
  const count = (name) => sum(there, (each) => each.counters[name]);
  const upTo = (value) => (value === null ? "–" : value === Infinity ? `> ${seconds(acks.bounds[acks.bounds.length - 1])}` : `≤ ${seconds(value)}`);
  $("tiles").replaceChildren(
    tile("Messages a second", short(sum(acting, rate)), `${short(sum(acting, (each) => each.activity.reliable + each.activity.unreliable))} since the start`),
    tile("Payload a second", bytes(sum(acting, byteRate)), `${bytes(sum(acting, (each) => each.activity.reliableBytes + each.activity.unreliableBytes))} since the start`),
    lags.length === 0
      ? tile("Not read", short(kept), kept > 0 ? `messages: no query yet; the oldest ${seconds(oldest)}` : "messages: no query yet")
      : tile("Behind", short(behind), oldest > 0 ? `messages; the oldest ${seconds(oldest)}` : "messages: all is committed"),
    tile("Spool", bytes(used), limit ? `of ${bytes(limit)}` : "", limit ? meter : null),
    tile("Acked within", upTo(quantile(acks, 0.95)), `95 % of groups; disk ${upTo(quantile(syncs, 0.95))}`),
    tile("Connections", number(sum(there, (each) => each.connections)), `${number(sum(there, (each) => each.channels))} open channels`),
    tile("Repeated", short(count("deduped")), "sent again, stored once"),
    tile("Lost on the way", short(count("nacked") + count("unreliable_dropped")), "unreliable messages, nacked"),
  );
}

const SPACING = 2;
const STOPPED = 10;

/**
 * Of all intakes together, at moments two seconds apart, at each of which every intake counts once, though their
 * samples are of other moments. It ends where the first of them ends, but for one that has stopped.
 */
function history(acting) {
  const histories = acting.map((each) => each.activity.history).filter((each) => each.length > 1);
  const ends = histories.map((each) => each[each.length - 1].at);
  const until = Math.max(Math.min(...ends), Math.max(...ends) - STOPPED);
  const sums = new Map();
  for (const samples of histories) {
    samples.slice(1).forEach((sample, at) => {
      const before = samples[at];
      const passed = Math.max(0.5, sample.at - before.at);
      for (let slot = Math.floor(before.at / SPACING) + 1; slot <= Math.floor(sample.at / SPACING); slot += 1) {
        const into = sums.get(slot) ?? { at: slot * SPACING, messages: 0, bytes: 0, lag: 0, stored: 0 };
        into.messages += Math.max(0, sample.messages - before.messages) / passed;
        into.bytes += Math.max(0, sample.bytes - before.bytes) / passed;
        into.lag += sample.lag;
        into.stored += sample.stored;
        sums.set(slot, into);
      }
    });
  }
  return [...sums.values()].filter((each) => each.at <= until).sort((a, b) => a.at - b.at);
}

function showCharts(acting, now) {
  const points = history(acting).filter((each) => now - each.at <= 600);
  for (const [name, chart] of Object.entries(charts)) {
    chart.show(points.map((each) => ({ at: each.at, value: each[name] })), now);
  }
}

function put(id, made) {
  const place = $(id);
  const focused = document.activeElement;
  const order = place.contains(focused) ? focused.dataset?.order : undefined;
  const region = place.contains(focused) && focused.getAttribute("role") === "region";
  const left = place.querySelector(".scroll")?.scrollLeft ?? 0;
  place.replaceChildren(made);
  made.scrollLeft = left;
  if (order !== undefined) place.querySelector(`[data-order="${order}"]`)?.focus({ preventScroll: true });
  if (region) made.focus({ preventScroll: true });
}

function showIntakes(intakes) {
  $("intakes-section").hidden = intakes.length < 2;
  if (intakes.length < 2) return;
  const lags = (each) => (each.status?.lag ?? []).filter((one) => one.view === "messages").map((one) => one.records);
  put("intakes", table("Intakes of this query", [
    { title: "Intake", of: (each) => foreign(each.status?.name || each.place) },
    { title: "State", of: (each) => (each.status === null ? "✕ no answer" : each.status.full ? "▲ full" : each.status.draining ? "◐ ending" : "● running") },
    { title: "Messages/s", number: true, of: (each) => (each.status?.activity ? short(rate(each.status)) : "–") },
    { title: "Behind", number: true, of: (each) => (lags(each).length ? number(Math.max(...lags(each))) : "–") },
    { title: "Spool", number: true, of: (each) => (each.status ? bytes(each.status.bytes) : "–") },
    { title: "Connections", number: true, of: (each) => (each.status ? number(each.status.connections) : "–") },
    { title: "Channels", number: true, of: (each) => (each.status ? number(each.status.channels) : "–") },
    { title: "Listens on", of: (each) => (each.status === null ? "–" : foreign(each.status.listen || "dials")) },
  ], intakes));
}

/** A query has a cursor of one name on each of its intakes: it is behind by what they have together. */
function cursors(there) {
  const all = new Map();
  for (const status of there) {
    for (const each of status.lag ?? []) {
      const key = `${each.view} ${each.cursor}`;
      const into = all.get(key) ?? { ...each, records: 0, bytes: 0, seconds: 0, held: true, intakes: 0, owner: status.owners?.[each.cursor] };
      into.records += each.records;
      into.bytes += each.bytes;
      into.seconds = Math.max(into.seconds, each.seconds);
      into.held &&= each.held;
      into.intakes += 1;
      all.set(key, into);
    }
  }
  return [...all.values()].sort((a, b) => b.records - a.records);
}

function showQueries(there) {
  put("queries", table("Cursors of queries, and how far they are behind", [
    { title: "Cursor", of: (each) => foreign(each.cursor) },
    { title: "State", of: (each) => (each.held ? "● reads" : "○ nobody reads"), kind: (each) => (each.held ? "ok" : "wait") },
    { title: "Reads", of: (each) => each.view },
    { title: "Behind", number: true, of: (each) => number(each.records) },
    { title: "Bytes, about", number: true, of: (each) => bytes(each.bytes) },
    { title: "Oldest", number: true, of: (each) => (each.records ? seconds(each.seconds) : "–") },
    { title: "Intakes", number: true, of: (each) => number(each.intakes) },
    { title: "Runs on", text: true, of: (each) => foreign(each.owner?.where ?? "–") },
  ], cursors(there), { none: "No query has read from here yet: everything is kept until one has." }));
}

const STATES = { open: "● open", finished: "✓ finished" };

const MOST_FIRST = {
  rate: (each) => each.rate,
  messages: (each) => each.messages,
  bytes: (each) => each.bytes,
  repeated: (each) => each.repeated,
  nacked: (each) => each.nacked,
  quiet: (each) => (each.state === undefined || each.state === "open" ? each.quiet : -1),
};

/** Of several intakes, each in order already: one list in that order, in which each names its intake. */
function merged(acting, of, order) {
  const all = acting.flatMap((each) => of(each).map((one) => ({ ...one, intake: each.name || each.listen || each.flight })));
  const value = MOST_FIRST[order];
  if (acting.length > 1 && value) all.sort((a, b) => value(b) - value(a));
  if (acting.length > 1 && order === "name") all.sort((a, b) => (a.name < b.name ? -1 : 1));
  return all;
}

/** Which of several intakes it is at. */
const AT = { title: "Intake", text: true, of: (each) => foreign(each.intake) };

function showChannels(acting, several) {
  const order = $("order").value;
  const all = merged(acting, (each) => each.activity.channels, order).slice(0, Number($("most").value));
  const found = sum(acting, (each) => each.activity.channelsFound);
  const unfollowed = sum(acting, (each) => each.activity.unfollowed);
  $("channels-count").textContent = `${number(all.length)} of ${number(found)}${$("search").value ? " that match" : ""}${unfollowed ? `; ${number(unfollowed)} more were counted only` : ""}`;
  put("channel-table", table("Channels", [
    { title: "Channel", order: "name", of: (each) => foreign(each.name), kind: (each) => (order === "tree" ? `deep-${Math.min(5, each.depth)}` : "") },
    { title: "Messages/s", number: true, order: "rate", of: (each) => short(each.rate < 0.005 ? 0 : each.rate) },
    { title: "Messages", number: true, order: "messages", of: (each) => number(each.messages) },
    { title: "Bytes", number: true, order: "bytes", of: (each) => bytes(each.bytes) },
    { title: "Quiet for", number: true, order: "quiet", of: (each) => seconds(each.quiet) },
    { title: "Repeated", number: true, order: "repeated", of: (each) => number(each.repeated) },
    { title: "Lost", number: true, order: "nacked", of: (each) => number(each.nacked) },
    { title: "State", of: (each) => (STATES[each.state] ?? `✕ ${foreign(each.state)}`) + (each.reason ? `: ${foreign(each.reason)}` : ""), text: true, kind: (each) => (each.state === "open" ? "ok" : each.state === "finished" ? "" : "wait") },
    { title: "Producer", text: true, of: (each) => foreign(each.producer || "–") },
    { title: "Connection", text: true, of: (each) => foreign(each.connection) },
    ...(several ? [AT] : []),
  ], all, { ordered: order, reorder: (wanted) => { $("order").value = wanted; ask(); }, none: $("search").value ? "No channel matches." : "No channel was opened yet." }));
}

const PEERS_FIRST = { messages: "most messages", bytes: "most bytes", quiet: "quiet for longest", repeated: "most repeated" };

function showPeers(acting, several) {
  const order = $("order").value in PEERS_FIRST ? $("order").value : "rate";
  const all = merged(acting, (each) => each.activity.peers, order);
  $("peers-count").textContent = `${number(all.length)} of ${number(sum(acting, (each) => each.activity.peersFound))}, ${PEERS_FIRST[order] ?? "busiest"} first`;
  put("peer-table", table("Connections", [
    { title: "Address", of: (each) => foreign(each.address) },
    { title: "Producer", text: true, of: (each) => foreign(each.producer || "–") },
    { title: "Messages/s", number: true, of: (each) => short(each.rate < 0.005 ? 0 : each.rate) },
    { title: "Messages", number: true, of: (each) => number(each.messages) },
    { title: "Bytes", number: true, of: (each) => bytes(each.bytes) },
    { title: "Repeated", number: true, of: (each) => number(each.repeated) },
    { title: "Channels", number: true, of: (each) => number(each.channels) },
    { title: "Held back", number: true, of: (each) => bytes(each.waiting) },
    { title: "Quiet for", number: true, of: (each) => seconds(each.quiet) },
    { title: "Connected for", number: true, of: (each) => seconds(each.age) },
    ...(several ? [AT] : []),
  ], all, { none: "Nobody is connected." }));
}

const COUNTED = [
  ["accepted", "connections let in"],
  ["rejected", "connections refused for their headers (token)"],
  ["connections_refused", "connections refused at a limit"],
  ["connections_evicted", "connections closed for want of memory"],
  ["over_limits", "connections closed over a limit"],
  ["violations", "connections closed for a breach of the protocol"],
  ["fenced", "connections fenced by another run of their producer"],
  ["not_repeatable", "connections closed for other content under stored numbers"],
  ["datagrams_dropped", "UDP datagrams dropped for want of buffer or time"],
  ["unreliable_dropped", "unreliable messages dropped while the spool was full"],
  ["withdrawn", "messages withdrawn with their channel"],
];

function showCounts(there, acting) {
  const ends = new Map();
  for (const each of acting) for (const [how, count] of Object.entries(each.activity.ends)) ends.set(how, (ends.get(how) ?? 0) + count);
  const rows = [
    ["channels opened", sum(acting, (each) => each.activity.opened)],
    ...[...ends].sort().map(([how, count]) => [`channels ${foreign(how)}`, count]),
    ...COUNTED.map(([name, text]) => [text, sum(there, (each) => each.counters[name])]),
  ];
  const loud = rows.filter(([, count]) => count > 0);
  put("counts", table("Counted since the start", [
    { title: "What", of: ([text]) => text },
    { title: "How often", number: true, of: ([, count]) => number(count) },
  ], loud, { none: "Nothing happened yet." }));
}

$("ask").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
for (const id of ["order", "most"]) $(id).addEventListener("change", ask);
let typed = null;
$("search").addEventListener("input", () => { clearTimeout(typed); typed = setTimeout(ask, 250); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) ask(); });
ask();
