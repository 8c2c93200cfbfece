package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// fileValue is one value of the file of settings.
type fileValue struct {
	text  string
	where string // "file PATH:LINE"
}

// maxFile bounds a file of settings, in bytes.
const maxFile = 1 << 20

// readFile reads a file of settings: one mapping of keys to plain values or
// lists of them. Whatever else stands in it is an error that shows the line
// with a caret under the place. No value of the file is ever shown.
func readFile(name string, source []byte, table []setting) (map[string]fileValue, error) {
	if len(source) > maxFile {
		return nil, fmt.Errorf("%s: a file of settings has at most %d bytes", name, maxFile)
	}
	f := settingsFile{name: name, lines: strings.Split(string(source), "\n"), table: table}
	parsed, err := parser.ParseBytes(source, 0)
	if err != nil {
		return nil, f.syntax(err)
	}
	values := map[string]fileValue{}
	var faults []error
	for _, doc := range parsed.Docs {
		for _, entry := range f.entries(doc.Body, &faults) {
			f.entry(entry, values, &faults)
		}
	}
	return values, errors.Join(faults...)
}

// settingsFile is a file of settings while it is read.
type settingsFile struct {
	name  string
	lines []string
	table []setting
}

func (f settingsFile) entries(body ast.Node, faults *[]error) []*ast.MappingValueNode {
	switch node := body.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return nil
	case *ast.MappingNode:
		return node.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{node}
	default:
		*faults = append(*faults, f.at(node.GetToken(), "should be lines such as \"listen: 127.0.0.1:8080\""))
		return nil
	}
}

func (f settingsFile) entry(entry *ast.MappingValueNode, values map[string]fileValue, faults *[]error) {
	tk := entry.Key.GetToken()
	key := tk.Value
	if !f.knows(key) {
		message := fmt.Sprintf("unknown key %q", key)
		if near := suggest(key, f.keys()); near != "" {
			message += fmt.Sprintf("; did you mean %s?", near)
		}
		*faults = append(*faults, f.at(tk, message))
		return
	}
	if _, twice := values[key]; twice {
		*faults = append(*faults, f.at(tk, fmt.Sprintf("%s stands here a second time", key)))
		return
	}
	text, ok := plain(entry.Value)
	if !ok {
		*faults = append(*faults, f.at(tk, key+" should be one value, or a list of values"))
		return
	}
	values[key] = fileValue{text, fmt.Sprintf("file %s:%d", f.name, tk.Position.Line)}
}

// plain is a node as the text that a variable would have: a list is joined by
// commas.
func plain(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.NullNode:
		return "", true
	case *ast.SequenceNode:
		var parts []string
		for _, item := range n.Values {
			part, ok := plain(item)
			if _, nested := item.(*ast.SequenceNode); !ok || nested {
				return "", false
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, ","), true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return node.GetToken().Value, true
	default:
		return "", false
	}
}

// syntax is a parser's error with its place.
func (f settingsFile) syntax(err error) error {
	var e yaml.Error
	if errors.As(err, &e) && e.GetToken() != nil {
		return f.at(e.GetToken(), e.GetMessage())
	}
	return fmt.Errorf("%s: %w", f.name, err)
}

// at is an error at a place: the message, the line without its value, a caret.
func (f settingsFile) at(tk *token.Token, message string) error {
	line, column := tk.Position.Line, tk.Position.Column
	shown := ""
	if line >= 1 && line <= len(f.lines) {
		shown = strings.TrimRight(f.lines[line-1], "\r")
		if key, value, found := strings.Cut(shown, ":"); found && strings.TrimSpace(value) != "" {
			shown = key + ": …"
		}
	}
	column = min(max(column, 1), len([]rune(shown))+1)
	gutter := fmt.Sprintf("%5d | ", line)
	return fmt.Errorf("%s:%d:%d: %s\n%s%s\n%s^", f.name, line, column, message,
		gutter, shown, strings.Repeat(" ", len(gutter)+column-1))
}

func (f settingsFile) knows(key string) bool {
	for _, s := range f.table {
		if s.key() == key {
			return true
		}
	}
	return false
}

func (f settingsFile) keys() []string {
	keys := make([]string, 0, len(f.table))
	for _, s := range f.table {
		keys = append(keys, s.key())
	}
	return keys
}
