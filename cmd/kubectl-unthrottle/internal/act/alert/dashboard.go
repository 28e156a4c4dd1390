package alert

import _ "embed"

// Dashboards for Grafana, as their JSON. Some of their series are those that the rules record: ProgramsDashboard's are of the rules without
// agents.
var (
	//go:embed dashboard.json
	Dashboard []byte
	//go:embed dashboard-programs.json
	ProgramsDashboard []byte
)
