package crashfs

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is also the processes that the tests start: the test binary itself,
// told by its first argument what to be.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "disk":
			os.Exit(Daemon(os.Args[2:], os.Stdin, os.Stdout))
		case "rows":
			writeRows(os.Args[2], os.Args[3])
			return
		case "lab":
			strandLab(os.Args[2], os.Args[3])
			return
		}
	}
	goleak.VerifyTestMain(m)
}

// mounted is a disk that is taken away at the end. Where none can be mounted the
// test is skipped with the reason; in CI a skip is a failure.
func mounted(t *testing.T) *FS {
	t.Helper()
	if err := Available(); err != nil {
		t.Skipf("NOT_RUN: %v", err)
	}
	disk, err := Mount(Config{Backing: t.TempDir(), Mount: t.TempDir(), Command: []string{os.Args[0], "disk"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Close(); err != nil {
			t.Errorf("closing the disk: %v", err)
		}
	})
	return disk
}

// strandLab is a lab that mounts a disk and waits to be killed.
func strandLab(backing, mount string) {
	if _, err := Mount(Config{Backing: backing, Mount: mount, Command: []string{os.Args[0], "disk"}}); err != nil {
		panic(err)
	}
	fmt.Println("mounted")
	select {}
}
