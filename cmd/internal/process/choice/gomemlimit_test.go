package choice

import "testing"

func TestGOMEMLIMIT(t *testing.T) {
	for limit, want := range map[int64]string{0: "", 16 << 20: "", 32 << 20: "24MiB", 64 << 20: "56MiB", 128 << 20: "115MiB", 256 << 20: "230MiB", 1 << 40: "943718MiB"} {
		bytes, text := GOMEMLIMIT(limit)
		if text != want || (bytes > 0) != (want != "") || bytes > limit || bytes > 0 && NoHeadroom(bytes, limit) {
			t.Errorf("under %d: %d, %q; want %q", limit, bytes, text, want)
		}
	}
	if !NoHeadroom(256<<20, 256<<20) || NoHeadroom(240<<20, 256<<20) {
		t.Error("all of a limit leaves nothing, and 94 % leave something")
	}
}
