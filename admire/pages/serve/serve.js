/* The page of `admire serve`: sends what is typed and dropped, shows what the server tells. */

let visitor = document.querySelector("meta[name=visitor]").content;
const { pictures, megabytes, example } = document.querySelector("main").dataset;
const LIMITS = { pictures: Number(pictures), megabytes: Number(megabytes) };
const SESSION = "admire-session"; // where the form and the results stay during a reload
const RETRY = 3000; // milliseconds
const PAUSE = 300; // milliseconds without typing before a language is proposed
const SIDE = 512; // pixels of the pictures that are shown in a row

const { make } = Cards;
const element = (id) => document.getElementById(id);
const listed = (things) => new Intl.ListFormat("en").format(things);
const plural = (count, thing) => `${count} ${thing}${count === 1 ? "" : "s"}`;
const address = (path) => `${path}${path.includes("?") ? "&" : "?"}visitor=${visitor}`;

/** Say something to those who use a screen reader. */
const say = (text) => (element("said").textContent = text);

// ---------------------------------------------------------------- requests and the banner

/** A refusal in the server's words. */
class Refusal extends Error {
  constructor({ title = "The request failed.", detail = "", status = 0 }) {
    super(detail || title);
    this.status = status;
  }
}

/** What the server answers, as JSON. Throws a Refusal. */
async function request(method, path, body, type) {
  const headers = { "Admire-Visitor": visitor, ...(type && { "Content-Type": type }) };
  let answer;
  try {
    answer = await fetch(path, { method, headers, body });
  } catch {
    throw new Refusal({ title: "The server does not answer. Is it running?" });
  }
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const said = await answer
    .json()
    .catch(() => ({ title: `The server answered ${answer.status}.` }));
  if (answer.status === 403) {
    warn(
      "The server was started anew or has let this page go. " +
        "Reload the page: your texts stay, but pictures have to be added again.",
      true,
    );
  }
  throw new Refusal({ ...said, status: answer.status });
}

function warn(text, reload = false) {
  if (!element("banner").hidden && element("banner-text").textContent === text) return;
  element("banner-text").textContent = text;
  element("reload").hidden = !reload;
  element("banner").hidden = false;
}

// ---------------------------------------------------------------- jobs and the stream of events

/** The part of the page where a job is waited for: its elements, the job, and what to do then. */
function waitingRoom(prefix, show) {
  const part = (name) => element(prefix + name);
  const room = {
    show,
    job: null, // its id; "" while the server has not told it
    box: part("waiting"),
    status: part("status"),
    progress: part("progress"),
    stop: part("stop"),
    problem: part("problem"),
  };
  room.stop.addEventListener("click", () => stop(room));
  return room;
}

const ranking = waitingRoom("", showRanking);
const again = waitingRoom("again-", showRanking);
const searching = element("search-form") && waitingRoom("search-", showFound);
const rooms = [ranking, again, searching].filter(Boolean);
let posted = Promise.resolve(); // the POSTs of jobs
let stream;

/** Give the server a job. Its end is told by an event. */
async function start(room, body) {
  room.body = body;
  room.job = "";
  room.problem.hidden = true;
  room.box.hidden = false;
  tellProgress(room, "Sent to the server");
  update();
  const asked = request("POST", "/jobs", JSON.stringify(body), "application/json").then(
    (answer) => (room.job = answer.job),
    (refusal) => fail(room, refusal.message),
  );
  posted = Promise.all([posted, asked]);
  await posted;
}

async function stop(room) {
  await posted;
  const { job } = room;
  finish(room);
  say("Stopped.");
  if (job) await request("DELETE", `/jobs/${job}`).catch(() => {}); // it may just have ended
}

function finish(room) {
  const focused = room.box.contains(document.activeElement);
  room.job = null;
  room.box.hidden = true;
  update();
  if (focused) room.box.closest("form").querySelector(".main").focus();
  return focused;
}

function fail(room, text) {
  finish(room);
  room.problem.textContent = text;
  room.problem.hidden = false;
}

/** Show what is done; of one thing it is not known how far it is. */
function tellProgress(room, what, done = 0, total = 1) {
  room.status.textContent = total > 1 ? `${what}, ${done} of ${total}` : what;
  if (total > 1) {
    room.progress.max = total;
    room.progress.value = done;
  } else {
    room.progress.removeAttribute("value");
  }
  if (room.told !== what) say(what); // once a stage, not once a step
  room.told = what;
}

function tellPlace(room, { place }) {
  const loading = element("models").dataset.state === "loading";
  const queue = place === 1 ? "Next in the queue" : `Number ${place} in the queue`;
  const waits = loading ? `${queue}, when the models are loaded` : queue;
  tellProgress(room, place ? waits : "Starting");
}

function tellModels({ state, said, keyless }) {
  for (const option of element("profile").options) {
    option.disabled = keyless.includes(option.value);
    option.text = option.value + (option.disabled ? " (needs OPENAI_API_KEY)" : "");
  }
  element("models").dataset.state = state;
  element("models").textContent = said;
}

function connect() {
  stream = new EventSource(address("/events"));
  stream.addEventListener("open", () => (element("banner").hidden = true));
  stream.addEventListener("error", disconnected);
  stream.addEventListener("models", (event) => tellModels(JSON.parse(event.data)));
  onJob("place", tellPlace);
  onJob("progress", (room, { what, done, total }) => tellProgress(room, what, done, total));
  onJob("result", (room, told) => {
    const focused = finish(room);
    room.show(told, room.body, focused);
  });
  onJob("problem", (room, problem) => fail(room, new Refusal(problem).message));
}

/** Hear events of one kind that are about a job of this page. */
function onJob(kind, act) {
  stream.addEventListener(kind, async (event) => {
    const told = JSON.parse(event.data);
    await posted; // an event may come before the answer that names its job
    const room = rooms.find(({ job }) => job === told.job);
    if (room) act(room, told);
  });
}

async function disconnected() {
  warn("The connection to the server is lost. Trying again…");
  for (const room of rooms) {
    if (room.job === null) continue;
    fail(room, "The work stopped, because the connection to the server was lost.");
  }
  if (stream.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
  try {
    await request("GET", "/pictures/none"); // says whether the server knows the visitor
  } catch (refusal) {
    if (refusal.status !== 403) setTimeout(connect, RETRY);
  }
}

// ---------------------------------------------------------------- candidates

/** In order: `{row, name, caption, picture, state}`; `name` is null without a picture. */
const candidates = [];
const refused = new Map(); // why → names of files
let sending = Promise.resolve(); // files are sent one after the other

function addCandidate(name = null, caption = "") {
  const candidate = { name, picture: null, state: name === null ? "ready" : "sending" };
  candidate.caption = make("textarea", { class: "tile-caption", rows: 2 });
  candidate.caption.value = caption;
  candidate.label = make("span", { class: "tile-name" });
  candidate.picturePlace = make("span", { class: "tile-picture" });
  const button = (kind, text, act) => {
    const made = make("button", { type: "button", class: `tile-${kind}`, text });
    made.addEventListener("click", () => act(candidate));
    return made;
  };
  candidate.up = button("up", "↑", (one) => move(one, -1));
  candidate.down = button("down", "↓", (one) => move(one, 1));
  candidate.drop = button("remove", "×", remove);
  candidate.row = make(
    "li",
    { class: "tile" },
    ...(name === null ? [] : [candidate.picturePlace]),
    make(
      "div",
      { class: "tile-head" },
      candidate.label,
      candidate.up,
      candidate.down,
      candidate.drop,
    ),
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
  const room = LIMITS.pictures - candidates.filter(({ name }) => name !== null).length;
  const fitting = [...files].filter(({ size }) => size <= LIMITS.megabytes * 1e6);
  const taken = fitting.slice(0, Math.max(room, 0));
  for (const file of files) {
    if (taken.includes(file)) {
      const candidate = addCandidate(file.name || "picture");
      sending = sending.then(() => send(candidate, file));
    } else if (fitting.includes(file)) {
      refuse(file.name, `At most ${plural(LIMITS.pictures, "picture")} at a time.`);
    } else {
      refuse(file.name, `Larger than ${LIMITS.megabytes} MB.`);
    }
  }
  if (taken.length) say(`${plural(taken.length, "picture")} added.`);
}

async function send(candidate, file) {
  if (candidate.state === "removed") return;
  try {
    const path = `/pictures?name=${encodeURIComponent(candidate.name)}`;
    const { id, name } = await request("POST", path, file, file.type || "application/octet-stream");
    if (candidate.state === "removed") return;
    showPicture(candidate, id, name);
  } catch (refusal) {
    if (candidate.state === "removed") return;
    refuse(candidate.name, withoutName(refusal.message, candidate.name));
    keepCaption(candidate);
  }
}

function showPicture(candidate, id, name) {
  Object.assign(candidate, { name, picture: id, state: "ready" });
  const src = address(`/pictures/${id}?side=${SIDE}`);
  candidate.picturePlace.append(make("img", { src, alt: "" }));
  update();
}

/** What is left of a candidate whose picture was refused: its caption, if somebody writes one. */
function keepCaption(candidate) {
  const { caption, picturePlace } = candidate;
  if (!caption.value && caption !== document.activeElement) return remove(candidate);
  picturePlace.remove();
  Object.assign(candidate, { name: null, state: "ready" });
  update();
}

/** "night.png: is empty." → "Is empty." */
function withoutName(message, name) {
  const rest = message.startsWith(`${name}: `) ? message.slice(name.length + 2) : message;
  return rest[0].toUpperCase() + rest.slice(1);
}

function refuse(name, why) {
  refused.set(why, [...(refused.get(why) ?? []), name]);
  const count = [...refused.values()].flat().length;
  element("refused-title").textContent = `${plural(count, "file")} not taken`;
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
  const lines = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter(Boolean);
  for (const line of lines) addCandidate(null, line);
  if (lines.length) say(`${plural(lines.length, "caption")} added.`);
}

/** Pictures from anywhere on the page; texts only where no field takes them. */
function paste(event) {
  if (element("panel-rank").hidden) return;
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
  const over = event.type === "dragover" && !element("panel-rank").hidden;
  element("drop").classList.toggle("over", over);
  if (event.type === "drop" && !element("panel-rank").hidden) addFiles(event.dataTransfer.files);
}

// ---------------------------------------------------------------- what stands in the form

const isEmpty = () =>
  !candidates.length && !element("sentence").value && !element("compound").value;

/** What lacks before a ranking can start: `[what, where]` each. */
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
  if (length) lacks.push([`${plural(length, "picture")} to be sent`, element("files")]);
  return lacks;
}

function lackingToSearch() {
  const lacks = [];
  if (!element("search-text").value.trim()) lacks.push(["a text", element("search-text")]);
  if (!element("search-span").value.trim()) lacks.push(["an expression", element("search-span")]);
  const top = element("search-top");
  if (!top.checkValidity()) lacks.push([`a number from ${top.min} to ${top.max}`, top]);
  return lacks;
}

/** Bring all that depends on the form's content up to date. */
function update() {
  candidates.forEach(describe);
  offer(element("rank"), element("why"), lackingToRank(), ranking);
  offer(element("again"), null, [], again);
  hint("compound", "sentence");
  proposeLanguage("sentence", "language");
  element("clear").hidden = isEmpty();
  if (example) element("example").hidden = !isEmpty();
  if (!searching) return;
  offer(element("find"), element("search-why"), lackingToSearch(), searching);
  hint("search-span", "search-text");
  proposeLanguage("search-text", "search-language");
}

const needs = (lacks) => `Needs ${listed(lacks.map(([what]) => what))}.`;

/** Show whether a button can be used, and why not. */
function offer(button, why, lacks, room) {
  const busy = room.job !== null;
  button.setAttribute("aria-disabled", String(busy || lacks.length > 0));
  if (why) why.textContent = lacks.length && !busy ? needs(lacks) : "";
}

/** Whether a button can be used. If not, go to the first thing that lacks. */
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
  const called = `candidate ${place + 1}${name === null ? "" : `, ${name}`}`;
  label.textContent = name ?? "Caption alone";
  label.title = name ?? "";
  row.dataset.state = state;
  caption.setAttribute("aria-label", `Caption of ${called}`);
  caption.placeholder = name === null ? "Caption" : "Caption (optional)";
  up.setAttribute("aria-label", `Move ${called} up`);
  down.setAttribute("aria-label", `Move ${called} down`);
  drop.setAttribute("aria-label", `Remove ${called}`);
  up.disabled = place === 0;
  down.disabled = place === candidates.length - 1;
}

/** Say so if the words do not stand in the text. */
function hint(wordsId, textId) {
  const words = element(wordsId).value.trim();
  const text = element(textId).value;
  const there = text.toLowerCase().includes(words.toLowerCase());
  element(`${wordsId}-hint`).textContent =
    !words || !text.trim() || there ? "" : `“${words}” does not stand in the text like this.`;
}

/** Take what is selected in a text as the words that are meant. */
function takeSelection(textId, wordsId) {
  const text = element(textId);
  const words = text.value.slice(text.selectionStart, text.selectionEnd).trim();
  if (words) element(wordsId).value = words;
  update();
  if (!words) element(`${wordsId}-hint`).textContent = "Select the words in the text first.";
}

/** Tell the browser which language the texts are in. */
function showLanguages() {
  const chosen = ({ value, options }) => value || options[0].dataset.language;
  for (const id of ["sentence", "compound"]) element(id).lang = chosen(element("language"));
  if (!searching) return;
  for (const id of ["search-text", "search-span"]) {
    element(id).lang = chosen(element("search-language"));
  }
}

const proposals = new Map(); // a text's id → `{text, timer}`

/** Propose the language of a text once it is no longer being typed. */
function proposeLanguage(textId, languageId) {
  const text = element(textId).value.trim();
  const before = proposals.get(textId);
  if (before?.text === text) return;
  clearTimeout(before?.timer);
  const timer = setTimeout(async () => {
    const asked = text ? request("POST", "/language", text, "text/plain") : null;
    const language = (await asked?.catch(() => null))?.language;
    if (proposals.get(textId).text === text) showProposal(languageId, text, language);
  }, PAUSE);
  proposals.set(textId, { text, timer });
}

/** The first choice of a language is what the server takes by itself. */
function showProposal(languageId, text, language) {
  const [first, ...others] = element(languageId).options;
  const { value, text: name } = others.find((other) => other.value === (language ?? "en"));
  first.dataset.language = value;
  first.text = text ? `${name} (${language ? "guessed" : "by default"})` : "From the sentence";
  showLanguages();
}

function fill({ sentence, compound, language, profile, candidates: given }) {
  element("sentence").value = sentence;
  element("compound").value = compound;
  element("language").value = language ?? ""; // from the sentence
  if (profile) element("profile").value = profile;
  for (const { name, picture, caption } of given) {
    if (picture) showPicture(addCandidate(name, caption), picture, name);
    else if (caption) addCandidate(null, caption);
  }
  showLanguages();
  update();
}

/** Fill the form with the example, whose pictures are sent like any others. */
async function fillExample() {
  const { candidates: given, ...texts } = JSON.parse(example);
  const open = async ({ name }) => {
    const picture = await (await fetch(`/static/${name}`)).blob();
    return new File([picture], name, { type: picture.type });
  };
  const files = await Promise.all(given.map(open));
  if (!isEmpty()) return;
  fill({ ...texts, candidates: [] });
  addFiles(files);
  candidates.forEach(({ caption }, place) => (caption.value = given[place].caption));
  update();
}

function clear() {
  if (!confirm("Remove the sentence and all candidates from the form?")) return;
  for (const candidate of [...candidates]) remove(candidate);
  forgetRefused();
  ranking.problem.hidden = true;
  fill({ sentence: "", compound: "", language: element("language").value, candidates: [] });
  element("sentence").focus();
}

/** What stands in the form. */
function filled() {
  const value = (id) => element(id).value;
  return {
    sentence: value("sentence"),
    compound: value("compound"),
    language: value("language") || null,
    profile: value("profile"),
    candidates: candidates.map(({ name, picture, caption }) => ({
      name,
      picture,
      caption: caption.value.trim() || null,
    })),
  };
}

// ---------------------------------------------------------------- ranking

/** The ranking on show: `{card, item, body, job, when}` and `told`, the one that the model made. */
let current = null;
const rankings = []; // all on this visit, as drawRanking takes them
let lastFound = null; // by a search: `{found, body}`
const made = new Map(); // job → ranking, of those that a model made

function rank() {
  if (!ready(element("rank"), ranking.job === null ? lackingToRank() : [])) return;
  const asked = filled();
  start(ranking, {
    kind: "rank",
    ...asked,
    candidates: asked.candidates.map(({ picture, caption }) => ({ picture, caption })),
    by_hand: null,
  });
}

function rankAgain() {
  const { told } = current;
  if (!ready(element("again"), [])) return;
  const changed = (sense) => {
    const text = element(`meaning-${sense}`).value.trim();
    return text && text !== said(told.item, sense) ? text : null;
  };
  start(again, {
    ...told.body,
    by_hand: {
      sense: document.querySelector("#by-hand [name=sense]:checked").value || null,
      meanings: { idiomatic: changed("idiomatic"), literal: changed("literal") },
      of: told.job,
    },
  });
}

/** The definitions that the model gave of a sense, one a line. */
function said(item, sense) {
  const reading = item.runs[0].readings?.[0];
  return (reading?.[sense]?.definitions ?? []).join("\n");
}

function showRanking({ job, item }, body, focused) {
  if (body.by_hand?.sense) for (const reading of item.runs[0].readings) reading.votes = null;
  drawRanking({ job, item, body, when: new Date() });
  element("lost").hidden = true;
  keepAddress();
  say(["Ranked.", ...item.warnings, inWords(item)].join(" "));
  goTo("outcome-title", focused);
}

/** Show a ranking, and under it the one that was on show; one of earlier comes back up. */
function drawRanking({ job, item, body, when }) {
  if (current) keepEarlier(current);
  element(`earlier-${job}`)?.remove();
  const before = rankings.findIndex((one) => one.job === job);
  if (before >= 0) rankings.splice(before, 1);
  const card = drawCard(item);
  const next = { card, item, body, job, when };
  rankings.push({ job, item, body, when });
  next.told = made.get(body.by_hand?.of) ?? next; // another tab's may have come without it
  made.set(job, next);
  if (next.told !== current?.told) fillByHand(next.told.item);
  current = next;
  const warnings = item.warnings.map((text) => make("p", { class: "warning", role: "note", text }));
  element("result").replaceChildren(...warnings, card);
  element("outcome-title").textContent = `Result${byHand(body)}`;
  element("save-set").href = address("/set.zip");
  element("save-run").href = address(`/runs/${job}.zip`);
  element("nothing-yet").hidden = true;
  element("outcome").hidden = false;
}

/** Make the page's address that of the result on show, or of the other tab. */
function keepAddress() {
  const shown = tabs.find((tab) => tab.getAttribute("aria-selected") === "true");
  const hash = shown?.id === "tab-search" ? "#search" : current ? `#${current.job}` : "";
  history.replaceState(null, "", location.pathname + location.search + hash);
}

/** Show the result of the page's address, which may be another tab's. */
async function openResult(focused) {
  const job = location.hash.slice(1);
  element("lost").hidden = true;
  if (!job || job === "search" || job === current?.job) return;
  let found = rankings.find((one) => one.job === job);
  try {
    const path = `/results/${encodeURIComponent(job)}`;
    found ??= { job, when: new Date(), ...(await request("GET", path)) };
  } catch (refusal) {
    element("lost").textContent = refusal.message;
    element("lost").hidden = false;
    return;
  }
  drawRanking(found);
  goTo("outcome-title", focused);
}

let drawn = 0;

/** A card without the number of its row, which it has none of. */
function drawCard(item, kind = "ranking") {
  drawn += 1; // a card's number makes its ids
  const card = Cards.drawItem({ ...item, number: drawn }, { kind, runs: [{ name: "this" }] });
  card.querySelector(".number").remove();
  // The large ones are for the dialog.
  for (const image of card.querySelectorAll(".picture img")) image.src += `&side=${SIDE}`;
  return card;
}

function fillByHand(item) {
  element("by-hand-told").checked = true;
  const told = item.runs[0].sense;
  element("as-told").textContent = told ? `as told (${told})` : "as told";
  for (const sense of ["idiomatic", "literal"]) {
    const field = element(`meaning-${sense}`);
    field.value = said(item, sense);
    field.lang = item.language;
    field.placeholder = field.value ? "" : "The model said nothing of it.";
  }
}

/** What was given by hand, as a part of a title. */
function byHand({ by_hand: given }) {
  if (!given) return "";
  const words = Object.values(given.meanings).some(Boolean) ? ["meaning"] : [];
  if (given.sense) words.unshift(`${given.sense} sense`);
  return words.length ? ` by hand: ${listed(words)} given` : " by hand";
}

function inWords({ compound, candidates: shown, runs: [{ sense, order }] }) {
  const { picture, name, caption } = shown[order[0]];
  return `${compound}: ${sense ?? "sense not told"}; first is ${picture ? name : caption}`;
}

/** Bring a result into view, and the focus with it where it was on the button that is gone. */
function goTo(id, focused) {
  const title = element(id);
  if (focused) title.focus({ preventScroll: true });
  const { top } = title.getBoundingClientRect();
  if (top < 0 || top > 0.5 * innerHeight) title.scrollIntoView();
}

function keepEarlier({ card, item, body, job, when }) {
  const time = when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const download = make("a", {
    href: address(`/runs/${job}.zip`),
    download: "",
    text: "Download run folder",
  });
  const open = make("a", { href: `#${job}`, text: "Open again" });
  const kept = make(
    "details",
    { class: "earlier", id: `earlier-${job}` },
    make(
      "summary",
      {},
      make("strong", { text: item.compound, lang: item.language }),
      make("span", {
        text: ` ${item.runs[0].sense ?? "sense not told"}${byHand(body)}, ${body.profile}, ${time}`,
      }),
    ),
    card,
    make("p", { class: "buttons" }, open, download),
  );
  element("earlier-title").after(kept);
  element("earlier").hidden = false;
}

// ---------------------------------------------------------------- search

function search() {
  if (!ready(element("find"), searching.job === null ? lackingToSearch() : [])) return;
  start(searching, {
    kind: "search",
    text: element("search-text").value,
    span: element("search-span").value.trim(),
    language: element("search-language").value || null,
    top: Number(element("search-top").value),
  });
}

function showFound({ found }, body, focused) {
  drawFound({ found, body });
  const count = found.item
    ? plural(found.item.candidates.length, "picture")
    : plural(found.texts.length, "text");
  const meant = [found.sense ?? "sense not told", found.gloss].filter(Boolean).join(", ");
  say(`${count} found. ${body.span}: ${meant}.`);
  goTo("search-outcome-title", focused);
}

function drawFound({ found, body }) {
  lastFound = { found, body };
  const card = found.item ? drawCard(found.item) : drawTexts(found, body);
  element("found").replaceChildren(card);
  element("search-nothing-yet").hidden = true;
  element("search-outcome").hidden = false;
}

function drawTexts({ sense, probability, gloss, texts: told }, body) {
  const documents = told.map(({ id, text, score }) => ({
    id,
    text: [[text, false]],
    score,
  }));
  const item = {
    compound: body.span,
    sentence: marked(body.text, body.span),
    language: body.language,
    runs: [{ reading: { sense, probability, gloss }, documents }],
  };
  return drawCard(item, "retrieval");
}

/** A text in parts, of which those are marked where the words stand. */
function marked(text, words) {
  const at = text.toLowerCase().indexOf(words.toLowerCase());
  if (at < 0) return [[text, false]];
  const end = at + words.length;
  return [
    [text.slice(0, at), false],
    [text.slice(at, end), true],
    [text.slice(end), false],
  ];
}

// ---------------------------------------------------------------- tabs

const tabs = [...document.querySelectorAll("[role=tab]")];

function showTab(tab, focus = false) {
  for (const one of tabs) {
    const chosen = one === tab;
    one.setAttribute("aria-selected", String(chosen));
    one.tabIndex = chosen ? 0 : -1;
    element(one.getAttribute("aria-controls")).hidden = !chosen;
  }
  if (focus) tab.focus();
}

const tabOfAddress = () => element(location.hash === "#search" ? "tab-search" : "tab-rank");

function openTab(tab) {
  showTab(tab, true);
  keepAddress();
}

function changeTab(event) {
  const here = tabs.indexOf(event.target);
  const place = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: -1 }[event.key];
  if (place === undefined) return;
  event.preventDefault();
  openTab(tabs.at(place % tabs.length));
}

// ---------------------------------------------------------------- a reload

/** Kept only while the page is left: a copy of this tab is a visitor of its own. */
function keepSession() {
  const session = { visitor, form: filled(), rankings, lastFound };
  for (const kept of [session, { ...session, rankings: [], lastFound: null }]) {
    try {
      sessionStorage.setItem(SESSION, JSON.stringify(kept));
      return;
    } catch {
      // More than the browser keeps.
    }
  }
}

/** Go on as before a reload; of a visitor whom the server has let go, with the texts alone. */
async function resumeSession() {
  const session = JSON.parse(sessionStorage.getItem(SESSION));
  sessionStorage.removeItem(SESSION);
  if (!session) return;
  const known = await fetch(`/pictures/none?visitor=${session.visitor}`).catch(() => null);
  if (known?.status !== 404) {
    const texts = session.form.candidates.map(({ caption }) => ({ caption }));
    fill({ ...session.form, candidates: texts });
    return;
  }
  visitor = session.visitor;
  fill(session.form);
  for (const one of session.rankings) drawRanking({ ...one, when: new Date(one.when) });
  if (session.lastFound) drawFound(session.lastFound);
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
  element("language").addEventListener("change", showLanguages);
  element("files").addEventListener("change", ({ target }) => {
    addFiles([...target.files]);
    target.value = ""; // so that the same file can be chosen again
  });
  onClick("take-compound", () => takeSelection("sentence", "compound"));
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
  if (example) onClick("example", fillExample);
  onClick("reload", () => location.reload());
}

function listenToPage() {
  for (const kind of ["dragover", "dragleave", "drop"]) addEventListener(kind, followDrag);
  addEventListener("paste", paste);
  addEventListener("pagehide", () => {
    stream.close();
    keepSession();
  });
  addEventListener("pageshow", (event) => {
    if (event.persisted) {
      sessionStorage.removeItem(SESSION);
      connect();
    }
    showLanguages(); // the browser may have filled the form again
    update();
  });
  addEventListener("hashchange", () => {
    if (searching) showTab(tabOfAddress());
    openResult(true);
  });
}

function listenToSearch() {
  onSubmit("search-form", search);
  element("search-form").addEventListener("input", update);
  element("search-language").addEventListener("change", showLanguages);
  onClick("take-span", () => takeSelection("search-text", "search-span"));
  for (const tab of tabs) {
    tab.addEventListener("click", () => openTab(tab));
    tab.addEventListener("keydown", changeTab);
  }
  showTab(tabOfAddress());
}

listenToForm();
listenToPage();
if (searching) listenToSearch();
await resumeSession();
await openResult(false);
showLanguages();
update();
connect();
