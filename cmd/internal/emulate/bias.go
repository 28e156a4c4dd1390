package emulate

// Bias is by how much a comparison of two GOMAXPROCS under an emulated limit may differ from the same comparison under the
// kernel's, as a share of each ratio: of CPU time per request, and of the tail of the latencies. Each stop by a signal wakes the
// program's sleeping threads, of which there are more with more Ps, while the kernel hands out slices to each CPU; so the
// emulation itself depends on what is compared.
//
// The source is bench/emulate. Its figures of the p99, two Ps against one, were up to 17 % apart (five cells, 2 vCPUs), and
// those of CPU time and of more Ps have not been measured on an idle machine: until they are, 15 % is assumed of all.
func Bias(procsA, procsB int) (cpu, tail float64) {
	if procsA == procsB {
		return 0, 0
	}
	return 0.15, 0.15
}
