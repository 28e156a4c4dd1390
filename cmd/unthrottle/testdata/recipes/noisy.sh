[ "$(nproc)" -ge 2 ] || cannot "there is one CPU"
[ "$(id -u)" = 0 ] || cannot "binding a program to CPUs by its group needs root"

# A server is there for the first load, and is ready for the second.
./server &
first=$!
ready || fail "no server"

unthrottle() {
	case $1 in
	run)
		kill "$first"
		while kill -0 "$first" 2>/dev/null; do sleep 0.05; done
		command unthrottle "$@"
		;;
	load) sleep 0.3 && ready && command unthrottle "$@" ;;
	*) command unthrottle "$@" ;;
	esac
}

check() {
	said 'heartbeat'
	[ "$(grep -c 'response\|p99' output)" -ge 2 ] || fail "not two reports of load"
}
