package runner

import "time"

// memoryStep is how often what a command has is read. Runtimes keep what they have taken for longer.
const memoryStep = 50 * time.Millisecond

// watchMemory reads what a place's command takes of memory until it is stopped, and returns the most that it saw.
func watchMemory(p place, stop <-chan struct{}) (most int64) {
	tick := time.NewTicker(memoryStep)
	defer tick.Stop()
	for {
		most = max(most, p.needs())
		select {
		case <-stop:
			return most
		case <-tick.C:
		}
	}
}
