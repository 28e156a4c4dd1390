# act runs the steps of the action as the runner does, in a repository with a slower change on a branch, and then the script for GitLab.
command -v git >/dev/null || cannot "there is no git command"
go() {
	case "$*" in
	"install github.com/unthrottle/unthrottle/cmd/unthrottle@latest") ;;
	*) command go "$@" ;;
	esac
}
export -f go fail
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GOWORK=off GOFLAGS=
export GOCACHE=$(XDG_CACHE_HOME= command go env GOCACHE)
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.com

repository() {
	git init -q -b main shop && cd shop
	printf 'module example.com/shop\n\ngo 1.21\n' >go.mod
	printf 'package shop\n\nfunc Sum() (n int) {\n\tfor i := 0; i < 20000; i++ {\n\t\tn += i * i\n\t}\n\treturn n\n}\n' >shop.go
	printf 'package shop\n\nimport "testing"\n\nvar sink int\n\nfunc BenchmarkSum(b *testing.B) {\n\tfor i := 0; i < b.N; i++ {\n\t\tsink += Sum()\n\t}\n}\n' >shop_test.go
	git add . && git commit -q -m first
	git update-ref refs/remotes/origin/main HEAD
	git checkout -q -b change
	sed -i s/20000/40000/ shop.go
	git commit -q -a -m second
}

# step N prints a step's script of the action.
step() {
	awk -v want="$1" '
		/^ *run: \|$/ { n++; match($0, / *run/); deep = RLENGTH; next }
		deep && match($0, /^ */) && RLENGTH + 2 >= deep { if (n == want) print substr($0, deep); next }
		{ deep = 0 }
		/^ *run: / { n++; sub(/^ *run: /, ""); if (n == want) print }
	' "$RECIPE_REPOSITORY/action.yml"
}

act() {
	repository
	export GITHUB_STEP_SUMMARY=$PWD/../summary.md VERSION=latest
	export BASE=HEAD^1 PACKAGES=./... RUN=. BUDGET=12s MARGIN=2% FAIL_ON=warning ARGS="--for 50ms"
	[ "$(step 3)" = "" ] || fail "the action has more than two steps"
	bash -eo pipefail -c "$(step 1)" || fail "installing"
	code=0
	bash -eo pipefail -c "$(step 2)" || code=$?
	[ $code = 3 ] || fail "of a build that takes twice as long the exit code is $code"
	grep -q 'Slower than HEAD^1' "$GITHUB_STEP_SUMMARY" || fail "nothing of it in the summary: $(cat "$GITHUB_STEP_SUMMARY")"
	FAIL_ON=never bash -eo pipefail -c "$(step 2)" || fail "with fail-on never: exit code $?"
	git commit -q --allow-empty -m third
	bash -eo pipefail -c "$(step 2)" || fail "of the same build: exit code $?"
	grep -q 'byte for byte' "$GITHUB_STEP_SUMMARY" || fail "the summary does not say that both are the same"
	sed -n 's/^ *- \(unthrottle .*\)/\1/p' ../.gitlab-ci.yml | sed 's/--budget 3m/--budget 12s --for 50ms/' >../gitlab
	code=0
	CI_MERGE_REQUEST_TARGET_BRANCH_NAME=main bash -eo pipefail ../gitlab || code=$?
	[ $code = 3 ] || fail "on GitLab the exit code is $code"
	cd ..
}

check() {
	grep -q 'failure' shop/bench.xml || fail "no failure in bench.xml"
	said 'Slower than origin/main:'
}
