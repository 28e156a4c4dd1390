# A program that uses both ways of automaxprocs, and the library of this checkout.
command -v go >/dev/null || cannot "there is no go command"
export GOWORK=off GOFLAGS=-mod=mod GOPROXY=off
printf 'module example.com/app\n\ngo 1.26\n' >go.mod
cat >main.go <<'GO'
package main

import (
	"log"
	"time"

	"go.uber.org/automaxprocs/maxprocs"
)

func main() {
	maxprocs.Set(maxprocs.Logger(log.Printf))
	time.Sleep(2 * time.Second)
}
GO
cat >blank.go <<'GO'
package main

import _ "go.uber.org/automaxprocs"
GO

go() {
	if [ "$1" = get ]; then
		set -- mod edit -require "$2@v0.0.0" -replace "$2=$RECIPE_REPOSITORY"
	fi
	command go "$@"
}

check() {
	if grep -q automaxprocs go.mod *.go; then fail "automaxprocs is still there"; fi
	said 'maxprocs: '
	said 'app, pid'
}
