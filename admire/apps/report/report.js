"use strict";

/** The gallery of a report: finds, sorts and shows its cards. The address contains its state. */
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const what = { ranking: "item", retrieval: "query", senses: "sentence" }[data.kind];
  const several = data.runs.length > 1;
  const MANY = 300; // cards; more take long to print
  const BINS = 10; // of probabilities, as in the plot of reliability
  const STORE = `admire judgements ${data.key}`;

  const { counted, download, hasNoSense, known, make } = Cards;
  const control = (name) => document.getElementById(name);
  const [finder, list, count] = ["finder", "cards", "count"].map(control);
  const textOf = (parts) => parts.map(([text]) => text).join("");

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
    const values = [firstOf, (one) => one.sense, (one) => one.right];
    return values.some((value) => unlike(item, value)) || item.runs.some((one) => !one);
  }

  const takenAs = (item, one = result(item)) => (one ? (one.sense ?? "none") : null);

  /** Where the best candidate or the first relevant document stands. */
  function placeOf(item, one = result(item)) {
    if (item.gold && one) return String(1 + one.order.indexOf(item.gold[0]));
    if (!one?.documents || !one.figures) return null;
    return String(1 + one.documents.findIndex(({ relevant }) => relevant) || "later");
  }

  /** Where its bin of probabilities begins, as in the plot of reliability, which needs gold. */
  function binOf(item, one = result(item)) {
    const p = one?.probability_idiomatic;
    if (!known(p) || !item.sense) return null;
    return (Math.min(Math.trunc(p * BINS), BINS - 1) / BINS).toFixed(1);
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
  const defaults = { ...Object.fromEntries(Object.keys(KEYS).map((key) => [key, ""])), run: "0" };
  let state = { ...defaults };

  /** The state that an address says; what it does not say, or what is not offered, is default. */
  function readState() {
    const said = new URLSearchParams(location.hash.slice(1));
    const read = { ...defaults };
    for (const [key, id] of Object.entries(KEYS)) {
      const value = said.get(key);
      if (value !== null && isOffered(control(id), value)) read[key] = value;
    }
    const item = said.get("item");
    return data.items.some(({ number }) => String(number) === item) ? { ...read, item } : read;
  }

  function isOffered(element, value) {
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
    const read = ({ type, checked, value }) => (type !== "checkbox" ? value : checked ? "1" : "");
    return Object.fromEntries(Object.entries(KEYS).map(([key, id]) => [key, read(control(id))]));
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

  function offer(id, entries, all = true) {
    const select = control(id);
    const options = all ? [["", "all"], ...entries] : entries;
    for (const [value, text] of options) select.append(make("option", { value, text }));
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
    const named = (entries) => entries.map(([name, [text]]) => [name, text]);
    offer("sort", named(sorts), false);
    defaults.sort = sorts[0][0];
    offer("run", data.runs.map(({ name }, k) => [String(k), name]), false);
    const outcomes = Object.entries(OUTCOMES).filter(
      ([name, [, test]]) => !(data.kind === "senses" && name.includes("-")) && every.some(test),
    );
    offer("filter-outcome", named(outcomes));
    const distinct = (values, nameOf = (value) => value) =>
      [...new Set(values)]
        .filter(Boolean)
        .sort((a, b) => a.localeCompare(b, "en", { numeric: true }))
        .map((value) => [value, nameOf(value)]);
    const ofRuns = (value) =>
      data.items.flatMap((item) => item.runs.map((one) => value(item, one)));
    offer("filter-sense", distinct(data.items.map((item) => item.sense)));
    offer("filter-taken", data.kind === "retrieval" ? [] : distinct(ofRuns(takenAs)));
    offer("filter-place", distinct(ofRuns(placeOf)));
    offer("filter-probability", distinct(ofRuns(binOf), binName));
    const languages = distinct(data.items.map((item) => item.language), languageName);
    offer("filter-language", languages.length > 1 ? languages : []);
    const agreements = Object.entries(AGREEMENTS).filter(([, [, test]]) => some(test));
    offer("filter-agree", several ? named(agreements) : []);
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
    yield textOf(item.sentence);
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
        yield textOf(found.text);
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
        (!state.sense || item.sense === state.sense) &&
        (!state.taken || takenAs(item) === state.taken) &&
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
    places.set(item, make("li", { class: "place", "data-number": item.number }));
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
    control("save").textContent = `Save ${counted(number, "judgement")}${lost}`;
  }

  function judgementForm(item) {
    const said = judged[item.number] ?? {};
    const first = item.runs.find(Boolean);
    const radio = (value, text, title) => {
      const name = `verdict-${item.number}`;
      const input = make("input", { type: "radio", name, value, "data-said": "verdict" });
      input.checked = (said.verdict ?? "") === value;
      return make("label", { title }, input, ` ${text}`);
    };
    const field = (name, text, element) => {
      element.dataset.said = name;
      element.value = said[name] ?? "";
      return make("label", { class: `judged-${name}` }, `${text} `, element);
    };
    const select = (entries) => {
      const options = [["", "not told"], ...entries];
      const choices = options.map(([value, text]) => make("option", { value, text }));
      return make("select", { dir: "auto" }, ...choices);
    };
    const names = first.order.map((place, rank) => {
      const { name } = item.candidates[place];
      return [name, several ? name : `${rank + 1}: ${name}`];
    });
    const senses = ["idiomatic", "literal"].map((sense) => [sense, sense]);
    const hasSenses = item.runs.some((one) => one && !hasNoSense(one));
    const right = make(
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
    const note = make("input", { type: "text", maxlength: 500, dir: "auto" });
    const form = make(
      "fieldset",
      { class: "judgement" },
      make("legend", { text: "Your judgement" }),
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
        sentence: textOf(item.sentence),
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
    const columns = ["sense", "probability_idiomatic", "confidence", "right", "loss", "margin"];
    const heading = ["number", "compound", "sentence", "language", "gold_sense"];
    const name = (run, column) => (several ? `${run.name}: ${column}` : column);
    for (const run of data.runs) {
      heading.push(...[...columns, "order", ...data.metrics].map((column) => name(run, column)));
    }
    const rows = chosen().map((item) => [
      item.number,
      item.compound,
      textOf(item.sentence),
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

  const save = (text, name, type) => download(new Blob([text], { type }), name);

  /* Keys */

  function inView() {
    const top = finder.getBoundingClientRect().bottom;
    return [...list.children].find(
      (place) => place.getBoundingClientRect().bottom > Math.max(top, 0) + 40,
    );
  }

  function move(step) {
    const from = document.activeElement?.closest(".place");
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
    for (const place of list.children) draw(place);
    if (list.childElementCount > MANY) {
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
  control("csv").addEventListener("click", () => save(csv(), "items.csv", "text/csv"));
  control("save").addEventListener("click", () =>
    save(judgements(), "judgements.json", "application/json"),
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
