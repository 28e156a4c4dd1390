package demo

import (
	"context"
	"slices"
	"testing"
	"time"
)

func TestIsPrime(t *testing.T) {
	var primes []int64
	for n := int64(-1); n < 30; n++ {
		if isPrime(n) {
			primes = append(primes, n)
		}
	}
	if want := []int64{2, 3, 5, 7, 11, 13, 17, 19, 23, 29}; !slices.Equal(primes, want) {
		t.Errorf("primes %v, want %v", primes, want)
	}
}

func TestPieces(t *testing.T) {
	tests := []struct {
		cpu       time.Duration
		perSecond float64
		want      []int64
	}{
		{0, 1e9, nil},
		{time.Microsecond, 1e9, []int64{1000}},
		{5 * time.Millisecond, 1e9, []int64{5e6}},
		{10 * time.Millisecond, 1e9, []int64{1e7}},
		{25 * time.Millisecond, 5e8, []int64{5e6, 5e6, 25e5}},
	}
	for _, test := range tests {
		if got := pieces(test.cpu, test.perSecond); !slices.Equal(got, test.want) {
			t.Errorf("%v at %v rounds a second: %v, want %v", test.cpu, test.perSecond, got, test.want)
		}
	}
}

// The fastest try counts, however much disturbs the others.
func TestFastest(t *testing.T) {
	var now time.Duration
	tries := 0
	spin := func(rounds int64) {
		tries++
		took := time.Duration(rounds) * 2 // 2 ns a round
		if tries != 7 {
			took += time.Duration(tries) * time.Millisecond
		}
		now += took
	}
	if got := fastest(func() time.Duration { return now }, spin); got < 4.999e8 || got > 5.001e8 {
		t.Errorf("%v rounds a second, want 5e8", got)
	}
	if got := fastest(func() time.Duration { return 0 }, func(int64) {}); got <= 0 {
		t.Errorf("with a clock that stands: %v rounds a second", got)
	}
}

func TestBurnGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if !burn(ctx, time.Millisecond, 1e6, func() {}) {
		t.Error("it gave up")
	}
	cancel()
	if burn(ctx, time.Hour, 1e9, func() {}) {
		t.Error("it went on though nobody waits")
	}
}

func TestAllocate(t *testing.T) {
	for bytes, want := range map[int64]int{0: 0, 1: 1, 64: 1, 65: 2, 64 << 10: 1024} {
		n := 0
		for list := allocate(bytes); list != nil; list = list.next {
			n++
		}
		if n != want {
			t.Errorf("%d bytes are %d nodes, want %d", bytes, n, want)
		}
	}
}
