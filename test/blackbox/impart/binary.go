package impart

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/impart-im/impart/internal/lab/mysql"
	"github.com/impart-im/impart/internal/lab/postgres"
)

// Main is what TestMain calls: it builds the binary once, runs the tests and gives the exit code. IMPART_BIN names a
// binary to use instead; IMPART_RACE=1 builds with the race detector. With -short nothing is built.
func Main(m *testing.M) int {
	flag.Parse()
	if testing.Short() {
		return m.Run()
	}
	if err := locate(); err != nil {
		fmt.Fprintln(os.Stderr, "blackbox:", err)
		return 1
	}
	defer func() { os.RemoveAll(binary.dir) }()
	code := mysql.Tests(postgres.Tests(ending{m})).Run()
	if err := shared.stopped; err != nil {
		fmt.Fprintln(os.Stderr, "blackbox: shared server:", err)
		code = max(code, 1)
	}
	if left := leftovers(5 * time.Second); left != "" {
		fmt.Fprintf(os.Stderr, "blackbox: goroutines outlive the tests:\n%s\n", left)
		code = max(code, 1)
	}
	return code
}

// SideBySide lets n tests wait side by side, where nearly all of their time is spent waiting for another process: by
// default as many run as there are processors. It comes before [Main]. An explicit -parallel wins.
func SideBySide(n int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}

// ending ends the shared server after the tests, and before its database.
type ending struct{ m *testing.M }

func (e ending) Run() int {
	code := e.m.Run()
	shared.stopped = errors.Join(stopShared(), closeGalera(), clusters.close())
	return code
}

// leftovers waits until no goroutine of the clients and the harness is left; it gives the stacks of those that stay.
func leftovers(within time.Duration) string {
	buf := make([]byte, 4<<20)
	for end := time.Now().Add(within); ; <-time.After(20 * time.Millisecond) {
		var left []string
		for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(stack, "/test/blackbox/") && !strings.Contains(stack, "leftovers") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			return strings.Join(left, "\n\n")
		}
	}
}

var binary struct{ path, dir string }

func locate() error {
	if path := os.Getenv("IMPART_BIN"); path != "" {
		abs, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		if _, err := os.Stat(abs); err != nil {
			return fmt.Errorf("IMPART_BIN must name the impart binary: %w", err)
		}
		binary.path = abs
		return nil
	}
	var err error
	if binary.dir, err = os.MkdirTemp("", "impart-blackbox-"); err != nil {
		return err
	}
	binary.path = filepath.Join(binary.dir, "impart")
	return Build(binary.path)
}

var faulty struct {
	once sync.Once
	path string
	err  error
}

// FaultBinary is the binary with fault points, for Config.Binary; it is built for the first who asks.
func FaultBinary(t testing.TB) string {
	t.Helper()
	needBinary(t)
	faulty.once.Do(func() {
		if binary.dir == "" {
			if binary.dir, faulty.err = os.MkdirTemp("", "impart-blackbox-"); faulty.err != nil {
				return
			}
		}
		faulty.path = filepath.Join(binary.dir, "impart-fault")
		faulty.err = Build(faulty.path, "fault")
	})
	if faulty.err != nil {
		t.Fatal(faulty.err)
	}
	return faulty.path
}

// Build builds the binary as path, with build tags.
func Build(path string, tags ...string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	args := []string{"build", "-o", path, "-tags", strings.Join(tags, ",")}
	if os.Getenv("IMPART_RACE") != "" {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "./cmd/impart")...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the binary: %w\n%s", err, out)
	}
	return nil
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working directory")
		}
	}
}

var shared struct {
	once    sync.Once
	stopped error // of its end
	dir     string
	drop    func() error // of its store
	srv     *Server
	err     error
}

// Shared gives one server with default settings for every test that only needs its own conversations on it.
// It runs until Main ends.
func Shared(t testing.TB) *Server {
	t.Helper()
	needBinary(t)
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("", "impart-shared-")
		if err != nil {
			shared.err = err
			return
		}
		shared.dir = dir
		shared.srv, shared.err = launchShared(dir)
	})
	if shared.err != nil {
		t.Fatalf("shared server: %v", shared.err)
	}
	return shared.srv
}

func stopShared() error {
	if shared.srv == nil {
		return nil
	}
	defer os.RemoveAll(shared.dir)
	var errs []error
	for _, s := range slices.Concat([]*Server{shared.srv}, shared.srv.peers, shared.srv.cfg.Logic) {
		s.Kill()
		errs = append(errs, s.Verdict())
	}
	if shared.drop != nil {
		errs = append(errs, shared.drop())
	}
	return errors.Join(errs...)
}

func needBinary(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the real binary: run without -short")
	}
}
