# act runs each step of the workflow as the runner does: bash -eo pipefail, with what earlier steps have left running.
go() {
	case "$*" in
	"install github.com/unthrottle/unthrottle/cmd/unthrottle@latest") ;;
	"build -o server .") [ -x server ] ;;
	*) fail "go $*" ;;
	esac
}
export -f go fail

act() {
	export GITHUB_STEP_SUMMARY=$PWD/summary.md
	awk '
		/^ *run: \|$/ { n++; match($0, / *run/); deep = RLENGTH; next }
		deep && match($0, /^ */) && RLENGTH + 2 >= deep { print substr($0, deep) >("step" n); next }
		{ deep = 0 }
		/^ *(- )?run: / { n++; sub(/^ *(- )?run: /, ""); print >("step" n) }
	' .github/workflows/limit.yml
	[ "$(ls step*)" = "$(printf 'step%s\n' 1 2 3 4)" ] || fail "$(ls step*) in place of four steps"
	for step in step*; do
		echo "::: $step" && bash -eo pipefail "$step" || fail "$step: exit code $?"
	done
}

check() {
	grep -q SLO summary.md || fail "nothing of the SLO in the summary"
	said 'Go program'
}
