package alert

import _ "embed"

// Dashboard is one for Grafana, as its JSON. Some of its series are those that the rules record.
//
//go:embed dashboard.json
var Dashboard []byte
