package program

import (
	"runtime"
	"testing"
	"time"
)

func fraction(num, den uint64) residue { return residue(num).times(residue(den).inverse()) }

func take(s series, n int) []residue {
	got := make([]residue, n)
	for i := range got {
		got[i] = s.next()
	}
	s.leave()
	return got
}

func equal(a, b []residue) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

func TestSeries(t *testing.T) {
	before := runtime.NumGoroutine()
	stop := make(chan struct{})
	one := residue(1)
	for _, test := range []struct {
		name string
		s    series
		want []residue
	}{
		{"polynomial", polynomial(3, 4), []residue{3, 4, 0, 0}},
		{"add", add(polynomial(1, 2), polynomial(3, modulus-2)), []residue{4, 0, 0}},
		{"scale", scale(3, polynomial(1, 2)), []residue{3, 6, 0}},
		{"precede", precede(7, polynomial(1, 2)), []residue{7, 1, 2, 0}},
		{"integ", integ(5, polynomial(1, 1, 1)), []residue{5, 1, fraction(1, 2), fraction(1, 3), 0}},
		{"deriv", deriv(polynomial(9, 1, 2, 3)), []residue{1, 4, 9, 0}},
		{"mul", mul(polynomial(1, 1), polynomial(1, 1)), []residue{1, 2, 1, 0, 0}},
		{"mul by zero", mul(polynomial(), polynomial(1, 1)), []residue{0, 0, 0}},
		// 1/(1+x) = 1 − x + x² − …, 1/(1−2x) = 1 + 2x + 4x² + …
		{"recip", recip(polynomial(1, 1), stop), []residue{1, one.minus(), 1, one.minus()}},
		{"recip 2", recip(polynomial(1, residue(2).minus()), stop), []residue{1, 2, 4, 8, 16, 32}},
		// e to the x: 1/n!
		{"exp", exp(polynomial(0, 1), stop), []residue{1, 1, fraction(1, 2), fraction(1, 6), fraction(1, 24), fraction(1, 120)}},
		// tan x = x + x³/3 + 2x⁵/15 + 17x⁷/315 + 62x⁹/2835 + 1382x¹¹/155925 + …
		{"tan", tan(stop), []residue{
			0, 1, 0, fraction(1, 3), 0, fraction(2, 15), 0, fraction(17, 315), 0, fraction(62, 2835), 0, fraction(1382, 155925),
		}},
	} {
		if got := take(test.s, len(test.want)); !equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
	unread := mul(polynomial(1), polynomial(1))
	unread.leave()
	close(stop)
	goneTo(t, before)
}

// goneTo waits until no more than n goroutines are left.
func goneTo(t *testing.T, n int) {
	t.Helper()
	for i := 0; runtime.NumGoroutine() > n; i++ {
		if i > 10000 {
			buf := make([]byte, 1<<16)
			t.Fatalf("goroutines are left:\n%s", buf[:runtime.Stack(buf, true)])
		}
		time.Sleep(time.Millisecond)
	}
}

func TestSplit(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, order := range []string{"aabb", "bbaa", "abab", "baba", "abba", "aaaabbbb", "bbbbaaaa", "aabbbaba", "aaaa", "b", ""} {
		a, b := split(polynomial(1, 2, 3, 4))
		read := map[rune]residue{}
		for i, which := range order {
			s := a
			if which == 'b' {
				s = b
			}
			read[which]++
			if got := s.next(); got != read[which] {
				t.Errorf("%s: read %d of %c is %d", order, i, which, got)
			}
		}
		if len(order)%2 == 0 { // either may leave first
			a.leave()
			b.leave()
			continue
		}
		b.leave()
		for want := read['a'] + 1; want <= 4; want++ {
			if got := a.next(); got != want {
				t.Errorf("%s: the reader that stayed got %d, want %d", order, got, want)
			}
		}
		a.leave()
	}
	goneTo(t, before)
}

func TestComputeSeries(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, n := range []int{1, 2, 3, 25} {
		if err := computeSeries(n); err != nil {
			t.Error(err)
		}
	}
	goneTo(t, before)
}
