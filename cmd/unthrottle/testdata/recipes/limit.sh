check() {
	said 'SLO'
	said 'server .*1'
}
