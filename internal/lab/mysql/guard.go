package mysql

import (
	"fmt"
	"io"
	"os/exec"
)

// guard removes the folder of a server whose test died without closing it: a shell
// that waits for the end of its input, which the kernel brings about however this
// process ends. The server, which is one process, ends with its parent.
type guard struct {
	cmd   *exec.Cmd
	input io.WriteCloser
}

// guardScript gets the server's folder, and whether to remove it. A line of input
// says that the server was closed in order.
const guardScript = `read -r word && exit 0
main=$(cat "$1/pid" 2>/dev/null) && [ -n "$main" ] && kill -KILL "$main" 2>/dev/null
if [ "$2" = true ]; then
	sleep 0.2
	rm -rf "$1"
fi`

func newGuard(dir string, remove bool) (*guard, error) {
	cmd := exec.Command("/bin/sh", "-c", guardScript, "guard", dir, fmt.Sprint(remove))
	cmd.Dir = "/"
	cmd.SysProcAttr = attributes(nil)
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("guarding MariaDB: %w", err)
	}
	return &guard{cmd, input}, nil
}

// dismiss ends the guard without a deed.
func (g *guard) dismiss() {
	_, _ = io.WriteString(g.input, "closed\n") // if it is gone, so is its duty
	_ = g.input.Close()
	_ = g.cmd.Wait()
}
