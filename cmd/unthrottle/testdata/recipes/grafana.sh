# kubectl exec POD -- COMMAND runs the command here.
kubectl() {
	[ "$1 $2 $3" = "exec mypod --" ] || fail "kubectl $*"
	shift 3
	"$@"
}

./server &
ready || fail "no server"

check() {
	said 'frozen'
	said 'Go program'
	said 'SLO'
}
