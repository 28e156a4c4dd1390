package quantity

import "testing"

// TestParseWholesAbove: the error for a number that is too large says so.
func TestParseWholesAbove(t *testing.T) {
	for _, text := range []string{"65537", "99999999999999999999"} {
		if _, err := ParseWholes("1,"+text, nil); err == nil || err.Error() != text+" is more than 65536" {
			t.Errorf("%s: %v", text, err)
		}
	}
}
