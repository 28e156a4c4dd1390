package program

import (
	"fmt"
	"runtime"
	"time"
)

// Power series as in Doug McIlroy's "Squinting at Power Series": a series is a goroutine that computes its coefficients
// one at a time, when it is asked. Written afresh from that idea.
//
// A product spawns a product for the rest of its factors, and every split spawns a goroutine for each coefficient. So
// there is a tree of many goroutines that live for a few messages, and as every coefficient needs those before it, next
// to nothing can run at once. This was the worst case when Go 1.5 raised the default of GOMAXPROCS.
//
// Coefficients are rational numbers. They are kept as their residues modulo a prime, as exact as a fraction of two
// integers and as good for comparing, but they never overflow, so that the number of coefficients is free. The classic
// has int64 fractions and ends at about 20.

// modulus is a prime, 2³¹−1, so that a product of two residues fits 64 bits.
const modulus = 1<<31 - 1

// A residue is a rational number modulo the prime.
type residue uint64

func (a residue) plus(b residue) residue  { return (a + b) % modulus }
func (a residue) times(b residue) residue { return a * b % modulus }
func (a residue) minus() residue          { return (modulus - a) % modulus }

// inverse returns 1/a, by Fermat's little theorem.
func (a residue) inverse() residue {
	result := residue(1)
	for e := uint(modulus - 2); e > 0; e >>= 1 {
		if e&1 == 1 {
			result = result.times(a)
		}
		a = a.times(a)
	}
	return result
}

// A series is asked for its next coefficient on one channel and gives it on the other. Its reader, of whom there is
// one, closes ask to leave.
type series struct {
	ask  chan struct{}
	give chan residue
}

func newSeries() series { return series{make(chan struct{}), make(chan residue)} }

// next is for the reader.
func (s series) next() residue {
	s.ask <- struct{}{}
	return <-s.give
}

// leave is for the reader. It does not wait.
func (s series) leave() { close(s.ask) }

// wanted is for the goroutine behind the series. It waits, and reports whether the reader is still there.
func (s series) wanted() bool {
	_, ok := <-s.ask
	return ok
}

// each makes a series whose coefficients f computes, i counting them from 0, and which reads the given ones.
func each(f func(i int) residue, reads ...series) series {
	out := newSeries()
	go func() {
		for i := 0; out.wanted(); i++ {
			out.give <- f(i)
		}
		for _, s := range reads {
			s.leave()
		}
	}()
	return out
}

// copyTo gives the coefficients of s to out until out's reader leaves.
func copyTo(out, s series) {
	for out.wanted() {
		out.give <- s.next()
	}
	s.leave()
}

// polynomial has the given coefficients, and then zeros.
func polynomial(c ...residue) series {
	return each(func(i int) residue {
		if i < len(c) {
			return c[i]
		}
		return 0
	})
}

func add(f, g series) series {
	return each(func(int) residue { return f.next().plus(g.next()) }, f, g)
}

func scale(c residue, f series) series {
	return each(func(int) residue { return c.times(f.next()) }, f)
}

// precede is c + x·f: a coefficient, and then those of f.
func precede(c residue, f series) series {
	return each(func(i int) residue {
		if i == 0 {
			return c
		}
		return f.next()
	}, f)
}

// integ is the integral of f that has the constant c. It gives c without asking f, and that is how a series can be
// defined by its own integral.
func integ(c residue, f series) series {
	return each(func(i int) residue {
		if i == 0 {
			return c
		}
		return f.next().times(residue(i).inverse())
	}, f)
}

func deriv(f series) series {
	return each(func(i int) residue {
		if i == 0 {
			f.next()
		}
		return f.next().times(residue(i + 1))
	}, f)
}

// split makes two series of one. They may be read at different speeds: a coefficient waits for the slower reader in a
// goroutine of its own.
func split(s series) (series, series) {
	a, b := newSeries(), newSeries()
	here := make(chan struct{}, 1)
	here <- struct{}{}
	go serve(s, a, b, here)
	return a, b
}

// serve gives one coefficient to the readers of a and b. The reader of a has had all coefficients before it; that of b
// has when here says so.
func serve(s, a, b series, here <-chan struct{}) {
	both, ok := false, false
	select {
	case _, ok = <-a.ask:
	case <-here:
		both = true
		select {
		case _, ok = <-a.ask:
		case _, ok = <-b.ask:
			a, b = b, a
		}
	}
	if !ok { // the reader of a has left, and the other needs no copies
		if !both {
			<-here
		}
		copyTo(b, s)
		return
	}
	after := make(chan struct{})
	go serve(s, a, b, after)
	c := s.next()
	a.give <- c
	if !both {
		<-here
	}
	if b.wanted() {
		b.give <- c
	}
	after <- struct{}{}
}

// mul is the product. With f = f₀ + x·F and g = g₀ + x·G it is f₀g₀ + x(f₀G + g₀F + x·FG).
func mul(f, g series) series {
	out := newSeries()
	go func() {
		if !out.wanted() {
			f.leave()
			g.leave()
			return
		}
		f0, g0 := f.next(), g.next()
		out.give <- f0.times(g0)
		fa, fb := split(f)
		ga, gb := split(g)
		copyTo(out, add(add(scale(f0, ga), scale(g0, fa)), precede(0, mul(fb, gb))))
	}()
	return out
}

// ring makes a series that is defined in terms of itself. No reader's leaving could end it, as it is one of its own readers, so
// it ends when stop is closed.
func ring(stop <-chan struct{}, define func(self series) series) series {
	s := newSeries()
	self, out := split(s)
	body := define(self)
	go func() {
		defer body.leave()
		for {
			select {
			case _, ok := <-s.ask:
				if !ok {
					return
				}
				s.give <- body.next()
			case <-stop:
				return
			}
		}
	}()
	return out
}

// tan is the tangent: it is the integral of 1 + tan².
func tan(stop <-chan struct{}) series {
	return ring(stop, func(self series) series {
		a, b := split(self)
		return integ(0, add(polynomial(1), mul(a, b)))
	})
}

// recip is 1/f, where f begins with 1: with f = 1 + x·F it is 1 − x·F/f.
func recip(f series, stop <-chan struct{}) series {
	return ring(stop, func(self series) series {
		f.next()
		return precede(1, scale(residue(1).minus(), mul(f, self)))
	})
}

// exp is e to the power of f, where f begins with 0: it is 1 plus the integral of itself times the derivative of f.
func exp(f series, stop <-chan struct{}) series {
	return ring(stop, func(self series) series {
		return integ(1, mul(deriv(f), self))
	})
}

// runPowser measures the first coefficients of tan x, and those of exp(log(1+x)), in which log is the integral of
// 1/(1+x).
func runPowser(o options) (Result, error) {
	goroutines := runtime.NumGoroutine()
	if err := computeSeries(o.size/3 + 1); err != nil { // warm up
		return Result{}, err
	}
	for i := 0; i < 1000 && runtime.NumGoroutine() > goroutines; i++ {
		time.Sleep(time.Millisecond) // the rings of the warm-up come apart
	}
	m := startMeter()
	err := computeSeries(o.size)
	return m.stop(1), err
}

func computeSeries(n int) error {
	stop := make(chan struct{})
	defer close(stop)
	t, want := tan(stop), tangent(n)
	defer t.leave()
	for i := 0; i < n; i++ {
		if got := t.next(); got != want[i] {
			return fmt.Errorf("coefficient %d of tan is %d, want %d (modulo %d)", i, got, want[i], modulus)
		}
	}
	e := exp(integ(0, recip(polynomial(1, 1), stop)), stop)
	defer e.leave()
	for i := 0; i < n; i++ {
		want := residue(0)
		if i < 2 {
			want = 1 // it must come out as 1 + x
		}
		if got := e.next(); got != want {
			return fmt.Errorf("coefficient %d of exp(log(1+x)) is %d, want %d (modulo %d)", i, got, want, modulus)
		}
	}
	return nil
}

// tangent returns the first n coefficients of tan x, computed the plain way: i+1 times the next one is the coefficient i
// of 1 + tan².
func tangent(n int) []residue {
	t := make([]residue, n)
	for i := 0; i+1 < n; i++ {
		sum := residue(0)
		if i == 0 {
			sum = 1
		}
		for j := 0; j <= i; j++ {
			sum = sum.plus(t[j].times(t[i-j]))
		}
		t[i+1] = sum.times(residue(i + 1).inverse())
	}
	return t
}
