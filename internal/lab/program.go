package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/impart-im/impart/internal/fault"
)

// Program finds a program with fault points: the one given, this one if it has
// them, or one that is built in the folder dir from the source tree around the
// working directory. The error says what to do.
func Program(ctx context.Context, given, dir string) (string, error) {
	if given != "" {
		return checked(ctx, given)
	}
	if fault.Enabled {
		return os.Executable()
	}
	root, err := sourceTree()
	if err != nil {
		return "", fmt.Errorf("this program has no fault points (%w): run the lab inside the source tree, or name one that was built with -tags fault: --binary PATH", err)
	}
	path := filepath.Join(dir, "impart-fault")
	build := exec.CommandContext(ctx, "go", "build", "-tags", "fault", "-o", path, "./cmd/impart")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", errors.New("this program has no fault points and there is no go command to build one that has: name one that was built with -tags fault: --binary PATH")
		}
		return "", fmt.Errorf("building a program with fault points in %s: %w\n%s", root, err, strings.TrimSpace(string(out)))
	}
	return path, nil
}

// Simulation builds the test that runs the campaign in virtual time, in the folder
// dir, from the source tree around the working directory, and gives its
// [Fingerprint].
func Simulation(ctx context.Context, dir string) (path, version string, err error) {
	root, err := sourceTree()
	if err != nil {
		return "", "", fmt.Errorf("virtual time is there for Go tests alone, and %w: run this inside it, with the go command", err)
	}
	path = filepath.Join(dir, "simulate.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", path, "./internal/lab/campaign/simulate")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("building the simulation in %s: %w\n%s", root, err, strings.TrimSpace(string(out)))
	}
	version, err = Fingerprint(path)
	return path, version, err
}

// Fingerprint names the content of a program: what was shown of another one is
// not known of this.
func Fingerprint(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)[:6]), nil
}

// checked is path, made absolute, if it is a program with fault points: only such
// a one knows the point that is asked for.
func checked(ctx context.Context, path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("--binary: %w", err)
	}
	probe := exec.CommandContext(ctx, path, "config", "--fault", string(fault.Push)+":drop")
	probe.Env = []string{}
	var says strings.Builder
	probe.Stderr = &says
	if err := probe.Run(); err != nil {
		return "", fmt.Errorf("--binary: %s has no fault points; build it with: go build -tags fault -o PATH ./cmd/impart (%w: %s)",
			path, err, strings.TrimSpace(says.String()))
	}
	return path, nil
}

// sourceTree is the folder of our go.mod at or above the working directory.
func sourceTree() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module github.com/impart-im/impart\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("this is no source tree of Impart")
		}
	}
}
