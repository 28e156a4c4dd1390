# The server has to be ready, and loaded for as long as it is looked at.
unthrottle() {
	case $1 in
	load) ready && command unthrottle load "http://$RECIPE_ADDRESS/isPrime/20003" -c 16 --for 20s >/dev/null 2>&1 ;;
	ps) ready && sleep 0.5 && command unthrottle "$@" ;;
	*) command unthrottle "$@" ;;
	esac
}

check() { said 'too many Ps: GOMAXPROCS is 192 under a limit of 1 CPU'; }
