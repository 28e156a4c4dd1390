package alert

// A Metric is one of the agents', as the rules and the dashboard use it.
type Metric struct {
	Name   string
	Labels []string // without those that a scrape adds
}

var ofContainer = []string{"namespace", "pod", "container"}

func container(name string, more ...string) Metric {
	return Metric{name, append(ofContainer[:len(ofContainer):len(ofContainer)], more...)}
}

// Metrics are what an agent exposes, besides what any Go program does.
func Metrics() []Metric {
	return []Metric{
		container("unthrottle_container_info", "owner_kind", "owner", "go_version", "go_line", "gomaxprocs_from", "node"),
		container("unthrottle_container_gomaxprocs"),
		container("unthrottle_container_gomaxprocs_expected"),
		container("unthrottle_container_go_processes"),
		container("unthrottle_container_limit_cpus", "level"),
		container("unthrottle_container_cpu_seconds_total"),
		container("unthrottle_container_periods_total", "level"),
		container("unthrottle_container_throttled_periods_total", "level"),
		container("unthrottle_container_throttled_seconds_total", "level"),
		container("unthrottle_container_frozen_ratio"),
		container("unthrottle_container_running_ps"),
		container("unthrottle_container_finding", "rule", "severity"),
		container("unthrottle_container_muted", "rule"),
		{"unthrottle_agent_info", []string{"node", "version"}},
		{"unthrottle_agent_scan_seconds", nil},
		{"unthrottle_agent_scans_total", nil},
		{"unthrottle_agent_scans_late_total", nil},
		{"unthrottle_agent_processes", []string{"kind"}},
		{"unthrottle_agent_containers", nil},
		{"unthrottle_agent_containers_dropped", nil},
		{"unthrottle_agent_pods_known", nil},
	}
}
