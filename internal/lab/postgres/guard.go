package postgres

import (
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
)

// guard ends a server whose test died without closing it: a shell that waits for
// the end of its input, which the kernel brings about however this process ends.
// That the kernel also ends the server's main process with its parent is not enough:
// paused children would stay for ever, and the folder with them.
type guard struct {
	cmd   *exec.Cmd
	input io.WriteCloser
}

// guardScript gets the data folder, the server's folder, and whether to remove it.
// A line of input names the processes that are paused now, or says that the server
// was closed in order.
const guardScript = `paused=
while read -r word rest; do
	case $word in
	closed) exit 0 ;;
	paused) paused=$rest ;;
	esac
done
main=$(head -n 1 "$1/postmaster.pid" 2>/dev/null) || main=
segment=$(sed -n '7s/.* //p' "$1/postmaster.pid" 2>/dev/null) || segment=
kill -KILL $main $paused 2>/dev/null
[ -z "$segment" ] || ipcrm -m "$segment" 2>/dev/null
if [ "$3" = true ]; then
	sleep 0.2
	rm -rf "$2"
fi`

func newGuard(data, dir string, remove bool) (*guard, error) {
	cmd := exec.Command("/bin/sh", "-c", guardScript, "guard", data, dir, fmt.Sprint(remove))
	cmd.Dir = "/"
	cmd.SysProcAttr = attributes(nil)
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("guarding PostgreSQL: %w", err)
	}
	return &guard{cmd, input}, nil
}

// note tells which processes are paused now.
func (g *guard) note(paused []int) {
	words := []string{"paused"}
	for _, pid := range paused {
		words = append(words, strconv.Itoa(pid))
	}
	_, _ = io.WriteString(g.input, strings.Join(words, " ")+"\n")
}

// dismiss ends the guard without a deed.
func (g *guard) dismiss() {
	_, _ = io.WriteString(g.input, "closed\n") // if it is gone, so is its duty
	_ = g.input.Close()
	_ = g.cmd.Wait()
}
