package collected

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestEach(t *testing.T) {
	var steps atomic.Int32
	Each(func() bool { return steps.Add(1) < 3 })
	for i := 0; i < 1000 && steps.Load() < 3; i++ {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	for i := 0; i < 5; i++ {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if n := steps.Load(); n != 3 {
		t.Errorf("%d steps, want 3", n)
	}
}
