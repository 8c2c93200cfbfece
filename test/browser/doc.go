// Package browser drives the demo page in a headless Chromium against the real
// binary: what two people see is compared with what the server holds, over
// crashes, reloads and lost connections. It waits for what the page shows and
// never for time to pass. With -short nothing runs; without a browser the tests
// fail in CI (CI=true) and are skipped with a reason elsewhere.
package browser
