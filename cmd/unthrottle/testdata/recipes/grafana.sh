# kubectl exec POD -- COMMAND runs the command here.
kubectl() {
	[ "$1 $2 $3" = "exec mypod --" ] || fail "kubectl $*"
	shift 3
	"$@"
}

./server &
ready || fail "no server"

check() {
	[ "$(grep -c '^[a-z]*: frozen .* of the time' output)" = 2 ] || fail "not both were frozen"
	said 'Go program'
	said 'SLO'
}
