package checks

import (
	"errors"
	"os"

	"github.com/go-json-experiment/json"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/lab"
)

// item is a message without a final answer.
type item struct {
	Conv impart.ConvID `json:"conv"`
	CMID impart.CMID   `json:"cmid"`
	Body string        `json:"body"`
}

// outbox is the state file of the simplest correct client: written before the
// first attempt, and again when an answer is final.
type outbox struct {
	path  string
	items []item
}

// openOutbox loads the state file, as a client does that starts.
func openOutbox(path string) (*outbox, error) {
	o := &outbox{path: path}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return o, nil
	} else if err != nil {
		return nil, err
	}
	return o, json.Unmarshal(text, &o.items)
}

func (o *outbox) put(i item) error {
	o.items = append(o.items, i)
	return o.store()
}

func (o *outbox) settle(cmid impart.CMID) error {
	kept := o.items[:0]
	for _, i := range o.items {
		if i.CMID != cmid {
			kept = append(kept, i)
		}
	}
	o.items = kept
	return o.store()
}

// store replaces the file by a new one, flushed before it takes the name.
func (o *outbox) store() error {
	text, err := json.Marshal(o.items)
	if err != nil {
		return err
	}
	f, err := os.Create(o.path + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(o.path+".new", o.path)
}

// outboxInMemory is a client whose outbox is lost with it.
var outboxInMemory = lab.Sabotage{Name: "outbox-in-memory", What: "the client writes its outbox only when it ends in good order"}
