package main

import (
	"strings"
	"testing"
)

func TestFileFaultsPointAtTheirPlace(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"unknown key": {"listen: 127.0.0.1:0\nswep_ms: 5\n", `impart.yaml:2:1: unknown key "swep_ms"; did you mean sweep_ms?
    2 | swep_ms: …
        ^`},
		"far from any key":    {"zzzzzzzz: 1\n", `unknown key "zzzzzzzz"`},
		"nested":              {"listen:\n  host: x\n", "listen should be one value"},
		"list in a list":      {"origins: [[a]]\n", "origins should be one value"},
		"twice":               {"sweep_ms: 1\nsweep_ms: 2\n", "sweep_ms"},
		"no mapping":          {"- listen\n", "should be lines such as"},
		"only text":           {"hello\n", "should be lines such as"},
		"unfinished":          {"listen: \"127\n", "impart.yaml:1:"},
		"tab":                 {"listen: a\n\tsweep_ms: 1\n", "impart.yaml:2:"},
		"two unknown ones":    {"aaaaaaa: 1\nbbbbbbb: 2\n", "impart.yaml:2:1: unknown key"},
		"second document":     {"sweep_ms: 100\n---\nnope_nope: 1\n", `unknown key "nope_nope"`},
		"a caret under runes": {"\"ключ\": 1\n", "^"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := readFile("impart.yaml", []byte(c.text), settings(&config{}))
			if err == nil {
				t.Fatal("is taken")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("says\n%v\nwant\n%s", err, c.want)
			}
		})
	}
}

func TestFileErrorsShowNoValue(t *testing.T) {
	for _, text := range []string{
		"auth_hmac_secert: hunter2\n",
		"admin_token: {a: hunter2}\n",
		"admin_token: \"hunter2\n",
		"admin_token: [[hunter2]]\n",
	} {
		_, err := readFile("impart.yaml", []byte(text), settings(&config{}))
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q gives %v", text, err)
		}
	}
}

func TestFileTakesYAMLsFormsOfAValue(t *testing.T) {
	text := `# the whole of it
listen: "127.0.0.1:0"
allow_plaintext: yes
max_body: 1024
retry_ms: [100, 200, 300, 400]
origins:
  - https://a.example
  - https://b.example
retention: 30d
admin_token: |-
  one line of it
gateway_id:
`
	values, err := readFile("impart.yaml", []byte(text), settings(&config{}))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"listen": "127.0.0.1:0", "allow_plaintext": "yes", "max_body": "1024", "retry_ms": "100,200,300,400",
		"origins": "https://a.example,https://b.example", "retention": "30d", "admin_token": "one line of it", "gateway_id": "",
	} {
		if got := values[key].text; got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if where := values["retention"].where; where != "file impart.yaml:9" {
		t.Errorf("retention is from %q", where)
	}
	for _, empty := range []string{"", "\n", "# nothing\n", "---\n"} {
		if values, err := readFile("impart.yaml", []byte(empty), settings(&config{})); err != nil || len(values) != 0 {
			t.Errorf("%q gives %v, %v", empty, values, err)
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte("listen: 127.0.0.1:0\nretry_ms: [1, 2]\n"))
	f.Add([]byte("a: &x [*x]\n? b\n: c\n"))
	f.Add([]byte("listen: \"\x00\n\t- {"))
	table := settings(&config{})
	f.Fuzz(func(t *testing.T, source []byte) {
		values, err := readFile("impart.yaml", source, table)
		if err != nil && !strings.HasPrefix(err.Error(), "impart.yaml") {
			t.Errorf("an error without the file: %v", err)
		}
		for key := range values {
			if !(settingsFile{table: table}).knows(key) {
				t.Errorf("took the unknown key %q", key)
			}
		}
	})
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"0", "30d", "1d12h", "1.5h", "-1d", "d", "9999999d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := parseDuration(s); err == nil && strings.Contains(s, "d") && d < 0 {
			t.Errorf("%q is %v", s, d)
		}
	})
}
