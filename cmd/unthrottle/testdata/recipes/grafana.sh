# kubectl exec POD -- COMMAND runs the command here.
kubectl() {
	[ "$1 $2 $3" = "exec mypod --" ] || fail "kubectl $*"
	shift 3
	"$@"
}

./server &
ready || fail "no server"

check() {
	[ "$(head -n 3 output | grep -c -E '^(throttled: frozen .* of the time|contended: )')" = 2 ] || fail "not both were stopped"
	said 'Go program'
	said 'SLO'
}
