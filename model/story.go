package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	stepLine  = regexp.MustCompile(`^ *(\d+):\tproc +(\d+) \(([^:)]*|:init:):\d+\) \S+\.pml:(\d+) \(state \d+\)\t\[(.*)\]$`)
	blockLine = regexp.MustCompile(`(?:atomic|d_step) \{(?: /\* (.+?) \*/)?`)
	topLine   = regexp.MustCompile(`^(?:active )?(?:proctype|inline|init)\b`)
	noteLine  = regexp.MustCompile(`/\* ([a-z].*?) \*/`)
)

// story tells the steps of a replay in the words of the model: the comment of each
// block that a process goes through, one line each, and where a fault strikes.
func story(m model, replay string) string {
	lines := strings.Split(m.text, "\n")
	var told []string
	var last string // what the last line is about
	for step := range strings.Lines(replay) {
		step = strings.TrimSuffix(step, "\n")
		if strings.Contains(step, "START OF CYCLE") {
			told, last = append(told, "from here on it goes round for ever:"), ""
			continue
		}
		found := stepLine.FindStringSubmatch(step)
		if found == nil || found[3] == ":init:" {
			continue
		}
		number, _ := strconv.Atoi(found[4])
		block, words := blockOf(lines, number)
		if words == "" {
			continue // an inline: its caller is told
		}
		if about := fmt.Sprint(found[2], " ", block); about != last {
			told, last = append(told, fmt.Sprintf("%s %s: %s", found[3], found[2], words)), about
		}
		at := len(told) - 1
		if found[5] == "faults = (faults-1)" {
			told[at] += "; a fault strikes"
		}
		if note := noteLine.FindStringSubmatch(lines[number-1]); note != nil && note[1] != words {
			told[at] += "; " + note[1]
		}
	}
	if found := failedLine.FindStringSubmatch(replay); found != nil {
		if number, _ := strconv.Atoi(found[1]); number >= 1 && number <= len(lines) {
			told = append(told, "and that fails: "+strings.TrimSpace(lines[number-1]))
		}
	}
	var b strings.Builder
	for i, line := range told {
		fmt.Fprintf(&b, "%4d  %s\n", i+1, line)
	}
	return b.String()
}

// blockOf is the line at which the block around a line begins, and its comment; of a
// block without a comment the line itself. Of an inline there are no words.
func blockOf(lines []string, number int) (begin int, words string) {
	if number < 1 || number > len(lines) {
		return 0, ""
	}
	for i := number; i >= 1; i-- {
		line := lines[i-1]
		if topLine.MatchString(line) {
			if strings.HasPrefix(line, "inline") {
				return i, ""
			}
			break
		}
		if found := blockLine.FindStringSubmatch(line); found != nil && found[1] != "" {
			return i, found[1]
		} else if found != nil && !strings.Contains(line, "d_step") {
			break
		}
	}
	return number, strings.TrimSpace(lines[number-1])
}

// near gives the names that share most with a pattern that matches none, at most
// five; if none does, the models.
func near(pattern string, names []string) []string {
	const some, most = 4, 5
	pattern = strings.ToLower(pattern)
	var found []string
	for _, name := range names {
		if shared(pattern, strings.ToLower(name)) >= some {
			found = append(found, name)
		}
	}
	slices.SortFunc(found, func(a, b string) int {
		return cmp.Or(shared(pattern, strings.ToLower(b))-shared(pattern, strings.ToLower(a)), strings.Compare(a, b))
	})
	found = slices.Compact(found)
	if len(found) == 0 {
		found = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.Contains(name, "/") })
		slices.Sort(found)
		return slices.Compact(found)
	}
	return found[:min(len(found), most)]
}

// shared is the length of the longest text that is in both.
func shared(a, b string) (longest int) {
	for i := range a {
		for j := i + longest + 1; j <= len(a) && strings.Contains(b, a[i:j]); j++ {
			longest = j - i
		}
	}
	return longest
}
