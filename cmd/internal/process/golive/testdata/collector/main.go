// This program holds 4 MB, and says again and again what its garbage collector goes by, as runtime/metrics have it: a line for each
// that it reads. It sets GOGC to SET and GOMEMLIMIT to LIMIT bytes, if they are there.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
)

var held = make([]byte, 4<<20)

func main() {
	if n, err := strconv.Atoi(os.Getenv("SET")); err == nil {
		debug.SetGCPercent(n)
	}
	if n, err := strconv.ParseInt(os.Getenv("LIMIT"), 10, 64); err == nil {
		debug.SetMemoryLimit(n)
	}
	samples := []metrics.Sample{
		{Name: "/gc/gogc:percent"}, {Name: "/gc/gomemlimit:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"},
		{Name: "/gc/scan/globals:bytes"}, {Name: "/gc/heap/goal:bytes"}, {Name: "/cpu/classes/gc/total:cpu-seconds"},
		{Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"},
	}
	lines := bufio.NewScanner(os.Stdin)
	for more := true; more; more = lines.Scan() {
		runtime.GC()
		metrics.Read(samples)
		count := func(i int) uint64 { return samples[i].Value.Uint64() }
		seconds := func(i int) float64 { return samples[i].Value.Float64() }
		fmt.Println(int64(count(0)), count(1), count(2), count(3)+count(4), count(5), seconds(6), seconds(7)-seconds(8))
	}
	runtime.KeepAlive(held)
}
