package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/auth"
)

// The headers that name the device of a request. Their bytes are the id as it
// is; an id that starts or ends with a space cannot be named in a header.
const (
	deviceHeader  = "Impart-Device"
	installHeader = "Impart-Install"
)

// maxRequest is the most bytes of a request body, as of a frame.
const maxRequest = 1 << 20

// call is one request that is under way.
type call struct {
	*server
	w        http.ResponseWriter
	r        *http.Request
	route    *route
	identity impart.Identity // of a bearer route
	body     []byte          // whole; empty when the route takes none
}

// open checks who asks and reads the body.
func (c *call) open() error {
	switch c.route.access {
	case public:
	case bearer:
		token, err := auth.Bearer(c.r)
		if err != nil {
			return err
		}
		if c.identity, err = c.Auth.Verify(c.r.Context(), token); err != nil {
			return err
		}
	case admin:
		if err := c.admit(); err != nil {
			return err
		}
	}
	return c.readBody()
}

// admit opens the admin API to the holder of the admin token. Without one it is
// open in dev login, to this machine alone.
func (c *call) admit() error {
	if c.AdminToken == "" {
		if c.AdminOpen && c.Auth.Dev() && fromLoopback(c.r) {
			return nil
		}
		return impart.Errorf(impart.Unauthenticated, "the admin API is closed; set IM_ADMIN_TOKEN to open it")
	}
	token, err := auth.Bearer(c.r)
	if err != nil {
		return err
	}
	given, wanted := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(c.AdminToken))
	if subtle.ConstantTimeCompare(given[:], wanted[:]) != 1 {
		return impart.Errorf(impart.Unauthenticated, "the admin token is not accepted")
	}
	return nil
}

func fromLoopback(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// readBody takes the whole body. One that is not declared as JSON is refused: a
// page of another site can send the other types without asking first.
func (c *call) readBody() error {
	shape := c.route.doc.body
	bodyDeadline(c.w, c.Timeout)
	if c.r.ContentLength > maxRequest {
		return c.tooLarge()
	}
	body, err := io.ReadAll(io.LimitReader(c.r.Body, maxRequest+1))
	switch {
	case len(body) > maxRequest:
		return c.tooLarge()
	case err != nil:
		e := impart.Errorf(impart.BadFrame, "the body could not be read to its end")
		e.Cause = err
		return e
	case len(body) == 0 && (shape == nil || c.route.doc.bodyOptional):
		return nil
	case shape == nil:
		return impart.Errorf(impart.BadFrame, "this request takes no body")
	case len(body) == 0:
		return impart.Errorf(impart.BadFrame, "the body is missing")
	}
	if mediaType, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || mediaType != "application/json" ||
		len(c.r.Header.Values("Content-Type")) > 1 || params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
		return refuse(http.StatusUnsupportedMediaType, impart.BadFrame, "the body must be JSON, with Content-Type: application/json")
	}
	c.body = body
	return nil
}

// maxDrained is how much of a body that is too large is read all the same: an
// answer that is written while the client still sends would be lost with the
// connection.
const maxDrained = 4 << 20

func (c *call) tooLarge() error {
	n, err := io.CopyN(io.Discard, c.r.Body, maxDrained)
	if err == nil && n == maxDrained {
		c.w.Header().Set("Connection", "close")
	}
	return impart.Errorf(impart.TooLarge, "the request body is over %d bytes", maxRequest)
}

// session binds the request to its user, and to a device if one is named.
func (c *call) session() (impart.Session, error) {
	device, install, err := c.device()
	if err != nil {
		return impart.Session{}, err
	}
	if device == "" {
		return impart.Session{User: c.identity.User}, c.Logic.Authorize(c.r.Context(), c.identity)
	}
	return c.Logic.Visit(c.r.Context(), c.identity, device, install)
}

// deviceSession is session for a request that is nothing without a device.
func (c *call) deviceSession() (impart.Session, error) {
	if len(c.r.Header.Values(deviceHeader)) == 0 {
		return impart.Session{}, impart.Errorf(impart.BadFrame, "the header %s is missing: this request needs a device", deviceHeader)
	}
	return c.session()
}

// device reads the two headers; "" when none is named.
func (c *call) device() (impart.DeviceID, string, error) {
	devices, installs := c.r.Header.Values(deviceHeader), c.r.Header.Values(installHeader)
	switch {
	case len(devices) > 1 || len(installs) > 1:
		return "", "", impart.Errorf(impart.BadFrame, "%s and %s may stand once in a request", deviceHeader, installHeader)
	case len(devices) == 0 && len(installs) == 0:
		return "", "", nil
	case len(devices) == 0:
		return "", "", impart.Errorf(impart.BadFrame, "%s is there without %s", installHeader, deviceHeader)
	}
	if err := impart.CheckID(deviceHeader, devices[0], impart.MaxID); err != nil {
		return "", "", err
	}
	install := ""
	if len(installs) == 1 && installs[0] != "" {
		install = installs[0]
		if err := impart.CheckID(installHeader, install, impart.MaxID); err != nil {
			return "", "", err
		}
	}
	return impart.DeviceID(devices[0]), install, nil
}

// id reads an id out of the path, where it stands percent-encoded.
func (c *call) id(name string) (string, error) {
	id := c.r.PathValue(name)
	return id, impart.CheckID(name, id, impart.MaxID)
}

// seq reads the seq out of the path.
func (c *call) seq() (impart.Seq, error) {
	seq, err := strconv.ParseUint(c.r.PathValue("seq"), 10, 53)
	if err != nil || seq == 0 {
		return 0, impart.Errorf(impart.BadFrame, "seq must be an integer from 1 to 2^53-1")
	}
	return impart.Seq(seq), nil
}

// reply answers 200 with JSON text.
func (c *call) reply(text []byte) error {
	writeJSON(c.w, http.StatusOK, text)
	return nil
}
