// Package web serves the demo page: two demo users side by side, each a whole
// client of protocol v1. The files under static are served as they are
// committed; nothing is built or generated. It promises the page and its
// headers, keeps no state, and never sees a message: the page speaks to the
// gateway and the admin API by itself.
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed static
var static embed.FS

// policy lets the page load its own files and speak WebSocket, and nothing
// else: no inline script or style, no frame around it, no form that leaves it.
const policy = "default-src 'self'; connect-src 'self' ws: wss:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const (
	indexPage   = "index.html"
	missingPage = "404.html"
)

// contentTypes is a table of our own because the one of package mime depends on
// the machine; a file with another ending is a mistake that files finds at start.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// file is one embedded file, ready to be served.
type file struct {
	body []byte
	kind string // Content-Type
	etag string // strong, of the content
}

// Handler serves the demo page at "/" and the files it loads below it. Every
// answer carries the content security policy; a file is revalidated by its ETag
// on each use, so that a new binary is never met by an old script. Unknown paths
// get a 404 page, and methods other than GET and HEAD get 405.
func Handler() http.Handler {
	files, err := load(static)
	if err != nil {
		panic("web: the embedded files are not servable: " + err.Error())
	}
	return &handler{files: files}
}

type handler struct {
	files map[string]file // by URL path
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "this page is only read: use GET or HEAD", http.StatusMethodNotAllowed)
		return
	}
	f, ok := h.files[r.URL.Path]
	if !ok {
		h.missing(w, r)
		return
	}
	header.Set("Cache-Control", "no-cache")
	header.Set("Content-Type", f.kind)
	header.Set("ETag", f.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
}

// missing answers with the 404 page, which is not to be kept.
func (h *handler) missing(w http.ResponseWriter, r *http.Request) {
	f := h.files["/"+missingPage]
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", f.kind)
	w.WriteHeader(http.StatusNotFound)
	if r.Method == http.MethodGet {
		_, _ = w.Write(f.body) // the reader went away: nobody is left to tell
	}
}

// load reads every embedded file and keys it by the path it is served under.
func load(tree fs.FS) (map[string]file, error) {
	files := make(map[string]file)
	root, err := fs.Sub(tree, "static")
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		kind, ok := contentTypes[strings.ToLower(path.Ext(name))]
		if !ok {
			return fmt.Errorf("%s has an ending without a content type", name)
		}
		body, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		files["/"+name] = file{body: body, kind: kind, etag: `"` + base64.RawURLEncoding.EncodeToString(sum[:18]) + `"`}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, name := range []string{indexPage, missingPage} {
		if _, ok := files["/"+name]; !ok {
			return nil, fmt.Errorf("%s is missing", name)
		}
	}
	files["/"] = files["/"+indexPage]
	return files, nil
}
