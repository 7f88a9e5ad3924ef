
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const app = document.getElementById("app");

  // ------------------------------------------------------------------ small helpers
  // Whatever models and tools wrote becomes a text node, and nothing else.
  const el = (tag, className, ...children) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    for (const child of children) {
      if (child !== null && child !== undefined) node.append(child);
    }
    return node;
  };
  const seconds = (s) => {
    const a = Math.abs(s);
    if (a < 0.00095) return `${+(s * 1000).toFixed(2)} ms`;
    if (a < 0.0095) return `${+(s * 1000).toFixed(1)} ms`;
    if (a < 0.9995) return `${Math.round(s * 1000)} ms`;
    if (a < 59.95) return `${+s.toFixed(a < 10 ? 2 : 1)} s`;
    const whole = Math.round(a);
    if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
    if (whole < 172800) return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
    return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
  };
  const tickWords = (s, step) => {
    if (s < 1 && step < 0.001) return `${(s * 1000).toFixed(Math.ceil(-Math.log10(step * 1000) - 1e-9))} ms`;
    const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step) - 1e-9)));
    if (s < 1 || (digits === 0 && s >= 60)) return seconds(s);
    if (s < 60) return `${s.toFixed(digits)} s`;
    const left = (s % 60).toFixed(digits);
    return `${Math.floor(s / 60)} min ${left.padStart(digits + 3, "0")} s`;
  };
  const date = (ms, digits) => (Math.abs(ms) < 8.64e15 ? `${new Date(ms).toISOString().slice(0, digits).replace("T", " ")} UTC` : "no known time");
  const money = (usd) => {
    if (!usd) return "$0.00";
    if (usd >= 1) return `$${usd.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
    return usd >= 0.0001 ? `$${usd.toFixed(4)}` : `$${usd.toPrecision(2)}`;
  };
  const many = (n, one, more) => `${n.toLocaleString("en-US")} ${n === 1 ? one : more || one + "s"}`;
  const short = (n) => {
    for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (n >= size * 0.9995) return `${(n / size).toFixed(n < 99.95 * size ? 1 : 0)}${letter}`;
    }
    return String(n);
  };
  const share = (usage) => (usage && usage[0] && usage[2] ? `${Math.round((100 * usage[2]) / usage[0])}%` : "");
  const short_tokens = (usage) => (usage ? `${short(usage[0])} + ${short(usage[1])}` : "");

  // ------------------------------------------------------------------ the axis
  // A little air at the end; a run that took no time has an axis of a millisecond.
  const length = Math.max(data.length * 1.012, 1e-3);
  let from = 0, span = length;
  // The scale counts time at work: what was waited for is hardly drawn, and not counted.
  const cuts = [];
  for (let at = 1; at + 1 < data.places.length - 1; at += 2) cuts.push([data.places[at], data.places[at + 1]]);
  const worked = (drawn) => cuts.reduce((sum, [[, d0], [, d1]]) => sum - Math.max(0, Math.min(drawn, d1) - d0), drawn);
  const atWork = (work) => cuts.reduce((drawn, [[, d0], [, d1]]) => (drawn > d0 ? drawn + d1 - d0 : drawn), work);
  const steps = [];
  for (let power = -6; power <= 0; power += 1) for (const base of [1, 2, 5]) steps.push(base * 10 ** power);
  steps.push(10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 604800);

  const rulerTrack = el("div", "track");
  const drawRuler = () => {
    const wide = rulerTrack.clientWidth || 600;
    const wanted = span / Math.max(2, wide / 110);
    const step = steps.find((one) => one >= wanted) || wanted;
    const nodes = [];
    for (let work = Math.ceil(worked(from) / step) * step; atWork(work) <= from + span + step * 1e-6; work += step) {
      const at = atWork(work);
      const words = work < step / 2 ? "0" : tickWords(work, step);
      const roomy = ((from + span - at) / span) * wide > 7 * words.length + 6;
      const tick = el("div", "tick", roomy ? words : "");
      tick.style.left = `${((at - from) / span) * 100}%`;
      nodes.push(tick);
    }
    for (const [[r0, d0], [r1, d1]] of cuts) {
      const cut = el("div", "cut");
      cut.title = `${seconds(r1 - r0)} of waiting left out`;
      cut.style.left = `${((d0 - from) / span) * 100}%`;
      cut.style.width = `${((d1 - d0) / span) * 100}%`;
      nodes.push(cut);
    }
    rulerTrack.replaceChildren(...nodes);
  };
  let asked = false;
  const view = (newFrom, newSpan) => {
    span = Math.min(length, Math.max(length / 1e5, 1e-6, newSpan));
    from = Math.min(length - span, Math.max(0, newFrom));
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      root.style.setProperty("--from", String(from));
      root.style.setProperty("--scale", String(1 / span));
      drawRuler();
      placeWords();
    });
  };
  const zoomTo = (inside) => {
    const a = Math.min(...inside.map((thing) => thing.a)), b = Math.max(...inside.map((thing) => thing.b));
    const wide = Math.max(b - a, length / 2000);
    view(a - wide * 0.05, wide * 1.4);
  };
  // Who scrolls to other turns while zoomed in finds their bars, and not an empty axis.
  const follow = () => {
    if (span > length * 0.98) return;
    const box = chart.getBoundingClientRect();
    const seen = [];
    for (const turn of turns) {
      const at = turn.box.getBoundingClientRect();
      if (at.bottom > box.top + 30 && at.top < box.bottom) {
        seen.push(...turn.inside.filter((thing) => thing.fits && thing.row.getBoundingClientRect().top >= box.top + 26));
      }
      else if (seen.length) break;
    }
    const inside = seen.filter((thing) => thing.b >= from && thing.a <= from + span);
    if (seen.length && inside.length < seen.length / 3) {
      const a = Math.min(...seen.map((thing) => thing.a)), b = Math.max(...seen.map((thing) => thing.b));
      view(a - (b - a) * 0.03, Math.max(span, (b - a) * 1.06));
    }
  };
  const zoom = (factor, where) => {
    const at = where === undefined ? from + span / 2 : where;
    view(at - (at - from) * factor, span * factor);
  };

  // ------------------------------------------------------------------ rows
  const things = []; // everything that can be picked, in the order it is drawn
  const turns = [];
  const kinds = new Map(), toolNames = new Map(), outcomes = new Map();
  const add = (map, key) => map.set(key, (map.get(key) || 0) + 1);

  const place = (node, a, b) => {
    node.style.setProperty("--a", String(a));
    node.style.setProperty("--b", String(b));
    return node;
  };
  const labelled = (turn, words) => el("div", "label", el("button", "no", turn), el("span", "what", words));
  const unended = { open: "no end on record", running: "running", waiting: "waits" };
  const outcomeWords = (o) => unended[o] || o.replaceAll("_", " ");

  const barRow = (bar, head) => {
    const failed = bar.o !== "ok" && !unended[bar.o];
    const still = unended[bar.o] ? (bar.o === "running" ? " running" : " open") : "";
    const button = place(el("button", `bar ${bar.k}${failed ? " failed" : ""}${still}`), bar.a, bar.b);
    button.type = "button";
    button.tabIndex = -1;
    const name = bar.k === "tool" ? bar.name : bar.purpose || "model";
    const words = unended[bar.o] ? [outcomeWords(bar.o)] : [seconds(bar.ms / 1000)];
    if (bar.o === "running") words.push(seconds(bar.ms / 1000));
    if (failed) words.push(outcomeWords(bar.o));
    if (bar.tries) words.push(bar.k === "tool" ? `try ${bar.tries}` : many(bar.tries, "attempt"));
    if (bar.via) words.push(`by ${bar.via}`);
    if (failed && bar.text) words.push(bar.text.slice(0, 160));
    else if (bar.k === "tool" && bar.args) words.push(bar.args.replace(/\s+/g, " ").slice(0, 120));
    button.setAttribute("aria-label", `${name}, ${words.slice(0, 2).join(", ")}`);
    const said = place(el("span", `said${failed ? " bad" : ""}`, words.join(" · ")), bar.a, bar.b);
    const side = el("div", "side", el("span", "", short_tokens(bar.usage)), el("span", "", share(bar.usage)), el("span", "", bar.usd ? money(bar.usd) : ""));
    const row = el("div", "row", labelled(head, name), el("div", "track", button, said), side);
    const kind = bar.k === "model" ? "model" : bar.k === "aside" ? "judges and asides" : "tools";
    add(kinds, kind);
    if (bar.k === "tool") add(toolNames, bar.name);
    const outcome = bar.o === "ok" ? "ok" : outcomeWords(bar.o);
    add(outcomes, outcome);
    const text = [name, bar.name, bar.args, bar.text, bar.thought, outcome, bar.call].filter(Boolean).join("\n").toLowerCase();
    return { node: button, row, said, kind, tool: bar.k === "tool" ? bar.name : null, outcome, text, a: bar.a, b: bar.b, bar, name };
  };
  const markRow = (mark, head) => {
    const tone = mark.tone === "plain" ? "plain-tone" : mark.tone;
    const button = place(el("button", `dot ${tone}`), mark.a, mark.a);
    button.type = "button";
    button.tabIndex = -1;
    button.setAttribute("aria-label", `${mark.k}: ${mark.text.slice(0, 200)}`);
    const said = place(el("span", `said ${tone}`, mark.text.slice(0, 300)), mark.a, mark.a);
    const row = el("div", "row", labelled(head, mark.k), el("div", "track", button, said), el("div", "side"));
    add(kinds, "decisions");
    const text = `${mark.k}\n${mark.text}\n${mark.detail || ""}`.toLowerCase();
    return { node: button, row, said, kind: "decisions", tool: null, outcome: null, text, a: mark.a, b: mark.a, mark, name: mark.k };
  };

  const statusOf = (run) => run.status || (run.live ? "running" : "unfinished");
  // How far the steps of a workflow are; a click shows the last call of a step.
  const drawSteps = (run) => {
    const list = el("div", "steps");
    for (const step of run.steps) {
      const chip = el("button", `step ${unended[step.o] ? step.o : step.o === "failed" ? "failed" : "done"}`, el("b", "", step.name), ` ${step.kind} · ${step.words}`);
      chip.type = "button";
      if (step.then.length) chip.title = `then ${step.then.join(", ")}`;
      chip.addEventListener("click", () => {
        const found = things.filter((thing) => thing.fits && thing.tool === step.name);
        if (found.length) pick(found[found.length - 1], true);
      });
      list.append(chip);
    }
    return list;
  };
  const drawRun = (run, into, nested, above = "") => {
    const place = `${above}/${run.id}`;
    const status = statusOf(run);
    const good = status === "done" || status === "idle";
    if (nested || data.runs.length > 1 || run.prompt) {
      const head = el("div", "run");
      if (nested || data.runs.length > 1) {
        head.append(el("b", "", `${nested ? "called" : `run ${run.n}`}: ${run.name || run.model || run.door} `), el("span", `status ${good ? "good" : "warn"}`, status + (run.why && !good ? ` (${run.why})` : "")));
      }
      if (run.prompt) head.append(el("span", "asked", run.prompt.slice(0, 600)));
      into.append(head);
    }
    if (run.steps.length) into.append(drawSteps(run));
    for (const turn of run.turns) {
      const box = el("section", "turn");
      box.setAttribute("aria-label", turn.n ? `turn ${turn.n}` : "outside any turn");
      const mixed = [...turn.bars.map((b) => [b.s, b.e, b, true]), ...turn.marks.map((m) => [m.s, m.e, m, false])];
      mixed.sort((x, y) => x[0] - y[0] || x[1] - y[1]);
      let head = turn.n ? (nested ? `${turn.n}` : `turn ${turn.n}`) : "";
      const inside = [];
      for (const [, , one, isBar] of mixed) {
        const thing = isBar ? barRow(one, head) : markRow(one, head);
        head = "";
        // A name that stays the same in later versions of the page, where entries are still to come.
        thing.key = `${place}/${isBar ? one.call || `${turn.n}.${one.k}.${inside.filter((other) => other.bar && other.bar.k === one.k).length}` : `mark ${one.e}`}`;
        thing.box = box;
        things.push(thing);
        inside.push(thing);
        thing.node.addEventListener("click", () => pick(thing));
        box.append(thing.row);
        if (isBar && one.child) {
          const child = el("div", "child");
          for (const sub of one.child) drawRun(sub, child, true, place);
          box.append(child);
          thing.child = child;
        }
      }
      if (!mixed.length) box.append(el("div", "row", labelled(head, ""), el("div", "track"), el("div", "side")));
      const words = turn.n ? (nested ? `${turn.n}` : `turn ${turn.n}`) : "";
      const numbers = inside.map((thing) => thing.row.querySelector(".no"));
      for (const number of numbers) {
        number.type = "button";
        number.tabIndex = -1;
        number.title = "zoom to this turn";
        number.addEventListener("click", () => zoomTo(inside));
      }
      turns.push({ box, inside, numbers, words });
      into.append(box);
    }
    if (!run.status && !run.live) into.append(el("div", "nothing", "No end on record: it is under way, or its process died."));
  };

  // ------------------------------------------------------------------ words beside bars, where there is room
  const placeWords = () => {
    for (const thing of things) {
      const left = (thing.a - from) / span, right = (thing.b - from) / span;
      thing.said.classList.toggle("left", 1 - right < 0.32 && left > 1 - right);
      thing.said.classList.toggle("hidden", right < -0.001 || left > 1.001);
    }
  };

  // ------------------------------------------------------------------ details
  const details = el("aside", "details hidden");
  details.setAttribute("aria-live", "polite");
  let picked = null;
  const facts = (pairs) => {
    const list = el("dl", "");
    for (const [name, value] of pairs) {
      if (value !== undefined && value !== null && value !== "" && value !== false) list.append(el("dt", "", name), el("dd", "", String(value)));
    }
    return list;
  };
  const block = (title, text) => (text ? [el("h3", "", title), el("pre", "", text)] : []);
  const usageFacts = (u) => (u ? [
    ["input tokens", u[0].toLocaleString("en-US")], ["output tokens", u[1].toLocaleString("en-US")],
    ["from cache", u[2] ? `${u[2].toLocaleString("en-US")} (${share(u)})` : null],
    ["into cache", u[3] ? u[3].toLocaleString("en-US") : null], ["of it reasoning", u[4] ? u[4].toLocaleString("en-US") : null],
  ] : []);
  const began = (s) => `${seconds(s - data.start)} after the start · ${date((data.zero + s) * 1000, 23)}`;
  const unpick = () => {
    if (picked) picked.node.classList.remove("picked");
    picked = null;
    details.classList.add("hidden");
  };
  const pick = (thing, focus) => {
    if (picked) picked.node.classList.remove("picked");
    picked = thing;
    thing.node.classList.add("picked");
    for (const other of things) other.node.tabIndex = other === thing ? 0 : -1;
    const close = el("button", "close", "×");
    close.type = "button";
    close.setAttribute("aria-label", "close the details");
    close.addEventListener("click", () => { unpick(); chart.focus(); });
    const parts = [close];
    if (thing.bar) {
      const bar = thing.bar;
      parts.push(el("h2", "", bar.k === "tool" ? bar.name : `${thing.name}: ${bar.name}`));
      parts.push(facts([
        ["outcome", outcomeWords(bar.o)], ["took", bar.o === "open" || bar.o === "waiting" ? null : seconds(bar.ms / 1000)], ["began", began(bar.s)],
        ["provider", bar.provider], ["ended with", bar.stop], ["attempts", bar.tries], ["by way of", bar.via],
        ...usageFacts(bar.usage), ["cost", bar.usd ? money(bar.usd) : null],
        ["asks for", bar.asks ? bar.asks.join(", ") : null], ["effect", bar.effect ? bar.effect.replace("_", " ") : null],
        ["started early", bar.eager ? "while the model still wrote" : null], ["call id", bar.call],
        ["session", bar.childId], ["journal entry", bar.e],
      ]));
      parts.push(...block("thought", bar.thought), ...block("arguments", bar.args), ...block(bar.k === "tool" ? "result" : "reply", bar.text), ...block("traceback", bar.traceback));
    } else {
      const mark = thing.mark;
      parts.push(el("h2", "", mark.k), facts([["at", began(mark.s)], ["journal entry", mark.e]]), ...block("what", mark.text), ...block("more", mark.detail));
    }
    details.replaceChildren(...parts);
    details.classList.remove("hidden");
    if (focus) {
      thing.node.focus({ preventScroll: true });
      thing.row.scrollIntoView({ block: "nearest" });
      if (thing.b < from || thing.a > from + span) view(thing.a - span / 2, span);
    }
  };

  // ------------------------------------------------------------------ filter
  const search = el("input", "");
  search.type = "search";
  search.placeholder = "Search words and results";
  search.setAttribute("aria-label", "search");
  const shown = el("span", "shown");
  const off = new Set();
  const chooser = (title, map, all) => {
    const select = el("select", "");
    select.setAttribute("aria-label", title);
    const first = el("option", "", all);
    first.value = "";
    select.append(first);
    for (const [name, count] of [...map].sort((x, y) => y[1] - x[1]).slice(0, 200)) {
      const option = el("option", "", `${name.slice(0, 60)} (${count})`);
      option.value = name;
      select.append(option);
    }
    select.addEventListener("change", filter);
    return select;
  };
  let toolSelect, outcomeSelect;
  function filter() {
    const words = search.value.trim().toLowerCase();
    const tool = toolSelect.value, outcome = outcomeSelect.value;
    const narrowed = Boolean(words || tool || outcome);
    let count = 0;
    for (const thing of things) {
      const fits = !off.has(thing.kind) && (!words || thing.text.includes(words)) && (!tool || thing.tool === tool) && (!outcome || thing.outcome === outcome);
      thing.fits = fits;
      thing.row.classList.toggle("hidden", !fits);
      if (fits) count += 1;
    }
    for (const thing of things) {
      if (thing.child) thing.child.classList.toggle("hidden", !thing.fits && !thing.child.querySelector(".row:not(.hidden)"));
    }
    for (const turn of turns) {
      const any = turn.inside.some((thing) => thing.fits || (thing.child && !thing.child.classList.contains("hidden")));
      turn.box.classList.toggle("hidden", !any && (narrowed || turn.inside.length > 0));
      const first = turn.inside.findIndex((thing) => thing.fits);
      turn.numbers.forEach((number, at) => { number.textContent = at === first ? turn.words : ""; });
    }
    shown.textContent = count === things.length ? many(count, "row") : `${count.toLocaleString("en-US")} of ${many(things.length, "row")}`;
    none.classList.toggle("hidden", count > 0 || !things.length);
    if (picked && !picked.fits) unpick();
    requestAnimationFrame(follow);
  }

  // ------------------------------------------------------------------ light and dark
  const wish = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const themeButton = el("button", "");
  themeButton.type = "button";
  const dress = () => {
    const dark = chosen === null ? wish.matches : chosen;
    root.dataset.theme = dark ? "dark" : "light";
    themeButton.textContent = dark ? "Light" : "Dark";
    themeButton.setAttribute("aria-label", dark ? "switch to light" : "switch to dark");
  };
  themeButton.addEventListener("click", () => { chosen = root.dataset.theme !== "dark"; dress(); });
  wish.addEventListener("change", dress);

  // ------------------------------------------------------------------ the page
  const chart = el("div", "chart");
  chart.tabIndex = 0;
  chart.setAttribute("role", "group");
  chart.setAttribute("aria-label", "turns on a time axis");
  const none = el("div", "nothing hidden", "Nothing fits the filter.");
  const rulerLabel = el("div", "label", el("span", "no", "turn"), el("span", "what", ""));
  chart.append(el("div", "row ruler", rulerLabel, rulerTrack, el("div", "side", el("span", "", "tokens"), el("span", "", "cached"), el("span", "", "cost"))));
  for (const run of data.runs) drawRun(run, chart, false);
  if (!data.runs.length) chart.append(el("div", "nothing", "Nothing has run in this session yet."));
  chart.append(none);

  const last = data.runs[data.runs.length - 1];
  const status = last ? statusOf(last) : "empty";
  const good = status === "done" || status === "idle";
  const bold = (text) => el("b", "", text);
  const t = data.totals;
  const summary = el("div", "facts");
  const say = (...nodes) => { if (summary.childNodes.length) summary.append(" · "); summary.append(...nodes); };
  if (last) {
    say(bold(String(t.turns)), t.turns === 1 ? " turn" : " turns");
    say(bold(String(t.models)), t.models === 1 ? " model call" : " model calls");
    say(bold(String(t.tools)), t.tools === 1 ? " tool call" : " tool calls");
    if (t.failed) say(el("span", "bad", `${t.failed} failed`));
    if (t.usage) say(bold(short(t.usage[0])), " in, ", bold(short(t.usage[1])), " out");
    if (share(t.usage)) say(bold(share(t.usage)), " cached");
    say(bold(money(t.usd)));
    say(bold(seconds(data.length)));
  }
  const about = el("div", "facts");
  if (last) about.append(`${last.name ? `${last.name}: ` : ""}${last.model} · ${date(data.zero * 1000, 19)} · by ${last.door} for ${last.caller}`);
  if (data.parent) about.append(` · ${data.branch === null ? "called by" : "forked from"} ${data.parent}`);
  if (data.forks.length) about.append(` · forks: ${data.forks.join(", ")}`);
  const spoken = last ? last.turns.flatMap((turn) => turn.bars).filter((one) => one.k === "model" && one.o === "ok" && one.text) : [];
  const answer = spoken.length ? el("section", "answer", el("h2", "", "answer"), el("pre", "", spoken[spoken.length - 1].text)) : null;
  const failure = last && last.error ? el("div", "facts bad", last.error) : null;

  toolSelect = chooser("tool", toolNames, "all tools");
  outcomeSelect = chooser("outcome", outcomes, "all outcomes");
  const bar = el("div", "tools", search, toolSelect, outcomeSelect);
  const colours = { model: "model", "judges and asides": "aside", tools: "tool", decisions: "warn" };
  for (const kind of Object.keys(colours)) {
    if (!kinds.has(kind)) continue;
    const box = el("input", "");
    box.type = "checkbox";
    box.checked = true;
    box.dataset.kind = kind;
    box.addEventListener("change", () => { if (box.checked) off.delete(kind); else off.add(kind); filter(); });
    const swatch = el("span", "swatch");
    swatch.style.background = `var(--${colours[kind]})`;
    bar.append(el("label", "", box, swatch, `${kind} (${kinds.get(kind)})`));
  }
  const act = (label, title, work) => {
    const button = el("button", "", label);
    button.type = "button";
    button.title = title;
    button.setAttribute("aria-label", title);
    button.addEventListener("click", work);
    return button;
  };
  const keys = el("span", "help", el("kbd", "", "←→↑↓"), " move  ", el("kbd", "", "+ − 0"), " zoom  ", el("kbd", "", "/"), " search");
  bar.append(el("span", "spring"), keys, shown);
  const buttons = el("div", "tools buttons", act("−", "zoom out", () => zoom(1.6)), act("+", "zoom in", () => zoom(1 / 1.6)), act("All", "show all of the time axis", () => view(0, length)), themeButton);
  const liveBadge = data.live ? el("span", "status live", "live") : null;
  const name = el("div", "name", el("h1", "", data.session), liveBadge, el("span", `status ${good ? "good" : "warn"}`, status + (last && last.why && !good ? ` (${last.why})` : "")));
  const title = el("div", "title", name, buttons);
  const header = el("header", "", title, about, failure, summary, answer, bar);
  app.replaceChildren(header, el("div", "stage", chart, details));
  dress();
  search.addEventListener("input", filter);
  filter();
  view(0, length);
  const before = history.state && history.state.windlass;
  if (turns.length > 40 && !before) { // all of a long run is slivers: begin with what is in sight
    const first = turns.slice(0, 14).flatMap((turn) => turn.inside);
    requestAnimationFrame(() => zoomTo(first));
  }
  addEventListener("resize", () => view(from, span));

  // ------------------------------------------------------------------ hand and keys
  const timeAt = (event) => {
    const box = rulerTrack.getBoundingClientRect();
    return from + ((event.clientX - box.left) / Math.max(1, box.width)) * span;
  };
  chart.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(Math.exp(Math.max(-80, Math.min(80, event.deltaY)) / 160), timeAt(event));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      event.preventDefault();
      view(from + ((event.deltaX || event.deltaY) / Math.max(1, rulerTrack.clientWidth)) * span, span);
    }
  }, { passive: false });
  let drag = null;
  chart.addEventListener("pointerdown", (event) => {
    const track = event.target.closest(".track");
    if (!track || event.button !== 0 || event.target.closest("button")) return;
    drag = { x: event.clientX, from };
    chart.setPointerCapture(event.pointerId);
  });
  chart.addEventListener("pointermove", (event) => {
    if (drag) view(drag.from - ((event.clientX - drag.x) / Math.max(1, rulerTrack.clientWidth)) * span, span);
    else hover(event);
  });
  for (const over of ["pointerup", "pointercancel"]) chart.addEventListener(over, () => { drag = null; });
  let scrolled = false;
  chart.addEventListener("scroll", () => {
    if (scrolled) return;
    scrolled = true;
    requestAnimationFrame(() => { scrolled = false; follow(); });
  }, { passive: true });
  rulerTrack.addEventListener("dblclick", (event) => zoom(0.4, timeAt(event)));

  const tip = el("div", "tip hidden");
  document.body.append(tip);
  const byNode = new Map(things.map((thing) => [thing.node, thing]));
  const hover = (event) => {
    const thing = byNode.get(event.target);
    tip.classList.toggle("hidden", !thing);
    if (!thing) return;
    const about = thing.bar
      ? [`${thing.bar.k === "tool" ? thing.bar.name : `${thing.name} (${thing.bar.name})`}`, `${thing.bar.o === "open" ? "" : seconds(thing.bar.ms / 1000) + ", "}${outcomeWords(thing.bar.o)}`,
         thing.bar.usage ? `${short_tokens(thing.bar.usage)} tokens${thing.bar.usd ? `, ${money(thing.bar.usd)}` : ""}` : "", (thing.bar.args || thing.bar.text || "").slice(0, 200)]
      : [thing.mark.k, thing.mark.text.slice(0, 300)];
    tip.textContent = about.filter(Boolean).join("\n");
    tip.style.left = `${Math.min(event.clientX + 12, innerWidth - Math.min(430, tip.offsetWidth + 12))}px`;
    tip.style.top = `${Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 6)}px`;
  };
  chart.addEventListener("pointerleave", () => tip.classList.add("hidden"));

  const step = (by) => {
    const visible = things.filter((thing) => thing.fits);
    if (!visible.length) return;
    const at = picked ? visible.indexOf(picked) : -1;
    pick(visible[at < 0 ? (by > 0 ? 0 : visible.length - 1) : Math.max(0, Math.min(visible.length - 1, at + by))], true);
  };
  const moves = {
    ArrowDown: () => step(1), ArrowUp: () => step(-1), ArrowRight: () => view(from + span * 0.15, span), ArrowLeft: () => view(from - span * 0.15, span),
    "+": () => zoom(1 / 1.4), "=": () => zoom(1 / 1.4), "-": () => zoom(1.4), 0: () => view(0, length),
    Escape: unpick, "/": () => search.focus(),
    f: () => { if (picked) view(picked.a - Math.max(picked.b - picked.a, length / 500), 3 * Math.max(picked.b - picked.a, length / 500)); },
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest && event.target.closest("input, select")) {
      if (event.key === "Escape") { search.value = ""; filter(); chart.focus(); }
      return;
    }
    const move = moves[event.key];
    if (move) { event.preventDefault(); move(); }
  });

  // ------------------------------------------------------------------ the next version, while the run is under way
  // The page loads itself again, and takes up what its reader had before: nothing but that is kept, and only in the
  // history of this tab. It stops when no newer version has come for a minute: whoever wrote it has gone.
  const PATIENCE = 60000;
  const box = (node) => [node.selectionStart, node.selectionEnd];
  const atEnd = () => chart.scrollTop + chart.clientHeight >= chart.scrollHeight - 24;
  const remember = () => ({
    written: data.live,
    since: before && before.written === data.live ? before.since : Date.now(),
    top: chart.scrollTop, end: atEnd(), from, span: span >= length * 0.999 ? null : span,
    picked: picked ? picked.key : null, aside: details.scrollTop,
    words: search.value, tool: toolSelect.value, outcome: outcomeSelect.value, off: [...off], chosen,
    focus: document.activeElement === search ? "search" : picked && document.activeElement === picked.node ? "picked" : chart.contains(document.activeElement) ? "chart" : "",
    marked: document.activeElement === search ? box(search) : null,
  });
  const restore = (kept) => {
    chosen = kept.chosen;
    dress();
    for (const kind of kept.off) {
      off.add(kind);
      const check = bar.querySelector(`input[data-kind="${CSS.escape(kind)}"]`);
      if (check) check.checked = false;
    }
    search.value = kept.words;
    toolSelect.value = kept.tool;
    outcomeSelect.value = kept.outcome;
    for (const select of [toolSelect, outcomeSelect]) if (select.selectedIndex < 0) select.value = "";
    filter();
    const found = kept.picked && things.find((thing) => thing.key === kept.picked && thing.fits);
    if (found) pick(found);
    details.scrollTop = kept.aside;
    view(kept.span === null ? 0 : kept.from, kept.span === null ? length : kept.span);
    if (kept.focus === "search") { search.focus(); search.setSelectionRange(...kept.marked); }
    else if (kept.focus === "picked" && found) found.node.focus({ preventScroll: true });
    else if (kept.focus === "chart") chart.focus({ preventScroll: true });
    chart.scrollTop = kept.end ? chart.scrollHeight : kept.top;
  };
  if (before) {
    history.replaceState(null, "");
    restore(before);
  }
  if (data.live) {
    // A large page is loaded less often.
    const pause = 2000 + document.getElementById("data").textContent.length / 500;
    const busy = () => document.hidden || drag !== null || !getSelection().isCollapsed || (document.activeElement && document.activeElement.tagName === "SELECT");
    const reload = () => {
      const state = remember();
      if (Date.now() - state.since > PATIENCE) {
        liveBadge.textContent = "no longer updated";
        liveBadge.classList.add("stale");
      } else if (busy()) setTimeout(reload, 500);
      else {
        history.replaceState({ windlass: state }, "");
        location.reload();
      }
    };
    setTimeout(reload, pause);
  }
})();
