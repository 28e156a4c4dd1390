# The quick part of .ci/run, for before a commit.

packages = ./... ./cmd/... ./otel/... ./bench/...

.PHONY: check
check: bin/gofumpt
	@test -z "$$(bin/gofumpt -l . | tee /dev/stderr)"
	go vet $(packages)
	bin/staticcheck $(packages)
	cd cmd/kubectl-unthrottle && go vet ./... && "$(CURDIR)/bin/staticcheck" ./...
	for m in . cmd otel bench cmd/kubectl-unthrottle tools; do GOWORK=off go -C $$m mod tidy -diff || exit 1; done
	go test -race ./... ./cmd/...

# All tests of some packages, slow ones too: make test PKG=./cmd/internal/traffic/load
PKG ?= ./... ./cmd/...
.PHONY: test
test:
	UNTHROTTLE_TESTS=all go test $(PKG)

# What tests hold their output against, written anew. Read what changed before you commit it.
.PHONY: update
update:
	go test . -run Picture -update
	go test ./cgroup -run Layouts -update
	UNTHROTTLE_TESTS=all go test ./cmd/internal/show/report ./cmd/internal/show/chart ./cmd/internal/show/view ./cmd/internal/diagnose/rule -update
	cd cmd/kubectl-unthrottle && go test ./internal/judge/lint ./internal/show/page ./internal/act/alert ./internal/act/install -update
	cd cmd/kubectl-unthrottle && go test ./internal/act/agent -run 'Docs|Metrics' -update

# What the documents show of commands' output.
.PHONY: docs
docs:
	go test ./cmd/unthrottle -run TestDocs -count 1 -update

bin/gofumpt: tools/go.mod
	GOWORK=off go -C tools build -o ../bin/ honnef.co/go/tools/cmd/staticcheck mvdan.cc/gofumpt
