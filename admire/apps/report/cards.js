"use strict";

/**
 * Draws the cards of a report, and those of `admire serve`.
 *
 * What comes from data goes in by textContent and by attributes alone, never as markup.
 */
const Cards = (() => {
  const LONG = 110; // characters; a longer caption is folded
  const SENSES = ["idiomatic", "literal"];
  const TRACKS = ["image", "caption"];

  // The texts that candidates are compared with, by what they tell of.
  const TEXTS = {
    gloss: "idiomatic",
    gloss2: "idiomatic",
    scene: "idiomatic",
    literal: "literal",
    literal2: "literal",
    literal_scene: "literal",
    compound: "compound",
    sequence: "sequence",
    sentence: "sentence",
  };

  const TEXT_NAMES = {
    gloss: "definition",
    gloss2: "second definition",
    scene: "scene",
    literal: "definition",
    literal2: "second definition",
    literal_scene: "scene",
  };

  /** An element; attributes that are null or undefined are left out, and so are such children. */
  function make(tag, { text, ...attributes } = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (known(value)) element.setAttribute(name, value);
    }
    if (known(text)) element.textContent = text;
    element.append(...children.filter(known));
    return element;
  }

  // What the parts of a score are called for a word in a phrase, which has no senses to decide.
  const WORD_PARTS = { idiomatic: "meaning", compound: "phrase" };

  const hasNoSense = ({ readings = [] }) =>
    readings.length > 0 && readings.every((reading) => reading.no_sense);

  const known = (value) => value !== null && value !== undefined;
  const span = (name, text, more = {}) => make("span", { class: name, text, ...more });
  const unseen = (text) => span("unseen", text);

  function signed(value) {
    const text = Math.abs(value).toFixed(2);
    if (text === "0.00") return text;
    return (value < 0 ? "−" : "+") + text;
  }

  function shortened(text, length = LONG) {
    const line = text.replace(/\s+/g, " ").trim();
    return line.length <= length ? line : line.slice(0, length).replace(/\s*\S*$/, "") + "…";
  }

  let drawn = 0; // cards, for ids that are there once

  /**
   * The card of an item.
   *
   * @param item as the report's data have it; what is not known may be left out.
   * @param kind `ranking`, `retrieval` or `senses`.
   * @param metrics the names of the figures to show.
   * @param headings what people call each of them, and what it means.
   * @param runs `{name}` of each run; one run is not named.
   * @param picture gives the address of a picture for what the item says of it.
   * @returns an `article`.
   */
  function drawItem(item, options = {}) {
    const { kind = "ranking", metrics = [], picture = (said) => said } = options;
    const { headings = {} } = options;
    const runs = options.runs ?? [{ name: "" }];
    const page = { kind, metrics, headings, runs, picture };
    drawn += 1;
    const title = `card-title-${drawn}`;
    const card = make("article", {
      class: `card ${kind}`,
      "data-number": item.number,
      "aria-labelledby": title,
      tabindex: -1,
    });
    card.append(head(item, page, title));
    if (item.sentence?.length) {
      const sentence = { class: "sentence", lang: langOf(item), dir: "auto" };
      card.append(make("p", sentence, ...marked(item.sentence)));
    }
    if (item.sequence?.length) card.append(sequence(item, page));
    const differ = runs.length > 1 ? differences(item, page) : [];
    if (differ.length) {
      const text = `The runs differ in ${listed(differ)}.`;
      const agree = known(item.agreement)
        ? span("told", ` Agreement of their orders: ${tidy(item.agreement)}`)
        : null;
      card.append(make("p", { class: "differs" }, text, agree));
    }
    const columns = item.runs.map((result, k) => drawRun(item, result, k, page));
    card.append(make("div", { class: runs.length > 1 ? "runs several" : "runs" }, ...columns));
    if (runs.length > 1) showSame(card);
    return card;
  }

  function head(item, { kind, runs }, title) {
    const number = { class: "number", href: `#item=${item.number}`, text: item.number };
    const lang = langOf(item);
    return make(
      "div",
      { class: "card-head" },
      known(item.number) ? make("a", { ...number, title: "This item alone, as a link" }) : null,
      make("h3", { class: "compound", id: title, text: item.compound, lang, dir: "auto" }),
      item.language && item.language !== "und"
        ? span("language", item.language, { title: "Language" })
        : null,
      item.sense ? trueSense(item, kind) : null,
      kind === "retrieval" ? queryTold(item) : null,
      runs.length === 1 && item.runs[0] ? outcome(item.runs[0], kind) : null,
    );
  }

  function trueSense(item, kind) {
    const label = kind === "retrieval" ? "used as " : "gold: ";
    return make("span", { class: "gold-sense" }, label, senseWord(item.sense));
  }

  function queryTold({ subject, relevant }) {
    const told = [subject, known(relevant) ? counted(relevant, "relevant document") : null];
    return span("told", told.filter(Boolean).join(", "));
  }

  /** A text in parts, of which some are marked. */
  const marked = (parts) => parts.map(([text, marks]) => (marks ? make("mark", { text }) : text));

  /** The language for `lang`: the language of the item may be a name that HTML does not know. */
  const langOf = (item) => item.lang ?? item.language;

  const counted = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;

  const listed = (words) => new Intl.ListFormat("en-GB").format(words); // without a comma before "and"

  const senseWord = (sense) => span(SENSES.includes(sense) ? sense : "told", sense ?? "not known");

  function outcome({ right, sense_right: senseRight }, kind) {
    if (!known(right)) return null;
    const name = `outcome ${right ? "right" : "wrong"}`;
    if (kind === "retrieval") {
      return span(name, right ? "✓ first is relevant" : "✗ first is not relevant");
    }
    if (kind === "senses") return span(name, right ? "✓ right" : "✗ wrong");
    if (right) {
      const text = senseRight === false ? "✓ right, with the wrong sense" : "✓ right";
      return span(name, text, { title: "The best candidate is first" });
    }
    const [what, title] = {
      true: [": ranking", "The sense is right, but the best candidate is not first"],
      false: [": sense", "The sense is wrong, and the best candidate is not first"],
    }[senseRight] ?? ["", "The best candidate is not first"];
    return span(name, `✗ wrong${what}`, { title });
  }

  /** What an item's runs differ in, as words. */
  function differences(item, { kind }) {
    const results = item.runs.filter(Boolean);
    const differ = (value) => new Set(results.map(value)).size > 1;
    const found = [];
    if (kind !== "retrieval" && differ((result) => result.sense)) found.push("the sense");
    if (kind === "ranking" && differ((result) => result.order[0])) {
      found.push("the first candidate");
    } else if (kind === "ranking" && differ((result) => result.order.join())) {
      found.push("the order");
    }
    if (differ((result) => result.right)) found.push("whether they are right");
    if (results.length < item.runs.length) found.push("whether they have the item");
    return found;
  }

  /** Marks a candidate that is pointed at, or that has the focus, in all runs. */
  function showSame(card) {
    const mark = ({ target, type }) => {
      const here = type === "pointerleave" ? null : target.closest?.(".candidate");
      for (const one of card.querySelectorAll(".candidate")) {
        one.classList.toggle("same", one.dataset.place === here?.dataset.place);
      }
    };
    for (const type of ["pointerover", "pointerleave", "focusin"]) {
      card.addEventListener(type, mark);
    }
  }

  function drawRun(item, result, k, page) {
    const box = make("section", { class: `run run-${k + 1}` });
    box.style.setProperty("--colour", `var(--run${(k % 6) + 1})`);
    if (page.runs.length > 1) {
      const name = page.runs[k].name;
      box.setAttribute("role", "group"); // each card has one, too many for landmarks
      box.setAttribute("aria-label", name);
      const title = make("h4", { class: "run-name", text: name, dir: "auto" });
      const told = result ? outcome(result, page.kind) : null;
      box.append(make("div", { class: "run-head" }, title, told));
    }
    if (!result) {
      box.append(make("p", { class: "told", text: "This run lacks the item." }));
      return box;
    }
    box.append(make("div", { class: "reading" }, ...readingOf(result, page)));
    if (page.kind === "ranking") box.append(candidates(item, result, k, page));
    if (page.kind === "retrieval") box.append(documents(result));
    const figures = figureList(result, page);
    if (figures) box.append(figures);
    return box;
  }

  /* Senses and meanings */

  /** What a run takes to be meant: sense, probability, votes, meanings. */
  function readingOf(result, { kind }) {
    if (kind === "retrieval") return searchedWith(result);
    const readings = result.readings ?? [];
    if (!result.sense && !readings.length && kind === "ranking") return [];
    const single = readings.length === 1 ? readings[0] : null;
    if (hasNoSense(result)) return [meanings(result)];
    const line = senseLine(
      { ...single, ...result },
      kind === "ranking" ? result.sense_right : null,
    );
    if (result.unsure) {
      const title = "The sense is less sure than the run asks for";
      line.append(span("unsure", "unsure", { title }));
    }
    if (kind !== "ranking") return [line];
    const firsts = Object.entries(result.by_sense ?? {});
    const either = firsts.map(([sense, [first]]) => `; if ${sense}: ${first}`).join("");
    const none = result.no_meaning && "No meaning was found; ranked by the compound.";
    const text = none || (either && `The sense is unsure${either}.`);
    const told = text ? make("p", { class: "told", text }) : null;
    return [line, told, meanings(result)].filter(known);
  }

  function searchedWith({ reading }) {
    if (!reading) return [];
    const line = senseLine(reading);
    if (reading.gloss) line.append(make("span", { dir: "auto", text: `“${reading.gloss}”` }));
    return [line];
  }

  /** The sense that a run or a model predicts, or that was given, and what it is based on. */
  function senseLine({ sense, votes, by, given, ...more }, right) {
    const isGiven = given || by === "given";
    const label = isGiven ? "given: " : "predicted: ";
    const said = make("span", { class: "predicted" }, label, senseWord(sense));
    const line = make("div", { class: "sense" }, said);
    if (right === false) said.append(" ", span("wrong", "✗"), unseen("wrong"));
    if (right === true) said.append(" ", span("right", "✓"), unseen("right"));
    if (isGiven) return line;
    const p = more.probability_idiomatic ?? more.probability;
    if (sense && known(p)) line.append(chance(p, sense));
    const told = votes ? votesTold(votes) : "";
    if (told) line.append(span("votes", told, { title: "What the chat model answered" }));
    if (by) line.append(span("votes", `(${by})`, { title: "What decided the sense" }));
    return line;
  }

  /** The probability of the idiomatic sense as a bar, and the confidence in figures. */
  function chance(probability, sense) {
    const fill = span("fill");
    fill.style.width = `${100 * probability}%`;
    const bar = make("span", { class: "bar", "aria-hidden": "true" }, fill);
    const title =
      "Confidence is the probability of the predicted sense. " +
      `The bar shows that of the idiomatic sense (${probability.toFixed(2)}); the rest is the literal one.`;
    const confidence = sense === "idiomatic" ? probability : 1 - probability;
    return make("span", { class: "probability", title }, bar, `confidence ${confidence.toFixed(2)}`);
  }

  function votesTold(votes) {
    const { idiomatic = 0, literal = 0, unparsed = 0 } = votes;
    if (!idiomatic && !literal && !unparsed) return "";
    const unread = unparsed ? `, ${unparsed} unread` : "";
    return `votes: ${idiomatic} idiomatic, ${literal} literal${unread}`;
  }

  /** What each chat model takes to be meant; of several also which sense each gives. */
  function meanings(result) {
    const box = make("div", { class: "meanings" });
    const readings = result.readings ?? [];
    for (const reading of readings) {
      const lines = meaning(reading, reading.sense ?? result.sense);
      if (readings.length === 1) {
        box.append(...lines);
        continue;
      }
      const line = senseLine(reading);
      line.firstChild.replaceWith(span("llm", reading.llm), senseWord(reading.sense));
      if (reading.no_sense) line.replaceChildren(span("llm", reading.llm));
      box.append(make("div", { class: "reader" }, line, ...lines));
    }
    const said = readings.flatMap(({ idiomatic, literal }) => [
      ...(idiomatic?.definitions ?? []),
      ...(literal?.definitions ?? []),
    ]);
    for (const one of result.judgements ?? []) {
      const told = judgementTold(one, said);
      if (told) box.append(make("p", { class: "told judgement", text: told, dir: "auto" }));
    }
    return box;
  }

  /** The meaning that is meant, and the rest on demand. */
  function meaning(reading, sense) {
    const [meant, other] = sense === "literal" ? ["literal", "idiomatic"] : SENSES;
    const { wording } = reading;
    const ownWords = wording && !reading[meant]?.definitions?.includes(wording);
    const ofModel = told(reading, meant, "meaning");
    const shown = ownWords ? [row(reading, meant, "meaning", wording)] : ofModel;
    const rest = [
      ...(ownWords ? ofModel : []),
      ...["scene", "dictionary"].flatMap((what) => told(reading, meant, what)),
      ...["meaning", "scene", "dictionary"].flatMap((what) => told(reading, other, what)),
    ];
    const lines = shown.length ? [make("dl", {}, ...shown)] : [];
    if (rest.length) {
      const has = (what) => [meant, other].some((one) => told(reading, one, what).length);
      const what = [
        has("scene") && "scene",
        ((ownWords && ofModel.length) || told(reading, other, "meaning").length) && "other meaning",
        has("dictionary") && "dictionary",
      ];
      const summary = make("summary", { text: `The ${listed(what.filter(Boolean))}` });
      lines.push(make("details", {}, summary, make("dl", {}, ...rest)));
    }
    return lines;
  }

  /** A row with the meaning, the scenes or a dictionary's glosses of a sense; none without any. */
  function told(reading, sense, what) {
    const entries = reading.dictionary?.[sense] ?? [];
    const texts = {
      meaning: reading[sense]?.definitions,
      scene: reading[sense]?.scenes,
      dictionary: entries.map(({ gloss, source }) => `${gloss} (${source})`),
    };
    const text = (texts[what] ?? []).join("; ");
    const wrong = what === "meaning" ? faultOf(reading, sense) : "";
    return text || wrong ? [row(reading, sense, what, text || "none", wrong)] : [];
  }

  function row(reading, sense, what, text, wrong) {
    const of = reading.no_sense ? null : senseWord(sense);
    const term = make("dt", {}, of, ` ${what}: `);
    const mark = wrong ? span("fault", ` ⚠ ${wrong}`, { dir: "auto" }) : null;
    return make("div", {}, term, make("dd", { dir: "auto" }, text, mark));
  }

  /** Why a sense's meaning is missing or doubtful; empty where it is right or is not needed. */
  function faultOf(reading, sense) {
    const { definitions = [], unread, fault } = reading[sense] ?? {};
    if (!known(unread)) {
      const needed = sense === "idiomatic" && reading.sense !== "literal";
      return fault && (definitions.length || needed) ? fault : "";
    }
    const from = definitions.length ? "from a dictionary: " : "";
    return `${from}the reply “${unread}” could not be used${fault ? `: ${fault}` : ""}`;
  }

  /** What there is to say of a ranker's answers, beyond what has been said. */
  function judgementTold({ ranker, llm, agreement, unread, meaning: takes }, said) {
    const told = [];
    if (takes && !said.includes(takes)) told.push(`takes it to mean “${takes}”`);
    if (known(agreement)) told.push(`agreement of its answers ${agreement.toFixed(2)}`);
    if (unread) told.push(`${counted(unread, "answer")} could not be read`);
    return told.length ? `${ranker} (${llm}): ${told.join("; ")}` : "";
  }

  /* Candidates */

  function sequence(item, page) {
    const shown = item.sequence.map((one, k) => large(one, page, `${k + 1} of the sequence`));
    const tiles = item.sequence.map((one, k) =>
      make("li", {}, pictureButton(shown, k), caption(one)),
    );
    const list = make("ol", { class: texts(item.sequence) }, ...tiles);
    list.style.setProperty("--ratio", ratio(item.sequence));
    const title = make("h4", { text: "Sequence that the candidates continue" });
    return make("section", { class: "sequence" }, title, list);
  }

  const texts = (things) => (things.some((one) => one.picture) ? null : "texts");

  /** Width to height of the pictures' frames, so that all of an item are as large. */
  function ratio(things) {
    const sized = things.filter((one) => one.picture && one.width && one.height);
    if (!sized.length) return "4 / 3";
    const mean = sized.reduce((sum, one) => sum + one.width / one.height, 0) / sized.length;
    return Math.min(1.6, Math.max(0.75, mean)).toFixed(3);
  }

  const large = (candidate, { picture }, told) => ({
    candidate,
    url: candidate.picture ? picture(candidate.picture) : null,
    told,
  });

  function candidates(item, result, k, page) {
    const groups = groupParts(result.parts ?? [], hasNoSense(result) ? WORD_PARTS : {});
    const most = Math.max(...groups.flatMap((group) => group.values.map(Math.abs)), 1e-9);
    const shown = result.order.map((place, rank) => {
      const gold = goldTold(item.gold, place);
      const told = `place ${rank + 1}, score ${signed(result.scores[place])}`;
      return large(item.candidates[place], page, gold ? `${told}, ${gold}` : told);
    });
    const list = make("ol", {
      class: ["candidates", texts(item.candidates)].filter(Boolean).join(" "),
      "aria-label": "Candidates, best first",
    });
    list.style.setProperty("--ratio", ratio(item.candidates));
    result.order.forEach((place, rank) => {
      const facts = make(
        "div",
        { class: "facts" },
        candidateLine(item, { k, result, place, rank, page }),
        fileName(item.candidates[place]),
        partList(groups, place, most),
        ...said(result.judgements ?? [], place),
        caption(item.candidates[place]),
      );
      const best = item.gold?.[0] === place ? " best" : !item.gold && rank === 0 ? " first" : "";
      const attributes = { class: `candidate${best}`, "data-place": place };
      list.append(make("li", attributes, pictureButton(shown, rank), facts));
    });
    return list;
  }

  function goldTold(gold, place) {
    const at = gold ? gold.indexOf(place) : -1;
    if (at < 0) return "";
    if (gold.length === 1) return "★ gold"; // of Subtask B
    return at === 0 ? "★ gold 1" : `gold ${at + 1}`;
  }

  function candidateLine(item, { k, result, place, rank, page }) {
    const line = make("p", { class: "line" }, span("rank", rank + 1, { title: "Predicted place" }));
    const gold = goldTold(item.gold, place);
    if (gold) line.append(span("gold", gold, { title: "Place in the gold order" }));
    if (result.uncompared?.includes(place)) {
      const title = "Nothing compares it with the other candidates, so it comes last";
      line.append(span("tied", "not compared", { title }));
    } else if (isTied(result.scores, place)) {
      const title = "Another candidate has the same score; the order among them is that of their names";
      line.append(span("tied", "tied", { title }));
    }
    const first = item.runs.findIndex(Boolean);
    if (k > first) {
      const before = item.runs[first].order.indexOf(place);
      if (before !== rank) line.append(moved(before, rank, page.runs[first].name));
    }
    line.append(span("score", signed(result.scores[place]), { title: "Score" }));
    return line;
  }

  /** Whether another candidate has the same score; digits that the order leaves out do not count. */
  function isTied(scores, place) {
    const same = (score) => Math.round(score * 1e9) === Math.round(scores[place] * 1e9);
    return scores.filter(same).length > 1;
  }

  const fileName = ({ name }) =>
    make("p", { class: "file", text: name, title: "A click selects it, to be copied" });

  /** The place of a candidate in the first run, if it differs in this one. */
  function moved(before, rank, name) {
    const mark = make("span", { "aria-hidden": "true", text: before > rank ? "▲ " : "▼ " });
    const title = `Place ${before + 1} in ${name}`;
    return make("span", { class: "moved", title }, mark, `from ${before + 1}`);
  }

  /**
   * Parts of a score, those of one sense's texts added up; parts that add nothing are left out.
   *
   * @param called what kinds are called, if not as they are.
   * @returns `{label, kind, values, parts}`, a value a candidate.
   */
  function groupParts(parts, called) {
    const tracks = new Set(parts.map(({ of }) => of).filter((of) => TRACKS.includes(of)));
    const encoders = new Set(parts.map(({ encoder }) => encoder).filter(known));
    const groups = new Map();
    for (const part of parts) {
      const [text, unlike] = partText(part);
      const kind = tracks.has(part.of) ? TEXTS[text] : "other";
      const name = kind === "other" ? (text ?? part.of) : (called[kind] ?? kind);
      const what = unlike ? `unlike the ${name === "literal" ? "literal sense" : name}` : name;
      const where = [tracks.size > 1 && part.of, encoders.size > 1 && part.encoder];
      const label = [what, ...(kind === "other" ? [] : where.filter(Boolean))].join(" · ");
      const none = part.values.map(() => 0);
      const group = groups.get(label) ?? { label, kind, values: none, parts: [] };
      group.values = group.values.map((value, place) => value + part.values[place]);
      group.parts.push(part);
      groups.set(label, group);
    }
    return [...groups.values()].filter((group) =>
      group.parts.some(({ values }) => values.some((value) => Math.abs(value) > 1e-9)),
    );
  }

  /** The text of a part, and whether likeness to it counts against a candidate. */
  function partText({ text }) {
    const unlike = text?.startsWith("unlike ");
    return [unlike ? text.slice("unlike ".length) : text, unlike];
  }

  function partList(groups, place, most) {
    if (!groups.length) return null;
    const rows = groups.map((group) => {
      const value = group.values[place];
      const fill = span("fill");
      const width = (50 * Math.abs(value)) / most;
      fill.style.insetInlineStart = `${value < 0 ? 50 - width : 50}%`;
      fill.style.width = `${width}%`;
      return make(
        "li",
        { class: `part of-${group.kind}`, title: partTold(group, place) },
        span("label", group.label),
        make("span", { class: "bar", "aria-hidden": "true" }, fill),
        span("value", signed(value)),
      );
    });
    return make("ul", { class: "parts", "aria-label": "Parts of the score" }, ...rows);
  }

  function partTold({ label, kind, parts, values }, place) {
    if (parts.length < 2) return `${label}: ${signed(values[place])}`;
    const each = parts.map((part) => {
      const [text] = partText(part);
      return `${TEXT_NAMES[text] ?? text} ${signed(part.values[place])}`;
    });
    const sense = label.startsWith(kind) ? `${kind} ` : "";
    const like = label.startsWith("unlike") ? label : `Likeness to the ${sense}meaning`;
    return `${like}: ${each.join(", ")}`;
  }

  /** What rankers said of a candidate. */
  function said(judgements, place) {
    const title = "How probable it is that the candidate shows the sense, or neither of the two";
    return judgements.flatMap(({ ranker, llm, reasons = [], grades = [] }) => {
      const several = judgements.length > 1 ? ` (${llm})` : "";
      const found = [];
      for (const { candidate, said: words } of reasons) {
        if (candidate !== place) continue;
        const role = words.role ? `: ${words.role}` : "";
        const rows = Object.entries(words)
          .filter(([key]) => key !== "role")
          .map(([key, text]) => make("p", { dir: "auto", text: `${key}: ${text}` }));
        const summary = make("summary", { text: `${ranker}${several}${role}` });
        found.push(make("details", { class: "reason" }, summary, ...rows));
      }
      for (const { candidate, said: chances } of grades) {
        if (candidate !== place) continue;
        const told = Object.entries(chances).map(([key, value]) => `${key} ${value.toFixed(2)}`);
        found.push(make("p", { class: "grades", title, text: `shows: ${told.join(", ")}` }));
      }
      return found;
    });
  }

  function pictureButton(shown, place) {
    const { candidate, url } = shown[place];
    const alt = shortened(candidate.caption || candidate.name, 150);
    const { width, height } = candidate;
    const inside = url
      ? make("img", { src: url, alt, width, height, decoding: "async" })
      : make("span", { text: candidate.caption || candidate.name, dir: "auto" });
    const name = url ? "picture" : "picture text";
    const button = make("button", { type: "button", class: name, title: "Show large" }, inside);
    button.addEventListener("click", () => openPicture(shown, place));
    return button;
  }

  /** The caption, folded where it is long; nothing where the tile itself is the caption. */
  function caption({ caption: text, picture }) {
    if (!text || !picture) return null;
    if (text.length <= LONG) return make("p", { class: "caption", text, dir: "auto" });
    const short = span("short", shortened(text), { dir: "auto" });
    const summary = make("summary", {}, short, unseen("Caption in full"));
    return make("details", { class: "caption" }, summary, make("p", { text, dir: "auto" }));
  }

  /* Documents and figures */

  function documents(result) {
    const rows = result.documents.map(({ id, text, score, relevant, idiom, usage }, rank) => {
      const unknown = [span("told", `${id}: its text is not known`)];
      const judged = relevant ? span("right", "✓ relevant") : "not relevant";
      return make(
        "li",
        { class: relevant ? "document relevant" : "document", "data-id": id },
        span("rank", rank + 1),
        make("span", { dir: "auto" }, ...(text.length ? marked(text) : unknown)),
        span("score", score.toFixed(3).replace("-", "−"), { title: "Score" }),
        make("span", { class: "told" }, ...separated([known(relevant) && judged, idiom, usage])),
      );
    });
    return make("ol", { class: "documents", "aria-label": "Documents, best first" }, ...rows);
  }

  const separated = (things) =>
    things.filter(Boolean).flatMap((thing, k) => (k ? [" · ", thing] : [thing]));

  function figureList(result, { metrics, headings, kind }) {
    if (!result.figures || kind === "senses") return null;
    const rows = metrics.map((metric) => {
      const [name, title] = headings[metric] ?? [metric, null];
      const value = result.figures[metric];
      return pair(name, known(value) ? tidy(value) : "–", title);
    });
    if (known(result.loss) && kind === "ranking") {
      rows.push(pair("loss", tidy(result.loss), "What the item falls short of the best figure"));
    }
    return make("dl", { class: "figures" }, ...rows);
  }

  const tidy = (value) =>
    (Number.isInteger(value) ? String(value) : value.toFixed(2)).replace("-", "−");

  const pair = (name, value, title) =>
    make("div", { title }, make("dt", { text: name }), make("dd", { text: value }));

  /* A picture, large */

  /**
   * Shows one of several pictures or texts in a dialog; arrow keys go through them.
   *
   * @param shown `{candidate, url, told}`, in the order in which they are gone through.
   * @param place which one is shown first, from 0.
   */
  function openPicture(shown, place) {
    const dialog = document.getElementById("picture") ?? pictureDialog();
    let at = place;
    const show = (next) => {
      at = (next + shown.length) % shown.length;
      fillDialog(dialog, shown[at], shown.length, (step) => show(at + step));
    };
    dialog.onkeydown = (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      show(at + step);
    };
    show(place);
    dialog.showModal();
  }

  function pictureDialog() {
    const button = (name, text, more) =>
      make("button", { type: "button", class: name, text, ...more });
    const dialog = make(
      "dialog",
      { id: "picture", "aria-labelledby": "picture-title" },
      make(
        "div",
        { class: "large-head" },
        make("h2", { id: "picture-title", dir: "auto" }),
        button("previous", "←", { "aria-label": "Previous candidate" }),
        button("next", "→", { "aria-label": "Next candidate" }),
        button("close", "Close", { autofocus: "" }),
      ),
      make("div", { class: "large", "aria-live": "polite" }),
    );
    dialog.querySelector(".close").addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close();
    });
    document.body.append(dialog);
    return dialog;
  }

  function fillDialog(dialog, { candidate, url, told }, count, step) {
    dialog.querySelector("h2").textContent = candidate.name;
    const alt = shortened(candidate.caption || candidate.name, 150);
    dialog.querySelector(".large").replaceChildren(
      ...(url ? [make("img", { src: url, alt })] : []),
      make("p", { class: "told", text: told ?? "" }),
      make("p", { class: "large-caption", text: candidate.caption ?? "", dir: "auto" }),
    );
    for (const [name, by] of Object.entries({ previous: -1, next: 1 })) {
      const button = dialog.querySelector(`.${name}`);
      button.hidden = count < 2;
      button.onclick = () => step(by);
    }
  }

  /** Gives people a file. */
  function download(blob, name) {
    const link = make("a", { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  return { counted, download, drawItem, hasNoSense, known, make };
})();
