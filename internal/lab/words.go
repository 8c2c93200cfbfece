package lab

import "fmt"

// Plural is n and a word, as "1 row" and "3 rows". Words that do not take an s are
// given whole: Plural(2, "reply", "replies").
func Plural[N int | int64](n N, one string, many ...string) string {
	switch {
	case n == 1:
		return "1 " + one
	case len(many) > 0:
		return fmt.Sprint(n, " ", many[0])
	}
	return fmt.Sprintf("%d %ss", n, one)
}
