package crashfs

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Daemon is the process of a disk: the program that [Config].Command names calls
// it with the last two of its arguments, its standard input and output, and ends
// with the code it gives. It ends when in does, so it does not outlive its lab.
func Daemon(args []string, in io.Reader, out io.Writer) int {
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "a disk needs the directory it keeps and the one it is mounted on")
		return 2
	}
	d, dir, mount := newDisk(), args[0], args[1]
	if err := mountDisk(d, dir, mount); err != nil {
		_ = json.NewEncoder(out).Encode(reply{Error: err.Error()}) // who asked is told, or gone
		return 1
	}
	if json.NewEncoder(out).Encode(reply{}) == nil {
		serveRequests(d, in, out)
	}
	_ = unmount(mount) // FS looks after it too
	return 0
}

func mountDisk(d *disk, dir, mount string) error {
	syscall.Umask(0) // modes are as the programs ask
	t := &tree{disk: d, dir: dir, known: map[inode]*member{}}
	never := time.Duration(0) // what is not durable can change size and time without the kernel's knowing
	options := &fs.Options{
		EntryTimeout: &never, AttrTimeout: &never, NegativeTimeout: &never,
		NullPermissions:   true,
		FirstAutomaticIno: 1 << 62,
		RootStableAttr:    &fs.StableAttr{Ino: 1 << 61},
		MountOptions: fuse.MountOptions{
			DirectMountStrict: true, AllowOther: true, Options: []string{"default_permissions"},
			FsName: source(os.Getpid()), Name: "crashfs", DisableXAttrs: true,
			// Every change comes through the kernel, so what it has cached is right.
			ExplicitDataCacheControl: true,
			// A disk with a mistake of its own shows nothing.
			PanicHandler: func(v any) fuse.Status {
				log.Printf("panic: %v\n%s", v, debug.Stack())
				_ = unmount(mount)
				os.Exit(2)
				return fuse.EIO
			},
		},
	}
	_, err := fs.Mount(mount, &node{tree: t}, options)
	return err
}
