# The quick part of .ci/run, for before a commit.

packages = ./... ./cmd/... ./otel/... ./bench/... ./vmtest/...

.PHONY: check
check: bin/gofumpt
	@test -z "$$(bin/gofumpt -l . | tee /dev/stderr)"
	go vet $(packages)
	bin/staticcheck $(packages)
	for m in clustertest cmd/kubectl-unthrottle; do (cd $$m && go vet ./... && "$(CURDIR)/bin/staticcheck" ./...) || exit 1; done
	for m in . cmd otel bench vmtest cmd/kubectl-unthrottle clustertest tools; do GOWORK=off go -C $$m mod tidy -diff || exit 1; done
	go test -race ./... ./cmd/...

bin/gofumpt: tools/go.mod
	GOWORK=off go -C tools build -o ../bin/ honnef.co/go/tools/cmd/staticcheck mvdan.cc/gofumpt
