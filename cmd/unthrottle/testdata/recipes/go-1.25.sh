command -v go >/dev/null || cannot "there is no go command"
export GOWORK=off GOFLAGS= GOPROXY=off
printf 'module example.com/app\n\ngo 1.24\n' >go.mod
cat >main.go <<'GO'
package main

import "time"

func main() { time.Sleep(2 * time.Second) }
GO

check() {
	said 'go 1.24'
	[ "$(grep -c 'containermaxprocs off' output)" = 2 ] || fail "containermaxprocs is not off twice"
	[ "$(grep -c 'go line 1.25$' output)" = 1 ] || fail "containermaxprocs is not on once"
}
