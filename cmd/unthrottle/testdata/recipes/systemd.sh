# A service in a slice is a server in a group below one that has a quota.
[ "$(id -u)" = 0 ] || cannot "a group below another one needs root"
unthrottle run -q --cpus 1.5 --limit-with cgroup -- bash -c '
	while IFS=: read -r id controllers path; do
		for mount in /sys/fs/cgroup/cpu /sys/fs/cgroup/cpu,cpuacct /sys/fs/cgroup; do
			case $mount,$id,$controllers in
			*/cpu*,*,*cpu | *,0,)
				if [[ $path == */unthrottle-run-* && -d $mount$path ]]; then
					mkdir "$mount$path/api.service" && echo $$ >"$mount$path/api.service/cgroup.procs" && exec ./server
				fi
				;;
			esac
		done
	done </proc/self/cgroup
	exit 77' &
ready || cannot "no group below the one of run can be made here"
service=$(pgrep -P $! -x server) || fail "no server below $!"

systemctl() {
	case "$*" in
	*api.slice) echo CPUQuotaPerSecUSec=1.5s ;;
	*api.service) echo "$service" ;;
	esac
}

check() {
	said 'limit       1.5 CPUs, set by the parent of its cgroup'
	said 'api.service'
	said 'it reads its own cgroup only, which has no limit'
}
