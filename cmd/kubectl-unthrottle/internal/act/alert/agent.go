package alert

// agents are alerts about the agents themselves: no other alert can report what they don't see.
func (o *Options) agents() []Rule {
	window := span(3 * o.Window)
	with := ` * on (job, instance) group_left (node) ` + agentInfo
	agent := `The agent of node {{ $labels.node }} ({{ $labels.instance }})`
	rule := func(name, severity, expr, summary, description string) Rule {
		return Rule{
			Alert: name, Expr: expr, For: span(o.For), Labels: map[string]string{"severity": severity},
			Annotations: o.annotations(name, summary, description),
		}
	}
	return []Rule{
		rule("UnthrottleAgentDown", "warning",
			`up{job=~"(.+/)?unthrottle-agent"} == 0 or up{pod=~"unthrottle-agent-[a-z0-9]+"} == 0`,
			`Agent {{ $labels.instance }}: Prometheus can't scrape it`,
			`{{ with $labels.pod }}Pod {{ . }}{{ else }}The agent at {{ $labels.instance }}{{ end }} does not answer, so nothing is known of the Go programs on its node. `+
				`What to do: kubectl get pods -A -l app.kubernetes.io/name=unthrottle-agent -o wide shows whether it runs; if so, a NetworkPolicy may keep Prometheus from its port 9435.`),
		rule("UnthrottleNoAgents", "warning",
			`absent(unthrottle_agent_info)`,
			`No agent of unthrottle is scraped`,
			`Prometheus has these rules and no metrics of an agent, so none of them can find anything. What to do: kubectl unthrottle install puts the agents in; if they are there, `+
				`look in Prometheus' page of targets whether they are among them: --operator makes the PodMonitor that its operator needs.`),
		rule("UnthrottleLabelsRenamed", "warning",
			`count by (`+o.by("job")+`) (unthrottle_container_info{exported_pod!=""})`,
			`Job {{ $labels.job }} renames the labels of the agents' metrics`,
			`Prometheus has renamed the labels namespace, pod and container of {{ $value }} series to exported_namespace and so on, because the scraped pod has such labels too. `+
				`The rules leave these series out: they would blame the agent for what other pods do. What to do: set honor_labels: true in the scrape configuration (honorLabels in a PodMonitor).`),
		rule("UnthrottleAgentLate", "warning",
			lines(
				`(`,
				`  rate(unthrottle_agent_scans_late_total[`+window+`]) > 0.5 * rate(unthrottle_agent_scans_total[`+window+`])`,
				`  or rate(unthrottle_agent_scans_total[`+window+`]) == 0`,
				`)`+with),
			`Node {{ $labels.node }}: the agent can't keep up`,
			agent+` starts most of its scans late, or has stopped scanning, so what it reports about the programs there is old. `+
				`What to do: look at unthrottle_agent_scan_seconds and at the agent's log; raise its memory and CPU request, or its --interval, on a node with very many processes.`),
		rule("UnthrottleAgentBlind", "warning",
			`(max by (job, instance) (unthrottle_agent_processes{kind="refused"}) > 0)`+"\n"+with[1:],
			`Node {{ $labels.node }}: the agent may not read {{ $value }} processes`,
			agent+` was refused {{ $value }} processes, so Go programs among them are missing. `+
				`What to do: its container needs the capabilities of deploy/agent, hostPID, and no AppArmor or SELinux profile that forbids ptrace; its log says what was refused.`),
		rule("UnthrottleAgentStuck", "warning",
			`(max by (job, instance) (unthrottle_agent_processes{kind="stuck"}) > 0)`+"\n"+with[1:],
			`Node {{ $labels.node }}: the kernel tells the agent nothing of {{ $value }} processes`,
			agent+` looked at {{ $value }} processes and got no answer from the kernel, so Go programs among them are missing; all others are reported. `+
				`What to do: a FUSE, NFS or other file system on that node has stopped answering, most likely, and its users stand still too: ps -eo pid,stat,wchan:32,args shows those in state D, and mount lists what is mounted.`),
		rule("UnthrottleAgentNoPods", "warning",
			`(max by (job, instance) (unthrottle_agent_pods_known) == 0)`+"\n"+with[1:],
			`Node {{ $labels.node }}: the agent can't tell whose the programs are`,
			agent+` can't list the pods of its node, so its series lack pods and owners or have old ones. `+
				`What to do: kubectl auth can-i list pods --as=system:serviceaccount:unthrottle:unthrottle-agent; its log has the API server's answer.`),
		rule("UnthrottleAgentDrops", "info",
			`(max by (job, instance) (unthrottle_agent_containers_dropped) > 0)`+"\n"+with[1:],
			`Node {{ $labels.node }}: {{ $value }} containers are left out of the metrics`,
			agent+` has more containers with Go programs than it makes series of. What to do: raise its --max-containers; each is 20 series at most.`),
	}
}
