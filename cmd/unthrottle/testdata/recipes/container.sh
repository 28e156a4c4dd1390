# A container is a server under a limit. Whatever runs in it runs here.
[ "$(id -u)" = 0 ] || cannot "watching another group needs root"
ln -s "$(command -v unthrottle)" unthrottle
unthrottle run -q --cpus 1 -- ./server &
ready || fail "no server"
container=$(pgrep -P $! -x server) || fail "no server below $!"

inside() { # COMMAND [ARGS]: process 1 of the container is another one here
	[ "${1##*/}" = unthrottle ] || fail "no such command in the container: $1"
	shift
	if [ "$*" = "explain 1" ]; then set -- explain "$container"; fi
	unthrottle "$@"
}

docker() {
	case "$1 $2" in
	"cp ./unthrottle") [ -x "$2" ] && [ "$3" = api:/tmp/unthrottle ] ;;
	"exec api") shift 2 && inside "$@" ;;
	"inspect --format") echo "$container" ;;
	*) fail "docker $*" ;;
	esac
}

kubectl() {
	if [ "$1" = debug ]; then
		if command -v kubectl >/dev/null; then command kubectl debug --help | grep -q -e --custom= || fail "kubectl debug has no --custom"; fi
	fi
	while [ "$1" != -- ]; do shift; done
	shift
	inside "$@"
}

check() {
	said 'limit       1 CPU'
	said 'frozen\|no freeze\|nothing stood still\|not frozen\|contended'
}
