package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/impart-im/impart"
)

var update = flag.Bool("update", false, "rewrite canonical texts and codes in testdata from what the codec does now")

// golden is a file of testdata: the frames of one type, written by hand from the
// protocol. Tests in other languages read the same files.
type golden struct {
	Frame   string          `json:"frame"` // its "t"; "" for texts that are no frame at all
	Valid   []goldenValid   `json:"valid"`
	Invalid []goldenInvalid `json:"invalid"`
}

type goldenValid struct {
	Name      string `json:"name"`
	JSON      string `json:"json"`
	Canonical string `json:"canonical,omitempty"` // as this codec writes it, where that differs
}

type goldenInvalid struct {
	Name  string      `json:"name"`
	JSON  string      `json:"json"`
	Code  impart.Code `json:"code"`
	Field string      `json:"field"` // what the message must contain
}

// clientTypes and serverTypes are every "t" of protocol v1.
var (
	clientTypes = []string{"hello", "sub", "send", "ack", "sync", "pull", "convs", "read", "recall", "who", "typing", "ping"}
	serverTypes = []string{
		"welcome", "subbed", "sent", "acked", "synced", "pulled", "convs", "readed", "whos", "event", "hint", "receipt",
		"typing", "pong", "error", "bye",
	}
)

func TestGoldenClientFrames(t *testing.T) {
	for _, frame := range append([]string{"any"}, clientTypes...) {
		checkGolden(t, "client", frame, func(data []byte) ([]byte, error) {
			frame, _, err := Decode(data)
			if err != nil {
				return nil, err
			}
			return AppendFrame(nil, frame), nil
		})
	}
}

func TestGoldenServerFrames(t *testing.T) {
	for _, frame := range serverTypes {
		checkGolden(t, "server", frame, func(data []byte) ([]byte, error) {
			frame, err := DecodeServer(data)
			if err != nil {
				return nil, err
			}
			return frame.Append(nil), nil
		})
	}
}

// checkGolden decodes each text of a file and writes it again.
func checkGolden(t *testing.T, direction, frame string, again func([]byte) ([]byte, error)) {
	t.Helper()
	path := filepath.Join("testdata", direction, frame+".json")
	file := readGolden(t, path)
	if len(file.Valid) == 0 && frame != "any" || len(file.Valid)+len(file.Invalid) < 2 {
		t.Fatalf("%s tests next to nothing", path)
	}
	for i := range file.Valid {
		c := &file.Valid[i]
		t.Run(direction+"/"+frame+"/"+c.Name, func(t *testing.T) {
			got, err := again([]byte(c.JSON))
			if err != nil {
				t.Fatalf("%s\nis refused: %v", c.JSON, err)
			}
			want := c.JSON
			if c.Canonical != "" {
				want = c.Canonical
			}
			if *update {
				if c.Canonical = string(got); c.Canonical == c.JSON {
					c.Canonical = ""
				}
				return
			}
			if string(got) != want {
				t.Errorf("written again it is\n%s\nwant\n%s", got, want)
			}
		})
	}
	for i := range file.Invalid {
		c := &file.Invalid[i]
		t.Run(direction+"/"+frame+"/"+c.Name, func(t *testing.T) {
			_, err := again([]byte(c.JSON))
			var refused *impart.Error
			if !errors.As(err, &refused) {
				t.Fatalf("%s\ngave %v, want a refusal", c.JSON, err)
			}
			if *update {
				c.Code = refused.Code
				return
			}
			if refused.Code != c.Code || !strings.Contains(refused.Message, c.Field) {
				t.Errorf("refused with %q, want %s and a message that says %q", refused, c.Code, c.Field)
			}
		})
	}
	if *update {
		writeGolden(t, path, file)
	}
}

func readGolden(t *testing.T, path string) *golden {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file := new(golden)
	if err := json.Unmarshal(data, file); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return file
}

func writeGolden(t *testing.T, path string, file *golden) {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// goldenTexts are all texts of a direction, as seeds for fuzzing.
func goldenTexts(f *testing.F, direction string) {
	f.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", direction, "*.json"))
	if err != nil || len(paths) == 0 {
		f.Fatalf("no golden frames for %s: %v", direction, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		var file golden
		if err := json.Unmarshal(data, &file); err != nil {
			f.Fatal(err)
		}
		for _, c := range file.Valid {
			f.Add([]byte(c.JSON))
		}
		for _, c := range file.Invalid {
			f.Add([]byte(c.JSON))
		}
	}
}
