package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/impart-im/impart/internal/fault"
)

// usageError is wrong usage or configuration: the process ends with 2.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// effective is one setting with the value that counts and where it came from.
type effective struct {
	setting
	text string
	from string // "default", "file PATH:LINE", "variable", "flag"
}

// shown is the value as it may be printed.
func (e effective) shown() string {
	if e.secret && e.text != "" {
		return "(set, hidden)"
	}
	if e.value.kind == addressKind {
		return shownStore(e.text)
	}
	return e.text
}

// loaded is a configuration whose every value has been read, with its table.
type loaded struct {
	config   *config
	values   []effective
	unknown  []string // IM_ variables that are no setting
	fileName string   // "" without a file
}

// loadAs reads all settings, for a process of a role: flags win over variables,
// variables over the file, the file over the defaults. The error is a [usageError]
// with every fault, one line each.
func loadAs(cmd *cobra.Command, env streams, as role) (*loaded, error) {
	l, err := loadRaw(cmd, env)
	if err != nil {
		return nil, err
	}
	l.config.role = as
	if faults := l.config.validate(); len(faults) > 0 {
		return nil, usageError{errors.Join(faults...)}
	}
	return l, nil
}

// loadRaw is loadAs without the rules that join several settings.
func loadRaw(cmd *cobra.Command, env streams) (*loaded, error) {
	c := &config{}
	table := settings(c)
	l := &loaded{config: c, unknown: unknownVariables(table, env.environ())}
	l.fileName = fileName(cmd, env)
	fromFile := map[string]fileValue{}
	if l.fileName != "" {
		source, err := os.ReadFile(l.fileName)
		if err != nil {
			return nil, usagef("%s (--config): the file cannot be read: %w", configVariable, err)
		}
		if fromFile, err = readFile(l.fileName, source, table); err != nil {
			return nil, usageError{err}
		}
	}
	var faults []error
	for _, s := range table {
		e := pick(s, cmd, env, fromFile)
		l.values = append(l.values, e)
		if err := s.value.set(e.text); err != nil {
			faults = append(faults, e.fault(s.value.want))
		}
	}
	if len(faults) > 0 {
		return nil, usageError{errors.Join(faults...)}
	}
	return l, nil
}

func fileName(cmd *cobra.Command, env streams) string {
	if name, err := cmd.Flags().GetString("config"); err == nil && name != "" {
		return name
	}
	name, _ := env.env(configVariable)
	return name
}

// pick finds the value of one setting. An empty variable counts as not set,
// since compose files and shells leave such ones behind.
func pick(s setting, cmd *cobra.Command, env streams, fromFile map[string]fileValue) effective {
	if flag := cmd.Flags().Lookup(s.flag()); flag != nil && flag.Changed {
		return effective{s, flag.Value.String(), "flag --" + s.flag()}
	}
	if text, ok := env.env(s.name); ok && text != "" {
		return effective{s, text, "variable " + s.name}
	}
	if v, ok := fromFile[s.key()]; ok {
		return effective{s, v.text, v.where}
	}
	return effective{s, s.def, "default"}
}

// fault says in one line which setting is wrong and what it should be.
func (e effective) fault(want string) error {
	value := fmt.Sprintf("%q", e.shown())
	if e.secret {
		value = "the value"
	}
	from := ""
	if strings.HasPrefix(e.from, "file ") {
		from = " in " + strings.TrimPrefix(e.from, "file ")
	}
	return fmt.Errorf("%s (--%s)%s: %s should be %s", e.name, e.flag(), from, value, want)
}

// unknownVariables lists IM_ variables that no setting has: most likely
// misspelt. They are told, not refused, because a container platform may put
// variables of that form there on its own.
func unknownVariables(table []setting, environ []string) []string {
	known := []string{configVariable, "IM_BUG", "IM_URL"}
	if fault.Enabled {
		known = append(known, "IM_CLOCK")
	}
	for _, s := range table {
		known = append(known, s.name)
	}
	var unknown []string
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "IM_") && !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}

// suggest names what was probably meant; "" when nothing is near.
func suggest(word string, names []string) string {
	near := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, name := range names {
		near.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	found := near.SuggestionsFor(word)
	if len(found) == 0 {
		return ""
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	return found[0]
}

// flagValue is the flag of a setting: text that is read later, with the others.
type flagValue struct {
	text string
	kind string
}

func (f *flagValue) String() string     { return f.text }
func (f *flagValue) Set(s string) error { f.text = s; return nil }
func (f *flagValue) Type() string       { return f.kind }

// addSettings gives cmd a flag for every setting, and --config.
func addSettings(cmd *cobra.Command) { addSettingsOf(cmd, roleAll) }

// addSettingsOf is addSettings for what a role has a use for.
func addSettingsOf(cmd *cobra.Command, as role) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.String("config", "", "file of settings in YAML; IM_CONFIG names it too")
	for _, s := range settings(&config{}) {
		if !as.uses(s.name) {
			continue
		}
		flag := flags.VarPF(&flagValue{s.def, s.value.kind}, s.flag(), "", s.help)
		if s.value.kind == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
}
