package crashfs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// answerTime bounds how long the process of a disk may take for an answer.
const answerTime = 20 * time.Second

// ErrMount is in the error of [Mount] when the system has refused to mount a disk,
// although [Available] found nothing missing.
var ErrMount = errors.New("the system does not mount it")

// Config says where a disk is. All fields are needed.
type Config struct {
	Backing string // directory with what is durable; made if it is not there
	Mount   string // directory under which programs see the disk; made too
	// Command is a program and its first arguments that run [Daemon] with the two
	// arguments that follow, as []string{"impart", "lab", "disk"}.
	Command []string
}

// FS is a mounted disk. Its methods may be called by several goroutines.
type FS struct {
	config Config

	mu      sync.Mutex // guards what follows
	daemon  *daemon    // nil when the power is off
	past    Counts     // of earlier daemons
	current Counts     // last heard from this one
}

// daemon is a process that runs Daemon.
type daemon struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	stderr  bytes.Buffer
	answers chan reply    // one for each request at most
	gone    chan struct{} // closed when it says no more

	// These are set before gone is closed.
	lastWord reply // with Cut, if it came to that
	failed   error // why it says no more, otherwise
}

// Mount mounts a disk. End it with [FS.Close]; when the lab dies without that,
// the disk is taken away too, and what was not flushed is lost.
func Mount(c Config) (*FS, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	if c.Backing == "" || c.Mount == "" || len(c.Command) == 0 {
		return nil, errors.New("a disk needs Backing, Mount and Command")
	}
	for _, dir := range []*string{&c.Backing, &c.Mount} {
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(abs, 0o755); err != nil {
			return nil, err
		}
		*dir = abs
	}
	clearStale()
	fs := &FS{config: c}
	return fs, fs.Remount()
}

// Dir is where programs see the disk.
func (fs *FS) Dir() string { return fs.config.Mount }

// Backing is the directory of what is durable. Nothing should change it while the
// disk is mounted.
func (fs *FS) Backing() string { return fs.config.Backing }

// Remount brings the power back after [FS.PowerCut], with a good disk. Programs
// that used the disk before the cut should have ended. Mounted, it does nothing.
func (fs *FS) Remount() error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.daemon != nil {
		select {
		case <-fs.daemon.gone: // by itself, or at a cut that nobody waited for
			if err := fs.end(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	d, err := startDaemon(fs.config)
	if err != nil {
		return errors.Join(fmt.Errorf("mounting a disk on %s: %w", fs.config.Mount, err), unmount(fs.config.Mount))
	}
	fs.daemon = d
	return nil
}

// SetFaults replaces the faults of the disk, and begins to count hits anew.
func (fs *FS) SetFaults(f Faults) error {
	if err := f.Validate(); err != nil {
		return err
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	_, err := fs.ask(request{Faults: &f})
	return err
}

// Counts are what the disk has done since it was first mounted.
func (fs *FS) Counts() (Counts, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	_, err := fs.ask(request{})
	if errors.Is(err, errOff) {
		err = nil // nothing happens without power
	}
	return fs.past.plus(fs.current), err
}

// PowerCut cuts the power: what was not flushed is dropped, but for what mode
// keeps, drawn from seed. Programs that use the disk see errors from then on, and
// should be killed before [FS.Remount]. It gives what the cut did.
func (fs *FS) PowerCut(mode Mode, seed uint64) (Cut, error) {
	if !mode.known() {
		return Cut{}, fmt.Errorf("there is no power cut %q; there are %s, %s and %s", mode, Clean, Torn, Prefix)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	answer, err := fs.ask(request{Cut: &trap{Mode: mode, Seed: seed}})
	return fs.ended(answer, err)
}

// ArmCut lets the power be cut at the nth write, truncation or flush from now on
// (1 is the next), before that does anything. A flush with nothing to flush does
// not count. See [FS.AwaitCut].
func (fs *FS) ArmCut(mode Mode, seed uint64, nth int) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	_, err := fs.ask(request{Arm: &trap{mode, seed, nth}})
	return err
}

// AwaitCut waits for the power cut that [FS.ArmCut] has prepared, and gives what it
// did. It ends with ctx too; the power is on then.
func (fs *FS) AwaitCut(ctx context.Context) (Cut, error) {
	fs.mu.Lock()
	d := fs.daemon
	fs.mu.Unlock()
	if d == nil {
		return Cut{}, errOff
	}
	select {
	case <-d.gone:
	case <-ctx.Done():
		return Cut{}, context.Cause(ctx)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.daemon != d {
		return Cut{}, errOff
	}
	return fs.ended(d.lastWord, nil)
}

// ended ends a daemon whose last word is known.
func (fs *FS) ended(last reply, err error) (Cut, error) {
	if last.Cut != nil {
		fs.current = last.Counts
	}
	err = errors.Join(err, fs.end())
	if last.Error != "" {
		err = errors.Join(err, errors.New(last.Error))
	}
	if last.Cut == nil {
		return Cut{}, errors.Join(err, errors.New("the process of the disk ended without a power cut"))
	}
	return *last.Cut, err
}

// Close flushes everything, as a machine that is shut down does, and takes the
// mount away, whoever still uses it. Closed or without power, it does nothing.
func (fs *FS) Close() error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.daemon == nil {
		return nil
	}
	answer, err := fs.ask(request{Close: true})
	if answer.Cut != nil { // the power was cut before
		err = nil
	}
	return errors.Join(err, fs.end())
}

var errOff = errors.New("the power of the disk is off: remount it")

// ask sends a request and gives the answer, or the last word of a disk that came
// in between. fs.mu is held.
func (fs *FS) ask(r request) (reply, error) {
	if fs.daemon == nil {
		return reply{}, errOff
	}
	answer, err := fs.daemon.ask(r)
	if err != nil {
		return answer, err
	}
	fs.current = answer.Counts
	if answer.Error != "" {
		return answer, errors.New(answer.Error)
	}
	if answer.Cut != nil && r.Cut == nil {
		return answer, errOff
	}
	return answer, nil
}

// end ends the daemon, however it is, and takes the mount away.
func (fs *FS) end() error {
	if fs.daemon == nil {
		return nil
	}
	fs.daemon.stop()
	fs.daemon = nil
	fs.past, fs.current = fs.past.plus(fs.current), Counts{}
	return unmount(fs.config.Mount)
}

func startDaemon(c Config) (*daemon, error) {
	args := append(append([]string{}, c.Command[1:]...), c.Backing, c.Mount)
	d := &daemon{cmd: exec.Command(c.Command[0], args...), answers: make(chan reply, 1), gone: make(chan struct{})}
	d.cmd.Env = []string{} // nothing of it is its business
	d.cmd.SysProcAttr = apart()
	d.cmd.Stderr = &d.stderr
	var err error
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	go d.listen(out)
	mounted, err := d.answer()
	if err == nil && mounted.Error != "" {
		err = fmt.Errorf("%w: %s", ErrMount, mounted.Error)
	}
	if err != nil {
		d.stop()
		return nil, fmt.Errorf("%w %s", err, strings.TrimSpace(d.stderr.String()))
	}
	return d, nil
}

// ask writes a request and waits for an answer, or for the end.
func (d *daemon) ask(r request) (reply, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return reply{}, err
	}
	_, _ = d.in.Write(append(line, '\n')) // an error says that it ends: see below
	return d.answer()
}

// answer waits for one answer; a process that gives none in time is killed.
func (d *daemon) answer() (reply, error) {
	late := time.AfterFunc(answerTime, func() { _ = d.cmd.Process.Kill() })
	defer late.Stop()
	select {
	case answer := <-d.answers:
		return answer, nil
	case <-d.gone:
	}
	select { // both may have been there
	case answer := <-d.answers:
		return answer, nil
	default:
	}
	if d.lastWord.Cut == nil {
		return reply{}, fmt.Errorf("the process of the disk has ended: %w", d.failed)
	}
	return d.lastWord, nil
}

// listen takes in what the process says until it ends.
func (d *daemon) listen(out io.Reader) {
	defer close(d.gone)
	d.failed = io.ErrUnexpectedEOF
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var answer reply
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			d.failed = err
			return
		}
		if answer.Cut != nil {
			d.lastWord = answer
			return
		}
		d.answers <- answer
	}
}

// stop ends the process at once: it has nothing left to lose.
func (d *daemon) stop() {
	_ = d.cmd.Process.Kill() // an error: it has ended
	<-d.gone
	_ = d.cmd.Wait() // however it ended, it has
	_ = d.in.Close()
}
