#!/bin/bash
# record.sh [SAMPLE...] records the samples that the documents show, or those named, each by a real run. It needs root on
# Linux with cgroup v1, the go command and curl, and an idle machine; all of it takes about half an hour, of which the
# classic measurements are half. Then
#
#     go test ./cmd/unthrottle -run TestDocs -update
#
# writes what they print into the documents. Read the diff: the text around a sample speaks of its figures.
#
# Not recorded here is explain-slice.json: it was measured on Linux 6.12 with cgroup v2 and 16 CPUs.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
work=$(mktemp -d)
server=
finish() {
	stop
	rm -rf "$work"
}
trap finish EXIT
go build -C "$root" -o "$work/bin/unthrottle" ./cmd/unthrottle
export PATH=$work/bin:$PATH

# serve ARGS starts the built-in server under the limit of these arguments of run.
serve() {
	unthrottle run --quiet "$@" -- unthrottle serve >"$work/serve.log" 2>&1 &
	server=$!
	until curl -fs localhost:8080/healthz >"$work/health"; do sleep 0.1; done
}

# stop ends the program that was started last.
stop() {
	if [ -n "$server" ]; then
		kill "$server" 2>/dev/null || true
		wait "$server" || true
		server=
	fi
}

# load ARGS loads it while something else is recorded; loaded waits for the end.
load() {
	unthrottle load "$@" >"$work/load.txt" &
	load=$!
	sleep 2
}
loaded() { wait "$load" || true; }

# pid is that of the program which begins with these words.
pid() { pgrep -of "^$*"; }

# tune. README and tune.md show the same one.
tune() { unthrottle tune --seed 1 --json | curveless >tune.json; }
tune-httpbin() { # somebody else's server
	GOBIN=$work/bin GOFLAGS= GOWORK=off go install github.com/mccutchen/go-httpbin/v2/cmd/go-httpbin@v2.26.0
	(cd "$work" && unthrottle tune --url http://localhost:8080/gzip --seed 1 --json -- go-httpbin -log-level OFF) | curveless >tune-httpbin.json
}
tune-nginx() { # somebody else's server, which is not Go's
	mkdir -p "$work/nginx/www"
	head -c 50000 /dev/zero | tr '\0' 'a' >"$work/nginx/www/page.txt"
	cat >"$work/nginx/nginx.conf" <<-'END'
		user root;
		error_log stderr crit;
		pid nginx.pid;
		events {}
		http {
			access_log off;
			server { listen 8080; root www; gzip on; gzip_types text/plain; }
		}
	END
	(cd "$work" && unthrottle tune --vary workers=1,2,4 --url http://localhost:8080/page.txt --seed 1 --json -- \
		nginx -p nginx -c nginx.conf -g 'daemon off; worker_processes {workers};') | curveless >tune-nginx.json
}
tune-limits() {
	unthrottle tune --cpus 0.5,1,1.5 --url '/work?cpu=2ms' --slo p99=80ms --rate 250 --for 2s --seed 5 --json >tune-limits.json
}

# without leaves out the items of a list of a document, and curveless the curves that no text shows: those of single runs and settings,
# and all of a load's but response and service time.
without() { sed -E "/^  \"$1\": \[\$/,/^  \],?\$/{//!d}"; }
curveless() {
	sed -E -e '/^  "(runs|settings)": \[$/,/^  \],?$/{/^      "(curve|axis)": \[$/,/^      \],?$/{//!d}}' \
		-e '/^  "(pacer_late|no_connection|lag|from_ready)": \{$/,/^  \},?$/{/^    "curve": \[$/,/^    \],?$/{//!d}}'
}

# here leaves out where this checkout is.
here() { sed 's#"dir": ".*"#"dir": "."#'; }

# bench.
bench() { unthrottle bench fib --budget 30s --json | here >bench.json; }
bench-chain() {
	unthrottle bench chain chainbuf sieve powser --cpus none --procs 1,2,4 --go 1.18,1.21,1.24,1.27 --for 400ms --blocks 12 --json | here | without runs >bench-chain.json
}
bench-readfile() { unthrottle bench readfile --cpus 0.5 --procs 1,2 --for 2s --json | here >bench-readfile.json; }
bench-agent() { unthrottle bench agent --cpus 1 --procs 1,2,16,192 --json | here >bench-agent.json; }

# explain of programs in groups of cgroup v1.
explain-memory() { # the service of bench/memory, with 85 MB alive
	go build -C "$root/bench" -o "$work/bin/service" ./memory/service
	GOMEMLIMIT=115MiB unthrottle run --quiet --memory 128MiB --cpus 1 -- service -alive 85 -length 1m >"$work/service.json" 2>&1 &
	server=$!
	sleep 4
	unthrottle explain --json service >explain-memory.json
	stop
}
explain-watch() {
	local group=/sys/fs/cgroup/cpu/batch
	mkdir -p "$work/demo" "$group"
	echo 50000 >"$group/cpu.cfs_quota_us"
	printf 'module demo\n\ngo 1.24\n\nrequire go.uber.org/automaxprocs v1.6.0\n' >"$work/demo/go.mod"
	cp "$root/bench/go.sum" "$work/demo"
	cat >"$work/demo/main.go" <<-'GO'
		package main

		import _ "go.uber.org/automaxprocs"

		func main() {
			for range 2 {
				go func() {
					for {
					}
				}()
			}
			select {}
		}
	GO
	GOWORK=off go build -C "$work/demo" -o "$work/bin/demo" .
	GOMAXPROCS=2500m GOMEMLIMIT=300MiB bash -c 'echo $$ >"$0/cgroup.procs" && exec demo' "$group" 2>"$work/demo.log" &
	server=$!
	sleep 4
	unthrottle explain --json "$server" >explain-watch.json
	stop
	rmdir "$group"
}

# ps, and the story of 192 Ps.
ps() {
	serve --cpus 1 --gomaxprocs 192
	load 'http://127.0.0.1:8080/work?cpu=50us&alloc=16k' -c 32 --for 8s
	unthrottle ps --json "$(pid unthrottle serve)" >ps.json
	loaded
	stop
}
many() {
	serve --cpus 1 --gomaxprocs 192
	load 'http://127.0.0.1:8080/work?cpu=50us&alloc=16k' --rate 2500 --for 20s
	unthrottle ps --json "$(pid unthrottle serve)" >many-ps.json
	unthrottle profile 127.0.0.1:8080 --save "$work/many.pb.gz" --json | without frames >many-profile.json
	loaded
	stop
	serve --cpus 1
	load 'http://127.0.0.1:8080/work?cpu=50us&alloc=16k' --rate 2500 --for 20s
	unthrottle ps --json "$(pid unthrottle serve)" >many-fixed-ps.json
	(cd "$work" && unthrottle profile 127.0.0.1:8080 --base many.pb.gz --units 25000 --base-units 25000 --json) | without frames >many-fixed-profile.json
	loaded
	stop
}

# run.
run() {
	unthrottle run --cpus 0.5 --json -o run.json -- unthrottle workload readfile --for 2s >"$work/readfile.json"
}

# load, with the answer of the server's page. An SLO that was missed is exit code 3.
load-slo() {
	serve --cpus 0.5
	unthrottle load 'http://localhost:8080/work?cpu=3ms' --rate 130 --for 15s --slo p99=50ms,errors=0.1% --json | curveless >load.json || [ $? = 3 ]
	stop
}
load-max() {
	serve --cpus 0.5
	unthrottle load 'http://localhost:8080/work?cpu=3ms' --find-max --slo p99=100ms --json | curveless >load-max.json
	stop
}
demo-page() {
	serve --cpus 0.5
	curl -s -X POST localhost:8080/maxProcs/4 >serve.txt
	stop
}

demo-picture() { unthrottle demo -o ../demo.svg; }

# watch, trace and profile.
watch() {
	unthrottle run --quiet --cpus 0.5 -- sh -c 'for i in 1 2; do while :; do :; done & done; unthrottle watch --for 4s --json' >watch.json
}
trace() {
	serve --cpus 0.5
	load 'http://127.0.0.1:8080/work?cpu=1ms&alloc=64k' -c 8 --for 9s
	unthrottle trace localhost:8080 --json >trace.json
	loaded
	stop
}
guarded() { # a snapshot of the program that docs/guard.md tells of, from which TestRecorded reads the same
	gunzip -c "$root/cmd/internal/diagnose/exectrace/testdata/guard.trace.gz" >"$work/throttled-server.trace"
	(cd "$work" && unthrottle trace throttled-server.trace --json) >guarded.json
}
trace-sparse() {
	serve --cpus 0.5
	load 'http://127.0.0.1:8080/work?cpu=3s' -c 2 --for 20s
	unthrottle trace --no-samples localhost:8080 --json >trace-sparse.json
	unthrottle trace localhost:8080 --json >trace-samples.json
	loaded
	stop
}
profile() {
	GOMAXPROCS=1 serve --cpus 1
	load 'http://127.0.0.1:8080/work?cpu=50us&alloc=16k' -c 16 --for 14s
	unthrottle profile 127.0.0.1:8080 --save "$work/one.pb.gz" >"$work/profile.txt"
	loaded
	stop
	GOMAXPROCS=192 serve --cpus 1
	load 'http://127.0.0.1:8080/work?cpu=50us&alloc=16k' -c 16 --for 14s
	(cd "$work" && unthrottle profile 127.0.0.1:8080 --base one.pb.gz --json) | without frames >profile.json
	loaded
	stop
	(cd "$root/cmd/internal/diagnose/cpuprofile/testdata" &&
		unthrottle profile procs192.pb.gz --limit 1 --base procs1.pb.gz --units 36374 --base-units 68014 --json) | without frames >profile-base.json
}

# change is a commit of somebody else's that says to be faster.
change() {
	git clone -q https://github.com/mattn/go-runewidth "$work/go-runewidth"
	(cd "$work/go-runewidth" && git checkout -q c442cf7 && GOWORK=off unthrottle bench --base HEAD~1 --gobench . \
		--run 'RuneWidthAll$|RuneWidth768$|TableAmbiguous' --budget 1m --seed 1 --json) | here | without runs >change.json
}

all=(run explain-memory explain-watch ps many demo-page load-slo load-max watch trace guarded trace-sparse profile tune tune-httpbin
	tune-nginx tune-limits demo-picture bench bench-readfile bench-agent bench-chain change)
for sample in "${@:-${all[@]}}"; do
	echo "$sample" >&2
	"$sample"
done
