// Keeps the page up to date, filters and sorts it, and posts its forms. Without it the page is complete, but still.
"use strict";
(() => {
  const PERIOD_MS = 800;            // between two looks, for a page of usual size
  const USUAL = 1000;               // rows of such a page
  const KEPT = 60, STEP_MS = 5000;  // finished points of a curve, and what each of them is about; as in past.rs
  const [ID, CLASS, STATUS, SINCE, WEIGHT, QUEUE, QUEUE_MAX, SESSIONS, SESSIONS_MAX, LIMIT, RATE, RATE_MAX, TOTAL, STREAMS,
    TIME, P50, P99, IN, OUT, DENIED, ERRORS, RETRIES, CHECK, PAST] = Array(24).keys();   // as in live.rs
  const PROBLEMS = new Set(["changing", "down", "maint", "drain"]);
  const url = document.body.dataset.live;
  const news = document.getElementById("news");
  const make = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };

  // Figures as words.rs writes them.
  const scaled = (n, units) => {
    if (n < 10000) return n + units[0];
    let unit = 0;
    while (n >= 1000 && unit + 1 < units.length) { n /= 1000; unit++; }
    return digits(n) + units[unit];
  };
  const count = (n) => n === null ? "" : scaled(n, ["", "k", "M", "G", "T", "P", "E"]);
  const bytes = (n) => scaled(n, [" B", " kB", " MB", " GB", " TB", " PB", " EB"]);
  const duration = (s) => s === null ? "" : s < 60 ? s + " s" : s < 3600 ? `${s / 60 | 0} min ${s % 60} s`
    : s < 86400 ? `${s / 3600 | 0} h ${s % 3600 / 60 | 0} min` : `${Math.floor(s / 86400)} d ${s % 86400 / 3600 | 0} h`;
  const digits = (n) => n.toFixed(n < 10 ? 2 : n < 100 ? 1 : 0);
  const time = (us) => us < 1000 ? us + " us" : us < 1e6 ? digits(us / 1e3) + " ms" : digits(us / 1e6) + " s";
  const most = (n) => n ? "max " + count(n) : "";

  // Every row: its element, its latest figures, and what is kept for its curves. On a large page only those are written
  // that are on the screen, or soon will be.
  const ALL_MAX = 500;              // as LARGE_MIN in html.rs
  const rows = new Map();
  const visible = new Set();
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const row = rows.get(entry.target.dataset.k);
      if (entry.isIntersecting) { visible.add(row); show(row); } else visible.delete(row);
    }
  }, { rootMargin: "50%" });
  const sections = [...document.querySelectorAll("section")].map((section) => ({
    element: section, details: section.querySelector("details"), name: section.querySelector("h2").textContent, rows: [],
  }));
  for (const section of sections) {
    for (const element of section.element.querySelectorAll("tbody tr")) {
      const name = element.cells[0].querySelector("a").textContent;
      const row = { element, section, name, text: `${section.name}/${name}`.toLowerCase(), data: null, rates: [], times: [], began: null };
      rows.set(element.dataset.k, row);
      section.rows.push(row);
    }
  }
  const large = rows.size > ALL_MAX;
  for (const row of rows.values()) if (large) watcher.observe(row.element); else visible.add(row);

  // Writes a cell: its text, then the small text below it. Nothing is touched that has not changed.
  const write = (cell, text, more = "") => {
    if (cell.shown === text + "\n" + more) return;
    cell.shown = text + "\n" + more;
    const curve = cell.querySelector("svg");
    cell.replaceChildren(text);
    if (more) cell.append(make("small", { textContent: more }));
    if (curve) cell.prepend(curve);
  };
  const curve = (cell, points) => {
    if (points.length < 2) return;
    const space = "http://www.w3.org/2000/svg";
    let svg = cell.querySelector("svg");
    if (!svg) {
      svg = document.createElementNS(space, "svg");
      svg.setAttribute("viewBox", `0 0 ${KEPT} 14`);
      svg.setAttribute("preserveAspectRatio", "none");
      svg.setAttribute("aria-hidden", "true");
      svg.append(document.createElementNS(space, "polyline"));
      cell.prepend(svg);
    }
    const top = Math.max(...points, 1);
    const from = KEPT + 1 - points.length;
    svg.firstChild.setAttribute("points", points.map((n, i) => `${from + i},${(13 - 12 * n / top).toFixed(1)}`).join(" "));
  };
  // Without any streams what was known stays.
  const carried = (points) => {
    let known = null;
    return points.map((point) => (known = point ?? known)).filter((point) => point !== null);
  };
  const show = (row) => {
    const data = row.data;
    if (!data) return;
    const cells = row.element.cells;
    if (row.element.className !== data[CLASS]) row.element.className = data[CLASS];
    const state = cells[1].firstChild;
    if (state.textContent !== data[STATUS]) state.textContent = data[STATUS];
    let since = cells[1].querySelector("small");
    if (data[SINCE] !== null) {
      if (!since) cells[1].append(since = make("small"));
      since.textContent = duration(data[SINCE]);
    }
    if (data[WEIGHT] !== null) {
      const backup = cells[2].querySelector("small");
      write(cells[2], String(data[WEIGHT]), backup ? backup.textContent : "");
    }
    write(cells[3], count(data[QUEUE]), most(data[QUEUE_MAX]));
    const limit = data[LIMIT] === null ? "" : " of " + count(data[LIMIT]);
    write(cells[4], count(data[SESSIONS]), most(data[SESSIONS_MAX]) + limit);
    if (data[RATE] !== null) write(cells[5], count(data[RATE]) + "/s", most(data[RATE_MAX]));
    if (data[P50] !== null) write(cells[6], time(data[P50]), "p99 " + time(data[P99]));
    write(cells[7], count(data[TOTAL]));
    write(cells[8], bytes(data[IN]));
    write(cells[9], bytes(data[OUT]));
    write(cells[10], count(data[DENIED]));
    write(cells[11], count(data[ERRORS]));
    write(cells[12], count(data[RETRIES]));
    write(cells[13], data[CHECK]);
    if (data[RATE] !== null) curve(cells[5], [...row.rates, data[RATE]]);
    curve(cells[6], carried([...row.times, row.time]));
  };

  // The points of a curve are what a row did in steps of the same length, and the one behind them is what it does now. Those from
  // before the page was opened, or while it was hidden, come from the process.
  const extend = (row, data, now) => {
    if (data[PAST]) {
      const [begun, times] = data[PAST];
      row.rates = begun.map((n) => n * 1000 / STEP_MS);
      row.times = times;
      row.began = null;
    }
    const began = row.began ??= { data, now };
    const streams = data[STREAMS] - began.data[STREAMS];
    row.time = streams > 0 ? (data[TIME] - began.data[TIME]) / streams : null;
    // A large page looks less often than there are steps.
    const steps = Math.floor((now - began.now) / STEP_MS);
    if (!steps) return;
    // Counters may have been cleared.
    const rate = Math.max(0, data[TOTAL] - began.data[TOTAL]) * 1000 / (now - began.now);
    row.rates = [...row.rates, ...Array(steps).fill(rate)].slice(-KEPT);
    row.times = [...row.times, ...Array(steps).fill(row.time)].slice(-KEPT);
    row.began = { data, now };
    row.time = null;
  };

  // What changed, for everybody and aloud for those who listen.
  const say = (text) => { news.textContent = text; };
  const take = (data) => {
    const row = rows.get(data[ID]);
    if (!row) return;
    const before = row.data;
    row.data = data;
    extend(row, data, performance.now());
    if (before && before[CLASS] !== data[CLASS]) {
      const now = new Date().toLocaleTimeString();
      say(`${now}: ${row.section.name}/${row.name} was ${before[STATUS]}, now ${data[STATUS]}`);
    }
  };
  const counts = () => {
    for (const { element, rows } of sections) {
      const place = element.querySelector(".up-count");
      const servers = rows.filter((row) => row.data && row.data[ID].split(".")[1] === "2");
      if (!place || !servers.length || /;up/.test(url)) continue;
      const up = servers.filter((row) => !["down", "maint"].includes(row.data[CLASS]) && !/^DOWN/.test(row.data[STATUS]));
      place.textContent = `${up.length} of ${servers.length} ${servers.length === 1 ? "server" : "servers"} up`;
    }
  };

  // Looks again and again. A long answer is asked for less often; a hidden page not at all.
  let timer = 0, paused = false, looking = false, rested = -Infinity;
  const look = async () => {
    clearTimeout(timer);
    if (looking) return;
    const began = performance.now();
    if (paused || document.hidden) { rested ??= began; return; }
    looking = true;
    try {
      // Who did not look for a while, or never, has missed points.
      const wanted = rested !== null && began - rested > STEP_MS ? document.body.dataset.past : url;
      const response = await fetch(wanted, { cache: "no-store", credentials: "same-origin" });
      if (!response.ok) throw new Error(`the answer is ${response.status}`);
      const answer = await response.json();
      for (const [id, text] of Object.entries(answer.tiles)) {
        const tile = document.getElementById("i-" + id);
        if (tile && tile.textContent !== text) tile.textContent = text;
      }
      answer.rows.forEach(take);
      rested = null;
      visible.forEach(show);
      if (dialog.open) await details();
      counts();
      filter();
      if (document.body.classList.contains("stale")) { document.body.classList.remove("stale"); say("Up to date again."); }
    } catch (error) {
      document.body.classList.add("stale");
      say(`These figures are old: ${error.message}. Trying again.`);
    }
    looking = false;
    const took = performance.now() - began;
    // On a page of usual size it is the browser that is slow, and who waits for a server to go down is told at once.
    timer = setTimeout(look, Math.max(PERIOD_MS, took * (rows.size > USUAL ? 10 : 2)));
  };
  document.addEventListener("visibilitychange", look);

  // Filter, by text and by state.
  const text = make("input", { type: "search", placeholder: "Filter rows", ariaLabel: "Filter rows by proxy or name" });
  const state = make("select", { ariaLabel: "Filter rows by state" },
    ...[["", "All states"], ["problems", "Problems only"], ["up", "Up only"]]
      .map(([value, label]) => make("option", { value, textContent: label })));
  const unfolded = new Set();
  const filter = () => {
    const wanted = text.value.trim().toLowerCase();
    const by = state.value;
    if (!wanted && !by && !filter.active) return;
    filter.active = Boolean(wanted || by);
    if (!filter.active) {
      // Folded before its rows come back: nothing is laid out twice.
      unfolded.forEach((section) => { section.details.open = false; });
      unfolded.clear();
    }
    for (const section of sections) {
      let some = false;
      for (const row of section.rows) {
        const name = row.element.className;
        const fits = row.text.includes(wanted)
          && (!by || (by === "problems" ? PROBLEMS.has(name) : name === "up" || name === "unchecked"));
        if (row.element.hidden === fits) row.element.hidden = !fits;
        some ||= fits;
      }
      if (section.element.hidden === some) section.element.hidden = !some;
      if (filter.active && some && !section.details.open) { section.details.open = true; unfolded.add(section); }
    }
  };
  text.addEventListener("input", filter);
  state.addEventListener("change", filter);
  const pause = make("button", { type: "button", textContent: "Pause" });
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Go on" : "Pause";
    look();
  });
  document.getElementById("scope").before(make("span", { className: "live" }, text, state, pause));

  // Sorts the servers of a table by what a column is about.
  const KEYS = [null, STATUS, WEIGHT, QUEUE, SESSIONS, RATE, P50, TOTAL, IN, OUT, DENIED, ERRORS, RETRIES, CHECK];
  const key = (row, column) => {
    if (column === 0 || !row.data) return row.name;
    return row.data[KEYS[column]] ?? 0;
  };
  const names = new Intl.Collator(undefined, { numeric: true });
  const compare = (a, b) => typeof a === "string" ? names.compare(a, b) : a - b;
  for (const section of sections) {
    const body = section.element.querySelector("tbody.servers");
    if (!body) continue;
    const heads = [...section.element.querySelectorAll("thead th")];
    heads.forEach((head, column) => {
      const button = make("button", { type: "button", textContent: head.textContent });
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        // Names and states from their first, figures from their largest.
        const first = [0, 1, 13].includes(column) ? "ascending" : "descending";
        const other = first === "ascending" ? "descending" : "ascending";
        const order = head.ariaSort === first ? other : first;
        heads.forEach((other) => { other.ariaSort = null; });
        head.ariaSort = order;
        const sign = order === "ascending" ? 1 : -1;
        const sorted = [...body.rows].map((element) => rows.get(element.dataset.k))
          .sort((a, b) => sign * compare(key(a, column), key(b, column)));
        body.replaceChildren(...sorted.map((row) => row.element));
        say(`${section.name}: sorted by ${button.textContent}, ${order}.`);
      });
    });
  }

  // Forms that change servers are posted without leaving the page.
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (form.method !== "post") return;
    event.preventDefault();
    try {
      const response = await fetch(url, { method: "POST", body: new URLSearchParams(new FormData(form)), credentials: "same-origin" });
      if (!response.ok) throw new Error(`the answer is ${response.status}`);
      const answer = await response.json();
      say(answer.text);
      if (answer.st === "DONE" || answer.st === "PART") form.reset();
    } catch (error) {
      say(`Nothing was changed: ${error.message}.`);
    }
    look();
  });
  for (const form of document.querySelectorAll("form[method=post]")) {
    const head = form.querySelector("thead th");
    const all = make("input", { type: "checkbox", ariaLabel: "Tick all servers that are shown" });
    all.addEventListener("change", () => {
      for (const box of form.querySelectorAll("input[name=s]")) box.checked = all.checked && !box.closest("tr").hidden;
    });
    head.prepend(all, " ");
  }

  // A row's details, over the page and kept up to date.
  const dialog = make("dialog");
  document.body.append(dialog);
  let detail = "";
  const details = async () => {
    const response = await fetch(detail, { cache: "no-store", credentials: "same-origin" });
    const other = new DOMParser().parseFromString(await response.text(), "text/html").querySelector("main");
    if (!other) return;
    if (dialog.open) {
      dialog.querySelectorAll(".table").forEach((table) => table.remove());
      dialog.querySelector("main").append(...other.querySelectorAll(".table"));
      return;
    }
    const close = make("button", { type: "button", textContent: "Close" });
    close.addEventListener("click", () => dialog.close());
    other.querySelector("p").replaceChildren(close);
    dialog.replaceChildren(other);
    dialog.showModal();
  };
  document.getElementById("main").addEventListener("click", (event) => {
    const link = event.target.closest("tbody th a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    detail = link.href;
    details();
  });

  // What the header asks of browsers (to load the page again) is not needed any more.
  addEventListener("load", () => { window.stop(); look(); });
})();
