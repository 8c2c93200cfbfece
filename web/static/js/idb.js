// IndexedDB requests as promises. A transaction stays open while one of these
// is awaited inside it, and closes by itself when nothing is asked any more.

/** Opens a database and brings it to the schema. */
export function open(name, { version, upgrade }) {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(name, version);
    request.onupgradeneeded = () => upgrade(request.result);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error('another tab holds an older version of this database open'));
  });
}

/** One request with a key: get by default, or getAll, getKey, delete. */
export function get(source, key, method = 'get') {
  return done(source[method](key));
}

/** The keys within a range, ascending. */
export function keys(source, range) {
  return done(source.getAllKeys(range));
}

/** Puts a value and gives its key back. */
export function record(source, value, key) {
  return done(key === undefined ? source.put(value) : source.put(value, key));
}

function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
