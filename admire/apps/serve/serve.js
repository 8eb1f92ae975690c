/* The page of `admire serve`: sends what is typed and dropped, and shows the answers. */

import { downloadZip } from "./client-zip.js";
import { find, keep, removeOld } from "./store.js";

const { examples: samples, ...limits } = document.querySelector("main").dataset;
const examples = JSON.parse(samples);
const [PICTURES, MEGABYTES, TOGETHER] = [limits.pictures, limits.megabytes, limits.together].map(Number);
const token = new URLSearchParams(location.search).get("token");
const SESSION = "admire-session"; // where this tab's form and results are named during a reload
const LINES = "application/x-ndjson";
const RETRY = 1000; // milliseconds
const DEFINITIONS = 2; // of a sense, that count
const PAUSE = 300; // milliseconds without typing before a language is guessed

const { counted, download, make } = Cards;
const element = (id) => document.getElementById(id);
const listed = (words) => new Intl.ListFormat("en").format(words);
const linesOf = (text) =>
  text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter(Boolean);

/** Say something to those who use a screen reader. */
const say = (text) => (element("said").textContent = text);

// ---------------------------------------------------------------- requests

/** A refusal in the server's words. */
class Refusal extends Error {
  constructor({ title = "The request failed.", detail = "" } = {}) {
    super(detail || title);
  }
}

/** Send a request; return the answer if it is a good one. Throws a Refusal. */
async function send(method, path, { body, type, accept, signal } = {}) {
  const headers = {
    ...(type && { "Content-Type": type }),
    ...(accept && { Accept: accept }),
    ...(token && { Authorization: `Bearer ${token}` }),
  };
  const answer = await fetch(path, { method, headers, body, signal }).catch(() => {
    throw new Refusal({ title: "The server does not answer. Is it running?" });
  });
  if (answer.ok) return answer;
  throw new Refusal(
    await answer.json().catch(() => ({ title: `The server answered ${answer.status}.` })),
  );
}

/** Yield the objects of an answer in lines, as they come. */
async function* objectsOf(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    yield* lines.map((line) => JSON.parse(line));
  }
}

const dataUri = (blob) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Refusal({ title: `${blob.name ?? "A picture"}: cannot be read.` }));
    reader.readAsDataURL(blob);
  });

// ---------------------------------------------------------------- work that is waited for

/** The part of the page where work is waited for: its elements, and how to stop it. */
function waitingRoom(prefix) {
  const part = (name) => element(prefix + name);
  const room = {
    work: null, // the AbortController of what is under way
    box: part("waiting"),
    status: part("status"),
    progress: part("progress"),
    problem: part("problem"),
  };
  part("stop").addEventListener("click", () => {
    stop(room);
    say("Stopped.");
  });
  return room;
}

/** Stop what is under way, if anything is. */
function stop(room) {
  if (!room.work) return;
  room.work.abort();
  finish(room);
}

const ranking = waitingRoom("");
const again = waitingRoom("again-");
const saving = waitingRoom("save-");

/** Ask the server for something, show the progress meanwhile, and then what is answered. */
async function start(room, path, body, show, accept = LINES) {
  const work = (room.work = new AbortController());
  const { signal } = work;
  room.problem.hidden = true;
  room.box.hidden = false;
  showProgress(room, "Sent to the server");
  update();
  try {
    const text = JSON.stringify(await body);
    const answer = await send("POST", path, { body: text, type: "application/json", accept, signal });
    const result = accept === LINES ? await lastOf(answer, room) : await answer.blob();
    if (signal.aborted) return;
    await show(result, finish(room));
  } catch (error) {
    if (signal.aborted) return;
    finish(room);
    fail(room, error instanceof Refusal ? error.message : "The connection to the server is lost.");
  }
}

function fail(room, message) {
  room.problem.textContent = message;
  room.problem.hidden = false;
}

/** Show the progress that an answer tells; return its last object. */
async function lastOf(answer, room) {
  for await (const told of objectsOf(answer)) {
    if (told.status) throw new Refusal(told);
    if (!("place" in told)) return told;
    if (told.place) showPlace(room, told.place);
    else showProgress(room, told.stage ?? "Starting", told.done, told.total);
  }
  throw new Refusal({ title: "The connection to the server is lost." });
}

/** Leave a waiting room; tell whether the focus was in it. */
function finish(room) {
  const focused = room.box.contains(document.activeElement);
  room.work = null;
  room.box.hidden = true;
  update();
  if (focused) room.box.parentElement.querySelector(".main, button").focus();
  return focused;
}

/** Show what is done; of a single step it is not known how far it is. */
function showProgress(room, stage, done = 0, total = 1) {
  room.status.textContent = total > 1 ? `${stage}, ${done} of ${total}` : stage;
  if (total > 1) {
    room.progress.max = total;
    room.progress.value = done;
  } else {
    room.progress.removeAttribute("value");
  }
  if (room.stage !== stage) say(stage); // once a stage, not once a step
  room.stage = stage;
}

function showPlace(room, place) {
  const loading = element("models").dataset.state === "loading";
  const queue = place === 1 ? "Next in the queue" : `Number ${place} in the queue`;
  showProgress(room, loading ? `${queue}, when the models are loaded` : queue);
}

/** Show the state of the models until they are loaded. */
async function watchModels() {
  try {
    const { state, message, keyless } = await (await send("GET", "/models")).json();
    for (const option of element("profile").options) {
      option.disabled = keyless.includes(option.value);
      option.text = option.value + (option.disabled ? " (needs OPENAI_API_KEY)" : "");
    }
    element("models").dataset.state = state;
    element("models").textContent = message;
    if (state !== "loading") return;
  } catch (refusal) {
    element("models").textContent = refusal.message;
  }
  setTimeout(watchModels, RETRY);
}

// ---------------------------------------------------------------- candidates

/** In order: `{row, name, size, caption, picture, state}`; `name` is null without a picture. */
const candidates = [];
const refused = new Map(); // why → names of files
let adding = Promise.resolve(); // pictures are checked one after the other

function addCandidate(name = null, caption = "", size = 0) {
  const candidate = { name, size, picture: null, state: name === null ? "ready" : "sending" };
  candidate.caption = make("textarea", { class: "tile-caption", rows: 2 });
  candidate.caption.value = caption;
  candidate.label = make("span", { class: "tile-name" });
  candidate.picturePlace = make("span", { class: "tile-picture" });
  const button = (kind, text, act) => {
    const drawn = make("button", { type: "button", class: `tile-${kind}`, text });
    drawn.addEventListener("click", () => act(candidate));
    return drawn;
  };
  candidate.up = button("up", "↑", () => move(candidate, -1));
  candidate.down = button("down", "↓", () => move(candidate, 1));
  candidate.drop = button("remove", "×", remove);
  const { label, up, down, drop } = candidate;
  candidate.row = make(
    "li",
    { class: "tile" },
    name === null ? null : candidate.picturePlace,
    make("div", { class: "tile-head" }, label, up, down, drop),
    candidate.caption,
  );
  candidates.push(candidate);
  element("candidates").append(candidate.row);
  update();
  return candidate;
}

function move(candidate, by) {
  const from = candidates.indexOf(candidate);
  candidates.splice(from, 1);
  candidates.splice(from + by, 0, candidate);
  element("candidates").insertBefore(candidate.row, candidates[from + by + 1]?.row ?? null);
  update();
  const used = by < 0 ? candidate.up : candidate.down;
  (used.disabled ? (by < 0 ? candidate.down : candidate.up) : used).focus();
  say(`Now candidate ${from + by + 1} of ${candidates.length}.`);
}

function remove(candidate) {
  const place = candidates.indexOf(candidate);
  const focused = candidate.row.contains(document.activeElement);
  candidates.splice(place, 1);
  candidate.row.remove();
  candidate.state = "removed";
  update();
  const next = candidates[Math.min(place, candidates.length - 1)];
  if (focused) (next ? next.drop : element("add-caption")).focus();
}

/** Take as many files as the limits let, and say which were not taken. */
function addFiles(files) {
  let count = candidates.filter(({ name }) => name !== null).length;
  let bytes = candidates.reduce((sum, { size }) => sum + size, 0);
  const before = count;
  for (const file of files) {
    const { name, size } = file;
    if (size > MEGABYTES * 1e6) refuse(name, `Larger than ${MEGABYTES} MB.`);
    else if (count >= PICTURES) refuse(name, `At most ${counted(PICTURES, "picture")} at a time.`);
    else if (bytes + size > TOGETHER * 1e6) refuse(name, `Together larger than ${TOGETHER} MB.`);
    else {
      count += 1;
      bytes += size;
      const candidate = addCandidate(name || "picture", "", size);
      adding = adding.then(() => addPicture(candidate, file));
    }
  }
  if (count > before) say(`${counted(count - before, "picture")} added.`);
}

/** Have a candidate's picture checked and made small by the server, and keep it. */
async function addPicture(candidate, file) {
  if (candidate.state === "removed") return;
  try {
    const answer = await send("POST", "/thumbnail", { body: file });
    const image = new Image();
    image.src = await dataUri(await answer.blob());
    await image.decode();
    const { src: thumbnail, naturalWidth: width, naturalHeight: height } = image;
    const picture = await keep({ name: candidate.name, file, thumbnail, width, height });
    if (candidate.state !== "removed") showPicture(candidate, picture);
  } catch (refusal) {
    if (candidate.state === "removed") return;
    refuse(candidate.name, withoutName(refusal.message));
    keepCaption(candidate);
  }
}

function showPicture(candidate, { id, thumbnail }) {
  Object.assign(candidate, { picture: id, state: "ready" });
  candidate.picturePlace.append(make("img", { src: thumbnail, alt: "" }));
  update();
}

/** Keep the caption of a candidate whose picture was refused, if there is one or will be. */
function keepCaption(candidate) {
  const { caption, picturePlace } = candidate;
  if (!caption.value && caption !== document.activeElement) return remove(candidate);
  picturePlace.remove();
  Object.assign(candidate, { name: null, size: 0, state: "ready" });
  update();
}

/** "picture: is empty." → "Is empty." */
function withoutName(message) {
  const rest = message.replace(/^picture: /, "");
  return rest[0].toUpperCase() + rest.slice(1);
}

function refuse(name, why) {
  refused.set(why, [...(refused.get(why) ?? []), name]);
  const count = [...refused.values()].flat().length;
  element("refused-title").textContent = `${counted(count, "file")} not taken`;
  element("refused-list").replaceChildren(
    ...[...refused].map(([reason, names]) =>
      make("li", {}, make("strong", { text: reason }), make("span", { text: names.join(", ") })),
    ),
  );
  element("refused").hidden = false;
}

function forgetRefused() {
  refused.clear();
  element("refused").hidden = true;
}

/** Each line that is not empty becomes a caption candidate. */
function addCaptions(text) {
  const lines = linesOf(text);
  for (const line of lines) addCandidate(null, line);
  if (lines.length) say(`${counted(lines.length, "caption")} added.`);
}

/** Pictures from anywhere on the page; texts only where no field takes them. */
function paste(event) {
  const files = [...event.clipboardData.files];
  const text = event.clipboardData.getData("text/plain");
  const inField = event.target.closest?.("textarea, input, select");
  if (inField && (text || !files.length)) return;
  event.preventDefault();
  if (files.length) addFiles(files);
  else addCaptions(text);
}

function followDrag(event) {
  if (!event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault(); // else the browser opens the file in place of the page
  element("drop").classList.toggle("over", event.type === "dragover");
  if (event.type === "drop") addFiles(event.dataTransfer.files);
}

// ---------------------------------------------------------------- the contents of the form

const isEmpty = () =>
  !candidates.length && !element("sentence").value && !element("compound").value;

/** List what lacks before a ranking can start: `[what, where]` each. */
function lackingToRank() {
  const lacks = [];
  if (!element("sentence").value.trim()) lacks.push(["a sentence", element("sentence")]);
  if (!element("compound").value.trim()) lacks.push(["a compound", element("compound")]);
  if (candidates.length < 2) {
    lacks.push([candidates.length ? "one more candidate" : "two candidates", element("files")]);
  }
  candidates.forEach(({ name, caption }, place) => {
    if (name !== null || caption.value.trim()) return;
    lacks.push([`a caption for candidate ${place + 1}`, caption]);
  });
  const { length } = candidates.filter(({ state }) => state === "sending");
  if (length) lacks.push([`${counted(length, "picture")} to be checked`, element("files")]);
  return lacks;
}

/** Bring all that depends on the form's content up to date. */
function update() {
  candidates.forEach(describe);
  offer(element("rank"), element("why"), lackingToRank(), ranking);
  offer(element("again"), null, [], again);
  hint();
  guessLanguage();
  element("clear").hidden = isEmpty();
}

const needs = (lacks) => `Needs ${listed(lacks.map(([what]) => what))}.`;

/** Show whether a button can be used, and why not. */
function offer(button, why, lacks, room) {
  const busy = room.work !== null;
  button.setAttribute("aria-disabled", String(busy || lacks.length > 0));
  if (why) why.textContent = lacks.length && !busy ? needs(lacks) : "";
}

/** Tell whether a button can be used. If not, go to the first thing that lacks. */
function ready(button, lacks) {
  if (button.getAttribute("aria-disabled") !== "true") return true;
  if (lacks.length) {
    lacks[0][1].focus();
    say(needs(lacks));
  }
  return false;
}

function describe(candidate, place) {
  const { name, caption, label, row, up, down, drop, state } = candidate;
  const title = `candidate ${place + 1}${name === null ? "" : `, ${name}`}`;
  label.textContent = name ?? "Caption alone";
  label.title = name ?? "";
  row.dataset.state = state;
  caption.setAttribute("aria-label", `Caption of ${title}`);
  caption.placeholder = name === null ? "Caption" : "Caption (optional)";
  up.setAttribute("aria-label", `Move ${title} up`);
  down.setAttribute("aria-label", `Move ${title} down`);
  drop.setAttribute("aria-label", `Remove ${title}`);
  up.disabled = place === 0;
  down.disabled = place === candidates.length - 1;
}

/** Warn if the sentence does not contain the compound. */
function hint() {
  const words = element("compound").value.trim();
  const text = element("sentence").value;
  const stands = text.toLowerCase().includes(words.toLowerCase());
  element("compound-hint").textContent =
    !words || !text.trim() || stands ? "" : `“${words}” is not in the text in this form.`;
}

/** Take what is selected in the sentence as the compound. */
function takeSelection() {
  const { value, selectionStart, selectionEnd } = element("sentence");
  const words = value.slice(selectionStart, selectionEnd).trim();
  if (words) element("compound").value = words;
  update();
  if (!words) element("compound-hint").textContent = "Select the words in the text first.";
}

/** Tell the browser which language the texts are in. */
function showLanguage() {
  const { value, options } = element("language");
  for (const id of ["sentence", "compound"]) element(id).lang = value || options[0].dataset.language;
}

const guess = { text: "", timer: null };

/** Guess the language of the sentence once it is no longer being typed. */
function guessLanguage() {
  const text = element("sentence").value.trim();
  if (guess.text === text) return;
  clearTimeout(guess.timer);
  guess.text = text;
  guess.timer = setTimeout(async () => {
    const answer = text && (await send("POST", "/language", { body: text }).catch(() => null));
    const language = answer ? (await answer.json()).language : null;
    if (guess.text === text) showGuess(text, language);
  }, PAUSE);
}

/** Show as the first choice of the language what the server takes by itself. */
function showGuess(text, language) {
  const [first, ...others] = element("language").options;
  const code = language ?? "en";
  const offered = others.find((other) => other.value === code);
  const name = offered?.text ?? new Intl.DisplayNames("en", { type: "language" }).of(code);
  first.dataset.language = code;
  first.text = text ? `${name} (${language ? "guessed" : "by default"})` : "From the sentence";
  showLanguage();
}

async function fill({ sentence, compound, language, profile, candidates: kept }) {
  element("sentence").value = sentence;
  element("compound").value = compound;
  element("language").value = language ?? ""; // from the sentence
  if (profile) element("profile").value = profile;
  for (const { picture: id, caption } of kept) {
    const picture = id && (await find(id));
    if (picture) {
      showPicture(addCandidate(picture.name, caption ?? "", picture.file.size), picture);
    } else if (caption) addCandidate(null, caption);
  }
  showLanguage();
  update();
}

/** Whether the form has nothing but an example, which can be had again. */
const isExample = () =>
  examples.some(
    ({ sentence, compound, candidates: things }) =>
      element("sentence").value === sentence &&
      element("compound").value === compound &&
      candidates.length === things.length &&
      candidates.every(({ caption }, place) => caption.value === things[place].caption),
  );

/** Fill the form with an example, whose pictures are added like any others, and rank it. */
async function tryExample({ candidates: things, sentence, compound }) {
  const question = "Replace the sentence and all candidates in the form by the example?";
  if (!isEmpty() && !isExample() && !confirm(question)) return;
  showExamples(false);
  element("rank").focus({ preventScroll: true });
  stop(ranking);
  empty();
  fill({ sentence, compound, candidates: [] });
  const open = async ({ name }) => {
    const picture = await (await send("GET", `/static/${name}`)).blob();
    return new File([picture], name, { type: picture.type });
  };
  try {
    const files = await Promise.all(things.map(open));
    if (candidates.length || element("sentence").value !== sentence) return; // changed meanwhile
    addFiles(files);
  } catch (refusal) {
    return fail(ranking, refusal.message);
  }
  candidates.forEach(({ caption }, place) => (caption.value = things[place].caption));
  update();
  await adding;
  if (!lackingToRank().length && isExample()) rank();
}

const showExamples = (open) => (element("examples").open = open);

function empty() {
  for (const candidate of [...candidates]) remove(candidate);
  forgetRefused();
  ranking.problem.hidden = true;
  fill({ sentence: "", compound: "", language: element("language").value, candidates: [] });
}

function clear() {
  if (!confirm("Remove the sentence and all candidates from the form?")) return;
  empty();
  showExamples(true);
  element("sentence").focus();
}

/** Return the contents of the form: a row, with ids for pictures. */
function rowOfForm() {
  const value = (id) => element(id).value;
  return {
    sentence: value("sentence"),
    compound: value("compound"),
    language: value("language") || null,
    profile: value("profile"),
    candidates: candidates.map(({ picture, caption }) => ({
      picture,
      caption: caption.value.trim() || null,
    })),
  };
}

// ---------------------------------------------------------------- ranking

/** The result on show: what is kept of it, its card, and `told`, the one that the model made. */
let current = null;
const results = []; // all of this tab, the last shown last

function rank() {
  if (!ready(element("rank"), ranking.work ? [] : lackingToRank())) return;
  showExamples(false);
  startRanking(ranking, rowOfForm(), null);
}

function rankAgain() {
  if (!ready(element("again"), [])) return;
  const { told } = current;
  const hand = {
    of: told.id,
    sense: document.querySelector("#by-hand [name=sense]:checked").value || null,
    meanings: {},
  };
  for (const sense of ["idiomatic", "literal"]) {
    const text = element(`meaning-${sense}`).value.trim();
    if (text && text !== definitionsOf(told, sense)) hand.meanings[sense] = text;
  }
  startRanking(again, { ...told.row, readings: readingsByHand(told, hand) }, hand);
}

function startRanking(room, row, hand) {
  start(room, "/v1/rank", rowToSend(row), async (answer, focused) => {
    const result = await keep({ row, hand, ranking: answer });
    await drawResult(result);
    element("lost").hidden = true;
    keepAddress();
    say(["Ranked.", ...answer.warnings, inWords(current.item)].join(" "));
    goTo("outcome-title", focused);
  });
}

/** The row with its pictures in it. */
async function rowToSend(row) {
  const open = async ({ picture: id, caption }) => {
    const picture = id && (await find(id));
    return picture
      ? { caption, name: picture.name, image: await dataUri(picture.file) }
      : { caption };
  };
  return { ...row, candidates: await Promise.all(row.candidates.map(open)) };
}

/** The definitions that the model gave of a sense, one a line. */
const definitionsOf = ({ ranking: { readings } }, sense) =>
  (readings[0]?.[sense].definitions ?? []).join("\n");

/** The model's readings, with what a person says in place of what it said. */
function readingsByHand({ ranking: { readings } }, { sense, meanings }) {
  const p = Number(sense === "idiomatic");
  const decided = sense && { sense, probability_idiomatic: p, votes: {}, by: "given" };
  const defined = Object.fromEntries(
    Object.entries(meanings).map(([label, text]) => [label, { definitions: linesOf(text) }]),
  );
  return readings.map((reading) => ({ ...reading, ...decided, ...defined }));
}

/** A result as an item that cards.js draws. Nobody gave gold, so the item itself has no sense. */
async function itemOf({ row, ranking: answer }) {
  const names = answer.candidates.map(({ name }) => name);
  const shown = await Promise.all(row.candidates.map(({ picture }) => picture && find(picture)));
  const things = row.candidates.map(({ caption }, place) => {
    const { thumbnail: picture = null, width, height } = shown[place] ?? {};
    return { name: names[place], caption, picture, width, height };
  });
  const parts = answer.candidates[0].parts.map(({ of, text, encoder }, k) => {
    const values = answer.candidates.map((candidate) => candidate.parts[k].value);
    return { of, text, encoder, values };
  });
  const order = answer.order.map((name) => names.indexOf(name));
  const scores = answer.candidates.map(({ score }) => score);
  const { compound, language } = answer;
  const sentence = marked(answer.sentence, answer.span);
  const uncompared = answer.uncompared?.map((name) => names.indexOf(name));
  const runs = [{ ...answer, order, uncompared, scores, parts }];
  return { compound, language, sentence, candidates: things, runs };
}

/** A text in parts, of which the one within the span is marked; no part is empty. */
function marked(text, span) {
  const letters = [...text]; // the server counts whole characters
  const [start, end] = span ?? [0, 0];
  const part = (from, to, marks) => [letters.slice(from, to).join(""), marks];
  const parts = [part(0, start, false), part(start, end, true), part(end, undefined, false)];
  return parts.filter(([text]) => text);
}

/** Show a result, and under it the one that was on show; one of earlier comes back up. */
async function drawResult(result) {
  const { id, row, hand } = result;
  const item = await itemOf(result);
  const told = (hand && (await find(hand.of))) ?? result;
  if (current) keepEarlier(current);
  element(`earlier-${id}`)?.remove();
  const before = results.findIndex((other) => other.id === id);
  if (before >= 0) results.splice(before, 1);
  results.push(result);
  if (told.id !== current?.told.id) fillByHand(told);
  current = { ...result, item, told, card: drawCard(item) };
  element("result").replaceChildren(...warningsOf(result), current.card);
  element("outcome-title").textContent = `Result${byHand(hand)}`;
  element("nothing-yet").hidden = true;
  element("outcome").hidden = false;
}

const warningsOf = ({ ranking: { warnings } }) =>
  warnings.map((text) => make("p", { class: "warning", role: "note", text }));

/** Make the page's address that of the result on show. */
function keepAddress() {
  history.replaceState(null, "", `${location.pathname}${location.search}#${current.id}`);
}

/** Show the result of the page's address, which may be another tab's. */
async function openResult(focused) {
  const id = location.hash.slice(1);
  element("lost").hidden = true;
  if (!id || id === current?.id) return;
  const result = await find(id);
  if (result) {
    await drawResult(result);
    goTo("outcome-title", focused);
  } else element("lost").hidden = false;
}

let cards = 0;

/** Draw a card without the number of its row, which it has none of. */
function drawCard(item) {
  cards += 1; // a card's number makes its ids
  const card = Cards.drawItem({ ...item, number: cards }, { kind: "ranking", runs: [{ name: "this" }] });
  card.querySelector(".number").remove();
  return card;
}

function fillByHand(told) {
  const { sense, language } = told.ranking;
  element("by-hand-told").checked = true;
  element("as-told").textContent = sense ? `as detected (${sense})` : "as detected";
  for (const label of ["idiomatic", "literal"]) {
    const field = element(`meaning-${label}`);
    field.value = definitionsOf(told, label);
    field.lang = language;
    field.placeholder = field.value ? "" : "The model gave no meaning for this sense.";
  }
}

/** Say in a part of a title what was set by hand. */
function byHand(hand) {
  if (!hand) return "";
  const words = Object.keys(hand.meanings).length ? ["meaning"] : [];
  if (hand.sense) words.unshift(`${hand.sense} sense`);
  return words.length ? ` by hand: ${listed(words)} given` : " by hand";
}

function inWords({ compound, candidates: things, runs: [{ sense, order }] }) {
  const { picture, name, caption } = things[order[0]];
  return `${compound}: ${sense ?? "sense unknown"}; first is ${picture ? name : caption}`;
}

/** Bring a result into view, and the focus with it where it was on the button that is gone. */
function goTo(id, focused) {
  const title = element(id);
  if (focused) title.focus({ preventScroll: true });
  const { top } = title.getBoundingClientRect();
  if (top < 0 || top > 0.5 * innerHeight) title.scrollIntoView();
}

/** Show a result folded under the one that is on show. */
function keepEarlier({ id, when, row, hand, ranking: { sense }, item, card }) {
  const time = new Date(when).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const facts = `${sense ?? "sense unknown"}${byHand(hand)}, ${row.profile}, ${time}`;
  const compound = make("strong", { text: item.compound, lang: item.language });
  const summary = make("summary", {}, compound, ` ${facts}`);
  const open = make("a", { href: `#${id}`, text: "Open again" });
  const earlier = make(
    "details",
    { class: "earlier", id: `earlier-${id}` },
    summary,
    card,
    make("p", { class: "buttons" }, open),
  );
  element("earlier-title").after(earlier);
  element("earlier").hidden = false;
}

// ---------------------------------------------------------------- downloads

/** Save an image set that `admire rank` reads: each item once, as it was last ranked. */
async function saveSet() {
  const last = new Map();
  for (const { row, hand, ranking: answer } of results) {
    const { compound, sentence, language } = answer;
    const key = JSON.stringify([compound.toLowerCase(), sentence, language]);
    last.delete(key);
    const sense = hand?.sense ? { sentence_type: hand.sense } : {};
    const written = hand?.meanings[answer.sense]; // of the sense that the item is ranked by
    const meaning = written ? { definitions: linesOf(written).slice(0, DEFINITIONS) } : {};
    const { candidates: things } = row;
    last.set(key, { compound, sentence, language, candidates: things, ...sense, ...meaning });
  }
  const files = new Map(); // picture's id → `{name, input}`
  for (const id of [...last.values()].flatMap((row) => row.candidates.map(({ picture }) => picture))) {
    const picture = id && (await find(id));
    if (picture) files.set(id, { name: freeName(picture.name, files), input: picture.file });
  }
  const lines = [...last.values()].map((row) => {
    const things = row.candidates.map(({ picture, caption }) => ({
      ...(files.has(picture) && { image: files.get(picture).name }),
      ...(caption && { caption }),
    }));
    return `${JSON.stringify({ ...row, candidates: things })}\n`;
  });
  const manifest = { name: "manifest.jsonl", input: lines.join("") };
  download(await downloadZip([manifest, ...files.values()]).blob(), "set.zip");
}

/** A path in the set that any file system takes and no other of its files has. */
function freeName(name, files) {
  const plain = name.replace(/[^\p{L}\p{N}.-]+/gu, "_").replace(/^[._-]+/, "") || "picture";
  const taken = [...files.values()].map((file) => file.name.toLowerCase());
  let path = `pictures/${plain}`;
  for (let number = 2; taken.includes(path.toLowerCase()); number += 1) {
    path = `pictures/${number}_${plain}`;
  }
  return path;
}

function saveRun() {
  if (saving.work) return;
  const show = (blob) => download(blob, "run.zip");
  start(saving, "/v1/rank", rowToSend(current.row), show, "application/zip");
}

// ---------------------------------------------------------------- a reload

function keepSession() {
  const session = { form: rowOfForm(), results: results.map(({ id }) => id) };
  sessionStorage.setItem(SESSION, JSON.stringify(session));
}

/** Go on as before a reload. */
async function resumeSession() {
  const session = JSON.parse(sessionStorage.getItem(SESSION));
  if (!session) return;
  await fill(session.form);
  for (const id of session.results) {
    const result = await find(id);
    if (result) await drawResult(result);
  }
}

// ---------------------------------------------------------------- who listens to what

function onClick(id, act) {
  element(id).addEventListener("click", act);
}

function onSubmit(id, act) {
  element(id).addEventListener("submit", (event) => {
    event.preventDefault();
    act();
  });
  element(id).addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    act();
  });
}

function listenToForm() {
  onSubmit("rank-form", rank);
  onSubmit("by-hand", rankAgain);
  element("rank-form").addEventListener("input", update);
  element("language").addEventListener("change", showLanguage);
  element("files").addEventListener("change", ({ target }) => {
    addFiles([...target.files]);
    target.value = ""; // so that the same file can be chosen again
  });
  onClick("take-compound", takeSelection);
  onClick("add-caption", () => addCandidate().caption.focus());
  onClick("add-captions", () => {
    addCaptions(element("captions").value);
    element("captions").value = "";
    element("many").open = false;
    element("many").querySelector("summary").focus();
  });
  onClick("refused-close", () => {
    forgetRefused();
    element("files").focus();
  });
  onClick("clear", clear);
  document.querySelectorAll(".example").forEach((button, place) => {
    button.addEventListener("click", () => tryExample(examples[place]));
  });
  onClick("save-set", saveSet);
  onClick("save-run", saveRun);
}

function listenToPage() {
  for (const kind of ["dragover", "dragleave", "drop"]) addEventListener(kind, followDrag);
  addEventListener("paste", paste);
  addEventListener("pagehide", keepSession);
  addEventListener("pageshow", () => {
    showLanguage(); // the browser may have filled the form again
    update();
  });
  addEventListener("hashchange", () => openResult(true));
}

listenToForm();
listenToPage();
watchModels();
removeOld();
await resumeSession();
await openResult(false);
showExamples(isEmpty() && !current);
showLanguage();
update();
