package emulate

// Bias is by how much a comparison of two GOMAXPROCS under an emulated limit may differ from the same comparison under the
// kernel's, as a share of each ratio: of CPU time per request, and of the tail of the latencies. Each stop by a signal wakes the
// program's sleeping threads, of which there are more with more Ps, while the kernel hands out slices to each CPU; so the
// emulation itself depends on what is compared.
//
// The source is bench/emulate, with up to eight Ps. On an idle machine the CPU time of no pair differed by more than 1.2 %, and
// the widest interval of a pair over all limits and loads is from 0.91 to 1.09. The tail is known less well: two Ps against one
// were up to 17 % apart.
func Bias(procsA, procsB int) (cpu, tail float64) {
	const measured = 8
	switch {
	case procsA == procsB:
		return 0, 0
	case max(procsA, procsB) <= measured:
		return 0.10, 0.15
	}
	return 0.15, 0.15
}
