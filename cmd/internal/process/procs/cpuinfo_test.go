package procs

import "testing"

func TestCPUModel(t *testing.T) {
	for text, want := range map[string]string{
		"processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel\t\t: 1\nmodel name\t: AMD EPYC 7B13\n\nprocessor\t: 1\nmodel name\t: other\n": "AMD EPYC 7B13",
		"processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\n":                                                                 "",
		"model name": "",
		"":           "",
	} {
		if got := parseCPUModel(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
