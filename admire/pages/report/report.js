"use strict";

/** The gallery of a report: finds, sorts and shows its cards. Its state stands in the address. */
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const finder = document.getElementById("finder");
  const list = document.getElementById("cards");
  const count = document.getElementById("count");
  const what = { ranking: "item", retrieval: "query", senses: "sentence" }[data.kind];
  const several = data.runs.length > 1;
  const MANY = 300; // cards; more take long to print
  const BINS = 10; // of probabilities, as in the plot of reliability
  const STORE = `admire judgements ${data.key}`;

  const control = (name) => document.getElementById(name);
  const known = (value) => value !== null && value !== undefined;

  /* What can be sorted and filtered by */

  const result = (item) => item.runs[Number(state.run)] ?? null;

  /** Sorts: what it is called, and the number that is lowest in the item that comes first. */
  const SORTS = {
    wrong: ["wrong first", (item) => outcomeRank(result(item))],
    loss: ["greatest loss first", (item) => negative(result(item)?.loss)],
    confidence: ["least confident first", (item) => result(item)?.confidence],
    agreement: ["least agreement first", (item) => item.agreement],
    margin: ["smallest margin first", (item) => result(item)?.margin],
    number: ["order of the data", (item) => item.number],
  };

  const negative = (value) => (known(value) ? -value : null);

  /** Wrong ones by loss, then right ones by loss. */
  function outcomeRank(one) {
    if (!known(one?.right)) return null;
    return (one.right ? 1e6 : 0) - (one.loss ?? 0);
  }

  const OUTCOMES = {
    right: ["right", (one) => one?.right === true],
    wrong: ["wrong", (one) => one?.right === false],
    "sense-wrong": ["sense wrong", (one) => one?.sense_right === false],
    "ranking-wrong": [
      "sense right, ranking wrong",
      (one) => one?.sense_right === true && one.right === false,
    ],
    unsure: ["unsure", (one) => one?.unsure === true],
  };

  const AGREEMENTS = {
    agree: ["agree", (item) => !differs(item)],
    differ: ["disagree", differs],
    "first-differs": ["first candidates differ", (item) => unlike(item, firstOf)],
    "sense-differs": ["senses differ", (item) => unlike(item, (one) => one?.sense)],
    "outcome-differs": ["right in some only", (item) => unlike(item, (one) => one?.right)],
  };

  const firstOf = (one) => one?.order?.[0] ?? one?.documents?.[0]?.id;

  function unlike(item, value) {
    return new Set(item.runs.filter(Boolean).map(value)).size > 1;
  }

  /** Whether runs disagree: in the sense, in what is first, or in whether they are right. */
  function differs(item) {
    return (
      unlike(item, firstOf) ||
      unlike(item, (one) => one?.sense) ||
      unlike(item, (one) => one?.right) ||
      item.runs.some((one) => !one)
    );
  }

  const senseOf = (item) => item.sense ?? result(item)?.sense ?? result(item)?.reading?.sense;

  const takenAs = (item, one = result(item)) => (one ? (one.sense ?? "none") : null);

  /** Where the best candidate or the first relevant document stands, as in the plot of places. */
  function placeOf(item, one = result(item)) {
    if (item.gold && one) return String(1 + one.order.indexOf(item.gold[0]));
    if (!one?.documents || !one.figures) return null;
    return String(1 + one.documents.findIndex(({ relevant }) => relevant) || "later");
  }

  /** Where its bin of probabilities begins, as in the plot of reliability, which needs gold. */
  function binOf(item, one = result(item)) {
    if (!known(one?.probability) || !item.sense) return null;
    return (Math.min(Math.trunc(one.probability * BINS), BINS - 1) / BINS).toFixed(1);
  }

  const binName = (from) => `${from}–${(Number(from) + 1 / BINS).toFixed(1)}`;

  /* State */

  const KEYS = {
    q: "search",
    sort: "sort",
    reversed: "reversed",
    run: "run",
    outcome: "filter-outcome",
    sense: "filter-sense",
    taken: "filter-taken",
    place: "filter-place",
    probability: "filter-probability",
    language: "filter-language",
    agree: "filter-agree",
  };
  const defaults = {
    q: "",
    reversed: "",
    run: "0",
    outcome: "",
    sense: "",
    taken: "",
    place: "",
    probability: "",
    language: "",
    agree: "",
  };
  let state = { ...defaults };

  /** The state that an address says; what it does not say, or what is not offered, is default. */
  function readState() {
    const said = new URLSearchParams(location.hash.slice(1));
    const read = { ...defaults };
    for (const [key, id] of Object.entries(KEYS)) {
      const value = said.get(key);
      if (value !== null && offered(control(id), value)) read[key] = value;
    }
    const item = said.get("item");
    return data.items.some(({ number }) => String(number) === item) ? { ...read, item } : read;
  }

  function offered(element, value) {
    if (element.type === "checkbox") return value === "1";
    return element.tagName !== "SELECT" || [...element.options].some((one) => one.value === value);
  }

  function stateHash() {
    const said = new URLSearchParams();
    for (const [key, value] of Object.entries(state)) {
      if (value !== defaults[key]) said.set(key, value);
    }
    return said.toString();
  }

  function showState() {
    for (const [key, id] of Object.entries(KEYS)) {
      const element = control(id);
      if (element.type === "checkbox") element.checked = state[key] === "1";
      else if (element.value !== state[key]) element.value = state[key];
    }
  }

  function readControls() {
    const read = {};
    for (const [key, id] of Object.entries(KEYS)) {
      const element = control(id);
      read[key] = element.type === "checkbox" ? (element.checked ? "1" : "") : element.value;
    }
    return read;
  }

  /** Takes what the controls say; typing makes no entry in the history, choosing does. */
  function changed(replace) {
    state = readControls();
    const hash = stateHash();
    const address = hash ? `#${hash}` : location.pathname + location.search;
    history[replace ? "replaceState" : "pushState"](null, "", address);
    show();
  }

  function addressChanged() {
    const hash = location.hash.slice(1);
    if (hash && !hash.includes("=")) {
      unfold(hash);
      return;
    }
    state = readState();
    showState();
    show();
    if (finder.getBoundingClientRect().top > innerHeight) finder.scrollIntoView();
  }

  /** Opens a place of the page that is folded. */
  function unfold(id) {
    const place = document.getElementById(id);
    if (place?.tagName === "DETAILS") place.open = true;
  }

  /* Controls */

  function choices(id, options, all) {
    const select = control(id);
    if (all !== undefined) select.append(Cards.make("option", { value: "", text: all }));
    for (const [value, text] of options) select.append(Cards.make("option", { value, text }));
    select.closest(".field").hidden = select.options.length < 2;
  }

  /** Only what the data have is offered. */
  function setUp() {
    const every = data.items.flatMap((item) => item.runs.filter(Boolean));
    const some = (test) => data.items.some(test);
    const sorts = Object.entries(SORTS).filter(([name]) => {
      if (name === "number") return true;
      if (name === "agreement") return some((item) => known(item.agreement));
      return every.some((one) => known(one[name === "wrong" ? "right" : name]));
    });
    choices(
      "sort",
      sorts.map(([name, [text]]) => [name, text]),
    );
    defaults.sort = sorts[0][0];
    choices(
      "run",
      data.runs.map(({ name }, k) => [String(k), name]),
    );
    const outcomes = Object.entries(OUTCOMES).filter(
      ([name, [, test]]) => !(data.kind === "senses" && name.includes("-")) && every.some(test),
    );
    choices(
      "filter-outcome",
      outcomes.map(([name, [text]]) => [name, text]),
      "all",
    );
    const senses = [...new Set(data.items.map(senseOf))].filter(Boolean).sort();
    choices(
      "filter-sense",
      senses.map((sense) => [sense, sense]),
      "all",
    );
    const found = (value) =>
      [...new Set(data.items.flatMap((item) => item.runs.map((one) => value(item, one))))]
        .filter(Boolean)
        .sort((a, b) => a.localeCompare(b, "en", { numeric: true }))
        .map((one) => [one, one]);
    choices("filter-taken", data.kind === "retrieval" ? [] : found(takenAs), "all");
    choices("filter-place", found(placeOf), "all");
    choices(
      "filter-probability",
      found(binOf).map(([from]) => [from, binName(from)]),
      "all",
    );
    const languages = [...new Set(data.items.map((item) => item.language))].filter(Boolean).sort();
    choices(
      "filter-language",
      languages.length > 1 ? languages.map((code) => [code, languageName(code)]) : [],
      "all",
    );
    const agreements = several
      ? Object.entries(AGREEMENTS).filter(([, [, test]]) => some(test))
      : [];
    choices(
      "filter-agree",
      agreements.map(([name, [text]]) => [name, text]),
      "all",
    );
    finder.hidden = false;
  }

  function languageName(code) {
    try {
      return `${new Intl.DisplayNames(["en"], { type: "language" }).of(code)} (${code})`;
    } catch {
      return code;
    }
  }

  /* Search */

  const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const haystacks = new Map();

  /** All that an item's card says in words, without accents. */
  function haystack(item) {
    if (!haystacks.has(item)) {
      haystacks.set(item, plain([...words(item)].filter(Boolean).join("\n")));
    }
    return haystacks.get(item);
  }

  function* words(item) {
    yield item.compound;
    yield item.sentence.map(([text]) => text).join("");
    for (const one of [...(item.candidates ?? []), ...(item.sequence ?? [])]) {
      yield one.caption;
      yield one.name;
    }
    for (const one of item.runs.filter(Boolean)) {
      for (const reading of one.readings ?? []) {
        for (const said of [reading.idiomatic, reading.literal]) {
          yield* said?.definitions ?? [];
          yield* said?.scenes ?? [];
        }
      }
      for (const judgement of one.judgements ?? []) yield judgement.meaning;
      yield one.reading?.gloss;
      for (const found of one.documents ?? []) {
        yield found.text.map(([text]) => text).join("");
        yield found.idiom;
      }
    }
  }

  /* Which items are shown, and in which order */

  function chosen() {
    if (state.item) return data.items.filter(({ number }) => String(number) === state.item);
    const wanted = plain(state.q).split(/\s+/).filter(Boolean);
    const outcome = OUTCOMES[state.outcome]?.[1];
    const agreement = AGREEMENTS[state.agree]?.[1];
    const found = data.items.filter(
      (item) =>
        (!outcome || outcome(result(item))) &&
        (!agreement || agreement(item)) &&
        (!state.sense || senseOf(item) === state.sense) &&
        (!state.taken || takenAs(item) === state.taken) &&
        (!state.taken || !state.sense || item.sense) && // a cell of the confusion: gold and taken
        (!state.place || placeOf(item) === state.place) &&
        (!state.probability || binOf(item) === state.probability) &&
        (!state.language || item.language === state.language) &&
        wanted.every((word) => haystack(item).includes(word)),
    );
    return sorted(found);
  }

  /** Items of which the value is not known come last, in either direction. */
  function sorted(items) {
    const value = SORTS[state.sort][1];
    const sign = state.reversed ? -1 : 1;
    return items
      .map((item) => ({ item, value: value(item) }))
      .sort((a, b) => {
        if (known(a.value) !== known(b.value)) return known(a.value) ? -1 : 1;
        return sign * (a.value - b.value) || a.item.number - b.item.number;
      })
      .map(({ item }) => item);
  }

  /* Cards: drawn when they come near the view, and emptied when they are far from it */

  const places = new Map();
  for (const item of data.items) {
    places.set(item, Cards.make("li", { class: "place", "data-number": item.number }));
  }
  const itemOf = new Map([...places].map(([item, place]) => [place, item]));

  const picture = (reference) =>
    reference.startsWith("#") ? document.getElementById(reference.slice(1)).textContent : reference;

  function draw(place) {
    if (place.firstChild) return;
    const item = itemOf.get(place);
    const card = Cards.drawItem(item, { ...data, picture });
    if (data.kind === "ranking") card.append(judgementForm(item));
    place.append(card);
    place.style.height = "";
    place.classList.add("drawn");
  }

  function empty(place) {
    if (place === list.firstChild || place.contains(document.activeElement)) return;
    if (place.isConnected) place.style.height = `${place.offsetHeight}px`;
    place.replaceChildren();
    place.classList.remove("drawn");
  }

  const watcher = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) draw(target);
        else if (!printing) empty(target);
      }
    },
    { rootMargin: "1500px 0px" },
  );
  let printing = false;

  /** The first card is always drawn: those that are not yet are taken to be as high. */
  function guess() {
    const first = list.firstChild;
    if (!first) return;
    draw(first);
    if (!list.style.getPropertyValue("--guess")) {
      list.style.setProperty("--guess", `${first.offsetHeight}px`);
    }
  }

  function show() {
    const items = chosen();
    list.replaceChildren(...items.map((item) => places.get(item)));
    guess();
    count.textContent = told(items.length);
    if (list.getBoundingClientRect().top < 0) finder.scrollIntoView();
  }

  function told(shown) {
    const all = data.items.length;
    const plural = what === "query" ? "queries" : `${what}s`;
    if (state.item) return `${what} ${state.item} alone, of ${all}. Clear shows all.`;
    if (shown === all) return `${all} ${all === 1 ? what : plural}`;
    return `${shown} of ${all} ${plural}${shown ? "" : ". Clear shows all."}`;
  }

  /* Judgements: whether people agree, and what is right if not; kept by the browser */

  /** By the items' numbers: `verdict` (a run's place, or `disagree`), `sense`, `best`, `note`. */
  let judged = {};
  let kept = true;

  function readJudged() {
    try {
      judged = JSON.parse(localStorage.getItem(STORE)) ?? {};
    } catch {
      kept = false;
    }
  }

  function keepJudged() {
    try {
      localStorage.setItem(STORE, JSON.stringify(judged));
      kept = true;
    } catch {
      kept = false;
    }
  }

  function tellJudged() {
    const number = Object.keys(judged).length;
    const lost = kept ? "" : " (this browser keeps none)";
    control("save").hidden = !number;
    control("save").textContent = `Save ${number} judgement${number === 1 ? "" : "s"}${lost}`;
  }

  function judgementForm(item) {
    const said = judged[item.number] ?? {};
    const first = item.runs.find(Boolean);
    const radio = (value, text, title) => {
      const input = Cards.make("input", {
        type: "radio",
        name: `verdict-${item.number}`,
        value,
        "data-said": "verdict",
      });
      input.checked = (said.verdict ?? "") === value;
      return Cards.make("label", { title }, input, ` ${text}`);
    };
    const field = (name, text, element) => {
      element.dataset.said = name;
      element.value = said[name] ?? "";
      return Cards.make("label", { class: `judged-${name}` }, `${text} `, element);
    };
    const select = (options) =>
      Cards.make(
        "select",
        { dir: "auto" },
        Cards.make("option", { value: "", text: "not told" }),
        ...options.map(([value, text]) => Cards.make("option", { value, text })),
      );
    const names = first.order.map((place, rank) => {
      const { name } = item.candidates[place];
      return [name, several ? name : `${rank + 1}: ${name}`];
    });
    const senses = ["idiomatic", "literal"].map((sense) => [sense, sense]);
    const hasSenses = item.runs.some(
      (one) => one && !(one.readings.length && one.readings.every((reading) => reading.no_sense)),
    );
    const right = Cards.make(
      "div",
      { class: "corrected" },
      hasSenses ? field("sense", "Right sense", select(senses)) : null,
      field("best", "Best candidate", select(names)),
    );
    right.hidden = said.verdict !== "disagree";
    const agreements = item.runs.flatMap((one, k) => {
      const text = several ? `agree with ${data.runs[k].name}` : "agree";
      return one ? [radio(String(k), text, agreementTold(item, one))] : [];
    });
    const note = Cards.make("input", { type: "text", maxlength: 500, dir: "auto" });
    const form = Cards.make(
      "fieldset",
      { class: "judgement" },
      Cards.make("legend", { text: "Your judgement" }),
      radio("", "none"),
      ...agreements,
      radio("disagree", several ? "disagree with all" : "disagree"),
      right,
      field("note", "Note", note),
    );
    form.addEventListener("input", () => {
      const told = [...form.querySelectorAll("[data-said]")]
        .filter((one) => one.type !== "radio" || one.checked)
        .map((one) => [one.dataset.said, one.value.trim()])
        .filter(([, value]) => value);
      judged[item.number] = Object.fromEntries(told);
      const { verdict, note: words } = judged[item.number];
      if (!verdict && !words) delete judged[item.number];
      right.hidden = verdict !== "disagree";
      keepJudged();
      tellJudged();
    });
    return form;
  }

  const agreementTold = (item, one) =>
    [one.sense, `${item.candidates[one.order[0]].name} first`].filter(Boolean).join(", ");

  /** All judgements as a file; an agreement says what the run says. */
  function judgements() {
    const entries = data.items.flatMap((item) => {
      const said = judged[item.number];
      if (!said) return [];
      const agreed = item.runs[said.verdict];
      const wrong = said.verdict === "disagree" ? said : {};
      return {
        number: item.number,
        compound: item.compound,
        sentence: item.sentence.map(([text]) => text).join(""),
        language: item.language,
        candidates: item.candidates.map(({ name }) => name),
        verdict: agreed ? "agree" : wrong.verdict ?? null,
        run: agreed ? data.runs[said.verdict].name : null,
        sense: (agreed ?? wrong).sense ?? null,
        best: agreed ? item.candidates[agreed.order[0]].name : wrong.best ?? null,
        note: said.note ?? "",
      };
    });
    const file = { runs: data.runs.map(({ name }) => name), judgements: entries };
    return JSON.stringify(file, null, 2) + "\n";
  }

  /** The items that are shown, a row an item, for tables of one's own. */
  function csv() {
    const columns = ["sense", "probability", "right", "loss", "margin"];
    const heading = ["number", "compound", "sentence", "language", "gold_sense"];
    const name = (run, column) => (several ? `${run.name}: ${column}` : column);
    for (const run of data.runs) {
      heading.push(...[...columns, "order", ...data.metrics].map((column) => name(run, column)));
    }
    const rows = chosen().map((item) => [
      item.number,
      item.compound,
      item.sentence.map(([text]) => text).join(""),
      item.language,
      item.sense,
      ...item.runs.flatMap((one) => [
        ...columns.map((column) => one?.[column]),
        one?.order?.map((place) => item.candidates[place].name).join(" "),
        ...data.metrics.map((metric) => one?.figures?.[metric]),
      ]),
    ]);
    return [heading, ...rows].map((row) => row.map(csvCell).join(",") + "\r\n").join("");
  }

  const csvCell = (value) => {
    const text = String(value ?? "");
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };

  function download(text, name, type) {
    const link = Cards.make("a", { href: URL.createObjectURL(new Blob([text], { type })) });
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  /* Keys */

  function current() {
    return document.activeElement?.closest?.(".place") ?? null;
  }

  function inView() {
    const top = finder.getBoundingClientRect().bottom;
    return [...list.children].find(
      (place) => place.getBoundingClientRect().bottom > Math.max(top, 0) + 40,
    );
  }

  function move(step) {
    const from = current();
    const to = from ? (step > 0 ? from.nextElementSibling : from.previousElementSibling) : inView();
    if (!to) return;
    draw(to);
    to.firstChild.focus({ preventScroll: true });
    to.scrollIntoView({ block: "start" });
  }

  function keyPressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    const target = event.target;
    if (target.matches("input:not([type=checkbox], [type=radio]), select, textarea")) return;
    const onCard = target.matches(".card");
    const single = control("keys-on").checked;
    const act = {
      j: single && (() => move(1)),
      k: single && (() => move(-1)),
      "/": single && (() => control("search").focus()),
      "?": single && (() => control("keys").showModal()),
      ArrowDown: onCard && (() => move(1)),
      ArrowUp: onCard && (() => move(-1)),
      Enter: onCard && (() => target.querySelector(".candidate .picture")?.click()),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /* Print: all that is shown is drawn */

  function beforePrint() {
    printing = true;
    const shown = [...list.children];
    for (const place of shown) draw(place);
    if (shown.length > MANY) {
      count.append(". All are printed; a filter makes this shorter.");
    }
  }

  function afterPrint() {
    printing = false;
    count.textContent = told(list.childElementCount);
    for (const place of list.children) {
      const { top, bottom } = place.getBoundingClientRect();
      if (bottom < -1500 || top > innerHeight + 1500) empty(place);
    }
  }

  setUp();
  new ResizeObserver(() => {
    list.style.setProperty("--finder", `${finder.offsetHeight}px`);
  }).observe(finder);
  finder.addEventListener("submit", (event) => event.preventDefault());
  finder.addEventListener("change", (event) => {
    if (event.target.id !== "search") changed(false);
  });
  control("search").addEventListener("input", () => changed(true));
  control("clear").addEventListener("click", () => {
    state = { ...defaults };
    showState();
    changed(false);
  });
  control("csv").addEventListener("click", () => download(csv(), "items.csv", "text/csv"));
  control("save").addEventListener("click", () =>
    download(judgements(), "judgements.json", "application/json"),
  );
  control("help").addEventListener("click", () => control("keys").showModal());
  addEventListener("hashchange", addressChanged);
  addEventListener("keydown", keyPressed);
  addEventListener("beforeprint", beforePrint);
  addEventListener("afterprint", afterPrint);
  unfold(location.hash.slice(1));
  state = readState();
  showState();
  readJudged();
  tellJudged();
  show();
  for (const place of places.values()) watcher.observe(place);
  document.documentElement.dataset.ready = "1";
})();
