package program

import (
	"math/rand"
	"reflect"
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	p := newPace(12000, time.Second)
	if p.total != 12000 {
		t.Errorf("%d events", p.total)
	}
	for _, test := range []struct {
		elapsed time.Duration
		due     int64
	}{
		{0, 1}, // the first arrives at once
		{83 * time.Microsecond, 1},
		{84 * time.Microsecond, 2}, // 83⅓ µs apart
		{ms, 13},
		{10 * ms, 121},
		{500 * ms, 6001},
		{time.Second, 12000}, // and no more
		{time.Hour, 12000},
	} {
		if got := p.due(test.elapsed); got != test.due {
			t.Errorf("after %v %d are due, want %d", test.elapsed, got, test.due)
		}
	}
	for _, test := range []struct {
		elapsed time.Duration
		next    int64
		want    time.Duration
	}{
		{0, 1, ms},        // in 83⅓ µs, but a timer is not that fine
		{0, 120, 10 * ms}, // a slow rate is slept through
		{50 * ms, 120, ms},
		{4 * ms, 120, 6 * ms},
	} {
		if got := p.wait(test.elapsed, test.next); got != test.want {
			t.Errorf("after %v, before event %d: %v, want %v", test.elapsed, test.next, got, test.want)
		}
	}
}

func TestPaceTotal(t *testing.T) {
	for _, test := range []struct {
		rate   int
		window time.Duration
		want   int64
	}{
		{12000, 20 * ms, 240},
		{12000, 90 * time.Minute, 64800000},
		{1, ms, 1}, // at least one
		{3, time.Second + 400*ms, 4},
		{agentMaxRate, 10000 * time.Hour, 36000000000000}, // does not overflow
	} {
		if got := newPace(test.rate, test.window).total; got != test.want {
			t.Errorf("%d a second for %v: %d, want %d", test.rate, test.window, got, test.want)
		}
	}
}

// TestPaceArrival: an event is due from its arrival on, and not before.
func TestPaceArrival(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for i := 0; i < 10000; i++ {
		p := newPace(1+random.Intn(agentMaxRate), 100*time.Hour)
		event := 1 + random.Int63n(p.total-1)
		at := p.arrival(event)
		if got := p.due(at); got != event+1 {
			t.Fatalf("rate %d, event %d: at its arrival, %v, %d are due", p.rate, event, at, got)
		}
		if got := p.due(at - 1); got > event {
			t.Fatalf("rate %d, event %d: before its arrival, %v, %d are due", p.rate, event, at, got)
		}
	}
}

func TestMessage(t *testing.T) {
	for _, e := range []event{
		{tags: map[string]string{}},
		{service: "s", resource: "GET /", micros: 1 << 40, failed: true, tags: map[string]string{"a": "", "": "b"}},
	} {
		message := encode(&e)
		got, err := decode(message)
		if err != nil || !reflect.DeepEqual(*got, e) {
			t.Errorf("%+v became %+v, %v", e, got, err)
		}
		for i := range message { // any part of it is too short
			if _, err := decode(message[:i]); err == nil {
				t.Errorf("%q passed", message[:i])
			}
		}
		if _, err := decode(append(message, 0)); err == nil {
			t.Errorf("%q passed", append(message, 0))
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(agentInput()[0])
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Add([]byte("\x00\x00\x00\x00\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, message []byte) {
		e, err := decode(message)
		if err != nil {
			return
		}
		if again, err := decode(encode(e)); err != nil || !reflect.DeepEqual(e, again) {
			t.Errorf("%+v became %+v, %v", e, again, err)
		}
	})
}

func TestServeEvents(t *testing.T) {
	messages := agentInput()
	p := pace{rate: agentMaxRate, total: 3000} // more than there are messages
	got, err := serveEvents(messages, p)
	if want := expected(messages, p.total); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	// Of 1024 messages every 50th has failed, which is 21; of 3000, two rounds and 952, it is 2×21 + 20. Each has 5 tags.
	if got.Events != 3000 || got.Errors != 62 || got.Tags != 15000 {
		t.Errorf("got %+v", got)
	}

	messages[3] = messages[3][:10]
	if _, err := serveEvents(messages, p); err == nil {
		t.Error("a message that was cut off passed")
	}
}
