package lab

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/impart-im/impart/internal/lab/crashfs"
)

// Disk is a disk that can lose power, with servers' stores on it.
type Disk struct {
	*crashfs.FS
	b *Bench
	// counts says of a file, by its name without folders, whether what a power cut
	// drops of it shows that the cut bit.
	counts func(name string) bool
}

// ofSQLite are the database and its log. The -shm is made anew at each start.
func ofSQLite(name string) bool { return !strings.HasSuffix(name, "-shm") }

// ofPostgres are the segments of the log: 24 digits. The rest can be made again.
func ofPostgres(name string) bool {
	return len(name) == 24 && strings.Trim(name, "0123456789ABCDEF") == ""
}

// ofMySQL is InnoDB's log.
func ofMySQL(name string) bool { return strings.HasPrefix(name, "ib_logfile") }

// Disk mounts a good disk. Where none can be mounted, the run ends as NOT_RUN.
func (b *Bench) Disk() *Disk {
	if err := crashfs.Available(); err != nil {
		b.NotRun(err.Error())
	}
	fs, err := crashfs.Mount(crashfs.Config{
		Backing: filepath.Join(b.Data, "durable"), Mount: filepath.Join(b.Data, "disk"), Command: []string{b.Binary, "lab", "disk"},
	})
	if errors.Is(err, crashfs.ErrMount) {
		b.NotRun(err.Error())
	}
	b.Must(err)
	d := &Disk{FS: fs, b: b, counts: ofSQLite}
	switch b.Engine {
	case PostgreSQL:
		d.counts = ofPostgres
	case MySQL:
		d.counts = ofMySQL
	}
	b.Cleanup(func() { _ = fs.Close() }) // whatever it says, what there is to find was found
	return d
}

// Cut cuts the power at once, and gives how many pages of what counts that undid.
func (d *Disk) Cut(mode crashfs.Mode, seed uint64) int {
	cut, err := d.PowerCut(mode, seed)
	d.b.Must(err)
	return d.cutNoted(mode, cut)
}

// ArmCut prepares a cut at the nth change of the disk from now on.
func (d *Disk) ArmCut(mode crashfs.Mode, seed uint64, nth int) error {
	d.b.Note("disk", "armed", "the power is cut at change %d", nth)
	return d.FS.ArmCut(mode, seed, nth)
}

// AwaitArmed waits for a cut that [crashfs.FS.ArmCut] has prepared.
func (d *Disk) AwaitArmed(mode crashfs.Mode) int {
	cut, err := d.AwaitCut(d.b.ctx)
	d.b.Must(err)
	return d.cutNoted(mode, cut)
}

func (d *Disk) cutNoted(mode crashfs.Mode, cut crashfs.Cut) (pages int) {
	for name, n := range cut.Dropped {
		if d.counts(name) {
			pages += n
		}
	}
	d.b.Note("disk", "cut", "power cut, %s: %d unflushed page(s) dropped, %d kept", mode, pages, cut.PagesKept)
	return pages
}

// Fault sets what the disk does wrong from now on.
func (d *Disk) Fault(f crashfs.Faults) {
	d.b.Must(d.SetFaults(f))
	what := "faults"
	if f == (crashfs.Faults{}) {
		what = "healed"
	}
	d.b.Note("disk", what, "%s", f)
}

// Counted is what the disk has done so far.
func (d *Disk) Counted() crashfs.Counts {
	counts, err := d.Counts()
	d.b.Must(err)
	return counts
}

// PowerOn brings the power back.
func (d *Disk) PowerOn() {
	d.b.Must(d.Remount())
	d.b.Note("disk", "mounted", "%s", d.Dir())
}
