package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestALogThatNobodyReadsStopsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, to := io.Pipe()
		w := newLogWriter(to)
		began, dropped := time.Now(), testutil.ToFloat64(logDropped)
		for i := range logLines + 501 {
			fmt.Fprintf(w, "line %d\n", i)
		}
		if took := time.Since(began); took != logPatience {
			t.Errorf("logging took %v, want one line's patience of %v", took, logPatience)
		}
		read := make(chan string)
		go func() {
			text, _ := io.ReadAll(reader)
			read <- string(text)
		}()
		synctest.Wait()
		fmt.Fprintln(w, "and on")
		w.close()
		_ = to.Close()
		text := <-read
		if n := strings.Count(text, "line "); n != logLines+1 {
			t.Errorf("%d lines were written, want the first and the %d that waited", n, logLines)
		}
		if n := testutil.ToFloat64(logDropped) - dropped; n != 500 {
			t.Errorf("im_log_dropped_total has risen by %v, want 500", n)
		}
		if !strings.Contains(text, "lines=500\n") || !strings.HasSuffix(text, "and on\n") {
			t.Errorf("the log ends with %q", text[max(0, len(text)-300):])
		}
	})
}

func TestALogIsWrittenWhenItsLineReturns(t *testing.T) {
	var log bytes.Buffer
	w := newLogWriter(&log)
	defer w.close()
	for i := range 100 {
		fmt.Fprintf(w, "%d\n", i)
		if n := bytes.Count(log.Bytes(), []byte("\n")); n != i+1 {
			t.Fatalf("%d lines were written of %d", n, i+1)
		}
	}
}

// TestAServerWhoseLogIsFull starts with a pipe for a log that takes nothing.
func TestAServerWhoseLogIsFull(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "log")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(pipe, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := log.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = log.Write(make([]byte, 4096))
	}
	// A server that does not start is asked for its log, which ends with its last writer.
	defer time.AfterFunc(readyTime+time.Second, func() { _ = log.Close() }).Stop()
	p, err := startServer(t.TempDir(), pipe, []string{"IM_LOG_LEVEL=debug", "IM_AUTH_HMAC_SECRET=0123456789abcdef0123456789abcdef"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	for range 50 {
		resp, err := client.Get(p.url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(endTime):
		t.Error("it has not ended")
	}
}
