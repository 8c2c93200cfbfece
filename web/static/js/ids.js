// Random text for ids. crypto.randomUUID exists only on https and loopback;
// getRandomValues exists everywhere.

/** Random hexadecimal text of `bytes` bytes. */
export function randomText(bytes) {
  const raw = crypto.getRandomValues(new Uint8Array(bytes));
  return Array.from(raw, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
