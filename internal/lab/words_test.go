package lab

import "testing"

func TestNumbersAndTheirWords(t *testing.T) {
	for n, want := range map[int]string{
		0:  "0 rows, 0 unflushed pages dropped, 0 of 0 pushes, seq 0 (s)",
		1:  "1 row, 1 unflushed page dropped, 1 of 1 push, seq 1 (s)",
		2:  "2 rows, 2 unflushed pages dropped, 2 of 2 pushes, seq 2 (s)",
		21: "21 rows, 21 unflushed pages dropped, 21 of 21 pushes, seq 21 (s)",
	} {
		if got := sentence("%[1]d row(s), %[1]d unflushed page(s) dropped, %[1]d of %[1]d push(es), seq %[1]d (s)", n); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
