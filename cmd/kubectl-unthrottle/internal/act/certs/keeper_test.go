package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// An apiServer has one Secret and one webhook configuration, each with a resourceVersion, as a real one would.
type apiServer struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	version  map[string]int // of each object
	secret   map[string]any // nil: none
	bundles  [2][]byte
	missing  bool           // the configuration
	refuse   map[string]int // status codes by "METHOD kind"
	calls    map[string]int
	beforeIt func(method string) // another replica, between a read and a write
}

func newAPIServer(t *testing.T) *apiServer {
	a := &apiServer{t: t, version: map[string]int{"secret": 7, "configuration": 7}, refuse: map[string]int{}, calls: map[string]int{}}
	a.Server = httptest.NewTLSServer(a)
	t.Cleanup(a.Close)
	return a
}

// keeper is a replica with credentials in files.
func (a *apiServer) keeper(now func() time.Time) *Keeper {
	dir := a.t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
	for name, text := range map[string]string{"ca.crt": string(ca), "token": "secret\n", "namespace": "unthrottle\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	host, port, _ := strings.Cut(strings.TrimPrefix(a.URL, "https://"), ":")
	env := map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
	c, namespace, err := InCluster(func(name string) string { return env[name] }, dir)
	if err != nil || namespace != "unthrottle" {
		a.t.Fatalf("%q, %v", namespace, err)
	}
	return &Keeper{
		Client: c, Namespace: namespace, Secret: "certificate", Configuration: "webhook", Names: names, Lives: lives, Now: now,
		Every: time.Millisecond, Log: slog.New(slog.DiscardHandler),
	}
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	kind := "configuration"
	if strings.Contains(r.URL.Path, "/secrets") {
		kind = "secret"
	}
	if r.Method != http.MethodGet && a.beforeIt != nil {
		a.beforeIt(r.Method)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	call := r.Method + " " + kind
	a.calls[call]++
	status := func(code int, message string) {
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "message": message})
	}
	if r.Header.Get("Authorization") != "Bearer secret" {
		status(http.StatusUnauthorized, "Unauthorized")
		return
	}
	if code := a.refuse[call]; code != 0 {
		status(code, "refused by the test")
		return
	}
	meta := func() map[string]any {
		return map[string]any{"resourceVersion": strconv.Itoa(a.version[kind]), "labels": map[string]any{"kept": "yes"}}
	}
	switch call {
	case "GET secret", "POST secret", "PUT secret":
		var sent map[string]any
		if r.Method != http.MethodGet && json.Unmarshal(body, &sent) != nil {
			status(http.StatusBadRequest, "no JSON")
			return
		}
		switch {
		case r.Method == http.MethodPost && a.secret != nil:
			status(http.StatusConflict, "it exists")
			return
		case r.Method != http.MethodPost && a.secret == nil:
			status(http.StatusNotFound, "there is none")
			return
		case r.Method == http.MethodPut && sent["metadata"].(map[string]any)["resourceVersion"] != strconv.Itoa(a.version[kind]):
			status(http.StatusConflict, "it has been modified")
			return
		case r.Method == http.MethodPut && sent["metadata"].(map[string]any)["labels"] == nil:
			a.t.Error("the Secret's labels are lost")
		}
		if sent != nil {
			a.version[kind]++
			a.secret = sent
		}
		a.secret["metadata"] = meta()
		json.NewEncoder(w).Encode(a.secret)
	case "GET configuration", "PATCH configuration":
		if a.missing {
			status(http.StatusNotFound, "there is none")
			return
		}
		if r.Method == http.MethodPatch {
			var ops []struct {
				Op, Path string
				Value    json.RawMessage
			}
			if json.Unmarshal(body, &ops) != nil || len(ops) < 2 || ops[0].Op != "test" {
				status(http.StatusBadRequest, "no patch")
				return
			}
			if string(ops[0].Value) != strconv.Quote(strconv.Itoa(a.version[kind])) {
				status(http.StatusUnprocessableEntity, "the test failed")
				return
			}
			for _, op := range ops[1:] {
				i, _ := strconv.Atoi(strings.Split(op.Path, "/")[2])
				json.Unmarshal(op.Value, &a.bundles[i])
			}
			a.version[kind]++
		}
		var hooks []any
		for _, bundle := range a.bundles {
			hooks = append(hooks, map[string]any{"clientConfig": map[string]any{"caBundle": bundle}})
		}
		json.NewEncoder(w).Encode(map[string]any{"metadata": meta(), "webhooks": hooks})
	default:
		status(http.StatusMethodNotAllowed, call)
	}
}

// trusts reports whether a caBundle trusts what a keeper shows.
func trusts(bundle []byte, k *Keeper, now time.Time) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	_, err := k.Certificate().Leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, DNSName: names[0]})
	return err
}

// TestRotations runs three replicas for 300 days, at odd times and into each other's calls. Regardless of which state an API
// server saw while authorities settle, it trusts what each replica shows.
func TestRotations(t *testing.T) {
	const day = 24 * time.Hour
	lives := Lives{Authority: 90 * day, Certificate: 10 * day, Skew: time.Hour, Settle: time.Hour}
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, 1))
		a := newAPIServer(t)
		now := began
		clock := func() time.Time { return now }
		replicas := []*Keeper{a.keeper(clock), a.keeper(clock), a.keeper(clock)}
		for _, k := range replicas {
			k.Lives = lives
		}
		sync := func(k *Keeper) {
			if err := k.sync(t.Context()); err != nil && !is(err, http.StatusConflict, http.StatusUnprocessableEntity) {
				t.Fatalf("seed %d, %v: %v", seed, now, err)
			}
		}
		inside := false
		a.beforeIt = func(string) {
			if !inside && random.IntN(3) == 0 {
				inside = true
				sync(replicas[random.IntN(len(replicas))])
				inside = false
			}
		}
		type known struct {
			until  time.Time
			bundle []byte
		}
		var before []known
		shown := map[string]bool{}
		for range 3 { // so that all begin well
			for _, k := range replicas {
				sync(k)
			}
		}
		for end := began.Add(300 * day); now.Before(end); {
			step := time.Duration(random.Int64N(int64(30 * time.Hour)))
			if random.IntN(3) == 0 {
				step = time.Duration(random.Int64N(int64(lives.Settle)))
			}
			before = append(before, known{now.Add(step), bytes.Clone(a.bundles[random.IntN(2)])})
			now = now.Add(step)
			for _, k := range replicas {
				if random.IntN(4) > 0 {
					sync(k)
				}
			}
			for _, k := range replicas {
				shown[k.Certificate().Leaf.SerialNumber.String()] = true
				for _, b := range before {
					if now.Sub(b.until) <= lives.Settle {
						if err := trusts(b.bundle, k, now); err != nil {
							t.Fatalf("seed %d: at %v an API server does not trust the certificate: %v", seed, now, err)
						}
					}
				}
			}
			for len(before) > 0 && now.Sub(before[0].until) > lives.Settle {
				before = before[1:]
			}
		}
		if n := len(readBundle(a.bundles[0])); n < 1 || n > 3 || !bytes.Equal(a.bundles[0], a.bundles[1]) {
			t.Errorf("seed %d: %d authorities are trusted at the end", seed, n)
		}
		if len(shown) < 30 {
			t.Errorf("seed %d: %d certificates", seed, len(shown))
		}
	}
}

// TestLong leaves it unattended for years.
func TestLong(t *testing.T) {
	a := newAPIServer(t)
	now := began
	k := a.keeper(func() time.Time { return now })
	for range 4 {
		if err := k.sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := trusts(a.bundles[0], k, now); err != nil {
			t.Fatal(err)
		}
		if err := Good(k, now); err != nil {
			t.Error(err)
		}
		now = now.Add(2 * 365 * 24 * time.Hour)
		if err := Good(k, now); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("after two years: %v", err)
		}
	}
}

func TestTrouble(t *testing.T) {
	now := func() time.Time { return began }
	t.Run("no configuration yet", func(t *testing.T) {
		a := newAPIServer(t)
		a.missing = true
		k := a.keeper(now)
		if err := k.sync(t.Context()); !is(err, http.StatusNotFound) || k.Certificate() == nil {
			t.Errorf("%v, certificate %v", err, k.Certificate() != nil)
		}
		a.missing = false
		if err := k.sync(t.Context()); err != nil || trusts(a.bundles[1], k, began) != nil {
			t.Error(err)
		}
	})
	t.Run("may not make the Secret", func(t *testing.T) {
		a := newAPIServer(t)
		a.refuse["POST secret"] = http.StatusForbidden
		k := a.keeper(now)
		if err := k.sync(t.Context()); !is(err, http.StatusForbidden) || !strings.Contains(err.Error(), "the Secret is not there, and can't be made") {
			t.Error(err)
		}
	})
	t.Run("broken Secret", func(t *testing.T) {
		a := newAPIServer(t)
		a.secret = map[string]any{"metadata": map[string]any{}, "data": map[string][]byte{keyServing: []byte("what"), keyTrusted: []byte("ever")}}
		k := a.keeper(now)
		if err := k.sync(t.Context()); err != nil || trusts(a.bundles[0], k, began) != nil {
			t.Error(err)
		}
	})
	t.Run("gone later", func(t *testing.T) {
		a := newAPIServer(t)
		k := a.keeper(now)
		if err := k.sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		shown := k.Certificate()
		a.Close()
		if err := k.sync(t.Context()); err == nil || k.Certificate() != shown {
			t.Errorf("%v, the certificate changed: %v", err, k.Certificate() != shown)
		}
	})
	t.Run("quiet when nothing is due", func(t *testing.T) {
		a := newAPIServer(t)
		k := a.keeper(now)
		for range 5 {
			if err := k.sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if a.calls["PUT secret"] != 1 || a.calls["PATCH configuration"] != 1 || a.calls["GET secret"] != 5 {
			t.Errorf("calls %v", a.calls)
		}
	})
}

func TestRun(t *testing.T) {
	a := newAPIServer(t)
	a.refuse["GET secret"] = http.StatusServiceUnavailable
	k := a.keeper(nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	wait := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	wait("no failure is counted", func() bool { return k.Failures() > 0 })
	a.mu.Lock()
	delete(a.refuse, "GET secret")
	a.mu.Unlock()
	wait("there is no certificate", func() bool { return k.Certificate() != nil })
	cancel()
	<-done
	if _, err := Get(k)(nil); err != nil {
		t.Error(err)
	}
}

func TestInCluster(t *testing.T) {
	_, _, err := InCluster(func(string) string { return "" }, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "this is not a pod") {
		t.Error(err)
	}
	_, _, err = InCluster(func(string) string { return "1" }, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "namespace") {
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		lives Lives
		every time.Duration
		want  string
	}{
		{Lives{}, 0, ""},
		{Lives{Certificate: time.Minute}, 0, "does not outlast its own renewal"},
		{Lives{Certificate: 90 * 24 * time.Hour, Authority: 91 * 24 * time.Hour}, 0, "an authority for 2184h0m0s is too short"},
	} {
		err := (&Keeper{Lives: c.lives, Every: c.every}).Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.lives, err, c.want)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	f := &Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), Every: time.Millisecond, Log: slog.New(slog.DiscardHandler)}
	if err := f.Load(); err == nil || !strings.Contains(err.Error(), "reading the certificate "+f.Cert+": no such file") {
		t.Error(err)
	}
	authority, err := newAuthority("a", time.Now(), lives)
	if err != nil {
		t.Fatal(err)
	}
	write := func(c pair) {
		for path, text := range map[string][]byte{f.Cert: c.certPEM, f.Key: c.keyPEM} {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	fresh := func() pair {
		c, err := newCertificate(names, authority, time.Now(), lives)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	one, two := fresh(), fresh()
	write(one)
	if err := f.Load(); err != nil || !f.Certificate().Leaf.Equal(one.Leaf) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	os.WriteFile(f.Key, []byte("half a k"), 0o600)
	for end := time.Now().Add(time.Minute); f.Failures() == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if !f.Certificate().Leaf.Equal(one.Leaf) {
		t.Error("a broken key takes the certificate away")
	}
	write(two)
	for end := time.Now().Add(time.Minute); !f.Certificate().Leaf.Equal(two.Leaf) && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if !f.Certificate().Leaf.Equal(two.Leaf) {
		t.Error("the new certificate is not shown")
	}
	cancel()
	<-done
}
