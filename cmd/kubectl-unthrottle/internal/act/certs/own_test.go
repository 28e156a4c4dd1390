package certs

import (
	"log/slog"
	"testing"
	"time"
)

func TestOwn(t *testing.T) {
	o := &Own{Name: "unthrottle-agent", Log: slog.New(slog.DiscardHandler)}
	now := time.Now()
	var last string
	changes := 0
	for day := range 90 {
		now := now.Add(time.Duration(day) * 24 * time.Hour)
		if err := o.load(now); err != nil {
			t.Fatal(err)
		}
		if err := Good(o, now.Add(9*24*time.Hour)); err != nil {
			t.Errorf("on day %d: %v", day, err)
		}
		c := o.Certificate()
		if err := c.Leaf.VerifyHostname("unthrottle-agent"); err != nil || c.Leaf.IsCA {
			t.Errorf("%v, an authority: %t", err, c.Leaf.IsCA)
		}
		if serial := c.Leaf.SerialNumber.String(); serial != last {
			last = serial
			changes++
		}
	}
	if changes != 5 {
		t.Errorf("%d certificates in 90 days", changes)
	}
}
