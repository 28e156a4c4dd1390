package foreign

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// hold is longer than anything here waits for one, and of a length that doesn't matter otherwise.
const hold = 20 * time.Millisecond

// settle waits until nothing is left behind.
func settle(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); Behind() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d are still behind", Behind())
		}
	}
}

// TestEach: those that don't come back don't hold up the others, and are reported when they do come back.
func TestEach(t *testing.T) {
	const n = 10
	for _, c := range []struct {
		name  string
		stuck []int
	}{{"none", nil}, {"the first", []int{0}}, {"the last", []int{9}}, {"neighbours", []int{3, 4, 5}}, {"all", []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}} {
		t.Run(c.name, func(t *testing.T) {
			release := make(chan struct{})
			late := make(chan int, n)
			var done, left []int
			var lefts []*Left
			results := make([]int, n)
			err := Each(context.Background(), n, hold, Steps{
				Walk: func(next func() (int, bool)) {
					for i, ok := next(); ok; i, ok = next() {
						if slices.Contains(c.stuck, i) {
							<-release
						}
						results[i] = i + 1
					}
				},
				Done: func(i int) {
					done = append(done, i)
					if results[i] != i+1 {
						t.Errorf("%d is said to be done", i)
					}
				},
				Left: func(i int, l *Left) {
					left, lefts = append(left, i), append(lefts, l)
				},
				Late: func(i int) { late <- i },
			})
			var others []int
			for i := 0; i < n; i++ {
				if !slices.Contains(c.stuck, i) {
					others = append(others, i)
				}
			}
			if err != nil || !slices.Equal(left, c.stuck) || !slices.Equal(done, others) {
				t.Errorf("done %v, left %v, %v", done, left, err)
			}
			if Behind() != len(c.stuck) {
				t.Errorf("%d are behind", Behind())
			}
			for _, l := range lefts {
				if l.Back() {
					t.Error("one is back before it was let go")
				}
			}
			close(release)
			settle(t)
			var came []int
			for range c.stuck {
				came = append(came, <-late)
			}
			slices.Sort(came)
			if !slices.Equal(came, c.stuck) {
				t.Errorf("%v came back, want %v", came, c.stuck)
			}
			for _, l := range lefts {
				if !l.Back() {
					t.Error("one has come back, and does not say so")
				}
			}
		})
	}
}

// TestEachSlow: what is slow on the whole, and not at any one, is not left behind.
func TestEachSlow(t *testing.T) {
	done := 0
	err := Each(context.Background(), 8, time.Second, Steps{
		Walk: func(next func() (int, bool)) {
			for _, ok := next(); ok; _, ok = next() {
				time.Sleep(200 * time.Millisecond)
			}
		},
		Done: func(int) { done++ },
		Left: func(i int, _ *Left) { t.Errorf("%d is left behind", i) },
	})
	if err != nil || done != 8 {
		t.Error(done, err)
	}
}

// TestEachEnd: the end of the context is the end, even if something is under way.
func TestEachEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	release := make(chan struct{})
	var done, left []int
	err := Each(ctx, 5, time.Hour, Steps{
		Walk: func(next func() (int, bool)) {
			for i, ok := next(); ok; i, ok = next() {
				if i == 2 {
					cancel()
					<-release
				}
			}
		},
		Done: func(i int) { done = append(done, i) },
		Left: func(i int, _ *Left) { left = append(left, i) },
	})
	if !errors.Is(err, context.Canceled) || !slices.Equal(done, []int{0, 1}) || !slices.Equal(left, []int{2}) {
		t.Errorf("done %v, left %v, %v", done, left, err)
	}
	close(release)
	settle(t)
	if err := Each(ctx, 1, time.Hour, Steps{Walk: func(func() (int, bool)) { t.Error("it was begun") }}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestWithin: an answer, an error, or none in time; and once very many wait, no others are asked.
func TestWithin(t *testing.T) {
	wrong := errors.New("wrong")
	if v, err := Within(context.Background(), time.Minute, func() (int, error) { return 7, wrong }); v != 7 || err != wrong {
		t.Error(v, err)
	}
	release := make(chan struct{})
	for i := 0; i < MostBehind; i++ {
		if _, err := Within(context.Background(), time.Millisecond, func() (int, error) { <-release; return 7, nil }); err != ErrStuck {
			t.Fatal(err)
		}
	}
	if _, err := Within(context.Background(), time.Minute, func() (int, error) { t.Error("one more was asked"); return 0, nil }); !errors.Is(err, ErrStuck) {
		t.Error(err)
	}
	close(release)
	settle(t)
	if v, err := Within(context.Background(), time.Minute, func() (int, error) { return 7, nil }); v != 7 || err != nil {
		t.Error(v, err)
	}
}
