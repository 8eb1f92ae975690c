/* Keeps pictures and results in this browser for a day, so that they are there after a reload. */

const DAY = 86_400_000; // milliseconds
const memory = new Map(); // of this tab, where the browser keeps nothing

const opened = new Promise((resolve, reject) => {
  const opening = indexedDB.open("admire", 1);
  opening.onupgradeneeded = () =>
    opening.result.createObjectStore("kept", { keyPath: "id" }).createIndex("when", "when");
  opening.onsuccess = () => resolve(opening.result);
  opening.onerror = () => reject(opening.error);
});

async function inStore(mode, act) {
  const store = (await opened).transaction("kept", mode).objectStore("kept");
  return new Promise((resolve, reject) => {
    const request = act(store);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** Keep a value under a new `id`, with the time in `when`; return it. */
export async function keep(value) {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const id = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const kept = { ...value, id, when: Date.now() };
  memory.set(id, kept);
  await inStore("readwrite", (store) => store.put(kept)).catch(() => {}); // a full disk, say
  return kept;
}

/** Find a value by its id; undefined if it is not kept. */
export const find = async (id) =>
  memory.get(id) ?? (await inStore("readonly", (store) => store.get(id)).catch(() => undefined));

/** Remove what was kept for more than a day. */
export const removeOld = () =>
  inStore("readwrite", (store) => {
    const old = store.index("when").openCursor(IDBKeyRange.upperBound(Date.now() - DAY));
    old.addEventListener("success", () => {
      old.result?.delete();
      old.result?.continue();
    });
    return old;
  }).catch(() => {});
