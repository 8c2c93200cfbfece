package api

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/impart-im/impart"
)

// otherRoute names every path and method that is not a route: metrics and logs
// do not grow with what strangers ask for.
const otherRoute = "other"

// metrics count requests by route and status.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	panics   prometheus.Counter
}

// newMetrics registers them; without a registry of the caller's it makes one,
// which /metrics then shows.
func newMetrics(config *Config) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "im_http_requests_total", Help: "HTTP requests answered, by route and status.",
		}, []string{"route", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "im_http_request_seconds", Help: "Time from the first byte of an HTTP request to its answer, by route.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"route"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "im_http_panics_total", Help: "HTTP requests whose handler panicked: each is a fault to report.",
		}),
	}
	registerer := config.Registerer
	if registerer == nil {
		own := prometheus.NewRegistry()
		registerer = own
		if config.Gatherer == nil {
			config.Gatherer = own
		} else {
			config.Gatherer = prometheus.Gatherers{config.Gatherer, own}
		}
	}
	if config.Gatherer == nil {
		config.Gatherer = prometheus.Gatherers{}
	}
	registerer.MustRegister(m.requests, m.seconds, m.panics)
	return m
}

// recorder notes what was answered.
type recorder struct {
	http.ResponseWriter
	status int // 0: nothing yet
	bytes  int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(p)
	r.bytes += n
	return n, err
}

// Unwrap lets [http.ResponseController] through.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// observe runs next and counts what came of it. The log line has no query, no
// header, no body: what could be a secret is never at hand here.
func (s *server) observe(w http.ResponseWriter, r *http.Request, route string, next func(http.ResponseWriter)) {
	start := time.Now()
	rec := &recorder{ResponseWriter: w}
	defer func() {
		took := time.Since(start)
		s.metrics.requests.WithLabelValues(route, strconv.Itoa(rec.status)).Inc()
		s.metrics.seconds.WithLabelValues(route).Observe(took.Seconds())
		s.Log.LogAttrs(r.Context(), slog.LevelDebug, "http request", slog.String("route", route),
			slog.Int("status", rec.status), slog.Int("bytes", rec.bytes), slog.Duration("took", took))
	}()
	defer s.recoverPanic(rec, r, route, func() bool { return rec.status != 0 })
	next(rec)
}

// recoverPanic answers 500 for a handler that panicked, unless an answer is
// under way; then the connection is cut, so that half an answer is not taken
// for a whole one. Call it deferred.
func (s *server) recoverPanic(w http.ResponseWriter, r *http.Request, route string, answered func() bool) {
	cause := recover()
	if cause == nil {
		return
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause)
	}
	s.metrics.panics.Inc()
	s.Log.LogAttrs(r.Context(), slog.LevelError, "http handler panicked",
		slog.String("route", route), slog.String("panic", fmt.Sprint(cause)), slog.String("stack", stack()))
	if answered() {
		panic(http.ErrAbortHandler)
	}
	writeError(w, http.StatusInternalServerError,
		impart.Errorf(impart.Unavailable, "the server could not finish this; send it again unchanged"))
}

// stack is the calls that led to the panic, on one line.
func stack() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)])
	var calls []string
	for {
		frame, more := frames.Next()
		calls = append(calls, frame.Function+":"+strconv.Itoa(frame.Line))
		if !more {
			return strings.Join(calls, " < ")
		}
	}
}
