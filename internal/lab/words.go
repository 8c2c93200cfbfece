package lab

import (
	"fmt"
	"regexp"
)

// counted is a number, at most two words, and a word whose ending depends on it.
var counted = regexp.MustCompile(`\b(\d+)((?: [a-z-]+){0,2} [a-z]+)\((e?s)\)`)

// sentence is fmt.Sprintf for people: in "%d row(s)" and "%d push(es)" the ending
// in brackets is written unless the number is 1.
func sentence(format string, args ...any) string {
	return counted.ReplaceAllStringFunc(fmt.Sprintf(format, args...), func(found string) string {
		part := counted.FindStringSubmatch(found)
		if part[1] == "1" {
			return part[1] + part[2]
		}
		return part[1] + part[2] + part[3]
	})
}
