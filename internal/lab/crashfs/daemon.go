package crashfs

import (
	"bufio"
	"encoding/json"
	"io"
)

// The disk runs in a process of its own, so that a power cut is the end of a
// process, and so that no program waits for a disk that waits for that program:
// a page fault on a mapped file holds a thread of the Go scheduler. FS asks it
// over standard input, a JSON line each, and it answers on standard output.

// request is what FS asks for.
type request struct {
	Faults *Faults `json:"faults,omitzero"` // set these
	Arm    *trap   `json:"arm,omitzero"`    // cut the power, and end, when its moment comes
	Cut    *trap   `json:"cut,omitzero"`    // cut the power, and end
	Close  bool    `json:"close,omitzero"`  // flush everything, and end
}

// reply is the answer to a request, or, with Cut, the last word of a disk.
type reply struct {
	Error  string `json:"error,omitzero"`
	Counts Counts `json:"counts"`
	Cut    *Cut   `json:"cut,omitzero"`
}

// serveRequests answers requests until one of them, a power cut, or the end of in,
// is the last.
func serveRequests(d *disk, in io.Reader, out io.Writer) {
	lines := make(chan string)
	over := make(chan struct{})
	defer close(over)
	go func() { // ends with in, or with the process
		defer close(lines)
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			case <-over:
				return
			}
		}
	}()
	write := json.NewEncoder(out)
	for {
		var answer reply
		last := true
		select {
		case s := <-d.sprung:
			answer = replyOf(d, &s.did, s.err)
		case line, ok := <-lines:
			if !ok {
				return
			}
			answer, last = d.carryOut([]byte(line))
		}
		if write.Encode(answer) != nil || last {
			return
		}
	}
}

// carryOut carries out a request; last says that no other may follow.
func (d *disk) carryOut(line []byte) (answer reply, last bool) {
	var r request
	err := json.Unmarshal(line, &r)
	switch {
	case err != nil:
	case r.Faults != nil:
		err = d.setFaults(*r.Faults)
	case r.Arm != nil:
		err = d.arm(*r.Arm)
	case r.Cut != nil:
		did, err := d.cut(r.Cut.Mode, r.Cut.Seed)
		return replyOf(d, &did, err), true
	case r.Close:
		return replyOf(d, nil, d.syncAll()), true
	}
	return replyOf(d, nil, err), false
}

func replyOf(d *disk, did *Cut, err error) reply {
	answer := reply{Counts: d.count(), Cut: did}
	if err != nil {
		answer.Error = err.Error()
	}
	return answer
}
