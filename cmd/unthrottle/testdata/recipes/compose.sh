# docker compose runs the services' commands here, as the file has them. Where there is a docker-compose, it says whether
# it understands the file.
if command -v docker-compose >/dev/null; then
	docker-compose --file compose.yaml --profile look config --quiet || fail "compose.yaml is not understood"
fi

docker() {
	case "$*" in
	"compose up --detach api")
		command unthrottle run -q --cpus 0.5 -- ./server &
		ready
		;;
	"compose run --rm "*) unthrottle $(command_of "$4") ;;
	"compose exec api "*) shift 3 && "$@" ;;
	*) fail "docker $*" ;;
	esac
}

command_of() { sed -n "/^  $1:/,/command:/s/^ *command: //p" compose.yaml | sed "s,//api:,//127.0.0.1:,"; }

check() {
	said 'SLO'
	said 'server .* GOMAXPROCS\|NAME .*GOMAXPROCS'
	said 'frozen\|contended\|limit'
}
