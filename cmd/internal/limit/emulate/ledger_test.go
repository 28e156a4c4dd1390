package emulate

import (
	"testing"
	"time"
)

func TestLedger(t *testing.T) {
	tests := []struct {
		name string
		do   func(*ledger)
		want time.Duration
	}{
		{"a process counts from its start", func(l *ledger) {
			l.clock(1, 7*ms)
			l.clock(1, 9*ms)
		}, 9 * ms},
		{"a clock that stands still or goes back adds nothing", func(l *ledger) {
			l.clock(1, 9*ms)
			l.clock(1, 9*ms)
			l.clock(1, 8*ms)
		}, 9 * ms},
		{"children that were never seen", func(l *ledger) {
			l.reaped(1, 0, 40*ms)
			l.reaped(1, 0, 60*ms)
		}, 60 * ms},
		{"a child that was seen counts once", func(l *ledger) {
			l.join(2, 1)
			l.clock(2, 33*ms)
			l.gone(2)
			l.reaped(1, 0, 30*ms) // cut to ticks
		}, 33 * ms},
		{"the rest of a child counts when it was waited for", func(l *ledger) {
			l.join(2, 1)
			l.clock(2, 33*ms)
			l.gone(2)
			l.reaped(1, 0, 50*ms)
		}, 50 * ms},
		{"what ticks cut off comes later, and only once", func(l *ledger) {
			for pid := 2; pid < 102; pid++ { // 100 children of 3 ms
				l.join(pid, 1)
				l.clock(pid, 3*ms)
				l.gone(pid)
				l.reaped(1, 0, time.Duration(pid-1)*3*ms/userTick*userTick)
			}
		}, 300 * ms},
		{"grandchildren reach the grandparent with their parent", func(l *ledger) {
			l.join(2, 1)
			l.join(3, 2)
			l.clock(2, 5*ms)
			l.clock(3, 20*ms)
			l.gone(3)
			l.reaped(2, 1, 20*ms)
			l.gone(2)
			l.reaped(1, 0, 20*ms)
		}, 25 * ms},
		{"both go between two looks", func(l *ledger) {
			l.join(2, 1)
			l.join(3, 2)
			l.clock(2, 5*ms)
			l.clock(3, 15*ms)
			l.gone(3)
			l.gone(2)
			l.reaped(1, 0, 20*ms)
		}, 20 * ms},
		{"an orphan is lost to nobody", func(l *ledger) {
			l.join(2, 1)
			l.join(3, 2)
			l.reaped(3, 900, 0) // its parent has ended
			l.clock(3, 20*ms)
			l.gone(3)
			l.reaped(1, 0, 10*ms)
		}, 30 * ms},
		{"a parent that ignores its children", func(l *ledger) {
			l.join(2, 1)
			l.clock(2, 20*ms)
			l.gone(2)
			l.clock(1, 10*ms)
		}, 30 * ms},
		{"processes that are not ours", func(l *ledger) {
			l.clock(7, 20*ms)
			l.reaped(7, 1, 20*ms)
			l.gone(7)
		}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLedger()
			l.join(1, 0)
			tt.do(l)
			if l.used != tt.want {
				t.Errorf("used %v, want %v", l.used, tt.want)
			}
		})
	}
}
